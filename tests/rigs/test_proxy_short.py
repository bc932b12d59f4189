"""The proxy rig finds each write once in a handful of faults; its long form is a command."""

import random
from pathlib import Path

import pytest
from benchmarks.rigs import proxy

pytestmark = pytest.mark.anyio


async def test_a_write_over_a_failing_network_is_stored_exactly_once(tmp_path: Path) -> None:
    outcome = await proxy.run(tmp_path, writes=60, chance=random.Random(3), percent=60)
    assert (outcome.ok, outcome.turns, outcome.distinct, outcome.missing) == (True, 60, 60, 0)
    assert all(outcome.faults[fault] for fault in proxy.Fault)
