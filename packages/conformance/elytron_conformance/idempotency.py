"""Claims about idempotency keys: applied once, answered alike on repetition, and bound to one request."""

import pytest

from elytron_conformance.examples import AT, Claims, batch, documents, fact, journal, one, put, sequences
from elytron_core import limits
from elytron_core.clock import Instant
from elytron_core.errors import Conflict, IdempotencyConflict
from elytron_core.ports.store import BatchKey, CommitReceipt, Document, PutChange, Store

ONCE = BatchKey(key="request 1", digest="d1", answer=b"\x00answer\xff")
OTHER = BatchKey(key="request 1", digest="d2", answer=b"other")
FIRST = batch(PutChange(fact(1), b"one", 0), PutChange(fact(2), b"two", 0), idempotency=ONCE)


class IdempotencyClaims(Claims):
    """Claims about a batch with an idempotency key."""

    async def test_a_repeat_is_answered_alike_and_changes_nothing(self, store: Store) -> None:
        await put(store, fact(9))
        assert await store.commit(FIRST) == CommitReceipt(2, 3, answer=ONCE.answer)
        before = await documents(store), await journal(store)
        for _ in range(2):
            assert await store.commit(FIRST) == CommitReceipt(2, 3, replayed=True, answer=ONCE.answer)
        assert (await documents(store), await journal(store)) == before

    async def test_a_repeat_is_answered_after_the_documents_moved_on(self, store: Store) -> None:
        await store.commit(FIRST)
        await put(store, fact(1), b"newer", expects=1)
        assert await store.commit(FIRST) == CommitReceipt(1, 2, replayed=True, answer=ONCE.answer)
        assert await one(store, fact(1)) == Document(fact(1), 2, b"newer")

    async def test_a_repeat_gives_the_answer_kept_and_not_its_own(self, store: Store) -> None:
        await store.commit(FIRST)
        again = BatchKey(key=ONCE.key, digest=ONCE.digest, answer=b"made anew")
        repeated = await store.commit(batch(PutChange(fact(7), b"", 0), idempotency=again))
        assert repeated == CommitReceipt(1, 2, replayed=True, answer=ONCE.answer)
        assert await one(store, fact(7)) is None

    async def test_the_same_key_for_another_request_conflicts(self, store: Store) -> None:
        await store.commit(FIRST)
        before = await journal(store)
        with pytest.raises(IdempotencyConflict):
            await store.commit(batch(PutChange(fact(3), b"three", 0), idempotency=OTHER))
        assert await journal(store) == before
        assert await one(store, fact(3)) is None

    async def test_a_refused_batch_leaves_its_key_free(self, store: Store) -> None:
        with pytest.raises(Conflict):
            await store.commit(batch(PutChange(fact(1), b"one", 5), idempotency=OTHER))
        assert await store.commit(FIRST) == CommitReceipt(1, 2, answer=ONCE.answer)

    async def test_a_key_is_taken_letter_by_letter(self, store: Store) -> None:
        keys = ("key", "Key", "key2", "%", "k" * limits.IDEMPOTENCY_KEY_CHARS, "\u00e9", "e\u0301")
        for number, key in enumerate(keys):
            once = BatchKey(key=key, digest="d", answer=key.encode())
            committed = await store.commit(batch(PutChange(fact(number), b"", 0), idempotency=once))
            assert committed == CommitReceipt(number + 1, number + 1, answer=key.encode())

    async def test_an_empty_answer_is_kept_as_such(self, store: Store) -> None:
        once = BatchKey(key="k", digest="", answer=b"")
        await store.commit(batch(PutChange(fact(1), b"", 0), idempotency=once))
        assert await store.commit(batch(PutChange(fact(1), b"", 0), idempotency=once)) == CommitReceipt(
            1, 1, replayed=True
        )

    async def test_a_record_lives_as_long_as_promised(self, store: Store) -> None:
        await store.commit(FIRST)
        last = Instant(AT + limits.IDEMPOTENCY_KEEP_MS)
        await store.commit(batch(PutChange(fact(3), b"", 0), at=last))
        assert await store.commit(FIRST) == CommitReceipt(1, 2, replayed=True, answer=ONCE.answer)

    async def test_an_old_record_may_go_but_does_no_harm(self, store: Store) -> None:
        await store.commit(FIRST)
        later = Instant(AT + limits.IDEMPOTENCY_KEEP_MS + 1)
        await store.commit(batch(PutChange(fact(3), b"", 0), at=later))
        # If the record has expired, the repeat conflicts with its own documents; otherwise it gets the recorded
        # answer. Either way it is not applied twice.
        try:
            assert await store.commit(FIRST) == CommitReceipt(1, 2, replayed=True, answer=ONCE.answer)
        except IdempotencyConflict:
            raise
        except Conflict:
            pass
        assert await sequences(store) == [1, 2, 3]
