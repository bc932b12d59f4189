"""Plan of a group of batches of one space: the outcome of each, and the changes of all together."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from elytron_core.errors import Conflict, ElytronError, IdempotencyConflict
from elytron_core.ports.store import Batch, BatchKey, CommitReceipt, DocumentRef, JournalEntry, number_entries
from elytron_core.strict_json import frame_checksum
from elytron_store.group_commit import Outcome


class AnswerRecord(NamedTuple):
    """An idempotency record."""

    key: str
    digest: str
    answer: bytes
    first: int
    last: int
    at: int


class RevisionChange(NamedTuple):
    """A document that a group names: its revision before, and what is there afterwards.

    Revision 0 is absence. Without a body it is gone, or was only demanded.
    """

    ref: DocumentRef
    expects: int
    revision: int
    body: bytes | None


class StoredState(NamedTuple):
    """State of a space as stored: its head, and the things that a group names."""

    head: int
    revisions: Mapping[DocumentRef, int]
    answered: Mapping[str, AnswerRecord]


class GroupPlan:
    """Batches of one space, taken in order.

    Without a `stored` state each document is taken to be at the revision that the first batch to name it expects, and
    each key to be new; sequences count from the head then. The plan holds only if `changes` finds it so.
    """

    def __init__(self, space: str, batches: Sequence[Batch], /, *, stored: StoredState | None = None) -> None:
        self.space = space
        self.head = self.last = 0 if stored is None else stored.head
        self.outcomes: list[Outcome] = []
        self.entries: list[JournalEntry] = []
        self.records: dict[str, AnswerRecord] = {}
        self._stored = stored
        self._before: dict[DocumentRef, int] = {}
        self._after: dict[DocumentRef, tuple[int, bytes | None]] = {}
        for batch in batches:
            self._take(batch)

    def changes(self) -> Sequence[RevisionChange]:
        """Return each document that a batch names, once."""
        return [
            RevisionChange(ref, expects, *self._after.get(ref, (expects, None)))
            for ref, expects in self._before.items()
        ]

    def outcomes_behind(self, head: int, /) -> Sequence[Outcome]:
        """Return the outcomes with sequences behind `head`, from which they were counted."""
        return [
            CommitReceipt(head + outcome.first, head + outcome.last, outcome.replayed, outcome.answer)
            if isinstance(outcome, CommitReceipt)
            else outcome
            for outcome in self.outcomes
        ]

    def _take(self, batch: Batch) -> None:
        """Lay `batch` over those before; a refused one changes nothing."""
        try:
            self.outcomes.append(self._find_repeated(batch.idempotency) or self._lay(batch))
        except ElytronError as refused:
            self.outcomes.append(refused)

    def _find_repeated(self, once: BatchKey | None) -> CommitReceipt | None:
        if once is None:
            return None
        record = self.records.get(once.key)
        if record is None and self._stored is not None:
            record = self._stored.answered.get(once.key)
        if record is None:
            return None
        if record.digest != once.digest:
            raise IdempotencyConflict
        return CommitReceipt(record.first, record.last, replayed=True, answer=record.answer)

    def _lay(self, batch: Batch) -> CommitReceipt:
        for change in (*batch.puts, *batch.deletes):
            self._require(change.ref, change.expects)
        for demand in batch.requires:
            self._require(demand.ref, demand.revision)
        for put in batch.puts:
            self._after[put.ref] = put.expects + 1, put.body
        for delete in batch.deletes:
            self._after[delete.ref] = 0, None
        first = self.last + 1
        self.entries.extend(number_entries(batch, after=self.last))
        self.last = self.entries[-1].sequence
        once = batch.idempotency
        if once is None:
            return CommitReceipt(first, self.last)
        self.records[once.key] = AnswerRecord(once.key, once.digest, once.answer, first, self.last, batch.at)
        return CommitReceipt(first, self.last, answer=once.answer)

    def _require(self, ref: DocumentRef, expected: int) -> None:
        if ref in self._after:
            found = self._after[ref][0]
        else:
            assumed = expected if self._stored is None else self._stored.revisions.get(ref, 0)
            found = self._before.setdefault(ref, assumed)
        if found != expected:
            raise Conflict(what=f"document {ref.collection}/{ref.key}", expected=expected, found=found)


def row_checksum(*place: str | int, body: bytes = b"") -> bytes:
    """Return the checksum of a row at `place` with `body`."""
    return frame_checksum("\n".join(map(str, place)).encode(), body)


def entry_checksum(space: str, entry: JournalEntry, /) -> bytes:
    """Return the checksum of a journal entry. Its sequence is not in it: the server gives that, without a gap."""
    collection, key = entry.ref
    place = space, entry.at, entry.action.value, collection, key, entry.digest, entry.covers
    return row_checksum(*place)


def record_checksum(space: str, record: AnswerRecord, /) -> bytes:
    """Return the checksum of an idempotency record, without its sequences."""
    return row_checksum(space, record.key, record.digest, record.at, body=record.answer)
