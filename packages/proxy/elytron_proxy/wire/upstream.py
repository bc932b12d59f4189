"""Connections to model servers: which of them a request goes to, and how often it is tried."""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable
from ipaddress import ip_address
from typing import TYPE_CHECKING, Final, cast
from urllib.parse import urlsplit

from elytron_core.errors import MissingExtra
from elytron_proxy import limits
from elytron_proxy.dialects import Refusal
from elytron_proxy.settings import ProxySettings, Upstream
from elytron_proxy.wire.headers import Pairs, upstream_headers

if TYPE_CHECKING:
    import httpx

Pause = Callable[[float], Awaitable[None]]
_UNREACHABLE: Final = Refusal(502, "upstream_unreachable", "the model server cannot be reached: check --upstream")
_TIMEOUT: Final = Refusal(504, "upstream_timeout", "the model server did not answer in time")
_ENCODED: Final = Refusal(502, "upstream_encoded", "the model server sent an encoding that was not asked for")


class Unanswered(Exception):
    """No answer came from a model server."""

    def __init__(self, refusal: Refusal, /) -> None:
        super().__init__(refusal.message)
        self.refusal = refusal


class Upstreams:
    """The model servers of a proxy, for one event loop. `close` lets go of their connections."""

    def __init__(self, settings: ProxySettings, /, *, pause: Pause = asyncio.sleep) -> None:
        self.all: Final = settings.upstreams
        self._silence_s = settings.silence_s
        self._pause = pause
        self._clients: dict[str, httpx.AsyncClient] = {}

    @property
    def keys(self) -> tuple[str, ...]:
        """Return the keys of all servers, for what must not let them through."""
        return tuple(upstream.key for upstream in self.all if upstream.key)

    def of_model(self, model: str, /) -> Upstream:
        """Return the server of a model: the one with the longest prefix of its name, else the first without one."""
        fitting = [upstream for upstream in self.all if upstream.prefix and model.startswith(upstream.prefix)]
        if fitting:
            return max(fitting, key=lambda upstream: len(upstream.prefix))
        return next((upstream for upstream in self.all if not upstream.prefix), self.all[0])

    async def send(
        self,
        upstream: Upstream,
        method: str,
        path: str,
        /,
        *,
        query: str,
        headers: Pairs,
        space: str,
        body: bytes | None,
    ) -> "httpx.Response":
        """Return the answer, whose body is not read yet and which the caller closes. Raises Unanswered.

        What fails before a byte of an answer came is sent again; what was waited for too long is not.
        """
        import httpx

        client = self._client(upstream)
        url = url_of(upstream, path, query)
        length = len(body) if body is not None else None
        told = upstream_headers(headers, upstream, path=path, space=space, length=length)
        attempt = 0
        while True:
            attempt += 1
            try:
                response = await client.send(client.build_request(method, url, headers=told, content=body), stream=True)
                break
            except httpx.TimeoutException:
                raise Unanswered(_TIMEOUT) from None
            except (httpx.TransportError, httpx.InvalidURL):
                if attempt >= limits.ATTEMPTS:
                    raise Unanswered(_UNREACHABLE) from None
            await self._pause(limits.RETRY_PAUSE_S)
        if response.headers.get("content-encoding", "identity").lower() != "identity":
            await response.aclose()
            raise Unanswered(_ENCODED)
        return response

    async def close(self) -> None:
        """Let go of all connections."""
        clients, self._clients = list(self._clients.values()), {}
        for client in clients:
            await client.aclose()

    def _client(self, upstream: Upstream) -> "httpx.AsyncClient":
        try:
            import httpx
        except ImportError as error:
            raise MissingExtra(extra="proxy", purpose="the memory proxy") from error
        client = self._clients.get(upstream.url)
        if client is None:
            client = self._clients[upstream.url] = httpx.AsyncClient(
                headers={"Accept": "*/*"},
                timeout=httpx.Timeout(self._silence_s, connect=limits.CONNECT_S, pool=None),
                limits=httpx.Limits(
                    max_connections=None,
                    max_keepalive_connections=limits.KEEPALIVE_CONNECTIONS,
                    keepalive_expiry=limits.KEEPALIVE_S,
                ),
                follow_redirects=False,
                # Servers on this machine are reached without the environment's proxy.
                trust_env=not _is_here(upstream.url),
                # Without encryption the system's certificates need not be read.
                verify=not upstream.url.startswith("http://"),
            )
            client.headers.pop("user-agent", None)
        return client


def url_of(upstream: Upstream, path: str, query: str) -> "httpx.URL":
    """Return the URL of a request. Its scheme, host and port are always those of the upstream."""
    import httpx

    assert path.startswith("/")
    base = httpx.URL(upstream.url)
    raw_path = base.raw_path.rstrip(b"/") + path.encode("latin-1") + (b"?" + query.encode("latin-1") if query else b"")
    return base.copy_with(raw_path=raw_path)


def chunks_of(response: "httpx.Response", /) -> AsyncGenerator[bytes]:
    """Return the body as it came over the wire; left early it is to be closed."""
    # It is a generator, which its declared type does not say.
    return cast("AsyncGenerator[bytes]", response.aiter_raw())


async def told_by(response: "httpx.Response", /, *, limit: int) -> bytes:
    """Return the body, up to `limit`, and let go of the answer; what broke off is cut."""
    import httpx

    told = bytearray()
    try:
        async for chunk in chunks_of(response):
            told += chunk[: limit - len(told)]
            if len(told) == limit:
                break
    except httpx.HTTPError:
        pass
    finally:
        await response.aclose()
    return bytes(told)


def _is_here(url: str) -> bool:
    host = urlsplit(url).hostname or ""
    try:
        return host == "localhost" or ip_address(host).is_loopback
    except ValueError:
        return False
