"""Errors of a server as the exceptions that the same call raises in this process."""

from collections.abc import Iterator, Mapping

from elytron_core import errors
from elytron_core.errors import ElytronError

Details = Mapping[str, str | int]

_CARRIED: dict[type[ElytronError], dict[str, str | int | None]] = {
    errors.InvalidInput: {"field": "request", "problem": "is not valid"},
    errors.UnreadableFile: {"line": None},
    errors.NotFound: {"what": "memory"},
    errors.Conflict: {"what": "it", "expected": 0, "found": 0},
    errors.ThreadBusy: {"thread": "main"},
    errors.LimitExceeded: {"what": "values", "limit": 0},
    errors.RateLimited: {"retry_after_s": 1},
    errors.MissingExtra: {"extra": "server"},
    errors.StoreMissing: {"place": "somewhere"},
    errors.StoreNewer: {"found": 0},
    errors.GatewayRefused: {"status": 502},
    errors.StoreBudgetExceeded: {"what": "something", "limit": 0},
    errors.StoreCorrupt: {"what": "something"},
    errors.SealBroken: {"what": "something"},
}
"""The attributes of an error and what they are where a server leaves them out; its heirs have them too."""


def error_of(key: str, message: str, details: Details | None = None, /) -> ElytronError:
    """Return the error called `key` with `message` and `details`; the root error if the key is unknown."""
    kind = _BY_KEY.get(key, ElytronError)
    # Not built by its own arguments: the message is made already, and may be of another version.
    error = kind.__new__(kind)
    ElytronError.__init__(error, message)
    for base in reversed(kind.__mro__):
        for name, otherwise in _CARRIED.get(base, {}).items():
            told = (details or {}).get(name, otherwise)
            setattr(error, name, told if otherwise is None or isinstance(told, type(otherwise)) else otherwise)
    return error


def _all(kind: type[ElytronError]) -> Iterator[type[ElytronError]]:
    yield kind
    for child in kind.__subclasses__():
        if child.__module__.startswith(f"{errors.__name__}."):
            yield from _all(child)


_BY_KEY = {kind.key: kind for kind in _all(ElytronError)}
