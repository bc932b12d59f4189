"""Answers of a store to the calls of its port's routes. `Wall` says which spaces a caller may use."""

from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass, replace
from typing import Any

from elytron_core.errors import PermissionRefused
from elytron_core.ids import SpaceId, is_reserved
from elytron_core.ports.store import Erasure, Ref, Store
from elytron_store.gateway import wire
from elytron_store.gateway.wire import Route, Wire


@dataclass(frozen=True, slots=True)
class Wall:
    """The spaces of a caller: `only` one, or every space. `opened` returns a space, or raises what refuses it.

    `closed` are collections that no caller changes. An erasure may name documents in them that are `removable`, which
    returns these of a space: then it takes them all, so that none is left out by choice.
    """

    only: SpaceId | None
    opened: Callable[[str], SpaceId]
    closed: frozenset[str] = frozenset()
    removable: Callable[[SpaceId], Awaitable[tuple[Ref, ...]]] | None = None

    def require_open(self, refs: Iterable[Ref], /) -> None:
        """Raise PermissionRefused for documents of a closed collection."""
        if any(ref.collection in self.closed for ref in refs):
            raise PermissionRefused("the runtime's own records are written by no other: leave them out")


Handler = Callable[[Store, Wall, Any], Awaitable[Wire]]


async def _commit(store: Store, wall: Wall, call: wire.CommitCall) -> Wire:
    wall.opened(call.batch.space)
    batch = call.batch
    wall.require_open(each.ref for each in (*batch.puts, *batch.deletes, *batch.entries))
    return wire.CommitAnswer(committed=await store.commit(call.batch))


async def _get(store: Store, wall: Wall, call: wire.GetCall) -> Wire:
    return wire.GetAnswer(documents=tuple(await store.get(wall.opened(call.space), call.refs)))


async def _scan(store: Store, wall: Wall, call: wire.ScanCall) -> Wire:
    documents = await store.scan(
        wall.opened(call.space),
        call.collection,
        prefix=call.prefix,
        after=call.after,
        limit=call.limit,
        descending=call.descending,
    )
    return wire.ScanAnswer(documents=tuple(documents))


async def _journal(store: Store, wall: Wall, call: wire.JournalCall) -> Wire:
    entries = await store.journal(wall.opened(call.space), after=call.after, limit=call.limit)
    return wire.JournalAnswer(entries=tuple(entries))


async def _compact(store: Store, wall: Wall, call: wire.CompactCall) -> Wire:
    return wire.CompactAnswer(entries=await store.compact(wall.opened(call.space), call.runs))


async def _spaces(store: Store, wall: Wall, call: wire.SpacesCall) -> Wire:
    if wall.only is None:
        found = await store.spaces(after=call.after, limit=call.limit)
        return wire.SpacesAnswer(spaces=tuple(space for space in found if not is_reserved(space)))
    holds = call.after == "" and bool(await store.journal(wall.only, after=0, limit=1))
    return wire.SpacesAnswer(spaces=(wall.only,) if holds else ())


async def _erase(store: Store, wall: Wall, call: wire.EraseCall) -> Wire:
    wall.opened(call.erasure.space)
    return wire.EraseAnswer(erased=await store.erase(await _walled(wall, call.erasure)))


async def _walled(wall: Wall, erasure: Erasure) -> Erasure:
    """Return `erasure`, with all that is removable in closed collections if it names some. Raises PermissionRefused."""
    named = {ref for ref in erasure.refs if ref.collection in wall.closed}
    if not named or wall.removable is None:
        wall.require_open(named)
        return erasure
    removable = await wall.removable(erasure.space)
    wall.require_open(named.difference(removable))
    return replace(erasure, refs=tuple(dict.fromkeys((*erasure.refs, *removable))))


async def _check(store: Store, _wall: Wall, _call: wire.HealthCall) -> Wire:
    return wire.HealthAnswer(report=await store.check())


async def _repair(store: Store, _wall: Wall, _call: wire.HealthCall) -> Wire:
    return wire.HealthAnswer(report=await store.repair())


ANSWERS: tuple[tuple[Route[Any], Handler], ...] = (
    (wire.COMMIT, _commit),
    (wire.GET, _get),
    (wire.SCAN, _scan),
    (wire.JOURNAL, _journal),
    (wire.COMPACT, _compact),
    (wire.SPACES, _spaces),
    (wire.ERASE, _erase),
)
"""The routes of a caller's own spaces."""
HEALTH_ANSWERS: tuple[tuple[Route[Any], Handler], ...] = ((wire.CHECK, _check), (wire.REPAIR, _repair))
"""The routes of the whole store, which are an operator's."""
