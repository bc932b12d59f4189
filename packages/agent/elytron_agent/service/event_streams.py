"""Server-sent events of agents: the stream of one turn, which ends with it."""

import asyncio
from collections import Counter
from collections.abc import AsyncGenerator, Awaitable, Callable, Generator
from contextlib import contextmanager
from typing import Final

from starlette.types import Receive, Send

from elytron_adapter import envelope
from elytron_adapter.dispatch import CallerEntrance
from elytron_adapter.identity.access_keys import Principal
from elytron_agent.service import limits
from elytron_agent.service.turn_events import FeedEvent
from elytron_agent.service.wire import AgentEventData, AgentEventKind
from elytron_core import limits as core_limits
from elytron_core.errors import LimitExceeded

HEADERS: Final = [(b"content-type", b"text/event-stream; charset=utf-8"), (b"x-accel-buffering", b"no")]
_DISCONNECT: Final = "http.disconnect"

Written = Callable[[FeedEvent], Awaitable[None]]
"""Is called with each event whose frame was handed to the connection."""


class OpenStreams:
    """Counts the streams of each caller."""

    def __init__(self, entrance: CallerEntrance, /) -> None:
        self.entrance = entrance
        self._open: Counter[str] = Counter()

    @contextmanager
    def place(self, principal: Principal, /) -> Generator[None]:
        """Count a stream of `principal` while it is open. Raises LimitExceeded."""
        if self._open[principal.id] >= limits.STREAMS_EACH:
            raise LimitExceeded(what="open streams of one caller", limit=limits.STREAMS_EACH)
        self._open[principal.id] += 1
        self.entrance.streams += 1
        try:
            yield
        finally:
            self.entrance.streams -= 1
            self._open[principal.id] -= 1
            self._open += Counter()


class EventWriter:
    """Writes events to one connection until they end, the reader leaves, or the server closes."""

    def __init__(self, entrance: CallerEntrance, receive: Receive, send: Send, /, *, silence_s: float) -> None:
        self._entrance = entrance
        self._receive = receive
        self._send = send
        self._silence_s = silence_s

    async def write(
        self,
        events: AsyncGenerator[FeedEvent | bytes],
        /,
        *,
        opening: bytes = b"",
        written: Written | None = None,
        credential: str | None = None,
    ) -> None:
        """Send the events until the credential holds no longer, which the last of them says."""
        ended = asyncio.ensure_future(self._entrance.ended(credential, recheck_s=core_limits.STREAM_RECHECK_S))
        ends = {asyncio.ensure_future(self._gone()), ended}
        coming = asyncio.ensure_future(anext(events))
        try:
            await self._frame(opening, begins=True)
            while True:
                await asyncio.wait({coming, *ends}, timeout=self._silence_s, return_when=asyncio.FIRST_COMPLETED)
                if any(task.done() for task in ends):
                    if ended.done() and (refused := ended.result()) is not None:
                        data = AgentEventData(error=refused.message, code=refused.key)
                        await self._frame(event_frame(FeedEvent(AgentEventKind.ERROR, data)))
                    break
                if not coming.done():
                    await self._frame(b": keep-alive\n\n")
                    continue
                try:
                    event = coming.result()
                except StopAsyncIteration:
                    break
                await self._frame(event if isinstance(event, bytes) else event_frame(event))
                if written is not None and not isinstance(event, bytes):
                    await written(event)
                coming = asyncio.ensure_future(anext(events))
            await self._send({"type": "http.response.body", "body": b"", "more_body": False})
        except TimeoutError:
            return  # no reader: the server closes the connection
        finally:
            for task in (coming, *ends):
                task.cancel()
            await asyncio.gather(coming, *ends, return_exceptions=True)
            await events.aclose()

    async def _frame(self, data: bytes, *, begins: bool = False) -> None:
        """Send `data`. Raises TimeoutError if the reader takes nothing for too long."""
        async with asyncio.timeout(limits.SEND_S):
            if begins:
                await self._send({"type": "http.response.start", "status": 200, "headers": HEADERS})
            await self._send({"type": "http.response.body", "body": data, "more_body": True})

    async def _gone(self) -> None:
        """Return when the client is gone; what it still sends is thrown away."""
        while (await self._receive())["type"] != _DISCONNECT:
            pass


def event_frame(event: FeedEvent, /) -> bytes:
    """Return the bytes of an event; its data is JSON on one line, so nothing in it can end the event."""
    head = b"id: %b\n" % event.id.encode() if event.id else b""
    return b"%bevent: %b\ndata: %b\n\n" % (head, event.kind.value.encode(), envelope.encode_value(event.data))
