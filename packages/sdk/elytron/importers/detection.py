"""Format of a transcript file, recognised by its content; prose by its name."""

import os
import re
import stat
from collections import Counter
from collections.abc import Collection, Iterator
from contextlib import ExitStack
from enum import StrEnum
from functools import partial
from pathlib import Path, PurePosixPath
from types import TracebackType
from typing import IO, Self
from zipfile import ZipFile

from elytron.importers import assistants, bundle, message_shape, messengers, text_files
from elytron.importers.message_shape import DocumentFormat, LeftOut, OmissionReason, Reader, SaidMessage
from elytron_core import limits
from elytron_core.errors import InvalidJson, PayloadTooLarge, UnreadableFile
from elytron_core.evidence import EvidenceRole
from elytron_core.scope import ConversationKey
from elytron_core.strict_json import Json, parse_json

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


KNOWN = (
    "JSON Lines, OpenAI messages, the exports of ChatGPT, Claude, WhatsApp and Telegram (JSON), Markdown (.md), plain"
    " text (.txt); or a folder or ZIP file of these"
)
"""Readable formats, in words."""
_READS: dict[TranscriptFormat, DocumentFormat] = {
    TranscriptFormat.OPENAI_MESSAGES: assistants.read_openai_messages,
    TranscriptFormat.CHATGPT: assistants.read_chatgpt_export,
    TranscriptFormat.CLAUDE: assistants.read_claude_export,
    TranscriptFormat.WHATSAPP: messengers.read_whatsapp_export,
    TranscriptFormat.TELEGRAM: messengers.read_telegram_export,
    TranscriptFormat.MARKDOWN: text_files.read_markdown,
    TranscriptFormat.TEXT: text_files.read_plain_text,
}
_PROSE = {
    "": TranscriptFormat.TEXT,
    ".txt": TranscriptFormat.TEXT,
    ".text": TranscriptFormat.TEXT,
    ".md": TranscriptFormat.MARKDOWN,
    ".markdown": TranscriptFormat.MARKDOWN,
}


class FoundTranscript:
    """A recognised transcript, whose messages can be read any number of times. `place` is its own alone."""

    def __init__(self, read: Reader, /, *, name: str, place: str, form: TranscriptFormat, size_bytes: int) -> None:
        self._read = read
        self.name = name
        self.place = place
        self.format = form
        self.size_bytes = size_bytes
        self.left_out: Counter[OmissionReason] = Counter()
        """Content that the last pass left out."""

    def messages(self, home: ConversationKey, /, *, include: Collection[EvidenceRole] = ()) -> Iterator[SaidMessage]:
        """Yield what was said, in order; `home` takes what names no conversation. Raises UnreadableFile.

        What a system or a tool said is left out, unless `include` names the role.
        """
        self.left_out.clear()
        for found in self._read(home):
            left = found if isinstance(found, LeftOut) else _unasked_part(found, include)
            if left is not None:
                self.left_out[left.reason] += left.count
            elif isinstance(found, SaidMessage):
                yield found


class FoundTranscripts:
    """The transcripts of a file, folder or ZIP file, open until closed."""

    def __init__(self, stack: ExitStack, found: tuple[FoundTranscript, ...], /, *, name: str, other_files: int) -> None:
        self._stack = stack
        self.found = found
        self.name = name
        self.other_files = other_files

    @property
    def size_bytes(self) -> int:
        return sum(transcript.size_bytes for transcript in self.found)

    def close(self) -> None:
        """Let go of the files."""
        self._stack.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def open_transcripts(path: Path, /, *, place: str | None = None) -> FoundTranscripts:
    """Return the transcripts at `path`, to be closed by the caller. Raises UnreadableFile.

    `place` names the file instead of its path, for one that was sent and is in another folder each time.
    """
    with ExitStack() as stack:
        name = path.name or path.resolve().name
        file = None if path.is_dir() else stack.enter_context(_open_file(path))
        # Asked of a file that is open: a path with a null character has no real one.
        whole = place or os.path.realpath(path)
        if file is None:
            found, others = _contained_transcripts(path, path, name=name, whole=whole, stack=stack)
        elif file.read(len(bundle.MAGIC)) == bundle.MAGIC:
            archive = stack.enter_context(bundle.opened_zip(file, name=name))
            found, others = _contained_transcripts(path, archive, name=name, whole=whole, stack=stack)
        else:
            size = os.fstat(file.fileno()).st_size
            found, others = (_file_transcript(file, name=name, place=whole, size=size),), 0
        return FoundTranscripts(stack.pop_all(), found, name=name, other_files=others)


def _contained_transcripts(
    path: Path, source: Path | ZipFile, /, *, name: str, whole: str, stack: ExitStack
) -> tuple[tuple[FoundTranscript, ...], int]:
    """Return the transcripts of a folder or ZIP file, and how many files of it are none."""
    files = bundle.bundle_members(source)
    exported = bundle.export_parts(files)
    if exported:
        whole_export = bundle.export_conversations(exported, name=name)
        read, form = _document_reader(whole_export, name=name, size=path.stat().st_size)
        made = FoundTranscript(read, name=name, place=whole, form=form, size_bytes=path.stat().st_size)
        return (made,), len(files) - len(exported)
    found: list[FoundTranscript] = []
    left = limits.ZIP_UNPACKED_BYTES
    for member in bundle.transcript_members(files):
        file, size = bundle.open_member(member)
        stack.enter_context(file)
        left -= size if isinstance(source, ZipFile) else 0
        if left < 0:
            problem = f"unpacks to more than {limits.ZIP_UNPACKED_BYTES} bytes: unpack it and give the folder"
            raise UnreadableFile(name=name, problem=problem)
        own = PurePosixPath(member.name).name
        try:
            found.append(_file_transcript(file, name=own, place=f"{whole}\n{member.name}", size=size))
        except _NoTranscript:
            continue
    if not found:
        raise UnreadableFile(name=name, problem=f"holds none of the transcripts that can be read: {KNOWN}")
    return tuple(found), len(files) - len(found)


