"""Commands, subscriptions and events over one WebSocket, on the same port as everything else.

The caller is authenticated before the handshake is answered, and checked again while the socket is open. A bounded
number of commands runs at once; further frames are read when one finishes. Nothing accumulates for a slow reader: a
frame waits until there is space, and a reader that accepts none for too long is disconnected.
"""

import asyncio
import json
import logging
from collections import deque
from collections.abc import Coroutine
from typing import Any, Final, assert_never

from pydantic import TypeAdapter, ValidationError
from starlette.types import Receive, Scope, Send
from starlette.websockets import WebSocket, WebSocketDisconnect

from elytron.api.flat_calls import own_scope
from elytron_adapter import envelope
from elytron_adapter.access_keys import Principal
from elytron_adapter.dispatch import CallerAdmission
from elytron_adapter.envelope import (
    AcceptedAnswer,
    CallHeaders,
    CallOrigin,
    CallTransport,
    DuplicatedAnswer,
    QueuedAnswer,
    RejectedAnswer,
    asked_of,
    reject_error,
)
from elytron_adapter.http.open_streams import StreamGuard, require_caller, take_guard
from elytron_adapter.http.requests import AUDIT_ID
from elytron_adapter.http.responses import principal_of, request_id_of
from elytron_adapter.surface import Route, Surface, SurfaceProtocol, build_surfaces, own_app
from elytron_core import limits, strict_json
from elytron_core.contracts.events import (
    CloseCode,
    ErrorEvent,
    EventGap,
    EventProblem,
    FrameError,
    FrameId,
    InFrame,
    LifecycleEvent,
    OutFrame,
    StreamKind,
    SubscriptionPhase,
)
from elytron_core.errors import ElytronError, InvalidInput, InvalidJson, PayloadTooLarge, Unauthorized, Unsupported
from elytron_core.model import invalid_input
from elytron_core.scope import own_space
from elytron_http_shell.events import (
    ServerStreams,
    StreamBounds,
    event_surfaces,
    follower_entries,
    operation_of,
    payload_scope,
    subscribed_reports,
)

# A frame wraps a request, which may be as deep as over HTTP.
FRAME_DEPTH: Final = limits.JSON_DEPTH + 1


logger = logging.getLogger(__name__)

PATH = "/v1/ws"
COMMAND = "command."
SUBSCRIBE = "subscribe."
UNSUBSCRIBE = "unsubscribe"
_ID: TypeAdapter[str] = TypeAdapter(FrameId)


def websocket_surfaces(streams: ServerStreams, /) -> tuple[Surface, ...]:
    """Return the surface of the WebSocket."""

    async def serve(scope: Scope, receive: Receive, send: Send) -> None:
        with streams.place(principal_of(scope)):
            await SocketConnection(WebSocket(scope, receive, send), streams).run()

    route = Route(
        "GET", PATH, serve, "websocket", "Open a WebSocket for commands and events.",
        protocol=SurfaceProtocol.WEBSOCKET,
    )  # fmt: skip
    return build_surfaces((route,), own_app, transport=CallTransport.WSS.value)


