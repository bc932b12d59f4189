"""A user's quota over all spaces together, on any number of servers.

Each space is allotted a part of the quota, under the revision of its user. A space is held to its part
before the commit that counts it, so that no other space has to be read. An unused part of a space is
taken back in three steps: its limit becomes its count, the count is written again, so that a call which is about
to add under the old part reads it again, and then the rest is free.
"""

from collections.abc import Iterable
from typing import assert_never

from elytron.state.conflict_retry import RACES
from elytron_core.errors import LimitExceeded
from elytron_core.ids import SpaceId
from elytron_core.planes.admin.gateway import Allotment, Counts, Quantity, User
from elytron_gateway.accounts.usage_counts import Counting, Room
from elytron_gateway.accounts.users import Users
from elytron_gateway.names import Owner

SHARES = 16
"""A space is allotted this share of the quota more than it needs, if there is room."""


class Quotas:
    """The quotas of every user; a quantity without one is not bounded."""

    def __init__(self, users: Users, counting: Counting, most: dict[Quantity, int], /) -> None:
        self._users = users
        self._counting = counting
        self._most = most

    def room(self, owner: Owner, of: Quantity, /) -> Room:
        """Return what refuses the owner's space to hold more than is left of the owner's quota."""
        limit = self._most.get(of)

        async def room(counts: Counts) -> None:
            if limit is None:
                return
            wanted = held(counts, of)
            user = await self._users.find(owner.user)
            parts = parts_of(user, of)
            mine = parts.get(owner.space)
            if mine is None or mine.may_hold < wanted or sum(part.set_aside for part in parts.values()) > limit:
                await self._allot(owner, of, wanted, limit)

        return room

    async def _allot(self, owner: Owner, of: Quantity, wanted: int, limit: int) -> None:
        """Let the owner's space hold `wanted`. Raises LimitExceeded where the quota has no room for it."""

        async def plan(user: User) -> User:
            others = [SpaceId(space) for space in user.spaces if space != owner.space]
            counts = {space: held(await self._counting.of(space), of) for space in others}
            if sum(counts.values()) + wanted > limit:
                raise LimitExceeded(what=_TOLD[of], limit=limit)
            parts = parts_of(user, of)
            for space in others:
                part = parts.get(space)
                if part is not None and part.may_hold < part.set_aside:
                    counts[space] = held(await self._counting.renew(space), of)
                    parts[space] = _part(space, of, max(part.may_hold, counts[space]))
            aside = {space: parts[space].set_aside if space in parts else 0 for space in others}
            left = limit - sum(max(aside[space], counts[space]) for space in others)
            if wanted <= left:
                parts[owner.space] = _part(owner.space, of, min(left, wanted + limit // SHARES))
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


def held(counts: Counts, of: Quantity, /) -> int:
    """Return how much a space holds of a quantity."""
    match of:
        case Quantity.MESSAGES:
            return counts.messages
        case Quantity.RESOURCE_BYTES:
            return counts.resource_bytes
        case _:
            assert_never(of)


def parts_of(user: User, of: Quantity, /) -> dict[str, Allotment]:
    """Return what of a quantity the user's spaces are allotted."""
    return {part.space: part for part in user.allotted if part.of is of}


_TOLD = {Quantity.MESSAGES: "messages of a user", Quantity.RESOURCE_BYTES: "bytes in a user's resources"}


def _part(space: str, of: Quantity, size: int) -> Allotment:
    return Allotment(space=space, of=of, may_hold=size, set_aside=size)


def _with_parts(user: User, of: Quantity, parts: Iterable[Allotment]) -> User:
    others = (part for part in user.allotted if part.of is not of)
    return user.model_copy(
        update={"allotted": tuple(sorted((*others, *parts), key=lambda part: (part.space, part.of)))}
    )
