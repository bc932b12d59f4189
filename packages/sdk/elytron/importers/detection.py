"""Detect a transcript's format from its content, or for prose from its file name.

Folders and ZIP files are handled alike: either as a single export, or each file on its own.
"""

import os
import re
import shutil
import stat
import tempfile
from collections import Counter
from collections.abc import Collection, Iterator
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path, PurePosixPath
from typing import IO, Final
from zipfile import ZipFile

from elytron.importers import bundles, format_table, json_lines, message_shape, whatsapp
from elytron.importers.bundles import BROKEN_ZIP, MAGIC, BundleMember, FileBundle
from elytron.importers.format_table import FormatRow, TranscriptFormat
from elytron.importers.json_lines import LineFile
from elytron.importers.memories.foreign_tables import SQLITE_MAGIC, open_database
from elytron.importers.message_shape import (
    DateChoice,
    DateOrder,
    DateReading,
    ImportedMessage,
    LeftOut,
    OmissionReason,
    Reader,
    ReaderRemarks,
    SkippedRecord,
    SourceT,
)
from elytron_core import limits
from elytron_core.errors import InvalidInput, InvalidJson, LimitExceeded, UnreadableFile
from elytron_core.evidence import EvidenceRole
from elytron_core.scope import ConversationKey
from elytron_core.strict_json import Json, mend_surrogates
from elytron_store.private_files import private_opener

__all__ = ["MAGIC", "FoundTranscript", "FoundTranscripts", "TranscriptFormat", "is_export", "open_transcripts"]

IMPORT_FILES: Final = 400
"""Maximum number of files in a folder or ZIP file that are read as separate transcripts."""
ZIP_UNPACKED_BYTES: Final = 1024 * 1024 * 1024
"""Maximum total size of the transcripts in a ZIP file, in bytes."""
IMPORT_OWNERS: Final = 1_000
"""Maximum number of users recorded by name for one imported store."""
_PART: Final = re.compile(r"conversations(-\d+)?\.json")
_OF_AN_ARCHIVE: Final = frozenset({"manifest.json", "documents.jsonl", "journal.jsonl"})


def is_export(path: Path, /) -> bool:
    """Return whether the ZIP file at `path` contains transcripts and is not an archive of a space."""
    try:
        with ZipFile(path) as archive:
            bundle = bundles.open_bundle(archive, name=path.name)
            if any(row.matches(bundle) for row in format_table.BUNDLE_ROWS):
                return True
            return not _OF_AN_ARCHIVE & {*archive.namelist()} and bool(_transcript_members(bundle.members))
    except LimitExceeded:
        return True  # the transcript reader will report the number of files
    except BROKEN_ZIP:
        return False


def _export_parts(members: list[BundleMember]) -> list[BundleMember]:
    """Return the files that contain the conversations of a ChatGPT or Claude export."""
    return [member for member in members if _PART.fullmatch(PurePosixPath(member.name).name)]


def _transcript_members(members: list[BundleMember]) -> list[BundleMember]:
    """Return possible transcripts: an export's own files if there are any, otherwise files with a known suffix."""
    exported = _export_parts(members) or [each for each in members if PurePosixPath(each.name).name == "result.json"]
    suffixes = format_table.FILE_SUFFIXES
    return exported or [member for member in members if PurePosixPath(member.name).suffix.lower() in suffixes]


def _export_conversations(parts: list[BundleMember], *, name: str) -> Json:
    """Return an export's conversations, with its parts joined in order. Raises UnreadableFile."""
    joined: list[Json] = []
    remaining_bytes = limits.TRANSCRIPT_JSON_BYTES
    for part in parts:
        file, size = part.open()
        with file:
            remaining_bytes -= size
            if remaining_bytes < 0:
                raise bundles.too_large(name)
            whole = bundles.whole_document(file, name=name, size=size)
        try:
            joined += message_shape.list_items(whole, what="conversations.json")
        except InvalidInput as error:
            raise UnreadableFile(name=name, problem=error.message) from None
    return joined


_HEAD_BYTES = 64 * 1024
_PACKED = (b"\x1f\x8b", b"\x28\xb5\x2f\xfd", b"BZh", b"\xfd7zXZ")
_UTF_16 = re.compile(rb"\xff\xfe|\xfe\xff|(?:[^\0]\0){2}|(?:\0[^\0]){2}")
"""The start of UTF-16 text: its byte order mark, or two Latin characters."""
_ASKED_FOR = {EvidenceRole.SYSTEM: OmissionReason.SYSTEM, EvidenceRole.TOOL: OmissionReason.TOOL}
"""Roles whose messages are stored only if the caller includes them."""


