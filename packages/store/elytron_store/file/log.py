"""The reading of a space's log, with what damage leaves of it, and the fold over its frames."""

from array import array
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from io import BytesIO, FileIO
from pathlib import Path
from typing import NamedTuple, Protocol, Self

from elytron_core.errors import StoreCorrupt, StoreUnavailable
from elytron_core.ids import SpaceId
from elytron_core.ports.store import Document, DocumentRef, JournalEntry
from elytron_store.engine import DocumentPage
from elytron_store.file.disk import read_up_to, while_reading
from elytron_store.file.frame import (
    CHECKSUM_BYTES,
    HEAD_BYTES,
    HEADER_BYTES,
    MAGIC,
    FrameBlock,
    LoggedAnswer,
    LoggedDocument,
    LogHeader,
    block_bodies,
    decode_block,
    decode_header,
    find_header,
    open_answer,
    open_document,
    record_bytes,
)
from elytron_store.ledger import AnsweredRequest, LedgerDocument, SpaceLedger
from elytron_store.manifest import is_folder

_GUESS_BYTES = 4096
"""Bytes read at once where a block is expected: most are shorter."""
_WALK_BYTES = 64 * 1024
"""Bytes read at once when frames are walked in sequence."""
_SEARCH_BYTES = 1024 * 1024
_HEADER_READS = 3
"""A mark that is being written at this moment may look damaged once."""
_RECORD_BYTES_MAX = 64 * 1024 * 1024
_SHIFT_BYTES = 4096
"""Maximum distance for finding a displaced frame, if the length of the log does not show how far it moved."""
_REALIGNMENTS = 32
"""Number of marks after damage that are tried at other places, which costs a checksum for each."""


@dataclass(frozen=True, slots=True)
class LogHole:
    """A part of the log without a recognisable frame."""

    start: int
    end: int


class ByteSource(Protocol):
    """Source of a log's bytes: a file, or memory."""

    def seek(self, offset: int, whence: int = 0, /) -> int: ...

    def read(self, size: int = -1, /) -> bytes | None: ...

    def close(self) -> None: ...


