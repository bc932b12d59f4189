"""Users of the gateway: their keys, and reports of their erasure.

A key is recognised by its tag. Where a secret outside the store derives keys, the same key can be issued again.
"""

import base64
import hashlib
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from types import MappingProxyType
from typing import Final

from elytron.context import OperationContext
from elytron.secrets.credential_key import WAY_OUT
from elytron.secrets.user_spaces import USER_TAG
from elytron.state.change_lines import retry_lost_races
from elytron_adapter.access_keys import Principal
from elytron_adapter.system_documents import record_of
from elytron_core import strict_json
from elytron_core.clock import Instant
from elytron_core.errors import AlreadyExists, Conflict, LimitExceeded, NotFound, StoreError, Unauthorized
from elytron_core.ids import SYSTEM_SPACE, SpaceId
from elytron_core.model import Value
from elytron_core.planes.servers.gateway import KEYS, USERS, GatewayUser, KeyName
from elytron_core.planes.servers.system_documents import PrincipalKind
from elytron_core.policy.credentials import USER_KEY_PREFIX
from elytron_core.ports.store import DeleteChange, DocumentRef, ErasureTarget, PutChange
from elytron_core.strict_json import canonical_bytes
from elytron_gateway.collection import CollectionDocument, CollectionRepository, commit_changes
from elytron_gateway.names import require_user_id

MAX_SPACES: Final = 1_000
"""Apps and projects of one user."""


accounts_logger = logging.getLogger(__name__)

SPACE = SYSTEM_SPACE
_KEY_BYTES: Final = 64
_KEY_DIGITS: Final = 48
_SALT_BYTES: Final = 32
_NOBODY: Final = "elytron:nobody"
_UPGRADE: Final = "0"
"""Key of a mark in the collection of keys: former salts are replaced, but not erased yet."""
_UPGRADED_AT_ONCE: Final = 500
_NO_KEY: Final = MappingProxyType({"key_tag": "", "salt": "", "is_computable": False})
"""The fields of a user without a key."""

Change = Callable[[GatewayUser], Awaitable[GatewayUser]]
Update = Callable[[GatewayUser], Mapping[str, object]]


