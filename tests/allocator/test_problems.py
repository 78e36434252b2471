"""Whatever goes wrong is a problem document, and the description of the service says so and works offline."""

from typing import TYPE_CHECKING, Any

import pytest
from sqlalchemy import text

from allocator.error_handlers import problem_response
from allocator.problems import Problem, error_of
from domain.errors import (
    AccessError,
    CapacityError,
    ConflictError,
    GputabError,
    InputError,
    NotFoundError,
    UnavailableError,
)

if TYPE_CHECKING:
    from tests.allocator.conftest import Ledger, Service

JSON = {"Content-Type": "application/json"}


@pytest.mark.parametrize(
    ("error", "status"),
    [
        (InputError("cannot a"), 422),
        (NotFoundError("cannot b"), 404),
        (AccessError("cannot c", authenticated=False), 401),
        (AccessError("cannot d", authenticated=True), 403),
        (CapacityError("cannot e", {"n1": "in use"}), 409),
        (ConflictError("cannot f"), 409),
        (UnavailableError("cannot g"), 503),
    ],
)
def test_an_error_travels_as_a_problem_and_comes_out_as_itself(error: GputabError, status: int) -> None:
    response = problem_response(error)
    assert response.status_code == status
    assert response.media_type == "application/problem+json"
    assert ("www-authenticate" in response.headers) == (status == 401)
    back = error_of(Problem.model_validate_json(bytes(response.body)))
    assert (type(back), str(back)) == (type(error), str(error))
    assert vars(back) == vars(error)


def test_an_unknown_error_of_ours_is_an_internal_one() -> None:
    assert problem_response(GputabError("cannot x")).status_code == 500


@pytest.mark.parametrize(
    ("body", "said"),
    [
        (b"{", "not JSON"),
        (b"[]", "body"),
        (b"", "body: Field required"),
        (b'{"project": "lab"}', "body.kind: Field required"),
        (b'{"project": "lab", "kind": "half"}', "body.kind"),
        (b'{"project": "lab", "kind": "whole", "gpus": 2}', "body.gpus: Extra inputs are not permitted (got 2)"),
        (b'{"project": "lab", "kind": "whole", "count": "2"}', "body.count: Input should be a valid integer (got '2')"),
        (b'{"project": "lab", "kind": "whole", "count": 1.5}', "body.count"),
        (b'{"project": "lab", "kind": "whole", "count": NaN}', "body.count"),
        (b'{"project": "lab", "kind": "whole", "count": 1e400}', "body.count"),
        (b'{"project": "lab", "kind": "whole", "count": 0}', "body.count"),
        (b'{"project": "lab", "kind": "whole", "count": true}', "body.count"),
        (b'{"project": "Lab", "kind": "whole"}', "cannot use 'Lab' as a project"),
        (b'{"project": "lab", "kind": "share", "milli_gpu": 1000}', "body.milli_gpu"),
        (b'{"project": "lab", "kind": "share", "milli_gpu": 9, "vram_mib": 9223372036854775807}', "body.vram_mib"),
        (b'{"project": "lab", "kind": "whole", "labels": {"a": 1}}', "body.labels.a"),
        (b'{"project": "lab", "kind": "whole", "tenant": "\\ud800"}', ""),
    ],
)
def test_an_unusable_body_is_one_line_with_the_place_and_the_value(service: "Service", body: bytes, said: str) -> None:
    answer = service.call("POST", "/v1/allocations", "acme", content=body, headers=JSON)
    assert answer.status_code == 422
    problem = answer.json()
    assert answer.headers["content-type"] == "application/problem+json"
    assert problem["type"] == "urn:gputab:problem:input"
    assert said in problem["detail"]
    assert problem["detail"].startswith("cannot ")
    assert "\n" not in problem["detail"]


def test_what_the_framework_refuses_is_a_problem_too(service: "Service") -> None:
    asked: list[tuple[str, str, int, dict[str, Any]]] = [
        ("GET", "/v1/none", 404, {}),
        ("DELETE", "/v1/devices", 405, {}),
        ("GET", "/v1/allocations?limit=0", 422, {}),
        ("GET", "/v1/allocations?limit=x", 422, {}),
        ("GET", "/v1/allocations?state=half", 422, {}),
        ("GET", "/v1/allocations?cursor=x", 422, {}),
        ("GET", "/v1/allocations?cursor=99999999999999999999:a", 422, {}),
        ("POST", "/v1/allocations", 422, {"json": {}, "headers": {"Idempotency-Key": "x" * 200}}),
        ("POST", "/v1/allocations", 413, {"content": b"x" * (2**20 + 1), "headers": JSON}),
        ("POST", "/v1/allocations", 413, {"content": iter([b"x" * 2**19] * 3), "headers": JSON}),
    ]
    for method, path, status, content in asked:
        answer = service.call(method, path, "operator", **content)
        assert (answer.status_code, answer.headers["content-type"]) == (status, "application/problem+json"), path
        assert Problem.model_validate_json(answer.content).status == status


@pytest.mark.parametrize(
    ("method", "path", "content"),
    [
        ("GET", "/v1/allocations/%00", {}),
        ("POST", "/v1/allocations/a%00b/release", {}),
        ("GET", "/v1/allocations?cursor=1:%00", {}),
        ("POST", "/v1/devices/%00/state", {"json": {"state": "ok", "reason": "x"}}),
        ("POST", "/v1/mig-instances/%00/adopt", {}),
        ("GET", "/v1/allocations/%ff%fe", {}),
    ],
)
def test_a_name_that_no_database_can_hold_is_no_crash(
    service: "Service", method: str, path: str, content: dict[str, Any]
) -> None:
    """PostgreSQL keeps no NUL, where SQLite finds nothing of that name."""
    answer = service.call(method, path, "operator", **content)
    assert answer.status_code in (200, 404, 422)
    assert "inside the service" not in answer.text


def test_a_database_that_is_gone_is_unavailable_and_not_a_crash(service: "Service", ledger: "Ledger") -> None:
    with ledger.database.write() as connection:
        connection.execute(text("ALTER TABLE tokens RENAME TO hidden"))
    answer = service.call("GET", "/v1/devices", "operator")
    assert answer.status_code == 503
    assert answer.json()["type"] == "urn:gputab:problem:unavailable"
    assert "`gputab db upgrade`" in answer.json()["detail"]


def test_the_description_names_problem_documents_and_the_token(service: "Service") -> None:
    schema = service.call("GET", "/openapi.json", None).json()
    for path, operations in schema["paths"].items():
        for operation in operations.values():
            assert list(operation["responses"]["default"]["content"]) == ["application/problem+json"]
            assert "422" not in operation["responses"]
            assert ("security" in operation) == (path != "/healthz")
    assert set(schema["components"]["schemas"]["Problem"]["required"]) == {"type", "title", "status", "detail"}
    assert "HTTPValidationError" not in schema["components"]["schemas"]


def test_the_description_has_a_page_that_needs_no_other_host(service: "Service") -> None:
    page = service.call("GET", "/docs", None)
    assert page.status_code == 200
    assert "http" not in page.text.replace("HTTP", "").replace("http-equiv", "")
    for asset in ("swagger-ui-bundle.js", "swagger-ui.css", "favicon.png"):
        assert f"/docs-assets/{asset}" in page.text
        assert service.call("GET", f"/docs-assets/{asset}", None).status_code == 200
    assert service.call("GET", "/docs-assets/../v1/devices", None).status_code in (401, 404)
