"""Erasures in a space's journal, and the same done again if an older copy brought content back."""

from collections import Counter
from collections.abc import Collection, Iterator, Mapping

from elytron.context import OperationContext
from elytron.documents.plane_documents import by_plane
from elytron.documents.planes import PLANES
from elytron.erasure.ended_keys import end_again, gather_ended
from elytron.erasure.log_file import Erased, Erasures, SpaceErasures
from elytron.erasure.removal import erase_many, erase_space
from elytron.memories.lookup import Memory, TurnMemory, hit_of, stored_at
from elytron_core.clock import Instant
from elytron_core.contracts.admin.erasures import ErasuresOutcome, MemoryErasuresApplyReport
from elytron_core.contracts.knowledge.control import MemoryEraseRequest
from elytron_core.contracts.knowledge.recall import Plane
from elytron_core.errors import NotFound
from elytron_core.ids import SYSTEM_SPACE, SpaceId, TurnId
from elytron_core.planes.conversation import transcript
from elytron_core.planes.knowledge import long_term
from elytron_core.planes.space import SpaceRecord
from elytron_core.ports import store_pages
from elytron_core.ports.store import Action, JournalEntry, Ref
from elytron_core.scope import Scope

_CUTTING = frozenset({Action.DELETE, Action.LIFECYCLE})
_SAID_ONCE = frozenset({transcript.TURNS, long_term.FACTS})
"""Their text never changes: closing or moving one writes no new text."""
_NOT_TOLD = "the file names no space of this name that is gone from here"


async def gather_erasures(ctx: OperationContext, scope: Scope, kept: Erasures, /) -> SpaceErasures | None:
    """Add the erasures in the space's journal to `kept`; None if nothing was ever written to it."""
    record = await ctx.spaces.find(scope.space)
    if record is None:
        return None
    told = kept.of(scope.space, _identity(record))
    if scope.space == SYSTEM_SPACE:
        await gather_ended(ctx, told)
        return told
    cut: dict[Ref, Instant] = {}
    kept_since: set[Ref] = set()
    async for entry in store_pages.entries(ctx.store, scope.space):
        if entry.ref.collection not in PLANES:
            continue
        # An erasure removes the digests of all earlier entries of a document; an entry with one was written since.
        if entry.digest:
            kept_since.add(entry.ref)
        elif entry.ref not in kept_since:
            told.add(Erased(entry.ref), entry.at)
        if entry.ref.collection == transcript.TURNS and entry.action in _CUTTING:
            cut[entry.ref] = entry.at
    for ref, memory in (await stored_at(ctx, scope, cut)).items():
        assert isinstance(memory, TurnMemory)
        for part in range(len(memory.turn.messages)):
            if _is_gone(memory.turn, part):
                told.add(Erased(ref, part), cut[ref])
    return told


async def erase_again(
    ctx: OperationContext, scope: Scope, kept: Erasures, /, *, dry_run: bool
) -> MemoryErasuresApplyReport:
    """Erase in the space what `kept` lists for it. Killed in between, the same call finishes the work."""
    record = await ctx.spaces.find(scope.space)
    told = kept.find(scope.space, _identity(record)) if record is not None else None
    if record is None or told is None:
        return _report(scope, ErasuresOutcome.NOTHING, {}, dry_run=dry_run)
    if scope.space == SYSTEM_SPACE:
        has_ended = await end_again(ctx, record, told, dry_run=dry_run)
        return _report(scope, ErasuresOutcome.APPLIED if has_ended else ErasuresOutcome.NOTHING, {}, dry_run=dry_run)
    journal = _Journal()
    async for entry in store_pages.entries(ctx.store, scope.space):
        journal.add(entry)
    if told.whole_at is not None:
        if journal.last_at > told.whole_at:
            return _report(scope, ErasuresOutcome.WRITTEN_SINCE, {}, dry_run=dry_run)
        done = await erase_space(ctx, scope, MemoryEraseRequest(whole_space=scope.space, dry_run=dry_run))
        return _report(scope, ErasuresOutcome.APPLIED, by_plane(done.removed), dry_run=dry_run)
    found = await stored_at(ctx, scope, dict.fromkeys(erased.ref for erased in told.memories))
    ids = dict(_ids(told, found, journal))
    if ids and not dry_run:
        await erase_many(ctx, scope, list(ids))
    outcome = ErasuresOutcome.APPLIED if ids else ErasuresOutcome.NOTHING
    return _report(scope, outcome, dict(Counter(ids.values())), dry_run=dry_run)


