"""The client went away: waiting for it, hearing of it in the middle of a body, and what is then answered."""

from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.types import Message, Receive

_DISCONNECT = "http.disconnect"


async def disconnected(receive: Receive, /) -> None:
    """Return when the client is gone; what it still sends is thrown away."""
    while (await receive())["type"] != _DISCONNECT:
        pass


async def connected(receive: Receive, /) -> Message:
    """Return the next message of the body. Raises ClientDisconnect."""
    message = await receive()
    if message["type"] == _DISCONNECT:
        raise ClientDisconnect
    return message


async def answer_nobody(_request: Request, _error: Exception, /) -> Response:
    """Return the answer to a request whose client is gone; it reaches no client."""
    return Response(status_code=400)
