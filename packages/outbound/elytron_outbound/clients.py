"""The factory of HTTP clients. All share one policy: no cookies, no redirects, bounded connections.

A client stores no cookie, because one client serves many users and one user's cookie must not go out with another's
request. Redirects are not followed, because they would lead past the address that was configured or judged.
"""

import ssl
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from functools import cache
from http.cookiejar import CookieJar, DefaultCookiePolicy
from importlib import import_module
from ipaddress import ip_address
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlsplit

from elytron_core.errors import InvalidInput, MissingExtra

if TYPE_CHECKING:
    import httpx
    import httpx2

REMOTE_CONNECTIONS: Final = 64
REMOTE_IDLE_S: Final = 2.0
"""Time for which a client keeps a connection that it does not use. Servers end theirs after five seconds or more: a
call sent just then would fail, and the client could not know whether it arrived."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientSettings:
    """Settings of a client. `extra` and `purpose` are named if the HTTP library is not installed.

    `timeout_s` bounds each wait for bytes, `connect_s` the connection; `calls_have_bounds` leaves the wait for an
    answer to the caller. `url` is the base of relative paths. Proxies, certificates and passwords of the environment
    are used only with `uses_environment`, and never for a server on this machine.
    """

    extra: str
    purpose: str
    timeout_s: float
    connect_s: float | None = None
    calls_have_bounds: bool = False
    url: str = ""
    headers: Mapping[str, str] = field(default_factory=dict[str, str])
    proxy: str | None = None
    uses_environment: bool = False
    connections: int | None = REMOTE_CONNECTIONS
    idle_connections: int | None = None
    idle_s: float = field(default_factory=lambda: REMOTE_IDLE_S)


def http_client(
    settings: ClientSettings, /, *, transport: "httpx.AsyncBaseTransport | None" = None
) -> "httpx.AsyncClient":
    """Return a client, which its caller closes. Raises MissingExtra, and InvalidInput for an invalid URL."""
    transport_option = {"transport": transport} if transport is not None else {}
    return _open_client("httpx", "AsyncClient", settings, **transport_option)


def blocking_http_client(settings: ClientSettings, /) -> "httpx.Client":
    """Return a client whose calls block. Raises as `http_client` does."""
    return _open_client("httpx", "Client", settings)


def mcp_http_client(
    settings: ClientSettings, /, *, on_response: "Callable[[httpx2.Response], Awaitable[None]] | None" = None
) -> "httpx2.AsyncClient":
    """Return a client for the MCP SDK, which calls `on_response` with each answer. Raises as `http_client` does."""
    hooks = {"response": [on_response]} if on_response is not None else None
    return _open_client("httpx2", "AsyncClient", settings, event_hooks=hooks)


def http_library(settings: ClientSettings, /) -> Any:
    """Return the module `httpx`. Raises MissingExtra if it is not installed."""
    return _import_library("httpx", settings)


def is_local(url: str, /) -> bool:
    """Return whether the host of `url` is this machine."""
    host = urlsplit(url).hostname or ""
    try:
        return host == "localhost" or ip_address(host).is_loopback
    except ValueError:
        return False


def _import_library(library: str, settings: ClientSettings) -> Any:
    try:
        return import_module(library)
    except ImportError as error:
        raise MissingExtra(extra=settings.extra, purpose=settings.purpose) from error


def _open_client(library: str, kind: str, settings: ClientSettings, **more: Any) -> Any:
    client_library = _import_library(library, settings)
    answer_s = None if settings.calls_have_bounds else settings.timeout_s
    connect_s = settings.timeout_s if settings.connect_s is None else min(settings.timeout_s, settings.connect_s)
    uses_environment = settings.uses_environment and not is_local(settings.url)
    try:
        return getattr(client_library, kind)(
            base_url=settings.url,
            headers=dict(settings.headers),
            timeout=client_library.Timeout(settings.timeout_s, connect=connect_s, read=answer_s, pool=answer_s),
            limits=client_library.Limits(
                max_connections=settings.connections,
                max_keepalive_connections=settings.idle_connections,
                keepalive_expiry=settings.idle_s,
            ),
            cookies=CookieJar(DefaultCookiePolicy(allowed_domains=[])),
            follow_redirects=False,
            trust_env=uses_environment,
            proxy=settings.proxy,
            # Loading the system's certificates takes longer than many calls: never for plain HTTP, and once for the
            # rest.
            verify=False if settings.url.startswith("http://") else _load_certificates(library, uses_environment),
            **more,
        )
    except (client_library.InvalidURL, UnicodeError):
        raise InvalidInput(field="url", problem="is not the address of a server") from None


@cache
def _load_certificates(library: str, uses_environment: bool) -> ssl.SSLContext:  # noqa: FBT001 - a key of the cache
    client_library: Any = import_module(library)
    return client_library.create_ssl_context(trust_env=uses_environment)
