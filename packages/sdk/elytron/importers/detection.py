"""Detection of a transcript's format from its content; prose is recognised by its file name.

Folders and ZIP files are treated alike: an export's conversations as one file, or each file by itself.
"""

import os
import re
import stat
import tempfile
import zipfile
import zlib
from collections import Counter
from collections.abc import Collection, Iterator
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from enum import StrEnum
from functools import partial
from pathlib import Path, PurePosixPath
from typing import IO, Final
from zipfile import ZipFile, ZipInfo

from elytron.importers import formats, message_shape, whatsapp
from elytron.importers.message_shape import (
    DateChoice,
    DateOrder,
    DateReading,
    DocumentFormat,
    ImportedMessage,
    LeftOut,
    OmissionReason,
    Reader,
    SkippedRecord,
)
from elytron_core import limits
from elytron_core.errors import InvalidInput, InvalidJson, LimitExceeded, PayloadTooLarge, UnreadableFile
from elytron_core.evidence import EvidenceRole
from elytron_core.scope import ConversationKey
from elytron_core.strict_json import Json, mend_surrogates

IMPORT_FILES: Final = 400
TRANSCRIPT_JSON_BYTES: Final = 256 * 1024 * 1024
"""A transcript that is one JSON document and so is read as a whole; JSON Lines have no bound but the line's."""
ZIP_UNPACKED_BYTES: Final = 1024 * 1024 * 1024
"""Bytes of all transcripts in a ZIP file together."""


MAGIC = b"PK\x03\x04"
_PART = re.compile(r"conversations(-\d+)?\.json")
_SUFFIXES = frozenset({".jsonl", ".json", ".txt", ".text", ".md", ".markdown"})
_OF_AN_ARCHIVE = frozenset({"manifest.json", "documents.jsonl", "journal.jsonl"})
_BROKEN = (zipfile.BadZipFile, zlib.error, EOFError, OSError, RuntimeError, ValueError)
"""Exceptions of `zipfile` for a file that is damaged, locked, or packed in an unknown way."""
_IN_MEMORY = 8 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class BundleMember:
    """A file of a folder or ZIP file: its name there, and what holds it."""

    name: str
    holder: Path | ZipFile
    entry: ZipInfo | None = None
    """Of a ZIP file, which may hold several files of one name."""

    def open(self) -> tuple[IO[bytes], int]:
        """Return the file, to be closed by the caller, and its size; of a ZIP, a copy that can be read again.

        Raises UnreadableFile.
        """
        try:
            if isinstance(self.holder, Path):
                file = (self.holder / self.name).open("rb")
                return file, os.fstat(file.fileno()).st_size
            # Read up to the bound, whatever size its header gives.
            with self.holder.open(self.entry or self.name) as packed:
                data = packed.read(TRANSCRIPT_JSON_BYTES + 1)
        except _BROKEN:
            raise UnreadableFile(name=self.name, problem="cannot be unpacked") from None
        if len(data) > TRANSCRIPT_JSON_BYTES:
            raise _too_large(self.name)
        copy: IO[bytes] = tempfile.SpooledTemporaryFile(_IN_MEMORY)  # noqa: SIM115 - the caller closes it
        copy.write(data)
        copy.seek(0)
        return copy, len(data)


def _too_large(name: str) -> UnreadableFile:
    error = PayloadTooLarge(limit=TRANSCRIPT_JSON_BYTES, what="one of its files", way_out="unpack and split it")
    return UnreadableFile(name=name, problem=error.message)


def is_export(path: Path, /) -> bool:
    """Return whether the ZIP file at `path` holds transcripts, and is no archive of a space."""
    try:
        with ZipFile(path) as archive:
            return not _OF_AN_ARCHIVE & {*archive.namelist()} and bool(_transcript_members(_bundle_members(archive)))
    except _BROKEN:
        return False


def _bundle_members(source: Path | ZipFile) -> list[BundleMember]:
    """Return the files of a folder, hidden ones and links left out, or of a ZIP file, by their names."""
    if isinstance(source, Path):
        members = [BundleMember(name, source) for name in _walk_folder(source)]
    else:
        members = [BundleMember(info.filename, source, info) for info in source.infolist() if not info.is_dir()]
    if len(members) > IMPORT_FILES:
        raise LimitExceeded(what="files in an imported folder", limit=IMPORT_FILES, found=len(members))
    visible = (each for each in members if not any(part.startswith((".", "__")) for part in Path(each.name).parts))
    return sorted(visible, key=lambda member: member.name)


def _walk_folder(folder: Path) -> Iterator[str]:
    for place, folders, files in os.walk(folder):
        # In place: `os.walk` goes on with what is left in this list.
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        for name in files:
            path = Path(place, name)
            if path.is_file() and not path.is_symlink():
                yield path.relative_to(folder).as_posix()


