"""Every error of the service as a problem document (RFC 9457), and back again on the client's side."""

from collections.abc import Mapping, Sequence
from http import HTTPStatus
from typing import Any, NamedTuple

import structlog
from fastapi import FastAPI
from fastapi.exceptions import RequestValidationError
from pydantic import BaseModel
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from domain.errors import (
    AccessError,
    CapacityError,
    ConflictError,
    GputabError,
    InputError,
    NotFoundError,
    UnavailableError,
)

MEDIA_TYPE = "application/problem+json"
_SHOWN_PROBLEMS = 20
_log = structlog.get_logger(__name__)


class FieldProblem(BaseModel):
    """What is wrong with one part of a request; `where` is its place, such as body.count."""

    where: str
    problem: str


class Problem(BaseModel):
    """A problem document. `reasons` says for each node why it cannot take a request (capacity only)."""

    type: str
    title: str
    status: int
    detail: str
    reasons: dict[str, str] | None = None
    fields: list[FieldProblem] | None = None


class _Kind(NamedTuple):
    """A kind of problem: `type` tells it from others of the same status."""

    error: type[GputabError]
    status: int
    type: str
    title: str


# The first that fits counts, so a subclass stands before its base.
_KINDS = (
    _Kind(InputError, 422, "urn:gputab:problem:input", "The request is unusable"),
    _Kind(NotFoundError, 404, "urn:gputab:problem:not-found", "There is no such thing for you"),
    _Kind(AccessError, 403, "urn:gputab:problem:access", "Not allowed"),
    _Kind(CapacityError, 409, "urn:gputab:problem:capacity", "No capacity now"),
    _Kind(ConflictError, 409, "urn:gputab:problem:conflict", "It contradicts what is recorded"),
    _Kind(UnavailableError, 503, "urn:gputab:problem:unavailable", "Try again later"),
)


def problem_response(error: GputabError) -> Response:
    """The answer for an error raised on purpose."""
    kind = next((each for each in _KINDS if isinstance(error, each.error)), None)
    if kind is None:
        return _response(_internal())
    status, headers = kind.status, {}
    if isinstance(error, AccessError) and not error.authenticated:
        status = 401
        headers["WWW-Authenticate"] = 'Bearer realm="gputab"'
    problem = Problem(type=kind.type, title=kind.title, status=status, detail=str(error))
    if isinstance(error, CapacityError):
        problem.reasons = error.reasons
    return _response(problem, headers)


def error_of(problem: Problem) -> GputabError:
    """The error a client raises for the service's answer."""
    if problem.type == "urn:gputab:problem:capacity":
        return CapacityError(problem.detail, problem.reasons or {})
    if problem.type == "urn:gputab:problem:access":
        return AccessError(problem.detail, authenticated=problem.status != 401)
    for kind in _KINDS:
        if kind.type == problem.type:
            return kind.error(problem.detail)
    return UnavailableError(f"cannot use the allocator's answer {problem.status}: {problem.detail}")


def install(app: FastAPI) -> None:
    """Answer every error of the app with a problem document, and say so in its OpenAPI description."""
    app.add_exception_handler(GputabError, _on_gputab_error)
    app.add_exception_handler(RequestValidationError, _on_invalid_request)
    app.add_exception_handler(HTTPException, _on_http_error)
    app.add_exception_handler(Exception, _on_internal_error)
    describe = app.openapi

    def openapi() -> dict[str, Any]:
        if app.openapi_schema is None:
            _describe_problems(describe())
        return describe()

    # FastAPI's documented way to extend the description.
    app.openapi = openapi  # type: ignore[method-assign]


def _on_gputab_error(_request: Request, error: Exception) -> Response:
    return problem_response(error) if isinstance(error, GputabError) else _response(_internal())


def _on_invalid_request(_request: Request, error: Exception) -> Response:
    found: Sequence[Any] = error.errors() if isinstance(error, RequestValidationError) else ()
    fields = [
        FieldProblem(where=".".join(str(part) for part in each["loc"]), problem=_message(each))
        for each in found[:_SHOWN_PROBLEMS]
    ]
    said = "; ".join(f"{each.where}: {each.problem}" for each in fields)
    kind = _KINDS[0]
    return _response(
        Problem(
            type=kind.type,
            title=kind.title,
            status=kind.status,
            detail=f"cannot use the request: {said}; see /docs for its form",
            fields=fields,
        )
    )


def _on_http_error(_request: Request, error: Exception) -> Response:
    """What the framework refuses by itself: no such path, no such method, a body that is too large."""
    if not isinstance(error, HTTPException):
        return _response(_internal())
    title = HTTPStatus(error.status_code).phrase
    detail = f"cannot answer: {error.detail.lower()}; see /docs for what there is"
    return _response(
        Problem(type="about:blank", title=title, status=error.status_code, detail=detail), error.headers or {}
    )


def _on_internal_error(request: Request, error: Exception) -> Response:
    _log.error("request failed", method=request.method, path=request.url.path, error=repr(error))
    return _response(_internal())


def _internal() -> Problem:
    detail = "cannot answer: an error inside the service; nothing was changed, and its log says more"
    return Problem(type="about:blank", title="Internal Server Error", status=500, detail=detail)


def _message(found: Mapping[str, Any]) -> str:
    if found["type"] == "json_invalid":
        return f"not JSON: {found['ctx']['error']}"
    shown = repr(found.get("input"))
    return f"{found['msg']} (got {shown if len(shown) <= 60 else shown[:57] + '...'})"


def _response(problem: Problem, headers: Mapping[str, str] | None = None) -> Response:
    content = problem.model_dump_json(exclude_none=True)
    return Response(content, status_code=problem.status, headers=dict(headers or {}), media_type=MEDIA_TYPE)


def _describe_problems(schema: dict[str, Any]) -> None:
    """Put the problem document in place of the framework's own description of a refused request."""
    schemas = schema.setdefault("components", {}).setdefault("schemas", {})
    template = "#/components/schemas/{model}"
    described = Problem.model_json_schema(ref_template=template)
    schemas.update(described.pop("$defs"))
    schemas["Problem"] = described
    schemas.pop("HTTPValidationError", None)
    schemas.pop("ValidationError", None)
    answer = {
        "description": "What went wrong",
        "content": {MEDIA_TYPE: {"schema": {"$ref": template.format(model="Problem")}}},
    }
    for operations in schema["paths"].values():
        for operation in operations.values():
            operation["responses"].pop("422", None)
            operation["responses"]["default"] = answer
