"""A user's usage is counted where it changes: exactly, under concurrency, and within the quota."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from tests.gateway.everos import EverOs

import elytron
from elytron_core.clock import FrozenClock, Instant
from elytron_core.errors import ElytronError, GatewayRefused, LimitExceeded
from elytron_core.ids import SpaceId
from elytron_core.planes.servers.gateway import COUNTS, SpaceCounts
from elytron_core.planes.space import KEY
from elytron_core.ports.store import Batch, DeleteChange, DocumentRef, EntryDraft, JournalAction
from elytron_gateway import wire
from elytron_gateway.messages import MessageUpload
from elytron_gateway.resources import UploadedFile
from elytron_gateway.service import GatewayOptions, MemoryGateway, QuotaSettings
from elytron_gateway.upstream.everos import EverOsUpstream

pytestmark = pytest.mark.anyio

COUNTS_REF = DocumentRef(COUNTS, KEY)


def add(who: dict[str, str], *texts: str, session: str = "chat:c", **place: str) -> wire.GatewayAddRequest:
    said = [{"sender_id": "ada", "role": "user", "timestamp": 1, "content": text} for text in texts]
    return wire.GatewayAddRequest.model_validate({**who, "session_id": session, "messages": said, **place})


def given(text: str) -> UploadedFile:
    return UploadedFile(text.encode(), file_name="t.txt")


async def counts(memory: elytron.MemoryRuntime, space: str = "ada") -> SpaceCounts:
    (document,) = await memory.context.store.get(SpaceId(space), (COUNTS_REF,))
    assert document is not None
    return SpaceCounts.from_bytes(document.body)


@pytest.fixture
async def two(tmp_path: Path) -> AsyncIterator[tuple[elytron.MemoryRuntime, elytron.MemoryRuntime]]:
    """Two runtimes on one store, like two servers."""
    async with (
        elytron.open(tmp_path / "memory.db", space=None) as first,
        elytron.open(tmp_path / "memory.db", space=None) as second,
    ):
        yield first, second


async def test_counts_stay_exact_with_two_concurrent_servers(
    two: tuple[elytron.MemoryRuntime, elytron.MemoryRuntime],
) -> None:
    gateways = [MemoryGateway(memory) for memory in two]
    ada = (await gateways[0].create_user(wire.UserRequest(user_id="ada"))).model_dump()
    calls: list[Any] = []
    for number in range(12):
        gateway = gateways[number % 2]
        calls.append(gateway.add(add(ada, "one", "two", session=f"chat:{number % 3}")))
        calls.append(gateway.upload(wire.PlacedRequest(**ada), given(f"the text of {number % 5}")))
    await asyncio.gather(*calls)
    assert await counts(two[0]) == SpaceCounts(messages=24, resources=5, resource_bytes=5 * len("the text of 0"))
    listed = (await gateways[1].resources(wire.PlacedRequest(**ada))).resources
    found = await gateways[0].search(
        wire.GatewaySearchRequest.model_validate({**ada, "query": "one two", "scope": ["all_user_memory"], "top_k": 4})
    )
    edits = [{**ada, "memory_id": one.id, "session_id": one.session_id} for one in found.results]
    await asyncio.gather(
        *(gateways[number % 2].override(wire.OverrideRequest.model_validate({**edit, "text": f"an override {number}"}))
          for number, edit in enumerate(edits * 2)),
        *(gateways[number % 2].delete_resource(wire.PlacedRequest(**ada), one.resource_id)
          for number, one in enumerate(listed[:3])),
        return_exceptions=True,
    )  # fmt: skip
    usage = await gateways[0].usage("ada")
    assert (usage.messages, usage.resources, usage.resource_bytes) == (24, 2, 2 * len("the text of 0"))
    assert (await counts(two[1])).edits == len((await gateways[1].edits(wire.PlacedRequest(**ada))).edits) == len(edits)


async def test_a_quota_applies_to_concurrent_additions(memory: elytron.MemoryRuntime) -> None:
    gateway = MemoryGateway(memory, options=GatewayOptions(quota=QuotaSettings(messages=5, resource_bytes=20)))
    ada = (await gateway.create_user(wire.UserRequest(user_id="ada"))).model_dump()
    added = await asyncio.gather(
        *(gateway.add(add(ada, f"{number}", session=f"chat:{number}", app_id=f"a{number % 3}")) for number in range(9)),
        return_exceptions=True,
    )
    assert sum(isinstance(one, LimitExceeded) for one in added) == 4
    taken = await asyncio.gather(
        *(gateway.upload(wire.PlacedRequest(**ada, project_id=f"p{number % 2}"), given(f"nine of {number}"))
          for number in range(4)),
        return_exceptions=True,
    )  # fmt: skip
    assert sum(isinstance(one, LimitExceeded) for one in taken) == 2
    usage = await gateway.usage("ada")
    assert (usage.messages, usage.resource_bytes) == (5, 18)


async def test_the_limits_of_a_space_apply_without_scanning_it(
    gateway: MemoryGateway, ada: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("elytron_gateway.resources.MAX_RESOURCES", 1)
    monkeypatch.setattr("elytron_gateway.overrides.MAX_EDITS", 1)
    monkeypatch.setattr("elytron_gateway.users.MAX_SPACES", 1)
    made = await gateway.upload(wire.PlacedRequest(**ada), given("one"))
    with pytest.raises(LimitExceeded, match="resources per space"):
        await gateway.upload(wire.PlacedRequest(**ada), given("two"))
    await gateway.delete_resource(wire.PlacedRequest(**ada), made.resource_id)
    await gateway.upload(wire.PlacedRequest(**ada), given("two"))
    added = await gateway.add(add(ada, "boiler one", "boiler two"))
    found = await gateway.search(
        wire.GatewaySearchRequest.model_validate({**ada, "query": "boiler", "scope": ["all_user_memory"]})
    )
    boilers = [one for one in found.results if one.text.startswith("boiler")]
    first, second = [{**ada, "memory_id": one.id, "session_id": added.session_id} for one in boilers]
    await gateway.override(wire.OverrideRequest(**first, text="heater"))
    with pytest.raises(LimitExceeded, match="overrides and tombstones"):
        await gateway.override(wire.OverrideRequest(**second, text="kettle"))
    shown = await gateway.search(
        wire.GatewaySearchRequest.model_validate({**ada, "query": "kettle", "scope": ["all_user_memory"]})
    )
    assert "kettle" not in [one.text for one in shown.results]
    with pytest.raises(LimitExceeded, match="apps and projects"):
        await gateway.add(add(ada, "x", app_id="another"))


async def test_a_repeat_under_its_key_is_counted_and_stored_once(
    gateway: MemoryGateway, ada: dict[str, str], memory: elytron.MemoryRuntime
) -> None:
    content = [{"type": "text", "text": "Keep."}, {"type": "image", "upload_id": "i", "ext": "png"}]
    said = {"sender_id": "ada", "role": "user", "timestamp": 1, "content": content}
    request = wire.GatewayAddRequest.model_validate({**ada, "session_id": "chat:c", "messages": [said]})
    png = MessageUpload("i.png", "image/png", b"\x89PNG\r\n\x1a\n" + b"\0" * 40)
    answers = [await gateway.add(request, uploads={"i": png}, idempotency_key="k") for _ in range(2)]
    assert answers[0] == answers[1]
    assert (await gateway.usage("ada")).messages == 1
    assert len(await memory.context.store.scan(SpaceId("ada"), "gateway_attachments", limit=10)) == 1


async def test_messages_refused_upstream_use_no_quota(memory: elytron.MemoryRuntime, server: EverOs) -> None:
    clock = FrozenClock(Instant(1))
    server.refusing = (422, "INVALID_INPUT")
    upstream = EverOsUpstream(server.url, clock=clock)
    gateway = MemoryGateway(memory, upstream=upstream, options=GatewayOptions(quota=QuotaSettings(messages=1)))
    ada = (await gateway.create_user(wire.UserRequest(user_id="ada"))).model_dump()
    with pytest.raises(GatewayRefused):
        await gateway.add(add(ada, "one"))
    assert (await gateway.usage("ada")).messages == 0
    with pytest.raises(ElytronError, match="not owned"):
        await gateway.flush(wire.FlushRequest(**ada, session_id="chat:c"))
    server.refusing = None
    await gateway.add(add(ada, "one"))
    assert (await gateway.usage("ada")).messages == 1
    await upstream.close()


async def test_a_space_without_counts_is_counted_once(
    gateway: MemoryGateway, ada: dict[str, str], memory: elytron.MemoryRuntime
) -> None:
    await gateway.add(add(ada, "one", "two"))
    await gateway.upload(wire.PlacedRequest(**ada), given("text"))
    before, store = await counts(memory), memory.context.store
    (document,) = await store.get(SpaceId("ada"), (COUNTS_REF,))
    assert document is not None
    entries, deletes = (EntryDraft(JournalAction.DELETE, COUNTS_REF),), (DeleteChange(COUNTS_REF, document.revision),)
    await store.commit(Batch(space=SpaceId("ada"), at=Instant(1), entries=entries, deletes=deletes))
    assert (await gateway.usage("ada")).messages == 2
    assert await counts(memory) == before


async def test_a_quota_over_uncounted_spaces_counts_them(memory: elytron.MemoryRuntime) -> None:
    gateway = MemoryGateway(memory, options=GatewayOptions(quota=QuotaSettings(messages=3)))
    ada = (await gateway.create_user(wire.UserRequest(user_id="ada"))).model_dump()
    await gateway.add(add(ada, "one", "two"))
    store = memory.context.store
    (document,) = await store.get(SpaceId("ada"), (COUNTS_REF,))
    assert document is not None
    entries, deletes = (EntryDraft(JournalAction.DELETE, COUNTS_REF),), (DeleteChange(COUNTS_REF, document.revision),)
    await store.commit(Batch(space=SpaceId("ada"), at=Instant(1), entries=entries, deletes=deletes))
    await gateway.add(add(ada, "three", app_id="notes"))
    with pytest.raises(LimitExceeded):
        await gateway.add(add(ada, "four", app_id="notes"))
