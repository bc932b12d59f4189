"""A mapping that lets the key go that was unused for longest."""

from collections import OrderedDict
from collections.abc import Hashable
from typing import TypeVar

KeyT = TypeVar("KeyT", bound=Hashable)
ValueT = TypeVar("ValueT")


class LruCache(OrderedDict[KeyT, ValueT]):
    """At most `most` keys. A key that is set, or found by `use`, goes last; other reads leave the order as it is."""

    def __init__(self, most: int, /) -> None:
        super().__init__()
        self._most = most

    def __setitem__(self, key: KeyT, value: ValueT, /) -> None:
        super().__setitem__(key, value)
        self.move_to_end(key)
        if len(self) > self._most:
            self.popitem(last=False)

    def use(self, key: KeyT, /) -> ValueT | None:
        """Return the value of `key`, None if it is not kept."""
        if key not in self:
            return None
        self.move_to_end(key)
        return self[key]
