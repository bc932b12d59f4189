"""A space's figures and journal: the contents of each plane, recent changes, and who spoke where."""

from collections import Counter
from collections.abc import Collection, Sequence
from typing import Final

from elytron.context import OperationContext
from elytron.documents.planes import by_plane
from elytron.jobs.queue import work_of
from elytron.journal.follower import StoreJournals, WrittenRun, event_of
from elytron.memories.audit_trail import audit_trails
from elytron.state.conversation_heads import read_heads
from elytron_adapter.access_keys import AccessKeyRequest, AccessKeys
from elytron_core import limits as core_limits
from elytron_core.clock import DAY_MS, Instant
from elytron_core.contracts.events import JournalEvent
from elytron_core.contracts.inspection import ConversationSummary
from elytron_core.contracts.maintenance.jobs import WorkHealth
from elytron_core.contracts.recall import RecallPlane
from elytron_core.errors import ElytronError
from elytron_core.ids import SpaceId
from elytron_core.model import Value
from elytron_core.planes.audit_trail import AuditTrail
from elytron_core.planes.space import COLLECTIONS, plane_of
from elytron_core.ports.store import JournalAction, JournalEntry
from elytron_core.profiles import SpaceLoss

JOURNAL_LOOKED: Final = 10_000
"""Journal entries that are looked at for one answer; a page that ends before says where to go on."""
AUDIT_TO_COMMIT_MS: Final = 1_000
"""Time between the moment of a control call in its trail, and that of its journal entry."""
CONVERSATIONS_LISTED: Final = 1_000
"""Conversations that one answer has at most, the latest of them."""
SPEAKERS_LISTED: Final = 20


class SpaceContents(Value):
    """Number of memories of each plane, and what the space is about. Counted for this answer, not stored."""

    space: str
    exists: bool
    planes: dict[RecallPlane, int] = {}
    conversations: int = 0
    speakers: tuple[str, ...] = ()
    """The first of many."""
    first_at: Instant | None = None
    last_at: Instant | None = None
    work: WorkHealth = WorkHealth.IDLE
    jobs: dict[str, int] = {}
    compared_model: str | None = None
    """The model whose vectors recall compares; None: no vectors are compared."""
    unembedded_units: int = 0
    losses: tuple[SpaceLoss, ...] = ()
    """What repairs could not save of the space, until an operator acknowledges it."""


async def space_contents(ctx: OperationContext, space: SpaceId, /) -> SpaceContents:
    """Return the contents of `space`. No memory is read: the store counts, and conversations have heads."""
    record = await ctx.spaces.find(space)
    losses = await (ctx.losses.fresh if record is None else ctx.losses.of)(space)
    if record is None:
        return SpaceContents(space=space, exists=False, losses=losses)
    counts = {collection: await ctx.store.count(space, collection) for collection in COLLECTIONS}
    conversation_heads = [head async for head in read_heads(ctx.store, space)]
    speakers = dict.fromkeys(name for head in conversation_heads for name in head.speakers)
    pending_work, open_jobs = await work_of(ctx, space)
    current_encoder = ctx.encoders.current
    unembedded_count = 0
    if current_encoder is not None:
        unembedded_count = (await ctx.folds.current(space)).unembedded(record.model_tag(current_encoder.info.model))
    return SpaceContents(
        space=space,
        exists=True,
        planes=by_plane(counts),
        conversations=len(conversation_heads),
        speakers=tuple(speakers)[:SPEAKERS_LISTED],
        first_at=min((head.first_at for head in conversation_heads if head.first_at is not None), default=None),
        last_at=max((head.last_at for head in conversation_heads if head.last_at is not None), default=None),
        work=pending_work,
        jobs=open_jobs,
        compared_model=current_encoder.info.model if current_encoder is not None else None,
        unembedded_units=unembedded_count,
        losses=losses,
    )


class JournalRow(JournalEvent):
    """An entry and its caller, if known: the principal of the call, and the label of its key."""

    by: str | None = None
    label: str | None = None


class JournalPage(Value):
    """Entries of a journal, newest first. `next_before` continues with older ones, if there may be any."""

    space: str
    items: tuple[JournalRow, ...]
    sequence: int
    """Length of the whole journal."""
    next_before: int | None = None


class ConversationPage(Value):
    """The conversations of a space, the latest first; `total` counts all of them."""

    space: str
    items: tuple[ConversationSummary, ...]
    total: int


class TodayFigures(Value):
    """Entries of a journal since midnight, UTC, by action and by plane."""

    since: Instant
    entries: int = 0
    actions: dict[str, int] = {}
    planes: dict[str, int] = {}
    clipped: bool = False
    """There are more; the newest were counted."""


