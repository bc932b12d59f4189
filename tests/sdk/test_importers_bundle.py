"""Exports of other programs as the ZIP files in which they are delivered."""

import json
import zipfile
from pathlib import Path
from typing import Any

import pytest
from tests.sdk.opened_transcripts import opened
from tests.sdk.test_importers import CANARY, rows, written

import elytron
from elytron.importers.detection import TranscriptFormat
from elytron_core.errors import UnreadableFile


def zipped(folder: Path, **members: Any) -> Path:
    path = folder / "export.zip"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in members.items():
            archive.writestr(f"{name}.json", json.dumps(content))
    return path


CHATGPT: dict[str, Any] = {
    "conversation_id": "c-1",
    "mapping": {"a": {"message": {"author": {"role": "user"}, "content": {"content_type": "text", "parts": ["Tea?"]}}}},
    "current_node": "a",
}
CLAUDE = {"uuid": "u-1", "name": "Tides", "chat_messages": [{"uuid": "a", "sender": "human", "text": "When?"}]}


def test_an_export_is_read_as_delivered(tmp_path: Path) -> None:
    path = zipped(tmp_path, user={"id": 1}, conversations=[CLAUDE])
    assert rows(path) == rows(written(tmp_path, [CLAUDE]))
    with opened(path) as transcript:
        assert (transcript.format, transcript.name) == (TranscriptFormat.CLAUDE, "export.zip")


def test_numbered_parts_are_read_in_their_order(tmp_path: Path) -> None:
    parts = {f"conversations-{n:03}": [CHATGPT | {"conversation_id": f"c-{n}"}] for n in (1, 0)}
    found = [conversation for conversation, *_ in rows(zipped(tmp_path, **parts))]
    assert found == ["c-0", "c-1"]


@pytest.mark.parametrize(
    ("members", "problem"),
    [
        ({"users": [{"name": CANARY}]}, "contains no supported transcripts"),
        ({"conversations": {"s3cret": 1}}, "conversations.json is not a list"),
        ({"conversations": [1]}, "not a supported transcript"),
        ({"conversations": []}, "contains no messages"),
    ],
)
def test_another_kind_of_zip_file_is_rejected(tmp_path: Path, members: dict[str, Any], problem: str) -> None:
    with pytest.raises(UnreadableFile, match=problem) as refused:
        rows(zipped(tmp_path, **members))
    assert CANARY not in refused.value.message


def test_documents_that_unpack_too_large_are_rejected(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = zipped(tmp_path, conversations=[CHATGPT | {"title": "x" * 100_000}])
    monkeypatch.setattr("elytron_core.limits.TRANSCRIPT_JSON_BYTES", 50_000)
    assert path.stat().st_size < 5_000
    with pytest.raises(UnreadableFile, match="more than 50000 bytes"):
        rows(path)


@pytest.mark.anyio
@pytest.mark.filterwarnings("ignore:Duplicate name")
async def test_files_with_the_same_name_in_a_zip_file_are_all_read(tmp_path: Path) -> None:
    path = tmp_path / "chats.zip"
    with zipfile.ZipFile(path, "w") as archive:
        for text in ("The kiln fires at nine.", "The boat leaves at ten."):
            archive.writestr("chat.txt", f"13/05/2025, 09:14 - Ben: {text}\n")
    async with elytron.open("memory:", space="ada") as memory:
        report = await elytron.import_transcript(memory, path)
        assert (report.files, report.stored, report.conversations) == (2, 2, 2)
        again = await elytron.import_transcript(memory, path)
        assert (again.stored, again.duplicates) == (0, 2)
