"""The log of a space: its byte form, a header and one frame per commit, and its reading, with what damage leaves of it.

    header = static ∙ acknowledged ∙ acknowledged ∙ static      (each twice: one bad sector does not lose the log)
    frame  = block ∙ block ∙ body*                               (the block twice, likewise)
    block  = magic, copy, length of the record, length of the bodies, checksum ∙ record as JSON
    body   = checksum ∙ bytes                                   (of a document, or of an idempotency record's answer)

A block's checksum binds the generation's random salt and the frame's offset, so that nothing inside a body can pass
for a block when a reader has to look for the next one behind damage.
"""

import struct
from array import array
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from io import FileIO
from pathlib import Path
from typing import NamedTuple, Protocol, Self

from pydantic import BaseModel, ConfigDict, ValidationError

from elytron_core import limits
from elytron_core.clock import Instant
from elytron_core.errors import StoreCorrupt, StoreUnavailable
from elytron_core.ids import SpaceId
from elytron_core.ports.store import Document, DocumentRef, JournalAction, JournalEntry
from elytron_core.strict_json import frame_checksum
from elytron_store.engine import DocumentPage, document_checksum
from elytron_store.file.disk import while_reading
from elytron_store.ledger import AnsweredRequest, HeldDocument, SpaceLedger
from elytron_store.manifest import is_folder

MAGIC = b"\xe1lyF"
CHECKSUM_BYTES = 8
SALT_BYTES = 16
_HEAD = struct.Struct(">4sBIQ8s")
_SEALED_BYTES = _HEAD.size - CHECKSUM_BYTES
HEAD_BYTES = _HEAD.size

_LOG_MAGIC = b"elytron\x01"
# Fixed width (UTF-8 has up to four bytes a character), so that the marks behind it have a fixed offset.
_NAME_BYTES = 4 * limits.SPACE_CHARS
_STATIC = struct.Struct(f">8s{SALT_BYTES}sH{_NAME_BYTES}s")
_STATIC_BYTES = _STATIC.size + CHECKSUM_BYTES
_ACKNOWLEDGED = struct.Struct(">Q8s")
ACKNOWLEDGED_AT = _STATIC_BYTES
HEADER_BYTES = 2 * (_STATIC_BYTES + _ACKNOWLEDGED.size)
"""Offset of the first frame of a log."""


class KeptDocument(NamedTuple):
    collection: str
    key: str
    revision: int
    size: int


class KeptEntry(NamedTuple):
    at: Instant
    action: JournalAction
    collection: str
    key: str
    digest: str
    covers: int = 1


class KeptAnswer(NamedTuple):
    key: str
    digest: str
    first: int
    last: int
    at: Instant
    size: int


class FrameRecord(BaseModel):
    """Contents of a frame: documents put, refs deleted, journal entries from sequence `first`, answered requests."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    documents: tuple[KeptDocument, ...] = ()
    deletes: tuple[DocumentRef, ...] = ()
    first: int = 0
    entries: tuple[KeptEntry, ...] = ()
    answers: tuple[KeptAnswer, ...] = ()

    @property
    def last(self) -> int:
        """The last sequence of the entries, `first - 1` if there are none."""
        return self.first - 1 + sum(kept.covers for kept in self.entries)

    @property
    def bodies_bytes(self) -> int:
        return sum(CHECKSUM_BYTES + kept.size for kept in (*self.documents, *self.answers))


@dataclass(frozen=True, slots=True)
class LogHeader:
    """A log's generation and space, how much of it is acknowledged, and whether all its copies agree."""

    salt: bytes
    space: SpaceId
    acknowledged: int | None
    sound: bool


@dataclass(frozen=True, slots=True)
class FrameBlock:
    """One copy of a frame's record. `offset` is where the frame begins, `bodies_at` where its bodies do."""

    offset: int
    copy: int
    bodies_at: int
    end: int
    record: FrameRecord


