"""The record of what hooks did keeps few files, and loses no sum."""

from pathlib import Path

import pytest

from elytron_assistants.hooks import activity
from elytron_assistants.hooks.activity import ActivityCounts, ActivityFolder, RepositoryActivity, SessionActivity
from elytron_core.clock import Instant


def counted(before: SessionActivity) -> SessionActivity:
    """Return a record with one more prompt."""
    return before.model_copy(
        update={"store": "s", "repository": "project-1", "counts": before.counts + ActivityCounts(prompts=1)}
    )


def test_sessions_whose_files_were_dropped_are_still_counted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(activity, "SESSIONS_KEPT", 3)
    records = ActivityFolder(tmp_path / "assistants")
    for number in range(8):
        records.change("codex", f"s{number}", counted, at=Instant(number + 1))
    files = {file.name for file in records.folder.glob("*.json")}
    expected = RepositoryActivity(
        store="s",
        repository="project-1",
        hosts=("codex",),
        sessions=8,
        started_at=Instant(1),
        changed_at=Instant(8),
        counts=ActivityCounts(prompts=8),
    )
    assert (len(files - {"totals.json"}), records.repositories()) == (3, (expected,))


def test_a_damaged_file_of_a_session_takes_nothing_from_the_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(activity, "SESSIONS_KEPT", 2)
    records = ActivityFolder(tmp_path / "assistants")
    records.change("codex", "s0", counted, at=Instant(1))
    next(records.folder.glob("*.json")).write_bytes(b"{")
    for number in range(1, 4):
        records.change("codex", f"s{number}", counted, at=Instant(number + 1))
    assert [one.counts.prompts for one in records.repositories()] == [3]
    assert records.read("codex", "s0") == SessionActivity(host="codex")
