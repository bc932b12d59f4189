"""Server-sent events: a space's journal as it grows, one event per entry, for browsers and readers of lines.

An EventSource can send no header of its own, and a key in an address ends in logs. So a page first asks for a session
with its key (`POST /v1/events/session`); the cookie that it gets opens this one route, is sent by pages of this origin
alone, cannot be read by scripts, and ends after an hour, with the key, or with the server.
"""

import asyncio
import re
from collections.abc import AsyncGenerator
from typing import assert_never

from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from elytron_adapter import envelope
from elytron_adapter.envelope import CallTransport
from elytron_adapter.failures import reject_error
from elytron_adapter.http.requests import query_scope
from elytron_adapter.http.responses import principal_of, problem_document, request_id_of, shown_surface
from elytron_adapter.identity.cookie_sessions import CookieSessions, SessionCookie
from elytron_adapter.surface import Surface, SurfaceAccess, SurfaceDescription
from elytron_core import limits
from elytron_core.errors import ElytronError, InvalidInput, Unauthorized
from elytron_core.events import EVENT_ID_PATTERN, EventGap, GapReason, JournalEvent
from elytron_http_shell.streams.subscriptions import ServerStreams, follower_entries

COOKIE = "elytron_events"
PATH = "/v1/events"
_HEADERS = [(b"content-type", b"text/event-stream; charset=utf-8"), (b"x-accel-buffering", b"no")]
_TOLD = SurfaceDescription(
    name="events",
    summary="Follow a space's journal as server-sent events.",
    given="text/event-stream",
    headers=("Last-Event-ID",),
    query=("after", "space"),
    answer="Events `entry`, `gap` and `error`, for as long as they are read.",
)
_SESSION_TOLD = SurfaceDescription(
    name="events_session",
    summary="Get the cookie by which a page's EventSource is let in.",
    answer="The cookie, which opens the stream of events alone.",
    status=204,
)
SESSION_COOKIE = SessionCookie(COOKIE, PATH, limits.EVENT_SESSION_S, limits.EVENT_SESSIONS, limits.EVENT_SESSIONS_EACH)
_EVENT_ID = re.compile(EVENT_ID_PATTERN.strip("^$"))


def event_surfaces(streams: ServerStreams, /) -> tuple[Surface, ...]:
    """Return the stream of events, and the session that lets an EventSource in."""
    sessions = CookieSessions(streams.entrance.dispatcher.runtime.context.ids, SESSION_COOKIE)

    async def session(request: Request) -> Response:
        answer = Response(status_code=204)
        authorization = request.headers.get("authorization")
        if authorization is not None:
            answer.set_cookie(
                COOKIE,
                sessions.open(principal_of(request.scope).id, authorization),
                max_age=int(limits.EVENT_SESSION_S),
                path=PATH,
                secure=request.url.scheme == "https",
                httponly=True,
                samesite="strict",
            )
        return answer

    return (
        Surface(
            PATH,
            EventStream(streams, sessions),
            SurfaceAccess.MEMBER,
            ("GET",),
            credential=sessions.credential,
            told=_TOLD,
            transport=CallTransport.HTTP.value,
        ),
        shown_surface(f"{PATH}/session", session, access=SurfaceAccess.MEMBER, methods=("POST",), told=_SESSION_TOLD),
    )


class EventStream:
    """Answers with the journal behind `Last-Event-ID` (or `?after=`), and then with what comes."""

    def __init__(self, streams: ServerStreams, sessions: CookieSessions, /) -> None:
        self._streams = streams
        self._sessions = sessions

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        request = Request(scope)
        after = _begin_after(request)
        space = self._streams.entrance.space_of(principal_of(scope), query_scope(request.query_params))
        with self._streams.place(principal_of(scope)):
            # Begun before anything is answered: who hears that the stream is open misses nothing from then on.
            follower = self._streams.journals.follow(space)
            items = follower_entries(follower, await follower.begin(after))
            place = after or follower.place
            credential = self._sessions.credential(request.headers)
            ends = {
                asyncio.create_task(_client_gone(receive)),
                asyncio.create_task(self._streams.ended(credential)),
            }
            try:
                opening = b"retry: %d\nid: %b\n\n" % (limits.EVENTS_RETRY_MS, place.encode())
                await self._send(send, opening, begins=True)
                await self._stream(send, items, ends, request_id=request_id_of(scope))
            except TimeoutError:
                return  # no reader: the server closes the connection
            finally:
                for task in ends:
                    task.cancel()
                await asyncio.gather(*ends, return_exceptions=True)
                await items.aclose()

    async def _stream(
        self,
        send: Send,
        items: AsyncGenerator[JournalEvent | EventGap],
        ends: set[asyncio.Task[None] | asyncio.Task[Unauthorized | None]],
        *,
        request_id: str,
    ) -> None:
        """Send each event, and a keep-alive if there is none, until one of `ends` is met."""
        told: ElytronError | None = None
        coming = asyncio.ensure_future(anext(items))
        try:
            while True:
                await asyncio.wait(
                    {coming, *ends}, timeout=self._streams.bounds.heartbeat_s, return_when=asyncio.FIRST_COMPLETED
                )
                if done := [task for task in ends if task.done()]:
                    told = done[0].result()
                    break
                if not coming.done():
                    await self._send(send, b": still here\n\n")
                    continue
                try:
                    item = coming.result()
                except ElytronError as error:
                    told = error
                    break
                await self._send(send, _event_line(item))
                coming = asyncio.ensure_future(anext(items))
        finally:
            coming.cancel()
            await asyncio.gather(coming, return_exceptions=True)
        if told is not None:
            rejected = reject_error(told, request_id=request_id)
            await self._send(send, b"event: error\ndata: %b\n\n" % envelope.encode_value(problem_document(rejected)))
        await send({"type": "http.response.body", "body": b"", "more_body": False})

    async def _send(self, send: Send, data: bytes, *, begins: bool = False) -> None:
        """Send `data`. Raises TimeoutError where the reader takes nothing for too long."""
        async with asyncio.timeout(self._streams.bounds.send_s):
            if begins:
                await send({"type": "http.response.start", "status": 200, "headers": _HEADERS})
            await send({"type": "http.response.body", "body": data, "more_body": True})


async def _client_gone(receive: Receive) -> None:
    """Return when the client is gone; what it still sends is thrown away."""
    while (await receive())["type"] != "http.disconnect":
        pass


def _event_line(item: JournalEvent | EventGap) -> bytes:
    """Return the event of `item`; its data is JSON on one line, so nothing in it can end the event."""
    match item:
        case JournalEvent():
            return b"id: %b\nevent: entry\ndata: %b\n\n" % (item.id.encode(), envelope.encode_value(item))
        case EventGap():
            # After a gap, a reader who comes again goes on behind it.
            behind = 0 if item.reason is GapReason.ERASED else item.last
            return b"id: %d\nevent: gap\ndata: %b\n\n" % (behind, envelope.encode_value(item))
        case _:
            assert_never(item)


def _begin_after(request: Request) -> str | None:
    """Return where to begin: what the browser saw last, else what the page asks for, else from now on."""
    given = request.headers.get("last-event-id") or request.query_params.get("after")
    if given is not None and not _EVENT_ID.fullmatch(given):
        raise InvalidInput(field="after", problem="is not an id that an event had")
    return given
