"""Resources from elsewhere: read only from hosts and folders that the server's operator allows."""

import asyncio
import ipaddress
import socket
import zlib
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import unquote, urlsplit

from elytron_core import limits
from elytron_core.errors import InvalidInput, MissingExtra, NotFound, PayloadTooLarge, PermissionRefused, Unreachable
from elytron_gateway.resources.documents import Given

if TYPE_CHECKING:
    import httpx

REDIRECTS = 3
WAIT_S = 30.0
_ENCODINGS = frozenset({"identity", "", "gzip", "x-gzip"})
_GZIP_BITS = 16 + zlib.MAX_WBITS


@dataclass(frozen=True, slots=True)
class Allowed:
    """Sources that external resources may be read from. None by default."""

    hosts: frozenset[str] = frozenset()
    folders: tuple[Path, ...] = ()


async def read(uri: str, allowed: Allowed, /, *, max_bytes: int) -> Given:
    """Return the content at `uri`.

    Raises PermissionRefused for an address that is not allowed, NotFound, PayloadTooLarge, Unreachable.
    """
    address = urlsplit(uri)
    match address.scheme.lower():
        case "file":
            return await asyncio.to_thread(_file, address.netloc, unquote(address.path), allowed, max_bytes)
        case "http" | "https":
            return await _web(uri, allowed, max_bytes)
        case _:
            raise InvalidInput(field="uri", problem="is none that begins with https:, http: or file:")


def _file(host: str, path: str, allowed: Allowed, max_bytes: int) -> Given:
    refusal = PermissionRefused("this address is in no folder that the server reads resources from")
    if host not in {"", "localhost"}:
        raise refusal
    try:
        # Links are followed before the file's folder is checked.
        real = Path(path).resolve(strict=True)
    except (OSError, ValueError):
        raise refusal from None
    if not any(real.is_relative_to(folder.resolve()) for folder in allowed.folders) or not real.is_file():
        raise refusal
    with real.open("rb") as file:
        data = file.read(max_bytes + 1)
    if len(data) > max_bytes:
        raise PayloadTooLarge(limit=max_bytes, what="the resource", way_out="give a part of it")
    return Given(data, file_name=real.name, source=f"file://{path}")


async def _web(uri: str, allowed: Allowed, max_bytes: int) -> Given:
    try:
        import httpx
    except ImportError as error:
        raise MissingExtra(extra="client", purpose="reading external resources") from error
    address = uri
    async with httpx.AsyncClient(timeout=WAIT_S, follow_redirects=False, trust_env=False) as client:
        for _ in range(REDIRECTS + 1):
            url, host = await _checked(address, allowed)
            headers = {"Host": host, "Accept-Encoding": "gzip"}
            try:
                request = client.build_request("GET", url, headers=headers, extensions={"sni_hostname": host})
                response = await client.send(request, stream=True)
                try:
                    if response.is_redirect:
                        address = str(httpx.URL(address).join(response.headers.get("location", "")))
                        continue
                    if response.status_code != 200:
                        raise NotFound(what="resource at this address", name=host)
                    return await _body(response, uri, max_bytes)
                finally:
                    await response.aclose()
            except httpx.HTTPError as error:
                raise Unreachable(f"{host!r} does not answer: {type(error).__name__}") from None
    raise PermissionRefused(f"this address leads on more than {REDIRECTS} times")


async def _body(response: "httpx.Response", uri: str, max_bytes: int) -> Given:
    """Return the body, its inflated bytes counted as they come. Raises PayloadTooLarge, Unreachable."""
    packed = response.headers.get("content-encoding", "identity").strip().lower()
    if packed not in _ENCODINGS:
        raise Unreachable("the content of this address is packed in another way than gzip, once")
    inflater = zlib.decompressobj(_GZIP_BITS) if "gzip" in packed else None
    data = bytearray()
    try:
        async for piece in response.aiter_raw():
            data += inflater.decompress(piece, max_bytes + 1 - len(data)) if inflater is not None else piece
            if len(data) > max_bytes:
                raise PayloadTooLarge(limit=max_bytes, what="the resource", way_out="give a part of it")
    except zlib.error:
        raise Unreachable("the content of this address is damaged: it is said to be packed and is not") from None
    name = urlsplit(uri).path.rpartition("/")[2][: limits.NAME_CHARS]
    return Given(bytes(data), file_name=name, declared=response.headers.get("content-type", ""), source=uri)


async def _checked(uri: str, allowed: Allowed) -> tuple[str, str]:
    """Return the address with its host replaced by the address number that was judged, and the host's name.

    The name is looked up once, so that the check and the read use the same answer.
    """
    address = urlsplit(uri)
    host = (address.hostname or "").lower()
    if host not in allowed.hosts or address.scheme not in {"http", "https"} or address.username is not None:
        raise PermissionRefused("this address is on no host that the server reads resources from")
    port = address.port or (443 if address.scheme == "https" else 80)
    try:
        found = await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except OSError:
        raise Unreachable(f"{host!r} cannot be found") from None
    number = str(found[0][4][0])
    is_named = _is_number(host)
    if not is_named and not ipaddress.ip_address(number).is_global:
        raise PermissionRefused("this address leads into a private network")
    bracketed = f"[{number}]" if ":" in number else number
    rest = address._replace(netloc=f"{bracketed}:{port}", fragment="").geturl()
    return rest, host


def _is_number(host: str) -> bool:
    """Return whether a host is an address number; one that an operator allows by its number may be private."""
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return False
    return True
