"""A call's answer when its subject is erased while it runs."""

from collections.abc import AsyncIterator

import pytest
from tests.sdk.encoders import WordEmbedder
from tests.sdk.meanwhile import Meanwhile
from tests.sdk.turns import answering, finish, item, items

import elytron
from elytron_core.clock import FrozenClock
from elytron_core.errors import NotFound
from elytron_core.ids import SeededIds
from elytron_core.planes.facts import FACTS
from elytron_core.planes.jobs import JOBS
from elytron_core.planes.transcript import TURNS
from elytron_store.memory import MemoryStore

pytestmark = pytest.mark.anyio

MODEL = answering(("Porto", items(item("The user lives in Porto.", "home is Porto these days"))))


@pytest.fixture
def store() -> Meanwhile:
    return Meanwhile(MemoryStore())


@pytest.fixture
async def memory(store: Meanwhile, clock: FrozenClock) -> AsyncIterator[elytron.MemoryRuntime]:
    ids = SeededIds()
    async with elytron.open(store, space="ada", clock=clock, ids=ids, language_model=MODEL) as runtime:
        yield runtime


async def fact(memory: elytron.MemoryRuntime) -> str:
    draft = elytron.FactDraft(topic="birthday", content="14 March")
    written = elytron.MemoryWriteRequest(write=elytron.LongTermExtraction(facts=(draft,)))
    return (await memory.write(written)).ids[0]


async def test_correcting_a_concurrently_erased_fact_reports_it_missing(
    memory: elytron.MemoryRuntime, store: Meanwhile
) -> None:
    wrong = await fact(memory)
    store.behind_reading(FACTS, lambda: memory.erase(elytron.MemoryEraseRequest(ids=(wrong,))))
    with pytest.raises(NotFound):
        await memory.correct(elytron.MemoryCorrectRequest(id=wrong, content="4 March"))
    assert store.is_over


async def test_correcting_a_fact_of_a_concurrently_erased_space_reports_it_missing(
    memory: elytron.MemoryRuntime, store: Meanwhile
) -> None:
    wrong = await fact(memory)
    store.behind_reading(FACTS, lambda: memory.erase(elytron.MemoryEraseRequest(whole_space="ada")))
    with pytest.raises(NotFound):
        await memory.correct(elytron.MemoryCorrectRequest(id=wrong, content="4 March"))
    assert not (await memory.inspect()).exists


async def test_a_facts_history_reveals_nothing_of_a_concurrently_erased_space(
    memory: elytron.MemoryRuntime, store: Meanwhile
) -> None:
    known = await fact(memory)
    store.behind_reading(FACTS, lambda: memory.erase(elytron.MemoryEraseRequest(whole_space="ada")))
    with pytest.raises(NotFound):
        await memory.history(known)


async def test_maintaining_a_turn_of_a_concurrently_erased_space_reports_it_missing(
    memory: elytron.MemoryRuntime, store: Meanwhile
) -> None:
    store.behind_commit(TURNS, lambda: memory.erase(elytron.MemoryEraseRequest(whole_space="ada")))
    with pytest.raises(NotFound, match="erased"):
        await finish(memory, "t1", "I live in Lisbon.")
    assert not (await memory.inspect()).exists


async def test_a_job_is_dropped_if_its_space_is_erased_while_it_is_leased(
    memory: elytron.MemoryRuntime, store: Meanwhile
) -> None:
    await finish(memory, "t1", "Well, home is Porto these days.")
    assert (await memory.list_jobs()).counts == {"pending": 1}
    store.behind_commit(JOBS, lambda: memory.erase(elytron.MemoryEraseRequest(whole_space="ada")))
    assert (await memory.run_jobs()).waiting == 0
    assert store.is_over
    assert not (await memory.inspect()).exists


async def test_a_text_erased_during_embedding_leaves_no_vector(store: Meanwhile, clock: FrozenClock) -> None:
    async with elytron.open(store, space="ada", clock=clock, ids=SeededIds(), embedder=WordEmbedder()) as memory:
        memory.context.encoders.nudge = lambda space, work: None
        wrong = await fact(memory)
        store.before_erasure(memory.embed)
        assert (await memory.erase(elytron.MemoryEraseRequest(ids=(wrong,)))).changed
        assert store.is_over
        assert "vectors" not in (await memory.inspect()).documents
