"""Turns marked private or unstored by their host: no read shows them by default."""

from typing import Any

import pytest
from tests.sdk.encoders import WordEmbedder

import elytron
from elytron.models import ScriptedModel
from elytron.registry import OPERATIONS
from elytron_core.clock import FrozenClock
from elytron_core.contracts.maintenance.maintenance import MemoryMaintainRequest
from elytron_core.contracts.projection import MemoryProjectionRequest, PrivateContext
from elytron_core.errors import ElytronError, InvalidInput
from elytron_core.ids import SeededIds, SpaceId

pytestmark = pytest.mark.anyio

SECRET = "I always want the doctor to call me Zephyrine"
MARKED: list[dict[str, Any]] = [{"private": True}, {"store": False}]
OPEN: list[dict[str, Any]] = [{"private": False}, {"store": True}, {"store": None}]
OWN = {
    "replay": "reads a conversation that is named, as its host had it",
    "replay_transcript": "is a view of a conversation that is named",
    "export_transcript": "is a view of a conversation that is named",
    "export": "writes a file of the owner's",
    "keep_erasures": "writes a file of the owner's",
    "get": "has a test of its own",
    "history": "has a test of its own",
}


def opened(**more: Any) -> elytron.RuntimeOpening:
    return elytron.open("memory:", space="ada", clock=FrozenClock(step_ms=1), ids=SeededIds(), **more)


async def say(memory: elytron.MemoryRuntime, metadata: dict[str, Any]) -> str:
    """Store recallable content around unrecallable content, all in the conversation that is read."""
    await memory.add("The doctor is in town", conversation="default")
    (secret,) = (await memory.add(SECRET, conversation="default", metadata=metadata)).ids
    await memory.add("The doctor is at lunch", conversation="default")
    return secret


@pytest.mark.parametrize("metadata", MARKED)
async def test_no_reading_operation_shows_a_private_message_by_default(metadata: dict[str, Any]) -> None:
    async with opened() as memory:
        await say(memory, metadata)
        given = {"query": "doctor Zephyrine", "neighbours": 3, "limit": 10, "channel": "default"}
        seen: set[str] = set()
        for operation in OPERATIONS:
            if operation.mutates or operation.name in OWN:
                continue
            fields = {name: value for name, value in given.items() if name in operation.request.model_fields}
            try:
                report = await memory.operate(operation.request(**fields))
            except ElytronError:
                continue
            seen.add(operation.name)
            assert "call me" not in report.model_dump_json(), operation.name
        assert {"recall", "project", "list", "profile", "list_candidates", "inspect"} <= seen


@pytest.mark.parametrize("metadata", MARKED)
async def test_a_private_message_is_read_on_request(metadata: dict[str, Any]) -> None:
    async with opened() as memory:
        secret = await say(memory, metadata)
        for read in (memory.get, memory.history):
            with pytest.raises(InvalidInput, match="include_private"):
                await read(secret)
            assert SECRET in (await read(secret, include_private=True)).model_dump_json()
        assert not [hit for hit in (await memory.recall("Zephyrine")).hits if hit.id == secret]
        report = await memory.recall("Zephyrine", include_private=True, neighbours=1)
        assert (report.hits[0].id, report.hits[0].privacy) == (secret, elytron.FactPrivacy.PRIVATE)
        assert [one.text for one in report.hits[0].before] == ["The doctor is in town"]
        assert secret in [hit.id for hit in (await memory.list(include_private=True)).items]
        for hidden in elytron.HiddenFilter:
            assert secret not in [hit.id for hit in (await memory.list(hidden=hidden)).items]
        asked = MemoryProjectionRequest(query="Zephyrine", private_context=PrivateContext.ALLOWED)
        assert SECRET in (await memory.project(asked)).system_memory_block
        await memory.erase(secret)
        assert not (await memory.recall("Zephyrine", include_private=True)).hits[0].text.startswith("I always")


async def test_a_private_record_is_in_a_block_only_if_private_context_is_allowed() -> None:
    async with opened() as memory:
        await memory.put_record(("doctors",), "first", "Zephyrine", text=SECRET, privacy=elytron.FactPrivacy.PRIVATE)
        filters = elytron.RecallFilters(planes=(elytron.RecallPlane.RECORDS,))
        for context in PrivateContext:
            asked = MemoryProjectionRequest(query="Zephyrine", filters=filters, private_context=context)
            shown = SECRET in (await memory.project(asked)).system_memory_block
            assert shown is (context is PrivateContext.ALLOWED)


@pytest.mark.parametrize("metadata", OPEN)
async def test_other_metadata_does_not_make_a_turn_private(metadata: dict[str, Any]) -> None:
    async with opened() as memory:
        secret = await say(memory, metadata)
        hit = (await memory.recall("Zephyrine")).hits[0]
        assert (hit.id, hit.privacy) == (secret, None)


async def test_a_space_of_only_private_messages_is_recalled_on_request() -> None:
    async with opened() as memory:
        await memory.add(SECRET, metadata={"private": True})
        assert not (await memory.recall("Zephyrine")).hits
        assert [hit.text for hit in (await memory.recall("Zephyrine", include_private=True)).hits] == [SECRET]


@pytest.mark.parametrize("metadata", MARKED)
async def test_a_private_message_is_not_embedded(metadata: dict[str, Any]) -> None:
    embedder = WordEmbedder()
    async with opened(embedder=embedder) as memory:
        await memory.add(SECRET, metadata=metadata)
        await memory.embed()
        await memory.context.encoders.settled(SpaceId("ada"))
        assert embedder.batches == []
        assert (await memory.recall("Zephyrine")).unembedded == 0


@pytest.mark.parametrize("metadata", MARKED)
async def test_nothing_is_learned_from_a_private_message(metadata: dict[str, Any]) -> None:
    model = ScriptedModel(lambda _: '{"items": []}')
    async with opened(language_model=model) as memory:
        await memory.add("My name is Zephyrine and I prefer tea", conversation="clinic", metadata=metadata)
        await memory.maintain(MemoryMaintainRequest(scope=elytron.Scope(space="ada", conversation="clinic")))
        assert "Zephyrine" not in (await memory.list_facts(include_private=True)).model_dump_json()
        assert not [prompt for prompt in model.prompts if "Zephyrine" in str(prompt)]
