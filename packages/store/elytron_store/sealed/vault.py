"""The open keys of one space: what seals and opens everything in it."""

from collections.abc import Iterable, Mapping

from elytron_core import canonical
from elytron_core.errors import SealBroken
from elytron_core.ids import SpaceId
from elytron_core.ports.store import Batch, Committed, Document, Idempotency, Put, Ref, Require
from elytron_store.sealed.cipher import DataKey, key_number, place
from elytron_store.sealed.records import GUARD


class Vault:
    """A space's data keys, unwrapped, with what the handle last saw of its seat and guard.

    `guard` is the guard's revision, 0 before the space's first batch. No call waits. Shows no key material.
    """

    def __init__(self, inner: SpaceId, /, *, seat: bytes, guard: int, keys: Mapping[int, DataKey]) -> None:
        self.inner = inner
        self.seat = seat
        self.guard = guard
        self.is_proven = guard > 0
        """True if the space was seen with its guard, so that an erasure cannot pass unseen."""
        self._keys = keys
        self._newest = keys[max(keys)]
        # The oldest key lives as long as the space, so requests are recognised across rotations.
        self._requests = keys[min(keys)].derive(b"requests")
        self._documents = place("document", inner)

    def __repr__(self) -> str:
        return f"Vault({self.inner!r}, data keys {sorted(self._keys)})"

    @property
    def newest(self) -> DataKey:
        """Return the data key that seals."""
        return self._newest

    def key(self, number: int, /) -> DataKey | None:
        """Return the data key `number`."""
        return self._keys.get(number)

    def knows(self, sealed: Iterable[bytes], /) -> bool:
        """Return whether the key of each of `sealed` is here."""
        return all(key_number(body) in self._keys for body in sealed)

    def seal(self, batch: Batch, /) -> Batch:
        """Return `batch` as the inner store may see it, with its place in the space's life guarded.

        The first batch of a space brings the guard; later ones, made without waiting for it, demand it.
        """
        puts = [Put(put.ref, self._seal(put.ref, put.expects + 1, put.body), put.expects) for put in batch.puts]
        requires = batch.requires
        if self.guard:
            requires = (*requires, Require(GUARD, self.guard))
        else:
            puts.append(self.guard_put())
            self.guard = 1
        return Batch(
            space=self.inner,
            at=batch.at,
            entries=batch.entries,
            puts=tuple(puts),
            deletes=batch.deletes,
            requires=requires,
            idempotency=None if batch.idempotency is None else self._seal_request(batch.idempotency),
            sealed=True,
            takes_back=batch.takes_back,
            is_import=batch.is_import,
        )

    def guard_put(self) -> Put:
        """Return the put that brings the guard or raises it."""
        return Put(GUARD, self._seal(GUARD, self.guard + 1, b""), self.guard)

    def open(self, document: Document, /) -> Document:
        """Return `document` with its body opened. Raises SealBroken."""
        ref, revision, sealed = document.ref, document.revision, document.body
        what = f"document {ref.collection}/{ref.key}"
        plain = self._key_of(sealed, what).open(sealed, self._document_place(ref, revision), what=what)
        return Document(ref, revision, plain)

    def open_answer(self, committed: Committed, request: Idempotency | None, /) -> Committed:
        """Return `committed` with the answer that was kept for `request`. Raises SealBroken."""
        if request is None:
            return committed
        answer = request.answer
        if committed.replayed:
            what = "the answer to a repeated request"
            where = self._answer_place(self._request_tag(request))
            answer = self._key_of(committed.answer, what).open(committed.answer, where, what=what)
        return Committed(committed.first, committed.last, replayed=committed.replayed, answer=answer)

    def blob_place(self, key: str, /) -> bytes:
        """Return what binds the blob `key` to its place."""
        return place("blob", self.inner, key)

    def _seal(self, ref: Ref, revision: int, body: bytes) -> bytes:
        return self._newest.seal(body, self._document_place(ref, revision))

    def _document_place(self, ref: Ref, revision: int) -> bytes:
        # Neither collections nor keys hold a slash or an at sign.
        return self._documents + f"{ref.collection}/{ref.key}@{revision}".encode()

    def _key_of(self, sealed: bytes, what: str) -> DataKey:
        key = self._keys.get(key_number(sealed))
        if key is None:
            raise SealBroken(what=what)
        return key

    def _seal_request(self, request: Idempotency) -> Idempotency:
        tag = self._request_tag(request)
        digest = canonical.tag(self._requests, "digest", request.key, request.digest, size=64)
        return Idempotency(tag, digest, self._newest.seal(request.answer, self._answer_place(tag)))

    def _request_tag(self, request: Idempotency) -> str:
        return canonical.tag(self._requests, "key", request.key, size=64)

    def _answer_place(self, tag: str) -> bytes:
        return place("answer", self.inner, tag)
