"""Users of the gateway: their keys, a quota of each over all spaces together, and reports of their erasure.

A key is derived from a secret, so that the same one can be given again and none is stored.

Each space is allotted a part of the quota, under the revision of its user. A space is held to its part
before the commit that counts it, so that no other space has to be read. An unused part of a space is
taken back in three steps: its limit becomes its count, the count is written again, so that a call which is about
to add under the old part reads it again, and then the rest is free.
"""

import asyncio
import base64
import hashlib
import hmac
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass
from typing import Generic, TypeVar, assert_never
from weakref import WeakValueDictionary

from elytron.context import OperationContext
from elytron.state.spaces import RACES, LostRaces
from elytron_adapter.access_keys import Principal
from elytron_core import strict_json
from elytron_core.clock import Instant
from elytron_core.errors import Conflict, LimitExceeded, NotFound, Unauthorized
from elytron_core.ids import SYSTEM_SPACE, SpaceId
from elytron_core.model import Value
from elytron_core.planes.gateway import (
    BACKLOG,
    COUNTS,
    EDITS,
    KEYS,
    RESOURCES,
    SESSIONS,
    USERS,
    GatewaySession,
    GatewayUser,
    KeyName,
    MemoryOverride,
    QuotaQuantity,
    QuotaShare,
    SpaceCounts,
    UploadedResource,
    WaitingAddition,
)
from elytron_core.planes.space import KEY, PrincipalKind
from elytron_core.ports.store import BatchKey, DeleteChange, DocumentRef, ErasureTarget, PutChange
from elytron_core.strict_json import canonical_bytes
from elytron_gateway import limits as gateway_limits
from elytron_gateway.collection import CollectionShelf, ShelvedDocument, commit_changes, record_of
from elytron_gateway.names import MemoryOwner, require_user_id

SPACE = SYSTEM_SPACE
PREFIX = "uk_"
_DIGITS = 48
_SALT_BYTES = 32
_NOBODY = GatewayUser(user_id="nobody", created_at=Instant(0), salt="0" * (2 * _SALT_BYTES))

Change = Callable[[GatewayUser], Awaitable[GatewayUser]]
Update = Callable[[GatewayUser], dict[str, object]]


