"""The contents of a space in memory, as several engines hold them, and the batches that are laid over them.

`Body` is the bytes themselves (memory engine) or their place (file engine).
"""

from bisect import bisect_left, bisect_right, insort
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Generic, NamedTuple, TypeVar

from elytron_core import limits
from elytron_core.clock import Instant
from elytron_core.errors import Conflict, IdempotencyConflict
from elytron_core.ports.store import Batch, CommitReceipt, DocumentRef
from elytron_store.engine import DocumentPage

Body = TypeVar("Body")
_FEW = 32
"""Number of new keys that are inserted one by one; more are sorted in together."""


class OrderedKeys:
    """A set of keys in code point order, iterable from any point. Ascending keys cost nothing to add."""

    def __init__(self) -> None:
        self._keys: list[str] = []
        self._unsorted: list[str] = []

    def __len__(self) -> int:
        return len(self._keys) + len(self._unsorted)

    def add(self, key: str, /) -> None:
        """Add `key`, which is not there yet."""
        if not self._keys or key > self._keys[-1]:
            self._keys.append(key)
        else:
            self._unsorted.append(key)

    def remove(self, key: str, /) -> None:
        """Remove `key`, which is there."""
        keys = self._settled()
        del keys[bisect_left(keys, key)]

    def window(self, page: DocumentPage, /) -> Sequence[str]:
        """Return the keys of `page`: with its prefix, after its `after` in its direction."""
        _, prefix, after_key, limit, descending = page
        keys = self._settled()
        if descending:
            # Keys are hex digits, dots and dashes, so every key with the prefix is before prefix + "~".
            end_index = bisect_left(keys, prefix + "~") if prefix else len(keys)
            end_index = min(end_index, bisect_left(keys, after_key)) if after_key else end_index
            start_index = max(bisect_left(keys, prefix), end_index - limit)
            page_keys: Iterator[str] = reversed(keys[start_index:end_index])
        else:
            start_index = bisect_left(keys, prefix)
            start_index = max(start_index, bisect_right(keys, after_key)) if after_key else start_index
            page_keys = iter(keys[start_index : start_index + limit])
        # Ascending, the window may run past the last key with the prefix.
        return [key for key in page_keys if key.startswith(prefix)]

    def _settled(self) -> list[str]:
        if len(self._unsorted) > _FEW:
            self._keys.extend(self._unsorted)
            self._keys.sort()
        else:
            for key in self._unsorted:
                insort(self._keys, key)
        self._unsorted.clear()
        return self._keys


class LedgerDocument(NamedTuple, Generic[Body]):
    """A document's revision and body."""

    revision: int
    body: Body


@dataclass(frozen=True, slots=True)
class AnsweredRequest(Generic[Body]):
    """An idempotency record: its request and the answer to a repeat."""

    key: str
    digest: str
    answer: Body
    first: int
    last: int
    at: Instant


