"""Origins of requests: whether a web page asks, and whether it is a page of this server.

A server that requires no key is protected from pages of other origins by this alone, so every shell uses it.
"""

from functools import lru_cache
from typing import Final
from urllib.parse import urlsplit

from starlette.datastructures import Headers
from starlette.types import Scope

SAFE_METHODS: Final = frozenset({"GET", "HEAD", "OPTIONS"})
"""Methods that change nothing."""
_OWN_SITES = frozenset({"none", "same-origin"})
_SCHEMES = {"ws": "http", "wss": "https"}
_PORTS = {"http": 80, "https": 443}


def is_own_page(scope: Scope, headers: Headers, /) -> bool:
    """Return whether no web page asks, or one of this server, by its scheme, host and port."""
    if headers.get("sec-fetch-site", "none") not in _OWN_SITES and scope.get("method", "GET") not in SAFE_METHODS:
        return False
    origin = headers.get("origin")
    scheme = _SCHEMES.get(told := scope.get("scheme", "http"), told)
    if origin is None:
        return True
    place = _place(origin)
    return place is not None and place == _place(f"{scheme}://{headers.get('host', '')}")


def is_host_allowed(headers: Headers, hosts: frozenset[str], /) -> bool:
    """Return whether the host that a request names, and its origin if it has one, are among `hosts`."""
    origin = headers.get("origin")
    is_host_ours = _host(f"//{headers.get('host', '')}") in hosts
    return is_host_ours and (origin is None or _host(origin) in hosts)


@lru_cache(64)
def _place(address: str) -> tuple[str, str, int] | None:
    """Return the scheme, host and port of an address; None if it has none."""
    try:
        parts = urlsplit(address)
        port = parts.port or _PORTS.get(parts.scheme)
    except ValueError:
        return None
    return (parts.scheme, parts.hostname, port) if parts.hostname and port else None


@lru_cache(64)
def _host(address: str) -> str | None:
    try:
        host = urlsplit(address).hostname
    except ValueError:
        return None
    return f"[{host}]" if host is not None and ":" in host else host
