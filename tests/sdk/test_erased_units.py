"""Erasures in a live index: it answers like one rebuilt from the journal, on every store."""

import asyncio
import gc
import re
import struct
import tempfile
from collections.abc import Callable, Sequence
from contextlib import nullcontext, suppress
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st
from tests.sdk.encoders import DIMENSIONS, WordEmbedder
from tests.sdk.told import believe, learn

import elytron
from elytron_core.clock import FrozenClock
from elytron_core.errors import ElytronError
from elytron_core.ids import SeededIds, SpaceId
from elytron_core.ports.store import Store
from elytron_index import IndexQuery
from elytron_store.memory import MemoryStore

SPACE = SpaceId("ada")
WORDS = ("tea", "milk", "lemon", "porto", "bicycle", "garden")
TOPICS = ("drink", "home")
SPEAKERS = ("Ada", "Ben")

CHANGES = ("correct", "forget", "erase")
STEP_NAMES = [*CHANGES, "add", "add", "talk", "fact", "skill", "correct", "erase", "erase", "ask", "stored", "reopen"]
Step = tuple[str, int, int]
STEPS = st.lists(
    st.tuples(
        st.sampled_from(STEP_NAMES),
        st.integers(0, 5),
        st.integers(0, 40),
    ),
    min_size=4,
    max_size=24,
)
SECRET_BYTES = re.compile(rb"(?s)^ELYX.*qxkbyt")
QUESTIONS = ("tea with milk", "where is home", "what did Ada say of the bicycle", "lemon garden porto")


class LastingStore(MemoryStore):
    """A memory store that several runtimes use in turn."""

    async def close(self) -> None:
        """Stay open."""


class Script:
    """One runtime that runs a script, and another that follows it."""

    def __init__(self, opened: Callable[[], elytron.RuntimeOpening]) -> None:
        self.opened = opened
        self.ids: list[str] = []

    async def run(self, steps: Sequence[Step]) -> None:
        """Run `steps`, and compare the answers with those of an index rebuilt from the journal."""
        self.memory, self.other = await self.opened(), await self.opened()
        try:
            for number, (step, word, place) in enumerate(steps):
                await self.do(step, f"{WORDS[word]} {WORDS[place % 5]} w{number}", place)
            await self.memory.embed()
            answers = [await answers_of(each) for each in (self.memory, self.other)]
            fresh = await self.opened()
            try:
                await fresh.context.folds.rebuild(SPACE)
                expected = await answers_of(fresh)
            finally:
                await fresh.close()
            assert answers == [expected, expected]
        finally:
            await self.other.close()
            await self.memory.close()

    async def do(self, step: str, text: str, place: int) -> None:
        chosen = self.ids[place % len(self.ids)] if self.ids else "nothing"
        # A memory may be gone, or none suitable for a step.
        with suppress(ElytronError) if step in CHANGES else nullcontext():
            match step:
                case "add":
                    self.ids += (await self.memory.add(text, conversation=f"c{place % 2}")).ids
                case "talk":
                    messages = tuple(elytron.Message(text=f"{text} {name}", speaker=name) for name in SPEAKERS)
                    write = elytron.TranscriptWrite(turns=(elytron.TurnDraft(messages=messages),))
                    (turn,) = (await self.memory.write(elytron.MemoryWriteRequest(write=write))).ids
                    self.ids += [f"{turn}#0", f"{turn}#1"]
                case "fact":
                    self.ids += (await believe(self.memory, TOPICS[place % 2], text)).ids
                case "skill":
                    self.ids += (await learn(self.memory, f"brew{place % 3}", f"1. {text}.\n2. Wait.\n3. Serve.")).ids
                case "correct":
                    report = await self.memory.correct(elytron.MemoryCorrectRequest(id=chosen, content=text))
                    self.ids += [one.new_id for one in report.decisions if one.new_id is not None]
                case "forget":
                    await self.memory.forget(elytron.MemoryForgetRequest(ids=(chosen,)))
                case "erase":
                    await self.memory.erase(elytron.MemoryEraseRequest(ids=(chosen,)))
                case "ask":
                    await answers_of(self.other)
                case "stored":
                    await self.memory.embed()
                    await self.memory.context.folds.checkpoint()
                case _:
                    await self.memory.close()
                    self.memory = await self.opened()


