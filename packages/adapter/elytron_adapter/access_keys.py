"""Access keys: each is created and shown once, stored as a keyed digest, and recognised by that digest."""

import contextlib
import hmac
import re
from collections.abc import Callable, Collection
from dataclasses import dataclass
from functools import cache
from typing import Annotated, Final, Protocol, Self

from pydantic import Field, model_validator

from elytron.context import OperationContext
from elytron.documents.hits import CursorForm
from elytron.secrets.credential_key import WAY_OUT, derived_token
from elytron.state.change_lines import retry_lost_races
from elytron_adapter.sessions import removed_sessions
from elytron_adapter.system_documents import SystemDocuments
from elytron_core import limits, strict_json
from elytron_core.clock import Instant
from elytron_core.errors import ElytronError, InvalidInput, NotFound, Unauthorized
from elytron_core.ids import SYSTEM_SPACE, SpaceId, is_reserved
from elytron_core.lru_cache import LruCache
from elytron_core.model import Request, Value
from elytron_core.planes.servers.system_documents import ACCESS_KEYS, SESSIONS, AccessKey, KeyQuota, PrincipalKind
from elytron_core.planes.space import SpaceRecord
from elytron_core.ports.store import DocumentRef, PutChange
from elytron_core.scope import Cursor, Name, PageLimit, Space

ACCESS_CACHE_MS: Final = 1_000
"""Time for which a key that was looked up is trusted: a revoked one is refused after this at the latest."""
ACCESS_USED_EVERY_MS: Final = 60 * 60 * 1000
"""Precision of the time at which a key was last used."""


@dataclass(frozen=True, slots=True)
class Principal:
    """A caller. `id` names it in audits and keys its receipts; `space` is the only one that it may use, None: any.

    `quota` bounds its calls beside what the server allows everyone.
    """

    id: str
    kind: PrincipalKind
    space: SpaceId | None = None
    quota: KeyQuota | None = None


OPERATORS = frozenset({PrincipalKind.OPERATOR, PrincipalKind.DEVELOPER})
"""The kinds with operator rights."""


class Authenticator(Protocol):
    """Authenticates credentials. Shells pass on what came over the wire and never look inside."""

    async def authenticate(self, authorization: str | None, /) -> Principal:
        """Return the principal of this `Authorization` header value. Raises Unauthorized, identically for every
        reason."""
        ...


DEVELOPER = Principal(id="developer", kind=PrincipalKind.DEVELOPER)


class DevelopmentCallers:
    """Treats every caller as the developer of this machine. Only for loopback, and only if requested."""

    async def authenticate(self, authorization: str | None, /) -> Principal:  # noqa: ARG002 - it is not read
        """Return the developer."""
        return DEVELOPER


class AnyAuthenticator:
    """Accepts a caller that any of several authenticators accepts."""

    def __init__(self, *authenticators: Authenticator) -> None:
        self._authenticators = authenticators

    async def authenticate(self, authorization: str | None, /) -> Principal:
        """Return the principal from the first authenticator that accepts the credential. Raises Unauthorized."""
        for authenticator in self._authenticators:
            try:
                return await authenticator.authenticate(authorization)
            except Unauthorized:
                continue
        raise Unauthorized


KEY_ID = re.compile(r"[0-9a-f]{16}")
_CURSOR = CursorForm(KEY_ID, "a page of keys")
_KEY = re.compile(r"ely_(operator|user|device)_([0-9a-f]{16})_([0-9a-f]{64})")
_SECRET_BYTES = 32
_NOBODY = "0" * 64


class AccessKeyReport(Value):
    """A key as shown: everything except secrets. `fingerprint` changes when the key does.

    `last_used_at` is accurate to the hour; None if the key was never used.
    """

    id: str
    kind: PrincipalKind
    space: str | None = None
    label: str
    fingerprint: str
    created_at: Instant
    rotated_at: Instant | None = None
    revoked_at: Instant | None = None
    last_used_at: Instant | None = None
    quota: KeyQuota | None = None


class AccessKeyIssued(Value):
    """A new key. `key` is only shown once; `webhook_secret` signs webhooks under `access.id`.

    Without a secret outside the store there is none, and `no_webhooks` says how to have one.
    """

    access: AccessKeyReport
    key: str
    webhook_secret: str | None = None
    no_webhooks: str = ""


