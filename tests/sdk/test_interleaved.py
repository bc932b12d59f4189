"""Somebody else writes between an operation's read and its commit: it reads again, and nothing is lost."""

from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path

import pytest

import elytron
from elytron import (
    FactDraft,
    LongTermExtraction,
    MemoryCorrectRequest,
    MemoryEraseRequest,
    MemoryForgetRequest,
    MemoryInspectionRequest,
    MemoryMergeRequest,
    MemoryRuntime,
    MemorySpaceExportRequest,
    MemoryWriteRequest,
)
from elytron.state import change_lines
from elytron_core.clock import FrozenClock
from elytron_core.contracts.memories import ControlOutcome
from elytron_core.errors import Conflict, NotFound, StoreBusy, StoreUnavailable
from elytron_core.ids import SeededIds, SpaceId
from elytron_core.planes.facts import FactAuthority, FactKind
from elytron_core.ports.store import Batch, CommitReceipt, JournalEntry
from elytron_store.memory import MemoryStore

pytestmark = pytest.mark.anyio

SPACE = SpaceId("ada")


class CrowdedStore(MemoryStore):
    """A store where `meanwhile` happens before each commit, `times` times."""

    def __init__(self) -> None:
        super().__init__()
        self.meanwhile: Callable[[], Awaitable[object]] | None = None
        self.times = 0
        self.reads_journal = False

    async def commit(self, batch: Batch, /) -> CommitReceipt:
        await self._interrupt()
        return await super().commit(batch)

    async def journal(self, space: SpaceId, /, *, after: int, limit: int) -> Sequence[JournalEntry]:
        if self.reads_journal and limit == 1:
            await self._interrupt()
        return await super().journal(space, after=after, limit=limit)

    async def _interrupt(self) -> None:
        if self.meanwhile is not None and self.times > 0:
            self.times -= 1
            work, self.meanwhile = self.meanwhile, None
            await work()
            self.meanwhile = work


def opening(store: MemoryStore, clock: FrozenClock, seed: str) -> elytron.RuntimeOpening:
    return elytron.open(store, space=SPACE, clock=clock, ids=SeededIds(seed))


@pytest.fixture
def store() -> CrowdedStore:
    return CrowdedStore()


@pytest.fixture
async def memory(store: CrowdedStore, clock: FrozenClock) -> MemoryRuntime:
    return await opening(store, clock, "one")


@pytest.fixture
async def other(store: CrowdedStore, clock: FrozenClock) -> MemoryRuntime:
    return await opening(store, clock, "two")


def says(store: CrowdedStore, work: Callable[[], Awaitable[object]], *, times: int = 1) -> None:
    store.meanwhile, store.times = work, times


async def fact(memory: MemoryRuntime, topic: str, content: str) -> str:
    draft = FactDraft(fact_kind=FactKind.PROFILE, topic=topic, content=content, authority=FactAuthority.USER_ASSERTED)
    report = await memory.write(MemoryWriteRequest(write=LongTermExtraction(facts=(draft,))))
    return report.ids[0]


async def test_two_runtimes_appending_to_one_conversation_lose_no_turn(
    store: CrowdedStore, memory: MemoryRuntime, other: MemoryRuntime
) -> None:
    await memory.add("one")
    says(store, lambda: other.add("two, in between"))
    await memory.add("three")
    ledger = await memory.replay()
    assert [turn.messages[0].text for turn in ledger.turns] == ["one", "two, in between", "three"]
    assert [turn.sequence for turn in ledger.turns] == [1, 2, 3]


async def test_concurrent_forgets_of_neighbouring_messages_hide_both(
    store: CrowdedStore, memory: MemoryRuntime, other: MemoryRuntime
) -> None:
    turn = elytron.TurnDraft(messages=(elytron.Message(text="tea at four"), elytron.Message(text="tea at five")))
    (first,) = (await memory.write(MemoryWriteRequest(write=elytron.TranscriptWrite(turns=(turn,))))).ids
    says(store, lambda: other.forget(MemoryForgetRequest(ids=(f"{first}#1",))))
    report = await memory.forget(MemoryForgetRequest(ids=(first,)))
    assert report.changed
    assert (await memory.recall("tea")).hits == ()


@pytest.mark.parametrize("is_write_first", [True, False])
async def test_a_fact_is_not_restored_next_to_a_concurrently_written_value(
    store: CrowdedStore, memory: MemoryRuntime, other: MemoryRuntime, is_write_first: bool
) -> None:
    porto = await fact(memory, "home", "Ada lives in Porto")
    await memory.forget(porto)

    async def undo() -> object:
        return await memory.forget(MemoryForgetRequest(ids=(porto,), undo=True))

    async def write() -> object:
        return await fact(other, "home", "Ada lives in Lisbon")

    first, second = (write, undo) if is_write_first else (undo, write)
    says(store, first)
    await second()
    assert [item.text for item in (await memory.list()).items] == ["Ada lives in Lisbon"]