class SocketConnection:
    """One WebSocket, from its handshake to its end."""

    def __init__(self, socket: WebSocket, streams: ServerStreams, /) -> None:
        self._socket = socket
        self._streams = streams
        self._bounds = streams.bounds
        self._principal: Principal = principal_of(socket.scope)
        self._request_id = request_id_of(socket.scope)
        self._places = asyncio.Semaphore(streams.bounds.at_once)
        self._commands: set[asyncio.Task[None]] = set()
        self._subscriptions: dict[str, asyncio.Task[None]] = {}
        # A locked space ends its subscriptions, not the socket, so this guard is for no space.
        runtime = streams.admission.dispatcher.runtime
        own_space_scope = own_scope(self._principal.space, runtime.scope)
        self._own_space = own_space_scope.space if own_space_scope is not None else None
        self._guard = take_guard(socket.scope).within(None)
        self._revoked = asyncio.Event()
        self._out = _FrameOutbox(waiting=streams.bounds.waiting, waiting_bytes=streams.bounds.waiting_bytes)

    async def run(self) -> None:
        """Serve the socket until its client leaves, its credential expires, or the server ends."""
        await self._socket.accept()
        await self._say(LifecycleEvent(phase=SubscriptionPhase.OPENED, principal=self._principal.id))
        write_task = asyncio.create_task(self._write())
        connection_tasks = [asyncio.create_task(self._read()), write_task, asyncio.create_task(self._watch())]
        finished_tasks, _ = await asyncio.wait(connection_tasks, return_when=asyncio.FIRST_COMPLETED)
        code = _close_code(next(iter(finished_tasks)))
        for task in (connection_tasks[0], connection_tasks[2], *self._subscriptions.values()):
            task.cancel()
        # No further command of a caller whose key has ended is run.
        if code is CloseCode.UNAUTHORIZED:
            for command in self._commands:
                command.cancel()
        if code in {None, CloseCode.SLOW_READER}:
            # No client reads the answers; a started command is finished nevertheless.
            await self._out.abandon()
        # Commands end before the closing frame, so that no answer follows it.
        await asyncio.gather(*self._commands, return_exceptions=True)
        await self._say(LifecycleEvent(phase=SubscriptionPhase.CLOSING))
        await self._out.end()
        await asyncio.gather(*connection_tasks, *self._subscriptions.values(), return_exceptions=True)
        if code is not None:
            await self._close(code)

    async def _close(self, code: CloseCode) -> None:
        try:
            async with asyncio.timeout(self._bounds.send_s):
                await self._socket.close(code, code.name.lower())
        except (TimeoutError, RuntimeError, WebSocketDisconnect):
            return  # it has gone, or accepts nothing more

    async def _watch(self) -> CloseCode:
        """Wait for, and return, the reason why the server ends the connection."""
        end_waiters = {
            asyncio.create_task(self._guard.ended(recheck_s=self._bounds.recheck_s)),
            asyncio.create_task(self._revoked.wait()),
        }
        try:
            finished_waiters, _ = await asyncio.wait(end_waiters, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in end_waiters:
                task.cancel()
        match next(iter(finished_waiters)).result():
            case None:
                return CloseCode.GOING_AWAY
            case True | Unauthorized():
                return CloseCode.UNAUTHORIZED
            case reason:
                await self._say(_error_event("", reject_error(reason, request_id=self._request_id)))
                return CloseCode.GOING_AWAY

    async def _write(self) -> CloseCode | None:
        """Send queued frames in order, until there are no more to come."""
        while (frame := await self._out.take()) is not None:
            try:
                async with asyncio.timeout(self._bounds.send_s):
                    await self._socket.send_text(frame)
            except TimeoutError:
                return CloseCode.SLOW_READER
            except (WebSocketDisconnect, RuntimeError):
                return None
        return None

    async def _read(self) -> CloseCode | None:
        """Receive frames until the client leaves, or sends one that is too big."""
        while True:
            # The slot comes first: without one, a frame stays unread in the socket.
            await self._places.acquire()
            message = await self._socket.receive()
            if message["type"] == "websocket.disconnect":
                return None
            data = message.get("text")
            frame = data.encode() if data is not None else message.get("bytes") or b""
            try:
                task = self._begin(_parse_frame(frame, limit=self._bounds.frame_bytes, space=self._own_space))
            except PayloadTooLarge:
                await self._refuse("", FrameError.FRAME_BUDGET_EXCEEDED, f"at most {self._bounds.frame_bytes} bytes")
                return CloseCode.FRAME_TOO_BIG
            except ElytronError as error:
                self._places.release()
                await self._say(_error_event(_id_of(frame), reject_error(error, request_id=self._request_id)))
                continue
            self._commands.add(task)
            task.add_done_callback(self._finished)

    def _finished(self, task: asyncio.Task[None]) -> None:
        self._commands.discard(task)
        self._places.release()

    def _begin(self, frame: InFrame) -> asyncio.Task[None]:
        """Return the work that `frame` requests. Raises Unsupported."""
        frame_work: Coroutine[Any, Any, None]
        if frame.type.startswith(COMMAND):
            frame_work = self._command(frame, frame.type.removeprefix(COMMAND))
        elif frame.type.startswith(SUBSCRIBE):
            frame_work = self._subscribe(frame, frame.type.removeprefix(SUBSCRIBE))
        elif frame.type == UNSUBSCRIBE:
            frame_work = self._unsubscribe(frame)
        else:
            raise Unsupported("unknown frame type: use command.<operation>, subscribe.<kind> or unsubscribe")
        return asyncio.create_task(frame_work)

    async def _command(self, frame: InFrame, operation: str) -> None:
        """Run a command, if its sender is still authenticated: a key may end at any time."""
        try:
            await require_caller(self._guard)
        except ElytronError as error:
            await self._say(_error_event(frame.id, reject_error(error, request_id=frame.id)))
            if isinstance(error, Unauthorized):
                self._revoked.set()
            return
        admission = self._streams.admission
        typed_request = asked_of(operation, frame.payload, space=self._own_space)
        answer = await admission.call(
            self._principal,
            origin=CallOrigin(CallTransport.WSS),
            operation=typed_request.operation,
            request_id=frame.id,
            payload=json.dumps(typed_request.request).encode(),
            headers=CallHeaders(idempotency_key=frame.idempotency_key, audit_id=self._socket.headers.get(AUDIT_ID)),
        )
        match answer:
            case AcceptedAnswer() | DuplicatedAnswer() | QueuedAnswer():
                await self._out.put(
                    _report_frame(frame.id, operation, answer.kind, envelope.encode_value(answer.report))
                )
            case RejectedAnswer():
                await self._say(_error_event(frame.id, answer))
            case _:
                assert_never(answer)

    async def _subscribe(self, frame: InFrame, kind: str) -> None:
        if frame.id in self._subscriptions:
            refusal = InvalidInput(field="id", problem="is already used by an open subscription: choose another")
            await self._say(_error_event(frame.id, reject_error(refusal, request_id=frame.id)))
            return
        if len(self._subscriptions) >= self._bounds.subscriptions:
            limit_problem = f"at most {self._bounds.subscriptions} concurrent subscriptions: end one first"
            await self._refuse(frame.id, FrameError.SUBSCRIPTION_BUDGET_EXCEEDED, limit_problem)
            return
        stream_kind = next((stream for stream in StreamKind if stream == kind), None)
        if stream_kind is None or (stream_kind is not StreamKind.EVENTS and operation_of(stream_kind) is None):
            stream_names = ", ".join(
                stream for stream in StreamKind if stream is StreamKind.EVENTS or operation_of(stream)
            )
            await self._refuse(frame.id, FrameError.UNSUPPORTED_SUBSCRIPTION, f"this server has {stream_names}")
            return
        self._subscriptions[frame.id] = asyncio.create_task(self._follow(frame, stream_kind))

    async def _unsubscribe(self, frame: InFrame) -> None:
        task = self._subscriptions.pop(frame.id, None)
        if task is not None:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
        await self._say(LifecycleEvent(id=frame.id, phase=SubscriptionPhase.UNSUBSCRIBED))

    async def _follow(self, frame: InFrame, kind: StreamKind) -> None:
        """Send a subscription's items until it is ended, or rejected."""
        try:
            if kind is StreamKind.EVENTS:
                await self._send_entries(frame)
            else:
                await self._send_reports(frame, kind)
        except Exception as error:  # noqa: BLE001 - the border: every end of a subscription is reported
            _log_fault(error, frame.id)
            await self._say(_error_event(frame.id, reject_error(error, request_id=frame.id)))
        finally:
            # The id may belong to a newer subscription by now.
            if self._subscriptions.get(frame.id) is asyncio.current_task():
                del self._subscriptions[frame.id]

    async def _send_entries(self, frame: InFrame) -> None:
        space = self._streams.admission.space_of(self._principal, frame.scope)
        start_position = str(frame.after) if frame.after is not None else None
        follower = self._streams.journals.follow(space)
        gap = await follower.begin(start_position)
        position = start_position if start_position is not None else follower.place
        space_guard = self._guard.within(space)
        await self._say(LifecycleEvent(id=frame.id, phase=SubscriptionPhase.SUBSCRIBED, after=position))
        async for item in follower_entries(follower, gap):
            await self._require_open(space_guard)
            if isinstance(item, EventGap):
                await self._say(LifecycleEvent(id=frame.id, phase=SubscriptionPhase.GAP, gap=item))
                continue
            await self._out.put(
                _report_frame(
                    frame.id,
                    "events",
                    "accepted",
                    envelope.encode_value(item),
                    sequence=item.sequence,
                    event_id=item.id,
                )
            )

    async def _send_reports(self, frame: InFrame, kind: StreamKind) -> None:
        operation = operation_of(kind)
        assert operation is not None
        if not isinstance(frame.after, int | None):
            raise InvalidInput(field="after", problem="must be a sequence number for reports")
        space_guard = self._guard.within(
            self._streams.admission.space_of(self._principal, payload_scope(frame.payload, space=self._own_space))
        )
        await self._say(LifecycleEvent(id=frame.id, phase=SubscriptionPhase.SUBSCRIBED))
        async for item in subscribed_reports(
            self._streams,
            self._principal,
            operation=operation,
            payload=frame.payload,
            request_id=frame.id,
            after=frame.after or 0,
        ):
            if isinstance(item, RejectedAnswer):
                await self._say(_error_event(frame.id, item))
                return
            await self._require_open(space_guard)
            await self._out.put(_report_frame(frame.id, operation, "accepted", item.report, sequence=item.sequence))

    async def _require_open(self, guard: StreamGuard) -> None:
        """Raise the reason why a subscription may not send its next event; a revoked key ends the socket too."""
        reason = await guard.ends()
        if isinstance(reason, Unauthorized):
            self._revoked.set()
        if reason is not None:
            raise reason

    async def _refuse(self, frame_id: str, key: FrameError, detail: str) -> None:
        await self._say(ErrorEvent(id=frame_id, error=EventProblem(code=key, detail=detail)))

    async def _say(self, frame: OutFrame) -> None:
        await self._out.put(envelope.encode_value(frame).decode())


def _log_fault(error: Exception, frame_id: str) -> None:
    """Log an internal fault without its message, which may repeat what a caller gave."""
    if not isinstance(error, ElytronError):
        logger.error("request %s: a subscription failed: %s", frame_id, type(error).__name__)


def _close_code(ended: "asyncio.Task[CloseCode | None]") -> CloseCode | None:
    """Return why a connection ends; an internal fault is logged and ends it too."""
    error = ended.exception()
    if error is None:
        return ended.result()
    logger.error("a WebSocket failed: %s", type(error).__name__)
    return CloseCode.INTERNAL


class _FrameOutbox:
    """A bounded queue of outgoing frames, in order; senders wait when it is full."""

    def __init__(self, *, waiting: int, waiting_bytes: int) -> None:
        self._frames: deque[str] = deque()
        self._bytes = 0
        self._most = waiting
        self._most_bytes = waiting_bytes
        self._changed = asyncio.Condition()
        self._is_abandoned = False
        self._is_ended = False

    async def put(self, frame: str, /) -> None:
        """Queue `frame` when there is room; it is dropped if no client takes frames any more."""
        async with self._changed:
            await self._changed.wait_for(self._has_room)
            if not self._is_abandoned:
                self._frames.append(frame)
                self._bytes += len(frame)
                self._changed.notify_all()

    async def take(self) -> str | None:
        """Return the next frame, or None after the last."""
        async with self._changed:
            await self._changed.wait_for(lambda: bool(self._frames) or self._is_ended or self._is_abandoned)
            if not self._frames:
                return None
            frame = self._frames.popleft()
            self._bytes -= len(frame)
            self._changed.notify_all()
            return frame

    async def abandon(self) -> None:
        """Drop waiting and later frames."""
        async with self._changed:
            self._frames.clear()
            self._is_abandoned = True
            self._changed.notify_all()

    async def end(self) -> None:
        """Let `take` return None once waiting frames have been taken."""
        async with self._changed:
            self._is_ended = True
            self._changed.notify_all()

    def _has_room(self) -> bool:
        return self._is_abandoned or (len(self._frames) < self._most and self._bytes < self._most_bytes)


def _parse_frame(data: bytes, *, limit: int, space: str | None) -> InFrame:
    """Return the frame in `data` of a caller of `space`, parsed as strictly as a request.

    Raises PayloadTooLarge, InvalidJson, InvalidInput.
    """
    parsed = strict_json.parse_json(data, limit=limit, depth=FRAME_DEPTH)
    if not isinstance(parsed, dict):
        raise InvalidJson(problem="is not an object")
    try:
        return InFrame.__pydantic_validator__.validate_json(data, strict=True, context=own_space(space))
    except ValidationError as error:
        raise invalid_input(error, model=InFrame, names=InFrame.model_fields) from None


def _id_of(data: bytes) -> str:
    """Return the id of a message that is not a frame, so that its sender can identify it; empty if it has none."""
    try:
        parsed = strict_json.parse_json(data, depth=FRAME_DEPTH)
        return _ID.validate_python(parsed["id"]) if isinstance(parsed, dict) else ""
    except (ElytronError, ValidationError, KeyError):
        return ""


def _error_event(frame_id: str, rejection: RejectedAnswer) -> ErrorEvent:
    problem = EventProblem(
        code=rejection.error_key,
        seed_key=rejection.seed_key,
        detail=rejection.reason,
        retryable=rejection.retryable,
        details=rejection.details,
    )
    return ErrorEvent(id=frame_id, error=problem)


def _report_frame(
    frame_id: str,
    operation: str,
    outcome: str,
    report: bytes,
    *,
    sequence: int | None = None,
    event_id: str | None = None,
) -> str:
    """Return a report's frame as JSON. `report` is JSON already and is not parsed again."""
    frame_fields: dict[str, str | int] = {
        "type": "event.report",
        "id": frame_id,
        "operation": operation,
        "outcome": outcome,
    }
    if sequence is not None:
        frame_fields["sequence"] = sequence
    if event_id is not None:
        frame_fields["event_id"] = event_id
    return f'{json.dumps(frame_fields)[:-1]}, "report": {report.decode()}}}'


def stream_surfaces(admission: CallerAdmission, /, *, bounds: StreamBounds | None = None) -> tuple[Surface, ...]:
    """Return the surfaces at `/v1/events` and `/v1/ws`."""
    server_streams = ServerStreams(admission, bounds=bounds)
    return (*event_surfaces(server_streams), *websocket_surfaces(server_streams))
