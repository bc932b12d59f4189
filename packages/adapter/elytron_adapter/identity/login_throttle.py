"""Limit on wrong credentials from one place."""

import ipaddress

from elytron_core import limits
from elytron_core.caches.lru import LruCache
from elytron_core.clock import Clock, Instant

_MINUTE_MS = 60_000
_V6_PLACE_BITS = 64
"""Prefix of the IPv6 addresses that one customer of a network has."""


class Attempts:
    """Counts wrong credentials by the place that they came from, of a bounded number of places; `most` 0: any number.

    Right ones are let in from every place, also after wrong ones:
    behind a proxy all callers come from one place. Guessing is kept hopeless by the length of keys, not by this.
    """

    def __init__(self, clock: Clock, /, *, most: int = limits.WRONG_CREDENTIALS_PER_MINUTE) -> None:
        self.most = most
        self._clock = clock
        self._places: LruCache[str, tuple[Instant, int]] = LruCache(limits.WRONG_CREDENTIALS_PLACES)

    def failed(self, address: str | None, /) -> int | None:
        """Count a wrong credential from `address`; return the seconds to wait if there were too many, else None."""
        if not self.most:
            return None
        place = place_of(address)
        now = self._clock.now()
        began, count = self._places.get(place, (now, 0))
        if not 0 <= now - began < _MINUTE_MS:
            began, count = now, 0
        self._places[place] = (began, count + 1)
        return -(-(began + _MINUTE_MS - now) // 1000) if count >= self.most else None


def place_of(address: str | None, /) -> str:
    """Return the place of an address: itself, or its network in IPv6; one for all that have none."""
    try:
        found = ipaddress.ip_address(address or "")
    except ValueError:
        return ""
    if isinstance(found, ipaddress.IPv6Address):
        return str(found.ipv4_mapped or ipaddress.ip_network((found, _V6_PLACE_BITS), strict=False))
    return str(found)
