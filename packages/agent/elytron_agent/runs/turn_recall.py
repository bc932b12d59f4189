"""Recall for the turn at hand: within a deadline, and a run never fails for it."""

import asyncio
from collections.abc import Collection
from dataclasses import dataclass, field
from typing import Literal

from elytron.api import MemoryFace
from elytron_agent.context import limits
from elytron_agent.context.reference import Recalled, is_outside
from elytron_core import limits as core_limits
from elytron_core.contracts.knowledge.recall import (
    MemoryRecallReport,
    MemoryRecallRequest,
    Plane,
    RecallFilters,
    RecallHit,
    RecallOutcome,
)
from elytron_core.errors import ElytronError
from elytron_core.scope import Scope

Outcome = Literal["found", "nothing", "late", "failed", "off"]


@dataclass(slots=True)
class TurnRecall:
    """Recalls what answers a text. What is late goes on, so that an index that it builds is there next time."""

    memory: MemoryFace
    scope: Scope | None
    deadline_s: float
    agent: str | None = None
    """The agent whose turns alone are recalled; None: all of the space."""
    _late: set[asyncio.Task[MemoryRecallReport]] = field(default_factory=set[asyncio.Task[MemoryRecallReport]])

    async def recall(self, text: str, /, *, beside: Collection[str]) -> tuple[tuple[Recalled, ...], Outcome]:
        """Return what memory has for `text` and the window has not: `beside` are the ids of what is shown already."""
        if self.deadline_s <= 0 or not text.strip():
            return (), "off" if self.deadline_s <= 0 else "nothing"
        request = MemoryRecallRequest(
            scope=self.scope,
            query=text[: core_limits.QUERY_CHARS],
            limit=limits.RECALL_LIMIT + min(len(beside), core_limits.RECALL_MAX - limits.RECALL_LIMIT),
            min_score=core_limits.PROJECTED_SCORE,
            filters=RecallFilters(agents=() if self.agent is None else (self.agent,)),
        )
        task = asyncio.ensure_future(self.memory.recall(request))
        self._late.add(task)
        task.add_done_callback(self._over)
        done, _ = await asyncio.wait({task}, timeout=self.deadline_s)
        if not done:
            return (), "late"
        if isinstance(task.exception(), ElytronError):
            return (), "failed"
        report = task.result()
        if report.outcome is RecallOutcome.NOTHING:
            return (), "nothing"
        new = [hit for hit in report.hits if not self._is_shown(hit, beside)]
        found = tuple(
            Recalled(
                id=hit.id,
                text=hit.text,
                score=hit.score,
                at=hit.at,
                speaker=hit.speaker or (hit.role.value if hit.role is not None else None),
                is_outside=is_outside(hit.trust),
            )
            for hit in new[: limits.RECALL_LIMIT]
        )
        return found, "found" if found else "nothing"

    def _is_shown(self, hit: RecallHit, beside: Collection[str]) -> bool:
        """Return whether the window has a recalled memory: the message itself, or the thread's own summary."""
        is_own = self.scope is not None and hit.conversation == self.scope.conversation
        return hit.id in beside or (hit.plane is Plane.SUMMARY and is_own)

    async def close(self) -> None:
        """Wait for what is still under way."""
        if self._late:
            await asyncio.wait(set(self._late))

    def _over(self, task: asyncio.Task[MemoryRecallReport]) -> None:
        self._late.discard(task)
        if not task.cancelled():
            task.exception()  # taken, so that nothing is reported of one that no caller waits for
