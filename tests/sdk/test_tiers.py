"""Fact tiers: a proposed fact states how long it holds, which determines its end."""

from pathlib import Path

import pytest

import elytron
from elytron_core.clock import DAY_MS, FrozenClock
from elytron_core.contracts.facts import FactAction, FactChangeRequest, FactDraft, FactEntry, FactListRequest
from elytron_core.contracts.recall import RecallFilters, RecallPlane
from elytron_core.contracts.transcript import LongTermExtraction, MemoryWriteRequest, WriteOutcome
from elytron_core.ids import SeededIds
from elytron_core.planes.facts import FactState, FactTier, end_of

pytestmark = pytest.mark.anyio

HOUR_MS = DAY_MS // 24


@pytest.fixture
def clock() -> FrozenClock:
    clock = FrozenClock()
    clock.advance(15 * HOUR_MS)  # in the afternoon of a day, UTC
    return clock


async def told(memory: elytron.MemoryRuntime, content: str, tier: FactTier, *, topic: str = "need") -> WriteOutcome:
    draft = FactDraft(topic=topic, content=content, tier=tier, certainty=0.8)
    report = await memory.write(MemoryWriteRequest(write=LongTermExtraction(facts=(draft,))))
    return report.decisions[0].outcome


async def facts(memory: elytron.MemoryRuntime, *states: FactState) -> tuple[FactEntry, ...]:
    return (await memory.list_facts(FactListRequest(states=states or tuple(FactState)))).items


async def recalled(memory: elytron.MemoryRuntime, query: str) -> list[str]:
    report = await memory.recall(query, filters=RecallFilters(planes=(RecallPlane.LONG_TERM,)))
    return [hit.text for hit in report.hits]


@pytest.mark.parametrize(("tier", "days"), [(FactTier.L1, 1), (FactTier.L2, 7)])
async def test_a_tier_expires_at_the_midnight_after_its_days(
    memory: elytron.MemoryRuntime, clock: FrozenClock, tier: FactTier, days: int
) -> None:
    assert await told(memory, "buy bread", tier) is WriteOutcome.STORED
    (fact,) = await facts(memory)
    midnight = clock.now() - 15 * HOUR_MS
    assert (fact.tier, fact.certainty, fact.valid_to) == (tier, 0.8, midnight + days * DAY_MS)
    clock.advance(days * DAY_MS - 15 * HOUR_MS - 1)
    assert await recalled(memory, "bread") == ["buy bread"]
    clock.advance(1)
    assert await recalled(memory, "bread") == []


async def test_a_fact_without_end_stays(memory: elytron.MemoryRuntime, clock: FrozenClock) -> None:
    await told(memory, "tea without milk", FactTier.L0)
    clock.advance(3_000 * DAY_MS)
    assert await recalled(memory, "milk") == ["tea without milk"]
    assert end_of(None, clock.now()) is end_of(FactTier.L0, clock.now()) is None


async def test_the_same_statement_in_another_tier_replaces_the_first(memory: elytron.MemoryRuntime) -> None:
    assert await told(memory, "tea", FactTier.L1) is WriteOutcome.STORED
    assert await told(memory, "tea", FactTier.L1) is WriteOutcome.CONFIRMED
    assert await told(memory, "tea", FactTier.L0) is WriteOutcome.UPDATED
    assert [(fact.tier, fact.state) for fact in await facts(memory)] == [
        (FactTier.L1, FactState.SUPERSEDED),
        (FactTier.L0, FactState.ACTIVE),
    ]


async def test_a_statement_repeated_after_its_expiry_holds_again(
    memory: elytron.MemoryRuntime, clock: FrozenClock
) -> None:
    await told(memory, "tea", FactTier.L1)
    clock.advance(3 * DAY_MS)
    assert await told(memory, "tea", FactTier.L1) is WriteOutcome.UPDATED
    first, second = await facts(memory)
    assert first.valid_to is not None
    assert second.valid_from is not None
    assert first.valid_to < second.valid_from
    assert await recalled(memory, "tea") == ["tea"]


async def test_a_manual_replacement_keeps_the_facts_tier(memory: elytron.MemoryRuntime, clock: FrozenClock) -> None:
    await told(memory, "tea", FactTier.L2)
    (fact,) = await facts(memory)
    clock.advance(DAY_MS)
    await memory.change_fact(FactChangeRequest(id=fact.id, action=FactAction.SUPERSEDE, content="coffee"))
    (changed,) = await facts(memory, FactState.ACTIVE)
    assert fact.valid_to is not None
    assert (changed.tier, changed.certainty, changed.valid_to) == (FactTier.L2, None, fact.valid_to + DAY_MS)


async def test_a_tier_is_preserved_in_another_memory(memory: elytron.MemoryRuntime, tmp_path: Path) -> None:
    await told(memory, "tea", FactTier.L2)
    await memory.export(f"{tmp_path}/ada.elytron")
    async with elytron.open("memory:", space="eve", clock=FrozenClock(), ids=SeededIds("eve")) as other:
        await other.import_archive(f"{tmp_path}/ada.elytron", mode=elytron.ImportMode.BOOTSTRAP)
        (fact,) = await facts(other)
    assert (fact.tier, fact.certainty) == (FactTier.L2, 0.8)
