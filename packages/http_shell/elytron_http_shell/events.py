"""Events of a space: subscriptions to its journal or to a report, and the journal as server-sent events.

A report is computed again whenever the journal has grown and covers everything committed up to its sequence, so a burst
of commits yields one report. It passes the same checks as a command: decoded, authorised, within the caller's limits.

An EventSource cannot send headers, and a key in a URL ends up in logs. A page therefore first opens a session with its
key (`POST /v1/events/session`). The resulting cookie opens only this route, is sent only by pages of this origin,
cannot be read by scripts, and ends after an hour or with the key. Every server of the store accepts it.
"""

import asyncio
import json
import re
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing
from dataclasses import dataclass
from typing import Final, assert_never, cast

from pydantic import JsonValue, ValidationError
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Receive, Send
from starlette.types import Scope as AsgiScope

from elytron.journal.follower import JournalFollower, StoreJournals, entry_pages
from elytron.registry import WIRE_OPERATIONS
from elytron_adapter import envelope
from elytron_adapter.access_keys import Principal
from elytron_adapter.dispatch import CallerAdmission, OpenStreams
from elytron_adapter.envelope import (
    AcceptedAnswer,
    CallOrigin,
    CallTransport,
    DuplicatedAnswer,
    RejectedAnswer,
    reject_error,
)
from elytron_adapter.http.open_streams import guarded_items, take_guard
from elytron_adapter.http.requests import query_scope
from elytron_adapter.http.responses import principal_of, problem_document, request_app, request_id_of
from elytron_adapter.sessions import CookieSessions, SessionCookie
from elytron_adapter.surface import Route, Surface, build_surfaces, own_app
from elytron_core import limits
from elytron_core.contracts.events import EVENT_ID_PATTERN, EventGap, GapReason, JournalEvent, StreamKind
from elytron_core.contracts.inspection import LedgerOrder, MemoryReplayReport
from elytron_core.errors import ElytronError, InvalidInput
from elytron_core.model import Value, invalid_input
from elytron_core.scope import Scope, own_space

FRAMES_AT_ONCE: Final = 64
"""Commands of one WebSocket that run together; further frames are not read until one is done."""
FRAMES_WAITING: Final = 256
"""Frames that may wait for a slow reader before it is cut off."""
FRAMES_WAITING_BYTES: Final = 8 * 1024 * 1024
STREAMS_PER_PRINCIPAL: Final = 64
EVENTS_RETRY_MS: Final = 2_000
EVENT_SESSION_S: Final = 3_600.0
EVENT_SESSIONS: Final = 1_000
EVENT_SESSIONS_EACH: Final = 16


REPORTS: dict[StreamKind, str] = {
    StreamKind.PROJECTION: "project",
    StreamKind.INSPECTION: "inspect",
    StreamKind.REPLAY: "replay",
    StreamKind.CAPABILITY: "capabilities",
}
"""The operation whose report a kind of subscription sends."""
QUIET = frozenset({"projection"})
"""Actions that change nothing in a report: recording that something was shown must not show it again."""


@dataclass(frozen=True, slots=True)
class StreamBounds:
    """Limits of a stream, and the interval of its checks."""

    frame_bytes: int = limits.FRAME_BYTES
    at_once: int = FRAMES_AT_ONCE
    waiting: int = FRAMES_WAITING
    waiting_bytes: int = FRAMES_WAITING_BYTES
    send_s: float = limits.FRAME_SEND_S
    subscriptions: int = limits.SUBSCRIPTIONS
    each: int = STREAMS_PER_PRINCIPAL
    recheck_s: float = limits.STREAM_RECHECK_S
    heartbeat_s: float = limits.EVENTS_HEARTBEAT_S
    poll_s: float = limits.EVENTS_POLL_S


class ServerStreams:
    """State shared by the streams of one server: the entrance, the journals, and a count per principal."""

    def __init__(self, admission: CallerAdmission, /, *, bounds: StreamBounds | None = None) -> None:
        context = admission.dispatcher.runtime.context
        self.admission = admission
        budget = context.profile.budget
        self.bounds = bounds or StreamBounds(frame_bytes=budget.http_body_bytes, subscriptions=budget.subscriptions)
        self.journals = StoreJournals(context.store, context.commits, poll_s=self.bounds.poll_s)
        self.place = OpenStreams(admission, each=self.bounds.each).place


