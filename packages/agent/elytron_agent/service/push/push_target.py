"""Addresses that previews are sent to: looked up once, judged, and called by the number that was judged."""

from collections.abc import Collection
from typing import Final, NamedTuple
from urllib.parse import SplitResult, urlsplit

from elytron_adapter.http.requests import is_public, number_of
from elytron_agent.service import limits
from elytron_core.errors import InvalidInput, MissingExtra, PermissionRefused, Unreachable

_PORTS: Final = {"https": 443, "http": 80}
GONE: Final = frozenset({404, 410})
"""Answers after which a subscription is no longer there."""
_OK: Final = range(200, 300)


class CheckedAddress(NamedTuple):
    """An address with its host replaced by the number that was judged, and the name of the host."""

    url: str
    host: str


def require_address(url: str, allowed: Collection[str], /) -> SplitResult:
    """Return the parts of an address that may be subscribed. Raises InvalidInput for another one.

    Hosts that the operator named may be called without TLS.
    """
    try:
        parts = urlsplit(url)
        host, port = parts.hostname, parts.port
    except ValueError:
        host = port = parts = None
    is_plain = all("!" <= character <= "~" for character in url)
    if (
        parts is None
        or not host
        or not is_plain
        or parts.username is not None
        or parts.scheme not in _PORTS
        or port == 0
    ):
        raise InvalidInput(field="url", problem="is no address such as https://push.example/send")
    if parts.scheme == "http" and host not in allowed:
        raise InvalidInput(field="url", problem="needs https: others are for hosts that the operator names")
    return parts


async def checked_address(url: str, allowed: Collection[str], /) -> CheckedAddress:
    """Return where to call. Raises PermissionRefused for a private network that is not allowed, Unreachable."""
    parts = require_address(url, allowed)
    host = parts.hostname or ""
    port = parts.port or _PORTS[parts.scheme]
    number = await number_of(host, port)
    if host not in allowed and not is_public(number):
        raise PermissionRefused("the address of a subscription leads into a private network")
    bracketed = f"[{number}]" if ":" in number else number
    return CheckedAddress(parts._replace(netloc=f"{bracketed}:{port}", fragment="").geturl(), parts.netloc)


async def post_preview(url: str, body: bytes, headers: dict[str, str], allowed: Collection[str], /) -> bool:
    """Send a body, and return False if the subscription is no longer there. Raises as `checked_address`."""
    try:
        import httpx
    except ImportError as error:
        raise MissingExtra(extra="llm", purpose="push") from error
    address = await checked_address(url, allowed)
    extensions = {"sni_hostname": urlsplit(url).hostname or ""}
    try:
        async with httpx.AsyncClient(timeout=limits.PUSH_SEND_S, follow_redirects=False, trust_env=False) as client:
            request = client.build_request(
                "POST", address.url, content=body, headers={"Host": address.host, **headers}, extensions=extensions
            )
            response = await client.send(request, stream=True)
            await response.aclose()
    except (httpx.HTTPError, httpx.InvalidURL):
        raise Unreachable("a push service cannot be reached") from None
    if response.status_code in GONE:
        return False
    if response.status_code not in _OK:
        raise Unreachable(f"a push service does not take a preview ({response.status_code})")
    return True
