"""MCP over stdio for one local user, read strictly."""

import asyncio
import json
import os
import signal
import sys
import threading
from collections.abc import Awaitable, Callable, Generator
from contextlib import contextmanager, suppress
from pathlib import Path
from queue import SimpleQueue
from types import TracebackType
from typing import TYPE_CHECKING, Any, BinaryIO, Self, cast

from elytron.runtime import MemoryRuntime
from elytron_adapter.access_keys import DevelopmentCallers, Principal
from elytron_adapter.dispatch import CallerAdmission, OperationDispatcher
from elytron_adapter.envelope import AuthKind
from elytron_core import strict_json
from elytron_core.errors import ElytronError, InvalidJson
from elytron_core.planes.servers.system_documents import PrincipalKind
from elytron_mcp_shell.app import admission_shell, require_message, same_principal
from elytron_mcp_shell.tools import DEFAULT_SETS, ToolSet

if TYPE_CHECKING:
    import mcp_types as types
    from mcp.server import Server
    from mcp.shared._stream_protocols import WriteStream
    from mcp.shared.message import SessionMessage


Refuse = Callable[["types.JSONRPCError"], Awaitable[None]]


_SIGNALS = (signal.SIGINT, signal.SIGTERM)


_ANSWERS_S = 60.0
"""Time for the answers to calls that came before the end of the input."""


class InputLines:
    """The messages from `source`, until it ends or `end` is called; `refuse`, once set, answers invalid ones.

    The SDK leaves unanswered what it cannot read, and its host waits. It also drops running calls when the input ends,
    so it learns of the end only when all calls were answered. `source` is read by a thread that is not joined, because
    a read without input cannot be cancelled otherwise.
    """

    def __init__(self, source: BinaryIO, /, *, limit: int) -> None:
        self.refuse: Refuse | None = None
        self._source = source
        self._limit = limit
        self._loop = asyncio.get_running_loop()
        self._read_requests: SimpleQueue[None] = SimpleQueue()
        self._next: asyncio.Future[bytes] = self._loop.create_future()
        self._is_ended = False
        self._calls: set[types.RequestId] = set()
        self._answered = asyncio.Event()
        threading.Thread(target=self._read, name="elytron stdin", daemon=True).start()

    def end(self) -> None:
        """Return no more lines, as if the host had hung up."""
        self._is_ended = True
        self._calls.clear()
        self._answered.set()
        self._give(b"")

    def answer(self, message: "types.JSONRPCMessage", /) -> None:
        """Record that `message` was written: the answer to a call, or any other message."""
        import mcp_types as types

        if isinstance(message, types.JSONRPCResponse | types.JSONRPCError) and message.id is not None:
            self._calls.discard(message.id)
            self._answered.set()

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> str:
        while line := await self._line():
            line = line.strip()
            if not line:
                continue
            try:
                message = strict_json.parse_json(line, limit=self._limit)
                require_message(message)
            except ElytronError as error:
                assert self.refuse is not None
                await self.refuse(_refusal_of(line, error))
                continue
            self._note(cast("dict[str, Any]", message))
            return line.decode()
        with suppress(TimeoutError):
            async with asyncio.timeout(_ANSWERS_S):
                while self._calls:
                    self._answered.clear()
                    await self._answered.wait()
        raise StopAsyncIteration

    def _note(self, message: "dict[str, Any]") -> None:
        """Record a received call, or that one was cancelled and may get no answer."""
        if message.get("method") == "notifications/cancelled":
            self._calls.discard(cast("dict[str, Any]", message.get("params") or {}).get("requestId", ""))
        elif "method" in message and message.get("id") is not None:
            self._calls.add(message["id"])

    async def _line(self) -> bytes:
        if self._is_ended:
            return b""
        self._next = self._loop.create_future()
        # Lines are read on request, so that a host that sends many fills no memory.
        self._read_requests.put(None)
        return await self._next

    def _give(self, line: bytes) -> None:
        if not self._next.done():
            self._next.set_result(line)

    def _read(self) -> None:
        line = b"\n"
        while line:
            self._read_requests.get()
            try:
                # One byte beyond the limit shows that a line is too long.
                line = line_rest = self._source.readline(self._limit + 1)
                while line_rest and not line_rest.endswith(b"\n"):
                    line_rest = self._source.readline(self._limit)  # of a line that is too long, the beginning is kept
            except (OSError, ValueError):  # a closed terminal or file
                line = b""
            with suppress(RuntimeError):  # the loop ended meanwhile
                self._loop.call_soon_threadsafe(self._give, line)


