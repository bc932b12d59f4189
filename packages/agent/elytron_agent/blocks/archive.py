"""Archival memory: what an agent stores for good, found by meaning, words and tags."""

from collections.abc import Iterable, Sequence
from typing import Final

from elytron.api import MemoryFace
from elytron_agent import limits
from elytron_core.contracts.conditions import AnyOf, Comparison, Condition
from elytron_core.contracts.knowledge.recall import MemoryRecallReport, Plane, RecallFilters, RecallHit, RecallOutcome
from elytron_core.planes.conversation.transcript import Message, Role

_SOURCE: Final = "source"
ARCHIVAL: Final = "archival"
"""The conversation that archival memories are stored in, and what the metadata of their turns names as source."""
NOT_ARCHIVAL: Final = AnyOf(conditions=(Condition(field=_SOURCE, comparison=Comparison.NE, values=(ARCHIVAL,)),))
_IS_ARCHIVAL: Final = AnyOf(conditions=(Condition(field=_SOURCE, values=(ARCHIVAL,)),))


class Archive:
    """The archival memory of an agent; without an `agent`, that of all agents of the space.

    Each memory is a turn of the assistant, so that recall finds it too.
    """

    def __init__(self, memory: MemoryFace, /, *, agent: str | None = None) -> None:
        self._memory = memory
        self._agent = agent

    @property
    def conversation(self) -> str:
        """Return the conversation that holds the memories."""
        return ARCHIVAL if self._agent is None else f"{ARCHIVAL}:{self._agent}"

    async def insert(self, content: str, /, *, tags: Iterable[str] = (), call: str | None = None) -> str:
        """Store `content`, once for each `call`; return its id."""
        report = await self._memory.add(
            Message(role=Role.ASSISTANT, text=content, speaker=self._agent),
            conversation=self.conversation,
            agent_id=self._agent,
            tags=tags_of(tags),
            metadata={_SOURCE: ARCHIVAL},
            idempotency_key=call,
        )
        return report.ids[0]

    async def search(
        self, query: str, /, *, top_k: int = limits.ARCHIVAL_TOP_K, tags: Iterable[str] = ()
    ) -> Sequence[RecallHit]:
        """Return what answers `query`, best first; with `tags`, only what has one of them."""
        filters = RecallFilters(
            planes=(Plane.TRANSCRIPT,),
            conversations=(self.conversation,),
            tags_any=tags_of(tags),
            where=(_IS_ARCHIVAL,),
        )
        return answering(await self._memory.recall(query, limit=top_k, filters=filters))


def answering(report: MemoryRecallReport, /) -> Sequence[RecallHit]:
    """Return the hits of a recall that a model is shown: none if they are only the nearest there are."""
    return () if report.outcome is RecallOutcome.NOTHING else report.hits


def tags_of(tags: Iterable[str], /) -> tuple[str, ...]:
    """Return `tags` trimmed, without blank ones; a single text is a list with commas.

    What stores or compares them brings them into their normal form.
    """
    return tuple(tag for each in (tags.split(",") if isinstance(tags, str) else tags) if (tag := each.strip()))
