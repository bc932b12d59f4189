"""Connections to a Postgres server: how they are made, shared and checked, and what their errors mean."""

import asyncio
import os
import select
import socket
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable, Sequence
from contextlib import asynccontextmanager, suppress
from itertools import chain
from struct import Struct
from struct import error as StructError  # noqa: N812 - a name that says whose error it is
from typing import Any, Final, NamedTuple, TypeVar

import psycopg
from psycopg.abc import Buffer
from psycopg.adapt import AdaptersMap, Dumper
from psycopg.pq import Format, TransactionStatus
from psycopg.types.numeric import Int8

from elytron_core.errors import (
    ElytronError,
    InvalidInput,
    OutcomeUnknown,
    StoreBusy,
    StoreClosed,
    StoreCrowded,
    StoreDeadlock,
    StoreError,
    StoreFull,
    StoreReadOnly,
    StoreRefused,
    StoreTimeout,
    StoreUnavailable,
    StoreUrlInvalid,
    Unsupported,
)
from elytron_store import limits as store_limits
from elytron_store.postgres.address import ENGINE, PostgresAddress

POSTGRES_WAIT_S: Final = 1.5
"""Time limit of a connection to a Postgres server."""
POSTGRES_AGAIN_S: Final = 0.25
"""Time after a failed connection in which calls are refused without trying another."""
POSTGRES_SILENT_S: Final = 0.5
POSTGRES_LOOK_S: Final = 3.0
"""Time after which the server of a statement without an answer is looked at, and then again while it answers others."""
POSTGRES_SILENT_WAIT_S: Final = 1.2
"""Time in which a server that is looked at has to take a connection."""


T = TypeVar("T")
Connection = psycopg.AsyncConnection[tuple[Any, ...]]
Row = tuple[Any, ...]
Result = psycopg.AsyncCursor[Row]

_PREPARED = 512
"""Prepared statements per connection: some for each partition."""
_HEADER = Struct("!iiIii")
_LENGTH = Struct("!i")
_NUMBER = Struct("!iq")
_TEXT_OID, _NUMBER_OID, _BYTES_OID = 25, 20, 17
_REFUSED = {
    "28P01": "rejected the password: check the URL, PGPASSWORD or the password file",
    "28000": "rejected this user: check the user in the URL and the server's pg_hba.conf",
    "3D000": "has no such database: create it (createdb), or name another in the URL",
    "42501": "denied this user permission: have the schema's owner grant it, or open the store as its owner",
}
_REFUSALS = {
    "too many connections": "53300",
    "connection slots are reserved": "53300",
    "the database system is": "57P03",
    "password authentication failed": "28P01",
    "no password supplied": "28P01",
    "pg_hba.conf": "28000",
    "role ": "28000",
    "database ": "3D000",
}
"""Messages of servers that refuse a connection (the first match counts), with the SQLSTATE that the driver omits."""


class TextArray(bytes):
    """The binary form of an array of texts."""


class NumberArray(bytes):
    """The binary form of an array of numbers of 64 bits."""


class BytesArray(bytes):
    """The binary form of an array of byte strings."""


class _TextArrayDumper(Dumper):
    format = Format.BINARY
    oid = 1009

    def dump(self, obj: TextArray) -> Buffer:
        return obj


class _NumberArrayDumper(_TextArrayDumper):
    oid = 1016


class _BytesArrayDumper(_TextArrayDumper):
    oid = 1001


_ADAPTERS = AdaptersMap(psycopg.adapters)
_ADAPTERS.register_dumper(TextArray, _TextArrayDumper)
_ADAPTERS.register_dumper(NumberArray, _NumberArrayDumper)
_ADAPTERS.register_dumper(BytesArray, _BytesArrayDumper)


class _DriverContext:
    """Context of the driver's connections: how they adapt values."""

    adapters = _ADAPTERS
    connection = None


def text_array(texts: Sequence[str], /) -> TextArray:
    """Return `texts` as a parameter. Raises UnicodeEncodeError for a lone surrogate."""
    return TextArray(_packed_array([text.encode() for text in texts], _TEXT_OID))


