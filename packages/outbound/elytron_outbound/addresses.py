"""Addresses supplied by users: checked before a request is sent, and called by the IP address that was checked."""

import asyncio
import ipaddress
import socket
from collections.abc import Iterable
from typing import Final, NamedTuple
from urllib.parse import SplitResult

from elytron_core.errors import InvalidInput, PermissionRefused, Unreachable

_PORTS: Final = {"https": 443, "http": 80}


class JudgedAddress(NamedTuple):
    """An address whose host is replaced by the checked IP; `host` is for the header, `name` for TLS."""

    url: str
    host: str
    name: str


async def judged_address(url_parts: SplitResult, /, *, may_be_private: bool) -> JudgedAddress:
    """Return where to send a request for an address with a host.

    The name is resolved once: resolved again for the request, it might lead elsewhere. Raises PermissionRefused for a
    private network unless `may_be_private`, and Unreachable for a host that cannot be found.
    """
    name = url_parts.hostname or ""
    port = url_parts.port or _PORTS[url_parts.scheme]
    ip_text = await number_of(name, port)
    if not may_be_private and not is_public(ip_text):
        raise PermissionRefused("this address is in a private network")
    host_text = f"[{ip_text}]" if ":" in ip_text else ip_text
    url = url_parts._replace(netloc=f"{host_text}:{port}", fragment="").geturl()
    return JudgedAddress(url, url_parts.netloc, name)


_GLOBAL: Final = ipaddress.ip_network("2000::/3")
"""All of IPv6 that is allocated for the internet."""
_TRANSLATED: Final = ipaddress.ip_network("64:ff9b::/96")
"""IPv4 addresses translated by a network: the last 32 bits are one."""
_TUNNELLED: Final = (ipaddress.ip_network("2002::/16"), ipaddress.ip_network("2001::/32"))
"""Addresses that embed an IPv4 address, which may be any."""
_RELAYS: Final = ipaddress.ip_network("192.88.99.0/24")


async def number_of(host: str, port: int, /) -> str:
    """Return the first IP of a host. Raises Unreachable."""
    try:
        addresses = await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError):  # a name with an empty or overlong label does not resolve
        raise Unreachable("the host of this address cannot be resolved") from None
    return str(addresses[0][4][0])


def networks_of(texts: Iterable[str], /, *, field: str) -> tuple[str, ...]:
    """Return addresses and networks in canonical form. Raises InvalidInput, which names `field`."""
    try:
        return tuple(str(ipaddress.ip_network(text, strict=False)) for text in texts)
    except ValueError:
        raise InvalidInput(field=field, problem="has an entry that is not an address or network") from None


def is_public(number: str, /) -> bool:
    """Return whether an IP belongs to one machine on the internet, however it is written."""
    address = ipaddress.ip_address(number.partition("%")[0])
    if isinstance(address, ipaddress.IPv6Address):
        if address.ipv4_mapped is not None:
            return is_public(str(address.ipv4_mapped))
        if address in _TRANSLATED:
            return is_public(str(ipaddress.IPv4Address(int(address) % 2**32)))
        return address in _GLOBAL and address.is_global and not any(address in network for network in _TUNNELLED)
    return address.is_global and not address.is_multicast and address not in _RELAYS
