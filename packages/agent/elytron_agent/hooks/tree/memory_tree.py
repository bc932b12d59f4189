"""The tree of a space: days of what was said, tiers of facts, insights. A view that is made when it is read."""

from typing import Final

from elytron.api import MemoryFace
from elytron_agent import limits
from elytron_agent.hooks.facts.insights import holds, insights_of
from elytron_agent.hooks.facts.recollection import fact_entries
from elytron_agent.hooks.tree.folder import ROOT, Folders, TreeFile, TreeListing, checked_path
from elytron_core.clock import Clock, Instant, iso
from elytron_core.contracts.admin.inspection import LedgerTurn, MemoryReplayRequest
from elytron_core.contracts.knowledge.facts import FactEntry
from elytron_core.planes.conversation.transcript import Lifecycle
from elytron_core.planes.knowledge.long_term import Tier
from elytron_core.planes.roles import Role
from elytron_core.scope import Scope

EVENTS: Final = "/events"
TIERS: Final = "/memory_tiers"
INSIGHTS: Final = "/insights"
FOLDERS: Final = (EVENTS, TIERS, *(f"{TIERS}/{tier}" for tier in Tier), INSIGHTS)


class MemoryTree:
    """Reads one conversation of a space, with the facts of the space, as folders and files."""

    def __init__(self, memory: MemoryFace, scope: Scope, clock: Clock, /) -> None:
        self._memory = memory
        self._scope = scope
        self._clock = clock

    async def list(
        self, path: str = ROOT, /, *, depth: int = limits.TREE_DEPTH, limit: int = limits.TREE_LIMIT
    ) -> TreeListing:
        """Return the entries below a folder, each folder with its abstract. Raises InvalidInput, NotFound."""
        checked_path(path)
        return (await self._folders()).listed(path, depth=max(1, depth), limit=max(1, limit))

    async def read(self, path: str, /) -> str:
        """Return the text of a file; of each folder there are `.abstract` and `.overview`.

        Raises InvalidInput, NotFound.
        """
        checked_path(path)
        return (await self._folders()).text(path)

    async def _folders(self) -> Folders:
        at = self._clock.now()
        entries = await fact_entries(self._memory, self._scope)
        files = [_turn_file(turn) for turn in await self._turns()]
        files += [_fact_file(entry) for entry in entries if holds(entry, at)]
        recorded = {entry.id: entry.recorded_at for entry in entries}
        files += [
            TreeFile(path=f"{INSIGHTS}/{one.id}", text=one.summary, at=recorded[one.fact_ids[-1]])
            for one in insights_of(entries, at=at)
        ]
        return Folders((file for file in files if file.text), folders=FOLDERS)

    async def _turns(self) -> tuple[LedgerTurn, ...]:
        report = await self._memory.replay(MemoryReplayRequest(scope=self._scope, limit=limits.TREE_TURNS))
        return tuple(turn for turn in report.turns if turn.lifecycle is Lifecycle.ACTIVE)


def _turn_file(turn: LedgerTurn) -> TreeFile:
    said = [message for message in turn.messages if message.text and not message.forgotten]
    lines = [
        f"{message.speaker or message.role}: {message.text}" for message in said if message.role is not Role.SYSTEM
    ]
    at = next((message.at for message in said if message.at is not None), turn.recorded_at)
    return TreeFile(path=f"{EVENTS}/{_day(at)}/{turn.sequence:06}", text="\n".join(lines), at=at)


def _fact_file(entry: FactEntry) -> TreeFile:
    ends = f"\nuntil: {iso(entry.valid_to)}" if entry.valid_to is not None else ""
    sure = f"{entry.certainty:.2f}" if entry.certainty is not None else entry.confidence
    text = f"{entry.content}\ntopic: {entry.topic}\nconfidence: {sure}{ends}"
    return TreeFile(path=f"{TIERS}/{entry.tier or Tier.L0}/{entry.id}", text=text, at=entry.observed_at)


def _day(at: Instant) -> str:
    return iso(at)[: len("2026-08-03")]