def _export_parts(members: list[BundleMember]) -> list[BundleMember]:
    """Return the files in which ChatGPT and Claude hand out conversations."""
    return [member for member in members if _PART.fullmatch(PurePosixPath(member.name).name)]


def _transcript_members(members: list[BundleMember]) -> list[BundleMember]:
    """Return the files that may be transcripts: an export's own if there are any, else those with a known suffix."""
    exported = _export_parts(members) or [each for each in members if PurePosixPath(each.name).name == "result.json"]
    return exported or [member for member in members if PurePosixPath(member.name).suffix.lower() in _SUFFIXES]


def _export_conversations(parts: list[BundleMember], *, name: str) -> Json:
    """Return the conversations of an export, those of its parts joined in order. Raises UnreadableFile."""
    joined: list[Json] = []
    remaining_bytes = TRANSCRIPT_JSON_BYTES
    for part in parts:
        file, size = part.open()
        with file:
            remaining_bytes -= size
            if remaining_bytes < 0:
                raise _too_large(name)
            whole = _whole_document(file, name=name, size=size)
        try:
            joined += message_shape.list_items(whole, what="conversations.json")
        except InvalidInput as error:
            raise UnreadableFile(name=name, problem=error.message) from None
    return joined


_HEAD_BYTES = 64 * 1024
_PACKED = (b"\x1f\x8b", b"\x28\xb5\x2f\xfd", b"BZh", b"\xfd7zXZ")
_UTF_16 = re.compile(rb"\xff\xfe|\xfe\xff|(?:[^\0]\0){2}|(?:\0[^\0]){2}")
"""The beginning of a text in UTF-16: its mark, or two Latin characters."""
_ASKED_FOR = {EvidenceRole.SYSTEM: OmissionReason.SYSTEM, EvidenceRole.TOOL: OmissionReason.TOOL}
"""Roles whose messages are stored only where the caller asks for them."""


class TranscriptFormat(StrEnum):
    """The transcripts that can be read."""

    JSONL = "jsonl"
    OPENAI_MESSAGES = "openai_messages"
    CHATGPT = "chatgpt"
    CLAUDE = "claude"
    WHATSAPP = "whatsapp"
    TELEGRAM = "telegram"
    MARKDOWN = "markdown"
    TEXT = "text"


SUPPORTED_FORMATS = (
    "JSON Lines, OpenAI messages, the exports of ChatGPT, Claude, WhatsApp and Telegram (JSON), Markdown (.md), plain"
    " text (.txt); or a folder or ZIP file of these"
)
"""Readable formats, in words."""
_READS: dict[TranscriptFormat, DocumentFormat] = {
    TranscriptFormat.OPENAI_MESSAGES: formats.read_openai_messages,
    TranscriptFormat.CHATGPT: formats.read_chatgpt_export,
    TranscriptFormat.CLAUDE: formats.read_claude_export,
    TranscriptFormat.WHATSAPP: whatsapp.read_whatsapp_export,
    TranscriptFormat.TELEGRAM: formats.read_telegram_export,
    TranscriptFormat.MARKDOWN: formats.read_markdown,
    TranscriptFormat.TEXT: formats.read_plain_text,
}
_PROSE = {
    "": TranscriptFormat.TEXT,
    ".txt": TranscriptFormat.TEXT,
    ".text": TranscriptFormat.TEXT,
    ".md": TranscriptFormat.MARKDOWN,
    ".markdown": TranscriptFormat.MARKDOWN,
}


@dataclass(slots=True)
class FoundTranscript:
    """A recognised transcript, whose messages can be read any number of times. `place` is its own alone."""

    read: Reader
    name: str
    place: str
    format: TranscriptFormat
    size_bytes: int
    date_choice: DateChoice = field(default_factory=DateChoice)
    left_out: Counter[OmissionReason] = field(default_factory=Counter[OmissionReason])
    """Content that the last pass left out on purpose."""
    skipped: list[SkippedRecord] = field(default_factory=list[SkippedRecord])
    """The first records that the last pass could not read."""
    skipped_count: int = 0
    dates: DateReading | None = None
    """How the last pass read dates whose form leaves a choice."""

    def messages(
        self, home: ConversationKey, /, *, include: Collection[EvidenceRole] = (), strict: bool = False
    ) -> Iterator[ImportedMessage]:
        """Yield what was said, in order; `home` takes what names no conversation.

        What a system or a tool said is left out, unless `include` names the role. A record that cannot be read is
        skipped and noted; with `strict` it raises UnreadableFile.
        """
        self.left_out.clear()
        self.skipped.clear()
        self.skipped_count = 0
        for item in self.read(home, self.date_choice):
            match item:
                case LeftOut():
                    self.left_out[item.reason] += item.count
                case DateReading():
                    self.dates = item
                case SkippedRecord():
                    self._note_skipped(item, strict=strict)
                case ImportedMessage(turn=turn):
                    role = turn.messages[0].role
                    if role in _ASKED_FOR and role not in include:
                        self.left_out[_ASKED_FOR[role]] += 1
                    else:
                        yield item

    def _note_skipped(self, record: SkippedRecord, *, strict: bool) -> None:
        if strict:
            raise self.unreadable(record)
        self.skipped_count += 1
        if len(self.skipped) < limits.IMPORT_SKIPPED:
            self.skipped.append(record)

    def unreadable(self, record: SkippedRecord, /) -> UnreadableFile:
        """Return the error that names a record of this transcript."""
        problem = record.problem if record.line is not None else f"{record.problem} ({record.place})"
        return UnreadableFile(name=self.name, problem=problem, line=record.line)