def bytes_array(bodies: Sequence[bytes], /) -> BytesArray:
    """Return `bodies` as a parameter."""
    return BytesArray(_packed_array(bodies, _BYTES_OID))


def number_array(numbers: Sequence[int], /) -> NumberArray:
    """Return `numbers` as a parameter. Raises InvalidInput for one of more than 64 bits."""
    try:
        packed_numbers = [_NUMBER.pack(8, number) for number in numbers]
    except StructError:
        raise unstorable_value() from None
    return NumberArray(_array_header(len(packed_numbers), _NUMBER_OID) + b"".join(packed_numbers))


def _packed_array(items: Sequence[bytes], oid: int) -> bytes:
    packed_lengths = [_LENGTH.pack(len(item)) for item in items]
    return _array_header(len(items), oid) + b"".join(chain.from_iterable(zip(packed_lengths, items, strict=True)))


def _array_header(size: int, oid: int) -> bytes:
    return _HEADER.pack(1, 0, oid, size, 1)


def unstorable_value() -> InvalidInput:
    """Return the error for a value that no table can hold."""
    return InvalidInput(field="batch", problem="contains a number or text that cannot be stored")


class ConnectionLost(StoreUnavailable):
    """The connection was lost, for example because a server ended; the work may be repeated."""


CONNECTING, COMMITTING = "connecting", "committing"
"""The step before all others, and the one that is not repeated unless it is known to have had no effect."""


class ConnectionFigures(NamedTuple):
    """A process's connections to its server: existing, in use, and counts of failures."""

    open: int
    in_use: int
    failed: int
    """Number of failed attempts to connect."""
    silent: int
    """Number of times that the server had stopped responding."""


