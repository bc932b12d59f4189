"""The uploads rig kills a server before a file's bytes and after its text; its long form is a command."""

from pathlib import Path

import pytest
from benchmarks.rigs import uploads


@pytest.mark.timeout(170)
def test_an_upload_interrupted_by_a_kill_is_completed_by_the_next_process(tmp_path: Path) -> None:
    outcome = uploads.Outcome()
    uploads.killed(tmp_path, outcome, at=(5, 8))
    assert (outcome.ok, outcome.kills, outcome.wrong) == (True, 2, [])
    assert outcome.shown == {"pending": 2}
