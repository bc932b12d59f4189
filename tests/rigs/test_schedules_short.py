"""Schedules that are due while servers are killed run once each; the long form is a command."""

import random
from pathlib import Path

import pytest
from benchmarks.rigs import schedules

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(170)]


async def test_schedules_that_are_due_while_servers_are_killed_run_once(tmp_path: Path) -> None:
    book = await schedules.run_rig(tmp_path, schedules.SHORT, random.Random(1))
    assert book.failures == []
    assert (book.counts["servers killed"], book.counts["clients dropped"] > 0) == (2, True)
    assert book.counts["completed"] + book.counts["failed"] + book.counts["expired"] == schedules.SHORT.schedules
    assert min(book.counts[name] for name in ("completed", "failed", "expired")) > 0
