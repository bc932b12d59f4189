"""Reading what was sent, within its bounds of size and time."""

import asyncio
from collections.abc import AsyncIterator, Callable

from starlette.datastructures import Headers
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from elytron_adapter.http.headers import heads_of
from elytron_core import limits, strict_json
from elytron_core.errors import PayloadTooLarge
from elytron_core.strict_json import Json

_JSON = "application/json"
_DISCONNECT = "http.disconnect"


async def body(scope: Scope, receive: Receive, /, *, limit: int) -> bytes:
    """Return the body, or stop reading at its bound; what the client says of its length is not trusted.

    Raises PayloadTooLarge, and HTTPException for a body that takes too long.
    """
    require_length(scope, limit=limit)
    try:
        async with asyncio.timeout(limits.HTTP_BODY_WAIT_S):
            return await _whole(receive, limit=limit)
    except TimeoutError:
        raise HTTPException(408) from None


async def connected(receive: Receive, /) -> Message:
    """Return the next message of the body. Raises ClientDisconnect."""
    message = await receive()
    if message["type"] == _DISCONNECT:
        raise ClientDisconnect
    return message


async def _whole(receive: Receive, *, limit: int) -> bytes:
    whole = bytearray()
    while True:
        message = await connected(receive)
        whole += message.get("body", b"")
        if len(whole) > limit:
            raise PayloadTooLarge(limit=limit, what="the body")
        if not message.get("more_body", False):
            return bytes(whole)


async def pieces(scope: Scope, receive: Receive, /, *, limit: int) -> AsyncIterator[bytes]:
    """Yield the body piece by piece, each within the wait for a body. Raises as `body` does."""
    require_length(scope, limit=limit)
    size, more = 0, True
    while more:
        try:
            async with asyncio.timeout(limits.HTTP_BODY_WAIT_S):
                message = await connected(receive)
        except TimeoutError:
            raise HTTPException(408) from None
        piece: bytes = message.get("body", b"")
        size += len(piece)
        if size > limit:
            raise PayloadTooLarge(limit=limit, what="the body")
        yield piece
        more = message.get("more_body", False)


def strictly(app: ASGIApp, /, *, limit: int, require: Callable[[Json], None]) -> ASGIApp:
    """Return `app`, which is given whole bodies of strict JSON alone: in time, within `limit`, as `require` has them.

    For protocols whose libraries bound none of that, or repeat what they could not read.
    """

    async def read(scope: Scope, receive: Receive, send: Send) -> None:
        require_json(heads_of(scope))
        unread = [await body(scope, receive, limit=limit)]
        require(strict_json.parse(unread[0], limit=limit))

        async def again() -> Message:
            if unread:
                return {"type": "http.request", "body": unread.pop(), "more_body": False}
            return await receive()

        await app(scope, again, send)

    return read


def require_length(scope: Scope, /, *, limit: int) -> None:
    """Raise PayloadTooLarge where the declared length is beyond `limit`, or is none."""
    declared = heads_of(scope).get("content-length", "0")
    if not declared.isascii() or not declared.isdecimal() or len(declared) > 18 or int(declared) > limit:
        raise PayloadTooLarge(limit=limit, what="the body")


def is_json(headers: Headers, /) -> bool:
    """Return whether the body is said to be JSON."""
    return headers.get("content-type", "").partition(";")[0].strip().lower() == _JSON


def require_json(headers: Headers, /) -> None:
    """Raise HTTPException unless the body is said to be JSON."""
    if not is_json(headers):
        raise HTTPException(415, headers={"Accept": _JSON})