class ServerConnections:
    """Connections to one server, shared by the calls of one event loop and created on demand.

    A call waits a bounded time for one. A connection that the server ended while it was idle is not used.
    """

    def __init__(self, address: PostgresAddress, /, *, is_pooled: bool) -> None:
        """`is_pooled` says that a pooler is in between: successive statements may go to different sessions."""
        self._address = address
        self._is_pooled = is_pooled
        self._loop = asyncio.get_running_loop()
        self._free = asyncio.Semaphore(address.connections)
        self._idle: list[Connection] = []
        self._closed = False
        self._failure: ElytronError | None = None
        self._failed_at = 0.0
        self._in_use: dict[Connection, float] = {}
        """Connections in use, and since when."""
        self._failures, self._silences = 0, 0
        self._look: asyncio.TimerHandle | None = None
        self._looking: asyncio.Task[None] | None = None

    async def close(self) -> None:
        """Close all connections, those in use when they are returned."""
        self._closed = True
        if self._look is not None:
            self._look.cancel()
        await self._drop_idle()

    @property
    def figures(self) -> ConnectionFigures:
        """Return the connection counts."""
        busy_count = len(self._in_use)
        return ConnectionFigures(busy_count + len(self._idle), busy_count, self._failures, self._silences)

    async def _drop_idle(self) -> None:
        while self._idle:
            await self._idle.pop().close()

    @asynccontextmanager
    async def connection(self, *, doing: str) -> AsyncGenerator[Connection]:
        """Lend an idle connection. The driver's errors are translated to the store's.

        Raises StoreBusy if all are in use for long, StoreUnavailable if none can be made.
        """
        if asyncio.get_running_loop() is not self._loop:
            raise Unsupported(
                "a Postgres store works only in the event loop that opened it: open it in this one, or use a blocking "
                "memory (`with elytron.open(...)`)"
            )
        await self._take_turn()
        try:
            connection = await self._take_connection()
            self._in_use[connection] = self._loop.time()
            # One timer for all: a timer for each call would cost more than most calls.
            if self._look is None:
                self._look = self._loop.call_later(POSTGRES_SILENT_S, self._look_at_lent)
            try:
                yield connection
            except (psycopg.Error, UnicodeError) as error:
                raise translate_error(error, doing=doing) from None
            finally:
                del self._in_use[connection]
                await self._give_back(connection)
        finally:
            self._free.release()

    async def run(self, work: Callable[[Connection], Awaitable[T]], /, *, doing: str) -> T:
        """Return the result of `work`, which must be read-only or idempotent.

        It is repeated if the server aborted it, or the connection was lost.
        """
        for _ in range(store_limits.POSTGRES_REPEATS - 1):
            with suppress(StoreDeadlock, ConnectionLost):
                async with self.connection(doing=doing) as connection:
                    return await work(connection)
        async with self.connection(doing=doing) as connection:
            return await work(connection)

    def _look_at_lent(self) -> None:
        """Probe the server if a connection is in use for long: a server may stop responding without ending
        connections."""
        self._look = None
        lent_before = self._loop.time() - POSTGRES_SILENT_S
        overdue_connections = [connection for connection, lent_at in self._in_use.items() if lent_at <= lent_before]
        if overdue_connections and (self._looking is None or self._looking.done()):
            self._looking = asyncio.create_task(self._cut_silent(overdue_connections))
        if self._in_use and not self._closed:
            wait_s = POSTGRES_LOOK_S if overdue_connections else POSTGRES_SILENT_S
            self._look = self._loop.call_later(wait_s, self._look_at_lent)

    async def _cut_silent(self, overdue: Sequence[Connection]) -> None:
        """Close the connections of `overdue` that are still in use, unless the server accepts another connection."""
        try:
            probe_connection = await connect_once(self._address, wait_s=POSTGRES_SILENT_WAIT_S)
        except StoreUnavailable as error:
            self._failure, self._failed_at = error, self._loop.time()
            self._silences += 1
            # Idle connections lead to the same unresponsive server.
            await self._drop_idle()
            for connection in overdue:
                if connection in self._in_use and not connection.closed:
                    cut_connection(connection)
        except ElytronError:
            pass  # it answers
        else:
            await probe_connection.close()

    async def _take_turn(self) -> None:
        # Without a wait, since `wait_for` creates a task each time.
        if not self._free.locked():
            await self._free.acquire()
            return
        try:
            await asyncio.wait_for(self._free.acquire(), store_limits.BUSY_WAIT_S)
        except TimeoutError:
            raise StoreBusy(engine=ENGINE, waited_s=store_limits.BUSY_WAIT_S) from None

    async def _take_connection(self) -> Connection:
        if self._closed:
            raise StoreClosed
        while self._idle:
            connection = self._idle.pop()
            if is_alive(connection):
                return connection
            await connection.close()
        # A call that waited its turn while no connection could be made does not also wait for the next one.
        if self._failure is not None and self._loop.time() - self._failed_at < POSTGRES_AGAIN_S:
            raise self._failure
        try:
            new_connection = await connect_once(self._address, is_pooled=self._is_pooled)
        except ElytronError as error:
            self._failure, self._failed_at = error, self._loop.time()
            self._failures += 1
            raise
        self._failure = None
        return new_connection

    async def _give_back(self, connection: Connection) -> None:
        """Return a connection to the pool. One with an open transaction is reset or closed."""
        if connection.info.transaction_status in {TransactionStatus.INTRANS, TransactionStatus.INERROR}:
            with suppress(psycopg.Error):
                await connection.rollback()
        if self._closed or connection.info.transaction_status is not TransactionStatus.IDLE:
            await connection.close()
        else:
            self._idle.append(connection)


def connection_settings(*, is_pooled: bool) -> dict[str, Any]:
    """Return a connection's arguments in addition to its address."""
    return {
        "autocommit": True,
        # Behind a pooler a prepared statement may belong to another session.
        "prepare_threshold": None if is_pooled else 5,
        "context": _DriverContext(),
        "application_name": "elytron",
        "client_encoding": "utf-8",
        "tcp_user_timeout": 10_000,
        "keepalives_idle": 15,
    }


async def connect_once(
    address: PostgresAddress, /, *, is_pooled: bool = True, wait_s: float = POSTGRES_WAIT_S
) -> Connection:
    """Return a connection owned by the caller. Raises StoreUnavailable, StoreRefused, StoreCrowded."""
    connection_attempt = psycopg.AsyncConnection.connect(address.conninfo, **connection_settings(is_pooled=is_pooled))
    try:
        connection = await asyncio.wait_for(connection_attempt, wait_s)
    except TimeoutError:
        raise unreachable_server() from None
    except psycopg.ProgrammingError:
        # Its message may show parts of the URL.
        raise StoreUrlInvalid(problem="cannot be parsed by the Postgres driver") from None
    except psycopg.Error as error:
        raise translate_error(error, doing=CONNECTING) from None
    connection.prepared_max = _PREPARED
    return connection


