"""Records of an archive, written if none of their name exists."""

from collections.abc import Iterable, Iterator
from itertools import islice
from typing import NamedTuple

from elytron.admission.scrubber import OwnOutput, scrub_value
from elytron.context import OperationContext
from elytron.documents.change_set import Changes
from elytron.memories.records import record_ref
from elytron.writes.settlement import Settled, settle
from elytron_core.planes.knowledge.records import Record
from elytron_core.planes.space import SpaceRecord
from elytron_core.ports.store import Action
from elytron_core.scope import Scope

AT_ONCE = 64
"""Records that one batch brings."""


class Brought(NamedTuple):
    """Number of stored records, of existing ones, and the last journal sequence."""

    stored: int = 0
    skipped: int = 0
    sequence: int = 0


async def bring_records(ctx: OperationContext, scope: Scope, found: Iterable[Record], /, *, dry_run: bool) -> Brought:
    """Store each of `found` that may be read and whose name is free here, with its versions."""
    told = Brought()
    for part in _parts(found):
        brought = await _bring(ctx, scope, part, dry_run=dry_run)
        told = Brought(
            told.stored + brought.stored, told.skipped + brought.skipped, max(told.sequence, brought.sequence)
        )
    return told


def _parts(found: Iterable[Record]) -> Iterator[tuple[Record, ...]]:
    # An archive may be older than a rule of scrubbing, or from elsewhere.
    clean = (scrub_value(one, own=OwnOutput.STRIP)[0] for one in found)
    while part := tuple(islice(clean, AT_ONCE)):
        yield part


async def _bring(ctx: OperationContext, scope: Scope, part: tuple[Record, ...], *, dry_run: bool) -> Brought:
    async def plan(space: SpaceRecord) -> Settled[Brought]:
        now, changes, stored = ctx.clock.now(), Changes(space), 0
        places = {record_ref(space, one.namespace, one.key): one for one in part}
        known = await ctx.store.get(scope.space, list(places))
        for (ref, record), document in zip(places.items(), known, strict=True):
            there = Record.from_bytes(document.body) if document is not None else None
            if not record.is_alive(now) or (there is not None and there.is_alive(now)):
                continue
            stored += 1
            after = there.version + 1 if there is not None else record.version
            brought = record.model_copy(update={"version": max(record.version, after)})
            changes.put(ref, brought, expects=document.revision if document is not None else 0, action=Action.WRITE)
        report = Brought(stored, len(part) - stored)
        return Settled(report, None if dry_run else changes)

    brought, sequence = await settle(ctx, scope.space, plan)
    return brought._replace(sequence=sequence)
