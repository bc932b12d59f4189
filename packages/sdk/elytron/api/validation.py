"""Validation of calls' arguments: mistakes that would be found late, or would silently change a result."""

from collections.abc import Iterable, Sequence
from enum import StrEnum
from os import PathLike
from typing import TypeVar, cast

from elytron_core.errors import InvalidInput, StoreUrlInvalid
from elytron_core.ports.keys import KeyProvider
from elytron_core.ports.store import Store

WordT = TypeVar("WordT", bound=StrEnum)


def word(kind: type[WordT], value: WordT, /, *, field: str) -> WordT:
    """Return the member of `kind` that `value` is, or names as a plain text. Raises InvalidInput."""
    try:
        return kind(value)
    except ValueError:
        raise InvalidInput(field=field, problem=f"is none of {', '.join(kind)}") from None


def require(
    store: str | PathLike[str] | Store,
    /,
    *,
    keys: KeyProvider | None,
    index_bytes: int,
) -> None:
    """Raise StoreUrlInvalid for what is no store, and InvalidInput for names in the place of things."""
    if not isinstance(store, str | PathLike) and not hasattr(store, "commit"):
        raise StoreUrlInvalid(problem="is neither a text, nor a path, nor a Store")
    if isinstance(keys, str | PathLike):
        raise InvalidInput(field="keys", problem="is a name: give elytron_store.sealed.providers.FileKeys of it")
    if index_bytes < 0:
        raise InvalidInput(field="index_bytes", problem="is negative")


def paths(given: Sequence[str | PathLike[str]] | str | PathLike[str], /) -> Sequence[str | PathLike[str]]:
    """Return the paths; a single path is one, and not one per letter."""
    return (given,) if isinstance(given, str | PathLike) else given


def texts(given: Sequence[str], /, *, field: str) -> tuple[str, ...]:
    """Return the texts of a list. Raises InvalidInput for a single text, which would be read letter by letter."""
    if isinstance(given, str):
        raise InvalidInput(field=field, problem="is a text: give a list of them")
    return tuple(given)


def ids(given: object, /) -> tuple[str, ...]:
    """Return the ids of memories; a single id is one. Raises InvalidInput for other values."""
    if isinstance(given, str):
        return (given,)
    if not isinstance(given, Iterable):
        raise InvalidInput(field="ids", problem="are neither a memory's id nor a list of them")
    return tuple(cast("Iterable[str]", given))