class _Journal:
    """When each memory was written last, whether something of it was cut since, and when bytes were removed last."""

    def __init__(self) -> None:
        self.written: dict[Ref, Instant] = {}
        self.cut: dict[Ref, int] = {}
        self.removed = 0
        self.last_at = Instant(0)

    def add(self, entry: JournalEntry, /) -> None:
        self.last_at = max(self.last_at, entry.at)
        if entry.covers > 1:
            return  # its documents are unknown, and whether bytes were removed
        if entry.action is Action.ERASE:
            self.removed = entry.sequence
        elif entry.ref.collection not in PLANES:
            return
        elif entry.action in _CUTTING:
            self.cut[entry.ref] = entry.sequence
        elif entry.ref.collection in _SAID_ONCE:
            self.written.setdefault(entry.ref, entry.at)
        else:
            self.written[entry.ref] = entry.at


def _ids(told: SpaceErasures, found: Mapping[Ref, Memory], journal: _Journal) -> Iterator[tuple[str, Plane]]:
    """Yield the memories that are there again, or are emptied and still to be removed."""
    for (ref, part), at in told.memories.items():
        memory = found.get(ref)
        if memory is None or journal.written.get(ref, at) > at:
            continue
        plane = PLANES[ref.collection]
        if not isinstance(memory, TurnMemory):
            yield hit_of(memory, at).id, plane
            continue
        parts = range(len(memory.turn.messages)) if part is None else (part,)
        for number in parts:
            is_there = number < len(memory.turn.messages) and not _is_gone(memory.turn, number)
            if is_there or journal.cut.get(ref, 0) > journal.removed:
                yield transcript.message_id(TurnId(ref.key), number), plane


def _is_gone(turn: transcript.Turn, part: int) -> bool:
    return part in turn.erased or turn.redaction is transcript.Redaction.RAW_DELETED


async def note_gone(ctx: OperationContext, scope: Scope, kept: Erasures, /) -> SpaceErasures:
    """Note in `kept` that the spaces of this name that are gone were erased as a whole. Raises NotFound."""
    record = await ctx.spaces.find(scope.space)
    here = _identity(record) if record is not None else None
    gone = [told for told in kept.spaces if told.space == scope.space and told.identity != here]
    if not gone:
        raise NotFound(what="space", name=scope.space, way_out=_NOT_TOLD)
    for told in gone:
        told.whole_at = told.whole_at or ctx.clock.now()
    return gone[-1]


def _identity(record: SpaceRecord) -> str:
    return record.tag("erasures")


def _report(
    scope: Scope, outcome: ErasuresOutcome, erased: dict[Plane, int], *, dry_run: bool
) -> MemoryErasuresApplyReport:
    changed = outcome is ErasuresOutcome.APPLIED and not dry_run
    return MemoryErasuresApplyReport(
        space=scope.space, outcome=outcome, erased=erased, changed=changed, dry_run=dry_run
    )


async def gather_all(ctx: OperationContext, kept: Erasures, /, *, gone: Collection[SpaceId]) -> None:
    """Add to `kept` what was erased in every space, and that those named in `gone` were erased as a whole."""
    for space in gone:
        await note_gone(ctx, Scope(space=space), kept)
    async for space in store_pages.spaces(ctx.store):
        await gather_erasures(ctx, Scope(space=space), kept)


async def erase_all_again(
    ctx: OperationContext, kept: Erasures, /, *, dry_run: bool
) -> tuple[MemoryErasuresApplyReport, ...]:
    """Erase in every space what `kept` lists for it; return the outcome of each."""
    spaces = [space async for space in store_pages.spaces(ctx.store)]
    return tuple([await erase_again(ctx, Scope(space=space), kept, dry_run=dry_run) for space in spaces])
