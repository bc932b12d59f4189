"""The hook record keeps few files and loses no total."""

import os
import stat
from pathlib import Path

import pytest

from elytron_assistants.hooks import activity
from elytron_assistants.hooks.activity import ActivityCounts, ActivityFolder, RepositoryActivity, SessionActivity
from elytron_assistants.hooks.blocks import line_digests
from elytron_core.clock import Instant


def counted(before: SessionActivity) -> SessionActivity:
    """Return a record with one more prompt."""
    return before.model_copy(
        update={"store": "s", "repository": "project-1", "counts": before.counts + ActivityCounts(prompts=1)}
    )


def test_sessions_without_files_are_still_counted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
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


def test_a_forgotten_repository_is_in_no_record(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(activity, "SESSIONS_KEPT", 2)
    records = ActivityFolder(tmp_path / "assistants")
    records.forget("s", "project-1")
    for number in range(4):
        records.change("codex", f"s{number}", counted, at=Instant(number + 1))
    records.change("codex", "other", lambda before: before.model_copy(update={"repository": "b"}), at=Instant(9))
    records.forget("s", "project-1")
    assert [one.repository for one in records.repositories()] == ["b"]


def test_line_digests_depend_on_the_key_of_their_folder(tmp_path: Path) -> None:
    one, other = (ActivityFolder(tmp_path / name) for name in ("one", "other"))
    keys = {one.line_key(), one.line_key(), other.line_key()}
    block = "- [user] The door code is 4711."
    assert len(keys) == len({line_digests(block, key) for key in keys}) == 2
    if os.name == "posix":
        assert stat.S_IMODE((one.folder / "key").stat().st_mode) == 0o600
    (one.folder / "key").write_bytes(b"short")
    assert len(one.line_key()) == 32


def test_a_damaged_session_file_does_not_affect_the_others(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(activity, "SESSIONS_KEPT", 2)
    records = ActivityFolder(tmp_path / "assistants")
    records.change("codex", "s0", counted, at=Instant(1))
    next(records.folder.glob("*.json")).write_bytes(b"{")
    for number in range(1, 4):
        records.change("codex", f"s{number}", counted, at=Instant(number + 1))
    assert [one.counts.prompts for one in records.repositories()] == [3]
    assert records.read("codex", "s0") == SessionActivity(host="codex")
