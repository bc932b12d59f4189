"""A user's quota over all spaces together, on any number of servers.

Each space is allotted a part of the quota, under the revision of its user. A space is held to its part
before the commit that counts it, so that no other space has to be read. An unused part of a space is
taken back in three steps: its limit becomes its count, the count is written again, so that a call which is about
to add under the old part reads it again, and then the rest is free.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass
from typing import Generic, TypeVar, assert_never
from weakref import WeakValueDictionary

from elytron.context import OperationContext
from elytron.state.spaces import RACES, LostRaces
from elytron_core.errors import Conflict, LimitExceeded
from elytron_core.ids import SpaceId
from elytron_core.model import Value
from elytron_core.planes.gateway import (
    BACKLOG,
    COUNTS,
    EDITS,
    RESOURCES,
    SESSIONS,
    GatewaySession,
    GatewayUser,
    MemoryOverride,
    QuotaQuantity,
    QuotaShare,
    SpaceCounts,
    UploadedResource,
    WaitingAddition,
)
from elytron_core.planes.space import KEY
from elytron_core.ports.store import BatchKey, DeleteChange, PutChange
from elytron_gateway.accounts.users import GatewayUsers
from elytron_gateway.collection import CollectionShelf, ShelvedDocument, commit_changes
from elytron_gateway.names import MemoryOwner

T = TypeVar("T")
ValueT = TypeVar("ValueT", bound=Value)

Room = Callable[[SpaceCounts], Awaitable[None]]
"""Raises LimitExceeded where a space may not hold as much as this."""


@dataclass(frozen=True, slots=True)
class PlannedChange(Generic[T]):
    """A planned change: its result, the space's size after it, and the documents that it puts and deletes.

    Under `once` it is done once, for any number of calls.
    """

    result: T
    counts: SpaceCounts
    changes: tuple[PutChange | DeleteChange, ...] = ()
    once: BatchKey | None = None


class SpaceCounting:
    """The counts of every space. What is counted changes through here alone, so that they are exact."""

    def __init__(self, ctx: OperationContext, /) -> None:
        self._ctx = ctx
        self._shelf = CollectionShelf(ctx, COUNTS, SpaceCounts)
        self._turns: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()

    async def of(self, space: SpaceId, /) -> SpaceCounts:
        """Return what a space holds; one that was never counted is counted for all times."""
        kept = await self._kept(space)
        if not kept.revision and await self._ctx.spaces.find(space) is not None:
            # The commit that came first has stored its own count.
            with suppress(Conflict):
                await commit_changes(self._ctx, space, self._shelf.put(KEY, kept.value, expects=0))
        return kept.value

    async def renew(self, space: SpaceId, /) -> SpaceCounts:
        """Write the count of a space again and return it: each unfinished change of it is planned again."""
        kept = await self._kept(space)
        try:
            await commit_changes(self._ctx, space, self._shelf.put(KEY, kept.value, expects=kept.revision))
        except Conflict:
            # Another process has changed it meanwhile, which serves as well.
            return (await self._kept(space)).value
        return kept.value

    async def change(self, space: SpaceId, plan: Callable[[SpaceCounts], Awaitable[PlannedChange[T]]], /) -> T:
        """Do the change that `plan` makes of the space's size, as a whole, and return its result.

        `plan` is called again if another process changed the space meanwhile; it raises to refuse.
        """
        # One user's changes take turns here, so that they do not run into each other in the store.
        async with self._turns.setdefault(space.partition("/")[0], asyncio.Lock()):
            race = LostRaces()
            while True:
                kept = await self._kept(space)
                planned = await plan(kept.value)
                changes = planned.changes
                if planned.counts != kept.value or not kept.revision:
                    changes = (*changes, self._shelf.put(KEY, planned.counts, expects=kept.revision))
                if not changes:
                    return planned.result
                try:
                    await commit_changes(self._ctx, space, *changes, once=planned.once)
                except Conflict as conflict:
                    await race.lost(conflict)
                    continue
                return planned.result

    async def _kept(self, space: SpaceId) -> ShelvedDocument[SpaceCounts]:
        if await self._ctx.spaces.find(space) is None:
            return ShelvedDocument(KEY, SpaceCounts(), 0)
        kept = await self._shelf.get(space, KEY)
        return kept if kept is not None else ShelvedDocument(KEY, await self._counted(space), 0)

    async def _counted(self, space: SpaceId) -> SpaceCounts:
        """Go through a space that has no counts yet."""
        resources = await self._all(space, RESOURCES, UploadedResource)
        waiting = await self._all(space, BACKLOG, WaitingAddition)
        return SpaceCounts(
            messages=sum(session.messages for session in await self._all(space, SESSIONS, GatewaySession)),
            resources=len(resources),
            resource_bytes=sum(resource.size for resource in resources),
            edits=len(await self._all(space, EDITS, MemoryOverride)),
            waiting=sum(not addition.problem for addition in waiting),
            refused=sum(bool(addition.problem) for addition in waiting),
        )

    async def _all(self, space: SpaceId, collection: str, kind: type[ValueT]) -> list[ValueT]:
        return [kept.value async for kept in CollectionShelf(self._ctx, collection, kind).all(space)]


SHARES = 16
"""A space is allotted this share of the quota more than it needs, if there is room."""


class UserQuotas:
    """The quotas of every user; a quantity without one is not bounded."""

    def __init__(self, users: GatewayUsers, counting: SpaceCounting, most: dict[QuotaQuantity, int], /) -> None:
        self._users = users
        self._counting = counting
        self._most = most

    def room(self, owner: MemoryOwner, of: QuotaQuantity, /) -> Room:
        """Return what refuses the owner's space to hold more than is left of the owner's quota."""
        limit = self._most.get(of)

        async def room(counts: SpaceCounts) -> None:
            if limit is None:
                return
            wanted = held_amount(counts, of)
            user = await self._users.find(owner.user)
            parts = parts_of(user, of)
            mine = parts.get(owner.space)
            if mine is None or mine.may_hold < wanted or sum(part.set_aside for part in parts.values()) > limit:
                await self._allot(owner, of, wanted, limit)

        return room

    async def _allot(self, owner: MemoryOwner, of: QuotaQuantity, wanted: int, limit: int) -> None:
        """Let the owner's space hold `wanted`. Raises LimitExceeded where the quota has no room for it."""

        async def plan(user: GatewayUser) -> GatewayUser:
            others = [SpaceId(space) for space in user.spaces if space != owner.space]
            counts = {space: held_amount(await self._counting.of(space), of) for space in others}
            if sum(counts.values()) + wanted > limit:
                raise LimitExceeded(what=_TOLD[of], limit=limit)
            parts = parts_of(user, of)
            for space in others:
                part = parts.get(space)
                if part is not None and part.may_hold < part.set_aside:
                    counts[space] = held_amount(await self._counting.renew(space), of)
                    parts[space] = _allotment_part(space, of, max(part.may_hold, counts[space]))
            aside = {space: parts[space].set_aside if space in parts else 0 for space in others}
            left = limit - sum(max(aside[space], counts[space]) for space in others)
            if wanted <= left:
                parts[owner.space] = _allotment_part(owner.space, of, min(left, wanted + limit // SHARES))
            else:
                parts |= {
                    space: parts[space].model_copy(update={"may_hold": min(counts[space], aside[space])})
                    for space in others
                    if space in parts
                }
            return _with_parts(user, of, parts.values())

        for _ in range(RACES):
            mine = parts_of(await self._users.change(owner.user, plan), of).get(owner.space)
            if mine is not None and mine.may_hold >= wanted:
                return
        raise LimitExceeded(what=_TOLD[of], limit=limit)


def held_amount(counts: SpaceCounts, of: QuotaQuantity, /) -> int:
    """Return how much a space holds of a quantity."""
    match of:
        case QuotaQuantity.MESSAGES:
            return counts.messages
        case QuotaQuantity.RESOURCE_BYTES:
            return counts.resource_bytes
        case _:
            assert_never(of)


def parts_of(user: GatewayUser, of: QuotaQuantity, /) -> dict[str, QuotaShare]:
    """Return what of a quantity the user's spaces are allotted."""
    return {part.space: part for part in user.allotted if part.of is of}


_TOLD = {QuotaQuantity.MESSAGES: "messages of a user", QuotaQuantity.RESOURCE_BYTES: "bytes in a user's resources"}


def _allotment_part(space: str, of: QuotaQuantity, size: int) -> QuotaShare:
    return QuotaShare(space=space, of=of, may_hold=size, set_aside=size)


def _with_parts(user: GatewayUser, of: QuotaQuantity, parts: Iterable[QuotaShare]) -> GatewayUser:
    others = (part for part in user.allotted if part.of is not of)
    return user.model_copy(
        update={"allotted": tuple(sorted((*others, *parts), key=lambda part: (part.space, part.of)))}
    )
