"""Standard input as the SDK wants it: line by line, read strictly, and left at a signal. It loads without the SDK."""

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
from typing import TYPE_CHECKING, Any, BinaryIO, Self, cast

from pydantic import ValidationError

from elytron_core import strict_json
from elytron_core.errors import ElytronError, InvalidInput, InvalidJson
from elytron_core.strict_json import Json

if TYPE_CHECKING:
    import mcp_types as types


def require_message(sent: Json, /) -> None:
    """Raise InvalidInput for what is no JSON-RPC message: the SDK would answer it with what it read."""
    from mcp_types import jsonrpc_message_adapter

    try:
        jsonrpc_message_adapter.validate_python(sent, by_name=False)
    except ValidationError:
        raise InvalidInput(field="body", problem="is no JSON-RPC message") from None


Refuse = Callable[["types.JSONRPCError"], Awaitable[None]]
_SIGNALS = (signal.SIGINT, signal.SIGTERM)


class InputLines:
    """The messages that come from `source`, until it ends or `end` is called; `refuse`, once it is set, answers others.

    The SDK leaves unanswered what it cannot read, and its host waits. `source` is read by a thread that is not joined,
    because a read without input cannot be cancelled in another way.
    """

    def __init__(self, source: BinaryIO, /, *, limit: int) -> None:
        self.refuse: Refuse | None = None
        self._source = source
        self._limit = limit
        self._loop = asyncio.get_running_loop()
        self._wanted: SimpleQueue[None] = SimpleQueue()
        self._next: asyncio.Future[bytes] = self._loop.create_future()
        self._is_ended = False
        threading.Thread(target=self._read, name="elytron stdin", daemon=True).start()

    def end(self) -> None:
        """Give no more lines, as if the host had hung up."""
        self._is_ended = True
        self._give(b"")

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> str:
        while line := await self._line():
            line = line.strip()
            if not line:
                continue
            try:
                require_message(strict_json.parse_json(line, limit=self._limit))
            except ElytronError as error:
                assert self.refuse is not None
                await self.refuse(_refusal_of(line, error))
                continue
            return line.decode()
        raise StopAsyncIteration

    async def _line(self) -> bytes:
        if self._is_ended:
            return b""
        self._next = self._loop.create_future()
        self._wanted.put(None)
        return await self._next

    def _give(self, line: bytes) -> None:
        if not self._next.done():
            self._next.set_result(line)

    def _read(self) -> None:
        line = b"\n"
        while line:
            self._wanted.get()
            try:
                line = rest = self._source.readline(self._limit + 1)
                while rest and not rest.endswith(b"\n"):
                    rest = self._source.readline(self._limit)  # of a line that is too long, the beginning is kept
            except (OSError, ValueError):  # a terminal that has gone, or a file that was closed
                line = b""
            with suppress(RuntimeError):  # the loop ended meanwhile
                self._loop.call_soon_threadsafe(self._give, line)


@contextmanager
def own_stdin() -> Generator[BinaryIO]:
    """Give the process's standard input, which is empty for all other readers meanwhile: children would consume it."""
    if sys.stdin is None:  # the host gave none, and its number is another file's by now
        with Path(os.devnull).open("rb") as nothing:
            yield nothing
        return
    private = os.dup(0)
    empty = os.open(os.devnull, os.O_RDONLY)
    os.dup2(empty, 0)
    os.close(empty)
    try:
        # Never closed: a thread may still be reading from it.
        yield os.fdopen(private, "rb", closefd=False)
    finally:
        os.dup2(private, 0)


@contextmanager
def at_signals(end: Callable[[], None], /) -> Generator[None]:
    """Have SIGINT and SIGTERM call `end`, the first time; the second does what it did before."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    loop = asyncio.get_running_loop()
    before: dict[signal.Signals, Any] = {}

    def restore() -> None:
        for number, handler in before.items():
            signal.signal(number, handler)

    def ends(_number: int, _frame: object) -> None:
        restore()
        loop.call_soon_threadsafe(end)

    before |= {number: signal.signal(number, ends) for number in _SIGNALS}
    try:
        yield
    finally:
        restore()


def as_file(lines: InputLines, /) -> Any:
    """Return `lines` as what the SDK takes: of a file it asks for nothing but its lines."""
    return cast("Any", lines)


def _refusal_of(line: bytes, error: ElytronError) -> "types.JSONRPCError":
    import mcp_types as types

    code = types.PARSE_ERROR if isinstance(error, InvalidJson) else types.INVALID_REQUEST
    told = types.ErrorData(code=code, message=str(error))
    return types.JSONRPCError(jsonrpc="2.0", id=_id_of(line), error=told)


def _id_of(line: bytes) -> "types.RequestId | None":
    """Return the id that a message was sent under, if it can be read."""
    try:
        sent: object = json.loads(line)
    except (ValueError, RecursionError):
        return None
    found = cast("dict[str, object]", sent).get("id") if isinstance(sent, dict) else None
    return found if isinstance(found, str) or type(found) is int else None
