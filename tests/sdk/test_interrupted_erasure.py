"""An erasure that dies between its two steps is completed by the same request."""

import pytest

import elytron
from elytron_core.clock import FrozenClock
from elytron_core.contracts.memories import ControlDecision, ControlOutcome
from elytron_core.errors import StoreUnavailable
from elytron_core.ids import SeededIds, SpaceId
from elytron_core.ports.store import ErasureReceipt, ErasureTarget
from elytron_store.memory import MemoryStore

pytestmark = pytest.mark.anyio

SPACE = SpaceId("ada")


class DyingStore(MemoryStore):
    """A store whose first physical erasure does not happen."""

    def __init__(self) -> None:
        super().__init__()
        self.erasures = 0

    async def erase(self, erasure: ErasureTarget, /) -> ErasureReceipt:
        self.erasures += 1
        if self.erasures == 1:
            raise StoreUnavailable("the process dies here")
        return await super().erase(erasure)


def opening(store: MemoryStore) -> elytron.RuntimeOpening:
    return elytron.open(store, space=SPACE, clock=FrozenClock(step_ms=1), ids=SeededIds())


async def test_a_turn_is_subtracted_from_its_conversation_once() -> None:
    store = DyingStore()
    memory = await opening(store)
    for text in ("tea at four", "coffee at five", "bread at six"):
        report = await memory.add(text, conversation="kitchen")
    erase = elytron.MemoryEraseRequest(ids=report.ids)
    with pytest.raises(StoreUnavailable):
        await memory.erase(erase)
    again = await memory.erase(erase)
    assert [decision.outcome for decision in again.decisions] == [ControlOutcome.CHANGED]
    assert again.removed == {"turns": 1}
    ledger = await memory.replay("kitchen")
    assert ledger.total_turns == 2
    assert [turn.messages[0].text for turn in ledger.turns] == ["tea at four", "coffee at five"]


async def test_content_being_erased_is_not_shown_in_between() -> None:
    store = DyingStore()
    memory = await opening(store)
    report = await memory.add("tea at four", conversation="kitchen")
    with pytest.raises(StoreUnavailable):
        await memory.erase(elytron.MemoryEraseRequest(ids=report.ids))
    assert (await memory.recall("tea")).hits == ()


async def test_a_message_removed_from_a_turn_leaves_no_bytes_after_the_second_request() -> None:
    store = DyingStore()
    memory = await opening(store)
    drafts = (elytron.Message(text="tea at four"), elytron.Message(text="coffee at five"))
    write = elytron.TranscriptWrite(turns=(elytron.TurnDraft(messages=drafts),))
    (turn,) = (await memory.write(elytron.MemoryWriteRequest(write=write))).ids
    erase = elytron.MemoryEraseRequest(ids=(f"{turn}#1",))
    with pytest.raises(StoreUnavailable):
        await memory.erase(erase)
    again = await memory.erase(erase)
    unchanged = ControlDecision(
        id=f"{turn}#1",
        outcome=ControlOutcome.UNCHANGED,
        plane=elytron.RecallPlane.TRANSCRIPT,
        reason="it was already erased",
    )
    assert again.decisions == (unchanged,)
    assert store.erasures == 2
