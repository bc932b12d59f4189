"""Which transcript a file holds, told by its content and not by its name."""

import os
import stat
from collections.abc import Iterator
from enum import StrEnum
from pathlib import Path
from types import TracebackType
from typing import BinaryIO, Self

from elytron.transcripts import chatgpt, claude, openai_messages, packed, shape
from elytron.transcripts.document import Document, DocumentFormat
from elytron.transcripts.jsonl import JsonLines
from elytron.transcripts.shape import Reader, Said
from elytron_core import limits
from elytron_core.errors import InvalidJson, PayloadTooLarge, UnreadableFile
from elytron_core.scope import ConversationKey
from elytron_core.strict_json import Json, parse

_HEAD_BYTES = 64 * 1024
_PACKED = (b"\x1f\x8b", b"\x28\xb5\x2f\xfd", b"BZh", b"\xfd7zXZ")


class Format(StrEnum):
    """The transcripts that can be read."""

    JSONL = "jsonl"
    OPENAI_MESSAGES = "openai_messages"
    CHATGPT = "chatgpt"
    CLAUDE = "claude"


_READS: dict[Format, DocumentFormat] = {
    Format.OPENAI_MESSAGES: openai_messages.read,
    Format.CHATGPT: chatgpt.read,
    Format.CLAUDE: claude.read,
}


class Transcript:
    """A recognised transcript file, open until closed; its messages can be read any number of times."""

    def __init__(self, file: BinaryIO, reader: Reader, /, *, name: str, form: Format, size_bytes: int) -> None:
        self._file = file
        self._reader = reader
        self.name = name
        self.format = form
        self.size_bytes = size_bytes

    def messages(self, home: ConversationKey, /) -> Iterator[Said]:
        """Yield what was said, in order; `home` takes what names no conversation. Raises UnreadableFile."""
        return self._reader.messages(home)

    def close(self) -> None:
        """Let go of the file."""
        self._file.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def open_transcript(path: Path, /) -> Transcript:
    """Return the transcript in the file at `path`, to be closed by the caller. Raises UnreadableFile."""
    file = _opened(path)
    try:
        size = os.fstat(file.fileno()).st_size
        reader, form = _recognised(file, name=path.name, size=size)
    except BaseException:
        file.close()
        raise
    return Transcript(file, reader, name=path.name, form=form, size_bytes=size)


def _opened(path: Path) -> BinaryIO:
    try:
        # Asked before opening: a pipe or a device would block, or never end.
        if not stat.S_ISREG(path.stat().st_mode):
            raise UnreadableFile(name=path.name, problem="is not a file")
        return path.open("rb")
    except (OSError, ValueError) as error:
        problem = "is not there" if isinstance(error, FileNotFoundError) else "cannot be opened"
        raise UnreadableFile(name=path.name, problem=problem) from None


def _recognised(file: BinaryIO, *, name: str, size: int) -> tuple[Reader, Format]:
    head = shape.unmarked(file.read(_HEAD_BYTES))
    if head.startswith(packed.MAGIC):
        return _document(packed.conversations(file, name=name), name=name, size=size)
    if head.startswith(_PACKED):
        raise UnreadableFile(name=name, problem="is packed: unpack it and give the JSON file inside")
    if b"\0" in head[:4]:
        raise UnreadableFile(name=name, problem="is not UTF-8, but looks like UTF-16: save it as UTF-8")
    match head.lstrip()[:1]:
        case b"":
            raise UnreadableFile(name=name, problem="is empty")
        case b"[":
            return _document(_whole(file, name=name, size=size), name=name, size=size)
        case b"{":
            document = None if _starts_with_a_message(file) else _whole_or_none(file, size=size)
            if document is None:
                return JsonLines(file, name=name, size=size), Format.JSONL
            return _document(document, name=name, size=size)
        case _:
            raise UnreadableFile(name=name, problem="is neither JSON nor JSON Lines", line=1)


def _starts_with_a_message(file: BinaryIO) -> bool:
    file.seek(0)
    try:
        line = parse(shape.unmarked(file.readline(limits.IMPORT_LINE_BYTES)))
    except InvalidJson:
        return False
    return isinstance(line, dict) and "content" in line


def _whole_or_none(file: BinaryIO, *, size: int) -> Json:
    """Return the file as one JSON document; None where it is none, and so must be lines."""
    if size > limits.TRANSCRIPT_JSON_BYTES:
        return None
    file.seek(0)
    try:
        return parse(shape.unmarked(file.read(size)), limit=limits.TRANSCRIPT_JSON_BYTES)
    except InvalidJson:
        return None


def _whole(file: BinaryIO, *, name: str, size: int) -> Json:
    file.seek(0)
    try:
        data = file.read(limits.TRANSCRIPT_JSON_BYTES + 1)[:size]
        return parse(shape.unmarked(data), limit=limits.TRANSCRIPT_JSON_BYTES)
    except (InvalidJson, PayloadTooLarge) as error:
        raise UnreadableFile(name=name, problem=error.message) from None


def _document(document: Json, *, name: str, size: int) -> tuple[Reader, Format]:
    match document:
        case []:
            raise UnreadableFile(name=name, problem="holds no messages")
        case {"messages": list() as inner}:
            entries, form = inner, Format.OPENAI_MESSAGES
        case {"mapping": _} | [{"mapping": _}, *_]:
            entries, form = _as_list(document), Format.CHATGPT
        case {"chat_messages": _} | [{"chat_messages": _}, *_]:
            entries, form = _as_list(document), Format.CLAUDE
        case [{"role": _}, *_]:
            entries, form = _as_list(document), Format.OPENAI_MESSAGES
        case _:
            raise UnreadableFile(name=name, problem="is JSON, but none of the transcripts that can be read")
    return Document(entries, _READS[form], name=name, size=size), form


def _as_list(document: Json) -> list[Json]:
    return document if isinstance(document, list) else [document]
