"""The byte form of a space's log: a header and one frame per commit.

    header = static ∙ acknowledged ∙ acknowledged ∙ static      (each twice: one bad sector does not lose the log)
    frame  = block ∙ block ∙ body*                               (the block twice, likewise)
    block  = magic, copy, length of the record, length of the bodies, checksum ∙ record as JSON
    body   = checksum ∙ bytes                                   (of a document, or of an idempotency record's answer)

A block's checksum binds the generation's random salt and the frame's offset, so that nothing inside a body can pass
for a block when a reader has to look for the next one behind damage.
"""

import struct
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import product
from typing import NamedTuple

from pydantic import BaseModel, ConfigDict, ValidationError

from elytron_core import limits
from elytron_core.clock import Instant
from elytron_core.ids import SpaceId
from elytron_core.ports.store import DocumentRef, JournalAction
from elytron_core.strict_json import frame_checksum
from elytron_store.engine import document_checksum

MAGIC = b"\xe1lyF"
CHECKSUM_BYTES = 8
SALT_BYTES = 16
_HEAD = struct.Struct(">4sBIQ8s")
_SEALED_BYTES = _HEAD.size - CHECKSUM_BYTES
HEAD_BYTES = _HEAD.size

_LOG_MAGIC = b"elytron\x01"
# Fixed width (UTF-8 has up to four bytes per character), so that the marks after it have a fixed offset.
_NAME_BYTES = 4 * limits.SPACE_CHARS
_STATIC = struct.Struct(f">8s{SALT_BYTES}sH{_NAME_BYTES}s")
_STATIC_BYTES = _STATIC.size + CHECKSUM_BYTES
_ACKNOWLEDGED = struct.Struct(">Q8s")
ACKNOWLEDGED_AT = _STATIC_BYTES
HEADER_BYTES = 2 * (_STATIC_BYTES + _ACKNOWLEDGED.size)
"""Offset of the first frame of a log."""


class LoggedDocument(NamedTuple):
    collection: str
    key: str
    revision: int
    size: int


class LoggedEntry(NamedTuple):
    at: Instant
    action: JournalAction
    collection: str
    key: str
    digest: str
    covers: int = 1


class LoggedAnswer(NamedTuple):
    key: str
    digest: str
    first: int
    last: int
    at: Instant
    size: int


class FrameRecord(BaseModel):
    """Contents of a frame: documents put, refs deleted, journal entries from sequence `first`, answered requests."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    documents: tuple[LoggedDocument, ...] = ()
    deletes: tuple[DocumentRef, ...] = ()
    first: int = 0
    entries: tuple[LoggedEntry, ...] = ()
    answers: tuple[LoggedAnswer, ...] = ()

    @property
    def last(self) -> int:
        """The last sequence of the entries, `first - 1` if there are none."""
        return self.first - 1 + sum(entry.covers for entry in self.entries)

    @property
    def bodies_bytes(self) -> int:
        return sum(CHECKSUM_BYTES + record.size for record in (*self.documents, *self.answers))


@dataclass(frozen=True, slots=True)
class LogHeader:
    """A log's generation and space, how much of it is acknowledged, and whether all its copies agree."""

    salt: bytes
    space: SpaceId
    acknowledged: int | None
    sound: bool


@dataclass(frozen=True, slots=True)
class FrameBlock:
    """One copy of a frame's record. `offset` is the start of the frame, `bodies_at` that of its bodies."""

    offset: int
    copy: int
    bodies_at: int
    end: int
    record: FrameRecord
    shift: int = 0
    """Number of bytes by which the frame was moved from the place it was written for."""

    def moved(self, shift: int, /) -> "FrameBlock":
        """Return the block at the place to which it was moved."""
        if not shift:
            return self
        moved_offsets = (self.offset + shift, self.bodies_at + shift, self.end + shift)
        return FrameBlock(moved_offsets[0], self.copy, moved_offsets[1], moved_offsets[2], self.record, shift)


