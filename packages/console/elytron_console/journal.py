"""A space as its journal and the heads of its conversations know it: what changed and when, who spoke where."""

from collections import Counter
from collections.abc import Collection

from elytron.journal.follower import StoreJournals, event_of
from elytron.state.conversation_heads import read_heads
from elytron_adapter.dispatch import CallerEntrance
from elytron_adapter.identity.access_keys import Principal
from elytron_console import limits
from elytron_console.space_contents import SpaceContents, space_contents
from elytron_core import limits as core_limits
from elytron_core.clock import DAY_MS, Instant
from elytron_core.contracts.inspection import ConversationSummary
from elytron_core.events import JournalEvent
from elytron_core.ids import SpaceId
from elytron_core.model import Value
from elytron_core.planes.space import plane_of
from elytron_core.ports.store import JournalAction
from elytron_core.scope import Scope


class JournalPage(Value):
    """Entries of a journal, newest first. `next_before` continues with older ones, if there may be any."""

    space: str
    items: tuple[JournalEvent, ...]
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

    def __init__(self, entrance: CallerEntrance, /) -> None:
        self._entrance = entrance
        context = entrance.dispatcher.runtime.context
        self._journals = StoreJournals(context.store, context.commits)

    def space_of(self, principal: Principal, scope: Scope | None, /) -> SpaceId:
        """Return the space of `scope`, else that of `principal`. Raises PermissionRefused, ScopeMissing."""
        return self._entrance.space_of(principal, scope)

    async def page(
        self, space: SpaceId, /, *, before: int | None, limit: int, actions: Collection[str] = ()
    ) -> JournalPage:
        """Return up to `limit` entries before the sequence `before`, of `actions` alone if some are named."""
        last = await self._journals.last(space, 0)
        sequence = last.sequence if last is not None else 0
        end = min(sequence, before - 1) if before is not None else sequence
        found: list[JournalEvent] = []
        looked = 0
        while end > 0 and len(found) < limit and looked < limits.JOURNAL_LOOKED:
            start = max(0, end - core_limits.EVENTS_PAGE)
            entries = [
                entry
                for entry in await self._journals.read(space, start, core_limits.EVENTS_PAGE)
                if entry.sequence <= end
            ]
            for entry in reversed(entries):
                if len(found) == limit:
                    break
                end = entry.first - 1
                if not actions or entry.action.value in actions:
                    found.append(event_of(space, entry))
            else:
                end = min(start, end)
            looked += core_limits.EVENTS_PAGE
        return JournalPage(space=space, items=tuple(found), sequence=sequence, next_before=end + 1 if end > 0 else None)

    async def contents(self, space: SpaceId, /) -> SpaceContents:
        """Return the contents of a space as figures."""
        return await space_contents(self._entrance.dispatcher.runtime.context, space)

    async def conversations(self, space: SpaceId, /) -> ConversationPage:
        """Return the latest conversations, as their heads know them; no turn is read."""
        store = self._entrance.dispatcher.runtime.context.store
        heads = [head async for head in read_heads(store, space)]
        latest = sorted(heads, key=lambda head: (-(head.last_at or 0), head.channel, head.conversation))
        return ConversationPage(
            space=space,
            items=tuple(
                ConversationSummary.model_validate(head, from_attributes=True)
                for head in latest[: limits.CONVERSATIONS_LISTED]
            ),
            total=len(heads),
        )

    async def today(self, space: SpaceId, now: Instant, /) -> TodayFigures:
        """Return the figures of the entries since midnight."""
        since = Instant(now - now % DAY_MS)
        last = await self._journals.last(space, 0)
        end = last.sequence if last is not None else 0
        found: Counter[tuple[JournalAction, str]] = Counter()
        is_clipped = False
        while end > 0 and not is_clipped:
            start = max(0, end - core_limits.EVENTS_PAGE)
            read = await self._journals.read(space, start, core_limits.EVENTS_PAGE)
            entries = [entry for entry in read if entry.sequence <= end]
            todays = [(entry.action, entry.ref.collection) for entry in entries if entry.at >= since]
            found.update(todays)
            if len(todays) < len(entries):
                break
            end = start
            is_clipped = found.total() >= limits.JOURNAL_LOOKED and end > 0
        actions: Counter[str] = Counter()
        planes: Counter[str] = Counter()
        for (action, collection), number in found.items():
            actions[action.value] += number
            planes[plane_of(collection)] += number
        return TodayFigures(
            since=since, entries=found.total(), actions=dict(actions), planes=dict(planes), clipped=is_clipped
        )
