"""Importing a transcript file: judged completely, committed in batches, each message once."""

import json
import zipfile
from pathlib import Path

import pytest

import elytron
from elytron import MemoryRuntime, MemoryWriteReport, MemoryWriteRequest, Scope, import_transcript
from elytron.flows import transcript_import
from elytron.flows.transcript_import import ImportNoteKind
from elytron.importers.detection import TranscriptFormat
from elytron.importers.message_shape import OmissionReason
from elytron_core.errors import ScopeMissing, StoreUnavailable, UnreadableFile
from elytron_core.evidence import EvidenceRole
from elytron_core.ids import SpaceId

pytestmark = pytest.mark.anyio

HARBOUR = Path("fixtures/conversations/harbour.jsonl").resolve()


def written(path: Path, count: int, *, conversations: int = 1, text: str = "message") -> Path:
    """Write `count` messages in alternating conversations."""
    lines = (
        json.dumps({"role": "user", "content": f"{text} {number}", "conversation": f"c{number % conversations}"})
        for number in range(count)
    )
    path.write_text("\n".join(lines), "utf-8")
    return path


async def texts(memory: MemoryRuntime, conversation: str) -> list[str]:
    """Return the content of a conversation in order."""
    report = await memory.replay(elytron.MemoryReplayRequest(chat_id=conversation, limit=1_000))
    return [message.text for turn in report.turns for message in turn.messages]


async def test_importing_a_year_of_conversation_twice_changes_nothing() -> None:
    async with elytron.open("memory:", space="ada") as memory:
        first = await import_transcript(memory, HARBOUR)
        assert first == transcript_import.TranscriptImportReport(
            space="ada",
            file="harbour.jsonl",
            formats=(TranscriptFormat.JSONL,),
            conversations=12,
            messages=486,
            stored=486,
            duplicates=0,
            first_at=first.first_at,
            last_at=first.last_at,
            changed=True,
            sequence=first.sequence,
        )
        before = await memory.inspect()
        again = await import_transcript(memory, HARBOUR)
        assert (again.stored, again.duplicates, again.changed) == (0, 486, False)
        assert await memory.inspect() == before


async def test_interleaved_conversations_keep_their_order(tmp_path: Path) -> None:
    file = written(tmp_path / "mixed.jsonl", 90, conversations=7)
    async with elytron.open("memory:", space="ada") as memory:
        await import_transcript(memory, file)
        for number in range(7):
            assert await texts(memory, f"c{number}") == [f"message {place}" for place in range(number, 90, 7)]


@pytest.mark.parametrize(
    ("bound", "value", "commits"),
    [("BATCH_TURNS", 10, 10), ("BATCH_CHARS", 100, 10), ("HELD_TURNS", 12, 44), ("HELD_CHARS", 200, 25)],
)
async def test_batches_are_bounded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, bound: str, value: int, commits: int
) -> None:
    monkeypatch.setattr(transcript_import, bound, value)
    conversations = 1 if bound.startswith("BATCH") else 5
    file = written(tmp_path / "long.jsonl", 100, conversations=conversations)
    async with elytron.open("memory:", space="ada") as memory:
        counting = Counting(memory)
        report = await import_transcript(counting, file)
        assert (report.stored, counting.commits) == (100, commits)


class Counting:
    """A runtime's commits, counted, and failing after some of them; dry runs pass."""

    def __init__(self, memory: MemoryRuntime, *, most: int | None = None) -> None:
        self._memory = memory
        self._most = most
        self.commits = 0

    @property
    def scope(self) -> Scope | None:
        return self._memory.scope

    async def write(self, request: MemoryWriteRequest, /) -> MemoryWriteReport:
        if request.dry_run:
            return await self._memory.write(request)
        if self.commits == self._most:
            raise StoreUnavailable("the disk went away")
        self.commits += 1
        return await self._memory.write(request)


async def test_an_interrupted_import_is_completed_by_the_next_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(transcript_import, "BATCH_TURNS", 10)
    file = written(tmp_path / "long.jsonl", 35)
    async with elytron.open("memory:", space="ada") as memory:
        with pytest.raises(StoreUnavailable):
            await import_transcript(Counting(memory, most=2), file)
        report = await import_transcript(memory, file)
        assert (report.stored, report.duplicates) == (15, 20)
        assert await texts(memory, "c0") == [f"message {number}" for number in range(35)]


async def test_progress_ends_with_the_whole_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(transcript_import, "BATCH_TURNS", 10)
    file = written(tmp_path / "long.jsonl", 25)
    told: list[tuple[int, int]] = []
    async with elytron.open("memory:", space="ada") as memory:
        await import_transcript(memory, file, progress=lambda done, total: told.append((done, total)))
    assert [done for done, _ in told] == sorted(done for done, _ in told)
    assert told[-1] == (file.stat().st_size, file.stat().st_size)


async def test_an_unreadable_record_is_skipped_and_reported_and_strict_rejects_the_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(transcript_import, "BATCH_TURNS", 10)
    file = written(tmp_path / "long.jsonl", 100)
    with file.open("a", encoding="utf-8") as more:
        more.write('\n{"role": "us')
    async with elytron.open("memory:", space="ada") as memory:
        with pytest.raises(UnreadableFile) as refused:
            await import_transcript(memory, file, strict=True)
        assert refused.value.line == 101
        assert not (await memory.inspect()).exists
        report = await import_transcript(memory, file)
        assert (report.stored, report.skipped) == (100, 1)
        assert [(note.kind, note.place) for note in report.notes] == [(ImportNoteKind.SKIPPED, "line 101")]