async def test_a_merged_fact_is_not_restored_next_to_a_concurrently_written_value(
    store: CrowdedStore, memory: MemoryRuntime, other: MemoryRuntime
) -> None:
    await fact(memory, "drink", "Ada likes green tea in the morning")
    await fact(memory, "cup", "Ada likes green tea in the mornings")
    (pair,) = (await memory.merge_facts()).pairs
    topic = (await memory.get_fact(pair.folded)).fact.topic
    says(store, lambda: fact(other, topic, "Ada drinks water at noon"))
    await memory.merge_facts(MemoryMergeRequest(undo=(pair.folded,)))
    texts = [item.text for item in (await memory.list()).items]
    assert "Ada drinks water at noon" in texts
    assert len(texts) == 2


async def test_a_correction_of_a_concurrently_confirmed_fact_succeeds(
    store: CrowdedStore, memory: MemoryRuntime, other: MemoryRuntime
) -> None:
    old = await fact(memory, "home", "Ada lives in Porto")
    says(store, lambda: fact(other, "home", "Ada lives in Porto"))
    await memory.correct(MemoryCorrectRequest(id=old, content="Ada lives in Lisbon"))
    assert [hit.text for hit in (await memory.recall("Where does Ada live?")).hits] == ["Ada lives in Lisbon"]


async def test_an_erasure_counts_concurrent_appends(
    store: CrowdedStore, memory: MemoryRuntime, other: MemoryRuntime
) -> None:
    first = (await memory.add("the safe opens with seven")).ids[0]
    await memory.add("bread at six")
    says(store, lambda: other.add("milk at eight"))
    report = await memory.erase(MemoryEraseRequest(ids=(first,)))
    assert dict(report.removed) == {"turns": 1}
    shown = await memory.inspect(MemoryInspectionRequest())
    assert [head.turns for head in shown.conversations] == [2]
    assert "safe" not in "".join(hit.text for hit in (await memory.recall("safe")).hits)


async def test_two_facts_of_a_slot_can_be_erased_together_after_unseen_growth(
    store: CrowdedStore, memory: MemoryRuntime, other: MemoryRuntime
) -> None:
    porto = await fact(memory, "home", "Ada lives in Porto")
    madrid = await fact(memory, "home", "Ada lives in Madrid")
    says(store, lambda: fact(other, "home", "Ada lives in Lisbon"))
    # Madrid is superseded by then; the slot that both leave still holds Lisbon.
    (decision,) = (await memory.forget(MemoryForgetRequest(ids=(madrid,)))).decisions
    assert (decision.outcome, len(decision.remaining)) == (ControlOutcome.CHANGED, 2)
    await memory.erase(MemoryEraseRequest(ids=(porto, madrid)))
    assert [item.text for item in (await memory.list()).items] == ["Ada lives in Lisbon"]


@pytest.mark.parametrize("verb", ["forget", "correct", "erase"])
async def test_a_call_that_loses_every_race_reports_a_conflict(
    store: CrowdedStore, memory: MemoryRuntime, other: MemoryRuntime, verb: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(change_lines, "RACES", 5)
    home = await fact(memory, "home", "Ada lives in Porto")
    turn = (await memory.add("the first word")).ids[0]

    async def disturb() -> None:
        await fact(other, "home", "Ada lives in Porto")
        await other.add("another word")

    calls: dict[str, Callable[[], Awaitable[object]]] = {
        "forget": lambda: memory.forget(MemoryForgetRequest(ids=(home,))),
        "correct": lambda: memory.correct(MemoryCorrectRequest(id=home, content="Ada lives in Lisbon")),
        "erase": lambda: memory.erase(MemoryEraseRequest(ids=(turn,))),
    }
    says(store, disturb, times=100)
    with pytest.raises(Conflict):
        await calls[verb]()


async def test_an_export_is_repeated_after_a_concurrent_write(
    store: CrowdedStore, memory: MemoryRuntime, other: MemoryRuntime, tmp_path: Path
) -> None:
    await memory.add("one")
    store.reads_journal = True
    says(store, lambda: other.add("two"))
    report = await memory.export(MemorySpaceExportRequest(path=str(tmp_path / "ada.elytron"), include_private=True))
    assert report.documents["turns"] == 2


async def test_an_export_under_constant_writes_says_so_and_leaves_no_file(
    store: CrowdedStore, memory: MemoryRuntime, other: MemoryRuntime, tmp_path: Path
) -> None:
    await memory.add("one")
    store.reads_journal = True
    says(store, lambda: other.add("again"), times=100)
    with pytest.raises(StoreBusy):
        await memory.export(tmp_path / "ada.elytron", include_private=True)
    assert list(tmp_path.iterdir()) == []


async def test_a_failing_checkpoint_does_not_prevent_closing(
    store: CrowdedStore, memory: MemoryRuntime, monkeypatch: pytest.MonkeyPatch
) -> None:
    await memory.add("tea at four")
    await memory.recall("tea")

    async def refuse(*_: object) -> int:
        raise StoreUnavailable("the device is gone")

    monkeypatch.setattr(store, "write_blob", refuse)
    assert (await memory.close()).checkpoints_written == 0


async def test_an_unused_space_has_nothing_to_export(memory: MemoryRuntime, tmp_path: Path) -> None:
    with pytest.raises(NotFound):
        await memory.export(tmp_path / "ada.elytron", include_private=True)
