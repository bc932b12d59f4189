"""Address of a server, and the credential for it."""

import re
from dataclasses import dataclass, field
from urllib.parse import urlsplit

from elytron_core.errors import InvalidInput

_KEY = re.compile(r"[\x21-\x7e]{1,500}")


@dataclass(frozen=True, slots=True)
class Address:
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


def address_of(url: str, /, *, api_key: str | None, proxy: str | None = None) -> Address:
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
    return Address(url=url.rstrip("/"), scheme=parts.scheme, headers=headers, proxy=proxy_of(proxy))


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