def encode_header(salt: bytes, space: SpaceId, /, *, acknowledged: int) -> bytes:
    """Return the bytes of a log's header."""
    name = space.encode()
    static_bytes = _STATIC.pack(_LOG_MAGIC, salt, len(name), name)
    static_bytes += frame_checksum(static_bytes)
    return static_bytes + encode_acknowledged(salt, acknowledged) + static_bytes


def encode_acknowledged(salt: bytes, acknowledged_end: int, /) -> bytes:
    """Return the bytes to store at ACKNOWLEDGED_AT: everything before the offset `acknowledged_end` is durable."""
    return 2 * _ACKNOWLEDGED.pack(acknowledged_end, frame_checksum(salt, acknowledged_end.to_bytes(8, "big")))


@lru_cache(maxsize=256)  # every read parses the header, which usually has the same bytes
def decode_header(data: bytes, /) -> LogHeader | None:
    """Return the header in `data`, or None if no copy of it is whole."""
    marks_bytes = data[ACKNOWLEDGED_AT : ACKNOWLEDGED_AT + 2 * _ACKNOWLEDGED.size]
    static_copies = (data[:ACKNOWLEDGED_AT], data[ACKNOWLEDGED_AT + 2 * _ACKNOWLEDGED.size : HEADER_BYTES])
    whole_copies = [static for static in static_copies if _is_whole_static(static)]
    if not whole_copies:
        return None
    _, salt, length, name = _STATIC.unpack(whole_copies[0][: _STATIC.size])
    marks = [marks_bytes[: _ACKNOWLEDGED.size], marks_bytes[_ACKNOWLEDGED.size :]]
    # A mark follows the sync of its frames, so the larger of the two is true; the other was torn.
    acknowledged_ends = [at for mark_bytes in marks if (at := _decode_acknowledged(salt, mark_bytes)) is not None]
    return LogHeader(
        salt=salt,
        space=SpaceId(name[:length].decode()),
        acknowledged=max(acknowledged_ends, default=None),
        sound=len(whole_copies) == len(acknowledged_ends) == 2
        and len(set(static_copies)) == len(set(acknowledged_ends)) == 1,
    )


def find_header(data: bytes, /) -> LogHeader | None:
    """Return the header that `data` begins with although no copy is whole, or although a copy is misplaced.

    Most of a copy is padding after the name, whose bytes are known: the remains of both usually prove one.
    """
    second_at = HEADER_BYTES - _STATIC_BYTES
    magic_offsets = [place for place in range(len(data)) if data.startswith(_LOG_MAGIC, place)]
    copies = [data[place : place + _STATIC_BYTES] for place in dict.fromkeys((0, second_at, *magic_offsets))]
    copies = [copy for copy in copies if len(copy) == _STATIC_BYTES]
    for salt_copy, name_copy, checksum_copy in product(copies, repeat=3):
        _, salt, _, _ = _STATIC.unpack(salt_copy[: _STATIC.size])
        _, _, length, name = _STATIC.unpack(name_copy[: _STATIC.size])
        static = _STATIC.pack(_LOG_MAGIC, salt, length, name[:length])
        if frame_checksum(static) == checksum_copy[_STATIC.size :]:
            whole_static = static + checksum_copy[_STATIC.size :]
            header = decode_header(whole_static + data[ACKNOWLEDGED_AT:HEADER_BYTES])
            assert header is not None, "one copy is whole"
            return replace(header, sound=False)
    return None


def encode_frame(record: FrameRecord, bodies: Sequence[bytes], /, *, salt: bytes, offset: int) -> bytes:
    """Return the frame of `record` for `offset`. `bodies` are its sealed documents, then its sealed answers."""
    text = record.model_dump_json(exclude_defaults=True).encode()
    bodies_bytes = sum(len(body) for body in bodies)
    assert bodies_bytes == record.bodies_bytes, "the bodies are not those of the record"
    blocks = (_encode_block(text, copy_number, bodies_bytes, salt, offset) for copy_number in (0, 1))
    return b"".join((*blocks, *bodies))


