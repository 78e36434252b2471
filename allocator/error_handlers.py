"""Every error of the service, whoever raised it, answered with a problem document."""

from collections.abc import Mapping, Sequence
from http import HTTPStatus
from typing import Any

import structlog
from fastapi import FastAPI
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from allocator.problems import MEDIA_TYPE, FieldProblem, Problem, internal_problem, problem_of
from domain.errors import GputabError, InputError

_SHOWN_PROBLEMS = 20
_log = structlog.get_logger(__name__)


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
    app.openapi = openapi  # type: ignore[method-assign] # FastAPI's documented way to extend the schema


def problem_response(error: GputabError) -> Response:
    """The answer for an error raised on purpose."""
    problem = problem_of(error)
    return _response(problem, {"WWW-Authenticate": 'Bearer realm="gputab"'} if problem.status == 401 else None)


def _on_gputab_error(_request: Request, error: Exception) -> Response:
    return problem_response(error) if isinstance(error, GputabError) else _response(internal_problem())


def _on_invalid_request(_request: Request, error: Exception) -> Response:
    found: Sequence[Any] = error.errors() if isinstance(error, RequestValidationError) else ()
    fields = [
        FieldProblem(where=".".join(str(part) for part in each["loc"]), problem=_message(each))
        for each in found[:_SHOWN_PROBLEMS]
    ]
    said = "; ".join(f"{each.where}: {each.problem}" for each in fields)
    problem = problem_of(InputError(f"cannot use the request: {said}; see /docs for its form"))
    problem.fields = fields
    return _response(problem)


def _on_http_error(_request: Request, error: Exception) -> Response:
    """What the framework refuses by itself: no such path, no such method, a body that is too large."""
    if not isinstance(error, HTTPException):
        return _response(internal_problem())
    title = HTTPStatus(error.status_code).phrase
    detail = f"cannot answer: {error.detail.lower()}; see /docs for what there is"
    return _response(
        Problem(type="about:blank", title=title, status=error.status_code, detail=detail), error.headers or {}
    )


def _on_internal_error(request: Request, error: Exception) -> Response:
    _log.error("request failed", method=request.method, path=request.url.path, error=repr(error))
    return _response(internal_problem())


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
