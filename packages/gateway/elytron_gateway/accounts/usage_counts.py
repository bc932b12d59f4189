"""Usage counts: the size of each space, counted in the batch that changes it, and a user's limit."""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Generic, TypeVar
from weakref import WeakValueDictionary

from elytron.context import OperationContext
from elytron.state.conflict_retry import Race
from elytron_core.errors import Conflict
from elytron_core.ids import SpaceId
from elytron_core.model import Value
from elytron_core.planes.admin.gateway import (
    BACKLOG,
    COUNTS,
    EDITS,
    RESOURCES,
    SESSIONS,
    Counts,
    Edit,
    Resource,
    Session,
    Waiting,
)
from elytron_core.planes.space import KEY
from elytron_core.ports.store import Delete, Idempotency, Put
from elytron_gateway.collection import Kept, Shelf, commit

T = TypeVar("T")
ValueT = TypeVar("ValueT", bound=Value)

Room = Callable[[Counts], Awaitable[None]]
"""Raises LimitExceeded where a space may not hold as much as this."""


@dataclass(frozen=True, slots=True)
class Planned(Generic[T]):
    """A planned change: its result, the space's size after it, and the documents that it puts and deletes.

    Under `once` it is done once, for any number of calls.
    """

    result: T
    counts: Counts
    changes: tuple[Put | Delete, ...] = ()
    once: Idempotency | None = None


class Counting:
    """The counts of every space. What is counted changes through here alone, so that they are exact."""

    def __init__(self, ctx: OperationContext, /) -> None:
        self._ctx = ctx
        self._shelf = Shelf(ctx, COUNTS, Counts)
        self._turns: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()

    async def of(self, space: SpaceId, /) -> Counts:
        """Return what a space holds; one that was never counted is counted for all times."""
        kept = await self._kept(space)
        if not kept.revision and await self._ctx.spaces.find(space) is not None:
            # The commit that came first has stored its own count.
            with suppress(Conflict):
                await commit(self._ctx, space, self._shelf.put(KEY, kept.value, expects=0))
        return kept.value

    async def renew(self, space: SpaceId, /) -> Counts:
        """Write the count of a space again and return it: each unfinished change of it is planned again."""
        kept = await self._kept(space)
        try:
            await commit(self._ctx, space, self._shelf.put(KEY, kept.value, expects=kept.revision))
        except Conflict:
            # Another process has changed it meanwhile, which serves as well.
            return (await self._kept(space)).value
        return kept.value

    async def change(self, space: SpaceId, plan: Callable[[Counts], Awaitable[Planned[T]]], /) -> T:
        """Do the change that `plan` makes of the space's size, as a whole, and return its result.

        `plan` is called again if another process changed the space meanwhile; it raises to refuse.
        """
        # One user's changes take turns here, so that they do not run into each other in the store.
        async with self._turns.setdefault(space.partition("/")[0], asyncio.Lock()):
            race = Race()
            while True:
                kept = await self._kept(space)
                planned = await plan(kept.value)
                changes = planned.changes
                if planned.counts != kept.value or not kept.revision:
                    changes = (*changes, self._shelf.put(KEY, planned.counts, expects=kept.revision))
                if not changes:
                    return planned.result
                try:
                    await commit(self._ctx, space, *changes, once=planned.once)
                except Conflict as conflict:
                    await race.lost(conflict)
                    continue
                return planned.result

    async def _kept(self, space: SpaceId) -> Kept[Counts]:
        if await self._ctx.spaces.find(space) is None:
            return Kept(KEY, Counts(), 0)
        kept = await self._shelf.get(space, KEY)
        return kept if kept is not None else Kept(KEY, await self._counted(space), 0)

    async def _counted(self, space: SpaceId) -> Counts:
        """Go through a space that has no counts yet."""
        resources = await self._all(space, RESOURCES, Resource)
        waiting = await self._all(space, BACKLOG, Waiting)
        return Counts(
            messages=sum(session.messages for session in await self._all(space, SESSIONS, Session)),
            resources=len(resources),
            resource_bytes=sum(resource.size for resource in resources),
            edits=len(await self._all(space, EDITS, Edit)),
            waiting=sum(not addition.problem for addition in waiting),
            refused=sum(bool(addition.problem) for addition in waiting),
        )

    async def _all(self, space: SpaceId, collection: str, kind: type[ValueT]) -> list[ValueT]:
        return [kept.value async for kept in Shelf(self._ctx, collection, kind).all(space)]