@dataclass(slots=True)
class FoundTranscript:
    """A recognised transcript. Its messages can be read any number of times, and `place` identifies it uniquely."""

    read: Reader
    name: str
    place: str
    format: TranscriptFormat
    size_bytes: int
    date_choice: DateChoice = field(default_factory=DateChoice)
    left_out: Counter[OmissionReason] = field(default_factory=Counter[OmissionReason])
    """Content that the last pass left out intentionally."""
    skipped: list[SkippedRecord] = field(default_factory=list[SkippedRecord])
    """The first records that the last pass could not read."""
    skipped_count: int = 0
    dates: DateReading | None = None
    """How the last pass interpreted dates in an ambiguous format."""
    remarks: ReaderRemarks = field(default_factory=ReaderRemarks)
    owners: frozenset[str] | None = None
    """Users whose memories are read from a multi-user store; None means all."""
    met_owners: set[str] = field(default_factory=set[str])
    """Users that the last pass encountered, up to a limit."""

    def messages(
        self, home: ConversationKey, /, *, include: Collection[EvidenceRole] = (), strict: bool = False
    ) -> Iterator[ImportedMessage]:
        """Yield the messages in order. Messages without a conversation are put into `home`.

        System and tool messages are left out unless `include` names their role. Unreadable records are skipped and
        recorded; with `strict`, they raise UnreadableFile.
        """
        self.left_out.clear()
        self.skipped.clear()
        self.skipped_count = 0
        self.met_owners.clear()
        for item in self.read(home, self.date_choice):
            match item:
                case LeftOut():
                    self.left_out[item.reason] += item.count
                case DateReading():
                    self.dates = item
                case ReaderRemarks():
                    self.remarks = item
                case SkippedRecord():
                    self._note_skipped(item, strict=strict)
                case ImportedMessage(owner=str() as owner) if self._is_others(owner):
                    self.left_out[OmissionReason.OTHER_OWNER] += 1
                case ImportedMessage(turn=turn):
                    role = turn.messages[0].role
                    if role in _ASKED_FOR and role not in include:
                        self.left_out[_ASKED_FOR[role]] += 1
                    else:
                        yield item

    def _is_others(self, owner: str) -> bool:
        """Record the memory's user, and return whether that user was not requested."""
        if len(self.met_owners) < IMPORT_OWNERS:
            self.met_owners.add(owner)
        return self.owners is not None and owner not in self.owners

    def _note_skipped(self, record: SkippedRecord, *, strict: bool) -> None:
        if strict:
            raise self.unreadable(record)
        self.skipped_count += 1
        if len(self.skipped) < limits.IMPORT_SKIPPED:
            self.skipped.append(record)

    def unreadable(self, record: SkippedRecord, /) -> UnreadableFile:
        """Return the error for an unreadable record of this transcript."""
        problem = record.problem if record.line is not None else f"{record.problem} ({record.place})"
        return UnreadableFile(name=self.name, problem=problem, line=record.line)


class FoundTranscripts(ExitStack):
    """The transcripts of a file, folder or ZIP file, which are open until this is closed."""

    def __init__(self, name: str, /) -> None:
        super().__init__()
        self.name = name
        self.transcripts: list[FoundTranscript] = []
        self.other_files = 0
        self.unsafe_files = 0

    @property
    def size_bytes(self) -> int:
        return sum(transcript.size_bytes for transcript in self.transcripts)


def open_transcripts(
    path: Path, /, *, place: str | None = None, date_order: DateOrder | None = None
) -> FoundTranscripts:
    """Open the transcripts at `path`; the caller closes them. Raises UnreadableFile.

    `place` identifies the file instead of its path, for uploads that are stored in a different folder each time.
    `date_order` decides dates in which day and month are ambiguous.
    """
    source = FoundTranscripts(path.name or path.resolve().name)
    with ExitStack() as stack:
        file = None if path.is_dir() else stack.enter_context(_open_file(path))
        # Resolve the path only once the file is open: a path with a null character cannot be resolved.
        whole = place or os.path.realpath(path)
        if file is None:
            _add_members(source, path, whole, path.stat().st_size, stack)
        elif file.read(len(MAGIC)) == MAGIC:
            try:
                archive = stack.enter_context(ZipFile(file))
            except BROKEN_ZIP:
                raise UnreadableFile(name=source.name, problem="is a ZIP file that cannot be unpacked") from None
            _add_members(source, archive, whole, path.stat().st_size, stack)
        else:
            size = os.fstat(file.fileno()).st_size
            if _is_database(file):
                transcript = _database_transcript(path, stack, name=source.name, place=whole, size=size)
            else:
                transcript = _file_transcript(file, name=source.name, place=whole, size=size)
            source.transcripts.append(transcript)
        source.push(stack.pop_all())
    for transcript in source.transcripts:
        transcript.date_choice = DateChoice(date_order)
    return source


