"""The fault rig finds no false answer at a few points; its long form is a command."""

import random
from pathlib import Path

from benchmarks.rigs import faults
from benchmarks.rigs.engines import Engine
from benchmarks.rigs.faulting import Means
from benchmarks.rigs.faults import Sweep

SYNC = Sweep("a sync fails", Means.PYTHON, error="EIO")
FULL = Sweep("a file meets its size limit", Means.LIMIT, first=509, step=1021)


def test_a_failing_system_gets_no_false_answer(tmp_path: Path) -> None:
    # Python's own syncs only: `.ci/run` sweeps all other faults, which need strace or a size limit.
    outcome = faults.run(Engine.FILE, SYNC, tmp_path, every=24, chance=random.Random(1))
    assert outcome.refused > 0
    assert (outcome.found.lost, outcome.found.wrong) == ([], [])


def test_an_acknowledgement_after_a_failed_write_is_a_false_answer() -> None:
    fault = SYNC.at(0)
    before = ["try add a alpha talk", "err add a store_failed", "try add b alpha talk", "did add b 1"]
    after = ["try add c alpha talk", "did add c 2"]
    assert list(faults.false_answers(fault, before, after)) == ["add b was acknowledged behind a failed write"]


def test_a_refusal_despite_available_room_is_a_false_answer() -> None:
    fault = FULL.at(0)
    before = ["try add a alpha talk", "err add a store_full", "try add b alpha talk", "err add b store_full"]
    after = ["try add c alpha talk", "did add c 2"]
    expected = ["still refused when there was room again: err add b store_full"]
    assert list(faults.false_answers(fault, before, after)) == expected
