"""The contention rig finds no loss and no refusal in one round; its long form is a command."""

import random
from pathlib import Path

import pytest
from benchmarks.rigs import contend
from benchmarks.rigs.engines import Engine


@pytest.mark.parametrize("engine", [Engine.FILE, Engine.SQLITE])
def test_processes_that_share_a_store_lose_nothing_when_one_is_killed(engine: Engine, tmp_path: Path) -> None:
    outcome = contend.run(engine, tmp_path, rounds=1, processes=3, chance=random.Random(1))
    assert (outcome.refused, outcome.found.lost, outcome.found.wrong) == (0, [], [])
