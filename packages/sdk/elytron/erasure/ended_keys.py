"""Keys and gateway users that ended: recorded outside of the store, ended again in an older copy that was put back."""

from collections.abc import Collection

from elytron.context import OperationContext
from elytron.erasure.log_file import Erased, SpaceErasures
from elytron.erasure.removal import erase_space
from elytron.state.space_records import REF
from elytron_core.clock import Instant
from elytron_core.contracts.knowledge.control import MemoryEraseRequest
from elytron_core.ids import SYSTEM_SPACE, SpaceId
from elytron_core.planes.admin.access import ACCESS_KEYS, AccessKey
from elytron_core.planes.admin.gateway import KEYS, USERS, KeyName, User
from elytron_core.planes.space import SpaceRecord
from elytron_core.ports import store_pages
from elytron_core.ports.store import Action, Batch, Delete, Document, Entry, Erasure, Put, Ref, Require
from elytron_core.scope import Scope

COLLECTIONS = frozenset({USERS, KEYS, ACCESS_KEYS})
"""Collections of keys and their users, in the system space."""
_SALT_BYTES = 32


async def gather_ended(ctx: OperationContext, erasures: SpaceErasures, /) -> None:
    """Add the erased gateway users to `erasures`, and the keys that were erased, rotated or revoked."""
    kept_since: set[Ref] = set()
    async for entry in store_pages.entries(ctx.store, SYSTEM_SPACE):
        if entry.ref.collection not in COLLECTIONS:
            continue
        if entry.ref.collection == KEYS and entry.action is Action.DELETE:
            erasures.add(Erased(entry.ref), entry.at)
        elif entry.digest:
            kept_since.add(entry.ref)
        elif entry.ref not in kept_since:
            erasures.add(Erased(entry.ref), _behind(entry.at))
    async for document in store_pages.documents(ctx.store, SYSTEM_SPACE, ACCESS_KEYS):
        key = AccessKey.from_bytes(document.body)
        ended = _behind(key.revoked_at) if key.revoked_at is not None else key.rotated_at
        if ended is not None:
            erasures.add(Erased(document.ref), ended)


async def end_again(ctx: OperationContext, record: SpaceRecord, erasures: SpaceErasures, /, *, dry_run: bool) -> bool:
    """End again what `erasures` names and the store holds; return whether there was anything. If killed, repeat it.

    An erased user goes with all spaces and access keys. A user whose key had ended is revoked, and needs a new key.
    """
    users = {
        document.ref: User.from_bytes(document.body)
        async for document in store_pages.documents(ctx.store, SYSTEM_SPACE, USERS)
    }
    written = await _written(ctx)
    gone = {ref: user for ref, user in users.items() if _is_ended(erasures, ref, written.get(ref))}
    spaces = {space for user in gone.values() for space in (*user.spaces, user.user_id)}
    names = {
        document: KeyName.from_bytes(document.body).user_id
        async for document in store_pages.documents(ctx.store, SYSTEM_SPACE, KEYS)
    }
    erased_names = {user.user_id for user in gone.values()}
    ended = {document: name for document, name in names.items() if Erased(document.ref) in erasures.memories}
    revoked = set(ended.values()) - erased_names
    refs = [*gone, *(document.ref for document, name in names.items() if name in erased_names)]
    refs += [
        document.ref
        async for document in store_pages.documents(ctx.store, SYSTEM_SPACE, ACCESS_KEYS)
        if _has_ended(document, erasures, spaces)
    ]
    if dry_run or not (refs or revoked):
        return bool(refs or revoked)
    for space in sorted(spaces):
        whole = MemoryEraseRequest(whole_space=space)
        await erase_space(ctx, Scope(space=SpaceId(space)), whole)
    if refs:
        await ctx.store.erase(Erasure(space=SYSTEM_SPACE, at=ctx.clock.now(), refs=tuple(refs)))
    for document, name in ended.items():
        if name in revoked:
            await _revoke(ctx, record, document, name)
    return True


async def _revoke(ctx: OperationContext, record: SpaceRecord, key: Document, user_id: str) -> None:
    """Revoke a gateway user whose key, as this copy knows it, had ended."""
    (document,) = await ctx.store.get(SYSTEM_SPACE, (Ref(USERS, record.tag("gateway user", user_id)),))
    if document is None:
        return
    now = ctx.clock.now()
    update = {"revoked_at": now, "salt": ctx.ids.secret(_SALT_BYTES).hex()}
    body = User.from_bytes(document.body).model_copy(update=update).to_bytes()
    put = Put(document.ref, body, document.revision)
    entries = (Entry(Action.WRITE, document.ref, record.digest(body)), Entry(Action.DELETE, key.ref))
    deletes = (Delete(key.ref, key.revision),)
    requires = (Require(REF, 1),)
    batch = Batch(SYSTEM_SPACE, now, entries, (put,), deletes, requires, takes_back=True)
    await ctx.store.commit(batch)


async def _written(ctx: OperationContext) -> dict[Ref, Instant]:
    """Return when each user was last written."""
    return {
        entry.ref: entry.at
        async for entry in store_pages.entries(ctx.store, SYSTEM_SPACE)
        if entry.ref.collection == USERS
    }


def _is_ended(erasures: SpaceErasures, ref: Ref, written: Instant | None) -> bool:
    ended = erasures.memories.get(Erased(ref))
    return ended is not None and (written is None or written < ended)


def _has_ended(document: Document, erasures: SpaceErasures, spaces: Collection[str]) -> bool:
    key = AccessKey.from_bytes(document.body)
    is_open = key.revoked_at is None
    return key.space in spaces or (is_open and _is_ended(erasures, document.ref, key.rotated_at or key.created_at))


def _behind(at: Instant) -> Instant:
    """Return the moment behind `at`: what was made at `at` had ended by then."""
    return Instant(at + 1)