class GatewayUsers:
    """The users of a gateway. The store has a tag of each key, never what makes one.

    A key is derived under `secret`, else under the runtime's key for credentials, so that the same one can be issued
    again. Without either it is random, and creating an existing user again raises AlreadyExists.
    """

    def __init__(self, ctx: OperationContext, /, *, secret: bytes | None = None) -> None:
        self._ctx = ctx
        self._secret = secret[:_KEY_BYTES] if secret is not None else None
        self._users = CollectionRepository(ctx, USERS, GatewayUser)
        self._keys = CollectionRepository(ctx, KEYS, KeyName)
        self._is_upgraded = False

    @retry_lost_races
    async def create(self, user_id: str, /) -> tuple[GatewayUser, str]:
        """Return a user and the user's key; an existing user is returned unchanged, if the key can be derived again.

        A revoked user gets a new key. Raises InvalidInput if it is not a user id, AlreadyExists.
        """
        require_user_id(user_id)
        await self.upgrade()
        user_place = await self._place(user_id)
        user_document = await self._users.get(SPACE, user_place)
        if user_document is not None and user_document.value.revoked_at is None:
            return user_document.value, await self._repeated(user_document.value)
        key, fields = await self._new_key(user_id)
        # A returning user keeps the spaces, and the new key leaves former ones ended.
        user = (
            GatewayUser.model_validate({"user_id": user_id, "created_at": self._ctx.clock.now(), **fields})
            if user_document is None
            else user_document.value.model_copy(update=fields)
        )
        user_change = self._users.put(
            user_place, user, expects=user_document.revision if user_document is not None else 0
        )
        await commit_changes(self._ctx, SPACE, user_change, *await self._key_changes(None, user))
        return user, key

    async def authenticate(self, user_id: str, user_key: str, /) -> GatewayUser:
        """Return the user that the key belongs to. Raises Unauthorized, identically for every reason."""
        user = await self.holder(user_key)
        if user.user_id != user_id:
            raise Unauthorized
        return user

    async def holder(self, user_key: str, /) -> GatewayUser:
        """Return the user of this key, without an id. Raises Unauthorized, identically for every reason."""
        await self.upgrade()
        name = await self._keys.get(SPACE, await self._tag(user_key if user_key.isascii() else ""))
        # An unknown key takes the same path, without a user, so that the timing reveals nothing.
        user_document = await self._users.get(
            SPACE, await self._place(name.value.user_id if name is not None else _NOBODY)
        )
        if name is None or user_document is None or user_document.value.revoked_at is not None:
            raise Unauthorized
        return user_document.value

    async def rotate(self, user_id: str, /) -> str:
        """Return a new key of the user, whose memory stays; the old one ends. Raises NotFound."""
        key, fields = await self._new_key(user_id)
        await self._change(user_id, lambda _: fields)
        return key

    async def revoke(self, user_id: str, /) -> None:
        """Revoke the user's key; the memory stays. Raises NotFound."""
        fields = {"revoked_at": self._ctx.clock.now(), **_NO_KEY}
        await self._change(user_id, lambda _: fields)

    async def enters(self, user: GatewayUser, space: SpaceId, /) -> None:
        """Record that the user writes to `space`, so that all of the user's spaces can be counted and erased.

        Raises LimitExceeded.
        """
        if space in user.spaces:
            return
        if len(user.spaces) >= MAX_SPACES:
            raise LimitExceeded(what="apps and projects per user", limit=MAX_SPACES)
        await self._change(user.user_id, lambda user: {"spaces": tuple(sorted({*user.spaces, space}))})

    async def find(self, user_id: str, /) -> GatewayUser:
        """Return the user. Raises NotFound."""
        return (await self._stored(user_id)).value

    async def all(self) -> AsyncIterator[GatewayUser]:
        """Yield every user."""
        async for user_document in self._users.all(SPACE):
            yield user_document.value

    async def erase(self, user_id: str, /, *refs: DocumentRef) -> None:
        """Erase the user's record and the documents at `refs`; the spaces were erased before. Raises NotFound."""
        user_document = await self._stored(user_id)
        keys = [DocumentRef(KEYS, tag) for tag in await self._key_tags(user_document.value)]
        erased_refs = (DocumentRef(USERS, user_document.key), *keys, *refs)
        await self._ctx.store.erase(ErasureTarget(space=SPACE, at=self._ctx.clock.now(), refs=erased_refs))

    async def count_computable(self) -> int:
        """Return how many keys could be computed from older copies of the store: their users need new ones."""
        return sum([user.is_computable async for user in self.all()])

    async def upgrade(self) -> None:
        """Ensure that no key is computable from the store, as earlier builds, or sealed stores, allowed: once per
        process.

        The tag of such a key stays, so that it works until it is rotated; what it was derived from is erased for good.
        """
        if self._is_upgraded or await self._ctx.spaces.find(SPACE) is None:
            return
        self._is_upgraded = True
        try:
            await self._erase_salts()
        except (Conflict, StoreError) as error:
            # Keys work either way; the next process tries again.
            accounts_logger.warning("user keys can still be computed from this store: %s", error.key)

    async def _erase_salts(self) -> None:
        upgrade_ref = DocumentRef(KEYS, _UPGRADE)
        (unfinished_upgrade,) = await self._ctx.store.get(SPACE, (upgrade_ref,))
        is_readable, user_puts = self._ctx.credential_key.is_store_readable, list[PutChange]()
        async for user_document in self._users.all(SPACE):
            if user_document.value.salt and (is_readable or not user_document.value.key_tag):
                user_puts += await self._upgraded(user_document)
        for start in range(0, len(user_puts), _UPGRADED_AT_ONCE):
            batch = user_puts[start : start + _UPGRADED_AT_ONCE]
            if unfinished_upgrade is None and is_readable:
                batch.append(self._keys.put(_UPGRADE, KeyName(user_id=_NOBODY), expects=0))
            await commit_changes(self._ctx, SPACE, *batch, takes_back=True)
            (unfinished_upgrade,) = await self._ctx.store.get(SPACE, (upgrade_ref,))
        if unfinished_upgrade is not None:
            # An erasure also removes every byte of what was replaced before it, here the former salts.
            await self._ctx.store.erase(ErasureTarget(space=SPACE, at=self._ctx.clock.now(), refs=(upgrade_ref,)))

    async def _upgraded(self, user_document: CollectionDocument[GatewayUser]) -> list[PutChange]:
        """Return the change that leaves a user with the key's tag, but no salt from which this store derives it."""
        user = user_document.value
        store_secret = bytes.fromhex((await record_of(self._ctx, SPACE)).secret)
        update: Mapping[str, object] = {} if user.revoked_at is None else _NO_KEY
        for secret in (
            dict.fromkeys((await self._derivation_key() or store_secret, store_secret))
            if user.revoked_at is None
            else ()
        ):
            tag = await self._tag(derived_user_key(secret, user))
            if tag == user.key_tag or (not user.key_tag and await self._keys.get(SPACE, tag) is not None):
                is_computable = secret == store_secret and self._ctx.credential_key.is_store_readable
                update = {"key_tag": tag} | ({"is_computable": True, "salt": ""} if is_computable else {})
                break
        upgraded_user = user.model_copy(update=update)
        # A key under a secret that is unknown here is unchanged: nothing in this store makes it.
        return (
            [self._users.put(user_document.key, upgraded_user, expects=user_document.revision)]
            if upgraded_user != user
            else []
        )

    async def _change(self, user_id: str, update: Update) -> GatewayUser:
        async def change(user: GatewayUser) -> GatewayUser:
            return user.model_copy(update=update(user))

        return await self.change(user_id, change)

    async def _stored(self, user_id: str) -> CollectionDocument[GatewayUser]:
        user_document = await self._users.get(SPACE, await self._place(user_id))
        if user_document is None:
            raise NotFound(what="user", name=user_id)
        return user_document

    @retry_lost_races
    async def change(self, user_id: str, change: Change, /) -> GatewayUser:
        """Replace the user by the result of `change`, and return it; `change` is repeated if another commit came first.

        Raises NotFound.
        """
        user_document = await self._stored(user_id)
        user = await change(user_document.value)
        if user == user_document.value:
            return user
        user_change = self._users.put(user_document.key, user, expects=user_document.revision)
        keys = await self._key_changes(user_document.value, user)
        # Ending a key must be possible even in a full store.
        await commit_changes(self._ctx, SPACE, user_change, *keys, takes_back=bool(keys))
        return user

    async def _key_changes(
        self, previous_user: GatewayUser | None, changed_user: GatewayUser
    ) -> list[PutChange | DeleteChange]:
        """Return the changes that store a user's new key and remove the old one."""
        if previous_user is not None and (previous_user.key_tag, previous_user.salt) == (
            changed_user.key_tag,
            changed_user.salt,
        ):
            return []
        ended_keys = (
            [await self._keys.get(SPACE, tag) for tag in await self._key_tags(previous_user)]
            if previous_user is not None
            else []
        )
        changes: list[PutChange | DeleteChange] = [
            self._keys.remove(stored) for stored in ended_keys if stored is not None
        ]
        if changed_user.key_tag:
            changes.append(self._keys.put(changed_user.key_tag, KeyName(user_id=changed_user.user_id), expects=0))
        return changes

    async def _key_tags(self, user: GatewayUser) -> list[str]:
        """Return the refs of the user's keys; those of an earlier build have to be searched."""
        if user.key_tag or user.revoked_at is not None:
            return [user.key_tag] if user.key_tag else []
        return [stored.key async for stored in self._keys.all(SPACE) if stored.value.user_id == user.user_id]

    async def _repeated(self, user: GatewayUser) -> str:
        """Return the key of an existing user. Raises AlreadyExists if it cannot be derived again."""
        secret = await self._derivation_key()
        if secret is not None and user.salt:
            key = derived_user_key(secret, user)
            key_record = await self._keys.get(SPACE, await self._tag(key))
            if key_record is not None and key_record.value.user_id == user.user_id:
                return key
        problem = "the key was shown once and is stored only as a digest: rotate it (`memory-gateway rotate-key`, "
        problem += f"POST /users/ID/rotate). To return the same key again to users created from now on, {WAY_OUT}"
        raise AlreadyExists(what="user", name=user.user_id, problem=problem)

    async def _new_key(self, user_id: str) -> tuple[str, dict[str, object]]:
        """Return a new key of a user, and the user's fields for it."""
        secret, salt = await self._derivation_key(), ""
        if secret is None:
            key = USER_KEY_PREFIX + _key_text(self._ctx.ids.secret(_KEY_DIGITS // 2))
        else:
            salt = self._ctx.ids.secret(_SALT_BYTES).hex()
            key = derived_user_key(secret, GatewayUser(user_id=user_id, created_at=Instant(0), salt=salt))
        return key, {**_NO_KEY, "revoked_at": None, "salt": salt, "key_tag": await self._tag(key)}

    async def _derivation_key(self) -> bytes | None:
        return self._secret or self._ctx.credential_key.find(await record_of(self._ctx, SPACE))

    async def _tag(self, user_key: str) -> str:
        return (await record_of(self._ctx, SPACE)).tag("gateway key", user_key)

    async def _place(self, user_id: str) -> str:
        return (await record_of(self._ctx, SPACE)).tag(USER_TAG, user_id)


def derived_user_key(secret: bytes, user: GatewayUser, /) -> str:
    """Return the key of a user under a secret that is in no store."""
    tag = strict_json.keyed_tag(secret, "gateway user key", user.user_id, user.salt, size=_KEY_DIGITS)
    return USER_KEY_PREFIX + _key_text(bytes.fromhex(tag))


def _key_text(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).decode("ascii").rstrip("=")


class UserKeys:
    """Authenticates gateway users' keys on every transport, each for the user's own space."""

    def __init__(self, users: GatewayUsers, /) -> None:
        self._users = users

    async def authenticate(self, authorization: str | None, /) -> Principal:
        """Return the user whose key is in the header. Raises Unauthorized."""
        scheme, _, key = (authorization or "").partition(" ")
        if scheme.lower() != "bearer" or not key.startswith(USER_KEY_PREFIX):
            raise Unauthorized
        return principal_of(await self._users.holder(key.strip()))


def principal_of(user: GatewayUser, /) -> Principal:
    """Return the user's principal, the same on every transport, so that limits apply across them."""
    return Principal(f"gateway:{user.user_id}", PrincipalKind.USER, SpaceId(user.user_id))


class ErasedUser(Value):
    """The removed documents of a user, space by space: collections with the count of their documents."""

    user_id: str
    at: int
    removed: dict[str, dict[str, int]]


class SignedReport(Value):
    """A report with an Ed25519 signature over its canonical JSON, and the public key that verifies it; both in hex.

    Without a secret outside the store it is not signed: `unsigned` says how to have one.
    """

    report: ErasedUser
    signature: str = ""
    public_key: str = ""
    unsigned: str = ""


def sign_report(report: ErasedUser, secret: bytes | None, /) -> SignedReport:
    """Return `report` signed under a key made from `secret`."""
    if secret is None:
        return SignedReport(report=report, unsigned=f"a copy of this store would hold the signing key: {WAY_OUT}")
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

    seed = hashlib.blake2b(b"elytron gateway report", key=secret[:64], digest_size=32).digest()
    key = Ed25519PrivateKey.from_private_bytes(seed)
    return SignedReport(
        report=report,
        signature=key.sign(canonical_bytes(report)).hex(),
        public_key=key.public_key().public_bytes_raw().hex(),
    )


def is_genuine(signed_report: SignedReport, public_key: str, /) -> bool:
    """Return whether the signature of `signed_report` is by the holder of `public_key`."""
    from cryptography.exceptions import InvalidSignature
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

    try:
        key = Ed25519PublicKey.from_public_bytes(bytes.fromhex(public_key))
        key.verify(bytes.fromhex(signed_report.signature), canonical_bytes(signed_report.report))
    except (InvalidSignature, ValueError):
        return False
    return True
