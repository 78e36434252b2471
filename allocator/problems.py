"""Problem documents (RFC 9457): what an error is to a client, and the error again that a document means."""

from typing import NamedTuple

from pydantic import BaseModel

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


def problem_of(error: GputabError) -> Problem:
    """The document for an error raised on purpose."""
    kind = next((each for each in _KINDS if isinstance(error, each.error)), None)
    if kind is None:
        return internal_problem()
    problem = Problem(type=kind.type, title=kind.title, status=kind.status, detail=str(error))
    if isinstance(error, AccessError) and not error.authenticated:
        problem.status = 401
    if isinstance(error, CapacityError):
        problem.reasons = error.reasons
    return problem


def internal_problem() -> Problem:
    """The document for what should not have happened; it tells nothing of it."""
    detail = "cannot answer: an error inside the service; nothing was changed, and its log says more"
    return Problem(type="about:blank", title="Internal Server Error", status=500, detail=detail)


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
