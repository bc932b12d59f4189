"""The indexes in memory, least recently used first to go."""

from collections import OrderedDict

from elytron_core import limits
from elytron_core.ids import SpaceId
from elytron_index.space import SpaceIndex


class IndexCache:
    """Keeps indexes of spaces within `limit_bytes` in all; the one used last always stays. No I/O."""

    def __init__(self, limit_bytes: int = limits.INDEX_CACHE_BYTES, /) -> None:
        self._limit_bytes = limit_bytes
        self._kept: OrderedDict[SpaceId, SpaceIndex] = OrderedDict()

    def get(self, space: SpaceId, /) -> SpaceIndex | None:
        """Return the index of `space`, now the one used last; None where it is not kept."""
        index = self._kept.get(space)
        if index is not None:
            self._kept.move_to_end(space)
        return index

    def put(self, space: SpaceId, index: SpaceIndex, /) -> tuple[SpaceId, ...]:
        """Keep `index` as the one used last and return the spaces let go for it, first gone first.

        An index grows while it is kept: put it again after it was applied to, so that its size counts.
        """
        self._kept[space] = index
        self._kept.move_to_end(space)
        sizes = {kept: each.size_bytes for kept, each in self._kept.items()}
        total, gone = sum(sizes.values()), list[SpaceId]()
        for kept in list(self._kept)[:-1]:
            if total <= self._limit_bytes:
                break
            del self._kept[kept]
            total -= sizes[kept]
            gone.append(kept)
        return tuple(gone)

    def drop(self, space: SpaceId, /) -> None:
        """Let go of the index of `space`, if it is kept."""
        self._kept.pop(space, None)

    def spaces(self) -> tuple[SpaceId, ...]:
        """Return the spaces kept, the next to go first."""
        return tuple(self._kept)

    @property
    def size_bytes(self) -> int:
        """About how much memory the kept indexes take together."""
        return sum(index.size_bytes for index in self._kept.values())

    def __len__(self) -> int:
        return len(self._kept)
