"""Messages of all wires: a call out, a report or a problem back."""

import re
from collections.abc import AsyncGenerator, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol, TypeVar, get_args
from urllib.parse import urlsplit

from pydantic import ConfigDict, Field, ValidationError

from elytron.registry import AnyOperation
from elytron_core.errors import ElytronError, InvalidInput, Unreachable, Unsupported
from elytron_core.errors.tree import error_of
from elytron_core.events import EventId, StreamItem
from elytron_core.model import Value
from elytron_core.scope import Scope, ScopedRequest

ReportT = TypeVar("ReportT", bound=Value)


@dataclass(frozen=True, slots=True)
class RemoteCall:
    """One operation to be performed elsewhere. `may_repeat`: sent twice, it acts once.

    `space` is the one that it names, None if it leaves that to the credential.
    """

    operation: AnyOperation
    payload: bytes
    idempotency_key: str | None
    may_repeat: bool
    space: str | None = None


@dataclass(frozen=True, slots=True)
class BegunStream:
    """A stream is open and has begun at `place`: from there it goes on, should it break before anything came."""

    place: EventId


class RemoteTransport(Protocol):
    """Carries calls to one server and their answers back. Many may be under way at once."""

    async def call(self, call: RemoteCall, /) -> bytes:
        """Send `call` once and return its report as JSON. Raises what the server says, or Unreachable."""
        ...

    def events(self, scope: Scope | None, after: EventId | None, /) -> AsyncGenerator[StreamItem | BegunStream]:
        """Yield what is committed behind `after` (None: from now on) until the connection ends, with Unreachable."""
        ...

    def watch(self, call: RemoteCall, after: int, /) -> AsyncGenerator[bytes]:
        """Yield the report of `call` each time its space has grown. Raises Unsupported where this wire cannot."""
        ...

    async def close(self) -> None:
        """Let go of the connections; a second close does nothing."""
        ...


class RemoteProblem(Value):
    """A problem document, read leniently: a proxy or a newer server may add fields."""

    model_config = ConfigDict(extra="ignore")

    code: str = Field(max_length=200)
    detail: str = ""
    details: dict[str, str | int] = {}


def call_of(operation: AnyOperation, request: Value, /, *, idempotency_key: str | None) -> RemoteCall:
    """Return `request` as a call. A change may be repeated where the request or the call names an idempotency key."""
    within: Any = getattr(request, "idempotency_key", None)
    scope = space_of(request, None)
    return RemoteCall(
        operation=operation,
        payload=request.__pydantic_serializer__.to_json(request, exclude_none=True),
        idempotency_key=idempotency_key,
        may_repeat=not operation.mutates or idempotency_key is not None or within is not None,
        space=scope.space if scope is not None else None,
    )


def report_of(data: bytes, report: type[ReportT], /) -> ReportT:
    """Return the report in `data`, read strictly. Raises Unsupported if this version does not know it."""
    try:
        return report.__pydantic_validator__.validate_json(data, strict=True, self_instance=report.__new__(report))
    except ValidationError as error:
        fields = ".".join(str(part) for part in error.errors(include_input=False, include_url=False)[0]["loc"])
        raise Unsupported(
            f"the server's {report.__name__} is not one that this version knows (at {fields or 'its start'!r}): "
            "use the same version on both sides"
        ) from None


def told_of(data: bytes, /) -> ElytronError | None:
    """Return the error of a problem document, or None if `data` is not one."""
    try:
        told = RemoteProblem.model_validate_json(data)
    except ValidationError:
        return None
    return error_of(told.code, told.detail, told.details)


def unreachable_server(origin: str, cause: str, /) -> Unreachable:
    """Return the error for a server that gave no answer; it names neither key nor content."""
    return Unreachable(f"the server at {origin} does not answer ({cause}): see that it runs, and try again")


def space_of(request: Value, scope: Scope | None, /) -> Scope | None:
    """Return the scope that `request` is about."""
    return (request.scope if isinstance(request, ScopedRequest) else None) or scope


_KEY = re.compile(r"[\x21-\x7e]{1,500}")


@dataclass(frozen=True, slots=True)
class ServerAddress:
    """A server's address without a slash at its end, and the proxy on the way there.

    `headers` hold the credential, `proxy` perhaps another one: neither is shown.
    """

    url: str
    scheme: str
    headers: dict[str, str] = field(repr=False)
    proxy: str | None = field(default=None, repr=False)

    @property
    def is_websocket(self) -> bool:
        return self.scheme in {"ws", "wss"}


def address_of(url: str, /, *, api_key: str | None, proxy: str | None = None) -> ServerAddress:
    """Return the address that `url` names. Raises InvalidInput, which repeats neither the key nor what may hold one."""
    try:
        parts = urlsplit(url)
        named = parts.hostname is not None and (parts.port is None or parts.port > 0)
    except ValueError:
        raise InvalidInput(field="url", problem="is no URL") from None
    if parts.scheme not in {"http", "https", "ws", "wss"} or not named:
        raise InvalidInput(field="url", problem="names no server: http://, https://, ws:// or wss:// and a host")
    if parts.username is not None or parts.password is not None or parts.query or parts.fragment:
        raise InvalidInput(field="url", problem="has more than scheme, host, port and path: give a key as api_key=")
    if api_key is not None and not _KEY.fullmatch(api_key):
        raise InvalidInput(field="api_key", problem="is no key: printable ASCII without spaces")
    headers = {"Authorization": f"Bearer {api_key}"} if api_key is not None else {}
    return ServerAddress(url=url.rstrip("/"), scheme=parts.scheme, headers=headers, proxy=proxy_of(proxy))


def addresses_of(urls: str, /, *, api_key: str | None, proxy: str | None = None) -> tuple[ServerAddress, ...]:
    """Return the addresses in `urls`, one or several with commas between. Raises InvalidInput as `address_of` does."""
    found = tuple(address_of(url.strip(), api_key=api_key, proxy=proxy) for url in urls.split(","))
    if len(found) > 1 and any(address.is_websocket for address in found):
        raise InvalidInput(field="url", problem="names several servers, which are called over http:// or https://")
    return found


NodeSource = Literal["listed", "dns", "leased"]
"""Source of the nodes of a store: their addresses are given, a name has them, or their database lists them."""


def require_source(addresses: Sequence[ServerAddress], source: NodeSource, /) -> None:
    """Raise InvalidInput unless nodes can be found so from `addresses`."""
    if source not in get_args(NodeSource):
        raise InvalidInput(field="nodes", problem=f"is none of {', '.join(get_args(NodeSource))}")
    if source != "listed" and any(address.is_websocket for address in addresses):
        raise InvalidInput(field="nodes", problem="are found over http:// or https:// alone")
    if source == "dns" and (len(addresses) > 1 or addresses[0].scheme != "http"):
        raise InvalidInput(field="nodes", problem="are found by one name over http://, as no certificate has addresses")


def proxy_of(proxy: str | None, /) -> str | None:
    """Return `proxy`, None: no proxy. Raises InvalidInput for what is no HTTP proxy's address, without repeating it."""
    if proxy is None:
        return None
    try:
        parts = urlsplit(proxy)
        is_address = parts.scheme in {"http", "https"} and parts.hostname is not None and parts.port is not None
    except ValueError:
        is_address = False
    if not is_address:
        raise InvalidInput(field="proxy", problem="is no HTTP proxy: http:// or https://, a host and a port")
    return proxy
