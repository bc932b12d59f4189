"""Open streams: the list of reasons to end one, the guard that checks them, and the loop that writes events."""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, MutableMapping
from typing import Any, Final, TypeVar

from elytron_adapter.access_keys import Principal
from elytron_adapter.dispatch import CallerAdmission, acting_as
from elytron_core import limits
from elytron_core.errors import (
    ElytronError,
    KeyDestroyed,
    RateLimited,
    SpaceIncomplete,
    SpaceLocked,
    TransportOff,
    Unauthorized,
)
from elytron_core.ids import SpaceId

ItemT = TypeVar("ItemT")
Credential = Callable[[], Awaitable[str | None]]
"""Returns the current credential of a stream's caller: a session may end while the stream is open."""

ENDS: Final = (Unauthorized, TransportOff, SpaceLocked, SpaceIncomplete, KeyDestroyed, RateLimited)
"""Errors that end a stream. Any other means that nothing can be decided now: the stream meets it itself."""


class StreamGuard:
    """Decides whether a stream may continue. Streams ask before each event, and wait for `ended` between events."""

    def __init__(
        self,
        admission: CallerAdmission,
        principal: Principal,
        credential: Credential,
        /,
        *,
        transport: str | None = None,
        space: SpaceId | None = None,
    ) -> None:
        self.admission = admission
        self.principal = principal
        self.credential = credential
        self.transport = transport
        self.space = space
        """The space that the stream shows, if any."""
        self.reason: ElytronError | None = None
        """Why the stream ends, once that was determined."""
        self.is_taken = False
        """True if the stream asks itself, and so reports why it ends; others are cut."""
        self._has_reason = asyncio.Event()

    def within(self, space: SpaceId | None, /) -> "StreamGuard":
        """Return a guard of the same caller for content of `space`."""
        return StreamGuard(self.admission, self.principal, self.credential, transport=self.transport, space=space)

    async def ends(self) -> ElytronError | None:
        """Return why the stream may not send its next event, or None."""
        if self.reason is None:
            try:
                with acting_as(self.principal):
                    for check_reason in REASONS:
                        await check_reason(self)
            except ENDS as error:
                self.reason = error
                self._has_reason.set()
            except ElytronError:
                return None
        return self.reason

    async def ended(self, *, recheck_s: float = limits.STREAM_RECHECK_S) -> ElytronError | None:
        """Wait until the server starts to shut down (None), or there is a reason to end the stream."""
        shutdown_event = self.admission.closing
        waiters = {asyncio.create_task(shutdown_event.wait()), asyncio.create_task(self._has_reason.wait())}
        try:
            while self.reason is None and not shutdown_event.is_set():
                finished_waiters, _ = await asyncio.wait(
                    waiters, timeout=recheck_s, return_when=asyncio.FIRST_COMPLETED
                )
                if not finished_waiters:
                    await self.ends()
        finally:
            for waiter in waiters:
                waiter.cancel()
        return self.reason


def take_guard(scope: MutableMapping[str, Any], /) -> StreamGuard:
    """Return the guard of an admitted request, for a stream that asks it before each event."""
    guard = scope["state"]["guard"]
    assert isinstance(guard, StreamGuard)
    guard.is_taken = True
    return guard


async def guarded_items(
    guard: StreamGuard,
    items: AsyncGenerator[ItemT],
    receive: Callable[[], Awaitable[MutableMapping[str, Any]]],
    /,
    *,
    silence_s: float,
    recheck_s: float = limits.STREAM_RECHECK_S,
) -> AsyncGenerator[ItemT | ElytronError | None]:
    """Yield the items of a stream, and None in each silence; finally the reason why the stream ends, if there is one.

    A reason is one of the list, or an error of the items. There is none when the items end, the client is gone, or the
    server shuts down. If left early, it must be closed.
    """
    disconnect_task = asyncio.ensure_future(client_gone(receive))
    end_task = asyncio.ensure_future(guard.ended(recheck_s=recheck_s))
    next_item_task = asyncio.ensure_future(anext(items))
    try:
        while True:
            # The read continues over silences: cancelling it could lose an item that it had taken.
            await asyncio.wait(
                {next_item_task, disconnect_task, end_task}, timeout=silence_s, return_when=asyncio.FIRST_COMPLETED
            )
            if end_task.done() or disconnect_task.done():
                if end_task.done() and (reason := end_task.result()) is not None:
                    yield reason
                return
            if not next_item_task.done():
                yield None
                continue
            try:
                item = next_item_task.result()
            except StopAsyncIteration:
                return
            except ElytronError as error:
                yield error
                return
            if (reason := await guard.ends()) is not None:
                yield reason
                return
            yield item
            next_item_task = asyncio.ensure_future(anext(items))
    finally:
        # A generator cannot be closed while it runs, so this read ends first.
        for task in (next_item_task, disconnect_task, end_task):
            task.cancel()
        await asyncio.gather(next_item_task, disconnect_task, end_task, return_exceptions=True)
        await items.aclose()


async def client_gone(receive: Callable[[], Awaitable[MutableMapping[str, Any]]], /) -> None:
    """Wait until the client is gone; what it still sends is discarded."""
    while (await receive())["type"] != "http.disconnect":
        pass


async def require_transport(guard: StreamGuard, /) -> None:
    """Raise TransportOff if an operator has disabled the stream's transport."""
    if guard.transport is not None:
        guard.admission.transports.require_on(guard.transport)


async def require_caller(guard: StreamGuard, /) -> None:
    """Raise Unauthorized unless the credential still belongs to the same principal, bound to the same space."""
    principal = await guard.admission.authenticate(await guard.credential())
    if (principal.id, principal.kind, principal.space) != (
        guard.principal.id,
        guard.principal.kind,
        guard.principal.space,
    ):
        raise Unauthorized
    guard.principal = principal


async def require_quota(guard: StreamGuard, /) -> None:
    """Raise RateLimited if the quota of the caller's key, which may have changed, is exceeded today."""
    await guard.admission.quotas.require_left(guard.principal)


async def require_space(guard: StreamGuard, /) -> None:
    """Raise SpaceLocked, SpaceIncomplete, KeyDestroyed if the caller can no longer read the space on this server."""
    if guard.space is not None:
        await guard.admission.dispatcher.runtime.context.secrets.store.require_readable(guard.space)


REASONS: Final[tuple[Callable[[StreamGuard], Awaitable[None]], ...]] = (
    require_transport,
    require_caller,
    require_quota,
    require_space,
)
"""Every reason to end a stream, in order of checking."""