async def test_messages_go_to_the_scopes_conversation_or_one_named_after_the_file(tmp_path: Path) -> None:
    file = tmp_path / "my\nchat .jsonl"
    file.write_text('{"role": "user", "content": "hi"}')
    async with elytron.open("memory:", space="ada") as memory:
        await import_transcript(memory, file)
        (found,) = (await memory.inspect()).conversations
        assert (found.title, found.conversation.startswith("my chat-")) == ("my chat", True)
        assert await texts(memory, found.conversation) == ["hi"]
        scope = Scope(space=SpaceId("ada"), channel="phone", chat="home")
        await import_transcript(memory, file, scope=scope)
        report = await memory.replay(elytron.MemoryReplayRequest(scope=scope))
        assert [turn.messages[0].text for turn in report.turns] == ["hi"]


async def test_titles_of_conversations_are_stored(tmp_path: Path) -> None:
    file = tmp_path / "claude.json"
    said = {"uuid": "m", "sender": "human", "text": "When is high water?"}
    file.write_text(json.dumps([{"uuid": "c", "name": "Tides", "chat_messages": [said]}]))
    async with elytron.open("memory:", space="ada") as memory:
        assert (await import_transcript(memory, file)).formats == (TranscriptFormat.CLAUDE,)
        (conversation,) = (await memory.inspect()).conversations
        assert (conversation.channel, conversation.conversation, conversation.title) == ("claude", "c", "Tides")


async def test_without_a_space_nothing_is_read() -> None:
    async with elytron.open("memory:", space=None) as memory:
        with pytest.raises(ScopeMissing):
            await import_transcript(memory, HARBOUR)


def test_a_synchronous_runtime_imports_too() -> None:
    with elytron.open("memory:", space="ada") as memory:
        report = memory.run(import_transcript(memory.runtime, HARBOUR, dry_run=True))
        assert (report.messages, report.stored, report.dry_run) == (486, 0, True)


async def test_system_and_tool_texts_are_omitted_by_default_and_counted(tmp_path: Path) -> None:
    file = tmp_path / "chat.json"
    roles = ("system", "user", "assistant", "tool")
    file.write_text(json.dumps([{"role": role, "content": f"by {role}"} for role in roles] + [{"role": "user"}]))
    async with elytron.open("memory:", space="ada") as memory:
        report = await import_transcript(memory, file)
        assert (report.stored, report.left_out) == (
            2,
            {OmissionReason.SYSTEM: 1, OmissionReason.TOOL: 1, OmissionReason.NO_WORDS: 1},
        )
        more = await import_transcript(memory, file, include=[EvidenceRole.TOOL])
        assert (more.stored, more.duplicates, more.left_out) == (
            1,
            2,
            {OmissionReason.SYSTEM: 1, OmissionReason.NO_WORDS: 1},
        )


async def test_two_files_with_the_same_name_share_no_conversation(tmp_path: Path) -> None:
    files = [tmp_path / place / "chat.jsonl" for place in ("lisbon", "oslo")]
    async with elytron.open("memory:", space="ada") as memory:
        for file in files:
            file.parent.mkdir()
            file.write_text(json.dumps({"role": "user", "content": f"We met in {file.parent.name}."}))
            for stored in (1, 0):
                assert (await import_transcript(memory, file)).stored == stored
        found = (await memory.inspect()).conversations
        assert [(place.title, place.turns) for place in found] == [("chat", 1), ("chat", 1)]


async def test_a_folder_and_its_zip_file_are_imported_identically(tmp_path: Path) -> None:
    folder = tmp_path / "mine"
    (folder / "notes").mkdir(parents=True)
    (folder / "chat.jsonl").write_text(json.dumps({"role": "user", "content": "hi", "conversation": "c"}))
    (folder / "notes" / "boat.md").write_text("# Boat\n\nThe key is under the oar.")
    (folder / "users.json").write_text("[]")
    (folder / "photo.jpg").write_bytes(b"\xff\xd8")
    packed = tmp_path / "mine.zip"
    with zipfile.ZipFile(packed, "w") as archive:
        for file in sorted(folder.rglob("*.*")):
            archive.write(file, file.relative_to(folder))
    for place in (folder, packed):
        async with elytron.open("memory:", space="ada") as memory:
            report = await import_transcript(memory, place)
            assert (report.files, report.formats) == (2, (TranscriptFormat.JSONL, TranscriptFormat.MARKDOWN))
            assert (report.stored, report.left_out) == (2, {OmissionReason.OTHER_FILE: 2})
            assert (await import_transcript(memory, place)).stored == 0


async def test_an_unpacked_export_is_imported_like_its_zip_file(tmp_path: Path) -> None:
    said = {"uuid": "m", "sender": "human", "text": "When is high water?"}
    exported = json.dumps([{"uuid": "c", "name": "Tides", "chat_messages": [said]}])
    folder = tmp_path / "export"
    folder.mkdir()
    (folder / "conversations.json").write_text(exported)
    (folder / "users.json").write_text("[]")
    with zipfile.ZipFile(tmp_path / "export.zip", "w") as archive:
        archive.writestr("conversations.json", exported)
    async with elytron.open("memory:", space="ada") as memory:
        assert (await import_transcript(memory, folder)).stored == 1
        assert (await import_transcript(memory, tmp_path / "export.zip")).duplicates == 1
