"""The headers of a request, looked through once however often they are asked."""

from typing import TypeVar, overload

from starlette.datastructures import Headers
from starlette.types import Scope

from elytron_adapter.idempotency import key_in

AUDIT_ID = "X-Audit-ID"
IDEMPOTENCY_KEY = "Idempotency-Key"
_KEPT = "elytron.headers"
T = TypeVar("T")


class Heads(Headers):
    """Headers that find any of them at one look; of several of one name the first, as `Headers` does."""

    def __init__(self, scope: Scope, /) -> None:
        super().__init__(scope=scope)
        self._first = dict(reversed(self.raw))

    @overload
    def get(self, key: str, default: None = None, /) -> str | None: ...
    @overload
    def get(self, key: str, default: str | T, /) -> str | T: ...
    def get(self, key: str, default: object = None, /) -> object:
        value = self._first.get(key.lower().encode("latin-1"))
        return value.decode("latin-1") if value is not None else default


def heads_of(scope: Scope, /) -> Headers:
    """Return the headers of a request."""
    kept = scope.get(_KEPT)
    if kept is None:
        kept = scope[_KEPT] = Heads(scope)
    assert isinstance(kept, Heads)
    return kept


def idempotency_key(headers: Headers, /) -> str | None:
    """Return the key in the header. Raises InvalidInput for one that is empty or too long."""
    return key_in(headers.get(IDEMPOTENCY_KEY))
