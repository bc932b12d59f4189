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
from elytron.importers.message_shape import DocumentFormat, LeftOut, Omission, Reader, Said
from elytron_core import limits
from elytron_core.errors import InvalidJson, PayloadTooLarge, UnreadableFile
from elytron_core.evidence import Role
from elytron_core.scope import ConversationKey
from elytron_core.strict_json import Json, parse

_HEAD_BYTES = 64 * 1024
_PACKED = (b"\x1f\x8b", b"\x28\xb5\x2f\xfd", b"BZh", b"\xfd7zXZ")
_UTF_16 = re.compile(rb"\xff\xfe|\xfe\xff|(?:[^\0]\0){2}|(?:\0[^\0]){2}")
"""The beginning of a text in UTF-16: its mark, or two Latin characters."""
_ASKED_FOR = {Role.SYSTEM: Omission.SYSTEM, Role.TOOL: Omission.TOOL}
"""Roles whose messages are stored only where the caller asks for them."""


class Format(StrEnum):
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
_READS: dict[Format, DocumentFormat] = {
    Format.OPENAI_MESSAGES: assistants.read_openai_messages,
    Format.CHATGPT: assistants.read_chatgpt_export,
    Format.CLAUDE: assistants.read_claude_export,
    Format.WHATSAPP: messengers.read_whatsapp_export,
    Format.TELEGRAM: messengers.read_telegram_export,
    Format.MARKDOWN: text_files.read_markdown,
    Format.TEXT: text_files.read_plain_text,
}
_PROSE = {
    "": Format.TEXT,
    ".txt": Format.TEXT,
    ".text": Format.TEXT,
    ".md": Format.MARKDOWN,
    ".markdown": Format.MARKDOWN,
}


class Transcript:
    """A recognised transcript, whose messages can be read any number of times. `place` is its own alone."""

    def __init__(self, read: Reader, /, *, name: str, place: str, form: Format, size_bytes: int) -> None:
        self._read = read
        self.name = name
        self.place = place
        self.format = form
        self.size_bytes = size_bytes
        self.left_out: Counter[Omission] = Counter()
        """Content that the last pass left out."""

    def messages(self, home: ConversationKey, /, *, include: Collection[Role] = ()) -> Iterator[Said]:
        """Yield what was said, in order; `home` takes what names no conversation. Raises UnreadableFile.

        What a system or a tool said is left out, unless `include` names the role.
        """
        self.left_out.clear()
        for found in self._read(home):
            left = found if isinstance(found, LeftOut) else _unasked(found, include)
            if left is not None:
                self.left_out[left.reason] += left.count
            elif isinstance(found, Said):
                yield found


class Transcripts:
    """The transcripts of a file, folder or ZIP file, open until closed."""

    def __init__(self, stack: ExitStack, found: tuple[Transcript, ...], /, *, name: str, other_files: int) -> None:
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


def open_transcripts(path: Path, /) -> Transcripts:
    """Return the transcripts at `path`, to be closed by the caller. Raises UnreadableFile."""
    with ExitStack() as stack:
        name = path.name or path.resolve().name
        if path.is_dir():
            found, others = _contained(path, path, name=name, stack=stack)
        else:
            file = stack.enter_context(_opened(path))
            if file.read(len(bundle.MAGIC)) == bundle.MAGIC:
                archive = stack.enter_context(bundle.opened_zip(file, name=name))
                found, others = _contained(path, archive, name=name, stack=stack)
            else:
                size = os.fstat(file.fileno()).st_size
                found, others = (_transcript(file, name=name, place=os.path.realpath(path), size=size),), 0
        return Transcripts(stack.pop_all(), found, name=name, other_files=others)


def _contained(
    path: Path, source: Path | ZipFile, /, *, name: str, stack: ExitStack
) -> tuple[tuple[Transcript, ...], int]:
    """Return the transcripts of a folder or ZIP file, and how many files of it are none."""
    files = bundle.members(source)
    whole = os.path.realpath(path)
    exported = bundle.parts(files)
    if exported:
        whole_export = bundle.conversations(exported, name=name)
        read, form = _document(whole_export, name=name, size=path.stat().st_size)
        made = Transcript(read, name=name, place=whole, form=form, size_bytes=path.stat().st_size)
        return (made,), len(files) - len(exported)
    found: list[Transcript] = []
    for member in bundle.transcripts(files):
        file, size = bundle.unpacked(member)
        stack.enter_context(file)
        own = PurePosixPath(member.name).name
        try:
            found.append(_transcript(file, name=own, place=f"{whole}\n{member.name}", size=size))
        except _NoTranscript:
            continue
    if not found:
        raise UnreadableFile(name=name, problem=f"holds none of the transcripts that can be read: {KNOWN}")
    return tuple(found), len(files) - len(found)


class _NoTranscript(UnreadableFile):
    """A file in none of the formats, or an empty one; in a folder it is passed over."""


def _unknown(name: str) -> _NoTranscript:
    return _NoTranscript(name=name, problem=f"is none of the transcripts that can be read: {KNOWN}")


