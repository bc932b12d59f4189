"""Names of conversations and speakers are removed with their last message from every byte of a store."""

from pathlib import Path

import pytest
from benchmarks.rigs.erasure import found_in, held
from benchmarks.rigs.live_words import live_bytes
from tests.sdk.kill_points import ADA
from tests.store.postgres_rig import empty_store

import elytron

pytestmark = pytest.mark.anyio

NAMES = {"conversation": "canaryplace", "speaker": "canaryvoice"}


@pytest.fixture(params=["memory", "file", "sqlite", "postgres"])
async def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """Return the URL of an empty store."""
    match request.param:
        case "postgres":
            return await empty_store(request.getfixturevalue("database"))
        case "memory":
            return "memory:"
        case "file":
            return f"file://{tmp_path}/files"
        case _:
            return f"sqlite://{tmp_path}/m.db"


async def named_by(memory: elytron.MemoryRuntime, folder: Path) -> set[str]:
    """Return which of the names occur in what the store returns, in its files, or in an index."""
    await memory.context.folds.checkpoint()
    stored = [data for _, data in await held(memory.context.store, folder, ADA)]
    return {name for data in (*stored, *live_bytes(memory.context.folds)) for name in found_in(data, NAMES)}


async def say(memory: elytron.MemoryRuntime, speaker: str, conversation: str) -> str:
    """Store a message; return its id."""
    (memory_id,) = (await memory.add("tea at four", speaker=speaker, conversation=conversation)).ids
    return memory_id


async def test_the_names_of_a_conversation_are_removed_with_its_last_turn(url: str, tmp_path: Path) -> None:
    place, voice = NAMES.values()
    async with elytron.open(url, space=ADA) as memory:
        await say(memory, "Ben", "kitchen")
        first, second = [await say(memory, voice, place) for _ in range(2)]
        await memory.recall("tea")
        await memory.erase([first])
        assert await named_by(memory, tmp_path) == {*NAMES}
        await memory.erase([second])
        assert await named_by(memory, tmp_path) == set()


async def test_a_speakers_name_is_removed_with_their_last_message(url: str, tmp_path: Path) -> None:
    voice = NAMES["speaker"]
    async with elytron.open(url, space=ADA) as memory:
        await say(memory, "Ben", "kitchen")
        messages = tuple(elytron.Message(text="tea at five", speaker=name) for name in ("Ben", voice))
        scope = elytron.Scope(space=ADA, conversation="kitchen")
        write = elytron.TranscriptWrite(turns=(elytron.TurnDraft(messages=messages),))
        (turn,) = (await memory.write(elytron.MemoryWriteRequest(scope=scope, write=write))).ids
        other = await say(memory, voice, "kitchen")
        await memory.erase([f"{turn}#1"])
        assert await named_by(memory, tmp_path) == {"speaker"}
        await memory.erase([other])
        assert await named_by(memory, tmp_path) == set()
        (kitchen,) = (await memory.inspect()).conversations
        assert (kitchen.conversation, kitchen.speakers, kitchen.turns) == ("kitchen", ("Ben",), 2)


async def test_an_erased_conversation_restarts_with_the_next_number(url: str) -> None:
    async with elytron.open(url, space=ADA) as memory:
        erased = await say(memory, "Ben", "kitchen")
        await memory.erase([erased])
        assert (await memory.inspect()).conversations == ()
        again = await say(memory, "Ada", "kitchen")
        assert again.rpartition(".")[2] == "000000000002"
        (kitchen,) = (await memory.inspect()).conversations
        assert (kitchen.conversation, kitchen.speakers, kitchen.turns) == ("kitchen", ("Ada",), 1)