class GatewayUsers:
    """The users of a gateway. `secret` keys their keys; without one, the secret of the gateway's own space does.

    A store then holds nothing from which a key could be read, but with its own secret all from which one could be
    made: seal the store, or keep `secret` elsewhere.
    """

    def __init__(self, ctx: OperationContext, /, *, secret: bytes | None = None) -> None:
        self._ctx = ctx
        self._secret = secret
        self._users = CollectionShelf(ctx, USERS, GatewayUser)
        self._keys = CollectionShelf(ctx, KEYS, KeyName)

    async def create(self, user_id: str, /) -> tuple[GatewayUser, str]:
        """Return a user and the user's key; an existing user is returned unchanged, with the same key.

        A revoked user gets a new key. Raises InvalidInput if it is not a user id.
        """
        require_user_id(user_id)
        key = await self._place(user_id)
        race = LostRaces()
        while True:
            kept = await self._users.get(SPACE, key)
            if kept is not None and kept.value.revoked_at is None:
                return kept.value, await self._key(kept.value)
            # A user who comes back keeps the spaces, and the new salt keeps former keys ended.
            salt = self._salt()
            user = (
                GatewayUser(user_id=user_id, created_at=self._ctx.clock.now(), salt=salt)
                if kept is None
                else kept.value.model_copy(update={"revoked_at": None, "salt": salt})
            )
            expects = kept.revision if kept is not None else 0
            try:
                await commit_changes(
                    self._ctx, SPACE, self._users.put(key, user, expects=expects), *await self._renamed(None, user)
                )
            except Conflict as conflict:
                await race.lost(conflict)
                continue
            return user, await self._key(user)

    async def authenticate(self, user_id: str, user_key: str, /) -> GatewayUser:
        """Return the user that the key belongs to. Raises Unauthorized, alike for every reason."""
        kept = await self._users.get(SPACE, await self._place(user_id)) if user_id else None
        user = kept.value if kept is not None else _NOBODY
        # The key is derived and compared for unknown users too, so that the time taken does not show who exists.
        fits = hmac.compare_digest((await self._key(user)).encode(), user_key.encode("utf-8", "replace"))
        if kept is None or not fits or user.revoked_at is not None:
            raise Unauthorized
        return user

    async def holder(self, user_key: str, /) -> GatewayUser:
        """Return the user of this key, without an id. Raises Unauthorized, alike for every reason."""
        kept = await self._keys.get(SPACE, await self._tag(user_key))
        # An unknown key goes the same way, with no user, so that the time taken shows nothing.
        return await self.authenticate(kept.value.user_id if kept is not None else "", user_key)

    async def rotate(self, user_id: str, /) -> str:
        """Return a new key of the user, whose memory stays; the old one ends. Raises NotFound."""
        salt = self._salt()
        user = await self._change(user_id, lambda _: {"salt": salt, "revoked_at": None})
        return await self._key(user)

    async def revoke(self, user_id: str, /) -> None:
        """Revoke the user's key; the memory stays. Raises NotFound."""
        now, salt = self._ctx.clock.now(), self._salt()
        await self._change(user_id, lambda _: {"revoked_at": now, "salt": salt})

    async def enters(self, user: GatewayUser, space: SpaceId, /) -> None:
        """Remember that the user writes to `space`, so that all of the user's spaces can be counted and erased.

        Raises LimitExceeded.
        """
        if space in user.spaces:
            return
        if len(user.spaces) >= gateway_limits.SPACES:
            raise LimitExceeded(what="apps and projects of a user", limit=gateway_limits.SPACES)
        await self._change(user.user_id, lambda user: {"spaces": tuple(sorted({*user.spaces, space}))})

    async def find(self, user_id: str, /) -> GatewayUser:
        """Return the user. Raises NotFound."""
        return (await self._kept(user_id)).value

    async def all(self) -> AsyncIterator[GatewayUser]:
        """Yield every user."""
        async for kept in self._users.all(SPACE):
            yield kept.value

    async def erase(self, user_id: str, /, *refs: DocumentRef) -> None:
        """Erase the user's record and the documents at `refs`; the spaces are erased before. Raises NotFound."""
        kept = await self._kept(user_id)
        named = (DocumentRef(USERS, kept.key), DocumentRef(KEYS, await self._tag(await self._key(kept.value))), *refs)
        await self._ctx.store.erase(ErasureTarget(space=SPACE, at=self._ctx.clock.now(), refs=named))

    async def _change(self, user_id: str, update: Update) -> GatewayUser:
        async def change(user: GatewayUser) -> GatewayUser:
            return user.model_copy(update=update(user))

        return await self.change(user_id, change)

    async def _kept(self, user_id: str) -> ShelvedDocument[GatewayUser]:
        kept = await self._users.get(SPACE, await self._place(user_id))
        if kept is None:
            raise NotFound(what="user", name=user_id)
        return kept

    async def change(self, user_id: str, change: Change, /) -> GatewayUser:
        """Replace the user by what `change` returns, and return it; called again if another commit came first.

        Raises NotFound.
        """
        race = LostRaces()
        while True:
            kept = await self._kept(user_id)
            user = await change(kept.value)
            if user == kept.value:
                return user
            try:
                put = self._users.put(kept.key, user, expects=kept.revision)
                renamed = await self._renamed(kept.value, user)
                # A new salt ends a key, which a full store must allow.
                ends = user.salt != kept.value.salt
                await commit_changes(self._ctx, SPACE, put, *renamed, takes_back=ends)
            except Conflict as conflict:
                await race.lost(conflict)
                continue
            return user

    async def _renamed(self, before: GatewayUser | None, after: GatewayUser | None) -> list[PutChange | DeleteChange]:
        """Return the changes that store a user's new key and remove the old one."""
        has = [user for user in (before, after) if user is not None and user.revoked_at is None]
        if before is not None and after is not None and before.salt == after.salt:
            return []
        changes: list[PutChange | DeleteChange] = []
        for user in has:
            tag = await self._tag(await self._key(user))
            kept = await self._keys.get(SPACE, tag)
            if user is after and kept is None:
                changes.append(self._keys.put(tag, KeyName(user_id=user.user_id), expects=0))
            elif user is before and kept is not None:
                changes.append(self._keys.remove(kept))
        return changes

    def _salt(self) -> str:
        return self._ctx.ids.secret(_SALT_BYTES).hex()

    async def _tag(self, user_key: str) -> str:
        return (await record_of(self._ctx, SPACE)).tag("gateway key", user_key)

    async def _place(self, user_id: str) -> str:
        return (await record_of(self._ctx, SPACE)).tag("gateway user", user_id)

    async def _key(self, user: GatewayUser) -> str:
        secret = self._secret or bytes.fromhex((await record_of(self._ctx, SPACE)).secret)
        tag = strict_json.keyed_tag(secret[:64], "gateway user key", user.user_id, user.salt, size=_DIGITS)
        return PREFIX + base64.urlsafe_b64encode(bytes.fromhex(tag)).decode("ascii").rstrip("=")