class JournalReader:
    """Reads the journals of a server's store for its console."""

    def __init__(self, context: OperationContext, keys: AccessKeys, /) -> None:
        self._context = context
        self._keys = keys
        self._journals = StoreJournals(context.store, context.commits)

    async def page(
        self, space: SpaceId, /, *, before: int | None, limit: int, actions: Collection[str] = ()
    ) -> JournalPage:
        """Return up to `limit` entries before the sequence `before`, only of `actions` if some are named."""
        last_entry = await self._journals.last(space, 0)
        sequence = last_entry.sequence if last_entry is not None else 0
        end_sequence = min(sequence, before - 1) if before is not None else sequence
        found_entries: list[JournalEntry] = []
        read_count = 0
        # Entries of a rare action may be far apart, so the search is bounded.
        while end_sequence > 0 and len(found_entries) < limit and read_count < JOURNAL_LOOKED:
            start_sequence = max(0, end_sequence - core_limits.EVENTS_PAGE)
            # A page that is read from `start_sequence` may go beyond `end_sequence`.
            entries = [
                entry
                for entry in await self._journals.read(space, start_sequence, core_limits.EVENTS_PAGE)
                if entry.sequence <= end_sequence
            ]
            for entry in reversed(entries):
                if len(found_entries) == limit:
                    break
                end_sequence = entry.first - 1
                if not actions or entry.action.value in actions:
                    found_entries.append(entry)
            else:
                end_sequence = min(start_sequence, end_sequence)
            read_count += core_limits.EVENTS_PAGE
        rows = await self._rows(space, found_entries)
        return JournalPage(
            space=space, items=rows, sequence=sequence, next_before=end_sequence + 1 if end_sequence > 0 else None
        )

    async def _rows(self, space: SpaceId, entries: Sequence[JournalEntry], /) -> tuple[JournalRow, ...]:
        """Return entries with their callers: from the trails of control calls, and of this process's commits.

        A trail is stored, and erased with what it is about. Who stored a memory is known until the server ends.
        """
        context = self._context
        record = await context.spaces.find(space)
        audit_records = await audit_trails(context, space, record, {entry.ref for entry in entries})
        oldest_sequence = entries[-1].sequence if entries else 0
        runs = [run for run in context.commits.writers if run.space == space and run.last >= oldest_sequence]
        labels: dict[str, str] = {}
        rows: list[JournalRow] = []
        for entry in entries:
            caller = _caller_of(entry, runs) or _controller_of(entry, audit_records.get(entry.ref))
            if caller is not None and caller not in labels:
                labels[caller] = await label_of(self._keys, caller)
            label = labels[caller] or None if caller is not None else None
            rows.append(JournalRow(**event_of(space, entry).model_dump(), by=caller, label=label))
        return tuple(rows)

    async def contents(self, space: SpaceId, /) -> SpaceContents:
        """Return the contents of a space as counts."""
        return await space_contents(self._context, space)

    async def conversations(self, space: SpaceId, /) -> ConversationPage:
        """Return the latest conversations from their heads; no turn is read."""
        store = self._context.store
        heads = [head async for head in read_heads(store, space)]
        latest_heads = sorted(heads, key=lambda head: (-(head.last_at or 0), head.channel, head.conversation))
        return ConversationPage(
            space=space,
            items=tuple(
                ConversationSummary.model_validate(head, from_attributes=True)
                for head in latest_heads[:CONVERSATIONS_LISTED]
            ),
            total=len(heads),
        )

    async def today(self, space: SpaceId, now: Instant, /) -> TodayFigures:
        """Return the figures of the entries since midnight."""
        midnight = Instant(now - now % DAY_MS)
        last_entry = await self._journals.last(space, 0)
        end_sequence = last_entry.sequence if last_entry is not None else 0
        changes: Counter[tuple[JournalAction, str]] = Counter()
        is_clipped = False
        while end_sequence > 0 and not is_clipped:
            start_sequence = max(0, end_sequence - core_limits.EVENTS_PAGE)
            journal_part = await self._journals.read(space, start_sequence, core_limits.EVENTS_PAGE)
            entries = [entry for entry in journal_part if entry.sequence <= end_sequence]
            todays_changes = [(entry.action, entry.ref.collection) for entry in entries if entry.at >= midnight]
            changes.update(todays_changes)
            # The page extends into yesterday.
            if len(todays_changes) < len(entries):
                break
            end_sequence = start_sequence
            is_clipped = changes.total() >= JOURNAL_LOOKED and end_sequence > 0
        actions: Counter[str] = Counter()
        changes_by_plane: Counter[str] = Counter()
        for (action, collection), change_count in changes.items():
            actions[action.value] += change_count
            changes_by_plane[plane_of(collection)] += change_count
        return TodayFigures(
            since=midnight,
            entries=changes.total(),
            actions=dict(actions),
            planes=dict(changes_by_plane),
            clipped=is_clipped,
        )


def _caller_of(entry: JournalEntry, runs: Sequence[WrittenRun]) -> str | None:
    """Return the caller of the run that contains the entry; a recreated space has other times."""
    for run in runs:
        if run.first <= entry.sequence <= run.last and run.at == entry.at:
            return run.caller
    return None


def _controller_of(entry: JournalEntry, trail: AuditTrail | None) -> str | None:
    """Return the caller of the control call for this entry, which is recorded just before its commit."""
    for event in reversed(trail.events if trail is not None else ()):
        if 0 <= entry.at - event.at < AUDIT_TO_COMMIT_MS:
            return event.by
    return None


async def label_of(keys: AccessKeys, principal: str, /) -> str:
    """Return the label of the key of `principal`; empty without one, as for a gateway's user."""
    try:
        return (await keys.find(AccessKeyRequest(id=principal))).label
    except (ElytronError, ValueError):
        return ""