def encode_header(salt: bytes, space: SpaceId, /, *, acknowledged: int) -> bytes:
    """Return the bytes of a log's header."""
    name = space.encode()
    static = _STATIC.pack(_LOG_MAGIC, salt, len(name), name)
    static += frame_checksum(static)
    return static + encode_acknowledged(salt, acknowledged) + static


def encode_acknowledged(salt: bytes, acknowledged: int, /) -> bytes:
    """Return the bytes to keep at ACKNOWLEDGED_AT: everything before the offset `acknowledged` is durable."""
    return 2 * _ACKNOWLEDGED.pack(acknowledged, frame_checksum(salt, acknowledged.to_bytes(8, "big")))


@lru_cache(maxsize=256)  # every read parses the header, which mostly has the same bytes
def decode_header(data: bytes, /) -> LogHeader | None:
    """Return the header in `data`, or None if no copy of it is whole."""
    middle = data[ACKNOWLEDGED_AT : ACKNOWLEDGED_AT + 2 * _ACKNOWLEDGED.size]
    statics = (data[:ACKNOWLEDGED_AT], data[ACKNOWLEDGED_AT + 2 * _ACKNOWLEDGED.size : HEADER_BYTES])
    whole = [static for static in statics if _is_whole_static(static)]
    if not whole:
        return None
    _, salt, length, name = _STATIC.unpack(whole[0][: _STATIC.size])
    marks = [middle[: _ACKNOWLEDGED.size], middle[_ACKNOWLEDGED.size :]]
    # A mark follows the sync of its frames, so the larger of two is true; the other was torn.
    known = [at for mark in marks if (at := _decode_acknowledged(salt, mark)) is not None]
    return LogHeader(
        salt=salt,
        space=SpaceId(name[:length].decode()),
        acknowledged=max(known, default=None),
        sound=len(whole) == len(known) == 2 and len(set(statics)) == len(set(known)) == 1,
    )


def encode_frame(record: FrameRecord, bodies: Sequence[bytes], /, *, salt: bytes, offset: int) -> bytes:
    """Return the frame of `record` for `offset`. `bodies` are its sealed documents, then its sealed answers."""
    text = record.model_dump_json(exclude_defaults=True).encode()
    bodies_bytes = sum(len(body) for body in bodies)
    assert bodies_bytes == record.bodies_bytes, "the bodies are not those of the record"
    blocks = (_encode_block(text, copy, bodies_bytes, salt, offset) for copy in (0, 1))
    return b"".join((*blocks, *bodies))


def seal_document(kept: KeptDocument, body: bytes, /) -> bytes:
    """Return a document's body as a frame holds it."""
    return document_checksum(DocumentRef(kept.collection, kept.key), kept.revision, body) + body


def open_document(ref: DocumentRef, revision: int, sealed: bytes, /) -> bytes | None:
    """Return the body that `seal_document` sealed, or None if it is damaged."""
    body = sealed[CHECKSUM_BYTES:]
    return body if sealed[:CHECKSUM_BYTES] == document_checksum(ref, revision, body) else None


def seal_answer(key: str, answer: bytes, /) -> bytes:
    """Return an idempotency record's answer as a frame holds it."""
    return frame_checksum(key.encode(), answer) + answer


def open_answer(key: str, sealed: bytes, /) -> bytes | None:
    """Return the answer that `seal_answer` sealed, or None if it is damaged."""
    answer = sealed[CHECKSUM_BYTES:]
    return answer if sealed[:CHECKSUM_BYTES] == frame_checksum(key.encode(), answer) else None


def record_bytes(head: bytes, /) -> int | None:
    """Return how long the record behind the block head `head` says to be, or None where this is no head."""
    if len(head) < HEAD_BYTES:
        return None
    magic, copy, length, _, _ = _HEAD.unpack(head[:HEAD_BYTES])
    return length if magic == MAGIC and copy in (0, 1) else None


