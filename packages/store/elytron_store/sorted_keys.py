"""Keys in order, for engines that hold them in memory."""

from bisect import bisect_left, bisect_right, insort
from collections.abc import Iterator, Sequence

_FEW = 32
"""Number of new keys that are inserted one by one; more are sorted in together."""


class OrderedKeys:
    """A set of keys that can be walked in code point order from any point. Ascending keys cost nothing to add."""

    def __init__(self) -> None:
        self._keys: list[str] = []
        self._unsorted: list[str] = []

    def __len__(self) -> int:
        return len(self._keys) + len(self._unsorted)

    def add(self, key: str, /) -> None:
        """Put in `key`, which is not there yet."""
        if not self._keys or key > self._keys[-1]:
            self._keys.append(key)
        else:
            self._unsorted.append(key)

    def remove(self, key: str, /) -> None:
        """Take out `key`, which is there."""
        keys = self._settled()
        del keys[bisect_left(keys, key)]

    def window(self, *, prefix: str, after: str, limit: int, descending: bool) -> Sequence[str]:
        """Return up to `limit` keys with `prefix`, behind `after` in the direction asked for."""
        keys = self._settled()
        if descending:
            # Keys are hex digits, dots and dashes, so every key with the prefix is before prefix + "~".
            high = bisect_left(keys, prefix + "~") if prefix else len(keys)
            high = min(high, bisect_left(keys, after)) if after else high
            low = max(bisect_left(keys, prefix), high - limit)
            found: Iterator[str] = reversed(keys[low:high])
        else:
            low = bisect_left(keys, prefix)
            low = max(low, bisect_right(keys, after)) if after else low
            found = iter(keys[low : low + limit])
        return [key for key in found if key.startswith(prefix)]

    def _settled(self) -> list[str]:
        if len(self._unsorted) > _FEW:
            self._keys.extend(self._unsorted)
            self._keys.sort()
        else:
            for key in self._unsorted:
                insort(self._keys, key)
        self._unsorted.clear()
        return self._keys
