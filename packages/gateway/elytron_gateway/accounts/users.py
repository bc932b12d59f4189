"""Users and their keys. A key is derived from a secret, so that the same one can be given again and none is stored."""

import base64
import hashlib
import hmac
from collections.abc import AsyncIterator, Awaitable, Callable

from elytron.context import OperationContext
from elytron.state.spaces import LostRaces
from elytron_adapter.identity.access_keys import Principal
from elytron_core import strict_json
from elytron_core.clock import Instant
from elytron_core.errors import Conflict, LimitExceeded, NotFound, Unauthorized
from elytron_core.ids import SYSTEM_SPACE, SpaceId
from elytron_core.model import Value
from elytron_core.planes.gateway import KEYS, USERS, GatewayUser, KeyName
from elytron_core.planes.space import PrincipalKind
from elytron_core.ports.store import DeleteChange, DocumentRef, ErasureTarget, PutChange
from elytron_core.strict_json import canonical_bytes
from elytron_gateway import limits as gateway_limits
from elytron_gateway.collection import CollectionShelf, ShelvedDocument, commit_changes, record_of
from elytron_gateway.names import require_user_id

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
