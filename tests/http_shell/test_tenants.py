"""Nobody reaches another's space, by any operation or kind of key; missing and foreign ones are indistinguishable."""

import json
from collections.abc import Iterator
from typing import Any

import httpx
import pytest
from pydantic import BaseModel
from tests.http_shell.conftest import Keys, bearer

from elytron import MemoryRuntime
from elytron.registry import WIRE_OPERATIONS, AnyOperation, CallerRole
from elytron_adapter import envelope
from elytron_core.errors import ElytronError
from elytron_core.ids import SYSTEM_SPACE
from elytron_core.scope import ScopedRequest
from elytron_http_shell.operations import path_of

pytestmark = pytest.mark.anyio

MEMBERS = [operation for operation in WIRE_OPERATIONS if operation.role is CallerRole.MEMBER]
OPERATORS = [operation for operation in WIRE_OPERATIONS if operation.role is CallerRole.OPERATOR]
SECRET = "the safe opens with seven thirty-one"
HOSTILE = (
    "ADA",
    "ada/../bob",
    "bob/.",
    "ada%2Fbob",
    "ada;bob",
    "ada' or '1'='1",
    "..",
    "*",
    "ａｄａ",
    "ada.",
    SYSTEM_SPACE,
    "ada\u200b",
    "ada\0bob",
    "ada ",
    "bob\n",
    "x" * 201,
    "",
)


def example(schema: dict[str, Any], known: dict[str, Any], depth: int = 0) -> Any:
    """Return a minimal value of a schema: required fields, and the first of several forms."""
    if "$ref" in schema:
        return example(known[schema["$ref"].rpartition("/")[2]], known, depth + 1)
    for key in ("const", "default"):
        if key in schema:
            return schema[key]
    if "enum" in schema:
        return schema["enum"][0]
    forms = schema.get("anyOf") or schema.get("oneOf") or schema.get("allOf")
    if forms:
        return example(forms[0], known, depth + 1)
    match schema.get("type"):
        case "object":
            fields, required = schema.get("properties", {}), {*schema.get("required", ()), "kind"}
            return {name: example(field, known, depth + 1) for name, field in fields.items() if name in required}
        case "array" if "prefixItems" in schema:
            return [example(item, known, depth + 1) for item in schema["prefixItems"]]
        case "array":
            return [example(schema["items"], known, depth + 1)] * max(schema.get("minItems", 0), 1) if depth < 8 else []
        case "integer" | "number":
            return schema.get("minimum", 1)
        case "boolean":
            return False
        case _:
            return "text"


def request_of(model: type[BaseModel], space: str | None) -> dict[str, Any]:
    schema = model.model_json_schema(mode="validation")
    found = example(schema, schema.get("$defs", {}))
    return found | ({"scope": {"space": space}} if space is not None else {})


def answered(response: httpx.Response) -> tuple[int, dict[str, Any]]:
    """Return an answer's content, without its unique id."""
    told = response.json()
    for own in ("request_id", "instance"):
        told.pop(own, None)
    return response.status_code, told


def credentials(keys: Keys) -> Iterator[str]:
    yield from (keys.user, keys.device)


def test_a_member_can_request_only_content_of_a_space() -> None:
    assert {operation.name for operation in MEMBERS if not issubclass(operation.request, ScopedRequest)} == set()


def test_the_test_matrix_passes_the_codec() -> None:
    def is_read(operation: AnyOperation) -> bool:
        try:
            envelope.decode_request(operation, json.dumps(request_of(operation.request, "ada")).encode())
        except ElytronError:
            return False
        return True

    reached = {operation.name for operation in MEMBERS if is_read(operation)}
    assert reached >= {"write", "recall", "project", "inspect", "replay", "get", "list", "history", "forget", "correct"}


@pytest.mark.parametrize("operation", MEMBERS, ids=lambda operation: operation.name)
async def test_a_foreign_space_is_answered_like_a_missing_one(
    server: httpx.AsyncClient, keys: Keys, operation: AnyOperation
) -> None:
    await remember(server, keys.stranger)
    for key in credentials(keys):
        answers = [
            answered(await server.post(path_of(operation), json=asked, headers=bearer(key)))
            for asked in (request_of(operation.request, space) for space in ("bob", "nobody", SYSTEM_SPACE))
        ]
        assert answers[0] == answers[1] == answers[2]
        assert answers[0][0] in {403, 422}
        assert SECRET not in json.dumps(answers)


@pytest.mark.parametrize("operation", WIRE_OPERATIONS, ids=lambda operation: operation.name)
async def test_without_a_known_key_nothing_is_answered(
    server: httpx.AsyncClient, keys: Keys, operation: AnyOperation
) -> None:
    await remember(server, keys.stranger)
    wrong = keys.user[:-1] + ("0" if keys.user[-1] != "0" else "1")
    answers = [
        answered(await server.post(path_of(operation), json=request_of(operation.request, None), headers=headers))
        for headers in ({}, bearer(wrong), bearer("x"), {"Authorization": f"Basic {keys.user}"})
    ]
    assert {status for status, _ in answers} == {401}
    assert answers.count(answers[0]) == len(answers)