class AccessKeyList(Value):
    """A page of keys, in the order of their ids."""

    items: tuple[AccessKeyReport, ...]
    next_cursor: str | None = None


class AccessAddRequest(Request):
    """Create a key. A user's or device's key is for one space, an operator's for the whole server."""

    kind: PrincipalKind
    space: Space | None = None
    label: Name
    quota: KeyQuota | None = None

    @model_validator(mode="after")
    def _fits(self) -> Self:
        match self.kind:
            case PrincipalKind.DEVELOPER:
                raise ValueError("a developer has no key: in development mode, every caller is a developer")
            case PrincipalKind.OPERATOR:
                if self.space is not None:
                    raise ValueError("an operator's key does not belong to a space")
                if self.quota is not None:
                    raise ValueError("an operator's key cannot have a quota")
            case PrincipalKind.USER | PrincipalKind.DEVICE:
                if self.space is None or is_reserved(self.space):
                    raise ValueError("a user's or device's key requires a space")
        return self


class AccessKeyRequest(Request):
    """Name a key by its id."""

    id: Annotated[str, Field(pattern=f"^{KEY_ID.pattern}$")]


class AccessQuotaRequest(AccessKeyRequest):
    """Bound what the calls with a key come to; without a quota, the server's own bounds hold alone."""

    quota: KeyQuota | None = None


class AccessLabelRequest(AccessKeyRequest):
    """Give a key another label."""

    label: Name


class AccessListRequest(Request):
    """Ask for a page of keys."""

    limit: PageLimit = 100
    cursor: Cursor | None = None


