"""The indexes in memory. The least recently used is evicted first."""

from collections import OrderedDict
from typing import TYPE_CHECKING

from elytron_core import limits
from elytron_core.ids import SpaceId

if TYPE_CHECKING:
    from elytron_index.space_index import SpaceIndex


class IndexCache:
    """Caches indexes of up to `limit_spaces` spaces within `limit_bytes` in total; the last used one always stays. No
    I/O."""

    def __init__(
        self, limit_bytes: int = limits.INDEX_CACHE_BYTES, /, *, limit_spaces: int = limits.INDEX_CACHE_SPACES
    ) -> None:
        self._limit_bytes = limit_bytes
        self._limit_spaces = limit_spaces
        self._indexes: OrderedDict[SpaceId, SpaceIndex] = OrderedDict()
        self._sizes: dict[SpaceId, int] = {}
        self._total = 0

    def get(self, space: SpaceId, /) -> "SpaceIndex | None":
        """Return the index of `space` and mark it as last used; None if it is not cached."""
        index = self._indexes.get(space)
        if index is not None:
            self._indexes.move_to_end(space)
        return index

    def put(self, space: SpaceId, index: "SpaceIndex", /) -> tuple[SpaceId, ...]:
        """Store `index` as the last used one and return the spaces dropped for it, oldest first.

        An index grows while it is kept: put it again after it was applied to, so that its size counts.
        """
        self.drop(space)
        self._indexes[space] = index
        self._sizes[space] = index.size_bytes
        self._total += self._sizes[space]
        evicted_spaces: list[SpaceId] = []
        # One index stays even above the limit, or each search of a large space would load it again.
        while (self._total > self._limit_bytes or len(self._indexes) > self._limit_spaces) and len(self._indexes) > 1:
            oldest = next(iter(self._indexes))
            self.drop(oldest)
            evicted_spaces.append(oldest)
        return tuple(evicted_spaces)

    def drop(self, space: SpaceId, /) -> None:
        """Drop the index of `space`, if it is cached."""
        if self._indexes.pop(space, None) is not None:
            self._total -= self._sizes.pop(space)

    def spaces(self) -> tuple[SpaceId, ...]:
        """Return the cached spaces, the next to be dropped first."""
        return tuple(self._indexes)

    @property
    def size_bytes(self) -> int:
        """Approximate memory of the cached indexes, as of when each was put."""
        return self._total

    def __len__(self) -> int:
        return len(self._indexes)