class GenerationLog:
    """One generation of a space's log, open for reading. It shows the same content even when a newer one replaces it.

    One that `realigns` also finds frames displaced by bytes inserted into the log or removed from it. It is for checks
    and repairs: a reader treats them as lost.
    """

    def __init__(self, file: ByteSource, header: LogHeader, /, *, realigns: bool = False) -> None:
        self.header = header
        self._file = file
        self._shifts = [0]
        self._tries = _REALIGNMENTS if realigns else 0
        # If both marks are lost, everything counts as acknowledged: a hole to repair is better than losing a commit.
        self.acknowledged = self.size() if header.acknowledged is None else header.acknowledged

    @classmethod
    def open(cls, path: Path, /, *, realigns: bool = False) -> Self | None:
        """Open the log at `path`, None if there is none. Raises StoreCorrupt if its header is lost."""
        with while_reading("a space's log"):
            try:
                file = FileIO(path, "r")
            except FileNotFoundError:
                # A space without a log is empty; a store without its folder is not, so the two are distinguished.
                if not is_folder(path.parent.parent):
                    raise StoreUnavailable(
                        "the folder of this file store was moved or removed: restore it, or open it at its new location"
                    ) from None
                return None
            header = _read_header(file)
            if header is None and realigns:
                header = _find_header(file)
        if header is None:
            file.close()
            raise StoreCorrupt(what=f"the header of space folder {path.parent.name[:16]!r}")
        return cls(file, header, realigns=realigns)

    def close(self) -> None:
        self._file.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def size(self) -> int:
        """Return the length of the file, which may contain more than is acknowledged, or after damage less."""
        with while_reading("a space's log"):
            return self._file.seek(0, 2)

    def read(self, at: int, size: int, /) -> bytes:
        """Return up to `size` bytes at offset `at`; fewer at the end of the file."""
        with while_reading("a space's log"):
            self._file.seek(at)
            return read_up_to(self._file.read, size)

    def block_at(self, at: int, /) -> FrameBlock | None:
        """Return the block at offset `at`, None if none is whole."""
        return self._block_in(self.read(at, _GUESS_BYTES), at)

    def frame_at(self, at: int, /) -> FrameBlock | None:
        """Return the block of the frame at `at`: its first copy or, if that is damaged, its second."""
        block = self.block_at(at)
        if block is not None and block.copy == 0:
            return block
        # The first copy's length is lost with it, so the second one has to be searched for.
        second_copy = self._find_block(at + 1, self.size())
        return second_copy if second_copy is not None and second_copy.offset == at else None

    def frames(self, start: int, end: int, /) -> Iterator[FrameBlock | LogHole]:
        """Iterate over the frames from offset `start` to `end`; unreadable parts between them come as holes."""
        offset, written_end = start, 0
        window, window_at = b"", start
        # The acknowledged end moves if the last frames turn out to be displaced.
        bytes_beyond_end = self.acknowledged - end
        while offset < (end := self.acknowledged - bytes_beyond_end):
            if offset + _GUESS_BYTES > window_at + len(window):
                window, window_at = self.read(offset, min(_WALK_BYTES, end - offset)), offset
            block = self._block_in(window[offset - window_at : offset - window_at + _GUESS_BYTES], offset)
            if block is None or block.copy != 0 or block.end > end:
                block = self._find_block(offset + 1, max(end, self.size()) if self._tries else end)
                end = self.acknowledged - bytes_beyond_end
            if block is None or block.end > end:
                yield LogHole(offset, end)
                return
            if block.offset - block.shift < written_end:  # a copy of bytes that came before
                yield LogHole(offset, max(offset + 1, block.end))
                offset = max(offset + 1, block.end)
                continue
            # If bytes were removed, a frame begins before the previous frame's original end.
            if block.offset > offset:
                yield LogHole(offset, block.offset)
            written_end = block.end - block.shift
            yield block
            offset = block.end

    def is_whole(self, block: FrameBlock, /) -> bool:
        """Return whether both copies of the block and all bodies of its frame are undamaged."""
        return self.has_both_copies(block) and not any(self.damaged(block))

    def has_both_copies(self, block: FrameBlock, /) -> bool:
        """Return whether both copies of the block are there."""
        second_at = block.offset + (block.bodies_at - block.offset) // 2
        copies = self.block_at(block.offset), self.block_at(second_at)
        return all(copy is not None and copy.offset == block.offset for copy in copies)

    def damaged(self, block: FrameBlock, /) -> Iterator[LoggedDocument | LoggedAnswer]:
        """Iterate over the documents and answers of `block` whose body is damaged."""
        for record, at in block_bodies(block):
            if not is_sound(record, self.read(at, CHECKSUM_BYTES + record.size)):
                yield record

    def _block_in(self, data: bytes, offset: int) -> FrameBlock | None:
        """Return the block at `offset`, which `data` begins with, possibly truncated."""
        length = record_bytes(data)
        # Otherwise a damaged length field would cause a read of gigabytes.
        if length is None or length > _RECORD_BYTES_MAX:
            return None
        if HEAD_BYTES + length > len(data):
            data = self.read(offset, HEAD_BYTES + length)
        for shift in self._shifts:
            block = decode_block(data, salt=self.header.salt, at=offset - shift)
            if block is not None:
                return block.moved(shift)
        return None

    def _realigned(self, offset: int) -> FrameBlock | None:
        """Return the block at `offset` that was written for another place, as its checksum shows."""
        data = self.read(offset, _GUESS_BYTES)
        length = record_bytes(data)
        if not self._tries or length is None or HEAD_BYTES + length > len(data):
            return None
        self._tries -= 1
        # Whatever moved the end of the log moved the frames before it equally, back to the damage.
        at_end = self.size() - (self.header.acknowledged or self.size())
        for shift in (at_end, *range(-_SHIFT_BYTES, _SHIFT_BYTES)):
            block = decode_block(data, salt=self.header.salt, at=offset - shift)
            if block is not None:
                self._shifts.insert(0, shift)
                if self.header.acknowledged is not None:
                    self.acknowledged = self.header.acknowledged + shift
                return block.moved(shift)
        return None

    def _find_block(self, start: int, end: int) -> FrameBlock | None:
        """Return the first whole block at or after `start`."""
        offset = start
        while offset < end:
            window = self.read(offset, min(_SEARCH_BYTES, end - offset))
            magic_index = window.find(MAGIC)
            while magic_index >= 0:
                block = self.block_at(offset + magic_index) or self._realigned(offset + magic_index)
                if block is not None:
                    return block
                magic_index = window.find(MAGIC, magic_index + 1)
            if len(window) < len(MAGIC):
                return None
            # Windows overlap, since the mark may begin in one and end in the next.
            offset += len(window) - len(MAGIC) + 1
        return None


