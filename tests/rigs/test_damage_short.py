"""The short damage rig: no fault in few stores, and it would detect one."""

import random
from pathlib import Path

import pytest
from benchmarks.rigs import damage

from elytron_core.ports.store_checks import StoreLoss


def test_damaged_stores_serve_nothing_false_and_report_their_losses(tmp_path: Path) -> None:
    tried = damage.run(8, 5, tmp_path)
    assert [each.faults for each in tried] == [[]] * 8
    assert sum(bool(each.losses) for each in tried) > 0


def test_memories_missing_without_a_record_are_a_fault(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sample = damage.make_sample("file", tmp_path / "sample")

    async def find_nothing(*_: object) -> list[StoreLoss]:
        return []

    def succeed(*_: object) -> int:
        return 0

    monkeypatch.setattr(damage, "find_losses", find_nothing)
    monkeypatch.setattr(damage, "_run", succeed)
    tried = damage.try_damage(sample, "emptied", tmp_path / "damaged", random.Random(1))
    assert tried.faults == ["sound, though memories are gone"]