def decode_block(data: bytes, /, *, salt: bytes, at: int) -> FrameBlock | None:
    """Return the block that `data`, read at offset `at`, begins with; None if it is not whole."""
    length = record_bytes(data)
    if length is None or len(data) < HEAD_BYTES + length:
        return None
    _, copy, _, bodies_bytes, found = _HEAD.unpack(data[:HEAD_BYTES])
    size = HEAD_BYTES + length
    # A copy has its number, so that either one alone leads to the frame's beginning.
    offset = at - copy * size
    text = data[HEAD_BYTES:size]
    if offset < HEADER_BYTES or found != _block_checksum(salt, offset, data[:_SEALED_BYTES], text):
        return None
    try:
        record = FrameRecord.model_validate_json(text)
    except ValidationError:
        return None
    bodies_at = offset + 2 * size
    return FrameBlock(offset=offset, copy=copy, bodies_at=bodies_at, end=bodies_at + bodies_bytes, record=record)


def block_bodies(block: FrameBlock, /) -> Iterator[tuple[KeptDocument | KeptAnswer, int]]:
    """Walk the documents and answers of `block` with the offset where each one's sealed body begins."""
    at = block.bodies_at
    for kept in (*block.record.documents, *block.record.answers):
        yield kept, at
        at += CHECKSUM_BYTES + kept.size


def _encode_block(text: bytes, copy: int, bodies_bytes: int, salt: bytes, offset: int) -> bytes:
    sealed = _HEAD.pack(MAGIC, copy, len(text), bodies_bytes, b"")[:_SEALED_BYTES]
    return sealed + _block_checksum(salt, offset, sealed, text) + text


def _block_checksum(salt: bytes, offset: int, head: bytes, text: bytes) -> bytes:
    return frame_checksum(salt, offset.to_bytes(8, "big"), head, text)


def _is_whole_static(static: bytes) -> bool:
    sealed, found = static[: _STATIC.size], static[_STATIC.size :]
    return static.startswith(_LOG_MAGIC) and len(static) == _STATIC_BYTES and frame_checksum(sealed) == found


def _decode_acknowledged(salt: bytes, mark: bytes) -> int | None:
    if len(mark) < _ACKNOWLEDGED.size:
        return None
    acknowledged, found = _ACKNOWLEDGED.unpack(mark)
    return acknowledged if found == frame_checksum(salt, acknowledged.to_bytes(8, "big")) else None


_GUESS_BYTES = 4096
"""Read at once where a block is expected: most are shorter."""
_WALK_BYTES = 64 * 1024
"""Read at once where frames are walked one after the other."""
_SEARCH_BYTES = 1024 * 1024
_HEADER_READS = 3
"""A mark that is being written at this moment may look damaged once."""
_RECORD_BYTES_MAX = 64 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class LogHole:
    """A stretch of the log in which no frame can be recognised."""

    start: int
    end: int


class ByteSource(Protocol):
    """Source of a log's bytes: a file, or memory."""

    def seek(self, offset: int, whence: int = 0, /) -> int: ...

    def read(self, size: int = -1, /) -> bytes | None: ...

    def close(self) -> None: ...