def is_alive(connection: Connection, /) -> bool:
    """Return whether an idle connection is still open: if the server had ended it, there would be data to read."""
    if connection.closed:
        return False
    poll = select.poll()
    poll.register(connection.fileno(), select.POLLIN)
    return not poll.poll(0)


def cut_connection(connection: Connection, /) -> None:
    """Close a connection locally, so that a waiting call sees it end."""
    # A copy of the descriptor: the socket closes its own, and the original is the driver's.
    with suppress(OSError), socket.socket(fileno=os.dup(connection.fileno())) as socket_copy:
        socket_copy.shutdown(socket.SHUT_RDWR)


async def run_pipeline(
    connection: Connection, statements: Iterable[tuple[bytes, Sequence[object] | None]], /
) -> Sequence[Result]:
    """Send `statements` in one round trip and return their results; after a failure none is run."""
    async with connection.pipeline():
        return [await connection.execute(statement, values, binary=True) for statement, values in statements]


def wide_number(number: int, /) -> Int8:
    """Return `number` as a parameter of a fixed type, however small it is."""
    return Int8(number)


def unreachable_server() -> StoreUnavailable:
    """Return the error of a server that does not answer."""
    return ConnectionLost("the Postgres server does not answer: check that it runs and can be reached from here")


def is_without_effect(error: psycopg.Error | UnicodeError, /) -> bool:
    """Return whether the server reported that it rolled the statement back, or never received it."""
    if not isinstance(error, psycopg.Error):
        return True
    if error.sqlstate is None:
        return isinstance(error, psycopg.DataError | psycopg.ProgrammingError)
    # The untranslated severity: a FATAL ends the session, so its statement's effect is unknown.
    return error.diag.severity_nonlocalized == "ERROR"


def refused_state(text: str, /) -> str | None:
    """Return the SQLSTATE of a refused connection from the driver's `text`; None if it is no known server message."""
    _, fatal_mark, reason = text.partition("FATAL:")
    matching_states = (state for refusal_words, state in _REFUSALS.items() if refusal_words in reason)
    return next(matching_states, None) if fatal_mark else None


def translate_error(error: psycopg.Error | UnicodeError, /, *, doing: str) -> ElytronError:
    """Return the store's error for the driver's, without its text, which may contain written data.

    OutcomeUnknown if the connection was lost while a commit may have been running.
    """
    if not isinstance(error, psycopg.Error):
        return unstorable_value()
    state = refused_state(str(error)) if doing == CONNECTING else error.sqlstate
    if state == "53300":
        return StoreCrowded()
    if state in _REFUSED:
        return StoreRefused(f"the Postgres server {_REFUSED[state]}")
    if doing == CONNECTING or not is_without_effect(error):
        return OutcomeUnknown(doing=doing) if doing == COMMITTING else unreachable_server()
    return _translate_refusal(error, state, doing=doing)


def _translate_refusal(error: psycopg.Error, state: str | None, /, *, doing: str) -> ElytronError:
    match state:
        case "53100":
            return StoreFull(engine=ENGINE)
        case "57014":
            return StoreTimeout()
        case "55P03":
            return StoreBusy(engine=ENGINE, waited_s=store_limits.BUSY_WAIT_S)
        case "25006":
            return StoreReadOnly("this Postgres server is read-only: open the store on the primary server")
        case "40P01" | "40001":
            return StoreDeadlock()
        case "42883" | "42P01" | "42703":
            return StoreRefused(
                "the tables of this store no longer match this build: a newer one has changed them, or they "
                "were removed. Stop this node and start the version that the others run"
            )
        case None if isinstance(error, psycopg.DataError):
            return unstorable_value()
        case _:
            return StoreError(f"the Postgres server refused {doing} with SQLSTATE {state}: see its log")
