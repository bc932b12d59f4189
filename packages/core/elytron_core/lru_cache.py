"""Least-recently-used caches: a mapping, and memoised function results."""

from collections import OrderedDict
from collections.abc import Callable, Hashable
from functools import lru_cache
from typing import Any, Final, ParamSpec, TypeVar, cast
from weakref import WeakSet

ArgumentsP = ParamSpec("ArgumentsP")
AnswerT = TypeVar("AnswerT")
KeyT = TypeVar("KeyT", bound=Hashable)
ValueT = TypeVar("ValueT")
_REMEMBERING: Final[WeakSet[Any]] = WeakSet()


def remember_answers(max_answers: int, /) -> Callable[[Callable[ArgumentsP, AnswerT]], Callable[ArgumentsP, AnswerT]]:
    """Cache up to `max_answers` results of a function with their arguments, until `forget_answers`."""

    def wrap(function: Callable[ArgumentsP, AnswerT]) -> Callable[ArgumentsP, AnswerT]:
        cached_function = lru_cache(maxsize=max_answers)(function)
        _REMEMBERING.add(cached_function)
        return cast("Callable[ArgumentsP, AnswerT]", cached_function)

    return wrap


def forget_answers() -> None:
    """Clear all caches of `remember_answers`: their arguments may contain words of erased texts."""
    for cached_function in tuple(_REMEMBERING):
        cached_function.cache_clear()


class LruCache(OrderedDict[KeyT, ValueT]):
    """A dict of at most `most` keys. Setting a key, or `use`, moves it to the end; other reads do not change the
    order."""

    def __init__(self, max_entries: int, /) -> None:
        super().__init__()
        self._most = max_entries

    def __setitem__(self, key: KeyT, value: ValueT, /) -> None:
        super().__setitem__(key, value)
        self.move_to_end(key)
        if len(self) > self._most:
            self.popitem(last=False)

    def use(self, key: KeyT, /) -> ValueT | None:
        """Return the value of `key`, None if it is not cached."""
        if key not in self:
            return None
        self.move_to_end(key)
        return self[key]