class GenerationLog:
    """One generation of a space's log, open for reading. What it shows stays, even when a newer one replaces it."""

    def __init__(self, file: ByteSource, header: LogHeader, /) -> None:
        self.header = header
        self._file = file
        # If both marks are lost, everything counts as acknowledged: rather a hole to repair than a commit cut off.
        self.acknowledged = self.size() if header.acknowledged is None else header.acknowledged

    @classmethod
    def open(cls, path: Path, /) -> Self | None:
        """Open the log at `path`, None if there is none. Raises StoreCorrupt if its header is lost."""
        with while_reading("a space's log"):
            try:
                file = FileIO(path, "r")
            except FileNotFoundError:
                # A space without a log is empty; a store without its folder is not, so the two are kept apart.
                if not is_folder(path.parent.parent):
                    raise StoreUnavailable(
                        "the folder of this file store was moved or removed: restore it, or open it at its new location"
                    ) from None
                return None
            header = _read_header(file)
        if header is None:
            file.close()
            raise StoreCorrupt(what=f"the header of space folder {path.parent.name[:16]!r}")
        return cls(file, header)

    def close(self) -> None:
        self._file.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def size(self) -> int:
        """Return the length of the file, which may hold more than is acknowledged, or after damage less."""
        with while_reading("a space's log"):
            return self._file.seek(0, 2)

    def read(self, at: int, size: int, /) -> bytes:
        """Return up to `size` bytes at offset `at`; fewer at the end of the file."""
        with while_reading("a space's log"):
            self._file.seek(at)
            data = self._file.read(size) or b""
            # A raw file may return less than was asked for before its end.
            while 0 < len(data) < size and (more := self._file.read(size - len(data))):
                data += more
        return data

    def block_at(self, at: int, /) -> FrameBlock | None:
        """Return the block at offset `at`, None if none is whole."""
        return self._block_in(self.read(at, _GUESS_BYTES), at)

    def frame_at(self, at: int, /) -> FrameBlock | None:
        """Return the block of the frame that begins at `at`: its first copy or, if that is damaged, its second."""
        block = self.block_at(at)
        if block is not None and block.copy == 0:
            return block
        # The first copy's length is lost with it, so the second one has to be searched for.
        found = self._find_block(at + 1, self.size())
        return found if found is not None and found.offset == at else None

    def frames(self, start: int, end: int, /) -> Iterator[FrameBlock | LogHole]:
        """Walk the frames from offset `start` to `end`; what cannot be read between them comes as holes."""
        at = start
        window, window_at = b"", start
        while at < end:
            if at + _GUESS_BYTES > window_at + len(window):
                window, window_at = self.read(at, min(_WALK_BYTES, end - at)), at
            block = self._block_in(window[at - window_at : at - window_at + _GUESS_BYTES], at)
            if block is None or block.copy != 0 or block.end > end:
                block = self._find_block(at + 1, end)
            if block is None or block.end > end or block.offset < at:
                yield LogHole(at, end)
                return
            if block.offset > at:
                yield LogHole(at, block.offset)
            yield block
            at = block.end

    def is_whole(self, block: FrameBlock, /) -> bool:
        """Return whether both copies of the block and all bodies of its frame are undamaged."""
        return self.has_both_copies(block) and not any(self.damaged(block))

    def has_both_copies(self, block: FrameBlock, /) -> bool:
        """Return whether both copies of the block are there."""
        second_at = block.offset + (block.bodies_at - block.offset) // 2
        copies = self.block_at(block.offset), self.block_at(second_at)
        return all(copy is not None and copy.offset == block.offset for copy in copies)

    def damaged(self, block: FrameBlock, /) -> Iterator[KeptDocument | KeptAnswer]:
        """Walk the documents and answers of `block` whose body is damaged."""
        for kept, at in block_bodies(block):
            if not is_sound(kept, self.read(at, CHECKSUM_BYTES + kept.size)):
                yield kept

    def _block_in(self, data: bytes, at: int) -> FrameBlock | None:
        """Return the block at offset `at`, which `data` begins with, perhaps not to its end."""
        length = record_bytes(data)
        # A damaged length field would otherwise have gigabytes read.
        if length is None or length > _RECORD_BYTES_MAX:
            return None
        if HEAD_BYTES + length > len(data):
            data = self.read(at, HEAD_BYTES + length)
        return decode_block(data, salt=self.header.salt, at=at)

    def _find_block(self, start: int, end: int) -> FrameBlock | None:
        """Return the first whole block at or behind `start`."""
        at = start
        while at < end:
            window = self.read(at, min(_SEARCH_BYTES, end - at))
            place = window.find(MAGIC)
            while place >= 0:
                block = self.block_at(at + place)
                if block is not None:
                    return block
                place = window.find(MAGIC, place + 1)
            if len(window) < len(MAGIC):
                return None
            # Windows overlap, since the mark may begin in one and end in the next.
            at += len(window) - len(MAGIC) + 1
        return None