class _NoTranscript(UnreadableFile):
    """A file in none of the formats, or an empty one; in a folder it is passed over."""


def _unknown_format(name: str) -> _NoTranscript:
    return _NoTranscript(name=name, problem=f"is none of the transcripts that can be read: {KNOWN}")


def _unasked_part(said: SaidMessage, include: Collection[EvidenceRole]) -> LeftOut | None:
    role = said.turn.messages[0].role
    return LeftOut(_ASKED_FOR[role]) if role in _ASKED_FOR and role not in include else None


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
    return FoundTranscript(read, name=name, place=place, form=form, size_bytes=size)


def _recognise_file(file: IO[bytes], *, name: str, size: int) -> tuple[Reader, TranscriptFormat]:
    file.seek(0)
    head = message_shape.strip_mark(file.read(_HEAD_BYTES))
    if head.startswith(_PACKED):
        raise UnreadableFile(name=name, problem="is packed: unpack it and give the file inside")
    if _UTF_16.match(head):
        raise UnreadableFile(name=name, problem="is not UTF-8, but looks like UTF-16: save it as UTF-8")
    if not head.strip():
        raise _NoTranscript(name=name, problem="is empty")
    first = head.lstrip()[:_LINE_BYTES].partition(b"\n")[0].decode("utf-8", "ignore")
    if messengers.begins_chat(first):
        return _prose_reader(file, TranscriptFormat.WHATSAPP, name=name, size=size)
    match head.lstrip()[:1]:
        case b"[":
            return _document_reader(_whole_document(file, name=name, size=size), name=name, size=size)
        case b"{":
            parsed = None if _starts_with_a_message(file) else _whole_or_none(file, size=size)
            if parsed is None:
                return partial(text_files.file_messages, file, name=name, size=size), TranscriptFormat.JSONL
            return _document_reader(parsed, name=name, size=size)
        case _:
            form = _PROSE.get(PurePosixPath(name).suffix.lower())
            if form is None or b"\0" in head:
                raise _unknown_format(name)
            return _prose_reader(file, form, name=name, size=size)


_LINE_BYTES = 1_000
"""More than the beginning of an exported chat's line, up to its first word, ever needs."""


def _prose_reader(file: IO[bytes], form: TranscriptFormat, *, name: str, size: int) -> tuple[Reader, TranscriptFormat]:
    if size > limits.TRANSCRIPT_JSON_BYTES:
        raise UnreadableFile(name=name, problem=f"is larger than {limits.TRANSCRIPT_JSON_BYTES} bytes: split it")
    file.seek(0)
    try:
        text = message_shape.strip_mark(file.read(size)).decode("utf-8")
    except UnicodeDecodeError:
        raise UnreadableFile(name=name, problem="is not UTF-8: save it as UTF-8") from None
    return partial(message_shape.document_messages, text, _READS[form], name=name, size=size), form


def _starts_with_a_message(file: IO[bytes]) -> bool:
    file.seek(0)
    try:
        line = parse_json(message_shape.strip_mark(file.readline(limits.IMPORT_LINE_BYTES)))
    except InvalidJson:
        return False
    return isinstance(line, dict) and "content" in line


def _whole_or_none(file: IO[bytes], *, size: int) -> Json:
    """Return the file as one JSON document; None if it is not one, and so must be lines."""
    if size > limits.TRANSCRIPT_JSON_BYTES:
        return None
    file.seek(0)
    try:
        return parse_json(message_shape.strip_mark(file.read(size)), limit=limits.TRANSCRIPT_JSON_BYTES)
    except InvalidJson:
        return None


def _whole_document(file: IO[bytes], *, name: str, size: int) -> Json:
    file.seek(0)
    try:
        data = file.read(limits.TRANSCRIPT_JSON_BYTES + 1)[:size]
        return parse_json(message_shape.strip_mark(data), limit=limits.TRANSCRIPT_JSON_BYTES)
    except (InvalidJson, PayloadTooLarge) as error:
        raise UnreadableFile(name=name, problem=error.message) from None


def _document_reader(parsed: Json, *, name: str, size: int) -> tuple[Reader, TranscriptFormat]:
    entries: Json
    match parsed:
        case []:
            raise _NoTranscript(name=name, problem="holds no messages")
        case {"chats": {"list": list()}} | {"messages": [{"type": str(), "id": int()}, *_], "id": int()}:
            entries, form = parsed, TranscriptFormat.TELEGRAM
        case {"messages": list() as inner}:
            entries, form = inner, TranscriptFormat.OPENAI_MESSAGES
        case {"mapping": _} | [{"mapping": _}, *_]:
            entries, form = _as_list(parsed), TranscriptFormat.CHATGPT
        case {"chat_messages": _} | [{"chat_messages": _}, *_]:
            entries, form = _as_list(parsed), TranscriptFormat.CLAUDE
        case [{"role": _}, *_]:
            entries, form = _as_list(parsed), TranscriptFormat.OPENAI_MESSAGES
        case _:
            raise _unknown_format(name)
    return partial(message_shape.document_messages, entries, _READS[form], name=name, size=size), form


def _as_list(parsed: Json) -> list[Json]:
    return parsed if isinstance(parsed, list) else [parsed]