@dataclass(frozen=True, slots=True)
class ReportedState:
    """A report as JSON, and the journal's sequence that it covers."""

    sequence: int
    report: bytes


def operation_of(kind: StreamKind, /) -> str | None:
    """Return the operation of `kind`, or None if this server has none."""
    operation_name = REPORTS.get(kind)
    return operation_name if any(operation.name == operation_name for operation in WIRE_OPERATIONS) else None


async def subscribed_reports(
    streams: ServerStreams,
    principal: Principal,
    /,
    *,
    operation: str,
    payload: dict[str, JsonValue],
    request_id: str,
    after: int,
) -> AsyncIterator[ReportedState | RejectedAnswer]:
    """Yield the report of `operation` now, if the journal is beyond `after`, and each time it has grown.

    A refusal is the last that is yielded.
    """
    admission = streams.admission
    follower = streams.journals.follow(admission.space_of(principal, payload_scope(payload, space=principal.space)))
    await follower.begin(None)
    # A space without any writes has a report too.
    is_report_due = follower.sequence > after or after == 0
    while True:
        if is_report_due:
            # The position first, then the report: it may know more than it claims to cover, never less.
            covered_sequence = follower.sequence
            answer = await admission.call(
                principal,
                origin=CallOrigin(CallTransport.WSS),
                operation=operation,
                request_id=request_id,
                payload=json.dumps(payload).encode(),
            )
            match answer:
                case AcceptedAnswer(report=report) | DuplicatedAnswer(report=report):
                    if _says_something(report):
                        yield ReportedState(covered_sequence, envelope.encode_value(report))
                    payload = _next_request(payload, report)
                    is_report_due = isinstance(report, MemoryReplayReport) and report.has_more
                case RejectedAnswer():
                    yield answer
                    return
                case _:
                    return
            continue
        events = await follower.next()
        is_report_due = isinstance(events, EventGap) or any(event.action not in QUIET for event in events)


async def follower_entries(
    follower: JournalFollower, gap: EventGap | None, /
) -> AsyncGenerator[JournalEvent | EventGap]:
    """Yield the entries after the position of an open reader, and the gaps; `gap` opened as it began."""
    async for page in entry_pages(follower, gap):
        if isinstance(page, EventGap):
            yield page
            continue
        for event in page:
            yield event


def payload_scope(payload: dict[str, JsonValue], /, *, space: str | None) -> Scope | None:
    """Return the scope in a report's request by a caller of `space`, None without one. Raises InvalidInput."""
    if payload.get("scope") is None:
        return None
    try:
        return Scope.model_validate(payload["scope"], context=own_space(space))
    except ValidationError as error:
        raise invalid_input(error, model=Scope, names=Scope.model_fields) from None


def _says_something(report: Value) -> bool:
    return not isinstance(report, MemoryReplayReport) or bool(report.turns)


def _next_request(payload: dict[str, JsonValue], report: Value) -> dict[str, JsonValue]:
    """Return the next request: a replay continues after the last sent turn."""
    if isinstance(report, MemoryReplayReport) and report.turns:
        return {**payload, "cursor": cast("str", report.turns[-1].id), "order": LedgerOrder.FIRST.value}
    return payload


COOKIE = "elytron_events"
PATH = "/v1/events"
# A proxy such as nginx would otherwise buffer events.
_HEADERS = [(b"content-type", b"text/event-stream; charset=utf-8"), (b"x-accel-buffering", b"no")]
SESSION_COOKIE = SessionCookie(COOKIE, PATH, EVENT_SESSION_S, EVENT_SESSIONS, EVENT_SESSIONS_EACH)
_EVENT_ID = re.compile(EVENT_ID_PATTERN.strip("^$"))


