"""Reads return a version, and a change may require it, so concurrent changes are not overwritten."""

import asyncio
from typing import Any

import httpx
import pytest
from tests.http_shell.conftest import Keys, bearer

import elytron
from elytron import MemoryRuntime
from elytron.memories.lookup import demanding_context, version_of
from elytron.ops.memories import erase_from_space, forget_memories
from elytron_core.clock import Instant
from elytron_core.contracts.memories import (
    MemoryCorrectRequest,
    MemoryEraseRequest,
    MemoryForgetRequest,
    MemoryListRequest,
)
from elytron_core.errors import InvalidInput, PreconditionFailed
from elytron_core.ids import SpaceId
from elytron_core.planes.tools import AgentToolRegistrySnapshot
from elytron_core.policy.tools import registry_fingerprint
from elytron_core.ports.store import Batch, DocumentRef, EntryDraft, JournalAction, PutChange

pytestmark = pytest.mark.anyio

SKILL = {"name": "moor", "topic": "mooring", "title": "Moor", "summary": "How to moor", "content": "1. Stop.\n2. Tie."}


async def stored(client: httpx.AsyncClient, write: dict[str, Any]) -> str:
    report = (await client.post("/v1/write", json={"write": write})).json()
    found = report["decisions"][0]["id"]
    assert isinstance(found, str)
    return found


async def fact(client: httpx.AsyncClient, content: str = "Ada lives in Lisbon.") -> str:
    return await stored(client, {"kind": "long_term", "facts": [{"topic": "home", "content": content}]})


async def version(client: httpx.AsyncClient, memory: str) -> dict[str, str]:
    """Return the header that requires the current version."""
    return {"If-Match": (await client.post("/v1/get", json={"id": memory})).headers["etag"]}


def registry(*tools: str) -> dict[str, Any]:
    listed = [{"tool_id": tool, "schema_fingerprint": "1"} for tool in tools]
    draft = AgentToolRegistrySnapshot.model_validate(
        {"registry_id": "host", "namespace": "host", "fingerprint": "0", "tools": listed}
    )
    whole = draft.model_copy(update={"fingerprint": registry_fingerprint(draft)})
    return whole.model_dump(mode="json", exclude_none=True)


@pytest.mark.parametrize(
    ("path", "change"),
    [("correct", {"content": "Ada lives in Porto."}), ("forget", {}), ("erase", {})],
)
async def test_a_memory_is_changed_only_at_the_version_that_was_read(
    client: httpx.AsyncClient, path: str, change: dict[str, str]
) -> None:
    found = await fact(client)
    asked = {"id": found, **change} if path == "correct" else {"ids": [found]}
    seen = await version(client, found)
    assert (await version(client, found)) == seen
    await client.post("/v1/forget", json={"ids": [found]})
    await client.post("/v1/forget", json={"ids": [found], "undo": True})
    refused = await client.post(f"/v1/{path}", json=asked, headers=seen)
    assert (refused.status_code, refused.json()["code"]) == (412, "precondition_failed")
    assert refused.headers["content-type"] == "application/problem+json"
    changed = await client.post(f"/v1/{path}", json=asked, headers=await version(client, found))
    assert changed.json()["changed"] is True


async def test_a_skill_is_edited_switched_and_deleted_at_its_version(client: httpx.AsyncClient) -> None:
    name = await stored(client, {"kind": "procedural", "writes": [SKILL]})
    read = await client.post("/v1/get_runtime_skill", json={"name": name})
    seen = {"If-Match": read.headers["etag"]}
    edit = {"name": name, "title": "Moor a boat"}
    assert (await client.post("/v1/edit_runtime_skill", json=edit, headers=seen)).json()["changed"]
    for operation, asked in (
        ("edit_runtime_skill", edit | {"title": "Else"}),
        ("set_runtime_skill_enabled", {"name": name, "enabled": False}),
        ("delete_runtime_skill", {"name": name}),
    ):
        assert (await client.post(f"/v1/{operation}", json=asked, headers=seen)).status_code == 412
    now = {"If-Match": f'"old", {(await client.post("/v1/get", json={"id": name})).headers["etag"]}'}
    assert (await client.post("/v1/delete_runtime_skill", json={"name": name}, headers=now)).json()["changed"]
    assert (await client.post("/v1/delete_runtime_skill", json={"name": name}, headers=now)).status_code == 412


async def test_a_registry_is_replaced_and_deleted_at_its_version(client: httpx.AsyncClient) -> None:
    path = "/agent-tool-registries/host"
    await client.put(path, json=registry("mail"))
    seen = (await client.get(path)).headers["etag"]
    assert (await client.get(path, headers={"If-None-Match": seen})).status_code == 304
    assert (await client.put(path, json=registry("mail", "calendar"), headers={"If-Match": seen})).json()["changed"]
    for answer in (
        await client.put(path, json=registry("post"), headers={"If-Match": seen}),
        await client.delete(path, headers={"If-Match": f"W/{seen}"}),
    ):
        assert answer.status_code == 412
    assert (await client.get(path, headers={"If-None-Match": seen})).status_code == 200
    assert (await client.delete(path, headers={"If-Match": "*"})).json()["changed"]
    assert (await client.put(path, json=registry("post"), headers={"If-Match": "*"})).status_code == 412


