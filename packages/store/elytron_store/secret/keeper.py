"""A user's secret over its space: made, opened, closed, changed. No call returns, logs or stores the secret itself."""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Final

from elytron_core.clock import Instant
from elytron_core.errors import (
    Conflict,
    NotFound,
    RateLimited,
    SealBroken,
    SealError,
    SecretRefused,
    SpaceIncomplete,
)
from elytron_core.ids import IdSource, SpaceId
from elytron_core.ports.store import (
    DeleteChange,
    Document,
    ErasureTarget,
    PutChange,
    Store,
    scan_documents,
    scan_entries,
)
from elytron_core.text.recovery_words import entropy_of
from elytron_store import limits
from elytron_store.sealed.cipher import DataKey
from elytron_store.sealed.keyring import KeyWrapping
from elytron_store.sealed.providers import LocalKeys
from elytron_store.sealed.spaces import SealedSpaces
from elytron_store.secret.derivation.user_key import (
    derive_key,
    require_passphrase,
    terms_of_passphrase,
    terms_of_words,
)
from elytron_store.secret.holds import HoldRenewal, erase_hold, fresh_until
from elytron_store.secret.inspection import erase_redrawn
from elytron_store.secret.records import (
    ATTEMPTS,
    GRANT,
    RECORD,
    SEAT,
    USER_KEY,
    AttemptCount,
    DerivationTerms,
    SeatRenewal,
    SeatState,
    SecretKind,
    SecretSeat,
    fresh_inner,
    secret_batch,
)
from elytron_store.secret.sessions import SecretSession, incomplete_space
from elytron_store.secret.space_keys import FixedKeyring
from elytron_store.secret.store import SecretStore

SpaceCopier = Callable[[Store, Store, SpaceId], Awaitable[object]]
"""Copies a plain space of a store, whole and compared, into the sealed spaces."""
_TRIES: Final = 32
_ATTEMPTS: Final = limits.SECRET_ATTEMPTS
_PERIOD: Final = "quarter of an hour"


@dataclass(frozen=True, slots=True)
class UserSecret:
    """A user's words or passphrase as given. Shows neither."""

    kind: SecretKind
    text: str = field(repr=False)

    def require_form(self, *, is_new: bool) -> None:
        """Raise WordsInvalid or InvalidInput for what cannot be a secret; neither repeats it."""
        if self.kind is SecretKind.WORDS:
            entropy_of(self.text)
        elif is_new:
            require_passphrase(self.text)

    def fresh_terms(self) -> DerivationTerms:
        """Return new terms by which a key is derived of it."""
        return terms_of_words() if self.kind is SecretKind.WORDS else terms_of_passphrase()


@dataclass(frozen=True, slots=True)
class PlainContents:
    """Names under which a plain space may hold something, as its journal need not name all."""

    collections: tuple[str, ...]
    blobs: tuple[str, ...]
    with_blobs: frozenset[str]
    """Collections whose documents have a blob of the same key."""
    redrawn: tuple[str, ...] = ()
    """Collections with a key of their own, which are made again when one is missing."""


