"""Admission control for a server under load: rate limits, fair concurrency slots, and early refusals."""

import asyncio
from collections import deque
from collections.abc import Generator
from contextlib import AbstractAsyncContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from types import TracebackType
from typing import Final, Protocol

from elytron_adapter.access_keys import Principal
from elytron_core import limits
from elytron_core.errors import Overloaded, RateLimited
from elytron_core.planes.servers.system_documents import PrincipalKind

HTTP_SILENT_S: Final = 5.0
HTTP_HEAD_S: Final = 10.0
"""Longest waits for the first byte of a connection, and for the head of a request."""
CONNECTIONS_EACH: Final = 256
"""Connections of one address without a right credential."""
CALLS_RUNNING: Final = 64
CALLS_RUNNING_EACH: Final = 32
CALLS_WAITING: Final = 4_096
CALLS_WAITING_EACH: Final = 512
CALL_WAIT_S: Final = 10.0
"""Time for which a call waits for its place before it is answered by when to come again."""
CALL_LAG_S: Final = 1.0
"""Longest time for calls in one turn of the event loop; those that are left are answered by when to come again."""


_MINUTE_S = 60.0
_SLACK_S = 0.001
"""Tolerance for rounding of fractions."""


class LoadShedding(Protocol):
    """Gives each call a slot, or rejects it. `running` and `waiting` count calls."""

    running: int
    waiting: int

    def place(self, principal: Principal, /) -> AbstractAsyncContextManager[None]:
        """Return a slot for a call of `principal`, which is waited for on entering.

        Entering raises RateLimited if the principal called too often, Overloaded if there is no slot.
        """
        ...


class NoShedding:
    """Gives every call a slot immediately: for a machine of one's own."""

    running = 0
    waiting = 0

    def place(self, principal: Principal, /) -> AbstractAsyncContextManager[None]:  # noqa: ARG002 - any principal
        """Return a free slot."""
        return nullcontext()


@dataclass(frozen=True, slots=True)
class LoadBounds:
    """Limits of a server's load.

    `calls_per_minute` holds for users and devices, `wrong_credentials_per_minute` for an address; 0: any number.
    """

    calls_per_minute: int = limits.CALLS_PER_MINUTE
    wrong_credentials_per_minute: int = limits.WRONG_CREDENTIALS_PER_MINUTE
    running: int = CALLS_RUNNING
    running_each: int = CALLS_RUNNING_EACH
    waiting: int = CALLS_WAITING
    waiting_each: int = CALLS_WAITING_EACH
    wait_s: float = CALL_WAIT_S
    lag_s: float = CALL_LAG_S


@dataclass(frozen=True, slots=True)
class ConnectionBounds:
    """Limits of a server's connections. `each` is per address, and counts only those without a valid credential."""

    silent_s: float = HTTP_SILENT_S
    head_s: float = HTTP_HEAD_S
    each: int = CONNECTIONS_EACH
    most: int | None = None
    """All connections; None: as many as the process has descriptors for."""