class AccessKeys:
    """The access keys of a store, and their holders. A change made elsewhere takes effect after two seconds."""

    def __init__(self, context: OperationContext, /) -> None:
        self._context = context
        self._documents = SystemDocuments(context, ACCESS_KEYS)
        self._sessions = SystemDocuments(context, SESSIONS)
        self._cached_keys: LruCache[str, tuple[Instant, AccessKey | None]] = LruCache(limits.ACCESS_KEYS_CACHED)
        self._noted: LruCache[str, Instant] = LruCache(limits.ACCESS_KEYS_CACHED)

    async def authenticate(self, authorization: str | None, /) -> Principal:
        """Return the principal of the key in the header. Raises Unauthorized, identically for every reason."""
        scheme, _, credential = (authorization or "").partition(" ")
        # A header that is not in the form of a key costs no lookup.
        match = _KEY.fullmatch(credential.strip()) if scheme.lower() == "bearer" else None
        if match is None:
            raise Unauthorized
        record = await self._documents.find_record()
        key = await self._look_up(match[2])
        # An unknown key is compared too, so that it takes as long as a wrong secret.
        expected_digest = key.digest if key is not None and key.revoked_at is None else _NOBODY
        if record is None or not hmac.compare_digest(_key_digest(record, *match.groups()), expected_digest):
            raise Unauthorized
        assert key is not None
        await self.note_use(key.id)
        return _key_principal(key)

    async def signer(self, key_id: str, /) -> tuple[Principal, tuple[str, ...]]:
        """Return the holder of `key_id` and the secrets for its signatures. Raises Unauthorized, Unsupported."""
        record = await self._documents.find_record()
        key = await self._look_up(key_id) if KEY_ID.fullmatch(key_id) else None
        if record is None or key is None or key.revoked_at is not None:
            raise Unauthorized
        webhook_secrets = self._context.credential_key.require(record, needed_for="the secret that signs webhooks")
        return _key_principal(key), (
            _webhook_secret(webhook_secrets, key),
            _former_webhook_secret(webhook_secrets, key),
        )

    async def note_use(self, key_id: str, /) -> None:
        """Record the use of a key that was just looked up: once an hour, and only if it can be stored now."""
        cached_key = self._cached_keys.get(key_id)
        if cached_key is None or cached_key[1] is None:
            return
        now = cached_key[0]
        if now - max(cached_key[1].last_used_at or 0, self._noted.get(key_id, 0)) < ACCESS_USED_EVERY_MS:
            return
        self._noted[key_id] = now
        # Recording is optional: a store that is full or unavailable must not lock callers out.
        with contextlib.suppress(ElytronError):
            record, key, revision = await self._read_key(key_id)
            # Another process may have recorded a later use meanwhile.
            if (key.last_used_at or 0) < now:
                await self._put(key.model_copy(update={"last_used_at": now}), record, expects=revision)

    @retry_lost_races
    async def add(self, request: AccessAddRequest, /) -> AccessKeyIssued:
        """Create a key and show it, only this once."""
        context = self._context
        record = await self._documents.record()
        key_id, secret = context.ids.secret(8).hex(), context.ids.secret(_SECRET_BYTES).hex()
        key = AccessKey(
            id=key_id,
            kind=request.kind,
            space=request.space,
            label=request.label,
            digest=_key_digest(record, request.kind, key_id, secret),
            created_at=context.clock.now(),
            quota=request.quota,
        )
        await self._put(key, record, expects=0)
        return self._issued(key, secret, record)

    async def rotate(self, request: AccessKeyRequest, /) -> AccessKeyIssued:
        """Give a key a new secret; the old one is invalid from now on. Raises NotFound, also for a revoked one."""
        secret = self._context.ids.secret(_SECRET_BYTES).hex()

        def rotated(key: AccessKey, record: SpaceRecord) -> AccessKey:
            digest = _key_digest(record, key.kind, key.id, secret)
            now = self._context.clock.now()
            return _open_key(key).model_copy(
                update={"digest": digest, "rotations": key.rotations + 1, "rotated_at": now}
            )

        record, key = await self._change(request.id, rotated, takes_back=True)
        return self._issued(key, secret, record)

    async def revoke(self, request: AccessKeyRequest, /) -> AccessKeyReport:
        """Revoke a key. A second time changes nothing. Raises NotFound."""

        def revoked(key: AccessKey, _: SpaceRecord) -> AccessKey:
            return key if key.revoked_at else key.model_copy(update={"revoked_at": self._context.clock.now()})

        _, key = await self._change(request.id, revoked, takes_back=True)
        return _shown_key(key)

    async def set_quota(self, request: AccessQuotaRequest, /) -> AccessKeyReport:
        """Set or remove a key's quota.

        Raises NotFound, also for a revoked key, and InvalidInput for an operator's.
        """

        def bounded(key: AccessKey, _: SpaceRecord) -> AccessKey:
            if key.kind is PrincipalKind.OPERATOR:
                raise InvalidInput(field="id", problem="is an operator's key, which cannot have a quota")
            return _open_key(key).model_copy(update={"quota": request.quota})

        _, key = await self._change(request.id, bounded)
        return _shown_key(key)

    async def set_label(self, request: AccessLabelRequest, /) -> AccessKeyReport:
        """Change the label of a key. Raises NotFound, also for a revoked key."""
        label = {"label": request.label}
        _, key = await self._change(request.id, lambda key, _: _open_key(key).model_copy(update=label))
        return _shown_key(key)

    async def find(self, request: AccessKeyRequest, /) -> AccessKeyReport:
        """Return one key, even a revoked one. Raises NotFound."""
        _, key, _ = await self._read_key(request.id)
        return _shown_key(key)

    async def list(self, request: AccessListRequest | None = None, /) -> AccessKeyList:
        """Return a page of the keys, including revoked ones."""
        query = request or AccessListRequest()
        documents = await self._context.store.scan(
            SYSTEM_SPACE, ACCESS_KEYS, after=_CURSOR.key(query.cursor), limit=query.limit
        )
        keys = [AccessKey.from_bytes(document.body) for document in documents]
        next_cursor = keys[-1].id if len(keys) == query.limit else None
        return AccessKeyList(items=tuple(map(_shown_key, keys)), next_cursor=next_cursor)

    async def open_kinds(self) -> frozenset[PrincipalKind]:
        """Return the kinds that have valid keys."""
        page: AccessKeyList | None = None
        kinds: set[PrincipalKind] = set()
        while page is None or page.next_cursor is not None:
            page = await self.list(AccessListRequest(cursor=page.next_cursor if page is not None else None))
            kinds |= {key.kind for key in page.items if key.revoked_at is None}
        return frozenset(kinds)

    async def refs_of(self, spaces: Collection[str], /) -> tuple[DocumentRef, ...]:
        """Return the refs of these spaces' keys, for an erasure that ends them."""
        return tuple(
            [one.ref async for one in self._documents.scan() if AccessKey.from_bytes(one.body).space in spaces]
        )

    def _issued(self, key: AccessKey, secret: str, record: SpaceRecord) -> AccessKeyIssued:
        outside = self._context.credential_key.find(record)
        return AccessKeyIssued(
            access=_shown_key(key),
            key=f"ely_{key.kind}_{key.id}_{secret}",
            webhook_secret=_webhook_secret(outside, key) if outside is not None else None,
            no_webhooks="" if outside is not None else f"webhooks need a secret outside the store: {WAY_OUT}",
        )

    async def _look_up(self, key_id: str) -> AccessKey | None:
        """Return the key from the cache, or as stored now."""
        now = self._context.clock.now()
        cached_key = self._cached_keys.get(key_id)
        # A clock that steps back must not keep an ended key valid.
        if cached_key is not None and 0 <= now - cached_key[0] < ACCESS_CACHE_MS:
            return cached_key[1]
        document = await self._documents.read(key_id)
        # A missing key takes as long as a known one: a key is read either way.
        stored_key = AccessKey.from_bytes(document.body if document is not None else _nobodys_key())
        key = stored_key if document is not None else None
        self._cached_keys[key_id] = (now, key)
        return key

    async def _read_key(self, key_id: str) -> tuple[SpaceRecord, AccessKey, int]:
        record = await self._documents.find_record()
        document = await self._documents.read(key_id)
        if record is None or document is None:
            raise NotFound(what="access key", name=key_id)
        return record, AccessKey.from_bytes(document.body), document.revision

    @retry_lost_races
    async def _change(
        self, key_id: str, change: Callable[[AccessKey, SpaceRecord], AccessKey], /, *, takes_back: bool = False
    ) -> tuple[SpaceRecord, AccessKey]:
        """Store the result of `change` for a key, planned again if another change came first. Raises NotFound."""
        record, key, revision = await self._read_key(key_id)
        changed_key = change(key, record)
        if changed_key == key:
            return record, key
        await self._put(changed_key, record, expects=revision, takes_back=takes_back)
        return record, changed_key

    async def _put(self, key: AccessKey, record: SpaceRecord, *, expects: int, takes_back: bool = False) -> None:
        """Commit `key`; with `takes_back` its sessions end too.

        Raises Conflict if another commit came first; it has to be made again.
        """
        session_removals = await removed_sessions(self._sessions, record, key.id) if takes_back else ()
        key_change = PutChange(self._documents.ref(key.id), key.to_bytes(), expects)
        await self._documents.commit(record, key_change, deletes=session_removals, takes_back=takes_back)
        # Effective immediately here; other processes see it when their cache expires.
        self._cached_keys.pop(key.id, None)


