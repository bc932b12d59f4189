"""A handle's map of one generation of a space's log: the places of all bodies, without the bodies."""

from array import array
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from elytron_core.errors import StoreCorrupt
from elytron_core.ports.store import Document, JournalEntry, Ref
from elytron_store.engine import Page
from elytron_store.file import frame
from elytron_store.file.frame import Block, KeptAnswer, KeptDocument
from elytron_store.file.log import Hole, Log
from elytron_store.ledger import Answered, Held, Ledger

_LEAST_DEAD_BYTES = 1024 * 1024


class Span(NamedTuple):
    """Place of a sealed body: offset and length of the bytes without their checksum."""

    at: int
    size: int


class Contents:
    """The fold over a log's acknowledged frames. The caller keeps threads apart."""

    def __init__(self, salt: bytes, /) -> None:
        self.salt = salt
        self.end = frame.HEADER_BYTES
        self.ledger = Ledger[Span]()
        self.holes: list[Hole] = []
        self.dead_bytes = 0
        self.entries = 0
        self._firsts = array("Q")
        self._offsets = array("Q")

    @property
    def wants_compaction(self) -> bool:
        """Return whether most of the log consists of unreachable bodies."""
        return not self.holes and self.dead_bytes > max(_LEAST_DEAD_BYTES, self.end // 2)

    def catch_up(self, log: Log, /) -> None:
        """Take in what `log`, which is of this generation, acknowledged since the last time."""
        for found in log.frames(self.end, log.acknowledged):
            if isinstance(found, Hole):
                self.holes.append(found)
                self.end = found.end
            else:
                self.apply(found)

    def apply(self, block: Block, /) -> None:
        """Take in the frame of `block`, the next one."""
        record = block.record
        if record.entries:
            self._firsts.append(record.first)
            self._offsets.append(block.offset)
            self.ledger.last = record.last
            self.entries += len(record.entries)
        for kept, at in frame.bodies(block):
            match kept:
                case KeptDocument():
                    held = Held(kept.revision, Span(at, kept.size))
                    self._bury(self.ledger.put(Ref(kept.collection, kept.key), held))
                case KeptAnswer():
                    for gone in self.ledger.forget_before(kept.at):
                        self.dead_bytes += gone.answer.size
                    span = Span(at, kept.size)
                    self.ledger.remember(Answered(kept.key, kept.digest, span, kept.first, kept.last, kept.at))
        for ref in record.deletes:
            self._bury(self.ledger.remove(ref))
        self.end = block.end

    def _require_known(self, ref: Ref, held: Held[Span] | None) -> None:
        """Raise StoreCorrupt where a lost frame may have said something newer of `ref`."""
        if self.holes and (held is None or held.body.at < self.holes[-1].start):
            raise StoreCorrupt(what=f"the log behind document {ref.collection}/{ref.key}")

    def require_complete(self) -> None:
        """Raise StoreCorrupt where frames were lost."""
        if self.holes:
            raise StoreCorrupt(what="the log of a space")

    def find(self, refs: Sequence[Ref], /) -> list[tuple[Ref, Held[Span] | None]]:
        """Return what is held at `refs`, in that order. Raises StoreCorrupt if a newer one may be lost."""
        found = [(ref, self.ledger.find(ref)) for ref in refs]
        for ref, held in found:
            self._require_known(ref, held)
        return found

    def scan(self, page: Page, /) -> list[tuple[Ref, Held[Span]]]:
        """Return what is held of `page`, in key order. Raises StoreCorrupt where frames were lost."""
        self.require_complete()
        return [(ref, held) for ref in self.ledger.window(page) if (held := self.ledger.find(ref)) is not None]

    def journal(self, log: Log, /, *, after: int, limit: int) -> list[JournalEntry]:
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
                    raise StoreCorrupt(what=f"the journal behind sequence {after}")
                page.append(entry)
                after = entry.sequence
        if self.holes and len(page) < limit and self.holes[-1].start >= (self._offsets[-1] if self._offsets else 0):
            raise StoreCorrupt(what=f"the journal behind sequence {after}")
        return page

    def _blocks_from(self, log: Log, sequence: int) -> Iterator[Block]:
        first = max(0, bisect_right(self._firsts, sequence) - 1)
        for place in range(first, len(self._offsets)):
            block = log.frame_at(self._offsets[place])
            if block is None:
                raise StoreCorrupt(what=f"the journal behind sequence {sequence - 1}")
            yield block

    def _bury(self, gone: Held[Span] | None) -> None:
        if gone is not None:
            self.dead_bytes += gone.body.size


class View(NamedTuple):
    """A log and what is known of its generation."""

    log: Log
    contents: Contents


def read_document(log: Log, ref: Ref, held: Held[Span], /) -> Document:
    """Return the document at `ref` from `log`. Raises StoreCorrupt where its body is damaged."""
    body = frame.open_document(ref, held.revision, read_sealed(log, held.body))
    if body is None:
        raise StoreCorrupt(what=f"document {ref.collection}/{ref.key}")
    return Document(ref, held.revision, body)


def read_answer(log: Log, key: str, span: Span, /) -> bytes:
    """Return the answer kept under an idempotency key from `log`. Raises StoreCorrupt if it is damaged."""
    answer = frame.open_answer(key, read_sealed(log, span))
    if answer is None:
        raise StoreCorrupt(what="the answer kept for an idempotency key")
    return answer


def read_sealed(log: Log, span: Span, /) -> bytes:
    """Return the bytes of a body with their checksum, damaged or not."""
    return log.read(span.at, frame.CHECKSUM_BYTES + span.size)


def entries_of(block: Block, /) -> Iterator[JournalEntry]:
    """Walk the journal entries that a frame holds."""
    sequence = block.record.first - 1
    for kept in block.record.entries:
        sequence += kept.covers
        yield JournalEntry(sequence, kept.at, kept.action, Ref(kept.collection, kept.key), kept.digest, kept.covers)