def _unasked(said: Said, include: Collection[Role]) -> LeftOut | None:
    role = said.turn.messages[0].role
    return LeftOut(_ASKED_FOR[role]) if role in _ASKED_FOR and role not in include else None


def _opened(path: Path) -> IO[bytes]:
    try:
        # Asked before opening: a pipe or a device would block, or never end.
        if not stat.S_ISREG(path.stat().st_mode):
            raise UnreadableFile(name=path.name, problem="is not a file")
        return path.open("rb")
    except (OSError, ValueError) as error:
        problem = "is not there" if isinstance(error, FileNotFoundError) else "cannot be opened"
        raise UnreadableFile(name=path.name, problem=problem) from None


def _transcript(file: IO[bytes], *, name: str, place: str, size: int) -> Transcript:
    read, form = _recognised(file, name=name, size=size)
    return Transcript(read, name=name, place=place, form=form, size_bytes=size)


def _recognised(file: IO[bytes], *, name: str, size: int) -> tuple[Reader, Format]:
    file.seek(0)
    head = message_shape.unmarked(file.read(_HEAD_BYTES))
    if head.startswith(_PACKED):
        raise UnreadableFile(name=name, problem="is packed: unpack it and give the file inside")
    if _UTF_16.match(head):
        raise UnreadableFile(name=name, problem="is not UTF-8, but looks like UTF-16: save it as UTF-8")
    if not head.strip():
        raise _NoTranscript(name=name, problem="is empty")
    first = head.lstrip()[:_LINE_BYTES].partition(b"\n")[0].decode("utf-8", "ignore")
    if messengers.begins(first):
        return _prose(file, Format.WHATSAPP, name=name, size=size)
    match head.lstrip()[:1]:
        case b"[":
            return _document(_whole(file, name=name, size=size), name=name, size=size)
        case b"{":
            parsed = None if _starts_with_a_message(file) else _whole_or_none(file, size=size)
            if parsed is None:
                return partial(text_files.messages, file, name=name, size=size), Format.JSONL
            return _document(parsed, name=name, size=size)
        case _:
            form = _PROSE.get(PurePosixPath(name).suffix.lower())
            if form is None or b"\0" in head:
                raise _unknown(name)
            return _prose(file, form, name=name, size=size)


_LINE_BYTES = 1_000
"""More than the beginning of an exported chat's line, up to its first word, ever needs."""


def _prose(file: IO[bytes], form: Format, *, name: str, size: int) -> tuple[Reader, Format]:
    if size > limits.TRANSCRIPT_JSON_BYTES:
        raise UnreadableFile(name=name, problem=f"is larger than {limits.TRANSCRIPT_JSON_BYTES} bytes: split it")
    file.seek(0)
    try:
        text = message_shape.unmarked(file.read(size)).decode("utf-8")
    except UnicodeDecodeError:
        raise UnreadableFile(name=name, problem="is not UTF-8: save it as UTF-8") from None
    return partial(message_shape.messages, text, _READS[form], name=name, size=size), form


def _starts_with_a_message(file: IO[bytes]) -> bool:
    file.seek(0)
    try:
        line = parse(message_shape.unmarked(file.readline(limits.IMPORT_LINE_BYTES)))
    except InvalidJson:
        return False
    return isinstance(line, dict) and "content" in line


def _whole_or_none(file: IO[bytes], *, size: int) -> Json:
    """Return the file as one JSON document; None if it is not one, and so must be lines."""
    if size > limits.TRANSCRIPT_JSON_BYTES:
        return None
    file.seek(0)
    try:
        return parse(message_shape.unmarked(file.read(size)), limit=limits.TRANSCRIPT_JSON_BYTES)
    except InvalidJson:
        return None


def _whole(file: IO[bytes], *, name: str, size: int) -> Json:
    file.seek(0)
    try:
        data = file.read(limits.TRANSCRIPT_JSON_BYTES + 1)[:size]
        return parse(message_shape.unmarked(data), limit=limits.TRANSCRIPT_JSON_BYTES)
    except (InvalidJson, PayloadTooLarge) as error:
        raise UnreadableFile(name=name, problem=error.message) from None


def _document(parsed: Json, *, name: str, size: int) -> tuple[Reader, Format]:
    entries: Json
    match parsed:
        case []:
            raise _NoTranscript(name=name, problem="holds no messages")
        case {"chats": {"list": list()}} | {"messages": [{"type": str(), "id": int()}, *_], "id": int()}:
            entries, form = parsed, Format.TELEGRAM
        case {"messages": list() as inner}:
            entries, form = inner, Format.OPENAI_MESSAGES
        case {"mapping": _} | [{"mapping": _}, *_]:
            entries, form = _as_list(parsed), Format.CHATGPT
        case {"chat_messages": _} | [{"chat_messages": _}, *_]:
            entries, form = _as_list(parsed), Format.CLAUDE
        case [{"role": _}, *_]:
            entries, form = _as_list(parsed), Format.OPENAI_MESSAGES
        case _:
            raise _unknown(name)
    return partial(message_shape.messages, entries, _READS[form], name=name, size=size), form


def _as_list(parsed: Json) -> list[Json]:
    return parsed if isinstance(parsed, list) else [parsed]