class FoundTranscripts(ExitStack):
    """The transcripts of a file, folder or ZIP file, open until closed."""

    def __init__(self, name: str, /) -> None:
        super().__init__()
        self.name = name
        self.transcripts: list[FoundTranscript] = []
        self.other_files = 0

    @property
    def size_bytes(self) -> int:
        return sum(transcript.size_bytes for transcript in self.transcripts)


def open_transcripts(
    path: Path, /, *, place: str | None = None, date_order: DateOrder | None = None
) -> FoundTranscripts:
    """Return the transcripts at `path`, to be closed by the caller. Raises UnreadableFile.

    `place` names the file instead of its path, for one that was sent and is in another folder each time. `date_order`
    settles dates whose form leaves the order of day and month open.
    """
    source = FoundTranscripts(path.name or path.resolve().name)
    with ExitStack() as stack:
        file = None if path.is_dir() else stack.enter_context(_open_file(path))
        # Asked of a file that is open: a path with a null character has no real one.
        whole = place or os.path.realpath(path)
        if file is None:
            _add_members(source, path, whole, path.stat().st_size, stack)
        elif file.read(len(MAGIC)) == MAGIC:
            try:
                archive = stack.enter_context(ZipFile(file))
            except _BROKEN:
                raise UnreadableFile(name=source.name, problem="is a ZIP file that cannot be unpacked") from None
            _add_members(source, archive, whole, path.stat().st_size, stack)
        else:
            size = os.fstat(file.fileno()).st_size
            source.transcripts.append(_file_transcript(file, name=source.name, place=whole, size=size))
        source.push(stack.pop_all())
    for transcript in source.transcripts:
        transcript.date_choice = DateChoice(date_order)
    return source


def _add_members(source: FoundTranscripts, holder: Path | ZipFile, whole: str, size: int, stack: ExitStack) -> None:
    """Add the transcripts of a folder or ZIP file, and how many files of it are none."""
    files, name = _bundle_members(holder), source.name
    if exported := _export_parts(files):
        read, form = _document_reader(_export_conversations(exported, name=name), name=name, size=size)
        source.transcripts.append(FoundTranscript(read, name, whole, form, size))
        source.other_files = len(files) - len(exported)
        return
    earlier: Counter[str] = Counter()
    remaining_bytes = ZIP_UNPACKED_BYTES
    for member in _transcript_members(files):
        file, member_size = member.open()
        stack.enter_context(file)
        remaining_bytes -= member_size if isinstance(holder, ZipFile) else 0
        if remaining_bytes < 0:
            problem = f"unpacks to more than {ZIP_UNPACKED_BYTES} bytes: unpack it and pass the folder"
            raise UnreadableFile(name=name, problem=problem)
        # Further files of one name have conversations of their own.
        place = f"{whole}\n{member.name}" + f"\n{earlier[member.name]}" * (earlier[member.name] > 0)
        earlier[member.name] += 1
        with suppress(_NoTranscript):
            own = PurePosixPath(member.name).name
            source.transcripts.append(_file_transcript(file, name=own, place=place, size=member_size))
    if not source.transcripts:
        raise UnreadableFile(name=name, problem=f"contains no supported transcripts; supported are {SUPPORTED_FORMATS}")
    source.other_files = len(files) - len(source.transcripts)


class _NoTranscript(UnreadableFile):
    """A file in none of the formats, or an empty one; in a folder it is passed over."""


def _unknown_format(name: str) -> _NoTranscript:
    return _NoTranscript(name=name, problem=f"is not a supported transcript; supported are {SUPPORTED_FORMATS}")


def _open_file(path: Path) -> IO[bytes]:
    try:
        # Asked before opening: a pipe or a device would block, or never end.
        if not stat.S_ISREG(path.stat().st_mode):
            raise UnreadableFile(name=path.name, problem="is not a file")
        return path.open("rb")
    except (OSError, ValueError) as error:
        raise UnreadableFile.unopened(path.name, error) from None