async def test_an_unsatisfiable_version_condition_is_refused(client: httpx.AsyncClient) -> None:
    one, two = await fact(client), await stored(client, {"kind": "procedural", "writes": [SKILL]})
    for path, asked in (("forget", {"ids": [one, two]}), ("recall", {"query": "x"}), ("list", {})):
        answer = await client.post(f"/v1/{path}", json=asked, headers={"If-Match": "*"})
        assert (answer.status_code, answer.json()["details"]["field"]) == (422, "If-Match")
    for header in ("", "no quotes", '"' + "x" * 300 + '"', ", ,"):
        answer = await client.post("/v1/forget", json={"ids": [one]}, headers={"If-Match": header})
        assert answer.status_code == 412
    absent = await client.post("/v1/forget", json={"ids": ["nothing"]}, headers={"If-Match": "*"})
    assert absent.status_code == 412


async def test_a_repeat_is_answered_although_its_version_is_gone(client: httpx.AsyncClient) -> None:
    found = await fact(client)
    headers = await version(client, found) | {"Idempotency-Key": "once"}
    first = await client.post("/v1/forget", json={"ids": [found]}, headers=headers)
    again = await client.post("/v1/forget", json={"ids": [found]}, headers=headers)
    assert again.headers["idempotent-replayed"] == "true"
    assert again.json() == first.json()


async def test_versions_differ_between_spaces_and_reveal_no_counts(server: httpx.AsyncClient, keys: Keys) -> None:
    told: set[str] = set()
    for key in (keys.user, keys.stranger):
        server.headers.update(bearer(key))
        await stored(server, {"kind": "procedural", "writes": [SKILL]})
        listed = (await server.post("/v1/list", json={})).json()["items"]
        told.add((await server.post("/v1/get", json={"id": listed[0]["id"]})).headers["etag"])
    assert len(told) == 2


async def test_one_of_two_changes_to_the_same_version_wins(runtime: MemoryRuntime, client: httpx.AsyncClient) -> None:
    found = await fact(client)
    seen = await version(client, found)
    answers = await asyncio.gather(
        *(
            client.post("/v1/correct", json={"id": found, "content": f"Ada lives in {town}."}, headers=seen)
            for town in ("Porto", "Faro", "Braga")
        )
    )
    assert sorted(answer.status_code for answer in answers) == [200, 412, 412]
    assert len((await runtime.history(found)).items) == 3


async def test_an_intervening_change_is_detected_in_the_commit(runtime: MemoryRuntime) -> None:
    await runtime.add("The ferry leaves at six.")
    (item,) = (await runtime.list()).items
    request = MemoryForgetRequest(ids=(item.id,))
    seen = await version_of(runtime.context, request)
    assert seen is not None
    held = await demanding_context(runtime.context, request, (seen.tag,))
    erased = await demanding_context(runtime.context, MemoryEraseRequest(ids=(item.id,)), (seen.tag,))
    await runtime.forget(request)
    with pytest.raises(PreconditionFailed):
        await forget_memories(held, MemoryForgetRequest(ids=(item.id,), undo=True))
    with pytest.raises(PreconditionFailed):
        await erase_from_space(erased, MemoryEraseRequest(ids=(item.id,)))
    assert (await runtime.inspect()).documents["turns"] == 1


async def test_a_version_condition_applies_to_one_versioned_object(runtime: MemoryRuntime) -> None:
    await runtime.add("The ferry leaves at six.")
    (item,) = (await runtime.list()).items
    assert await version_of(runtime.context, MemoryForgetRequest(ids=(item.id, item.id))) is None
    assert await version_of(runtime.context, MemoryListRequest()) is None
    for request in (MemoryForgetRequest(ids=(item.id, "t0000000000000009")), MemoryListRequest()):
        with pytest.raises(InvalidInput, match="a single versioned item"):
            await demanding_context(runtime.context, request, ("*",))


async def test_a_condition_that_was_met_lets_the_rest_of_the_change_through(runtime: MemoryRuntime) -> None:
    await runtime.add("The ferry leaves at six.")
    (item,) = (await runtime.list()).items
    request = MemoryForgetRequest(ids=(item.id,))
    held = await demanding_context(runtime.context, request, ("*",))
    note = DocumentRef("notes", "a")
    put, entry = PutChange(ref=note, body=b"{}", expects=0), EntryDraft(action=JournalAction.WRITE, ref=note)
    elsewhere = Batch(space=SpaceId("elsewhere"), at=Instant(1), entries=(entry,), puts=(put,))
    await held.store.commit(elsewhere)
    await forget_memories(held, request)
    assert (await forget_memories(held, MemoryForgetRequest(ids=(item.id,), undo=True))).changed


async def test_in_a_missing_space_nothing_has_a_version() -> None:
    async with elytron.open("memory:", space="new") as memory:
        asked = MemoryCorrectRequest(id="x", content="y")
        assert await version_of(memory.context, asked) is None
        with pytest.raises(PreconditionFailed):
            await demanding_context(memory.context, asked, ("*",))
