"""Daily quotas of access keys across all processes of a store, and limits on failed attempts."""

import ipaddress
from dataclasses import dataclass
from typing import Final

from elytron.context import OperationContext
from elytron.state.change_lines import retry_lost_races
from elytron_adapter.access_keys import Principal
from elytron_adapter.system_documents import SystemDocuments
from elytron_core import limits
from elytron_core.clock import Clock, Instant
from elytron_core.errors import ElytronError, RateLimited
from elytron_core.lru_cache import LruCache
from elytron_core.planes.servers.system_documents import ACCESS_USAGE, KeyQuota, KeyUsage
from elytron_core.ports.store import PutChange

WRONG_CREDENTIALS_PLACES: Final = 4_096
"""Addresses that are counted at once; the one that was quiet for longest makes room."""
QUOTA_STORED_EVERY_MS: Final = 5_000
"""Time after which a process adds the calls of a key with a daily quota to the store's count."""
QUOTA_STORED_EVERY_CALLS: Final = 64
"""Calls after which it does so earlier."""


_DAY_MS = 86_400_000


@dataclass(slots=True)
class _KeyCount:
    """Usage of one key on one day: as last read from the store, and what this process added since."""

    stored: KeyUsage
    stored_at: Instant
    calls: int = 0
    size_bytes: int = 0
    is_storing: bool = False


class KeyQuotas:
    """Charges calls to the quotas of their keys.

    A process counts in memory and adds its count to the store every `QUOTA_STORED_EVERY_MS`, and after
    `QUOTA_STORED_EVERY_CALLS` calls. So several processes together may exceed a quota by what they counted since, and a
    process that is killed forgets that much.
    """

    def __init__(self, context: OperationContext, /) -> None:
        self._context = context
        self._documents = SystemDocuments(context, ACCESS_USAGE)
        self._counts: LruCache[str, _KeyCount] = LruCache(limits.ACCESS_KEYS_CACHED)

    async def charge(self, principal: Principal, size_bytes: int, /) -> None:
        """Count a call of `principal` whose body has `size_bytes`.

        Raises RateLimited, and counts nothing, if the quota of its key has no room for it today.
        """
        quota = principal.quota
        if quota is None or not quota.is_daily:
            return
        now = self._context.clock.now()
        count = await self._current(principal.id, now)
        _require_room(quota, count, size_bytes, now)
        count.calls += 1
        count.size_bytes += size_bytes

    async def require_left(self, principal: Principal, /) -> None:
        """Raise RateLimited if the quota of the principal's key is exceeded today; nothing is counted."""
        quota = principal.quota
        if quota is not None and quota.is_daily:
            now = self._context.clock.now()
            _require_room(quota, await self._current(principal.id, now), 0, now, calls=0)

    async def _current(self, key_id: str, now: Instant) -> _KeyCount:
        day = now // _DAY_MS
        count = self._counts.get(key_id)
        if count is None or count.stored.day != day:
            usage, _ = await self._read(key_id, day)
            count = self._counts[key_id] = _KeyCount(usage, now)
        is_due = now - count.stored_at >= QUOTA_STORED_EVERY_MS or count.calls >= QUOTA_STORED_EVERY_CALLS
        # One call stores. Those that come meanwhile are counted in memory.
        if count.calls and is_due and not count.is_storing:
            count.is_storing = True
            try:
                await self._store(key_id, count, now)
            except ElytronError:
                # A store that accepts no writes rejects writing calls itself; reads continue, counted here.
                count.stored_at = now
            finally:
                count.is_storing = False
        return count

    async def _read(self, key_id: str, day: int) -> tuple[KeyUsage, int]:
        """Return the usage of a key on `day`, and the revision of its document."""
        document = await self._documents.read(key_id)
        if document is None:
            return KeyUsage(day=day), 0
        usage = KeyUsage.from_bytes(document.body)
        return usage if usage.day == day else KeyUsage(day=day), document.revision

    @retry_lost_races
    async def _store(self, key_id: str, count: _KeyCount, now: Instant) -> None:
        """Add what `count` has beyond the store's own figures to these. Calls that come meanwhile are left to the next
        time."""
        record = await self._documents.record()
        day, calls, size_bytes = count.stored.day, count.calls, count.size_bytes
        stored_count, revision = await self._read(key_id, day)
        total = KeyUsage(day=day, calls=stored_count.calls + calls, size_bytes=stored_count.size_bytes + size_bytes)
        await self._documents.commit(record, PutChange(self._documents.ref(key_id), total.to_bytes(), revision))
        count.stored, count.stored_at = total, now
        count.calls -= calls
        count.size_bytes -= size_bytes


def _require_room(quota: KeyQuota, count: _KeyCount, size_bytes: int, now: Instant, *, calls: int = 1) -> None:
    retry_after_s = (_DAY_MS - now % _DAY_MS) // 1_000 + 1
    total_calls = count.stored.calls + count.calls + calls
    if quota.calls_per_day is not None and total_calls > quota.calls_per_day:
        raise RateLimited(limit=quota.calls_per_day, retry_after_s=retry_after_s, period="day")
    total_bytes = count.stored.size_bytes + count.size_bytes + size_bytes
    if quota.bytes_per_day is not None and total_bytes > quota.bytes_per_day:
        raise RateLimited(limit=quota.bytes_per_day, retry_after_s=retry_after_s, what="bytes", period="day")


_MINUTE_MS = 60_000
_V6_PLACE_BITS = 64
"""Prefix of the IPv6 addresses of one customer of a network."""


class WrongAttempts:
    """Counts wrong credentials by source, for a limited number of sources; `most` 0: any number.

    Valid credentials are accepted from every source, also after wrong ones, because behind a proxy all callers share
    one source. The length of keys, not this, makes guessing hopeless.
    """

    def __init__(self, clock: Clock, /, *, most: int = limits.WRONG_CREDENTIALS_PER_MINUTE) -> None:
        self.most = most
        self._clock = clock
        self._places: LruCache[str, tuple[Instant, int]] = LruCache(WRONG_CREDENTIALS_PLACES)

    def failed(self, address: str | None, /) -> int | None:
        """Count a wrong credential from `address`; return the seconds to wait if there were too many, else None."""
        if not self.most:
            return None
        source_network = place_of(address)
        now = self._clock.now()
        window_start, count = self._places.get(source_network, (now, 0))
        # A clock that steps back begins a new minute.
        if not 0 <= now - window_start < _MINUTE_MS:
            window_start, count = now, 0
        self._places[source_network] = (window_start, count + 1)
        return -(-(window_start + _MINUTE_MS - now) // 1000) if count >= self.most else None


def place_of(address: str | None, /) -> str:
    """Return the source of an address: itself, or its network in IPv6; one for all without an address."""
    try:
        ip_address = ipaddress.ip_address(address or "")
    except ValueError:
        return ""
    if isinstance(ip_address, ipaddress.IPv6Address):
        return str(ip_address.ipv4_mapped or ipaddress.ip_network((ip_address, _V6_PLACE_BITS), strict=False))
    return str(ip_address)