def _read_header(file: FileIO) -> LogHeader | None:
    header: LogHeader | None = None
    for _ in range(_HEADER_READS):
        file.seek(0)
        header = decode_header(file.read(HEADER_BYTES) or b"")
        if header is not None and header.acknowledged is not None:
            break
    return header


def _find_header(file: FileIO) -> LogHeader | None:
    file.seek(0)
    return find_header(file.read(HEADER_BYTES + _SHIFT_BYTES) or b"")


def is_sound(record: LoggedDocument | LoggedAnswer, sealed_bytes: bytes, /) -> bool:
    """Return whether `sealed_bytes` is the whole and undamaged body of `record`."""
    if len(sealed_bytes) != CHECKSUM_BYTES + record.size:
        return False
    match record:
        case LoggedDocument():
            ref = DocumentRef(record.collection, record.key)
            return open_document(ref, record.revision, sealed_bytes) is not None
        case LoggedAnswer():
            return open_answer(record.key, sealed_bytes) is not None


_LEAST_DEAD_BYTES = 1024 * 1024


class BodySpan(NamedTuple):
    """Place of a sealed body: offset and length of the bytes without their checksum."""

    at: int
    size: int


class LogContents:
    """The state from a log's acknowledged frames. The caller synchronises threads."""

    def __init__(self, salt: bytes, /) -> None:
        self.salt = salt
        self.end = HEADER_BYTES
        self.ledger = SpaceLedger[BodySpan]()
        self.holes: list[LogHole] = []
        self.dead_bytes = 0
        self.entries = 0
        # Packed numbers: as objects, the offsets of the frames would take several times the memory.
        self._firsts = array("Q")
        self._offsets = array("Q")

    @property
    def wants_compaction(self) -> bool:
        """Return whether most of the log consists of unreachable bodies."""
        # A rewrite reads the whole log, so at least half of it must be garbage. One with holes is left to a repair,
        # which preserves them.
        return not self.holes and self.dead_bytes > max(_LEAST_DEAD_BYTES, self.end // 2)

    def catch_up(self, log: GenerationLog, /) -> None:
        """Apply what `log`, which is of this generation, acknowledged since the last call."""
        for block in log.frames(self.end, log.acknowledged):
            if isinstance(block, LogHole):
                self.holes.append(block)
                self.end = block.end
            else:
                self.apply(block)

    def apply(self, block: FrameBlock, /) -> None:
        """Apply the next frame, that of `block`."""
        record = block.record
        if record.entries:
            self._firsts.append(record.first)
            self._offsets.append(block.offset)
            self.ledger.last = record.last
            self.entries += len(record.entries)
        for body, body_offset in block_bodies(block):
            match body:
                case LoggedDocument():
                    document = LedgerDocument(body.revision, BodySpan(body_offset, body.size))
                    self._count_garbage(self.ledger.put(DocumentRef(body.collection, body.key), document))
                case LoggedAnswer():
                    # By the log's own times, without a clock: every reader of the log drops the same records.
                    for request in self.ledger.forget_before(body.at):
                        self.dead_bytes += request.answer.size
                    span = BodySpan(body_offset, body.size)
                    self.ledger.remember(AnsweredRequest(body.key, body.digest, span, body.first, body.last, body.at))
        for ref in record.deletes:
            self._count_garbage(self.ledger.remove(ref))
        self.end = block.end

    def _require_known(self, ref: DocumentRef, document: LedgerDocument[BodySpan] | None) -> None:
        """Raise StoreCorrupt if a lost frame may have contained something newer for `ref`."""
        # A document written after the last hole is certainly the newest.
        if self.holes and (document is None or document.body.at < self.holes[-1].start):
            raise StoreCorrupt(what=f"the log with document {ref.collection}/{ref.key}")

    def require_complete(self) -> None:
        """Raise StoreCorrupt if frames were lost."""
        if self.holes:
            raise StoreCorrupt(what="the log of a space")

    def find(self, refs: Sequence[DocumentRef], /) -> list[tuple[DocumentRef, LedgerDocument[BodySpan] | None]]:
        """Return the documents at `refs`, in that order. Raises StoreCorrupt if a newer version may be lost."""
        documents = [(ref, self.ledger.find(ref)) for ref in refs]
        for ref, document in documents:
            self._require_known(ref, document)
        return documents

    def scan(self, page: DocumentPage, /) -> list[tuple[DocumentRef, LedgerDocument[BodySpan]]]:
        """Return the documents of `page`, in key order. Raises StoreCorrupt if frames were lost."""
        self.require_complete()
        return [(ref, document) for ref in self.ledger.window(page) if (document := self.ledger.find(ref)) is not None]

    def count(self, collection: str, /) -> int:
        """Return the number of documents in `collection`. Raises StoreCorrupt if frames were lost."""
        self.require_complete()
        return self.ledger.count(collection)

    def journal(self, log: GenerationLog, /, *, after: int, limit: int) -> list[JournalEntry]:
        """Return up to `limit` entries after `after`, read from `log`. Raises StoreCorrupt if one is lost."""
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
        # Entries may be lost after the last known frame: a short page would look like the journal's end.
        if self.holes and len(page) < limit and self.holes[-1].start >= (self._offsets[-1] if self._offsets else 0):
            raise StoreCorrupt(what=f"the journal after sequence {after}")
        return page

    def _blocks_from(self, log: GenerationLog, sequence: int) -> Iterator[FrameBlock]:
        first_block = max(0, bisect_right(self._firsts, sequence) - 1)
        for block_number in range(first_block, len(self._offsets)):
            block = log.frame_at(self._offsets[block_number])
            if block is None:
                raise StoreCorrupt(what=f"the journal after sequence {sequence - 1}")
            yield block

    def _count_garbage(self, document: LedgerDocument[BodySpan] | None) -> None:
        if document is not None:
            self.dead_bytes += document.body.size


class LogView(NamedTuple):
    """A log and the state of its generation. A space without a log is an empty view."""

    log: GenerationLog
    contents: LogContents

    @classmethod
    def empty(cls) -> Self:
        """Return the view of a space without a log."""
        header = LogHeader(b"", SpaceId(""), HEADER_BYTES, sound=True)
        return cls(GenerationLog(BytesIO(), header), LogContents(b""))

    @property
    def is_empty(self) -> bool:
        return not self.contents.salt


def read_document(log: GenerationLog, ref: DocumentRef, document: LedgerDocument[BodySpan], /) -> Document:
    """Return the document at `ref` from `log`. Raises StoreCorrupt if its body is damaged."""
    body = open_document(ref, document.revision, read_sealed(log, document.body))
    if body is None:
        raise StoreCorrupt(what=f"document {ref.collection}/{ref.key}")
    return Document(ref, document.revision, body)


def read_answer(log: GenerationLog, key: str, span: BodySpan, /) -> bytes:
    """Return the answer stored under an idempotency key from `log`. Raises StoreCorrupt if it is damaged."""
    answer = open_answer(key, read_sealed(log, span))
    if answer is None:
        raise StoreCorrupt(what="the stored answer of an idempotency key")
    return answer


def read_sealed(log: GenerationLog, span: BodySpan, /) -> bytes:
    """Return the bytes of a body with their checksum, damaged or not."""
    return log.read(span.at, CHECKSUM_BYTES + span.size)


def entries_of(block: FrameBlock, /) -> Iterator[JournalEntry]:
    """Iterate over the journal entries in a frame."""
    sequence = block.record.first - 1
    for entry in block.record.entries:
        sequence += entry.covers
        yield JournalEntry(
            sequence, entry.at, entry.action, DocumentRef(entry.collection, entry.key), entry.digest, entry.covers
        )
