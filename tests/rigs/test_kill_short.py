"""The kill rig finds nothing lost in a handful of kills; its long form is a command."""

import random
from pathlib import Path

import pytest
from benchmarks.rigs import kill
from benchmarks.rigs.engines import Engine


@pytest.mark.parametrize("engine", [Engine.FILE, Engine.SQLITE])
def test_a_kill_loses_nothing_acknowledged(engine: Engine, tmp_path: Path) -> None:
    outcome = kill.run(engine, tmp_path, kills=3, chance=random.Random(1))
    assert (outcome.kills, outcome.found.lost, outcome.found.wrong) == (3, [], [])