async def answers_of(memory: elytron.MemoryRuntime) -> list[object]:
    """Return an index's answers to several questions, with all signals, and a runtime's recalls."""
    index, encoder = await memory.context.folds.current(SPACE), WordEmbedder()
    found: list[object] = [index.planes(), index.speakers(), index.documents, index.models()]
    for question in QUESTIONS:
        vector = (index.compared, struct.pack(f"<{DIMENSIONS}f", *encoder.vector(question)))
        for query in (IndexQuery(question, 50), IndexQuery(question, 50, vector=vector)):
            searched = index.search(query)
            # A journal position orders units, and is not part of the answer.
            units = [one._replace(unit=one.unit._replace(sequence=0)) for one in searched.candidates]
            found.append(replace(searched, candidates=tuple(units)))
        # Each runtime counts uses of procedures, so scores may differ.
        found.append([(hit.id, hit.text) for hit in (await memory.recall(question, limit=20)).hits])
    return found


def opening(store: Callable[[], Store | str], clock: FrozenClock, ids: SeededIds) -> elytron.RuntimeOpening:
    return elytron.open(store(), space=SPACE, clock=clock, ids=ids, embedder=WordEmbedder())


@settings(max_examples=25, phases=(Phase.generate,))
@given(steps=STEPS, step_ms=st.sampled_from([0, 1]))
@pytest.mark.parametrize("engine", ["memory", "file", "sqlite"])
def test_an_index_after_an_erasure_equals_one_rebuilt_from_the_journal(
    engine: str, steps: list[Step], step_ms: int
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        memory = LastingStore()
        url = f"file://{folder}/files" if engine == "file" else f"sqlite://{folder}/m.db"
        clock, ids = FrozenClock(step_ms=step_ms), SeededIds()

        def opened() -> elytron.RuntimeOpening:
            return opening(lambda: memory if engine == "memory" else url, clock, ids)

        asyncio.run(Script(opened).run(steps))


@settings(max_examples=4, phases=(Phase.generate,))
@given(steps=STEPS)
def test_an_index_over_postgres_after_an_erasure_equals_a_rebuilt_one(database: str, steps: list[Step]) -> None:
    clock, ids, url = FrozenClock(step_ms=1), SeededIds(), f"{database}?sealed=no"

    async def run() -> None:
        await Script(lambda: opening(lambda: url, clock, ids)).run(steps)
        async with opening(lambda: url, clock, ids) as memory:
            await memory.erase(elytron.MemoryEraseRequest(whole_space=SPACE))

    asyncio.run(run())


def remembering(word: str) -> list[str]:
    """Return this process's caching functions that retain `word`."""
    found = [each for each in gc.get_objects() if type(each).__name__ == "_lru_cache_wrapper"]
    return [str(each) for each in found if any(word in str(kept) for kept in gc.get_referents(each))]


@pytest.mark.anyio
@pytest.mark.parametrize("compacts", [False, True])
async def test_no_cache_retains_erased_content_or_questions_about_it(*, compacts: bool) -> None:
    store = LastingStore()
    async with elytron.open(store, space=SPACE) as memory, elytron.open(store, space=SPACE) as other:
        (tea,) = (await memory.add("tea at four", speaker="Ada")).ids
        (secret,) = (await memory.add("my code word is qxkorbi", speaker="Ada")).ids
        await memory.recall("who said qxkorbi?")
        await other.recall("when was qxkorbi said?")
        assert remembering("qxkorbi")
        if compacts:
            # Erased memories are no longer named when the other one gets there.
            await memory.erase([tea, secret])
            await memory.add("milk")
            await memory.compact_journal()
            await other.recall("When did Ada say qxkorbi?")
            await memory.erase(list((await memory.add("lemon")).ids))
        else:
            await memory.erase([secret])
        assert not remembering("qxkorbi")


@pytest.mark.anyio
async def test_after_an_erasure_nothing_references_the_checkpoints_bytes(tmp_path: Path) -> None:
    url = f"sqlite://{tmp_path}/m.db"
    async with elytron.open(url, space=SPACE) as memory:
        (secret,) = (await memory.add("my code word is qxkbytes")).ids
        await memory.add([f"tea number {number}" for number in range(70)])
        await memory.recall("tea")
    async with elytron.open(url, space=SPACE) as memory:
        await memory.recall("tea")
        await memory.erase([secret])
        held: list[list[object]] = [each for each in gc.get_objects() if isinstance(each, list)]
        assert not [each for each in held if any(type(one) is bytes and SECRET_BYTES.search(one) for one in each[:100])]
