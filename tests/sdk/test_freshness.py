"""What may have drifted since it was last said is marked in hits and in blocks."""

import pytest
from tests.sdk.told import believe

import elytron
from elytron_core.clock import DAY_MS, FrozenClock
from elytron_core.planes.freshness import FreshnessHint, FreshnessState
from elytron_core.planes.long_term import Kind

pytestmark = pytest.mark.anyio


@pytest.mark.parametrize(
    ("days", "told", "mark"),
    [
        (1, (FreshnessState.FRESH, FreshnessHint.NONE), ""),
        (20, (FreshnessState.AGING, FreshnessHint.REVIEW), " (to review)"),
        (95, (FreshnessState.STALE, FreshnessHint.VERIFY), " (to verify)"),
    ],
)
async def test_a_fact_says_how_fresh_it_is(
    memory: elytron.MemoryRuntime, clock: FrozenClock, days: int, told: tuple[FreshnessState, FreshnessHint], mark: str
) -> None:
    await believe(memory, "kiln", "it is half built", kind=Kind.PROJECT)
    clock.advance(days * DAY_MS)
    (hit,) = (await memory.recall("kiln")).hits
    (listed,) = (await memory.list()).items
    assert (hit.freshness, hit.hint) == (listed.freshness, listed.hint) == told
    assert f"project{mark}] kiln: it is half built" in (await memory.project("kiln")).system_memory_block


async def test_a_stale_capsule_is_marked(memory: elytron.MemoryRuntime, clock: FrozenClock) -> None:
    draft = {"capsule_kind": "work_session", "topic": "kiln repair", "summary": "The bricks are ordered."}
    write = {"kind": "capsules", "capsules": [draft]}
    await memory.write(elytron.MemoryWriteRequest.model_validate({"write": write}))
    (fresh,) = (await memory.recall("kiln repair")).hits
    assert (fresh.freshness, fresh.hint) == (FreshnessState.FRESH, FreshnessHint.NONE)
    clock.advance(15 * DAY_MS)
    (stale,) = (await memory.recall("kiln repair")).hits
    assert (stale.freshness, stale.hint) == (FreshnessState.STALE, FreshnessHint.VERIFY)
    assert "(to verify)] The bricks are ordered." in (await memory.project("kiln repair")).system_memory_block
