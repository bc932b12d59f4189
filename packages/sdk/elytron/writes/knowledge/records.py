"""Commit of the next versions of records, in the host's collection or in the runtime's own."""

from collections.abc import Sequence

from elytron.context import OperationContext
from elytron.documents.change_set import Changes
from elytron.documents.stored_values import value_at
from elytron.memories.records import record_ref
from elytron.writes.settlement import Settled, settle
from elytron_core.clock import Instant
from elytron_core.contracts.knowledge.records import RecordPutRequest
from elytron_core.errors import PreconditionFailed, Unsupported
from elytron_core.model import Value
from elytron_core.planes.knowledge.records import Record
from elytron_core.planes.space import SpaceRecord
from elytron_core.policy.admission import record_versions
from elytron_core.ports.store import Action, Ref
from elytron_core.scope import Scope

_NO_TTL = "this store or profile cannot keep a time to live: leave ttl_s out"


class RecordCommit(Value):
    """The records after a put, in the order of its requests; `sequence` is 0 if all said the same before."""

    refs: tuple[Ref, ...]
    records: tuple[Record, ...]
    changed: bool
    sequence: int = 0


async def put_records(
    ctx: OperationContext,
    scope: Scope,
    collection: str,
    requests: Sequence[RecordPutRequest],
    /,
    *,
    has_history: bool,
    dry_run: bool = False,
) -> RecordCommit:
    """Store values in `collection` in one commit, each in the place of the one of its name.

    Without `has_history`, earlier versions are left out. Raises PreconditionFailed, with nothing stored, if a record
    has another version than the expected one, Unsupported for a time to live in a profile that cannot keep it.
    """
    if any(each.ttl_s is not None for each in requests) and (ctx.profile.is_esp or not ctx.store.capabilities.ttl):
        raise Unsupported(_NO_TTL)

    async def plan(space: SpaceRecord) -> Settled[RecordCommit]:
        now, changes = ctx.clock.now(), Changes(space)
        refs: list[Ref] = []
        records: list[Record] = []
        for request in requests:
            ref = record_ref(space, request.namespace, request.key, collection=collection)
            known, revision = await value_at(ctx.store, scope.space, ref, Record)
            require_version(known, request.expected_version, now)
            made = record_versions.put(
                known,
                namespace=request.namespace,
                key=request.key,
                value=request.value,
                text=request.text,
                privacy=request.privacy,
                expires_at=Instant(now + request.ttl_s * 1000) if request.ttl_s is not None else None,
                at=now,
            )
            if made is not known:
                kept = made if has_history else made.model_copy(update={"earlier": ()})
                changes.put(ref, kept, expects=revision, action=Action.WRITE)
            elif request.expected_version is not None:
                changes.require(ref, revision=revision)
            refs.append(ref)
            records.append(made)
        committed = RecordCommit(refs=tuple(refs), records=tuple(records), changed=bool(changes) and not dry_run)
        return Settled(committed, None if dry_run else changes)

    committed, sequence = await settle(ctx, scope.space, plan)
    return committed.model_copy(update={"sequence": sequence})


def require_version(known: Record | None, expected: int | None, now: Instant, /) -> None:
    """Raise PreconditionFailed unless the record has the expected version; 0 expects none."""
    found = known.version if known is not None and known.is_alive(now) else 0
    if expected is not None and expected != found:
        raise PreconditionFailed
