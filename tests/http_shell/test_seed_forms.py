"""Request bodies of hosts written for the first protocol version are accepted under `/memory`."""

from typing import Any

import httpx
import pytest
from tests.http_shell.conftest import Keys, bearer

pytestmark = pytest.mark.anyio

FEEDBACK: dict[str, Any] = {
    "tool_usage_feedback": {
        "registry_ref": {"registry_id": "host-tools", "fingerprint": "current-fingerprint", "scope": "global"},
        "observations": [],
        "user_visible_result_summary": "Tool execution summary",
        "reuse_outcome": "succeeded",
        "operator_note": None,
    }
}
SKILL: dict[str, Any] = {
    "name": "brew",
    "topic": "tea",
    "title": "How to brew",
    "summary": "Brew tea.",
    "content": "1. Heat water.\n2. Add tea.\n3. Wait.",
    "citations": [],
    "source_chat_id": "kitchen",
    "observed_at": 1_767_225_600_000,
}


async def posted(client: httpx.AsyncClient, path: str, body: Any, /, *, key: str) -> Any:
    answer = await client.post(path, json=body, headers=bearer(key))
    assert answer.status_code == 200, answer.text
    return answer.json()


async def test_a_write_is_recognised_by_its_fields(server: httpx.AsyncClient, keys: Keys) -> None:
    forms: tuple[tuple[dict[str, Any], str], ...] = (
        (FEEDBACK, "tool_experience"),
        ({"writes": [SKILL], "source": "manual"}, "procedural"),
        ({"extraction": {"facts": [{"topic": "home town", "content": "Lisbon"}]}}, "long_term"),
        ({"write": {"kind": "transcript", "turns": [{"messages": [{"text": "x"}]}]}}, "transcript"),
    )
    for body, plane in forms:
        told = await posted(server, "/memory/write", body, key=keys.user)
        assert [decision["plane"] for decision in told["decisions"]] == [plane]
    wrongs: tuple[Any, ...] = ([], {"writes": "s3cret"}, {"writes": [], "extraction": {}}, {"extraction": 1})
    detail = await posted(server, "/v1/get_runtime_skill", {"name": "runtime_skill__brew"}, key=keys.user)
    assert detail["source_chat_id"] == "kitchen"
    for wrong in wrongs:
        refused = await server.post("/memory/write", json=wrong, headers=bearer(keys.user))
        assert (refused.status_code, refused.json()["seed_key"]) == (422, "operation_mismatch")
        assert "s3cret" not in refused.text


async def test_continuity_is_transferred_from_one_chat_to_another(server: httpx.AsyncClient, keys: Keys) -> None:
    fact = {"topic": "home town", "content": "Lisbon"}
    await posted(server, "/v1/facts", fact, key=keys.user)
    taken = await posted(server, "/memory/export", {"chat_id": "kitchen"}, key=keys.user)
    assert taken["snapshot"]["manifest"]["conversation"] == "kitchen"
    for mode, name in (("BootstrapImport", "bootstrap"), ("FullRestore", "full_restore"), ("bootstrap", "bootstrap")):
        body = {"snapshot": taken["snapshot"], "target_chat_id": "office", "mode": mode}
        told = await posted(server, "/memory/import", body, key=keys.stranger)
        assert (told["mode"], told["conversation"], told["space"]) == (name, "office", "bob")


async def test_only_operators_access_files_of_the_machine(server: httpx.AsyncClient, keys: Keys) -> None:
    for path in ("/memory/export", "/memory/import"):
        refused = await server.post(path, json={"path": "x.elytron"}, headers=bearer(keys.user))
        assert (refused.status_code, refused.json()["seed_key"]) == (403, "forbidden")


async def test_a_refused_registry_is_not_a_success(server: httpx.AsyncClient, keys: Keys) -> None:
    registry: dict[str, Any] = {"registry_id": "host-tools", "namespace": "host", "fingerprint": "another", "tools": []}
    refused = await server.put("/agent-tool-registries/host-tools", json=registry, headers=bearer(keys.user))
    assert refused.status_code == 422
    assert refused.json()["details"]["refused"] == "agent_tool_registry_fingerprint_mismatch"
    listed = (await server.get("/agent-tool-registries", headers=bearer(keys.user))).json()
    assert listed["registries"] == []


async def test_errors_also_carry_the_key_of_the_first_protocol_version(server: httpx.AsyncClient, keys: Keys) -> None:
    for path, content, key, seed_key in (
        ("/memory/recall", b"{", keys.user, "invalid_json"),
        ("/memory/recall", b"{}", "ely_user_x", "unauthorized"),
        ("/memory/recall", b" " * (2 * 1024 * 1024), keys.user, "payload_too_large"),
        ("/v1/get", b'{"id": "x"}', keys.user, "runtime_rejected"),
        ("/livez", b"{}", keys.user, "unsupported_operation"),
    ):
        headers = bearer(key) | {"Content-Type": "application/json"}
        assert (await server.post(path, content=content, headers=headers)).json()["seed_key"] == seed_key


async def test_an_inspection_includes_the_projection_for_a_model(server: httpx.AsyncClient, keys: Keys) -> None:
    await posted(server, "/v1/add", {"text": "The boiler code is 4417."}, key=keys.user)
    asked = {"query": "boiler code", "system_max_len": 1_500, "pressure": "cautious", "mode_input": {"booting": True}}
    told = await posted(server, "/memory/inspect", asked, key=keys.user)
    assert told["projection"]["requested_chars"] == 1_500
    assert told["lifecycle"]
    plain = {"user_query": "boiler code", "max_chars": 1_500}
    shown = (await posted(server, "/v1/inspect", plain, key=keys.user))["projection"]
    assert "4417" in shown["system_memory_block"]
    assert "projection" not in await posted(server, "/v1/inspect", {}, key=keys.user)


async def test_a_recovery_reports_the_lifecycle(server: httpx.AsyncClient, keys: Keys) -> None:
    asked = {"scope": {"space": "ada"}, "trigger": "restart", "mode_input": {"safe_mode": True}}
    told = await posted(server, "/memory/recover", asked, key=keys.operator)
    assert (told["reason"], bool(told["lifecycle"])) == ("restart", True)