class SpaceLedger(Generic[Body]):
    """Documents in key order and answered requests of one space. The caller synchronises threads."""

    def __init__(self) -> None:
        self.last = 0
        self._documents: dict[DocumentRef, LedgerDocument[Body]] = {}
        self._keys: dict[str, OrderedKeys] = {}
        self._answered: dict[str, AnsweredRequest[Body]] = {}

    def __len__(self) -> int:
        return len(self._documents)

    def find(self, ref: DocumentRef, /) -> LedgerDocument[Body] | None:
        """Return the document at `ref`, None if there is none."""
        return self._documents.get(ref)

    def revision(self, ref: DocumentRef, /) -> int:
        """Return the revision of the document at `ref`, 0 if there is none."""
        document = self._documents.get(ref)
        return 0 if document is None else document.revision

    def items(self) -> Iterator[tuple[DocumentRef, LedgerDocument[Body]]]:
        """Iterate over all documents in no particular order."""
        return iter(self._documents.items())

    def window(self, page: DocumentPage, /) -> Sequence[DocumentRef]:
        """Return the refs of `page` in key order, as `Store.scan` requires."""
        keys = self._keys.get(page.collection)
        return [] if keys is None else [DocumentRef(page.collection, key) for key in keys.window(page)]

    def count(self, collection: str, /) -> int:
        """Return the number of documents in `collection`."""
        keys = self._keys.get(collection)
        return 0 if keys is None else len(keys)

    def put(self, ref: DocumentRef, document: LedgerDocument[Body], /) -> LedgerDocument[Body] | None:
        """Set the document at `ref`; return the previous one."""
        previous_document = self._documents.get(ref)
        if previous_document is None:
            self._keys.setdefault(ref.collection, OrderedKeys()).add(ref.key)
        self._documents[ref] = document
        return previous_document

    def remove(self, ref: DocumentRef, /) -> LedgerDocument[Body] | None:
        """Remove the document at `ref`; return the previous one."""
        previous_document = self._documents.pop(ref, None)
        if previous_document is not None:
            self._keys[ref.collection].remove(ref.key)
        return previous_document

    def answered(self) -> Iterator[AnsweredRequest[Body]]:
        """Iterate over the idempotency records, oldest first."""
        return iter(self._answered.values())

    def find_answered(self, key: str, /) -> AnsweredRequest[Body] | None:
        """Return the record of the idempotency key `key`."""
        return self._answered.get(key)

    def remember(self, answered_request: AnsweredRequest[Body], /) -> None:
        """Store an idempotency record."""
        self._answered[answered_request.key] = answered_request

    def drop(self, key: str, /) -> None:
        """Drop the record of the idempotency key `key`, which is there."""
        del self._answered[key]

    def forget_before(self, at: Instant, /) -> Sequence[AnsweredRequest[Body]]:
        """Drop and return the oldest idempotency records whose promised time has passed at `at`."""
        records: list[AnsweredRequest[Body]] = []
        for record in self._answered.values():
            if record.at + limits.IDEMPOTENCY_KEEP_MS >= at:
                break
            records.append(record)
        for record in records:
            del self._answered[record.key]
        return records


class LedgerStage(Generic[Body]):
    """A ledger overlaid with the batches that are about to be applied to it."""

    def __init__(self, ledger: SpaceLedger[Body], /) -> None:
        self.last = ledger.last
        self._ledger = ledger
        self._revisions: dict[DocumentRef, int] = {}
        self._answered: dict[str, AnsweredRequest[bytes]] = {}

    def find_repeated(self, batch: Batch, /) -> AnsweredRequest[Body] | AnsweredRequest[bytes] | None:
        """Return the record under the batch's idempotency key. Raises IdempotencyConflict for another request's."""
        if batch.idempotency is None:
            return None
        key = batch.idempotency.key
        record = self._answered.get(key) or self._ledger.find_answered(key)
        if record is not None and record.digest != batch.idempotency.digest:
            raise IdempotencyConflict
        return record

    def require_expected(self, batch: Batch, /) -> None:
        """Raise Conflict unless every put, delete and requirement of `batch` names the current revision."""
        expectations = [(change.ref, change.expects) for change in (*batch.puts, *batch.deletes)]
        expectations += [(demand.ref, demand.revision) for demand in batch.requires]
        for ref, expected_revision in expectations:
            staged_revision = self._revisions.get(ref)
            revision = self._ledger.revision(ref) if staged_revision is None else staged_revision
            if revision != expected_revision:
                raise Conflict(what=f"document {ref.collection}/{ref.key}", expected=expected_revision, found=revision)

    def lay(self, batch: Batch, /) -> CommitReceipt:
        """Overlay `batch` as the next in order; return its answer."""
        first_sequence, self.last = self.last + 1, self.last + sum(entry.covers for entry in batch.entries)
        for change in batch.puts:
            self._revisions[change.ref] = change.expects + 1
        for delete in batch.deletes:
            self._revisions[delete.ref] = 0
        if batch.idempotency is None:
            return CommitReceipt(first_sequence, self.last)
        key, digest, answer = batch.idempotency.key, batch.idempotency.digest, batch.idempotency.answer
        self._answered[key] = AnsweredRequest(key, digest, answer, first_sequence, self.last, batch.at)
        return CommitReceipt(first_sequence, self.last, answer=answer)
