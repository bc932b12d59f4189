"""Failed secrets of a space: counted per caller, each followed by a delay that grows to a few seconds at most.

A caller is a principal at a network address. One caller's failures delay nobody else, so a person with the right secret
is not locked out by someone who has only the key.
"""

import hashlib
from contextlib import suppress
from typing import Final

from elytron_core.clock import Clock, Instant
from elytron_core.errors import Conflict, InvalidInput, RateLimited
from elytron_core.ids import SpaceId
from elytron_core.ports.store import DeleteChange, Document, PutChange, Store
from elytron_store.secret.records import ATTEMPTS, AttemptCount, CallerAttempts, SecretSlot, secret_batch
from elytron_store.secret.sessions import current_caller

SECRET_ATTEMPTS: Final = 5
SECRET_ATTEMPTS_MS: Final = 15 * 60 * 1000
"""Wrong secrets that a caller may send without a delay, and the time after the latest in which they are counted."""
SECRET_DELAY_MS_MAX: Final = 8_000
"""Delay of the next attempt of one caller at most: the right secret is never refused for longer."""
SECRET_CALLERS: Final = 64
"""Callers whose wrong secrets of a space are counted apart; further ones are counted together."""


_TRIES: Final = 32
_OTHERS: Final = ""
"""Name under which further callers are counted together, once there are many."""


class AttemptCounting:
    """Counts the attempts to open spaces in the store, so that all its processes share the counts."""

    def __init__(self, inner_store: Store, clock: Clock, /) -> None:
        self._inner = inner_store
        self._clock = clock

    async def count(self, space: SpaceId, slot: SecretSlot, /) -> None:
        """Count an attempt before it is made, so that concurrent ones do not evade the delay. Raises RateLimited."""
        for _ in range(_TRIES):
            now = self._clock.now()
            document, attempts_by_caller = await self._recent(space, now)
            caller = _caller_name(slot)
            if caller not in attempts_by_caller and len(attempts_by_caller) >= SECRET_CALLERS:
                caller = _OTHERS
            previous_attempts = attempts_by_caller.get(caller, CallerAttempts(caller=caller, failed=0, at=now))
            wait_ms = previous_attempts.at + delay_ms(previous_attempts.failed) - now
            if wait_ms > 0:
                raise RateLimited(
                    limit=SECRET_ATTEMPTS,
                    retry_after_s=-(-wait_ms // 1000),
                    what="wrong secrets per caller",
                    period="quarter of an hour",
                )
            attempts_by_caller[caller] = CallerAttempts(caller=caller, failed=previous_attempts.failed + 1, at=now)
            change = PutChange(ATTEMPTS, _body_of(attempts_by_caller), document.revision if document is not None else 0)
            with suppress(Conflict):
                await self._inner.commit(secret_batch(space, self._clock, change, takes_back=True))
                return
        raise RateLimited(limit=SECRET_ATTEMPTS, retry_after_s=1, what="secrets")

    async def forgive(self, space: SpaceId, slot: SecretSlot, /) -> None:
        """Clear the wrong attempts of this caller, who gave the right secret."""
        for _ in range(_TRIES):
            document, attempts_by_caller = await self._recent(space, self._clock.now())
            if document is None:
                return
            attempts_by_caller.pop(_caller_name(slot), None)
            change = (
                PutChange(ATTEMPTS, _body_of(attempts_by_caller), document.revision)
                if attempts_by_caller
                else DeleteChange(ATTEMPTS, document.revision)
            )
            with suppress(Conflict):
                await self._inner.commit(secret_batch(space, self._clock, change, takes_back=True))
                return

    async def _recent(self, space: SpaceId, now: Instant) -> tuple[Document | None, dict[str, CallerAttempts]]:
        (document,) = await self._inner.get(space, (ATTEMPTS,))
        count = AttemptCount()
        if document is not None:
            with suppress(InvalidInput):  # altered, or in the form of an earlier version: counted from here
                count = AttemptCount.from_bytes(document.body)
        recent_attempts = {
            caller_attempts.caller: caller_attempts
            for caller_attempts in count.callers
            if 0 <= now - caller_attempts.at < SECRET_ATTEMPTS_MS
        }
        return document, recent_attempts


def delay_ms(failed_count: int, /) -> int:
    """Return the delay of a caller's next attempt after this many wrong ones."""
    surplus_attempts = failed_count - SECRET_ATTEMPTS
    return min(1_000 << min(surplus_attempts, 16), SECRET_DELAY_MS_MAX) if surplus_attempts >= 0 else 0


def _caller_name(slot: SecretSlot) -> str:
    # A digest under the random name of the inner space, so that the store contains no address.
    caller = current_caller()
    name = f"{caller.principal}\n{caller.address}".encode()
    return hashlib.blake2b(name, key=slot.inner.encode()[:64], digest_size=12).hexdigest()


def _body_of(callers: dict[str, CallerAttempts]) -> bytes:
    return AttemptCount(callers=tuple(callers[name] for name in sorted(callers))).to_bytes()