def seal_document(document: LoggedDocument, body: bytes, /) -> bytes:
    """Return a document's body as stored in a frame."""
    return document_checksum(DocumentRef(document.collection, document.key), document.revision, body) + body


def open_document(ref: DocumentRef, revision: int, sealed_bytes: bytes, /) -> bytes | None:
    """Return the body that `seal_document` sealed, or None if it is damaged."""
    body = sealed_bytes[CHECKSUM_BYTES:]
    return body if sealed_bytes[:CHECKSUM_BYTES] == document_checksum(ref, revision, body) else None


def seal_answer(key: str, answer: bytes, /) -> bytes:
    """Return an idempotency record's answer as stored in a frame."""
    return frame_checksum(key.encode(), answer) + answer


def open_answer(key: str, sealed_bytes: bytes, /) -> bytes | None:
    """Return the answer that `seal_answer` sealed, or None if it is damaged."""
    answer = sealed_bytes[CHECKSUM_BYTES:]
    return answer if sealed_bytes[:CHECKSUM_BYTES] == frame_checksum(key.encode(), answer) else None


def record_bytes(head: bytes, /) -> int | None:
    """Return the length in the block head `head`, or None if this is no head."""
    if len(head) < HEAD_BYTES:
        return None
    magic, copy, length, _, _ = _HEAD.unpack(head[:HEAD_BYTES])
    return length if magic == MAGIC and copy in (0, 1) else None


def decode_block(data: bytes, /, *, salt: bytes, at: int) -> FrameBlock | None:
    """Return the block at the start of `data`, which was read at offset `at`; None if it is not whole."""
    length = record_bytes(data)
    if length is None or len(data) < HEAD_BYTES + length:
        return None
    _, copy, _, bodies_bytes, checksum = _HEAD.unpack(data[:HEAD_BYTES])
    size = HEAD_BYTES + length
    # A copy includes its number, so that either one alone leads to the frame's start.
    offset = at - copy * size
    text = data[HEAD_BYTES:size]
    if offset < HEADER_BYTES or checksum != _block_checksum(salt, offset, data[:_SEALED_BYTES], text):
        return None
    try:
        record = FrameRecord.model_validate_json(text)
    except ValidationError:
        return None
    bodies_at = offset + 2 * size
    return FrameBlock(offset=offset, copy=copy, bodies_at=bodies_at, end=bodies_at + bodies_bytes, record=record)


def block_bodies(block: FrameBlock, /) -> Iterator[tuple[LoggedDocument | LoggedAnswer, int]]:
    """Iterate over the documents and answers of `block` with the offset of each one's sealed body."""
    body_offset = block.bodies_at
    for record in (*block.record.documents, *block.record.answers):
        yield record, body_offset
        body_offset += CHECKSUM_BYTES + record.size


def _encode_block(text: bytes, copy_number: int, bodies_bytes: int, salt: bytes, offset: int) -> bytes:
    head = _HEAD.pack(MAGIC, copy_number, len(text), bodies_bytes, b"")[:_SEALED_BYTES]
    return head + _block_checksum(salt, offset, head, text) + text


def _block_checksum(salt: bytes, offset: int, head_bytes: bytes, text: bytes) -> bytes:
    return frame_checksum(salt, offset.to_bytes(8, "big"), head_bytes, text)


def _is_whole_static(static: bytes) -> bool:
    content, checksum = static[: _STATIC.size], static[_STATIC.size :]
    return static.startswith(_LOG_MAGIC) and len(static) == _STATIC_BYTES and frame_checksum(content) == checksum


def _decode_acknowledged(salt: bytes, mark: bytes) -> int | None:
    if len(mark) < _ACKNOWLEDGED.size:
        return None
    acknowledged_end, checksum = _ACKNOWLEDGED.unpack(mark)
    return acknowledged_end if checksum == frame_checksum(salt, acknowledged_end.to_bytes(8, "big")) else None
