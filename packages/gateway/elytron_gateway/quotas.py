"""Quotas of users across all their spaces.

Each space is allotted a part of the quota, under the revision of its user. The part is enforced before the commit that
counts against it, so no other space has to be read. An unused part is reclaimed in three steps: its limit becomes its
count, the count is rewritten so that a call about to add under the old part reads it again, and the rest is released.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass
from typing import Generic, TypeVar, assert_never
from weakref import WeakValueDictionary

from elytron.context import OperationContext
from elytron.state.change_lines import RACES, LostRaces
from elytron_core.errors import Conflict, LimitExceeded
from elytron_core.ids import SpaceId
from elytron_core.model import Value
from elytron_core.planes.servers.gateway import (
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
from elytron_gateway.collection import CollectionDocument, CollectionRepository, commit_changes
from elytron_gateway.names import MemoryOwner
from elytron_gateway.users import GatewayUsers

T = TypeVar("T")


ValueT = TypeVar("ValueT", bound=Value)


Room = Callable[[SpaceCounts], Awaitable[None]]
"""Raises LimitExceeded if a space may not hold this much."""


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
    """The counts of every space. Counted content only changes through this class, so that they are exact."""

    def __init__(self, ctx: OperationContext, /) -> None:
        self._ctx = ctx
        self._repository = CollectionRepository(ctx, COUNTS, SpaceCounts)
        self._turns: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()

    async def of(self, space: SpaceId, /) -> SpaceCounts:
        """Return the counts of a space, which are computed and stored the first time."""
        stored_counts = await self._read_counts(space)
        if not stored_counts.revision and await self._ctx.spaces.find(space) is not None:
            # The commit that came first has stored its own count.
            with suppress(Conflict):
                await commit_changes(self._ctx, space, self._repository.put(KEY, stored_counts.value, expects=0))
        return stored_counts.value

    async def renew(self, space: SpaceId, /) -> SpaceCounts:
        """Rewrite the count of a space and return it, so that each unfinished change of it is planned again."""
        stored_counts = await self._read_counts(space)
        try:
            await commit_changes(
                self._ctx, space, self._repository.put(KEY, stored_counts.value, expects=stored_counts.revision)
            )
        except Conflict:
            # Another process has changed it meanwhile, which serves as well.
            return (await self._read_counts(space)).value
        return stored_counts.value

    async def change(self, space: SpaceId, plan: Callable[[SpaceCounts], Awaitable[PlannedChange[T]]], /) -> T:
        """Apply the change of the space's size that `plan` makes, atomically, and return its result.

        `plan` is called again if another process changed the space meanwhile; it raises to refuse.
        """
        # One user's changes are serialised here, so that they do not conflict in the store.
        async with self._turns.setdefault(space.partition("/")[0], asyncio.Lock()):
            lost_races = LostRaces()
            while True:
                stored_counts = await self._read_counts(space)
                planned_change = await plan(stored_counts.value)
                changes = planned_change.changes
                # A first count is stored even if unchanged, so that no later call walks the space.
                if planned_change.counts != stored_counts.value or not stored_counts.revision:
                    changes = (
                        *changes,
                        self._repository.put(KEY, planned_change.counts, expects=stored_counts.revision),
                    )
                if not changes:
                    return planned_change.result
                try:
                    await commit_changes(self._ctx, space, *changes, once=planned_change.once)
                except Conflict as conflict:
                    await lost_races.lost(conflict)
                    continue
                return planned_change.result

    async def _read_counts(self, space: SpaceId) -> CollectionDocument[SpaceCounts]:
        if await self._ctx.spaces.find(space) is None:
            return CollectionDocument(KEY, SpaceCounts(), 0)
        stored_counts = await self._repository.get(space, KEY)
        return stored_counts if stored_counts is not None else CollectionDocument(KEY, await self._counted(space), 0)

    async def _counted(self, space: SpaceId) -> SpaceCounts:
        """Count a space that has no counts yet."""
        resources = await self._all(space, RESOURCES, UploadedResource)
        waiting_additions = await self._all(space, BACKLOG, WaitingAddition)
        return SpaceCounts(
            messages=sum(session.messages for session in await self._all(space, SESSIONS, GatewaySession)),
            resources=len(resources),
            resource_bytes=sum(resource.size for resource in resources),
            edits=len(await self._all(space, EDITS, MemoryOverride)),
            waiting=sum(not addition.problem for addition in waiting_additions),
            refused=sum(bool(addition.problem) for addition in waiting_additions),
        )

    async def _all(self, space: SpaceId, collection: str, kind: type[ValueT]) -> list[ValueT]:
        return [document.value async for document in CollectionRepository(self._ctx, collection, kind).all(space)]


SHARES = 16
"""A space is allotted this additional share of the quota, if there is room."""


class UserQuotas:
    """The quotas of every user; a quantity without one is not bounded."""

    def __init__(self, users: GatewayUsers, space_counting: SpaceCounting, most: dict[QuotaQuantity, int], /) -> None:
        self._users = users
        self._counting = space_counting
        self._most = most

    def room(self, owner: MemoryOwner, quantity: QuotaQuantity, /) -> Room:
        """Return a check that refuses to let the owner's space exceed the rest of the owner's quota."""
        limit = self._most.get(quantity)

        async def room(counts: SpaceCounts) -> None:
            if limit is None:
                return
            stored_amount = held_amount(counts, quantity)
            user = await self._users.find(owner.user)
            parts_by_space = parts_of(user, quantity)
            own_part = parts_by_space.get(owner.space)
            # Together they exceed only a quota that was lowered since: then they are divided again.
            if (
                own_part is None
                or own_part.may_hold < stored_amount
                or sum(part.set_aside for part in parts_by_space.values()) > limit
            ):
                await self._allot(owner, quantity, stored_amount, limit)

        return room

    async def _allot(self, owner: MemoryOwner, quantity: QuotaQuantity, amount: int, limit: int) -> None:
        """Let the owner's space hold `amount`. Raises LimitExceeded where the quota has no room for it."""

        async def plan(user: GatewayUser) -> GatewayUser:
            other_spaces = [SpaceId(space) for space in user.spaces if space != owner.space]
            counts = {space: held_amount(await self._counting.of(space), quantity) for space in other_spaces}
            # The counts decide here, because unused parts can be reclaimed.
            if sum(counts.values()) + amount > limit:
                raise LimitExceeded(what=_QUOTA_NAMES[quantity], limit=limit)
            parts_by_space = parts_of(user, quantity)
            for space in other_spaces:
                own_part = parts_by_space.get(space)
                # Lowered in the previous round. With the count rewritten, its rest is free.
                if own_part is not None and own_part.may_hold < own_part.set_aside:
                    counts[space] = held_amount(await self._counting.renew(space), quantity)
                    parts_by_space[space] = _allotment_part(space, quantity, max(own_part.may_hold, counts[space]))
            reserved_amounts = {
                space: parts_by_space[space].set_aside if space in parts_by_space else 0 for space in other_spaces
            }
            available_amount = limit - sum(max(reserved_amounts[space], counts[space]) for space in other_spaces)
            if amount <= available_amount:
                parts_by_space[owner.space] = _allotment_part(
                    owner.space, quantity, min(available_amount, amount + limit // SHARES)
                )
            else:
                # No room yet: the limits of the others are lowered to their counts, and the next round takes the rest.
                parts_by_space |= {
                    space: parts_by_space[space].model_copy(
                        update={"may_hold": min(counts[space], reserved_amounts[space])}
                    )
                    for space in other_spaces
                    if space in parts_by_space
                }
            return _with_parts(user, quantity, parts_by_space.values())

        for _ in range(RACES):
            own_part = parts_of(await self._users.change(owner.user, plan), quantity).get(owner.space)
            if own_part is not None and own_part.may_hold >= amount:
                return
        raise LimitExceeded(what=_QUOTA_NAMES[quantity], limit=limit)


def held_amount(counts: SpaceCounts, quantity: QuotaQuantity, /) -> int:
    """Return how much a space holds of a quantity."""
    match quantity:
        case QuotaQuantity.MESSAGES:
            return counts.messages
        case QuotaQuantity.RESOURCE_BYTES:
            return counts.resource_bytes
        case _:
            assert_never(quantity)


def parts_of(user: GatewayUser, quantity: QuotaQuantity, /) -> dict[str, QuotaShare]:
    """Return the user's spaces' allotments of a quantity."""
    return {part.space: part for part in user.allotted if part.of is quantity}


_QUOTA_NAMES = {
    QuotaQuantity.MESSAGES: "messages of a user",
    QuotaQuantity.RESOURCE_BYTES: "bytes in a user's resources",
}


def _allotment_part(space: str, quantity: QuotaQuantity, size: int) -> QuotaShare:
    return QuotaShare(space=space, of=quantity, may_hold=size, set_aside=size)


def _with_parts(user: GatewayUser, quantity: QuotaQuantity, new_parts: Iterable[QuotaShare]) -> GatewayUser:
    other_parts = (part for part in user.allotted if part.of is not quantity)
    return user.model_copy(
        update={"allotted": tuple(sorted((*other_parts, *new_parts), key=lambda part: (part.space, part.of)))}
    )
