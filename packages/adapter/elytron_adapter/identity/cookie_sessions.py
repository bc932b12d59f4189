"""Sessions of browsers: a cookie in place of a key, for pages that cannot send a header of their own."""

import hashlib
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from elytron_core.ids import IdSource
from elytron_core.lru_cache import LruCache

_TOKEN_BYTES: Final = 32


@dataclass(frozen=True, slots=True)
class SessionCookie:
    """The cookie of one kind of session: its name, its path, its lifetime, and how many are open at once."""

    name: str
    path: str
    lifetime_s: float
    most: int
    each: int
    """Sessions of one holder; the holder's oldest makes room for another."""


@dataclass(frozen=True, slots=True)
class _OpenSession:
    holder: str
    masked: bytes
    """The holder's credential under a mask that only the cookie gives."""
    until: float


class CookieSessions:
    """Cookies by digest: this process's memory contains no cookie and no key.

    Each holder has a bounded number, so that one cannot push out those of others.
    """

    def __init__(self, ids: IdSource, cookie: SessionCookie, /) -> None:
        self.cookie = cookie
        self._ids = ids
        self._open: LruCache[str, _OpenSession] = LruCache(cookie.most)

    def open(self, holder: str, authorization: str, /) -> str:
        """Return a new cookie for the holder of `authorization`; the holder's oldest makes room."""
        now = time.monotonic()
        for digest in [digest for digest, session in self._open.items() if session.until <= now]:
            del self._open[digest]
        own = [digest for digest, session in self._open.items() if session.holder == holder]
        for digest in own[: max(0, len(own) + 1 - self.cookie.each)]:
            del self._open[digest]
        token = self._ids.secret(_TOKEN_BYTES).hex()
        masked = self._mask(token, authorization.encode("latin-1", "replace"))
        self._open[_token_digest(token)] = _OpenSession(holder, masked, now + self.cookie.lifetime_s)
        return token

    def end(self, headers: Mapping[str, str], /) -> None:
        """End the session of a request's cookie, if it has one."""
        token = self.token(headers)
        if token is not None:
            self._open.pop(_token_digest(token), None)

    def token(self, headers: Mapping[str, str], /) -> str | None:
        """Return the cookie of a request; None if it has none."""
        for part in headers.get("cookie", "").split(";"):
            name, _, value = part.strip().partition("=")
            if name == self.cookie.name:
                return value
        return None

    def credential(self, headers: Mapping[str, str], /) -> str | None:
        """Return the `Authorization` of a request, else the one of its cookie."""
        given = headers.get("authorization")
        token = self.token(headers)
        if given is not None or token is None:
            return given
        session = self._session(token)
        return self._mask(token, session.masked).decode("latin-1") if session is not None else None

    def is_open(self, headers: Mapping[str, str], /) -> bool:
        """Return whether the cookie of a request, if it has one, opens a session."""
        token = self.token(headers)
        return token is not None and self._session(token) is not None

    def _session(self, token: str) -> _OpenSession | None:
        session = self._open.get(_token_digest(token))
        return session if session is not None and session.until > time.monotonic() else None

    def _mask(self, token: str, data: bytes) -> bytes:
        """Return `data` under the mask of a cookie, or without it. A cookie masks one credential alone."""
        mask = hashlib.shake_256(self.cookie.name.encode() + b"\0" + token.encode()).digest(len(data))
        return bytes(one ^ other for one, other in zip(data, mask, strict=True))


def _token_digest(token: str) -> str:
    return hashlib.sha256(token.encode()).hexdigest()