def event_surfaces(streams: ServerStreams, /) -> tuple[Surface, ...]:
    """Return the stream of events, and the session that lets an EventSource connect."""
    sessions = CookieSessions(streams.admission.dispatcher.runtime.context, SESSION_COOKIE)

    async def session(request: Request) -> Response:
        answer = Response(status_code=204)
        authorization = request.headers.get("authorization")
        if authorization is not None:
            answer.set_cookie(
                COOKIE,
                await sessions.open(principal_of(request.scope).id, authorization),
                max_age=int(EVENT_SESSION_S),
                path=PATH,
                secure=request.url.scheme == "https",
                httponly=True,
                samesite="strict",
            )
        return answer

    stream = Route(
        "GET", PATH, EventStream(streams), "events", "Follow a space's journal as server-sent events.", None,
        "text/event-stream", headers=("Last-Event-ID",), query=("after", "space"),
        outcome="Events `entry`, `gap` and `error`, until the client disconnects.",
    )  # fmt: skip
    cookie = Route(
        "POST", f"{PATH}/session", session, "events_session", "Set the cookie that authorizes a page's EventSource.",
        outcome="The cookie, which is valid only for the event stream.", status=204,
    )  # fmt: skip
    return (
        *build_surfaces((stream,), own_app, transport=CallTransport.HTTP.value, credential=sessions.credential),
        *build_surfaces((cookie,), request_app),
    )


class EventStream:
    """Answers with the journal after `Last-Event-ID` (or `?after=`), and then with new entries."""

    def __init__(self, streams: ServerStreams, /) -> None:
        self._streams = streams

    async def __call__(self, scope: AsgiScope, receive: Receive, send: Send) -> None:
        request = Request(scope)
        start_position = _begin_after(request)
        space = self._streams.admission.space_of(principal_of(scope), query_scope(request.query_params))
        with self._streams.place(principal_of(scope)):
            # Started before anything is answered: a client that sees the stream open misses nothing from then on.
            follower = self._streams.journals.follow(space)
            items = follower_entries(follower, await follower.begin(start_position))
            position = start_position or follower.place
            guard = take_guard(scope)
            guard.space = space
            bounds = self._streams.bounds
            guarded_entries = guarded_items(
                guard, items, receive, silence_s=bounds.heartbeat_s, recheck_s=bounds.recheck_s
            )
            try:
                opening_frame = b"retry: %d\nid: %b\n\n" % (EVENTS_RETRY_MS, position.encode())
                await self._send(send, opening_frame, begins=True)
                async with aclosing(guarded_entries):
                    async for item in guarded_entries:
                        await self._send(send, _event_line(item, request_id=request_id_of(scope)))
                await send({"type": "http.response.body", "body": b"", "more_body": False})
            except TimeoutError:
                return  # no reader: the server closes the connection
            finally:
                await items.aclose()

    async def _send(self, send: Send, data: bytes, *, begins: bool = False) -> None:
        """Send `data`. Raises TimeoutError if the reader accepts nothing for too long."""
        async with asyncio.timeout(self._streams.bounds.send_s):
            if begins:
                await send({"type": "http.response.start", "status": 200, "headers": _HEADERS})
            await send({"type": "http.response.body", "body": data, "more_body": True})


def _event_line(item: JournalEvent | EventGap | ElytronError | None, *, request_id: str) -> bytes:
    """Return `item` as an event; its data is JSON on one line, so nothing in it can end the event."""
    match item:
        case None:
            return b": still here\n\n"
        case ElytronError():
            problem = problem_document(reject_error(item, request_id=request_id))
            return b"event: error\ndata: %b\n\n" % envelope.encode_value(problem)
        case JournalEvent():
            return b"id: %b\nevent: entry\ndata: %b\n\n" % (item.id.encode(), envelope.encode_value(item))
        case EventGap():
            # After a gap, a returning reader continues after it.
            last_sequence = 0 if item.reason is GapReason.ERASED else item.last
            return b"id: %d\nevent: gap\ndata: %b\n\n" % (last_sequence, envelope.encode_value(item))
        case _:
            assert_never(item)


def _begin_after(request: Request) -> str | None:
    """Return where to begin: the browser's last event, else what the page requests, else now."""
    event_id = request.headers.get("last-event-id") or request.query_params.get("after")
    if event_id is not None and not _EVENT_ID.fullmatch(event_id):
        raise InvalidInput(field="after", problem="is not the id of an event")
    return event_id