def _read_header(file: FileIO) -> LogHeader | None:
    header: LogHeader | None = None
    for _ in range(_HEADER_READS):
        file.seek(0)
        header = decode_header(file.read(HEADER_BYTES) or b"")
        if header is not None and header.acknowledged is not None:
            break
    return header


def is_sound(kept: KeptDocument | KeptAnswer, sealed: bytes, /) -> bool:
    """Return whether `sealed` is the whole and undamaged body of `kept`."""
    if len(sealed) != CHECKSUM_BYTES + kept.size:
        return False
    match kept:
        case KeptDocument():
            ref = DocumentRef(kept.collection, kept.key)
            return open_document(ref, kept.revision, sealed) is not None
        case KeptAnswer():
            return open_answer(kept.key, sealed) is not None


_LEAST_DEAD_BYTES = 1024 * 1024


class BodySpan(NamedTuple):
    """Place of a sealed body: offset and length of the bytes without their checksum."""

    at: int
    size: int


class LogContents:
    """The fold over a log's acknowledged frames. The caller keeps threads apart."""

    def __init__(self, salt: bytes, /) -> None:
        self.salt = salt
        self.end = HEADER_BYTES
        self.ledger = SpaceLedger[BodySpan]()
        self.holes: list[LogHole] = []
        self.dead_bytes = 0
        self.entries = 0
        # Packed numbers: as objects, the place of each commit's frame would take several times the memory.
        self._firsts = array("Q")
        self._offsets = array("Q")

    @property
    def wants_compaction(self) -> bool:
        """Return whether most of the log consists of unreachable bodies."""
        # A rewrite reads the whole log, so half of it has to be worth that. One with holes is left to a repair, which
        # keeps them aside.
        return not self.holes and self.dead_bytes > max(_LEAST_DEAD_BYTES, self.end // 2)

    def catch_up(self, log: GenerationLog, /) -> None:
        """Take in what `log`, which is of this generation, acknowledged since the last time."""
        for found in log.frames(self.end, log.acknowledged):
            if isinstance(found, LogHole):
                self.holes.append(found)
                self.end = found.end
            else:
                self.apply(found)

    def apply(self, block: FrameBlock, /) -> None:
        """Take in the frame of `block`, the next one."""
        record = block.record
        if record.entries:
            self._firsts.append(record.first)
            self._offsets.append(block.offset)
            self.ledger.last = record.last
            self.entries += len(record.entries)
        for kept, at in block_bodies(block):
            match kept:
                case KeptDocument():
                    held = HeldDocument(kept.revision, BodySpan(at, kept.size))
                    self._bury(self.ledger.put(DocumentRef(kept.collection, kept.key), held))
                case KeptAnswer():
                    # By the log's own times, without a clock: every reader of the log drops the same records.
                    for gone in self.ledger.forget_before(kept.at):
                        self.dead_bytes += gone.answer.size
                    span = BodySpan(at, kept.size)
                    self.ledger.remember(AnsweredRequest(kept.key, kept.digest, span, kept.first, kept.last, kept.at))
        for ref in record.deletes:
            self._bury(self.ledger.remove(ref))
        self.end = block.end

    def _require_known(self, ref: DocumentRef, held: HeldDocument[BodySpan] | None) -> None:
        """Raise StoreCorrupt where a lost frame may have said something newer of `ref`."""
        # A document written behind the last hole is the newest for certain.
        if self.holes and (held is None or held.body.at < self.holes[-1].start):
            raise StoreCorrupt(what=f"the log with document {ref.collection}/{ref.key}")

    def require_complete(self) -> None:
        """Raise StoreCorrupt where frames were lost."""
        if self.holes:
            raise StoreCorrupt(what="the log of a space")

    def find(self, refs: Sequence[DocumentRef], /) -> list[tuple[DocumentRef, HeldDocument[BodySpan] | None]]:
        """Return what is held at `refs`, in that order. Raises StoreCorrupt if a newer one may be lost."""
        found = [(ref, self.ledger.find(ref)) for ref in refs]
        for ref, held in found:
            self._require_known(ref, held)
        return found

    def scan(self, page: DocumentPage, /) -> list[tuple[DocumentRef, HeldDocument[BodySpan]]]:
        """Return what is held of `page`, in key order. Raises StoreCorrupt where frames were lost."""
        self.require_complete()
        return [(ref, held) for ref in self.ledger.window(page) if (held := self.ledger.find(ref)) is not None]

    def count(self, collection: str, /) -> int:
        """Return the number of documents in `collection`. Raises StoreCorrupt where frames were lost."""
        self.require_complete()
        return self.ledger.count(collection)

    def journal(self, log: GenerationLog, /, *, after: int, limit: int) -> list[JournalEntry]:
        """Return up to `limit` entries behind `after`, read from `log`. Raises StoreCorrupt if one is lost."""
        page: list[JournalEntry] = []
        for block in self._blocks_from(log, after + 1):
            for entry in entries_of(block):
                if len(page) == limit:
                    return page
                if entry.sequence <= after:
                    continue
                # The first may cover a run that contains `after`.
                if entry.first > after + 1:
                    raise StoreCorrupt(what=f"the journal after sequence {after}")
                page.append(entry)
                after = entry.sequence
        # Entries may be lost behind the last frame that is known: a short page would pass for the journal's end.
        if self.holes and len(page) < limit and self.holes[-1].start >= (self._offsets[-1] if self._offsets else 0):
            raise StoreCorrupt(what=f"the journal after sequence {after}")
        return page

    def _blocks_from(self, log: GenerationLog, sequence: int) -> Iterator[FrameBlock]:
        first = max(0, bisect_right(self._firsts, sequence) - 1)
        for place in range(first, len(self._offsets)):
            block = log.frame_at(self._offsets[place])
            if block is None:
                raise StoreCorrupt(what=f"the journal after sequence {sequence - 1}")
            yield block

    def _bury(self, gone: HeldDocument[BodySpan] | None) -> None:
        if gone is not None:
            self.dead_bytes += gone.body.size


class LogView(NamedTuple):
    """A log and what is known of its generation."""

    log: GenerationLog
    contents: LogContents


def read_document(log: GenerationLog, ref: DocumentRef, held: HeldDocument[BodySpan], /) -> Document:
    """Return the document at `ref` from `log`. Raises StoreCorrupt where its body is damaged."""
    body = open_document(ref, held.revision, read_sealed(log, held.body))
    if body is None:
        raise StoreCorrupt(what=f"document {ref.collection}/{ref.key}")
    return Document(ref, held.revision, body)


def read_answer(log: GenerationLog, key: str, span: BodySpan, /) -> bytes:
    """Return the answer kept under an idempotency key from `log`. Raises StoreCorrupt if it is damaged."""
    answer = open_answer(key, read_sealed(log, span))
    if answer is None:
        raise StoreCorrupt(what="the stored answer of an idempotency key")
    return answer


def read_sealed(log: GenerationLog, span: BodySpan, /) -> bytes:
    """Return the bytes of a body with their checksum, damaged or not."""
    return log.read(span.at, CHECKSUM_BYTES + span.size)


def entries_of(block: FrameBlock, /) -> Iterator[JournalEntry]:
    """Walk the journal entries that a frame holds."""
    sequence = block.record.first - 1
    for kept in block.record.entries:
        sequence += kept.covers
        yield JournalEntry(
            sequence, kept.at, kept.action, DocumentRef(kept.collection, kept.key), kept.digest, kept.covers
        )