class SecretKeeper:
    """The secrets of the spaces of a store."""

    def __init__(self, store: SecretStore, /, *, ids: IdSource, contents: PlainContents) -> None:
        self.store = store
        self._inner = store.inner
        self._ids = ids
        self._clock = store.clock
        self._contents = contents
        # A derivation takes much memory: one at a time.
        self._deriving = asyncio.Lock()

    async def seat(self, space: SpaceId, /) -> SecretSeat | None:
        """Return the seat of `space`, None if it is under no secret."""
        found = await self.store.settled_seat(space)
        return None if found is None or found[0].state is SeatState.DESTROYED else found[0]

    async def seal(self, space: SpaceId, secret: UserSecret, /, *, until: Instant, copy: SpaceCopier) -> SecretSession:
        """Put `space` under `secret`, with all that it holds, and return its open session.

        Its plain bytes are gone when this returns. Cut short, the space is plain as before or sealed, never neither: a
        repeat goes on. Raises Conflict if it is under a secret, WordsInvalid, InvalidInput, SpaceInUse.
        """
        secret.require_form(is_new=True)
        key = await self._derive(secret, terms := secret.fresh_terms())
        while (found := await self.store.seats.read(space)) is not None:
            seat, revision = found
            if seat.state is not SeatState.MAKING:
                raise Conflict(what=f"the secret of space {space!r}", expected=0, found=revision)
            await self.store.abandon(space, seat, revision)
        inner = fresh_inner()
        wrapped = await self._wrapping(space, key).fresh(inner, 1)
        seat = SecretSeat(
            state=SeatState.MAKING,
            inner=inner,
            terms=terms,
            keys=(wrapped,),
            made_at=self._clock.now(),
            until=fresh_until(self._clock),
            is_swept=False,
        )
        await self._inner.commit(secret_batch(space, self._clock, PutChange(SEAT, seat.to_bytes(), 0)))
        keys = {1: await self._wrapping(space, key).open(inner, wrapped)}
        try:
            async with HoldRenewal(self._inner, inner, clock=self._clock).kept():
                await self._fill(self._inner, space, inner, keys, copy)
                await self._erase_redrawn(inner)
            seat = seat.model_copy(update={"state": SeatState.SEALED, "until": Instant(0)})
            await self._inner.commit(secret_batch(space, self._clock, PutChange(SEAT, seat.to_bytes(), 1)))
        except BaseException:
            await asyncio.shield(self._undo(space, inner))
            raise
        self.store.forget(space)
        await self.sweep(space)
        session = SecretSession(inner, seat.generation, self._clock.now(), until, keys)
        self.store.sessions.begin(space, session)
        return session

    async def unlock(self, space: SpaceId, secret: UserSecret, /, *, until: Instant) -> SecretSession:
        """Open `space` in this process until a moment.

        Raises NotFound if it is under no secret, SecretRefused, WordsInvalid, RateLimited after too many in vain.
        """
        seat, keys, _ = await self._opened(space, secret)
        session = SecretSession(SpaceId(seat.inner), seat.generation, self._clock.now(), until, keys)
        self.store.sessions.begin(space, session)
        await self.sweep(space)
        return session

    async def lock(self, space: SpaceId, /) -> None:
        """Close `space` in every process, and end its grant. Raises NotFound if it is under no secret."""
        self.store.forget(space)
        found = await self.store.settled_seat(space)
        if found is not None and found[0].state is SeatState.RENEWING:
            await self.store.abandon(space, *found)
        await self._move_seat(space, lambda seat: seat.model_copy(update={"generation": seat.generation + 1}))
        await self._inner.erase(ErasureTarget(space=space, at=self._clock.now(), refs=(GRANT,)))
        self.store.forget(space)
        await self.sweep(space)

    async def change(self, space: SpaceId, secret: UserSecret, new: UserSecret, /) -> None:
        """Put the data keys of `space` under another secret; nothing else is sealed again.

        Sessions and grants of before are over, in this process alone the session goes on. The keys under the former
        secret are physically gone when this returns. Raises as `unlock`, InvalidInput.
        """
        new.require_form(is_new=True)
        _, _, former = await self._opened(space, secret)
        terms = new.fresh_terms()
        wrapping, old = self._wrapping(space, await self._derive(new, terms)), self._wrapping(space, former)
        found = await self.store.seats.read(space)
        if found is None:
            raise NotFound(what="secret", name=space)
        seat, revision = found
        renewed = tuple([await wrapping.take_over(seat.inner, key, old) for key in seat.keys])
        moved = seat.model_copy(
            update={"terms": terms, "keys": renewed, "generation": seat.generation + 1, "is_swept": False}
        )
        await self._inner.commit(secret_batch(space, self._clock, PutChange(SEAT, moved.to_bytes(), revision)))
        session = self.store.sessions.of(space)
        if session is not None:
            self.store.sessions.begin(space, replace(session, generation=moved.generation))
        await self._inner.erase(ErasureTarget(space=space, at=self._clock.now(), refs=(GRANT,)))
        await self.sweep(space)

    async def rotate(self, space: SpaceId, secret: UserSecret, /, *, copy: SpaceCopier) -> None:
        """Seal all of `space` again under a new data key; the older ones, what they sealed and the grant are erased.

        Calls are refused meanwhile. Cut short, the space is as before, or renewed. Raises as `unlock`, SpaceInUse.
        """
        await self.required_seat(space)
        await self.sweep(space)
        seat, keys, key = await self._opened(space, secret)
        inner, wrapping = fresh_inner(), self._wrapping(space, key)
        renewal = SeatRenewal(inner=inner, keys=(await wrapping.fresh(inner, 1),))
        put = {"state": SeatState.RENEWING, "renewal": renewal, "until": fresh_until(self._clock)}
        revision = await self._revision_of(space, seat)
        seat = seat.model_copy(update=put)
        await self._inner.commit(secret_batch(space, self._clock, PutChange(SEAT, seat.to_bytes(), revision)))
        newer = {1: await wrapping.open(inner, renewal.keys[0])}
        source = FixedKeyring(self._inner, SpaceId(seat.inner), keys)
        try:
            async with HoldRenewal(self._inner, inner, clock=self._clock).kept():
                await source.raise_guard(self._clock)
                await self._fill(SealedSpaces(self._inner, source, clock=self._clock), space, inner, newer, copy)
                await self._erase_redrawn(inner)
            seat = seat.renewed()
            await self._inner.commit(secret_batch(space, self._clock, PutChange(SEAT, seat.to_bytes(), revision + 1)))
        except BaseException:
            await asyncio.shield(self._undo(space, inner))
            raise
        session = self.store.sessions.of(space)
        self.store.forget(space)
        if session is not None:
            renewed = replace(session, inner=inner, generation=seat.generation, keys=newer)
            self.store.sessions.begin(space, renewed)
        await self._inner.erase(ErasureTarget(space=space, at=self._clock.now(), refs=(GRANT,)))
        await self.sweep(space)

    async def sweep(self, space: SpaceId, /) -> None:
        """Erase the plain bytes that a sealing or a change left in `space`, if it did not come to that."""
        found = await self.store.seats.read(space)
        if found is None or found[0].state is not SeatState.SEALED or found[0].is_swept:
            return
        refs = [RECORD]
        collections = dict.fromkeys(self._contents.collections)
        async for entry in scan_entries(self._inner, space):
            collections[entry.ref.collection] = None
        for collection in collections:
            if collection != SEAT.collection:
                refs += [document.ref async for document in scan_documents(self._inner, space, collection)]
        blobs = [ref.key for ref in refs if ref.collection in self._contents.with_blobs]
        erased = ErasureTarget(
            space=space, at=self._clock.now(), refs=tuple(refs), blobs=(*self._contents.blobs, *blobs)
        )
        await self._inner.erase(erased)
        await erase_hold(self._inner, SpaceId(found[0].inner), at=self._clock.now())
        if former := found[0].former:
            await self.store.erase_inner(SpaceId(former))
        with suppress(NotFound):
            await self._move_seat(space, lambda seat: seat.model_copy(update={"is_swept": True, "former": ""}))

    async def look(self) -> list[SpaceId]:
        """Let go of the spaces whose time is over, or that another process locked, and return them."""
        gone: list[SpaceId] = []
        for space in self.store.sessions:
            with suppress(SealError):
                found = await self.store.seats.read(space)
                if found is not None:
                    with suppress(SpaceIncomplete):  # it is sealed again just now
                        self.store.seats.require(space, found[0])
                    continue
            self.store.forget(space)
            gone.append(space)
        return gone

    async def _fill(
        self, source: Store, space: SpaceId, inner: SpaceId, keys: dict[int, DataKey], copy: SpaceCopier
    ) -> None:
        (record,) = await source.get(space, (RECORD,))
        if record is None:
            return  # it never held anything
        keyring = FixedKeyring(self._inner, inner, keys)
        await copy(source, SealedSpaces(self._inner, keyring, clock=self._clock), space)

    async def _erase_redrawn(self, inner: SpaceId) -> None:
        # Their own key may have been seen, in the plain space or under the former data key.
        await erase_redrawn(self._inner, inner, self._contents.redrawn, at=self._clock.now())

    async def _undo(self, space: SpaceId, inner: SpaceId) -> None:
        found = await self.store.seats.read(space)
        if found is not None and found[0].filled == inner:
            await self.store.abandon(space, found[0], found[1])
        elif found is None or found[0].inner != inner:
            await self.store.erase_inner(inner)

    async def _opened(self, space: SpaceId, secret: UserSecret) -> tuple[SecretSeat, dict[int, DataKey], bytes]:
        """Return the seat of `space`, its data keys, and the key of `secret`, which opened them."""
        secret.require_form(is_new=False)
        seat = await self.required_seat(space)
        await self._count_attempt(space)
        assert seat.terms is not None
        if seat.kind is not secret.kind:
            raise SecretRefused
        key = await self._derive(secret, seat.terms)
        wrapping = self._wrapping(space, key)
        try:
            keys = {each.number: await wrapping.open(seat.inner, each) for each in seat.keys}
        except SealBroken:
            raise SecretRefused from None
        await self._forgive_attempts(space)
        return seat, keys, key

    async def required_seat(self, space: SpaceId, /) -> SecretSeat:
        """Return the seat of `space`. Raises NotFound, SpaceIncomplete while it is sealed for the first time."""
        seat = await self.seat(space)
        if seat is None:
            raise NotFound(what="secret", name=space)
        if seat.filled:
            raise incomplete_space(space)
        return seat

    async def _revision_of(self, space: SpaceId, seat: SecretSeat) -> int:
        found = await self.store.seats.read(space)
        if found is None or found[0] != seat:
            raise Conflict(what=f"the secret of space {space!r}", expected=0, found=1)
        return found[1]

    async def _move_seat(self, space: SpaceId, change: Callable[[SecretSeat], SecretSeat]) -> SecretSeat:
        for _ in range(_TRIES):
            await self.required_seat(space)
            found = await self.store.seats.read(space)
            if found is None:
                continue
            moved = change(found[0])
            put = PutChange(SEAT, moved.to_bytes(), found[1])
            with suppress(Conflict):
                await self._inner.commit(secret_batch(space, self._clock, put, takes_back=True))
                return moved
        raise Conflict(what=f"the secret of space {space!r}", expected=0, found=1)

    async def _count_attempt(self, space: SpaceId) -> None:
        """Note an attempt before it is made, so that many at once are no way round the bound. Raises RateLimited."""
        now = self._clock.now()
        for _ in range(_TRIES):
            (document,) = await self._inner.get(space, (ATTEMPTS,))
            count = _attempts_in(document, now)
            if count.failed >= _ATTEMPTS:
                wait_s = max(1, (count.since + limits.SECRET_ATTEMPTS_MS - now + 999) // 1000)
                raise RateLimited(limit=_ATTEMPTS, retry_after_s=wait_s, what="wrong secrets", period=_PERIOD)
            counted = count.model_copy(update={"failed": count.failed + 1})
            put = PutChange(ATTEMPTS, counted.to_bytes(), document.revision if document is not None else 0)
            with suppress(Conflict):
                await self._inner.commit(secret_batch(space, self._clock, put, takes_back=True))
                return
        raise RateLimited(limit=_ATTEMPTS, retry_after_s=1, what="secrets at once")

    async def _forgive_attempts(self, space: SpaceId) -> None:
        for _ in range(_TRIES):
            (document,) = await self._inner.get(space, (ATTEMPTS,))
            if document is None:
                return
            with suppress(Conflict):
                gone = DeleteChange(ATTEMPTS, document.revision)
                await self._inner.commit(secret_batch(space, self._clock, gone, takes_back=True))
                return

    async def _derive(self, secret: UserSecret, terms: DerivationTerms) -> bytes:
        async with self._deriving:
            return await asyncio.to_thread(derive_key, secret.text, terms)

    def _wrapping(self, space: SpaceId, key: bytes) -> KeyWrapping:
        keys = LocalKeys({USER_KEY: key}, current=USER_KEY)
        return KeyWrapping(keys, identity=f"secret of {space}", ids=self._ids, clock=self._clock)


def _attempts_in(document: Document | None, now: Instant) -> AttemptCount:
    if document is not None:
        count = AttemptCount.from_bytes(document.body)
        if count.since <= now < count.since + limits.SECRET_ATTEMPTS_MS:
            return count
    return AttemptCount(failed=0, since=now)