@contextmanager
def own_stdin() -> Generator[BinaryIO]:
    """Yield the process's standard input, which is empty for all other readers meanwhile: children would consume it."""
    if sys.stdin is None:  # the host gave none, and its descriptor belongs to another file by now
        with Path(os.devnull).open("rb") as null_file:
            yield null_file
        return
    private_input = os.dup(0)
    empty_input = os.open(os.devnull, os.O_RDONLY)
    os.dup2(empty_input, 0)
    os.close(empty_input)
    try:
        # Never closed: a thread may still be reading from it.
        yield os.fdopen(private_input, "rb", closefd=False)
    finally:
        os.dup2(private_input, 0)


@contextmanager
def at_signals(end: Callable[[], None], /) -> Generator[None]:
    """Make SIGINT and SIGTERM call `end`, the first time; the second has its usual effect."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    event_loop = asyncio.get_running_loop()
    previous_handlers: dict[signal.Signals, Any] = {}

    def restore() -> None:
        for signal_number, handler in previous_handlers.items():
            signal.signal(signal_number, handler)

    def ends(_number: int, _frame: object) -> None:
        restore()
        event_loop.call_soon_threadsafe(end)

    previous_handlers |= {number: signal.signal(number, ends) for number in _SIGNALS}
    try:
        yield
    finally:
        restore()


class NotedAnswers:
    """A stream of messages to a client that calls `note` for each one once it was taken."""

    def __init__(
        self, stream: "WriteStream[SessionMessage]", note: Callable[["types.JSONRPCMessage"], None], /
    ) -> None:
        self._stream = stream
        self._note = note

    async def send(self, item: "SessionMessage", /) -> None:
        """Send a message."""
        await self._stream.send(item)
        self._note(item.message)

    async def aclose(self) -> None:
        """Close the stream."""
        await self._stream.aclose()

    async def __aenter__(self) -> Self:
        await self._stream.__aenter__()
        return self

    async def __aexit__(
        self, exc_type: type[BaseException] | None, exc_val: BaseException | None, exc_tb: TracebackType | None
    ) -> bool | None:
        return await self._stream.__aexit__(exc_type, exc_val, exc_tb)


def as_file(lines: InputLines, /) -> Any:
    """Return `lines` in the form for the SDK, which only iterates over the file's lines."""
    return cast("Any", lines)


def _refusal_of(line: bytes, error: ElytronError) -> "types.JSONRPCError":
    import mcp_types as types

    code = types.PARSE_ERROR if isinstance(error, InvalidJson) else types.INVALID_REQUEST
    problem = types.ErrorData(code=code, message=str(error))
    return types.JSONRPCError(jsonrpc="2.0", id=_id_of(line), error=problem)


def _id_of(line: bytes) -> "types.RequestId | None":
    """Return a message's id, if it is readable."""
    try:
        message: object = json.loads(line)
    except (ValueError, RecursionError):
        return None
    message_id = cast("dict[str, object]", message).get("id") if isinstance(message, dict) else None
    # In Python True is an int, but it is not an id of JSON-RPC.
    return message_id if isinstance(message_id, str) or type(message_id) is int else None


def mcp_server(
    memory: MemoryRuntime,
    /,
    *,
    sets: frozenset[ToolSet] = DEFAULT_SETS,
    is_operator: bool = False,
    is_private: bool = False,
) -> "Server[Any]":
    """Return the SDK's server over `memory` for one local user: one space, and with `is_operator` the machine's too.

    With `is_private`, the model may ask for private memories.

    Raises MissingExtra without the extra "mcp".
    """
    kind = PrincipalKind.OPERATOR if is_operator else PrincipalKind.USER
    space = memory.scope.space if memory.scope is not None and not is_operator else None
    local_principal = Principal("local", kind, space)
    admission = CallerAdmission(OperationDispatcher(memory), authenticator=DevelopmentCallers())
    return admission_shell(
        admission, sets=sets, who=same_principal(local_principal), kind=AuthKind.LOCAL, is_private=is_private
    ).server()


async def serve_stdio(
    memory: MemoryRuntime,
    /,
    *,
    sets: frozenset[ToolSet] = DEFAULT_SETS,
    is_operator: bool = False,
    is_private: bool = False,
) -> None:
    """Serve stdin and stdout until the host disconnects or a signal ends it; only the protocol is printed."""
    server = mcp_server(memory, sets=sets, is_operator=is_operator, is_private=is_private)
    from mcp.server.stdio import stdio_server
    from mcp.shared.message import SessionMessage

    with own_stdin() as source:
        lines = InputLines(source, limit=memory.context.profile.budget.http_body_bytes)
        with at_signals(lines.end):
            async with stdio_server(as_file(lines)) as (incoming_messages, outgoing_messages):
                lines.refuse = lambda error: outgoing_messages.send(SessionMessage(error))
                noted_answers = NotedAnswers(outgoing_messages, lines.answer)
                await server.run(incoming_messages, noted_answers, server.create_initialization_options())