def _add_members(source: FoundTranscripts, holder: Path | ZipFile, whole: str, size: int, stack: ExitStack) -> None:
    """Add the transcripts of a folder or ZIP file, and count its other files."""
    bundle, name = bundles.open_bundle(holder, name=source.name), source.name
    source.unsafe_files = bundle.unsafe
    for row in format_table.BUNDLE_ROWS:
        if row.matches(bundle):
            _require_small(bundle, name=name)
            read = _reader_of(bundle, row, name=name, size=size)
            source.transcripts.append(FoundTranscript(read, name, whole, row.format, size))
            return
    if exported := _export_parts(bundle.members):
        read, form = _document_reader(_export_conversations(exported, name=name), name=name, size=size)
        source.transcripts.append(FoundTranscript(read, name, whole, form, size))
        source.other_files = len(bundle.members) - len(exported)
        return
    members = _transcript_members(bundle.members)
    if len(members) > IMPORT_FILES:
        raise LimitExceeded(what="files in an imported folder", limit=IMPORT_FILES, found=len(members))
    _add_files(source, members, whole, stack)
    if not source.transcripts:
        raise UnreadableFile(
            name=name, problem=f"contains no supported transcripts; {format_table.supported_formats()}"
        )
    source.other_files = len(bundle.members) - len(source.transcripts)


def _add_files(source: FoundTranscripts, members: list[BundleMember], whole: str, stack: ExitStack) -> None:
    """Add each file that is a separate transcript."""
    earlier: Counter[str] = Counter()
    remaining_bytes = ZIP_UNPACKED_BYTES
    for member in members:
        file, member_size = member.open()
        stack.enter_context(file)
        remaining_bytes -= member_size if member.path is None else 0
        if remaining_bytes < 0:
            raise _unpacks_to_too_much(source.name)
        # Repeated file names get separate conversations.
        place = f"{whole}\n{member.name}" + f"\n{earlier[member.name]}" * (earlier[member.name] > 0)
        earlier[member.name] += 1
        with suppress(_NoTranscript):
            own = PurePosixPath(member.name).name
            if _is_database(file):
                path = member.path or _unpacked_copy(file, stack)
                transcript = _database_transcript(path, stack, name=own, place=place, size=member_size)
            else:
                transcript = _file_transcript(file, name=own, place=place, size=member_size)
            source.transcripts.append(transcript)


def _unpacks_to_too_much(name: str) -> UnreadableFile:
    problem = f"unpacks to more than {ZIP_UNPACKED_BYTES} bytes: unpack it and pass the folder"
    return UnreadableFile(name=name, problem=problem)


def _require_small(bundle: FileBundle, *, name: str) -> None:
    """Raise UnreadableFile if a ZIP file's declared sizes exceed the limit. Reading checks the actual sizes."""
    sizes = (member.entry.file_size for member in bundle.members if member.entry is not None)
    if sum(sizes) > ZIP_UNPACKED_BYTES:
        raise _unpacks_to_too_much(name)


def _is_database(file: IO[bytes]) -> bool:
    file.seek(0)
    return file.read(len(SQLITE_MAGIC)) == SQLITE_MAGIC


def _unpacked_copy(file: IO[bytes], stack: ExitStack) -> Path:
    """Unpack a database from a ZIP file, because SQLite opens files by path. The copy is deleted with the stack."""
    folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="elytron-import-"))
    path = Path(folder, "database")
    file.seek(0)
    with open(path, "wb", opener=private_opener) as copy:
        shutil.copyfileobj(file, copy)
    return path


def _database_transcript(path: Path, stack: ExitStack, *, name: str, place: str, size: int) -> FoundTranscript:
    database = open_database(path, name=name)
    stack.callback(database.close)
    for row in format_table.DATABASE_ROWS:
        if row.matches(database):
            read = _reader_of(database, row, name=name, size=size)
            return FoundTranscript(read, name, place, row.format, size)
    raise _NoTranscript(name=name, problem="is a SQLite file without a supported table")