@cache
def _nobodys_key() -> bytes:
    """Return a dummy key that matches nothing, in stored form."""
    latest_instant = Instant(limits.LATEST_MS)
    key = AccessKey(
        id="0" * 16,
        kind=PrincipalKind.USER,
        space=SpaceId("nobody"),
        label="nobody",
        digest=_NOBODY,
        created_at=latest_instant,
        last_used_at=latest_instant,
    )
    return key.to_bytes()


def _key_digest(record: SpaceRecord, *parts: str) -> str:
    """Return the digest of a key's kind, id and secret, keyed by the system space's own secret."""
    return strict_json.keyed_tag(bytes.fromhex(record.secret), "access key", *parts, size=64)


def _webhook_secret(secret: bytes, key: AccessKey) -> str:
    """Return the secret with which a key's holder signs webhooks; derived, so that it is not stored."""
    return derived_token(secret, "webhook secret", key.id, str(key.rotations))


def _former_webhook_secret(secret: bytes, key: AccessKey) -> str:
    """Return the secret as earlier builds showed it, in a form that redaction does not recognise."""
    return strict_json.keyed_tag(secret, "webhook secret", key.id, str(key.rotations), size=64)


def _open_key(key: AccessKey) -> AccessKey:
    """Return `key`. Raises NotFound if it is revoked."""
    if key.revoked_at is not None:
        raise NotFound(what="access key", name=key.id)
    return key


def _key_principal(key: AccessKey) -> Principal:
    return Principal(id=key.id, kind=key.kind, space=key.space, quota=key.quota)


def _shown_key(key: AccessKey) -> AccessKeyReport:
    return AccessKeyReport(
        id=key.id,
        kind=key.kind,
        space=key.space,
        label=key.label,
        fingerprint=key.digest[:12],
        created_at=key.created_at,
        rotated_at=key.rotated_at,
        revoked_at=key.revoked_at,
        last_used_at=key.last_used_at,
        quota=key.quota,
    )