def _file_transcript(file: IO[bytes], *, name: str, place: str, size: int) -> FoundTranscript:
    read, form = _recognise_file(file, name=name, size=size)
    return FoundTranscript(read, name, place, form, size)


def _recognise_file(file: IO[bytes], *, name: str, size: int) -> tuple[Reader, TranscriptFormat]:
    file.seek(0)
    head = message_shape.strip_mark(file.read(_HEAD_BYTES))
    if head.startswith(_PACKED):
        raise UnreadableFile(name=name, problem="is compressed: unpack it and pass the file inside")
    if _UTF_16.match(head):
        raise UnreadableFile(name=name, problem="is not UTF-8, but looks like UTF-16: save it as UTF-8")
    if not head.strip():
        raise _NoTranscript(name=name, problem="is empty")
    first = head.lstrip()[:_LINE_BYTES].partition(b"\n")[0].decode("utf-8", "ignore")
    # Before JSON is tried, since a line of a chat may begin with a bracket too.
    if whatsapp.begins_chat(first):
        return _text_reader(file, TranscriptFormat.WHATSAPP, name=name, size=size)
    whatsapp.require_no_chat(head.decode("utf-8", "ignore"), name=name)
    match head.lstrip()[:1]:
        case b"[":
            return _document_reader(_whole_document(file, name=name, size=size), name=name, size=size)
        case b"{":
            lines = partial(formats.file_messages, file, size=size), TranscriptFormat.JSONL
            if _starts_with_a_message(file):
                return lines
            try:
                parsed = _whole_document(file, name=name, size=size)
            except UnreadableFile:
                return lines  # no document, and so lines
            return _document_reader(parsed, name=name, size=size)
        case _:
            form = _PROSE.get(PurePosixPath(name).suffix.lower())
            if form is None or b"\0" in head:
                raise _unknown_format(name)
            return _text_reader(file, form, name=name, size=size)


_LINE_BYTES = 1_000
"""More than the beginning of an exported chat's line, up to its first word, ever needs."""


def _text_reader(file: IO[bytes], form: TranscriptFormat, *, name: str, size: int) -> tuple[Reader, TranscriptFormat]:
    if size > TRANSCRIPT_JSON_BYTES:
        raise UnreadableFile(name=name, problem=f"is larger than {TRANSCRIPT_JSON_BYTES} bytes: split it")
    file.seek(0)
    try:
        text = mend_surrogates(message_shape.strip_mark(file.read(size))).decode("utf-8")
    except UnicodeDecodeError:
        raise UnreadableFile(name=name, problem="is not UTF-8: save it as UTF-8") from None
    return partial(message_shape.document_messages, text, _READS[form], name=name, size=size), form


def _starts_with_a_message(file: IO[bytes]) -> bool:
    file.seek(0)
    try:
        line = message_shape.foreign_json(file.readline(limits.IMPORT_LINE_BYTES))
    except InvalidJson:
        return False
    return isinstance(line, dict) and "content" in line


def _whole_document(file: IO[bytes], *, name: str, size: int) -> Json:
    file.seek(0)
    try:
        data = file.read(TRANSCRIPT_JSON_BYTES + 1)[:size]
        return message_shape.foreign_json(data, limit=TRANSCRIPT_JSON_BYTES)
    except (InvalidJson, PayloadTooLarge) as error:
        raise UnreadableFile(name=name, problem=error.message) from None


def _document_reader(parsed: Json, *, name: str, size: int) -> tuple[Reader, TranscriptFormat]:
    entries: Json
    match parsed:
        case []:
            raise _NoTranscript(name=name, problem="contains no messages")
        case {"chats": {"list": list()}} | {"messages": [{"type": str(), "id": int()}, *_], "id": int()}:
            entries, form = parsed, TranscriptFormat.TELEGRAM
        case {"messages": list() as inner}:
            entries, form = inner, TranscriptFormat.OPENAI_MESSAGES
        case {"mapping": _} | [{"mapping": _}, *_]:
            entries, form = _as_list(parsed), TranscriptFormat.CHATGPT
        case {"chat_messages": _} | [{"chat_messages": _}, *_]:
            entries, form = _as_list(parsed), TranscriptFormat.CLAUDE
        case [{"role": _}, *_]:
            entries, form = parsed, TranscriptFormat.OPENAI_MESSAGES
        case _:
            raise _unknown_format(name)
    return partial(message_shape.document_messages, entries, _READS[form], name=name, size=size), form


def _as_list(parsed: Json) -> list[Json]:
    return parsed if isinstance(parsed, list) else [parsed]
