"""Documents of an archive, written if none of their name exists."""

from collections.abc import Iterable, Iterator
from itertools import islice
from typing import NamedTuple

from elytron.context import OperationContext
from elytron.documents.change_set import Changes
from elytron.documents.plane_documents import is_expired, is_forgotten
from elytron.documents.planes import HOMES
from elytron.intake.scrubber import OwnOutput, scrub_value
from elytron.writes.settlement import Settled, settle
from elytron_core.clock import Instant
from elytron_core.model import Value
from elytron_core.planes.knowledge import records
from elytron_core.planes.space import SpaceRecord
from elytron_core.ports.store import Action, Document, Ref
from elytron_core.scope import Scope

AT_ONCE = 64
"""Documents that one batch brings."""


class Brought(NamedTuple):
    """Number of stored documents, and of existing ones."""

    stored: int = 0
    skipped: int = 0


async def bring_documents(
    ctx: OperationContext, scope: Scope, collection: str, found: Iterable[Document], /
) -> Brought:
    """Store each of `found`, all of `collection`, that may be read and whose name is free here."""
    told = Brought()
    for part in _parts(collection, found):
        brought = await _bring(ctx, scope, collection, part)
        told = Brought(told.stored + brought.stored, told.skipped + brought.skipped)
    return told


def _parts(collection: str, found: Iterable[Document]) -> Iterator[tuple[Value, ...]]:
    kind = HOMES[collection].kind
    # An archive may be older than a rule of scrubbing, or from elsewhere.
    clean = (scrub_value(kind.from_bytes(one.body), own=OwnOutput.STRIP)[0] for one in found)
    while part := tuple(islice(clean, AT_ONCE)):
        yield part


def _is_alive(value: Value, now: Instant) -> bool:
    return not is_forgotten(value) and not is_expired(value, now)


async def _bring(ctx: OperationContext, scope: Scope, collection: str, part: tuple[Value, ...]) -> Brought:
    home = HOMES[collection]
    assert home.key is not None
    key_of = home.key

    async def plan(space: SpaceRecord) -> Settled[Brought]:
        now, changes, stored = ctx.clock.now(), Changes(space), 0
        places = {Ref(collection, key_of(space, one)): one for one in part}
        known = await ctx.store.get(scope.space, list(places))
        for (ref, value), document in zip(places.items(), known, strict=True):
            there = home.kind.from_bytes(document.body) if document is not None else None
            is_reserved = isinstance(value, records.Record) and records.is_reserved(value.namespace)
            if is_reserved or not _is_alive(value, now) or (there is not None and _is_alive(there, now)):
                continue
            stored += 1
            brought = home.succeeding(value, there) if there is not None else value
            changes.put(ref, brought, expects=document.revision if document is not None else 0, action=Action.WRITE)
        return Settled(Brought(stored, len(part) - stored), changes)

    brought, _ = await settle(ctx, scope.space, plan)
    return brought