@pytest.mark.parametrize("operation", OPERATORS, ids=lambda operation: operation.name)
async def test_an_operators_operation_is_refused_before_its_body_is_read(
    server: httpx.AsyncClient, keys: Keys, operation: AnyOperation
) -> None:
    for key in credentials(keys):
        response = await server.post(path_of(operation), content=b"no json", headers=bearer(key))
        assert response.status_code == 403


@pytest.mark.parametrize("space", HOSTILE)
async def test_a_hostile_space_name_reaches_nothing(server: httpx.AsyncClient, keys: Keys, space: str) -> None:
    await remember(server, keys.stranger)
    for key in credentials(keys):
        for name, asked in (("recall", {"query": "safe"}), ("list", {}), ("inspect", {})):
            body = asked | {"scope": {"space": space}}
            response = await server.post(f"/v1/{name}", json=body, headers=bearer(key))
            assert response.status_code in {403, 422}, response.text
            assert SECRET not in response.text


@pytest.mark.parametrize("name", ["get", "history", "forget", "erase", "correct"])
async def test_a_foreign_memory_id_is_answered_like_a_missing_one(
    server: httpx.AsyncClient, keys: Keys, name: str
) -> None:
    foreign = await remember(server, keys.stranger)
    absent = foreign[:-1] + ("0" if foreign[-1] != "0" else "1")

    async def asked(one: str) -> str:
        body: dict[str, Any] = {"ids": [one]} if name in {"forget", "erase"} else {"id": one}
        if name == "correct":
            body["content"] = "It opens with eight."
        response = await server.post(f"/v1/{name}", json=body, headers=bearer(keys.user))
        return json.dumps(answered(response)).replace(one, "<id>")

    assert await asked(foreign) == await asked(absent)
    kept = await server.post("/v1/list", json={}, headers=bearer(keys.stranger))
    assert [item["text"] for item in kept.json()["items"]] == [SECRET]


async def test_one_idempotency_key_of_two_principals_is_two_keys(server: httpx.AsyncClient, keys: Keys) -> None:
    said = {"write": {"kind": "transcript", "turns": [{"messages": [{"text": "Mine."}]}]}}
    for key in (keys.user, keys.stranger, keys.device):
        answer = await server.post("/v1/write", json=said, headers=bearer(key) | {"Idempotency-Key": "k1"})
        assert "idempotent-replayed" not in answer.headers


async def test_an_alternative_path_to_an_operation_is_guarded_too(server: httpx.AsyncClient, keys: Keys) -> None:
    await remember(server, keys.stranger)
    for path in ("/memory/recall", "/memory/inspect"):
        body = {"query": "safe", "scope": {"space": "bob"}} if path.endswith("recall") else {"scope": {"space": "bob"}}
        assert (await server.post(path, json=body)).status_code == 401
        assert (await server.post(path, json=body, headers=bearer(keys.user))).status_code == 403
    for space in ("bob", "nobody"):
        fetched = await server.get("/v1/archive", params={"space": space}, headers=bearer(keys.user))
        assert fetched.status_code == 403
    exported = await server.post("/memory/export", json={"path": "/nowhere/x"}, headers=bearer(keys.user))
    assert exported.status_code == 403


async def remember(server: httpx.AsyncClient, key: str) -> str:
    said = {"write": {"kind": "transcript", "turns": [{"messages": [{"text": SECRET}]}]}}
    written = await server.post("/v1/write", json=said, headers=bearer(key))
    assert written.status_code == 200, written.text
    listed = await server.post("/v1/list", json={}, headers=bearer(key))
    found = listed.json()["items"][0]["id"]
    assert isinstance(found, str)
    return found


async def test_every_endpoint_declares_its_access(runtime: MemoryRuntime) -> None:
    from starlette.routing import Mount, Route, WebSocketRoute

    from elytron_adapter.surface import SurfaceAccess
    from elytron_http_shell import create_app
    from elytron_http_shell.application import SurfaceEndpoint

    public: set[str] = set()
    for route in create_app(runtime).routes:
        assert isinstance(route, Route | WebSocketRoute | Mount)
        door = route.app
        assert isinstance(door, SurfaceEndpoint), f"{route.path} has no declared access"
        if door.access is SurfaceAccess.PUBLIC:
            public.add(route.path)
    assert public == {
        "/livez", "/readyz", "/", "/docs", "/docs/docs.js",
        "/docs/docs.css", "/docs/icon.svg",
    }  # fmt: skip
