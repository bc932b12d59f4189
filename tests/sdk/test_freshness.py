"""Content that may be outdated is marked in hits and in blocks."""

import pytest
from tests.sdk.told import believe

import elytron
from elytron_core.clock import DAY_MS, FrozenClock
from elytron_core.planes.facts import FactKind, FreshnessHint, FreshnessState

pytestmark = pytest.mark.anyio


@pytest.mark.parametrize(
    ("days", "told", "mark"),
    [
        (1, (FreshnessState.FRESH, FreshnessHint.NONE), ""),
        (20, (FreshnessState.AGING, FreshnessHint.REVIEW), " (to review)"),
        (95, (FreshnessState.STALE, FreshnessHint.VERIFY), " (to verify)"),
    ],
)
async def test_a_fact_reports_its_freshness(
    memory: elytron.MemoryRuntime, clock: FrozenClock, days: int, told: tuple[FreshnessState, FreshnessHint], mark: str
) -> None:
    await believe(memory, "kiln", "it is half built", kind=FactKind.PROJECT)
    clock.advance(days * DAY_MS)
    (hit,) = (await memory.recall("kiln")).hits
    (listed,) = (await memory.list()).items
    read = await memory.get(hit.id)
    assert (hit.freshness, hit.hint) == (listed.freshness, listed.hint) == (read.freshness, read.hint) == told
    assert f"project{mark}] kiln: it is half built" in (await memory.project("kiln")).system_memory_block


async def test_a_facts_freshness_follows_its_last_observation_not_its_recording(
    memory: elytron.MemoryRuntime, clock: FrozenClock
) -> None:
    year_ago = clock.now() - 366 * DAY_MS
    (fact,) = (await believe(memory, "home", "Lisbon", observed_at=year_ago)).ids
    assert (await memory.get(fact)).hint is FreshnessHint.VERIFY
    await believe(memory, "home", "Lisbon", observed_at=year_ago + DAY_MS)
    entry = (await memory.get_fact(fact)).fact
    assert (entry.evidence_count, entry.confirmed_at, entry.hint) == (2, year_ago + DAY_MS, FreshnessHint.VERIFY)
    assert [item.event.value for item in (await memory.history(fact)).items] == ["added", "confirmed"]
    await believe(memory, "home", "Lisbon")
    assert (await memory.get(fact)).hint is FreshnessHint.NONE


async def test_only_a_later_observation_clears_a_stale_mark(memory: elytron.MemoryRuntime, clock: FrozenClock) -> None:
    (fact,) = (await believe(memory, "home", "Lisbon")).ids
    before = clock.now()
    await memory.change_fact(elytron.FactChangeRequest(id=fact, action=elytron.FactAction.MARK_STALE))
    await believe(memory, "home", "Lisbon", observed_at=before)
    assert (await memory.get(fact)).hint is FreshnessHint.VERIFY
    await believe(memory, "home", "Lisbon")
    assert (await memory.get(fact)).hint is FreshnessHint.NONE


async def test_a_stale_capsule_is_marked(memory: elytron.MemoryRuntime, clock: FrozenClock) -> None:
    draft = {"capsule_kind": "work_session", "topic": "kiln repair", "summary": "The bricks are ordered."}
    write = {"kind": "capsules", "capsules": [draft]}
    await memory.write(elytron.MemoryWriteRequest.model_validate({"write": write}))
    (fresh,) = (await memory.recall("kiln repair")).hits
    assert (fresh.freshness, fresh.hint) == (FreshnessState.FRESH, FreshnessHint.NONE)
    clock.advance(15 * DAY_MS)
    (stale,) = (await memory.recall("kiln repair")).hits
    assert (await memory.get(stale.id)).hint is FreshnessHint.VERIFY
    assert (stale.freshness, stale.hint) == (FreshnessState.STALE, FreshnessHint.VERIFY)
    assert "(to verify)] The bricks are ordered." in (await memory.project("kiln repair")).system_memory_block
