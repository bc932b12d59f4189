"""The OpenAPI document matches the routes."""

import json
from collections.abc import Iterator
from importlib.resources import files
from pathlib import Path
from typing import Any

import httpx
import pytest
from jsonschema_rs import Draft202012Validator
from pydantic import ValidationError

from elytron.registry import WIRE_OPERATIONS, CallerRole, RepeatGuard
from elytron_adapter.envelope import FAILURES
from elytron_core.contracts.maintenance.maintenance import PUTTING_OFF
from elytron_core.scope import Scope
from elytron_http_shell.openapi import OPENAPI_BYTES

pytestmark = pytest.mark.anyio


OPENAPI = files("openapi_spec_validator") / "resources" / "schemas" / "v3.1" / "schema.json"
"""The OpenAPI 3.1 schema itself; `test_docs_pages.py` validates the schemas within a document."""
MEMBERS = [operation for operation in WIRE_OPERATIONS if operation.role is CallerRole.MEMBER]


def refs(value: Any) -> Iterator[str]:
    """Return the references in `value`, the forms that a discriminator names among them."""
    match value:
        case {"propertyName": str(), "mapping": dict()}:
            yield from (str(ref) for ref in value["mapping"].values())
        case dict():
            for key, inner in value.items():  # pyright: ignore[reportUnknownVariableType] - any JSON
                if key == "$ref":
                    yield str(inner)  # pyright: ignore[reportUnknownArgumentType]
                else:
                    yield from refs(inner)
        case list():
            for inner in value:  # pyright: ignore[reportUnknownVariableType]
                yield from refs(inner)
        case _:
            return


@pytest.fixture
async def document(client: httpx.AsyncClient) -> dict[str, Any]:
    return (await client.get("/openapi.json")).json()


@pytest.fixture
async def whole(client: httpx.AsyncClient) -> dict[str, Any]:
    return (await client.get("/openapi/all.json")).json()


async def test_the_document_is_openapi_3_1_with_every_operation_once(
    document: dict[str, Any], whole: dict[str, Any]
) -> None:
    for described, operations in ((whole, WIRE_OPERATIONS), (document, MEMBERS)):
        assert described["openapi"] == "3.1.0"
        posts = {path: item["post"]["operationId"] for path, item in described["paths"].items() if "post" in item}
        assert posts.items() >= {f"/v1/{operation.name}": operation.name for operation in operations}.items()
        names = [method["operationId"] for item in described["paths"].values() for method in item.values()]
        assert len(names) == len(set(names))
    assert not {"/v1/close", "/v1/export", "/memory/recall"} & set(document["paths"])


async def test_every_reference_and_discriminator_resolves(document: dict[str, Any], whole: dict[str, Any]) -> None:
    for described in (document, whole):
        for ref in {*refs(described["paths"]), *refs(described["components"])}:
            place: Any = described
            for step in ref.removeprefix("#/").split("/"):
                place = place[step]
        assert "ProblemDocument" in described["components"]["schemas"]


async def test_every_operation_describes_its_request_report_and_problems(whole: dict[str, Any]) -> None:
    for operation in WIRE_OPERATIONS:
        post = whole["paths"][f"/v1/{operation.name}"]["post"]
        later = {"202"} if operation.report in PUTTING_OFF else set[str]()
        assert set(post["responses"]) == {"200", "default"} | later
        assert post["requestBody"]["content"]["application/json"]["schema"]["$ref"].endswith(operation.request.__name__)
        takes_a_key = "#/components/parameters/IdempotencyKey" in set(refs(post.get("parameters", [])))
        assert takes_a_key == (operation.repeat is not RepeatGuard.HARMLESS)


async def test_the_problem_response_is_described_once_with_every_key(document: dict[str, Any]) -> None:
    shared = document["components"]["responses"]["Problem"]
    assert all(f"{row.status}: " in shared["description"] for row in FAILURES.values())
    assert all(key in shared["description"] for key in FAILURES)
    media = shared["content"]["application/problem+json"]
    assert set(media["example"]) <= set(document["components"]["schemas"]["ProblemDocument"]["properties"])


async def test_the_document_is_small_and_valid_for_a_strict_reader(client: httpx.AsyncClient) -> None:
    for path, most in (("/openapi.json", OPENAPI_BYTES), ("/openapi/all.json", 2 * OPENAPI_BYTES)):
        answer = await client.get(path)
        assert len(answer.content) < most
        Draft202012Validator(json.loads(OPENAPI.read_text("utf-8"))).validate(answer.json())


async def test_limits_are_described_except_to_client_generators(
    document: dict[str, Any], whole: dict[str, Any]
) -> None:
    limit, query = (
        whole["components"]["schemas"]["MemoryRecallRequest"]["properties"][name] for name in ("limit", "query")
    )
    assert (limit["maximum"], query["maxLength"]) == (1_000, 8_000)
    asked = document["components"]["schemas"]["MemoryRecallRequest"]["properties"]
    assert (asked["limit"], asked["query"]) == ({"type": "integer", "x-default": 8}, {"type": "string"})
    assert document["components"]["schemas"]["Scope"]["properties"]["space"] == {"type": "string"}


async def test_a_scope_may_leave_out_the_space_that_the_key_has(
    document: dict[str, Any], whole: dict[str, Any]
) -> None:
    for described in (document, whole):
        scope = described["components"]["schemas"]["Scope"]
        assert "space" in scope["properties"]
        assert "space" not in scope.get("required", ())
        assert "scope without `space`" in described["info"]["description"]
    with pytest.raises(ValidationError):
        Scope.model_validate({"conversation": "chat"})


async def test_no_field_with_a_default_is_required(document: dict[str, Any]) -> None:
    asked = document["components"]["schemas"]["MemoryRecallRequest"]
    assert asked["required"] == ["query"]
    assert asked["properties"]["limit"]["x-default"] == 8
    reported = document["components"]["schemas"]["MemoryRecallReport"]
    assert {"hits", "sequence"} <= set(reported["required"])
    assert "next_cursor" not in reported["required"]
    text = json.dumps(document["components"]["schemas"])
    assert '"default":' not in text
    assert '"null"' not in text


async def test_every_example_is_accepted(
    client: httpx.AsyncClient, whole: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "skills").mkdir()
    refused: dict[str, Any] = {}
    for path, item in whole["paths"].items():
        for method, told in item.items():
            media = told.get("requestBody", {}).get("content", {}).get("application/json")
            if media is None or path == "/v1/shutdown" or not path.startswith("/v1/") or "{" in path:
                continue
            schema = whole["components"]["schemas"][media["schema"]["$ref"].rpartition("/")[2]]
            assert "example" in media or not schema.get("required"), path
            answer = await client.request(method, path, json=media.get("example", {}))
            if answer.status_code not in {200, 201, 404}:
                refused[path] = answer.json()["detail"]
    assert refused == {}