class UserKeys:
    """Lets holders of a gateway user's key in on every transport, each to the user's own space."""

    def __init__(self, users: GatewayUsers, /) -> None:
        self._users = users

    async def authenticate(self, authorization: str | None, /) -> Principal:
        """Return the user whose key the header bears. Raises Unauthorized."""
        scheme, _, given = (authorization or "").partition(" ")
        if scheme.lower() != "bearer" or not given.startswith(PREFIX):
            raise Unauthorized
        return principal_of(await self._users.holder(given.strip()))


def principal_of(user: GatewayUser, /) -> Principal:
    """Return the user's principal, the same on every transport, so that limits hold over all of them."""
    return Principal(f"gateway:{user.user_id}", PrincipalKind.USER, SpaceId(user.user_id))


class ErasedUser(Value):
    """The removed documents of a user, space by space: collections with the count of their documents."""

    user_id: str
    at: int
    removed: dict[str, dict[str, int]]


class SignedReport(Value):
    """A report with an Ed25519 signature over its canonical JSON, and the public key that checks it; both in hex."""

    report: ErasedUser
    signature: str
    public_key: str


def sign_report(report: ErasedUser, secret: bytes, /) -> SignedReport:
    """Return `report` signed under a key made from `secret`."""
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

    seed = hashlib.blake2b(b"elytron gateway report", key=secret[:64], digest_size=32).digest()
    key = Ed25519PrivateKey.from_private_bytes(seed)
    return SignedReport(
        report=report,
        signature=key.sign(canonical_bytes(report)).hex(),
        public_key=key.public_key().public_bytes_raw().hex(),
    )


def is_genuine(signed: SignedReport, public_key: str, /) -> bool:
    """Return whether the signature of `signed` is by the holder of `public_key`."""
    from cryptography.exceptions import InvalidSignature
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

    try:
        key = Ed25519PublicKey.from_public_bytes(bytes.fromhex(public_key))
        key.verify(bytes.fromhex(signed.signature), canonical_bytes(signed.report))
    except (InvalidSignature, ValueError):
        return False
    return True


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
                # A first count is stored even if unchanged, so that no later call goes through the space.
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
            # Together they exceed only a quota that was lowered since: then they are divided again.
            if mine is None or mine.may_hold < wanted or sum(part.set_aside for part in parts.values()) > limit:
                await self._allot(owner, of, wanted, limit)

        return room

    async def _allot(self, owner: MemoryOwner, of: QuotaQuantity, wanted: int, limit: int) -> None:
        """Let the owner's space hold `wanted`. Raises LimitExceeded where the quota has no room for it."""

        async def plan(user: GatewayUser) -> GatewayUser:
            others = [SpaceId(space) for space in user.spaces if space != owner.space]
            counts = {space: held_amount(await self._counting.of(space), of) for space in others}
            # The counts decide here, for unused parts can be taken back.
            if sum(counts.values()) + wanted > limit:
                raise LimitExceeded(what=_TOLD[of], limit=limit)
            parts = parts_of(user, of)
            for space in others:
                part = parts.get(space)
                # Lowered in the round before. With the count written again, its rest is free.
                if part is not None and part.may_hold < part.set_aside:
                    counts[space] = held_amount(await self._counting.renew(space), of)
                    parts[space] = _allotment_part(space, of, max(part.may_hold, counts[space]))
            aside = {space: parts[space].set_aside if space in parts else 0 for space in others}
            left = limit - sum(max(aside[space], counts[space]) for space in others)
            if wanted <= left:
                parts[owner.space] = _allotment_part(owner.space, of, min(left, wanted + limit // SHARES))
            else:
                # No room yet: the limits of the others become their counts, and the next round takes the rest.
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