class _NoTranscript(UnreadableFile):
    """A file that is empty or in no known format. In a folder, it is ignored."""


def _unknown_format(name: str) -> _NoTranscript:
    return _NoTranscript(name=name, problem=f"is not a supported transcript; {format_table.supported_formats()}")


def _open_file(path: Path) -> IO[bytes]:
    try:
        # Check before opening: a pipe would block, and a device might never end.
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
    # This comes before JSON, because a chat line may also begin with a bracket.
    if whatsapp.begins_chat(first):
        return _text_reader(file, TranscriptFormat.WHATSAPP, name=name, size=size)
    lines = LineFile(file, size)
    if _matches_mail(lines):
        return _line_reader(lines, format_table.MAIL_ROW, name=name)
    whatsapp.require_no_chat(head.decode("utf-8", "ignore"), name=name)
    match head.lstrip()[:1]:
        case b"[":
            return _document_reader(bundles.whole_document(file, name=name, size=size), name=name, size=size)
        case b"{":
            return _object_reader(lines, name=name)
        case _:
            form = format_table.prose_format(name)
            if form is None or b"\0" in head:
                raise _unknown_format(name)
            return _text_reader(file, form, name=name, size=size)


def _matches_mail(source: LineFile) -> bool:
    source.file.seek(0)
    return format_table.MAIL_ROW.matches(source)


def _object_reader(source: LineFile, *, name: str) -> tuple[Reader, TranscriptFormat]:
    """Return the reader for a file that begins with an object: JSON Lines, or a single document."""
    first = _first_line(source.file)
    for row in format_table.LINE_ROWS:
        if first is not None and row.matches(first):
            return _row_of_lines(source, row, name=name)
    try:
        parsed = bundles.whole_document(source.file, name=name, size=source.size)
    except UnreadableFile:
        return _row_of_lines(source, format_table.LINE_ROWS[-1], name=name)  # not one document, so it must be lines
    return _document_reader(parsed, name=name, size=source.size)


def _row_of_lines(source: LineFile, row: FormatRow[dict[str, Json]], *, name: str) -> tuple[Reader, TranscriptFormat]:
    def read(
        lines: LineFile, home: ConversationKey, place: message_shape.ReaderPlace
    ) -> Iterator[message_shape.ReadItem]:
        return json_lines.read_lines(lines, row.read, home, place)

    return _line_reader(source, FormatRow(row.format, lambda _: True, read), name=name)


def _line_reader(source: LineFile, row: FormatRow[LineFile], *, name: str) -> tuple[Reader, TranscriptFormat]:
    return _reader_of(source, row, name=name, size=source.size), row.format


def _reader_of(source: SourceT, row: FormatRow[SourceT], *, name: str, size: int) -> Reader:
    return partial(message_shape.document_messages, source, row.read, name=name, size=size)


_LINE_BYTES = 1_000
"""More than enough for a chat line up to its first word."""


def _text_reader(file: IO[bytes], form: TranscriptFormat, *, name: str, size: int) -> tuple[Reader, TranscriptFormat]:
    if size > limits.TRANSCRIPT_JSON_BYTES:
        raise UnreadableFile(name=name, problem=f"is larger than {limits.TRANSCRIPT_JSON_BYTES} bytes: split it")
    file.seek(0)
    try:
        text = mend_surrogates(message_shape.strip_mark(file.read(size))).decode("utf-8")
    except UnicodeDecodeError:
        raise UnreadableFile(name=name, problem="is not UTF-8: save it as UTF-8") from None
    return partial(message_shape.document_messages, text, format_table.TEXT_READERS[form], name=name, size=size), form


def _first_line(file: IO[bytes]) -> dict[str, Json] | None:
    """Return the object on the first line, or None if the line is not a complete object."""
    file.seek(0)
    try:
        line = message_shape.foreign_json(file.readline(limits.IMPORT_LINE_BYTES))
    except InvalidJson:
        return None
    return line if isinstance(line, dict) else None


def _document_reader(parsed: Json, *, name: str, size: int) -> tuple[Reader, TranscriptFormat]:
    if parsed == []:
        raise _NoTranscript(name=name, problem="contains no messages")
    for row in format_table.DOCUMENT_ROWS:
        if row.matches(parsed):
            return _reader_of(parsed, row, name=name, size=size), row.format
    raise _unknown_format(name)