class FairPlaces:
    """A limited number of calls runs at once, in total and per principal; the others wait, and principals take turns.

    A principal with a thousand calls therefore waits behind its own calls and does not delay the others.

    Calls that never wait for anything are run one after another and take no slot, in any number: they queue in the
    event loop. One iteration of the loop runs as many of those as it has time for; the rest is rejected.
    """

    def __init__(self, bounds: LoadBounds | None = None, /) -> None:
        self._bounds = bounds or LoadBounds()
        self._rates = _CallRates()
        self._running: dict[str, int] = {}
        self._waiting: dict[str, deque[asyncio.Future[None]]] = {}
        self.running = 0
        self.waiting = 0
        self._turn_began = 0.0
        self._turn_calls = 0
        self._is_held = False

    @contextmanager
    def hold_calls(self) -> Generator[None]:
        """Only queue or reject calls in this block: none of them starts."""
        self._is_held = True
        try:
            yield
        finally:
            self._is_held = False
            self._admit()

    def place(self, principal: Principal, /) -> AbstractAsyncContextManager[None]:
        """Return a slot for a call of `principal`."""
        return _HeldPlace(self, principal)

    async def take(self, principal: Principal, /) -> None:
        """Wait for a slot. Raises RateLimited, Overloaded."""
        calls_per_minute = _calls_per_minute(principal, self._bounds.calls_per_minute)
        if calls_per_minute:
            self._rates.count(principal.id, asyncio.get_running_loop().time(), most=calls_per_minute)
        self._count_in_turn()
        # A new call must not overtake those that wait.
        if self.waiting == 0 and self._is_free_for(principal.id):
            self._start(principal.id)
            return
        queue = self._waiting.get(principal.id)
        if self.waiting >= self._bounds.waiting or (queue is not None and len(queue) >= self._bounds.waiting_each):
            raise Overloaded
        await self._wait(principal.id)

    def leave(self, principal: Principal, /) -> None:
        """Release a slot, and give it to the next in turn."""
        self.running -= 1
        running_calls = self._running[principal.id] - 1
        if running_calls:
            self._running[principal.id] = running_calls
        else:
            del self._running[principal.id]
        self._admit()

    def _count_in_turn(self) -> None:
        """Count a call of this iteration of the event loop. Raises Overloaded if its time is used up."""
        event_loop = asyncio.get_running_loop()
        if self._turn_calls == 0:
            self._turn_began = event_loop.time()
            event_loop.call_soon(self._end_turn)
        elif self._turn_calls >= self._bounds.running and event_loop.time() - self._turn_began > self._bounds.lag_s:
            raise Overloaded
        self._turn_calls += 1

    def _end_turn(self) -> None:
        self._turn_calls = 0

    async def _wait(self, name: str) -> None:
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.setdefault(name, deque()).append(turn)
        self.waiting += 1
        # The waiting ones may be of principals that have used up their share, so a slot can be free.
        self._admit()
        try:
            async with asyncio.timeout(self._bounds.wait_s):
                await turn
        except BaseException as error:
            if turn.done() and not turn.cancelled():
                self.leave(Principal(id=name, kind=PrincipalKind.USER))  # it was given a slot while it gave up
            else:
                self._forget(name, turn)
            if isinstance(error, TimeoutError):
                raise Overloaded from None
            raise

    def _admit(self) -> None:
        """Start those whose turn it is: one of each principal in turn, in order of arrival."""
        # A copy, because queues are removed and appended meanwhile.
        for name in list(self._waiting):
            while self._is_free_for(name) and (queue := self._waiting.get(name)):
                turn = queue.popleft()
                self.waiting -= 1
                del self._waiting[name]
                if queue:
                    self._waiting[name] = queue  # behind the others
                # Its caller has left, so the next call of the same principal is tried.
                if turn.cancelled():
                    continue
                self._start(name)
                turn.set_result(None)
                break

    def _forget(self, name: str, turn: asyncio.Future[None]) -> None:
        queue = self._waiting.get(name)
        if queue is not None and turn in queue:
            queue.remove(turn)
            self.waiting -= 1
            if not queue:
                del self._waiting[name]

    def _is_free_for(self, name: str) -> bool:
        bounds = self._bounds
        if self._is_held:
            return False
        return self.running < bounds.running and self._running.get(name, 0) < bounds.running_each

    def _start(self, name: str) -> None:
        self.running += 1
        self._running[name] = self._running.get(name, 0) + 1


class _HeldPlace:
    __slots__ = ("_places", "_principal")

    def __init__(self, places: FairPlaces, principal: Principal, /) -> None:
        self._places = places
        self._principal = principal

    async def __aenter__(self) -> None:
        await self._places.take(self._principal)

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._places.leave(self._principal)


class _CallRates:
    """Counts each principal's calls in a sliding minute: this one's, and the remaining share of the previous one's."""

    def __init__(self) -> None:
        self._minute = 0
        self._counts: dict[str, int] = {}
        self._before: dict[str, int] = {}

    def count(self, name: str, now: float, /, *, most: int) -> None:
        """Count a call. Raises RateLimited if there were `most` already."""
        minute, minute_fraction = divmod(now / _MINUTE_S, 1.0)
        if minute != self._minute:
            self._before = self._counts if minute == self._minute + 1 else {}
            self._minute, self._counts = int(minute), {}
        minute_count, previous_count = self._counts.get(name, 0), self._before.get(name, 0)
        # The previous minute counts by the part of it that is less than sixty seconds ago.
        if minute_count + round(previous_count * (1.0 - minute_fraction)) >= most:
            raise RateLimited(
                limit=most, retry_after_s=_wait_s(minute_count, previous_count, minute_fraction, most=most)
            )
        self._counts[name] = minute_count + 1


def _wait_s(counted: int, previous_count: int, minute_fraction: float, *, most: int) -> int:
    """Return the seconds until one more call is allowed, when enough of the older ones have expired.

    Where this minute alone is full, that is in the next one, in which its calls are the older ones.
    """
    if counted < most:
        minutes = 1.0 - (most - counted - 0.5) / previous_count - minute_fraction
    else:
        minutes = 1.0 - minute_fraction + 1.0 - (most - 0.5) / counted
    return int(minutes * _MINUTE_S + _SLACK_S) + 1


def _calls_per_minute(principal: Principal, default: int) -> int:
    """Return how many calls a minute `principal` may make, 0: any number. Its own quota replaces the default."""
    if principal.quota is not None and principal.quota.calls_per_minute is not None:
        return principal.quota.calls_per_minute
    return default if principal.kind in {PrincipalKind.USER, PrincipalKind.DEVICE} else 0
