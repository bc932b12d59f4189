"""The part of a memory that one agent may see. Its tools and context reach memory only through this view."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self

from elytron.api import MemoryFace
from elytron_agent import limits
from elytron_agent.blocks.archive import ArchivalMemory, search_conversations
from elytron_agent.blocks.block_repository import BlockRepository
from elytron_core.contracts.recall import RecallFilters, RecallHit


@dataclass(frozen=True, slots=True)
class AgentMemoryView:
    """An agent's view of a memory: with `agent` only that agent's own part, otherwise what all its agents share."""

    memory: MemoryFace
    blocks: BlockRepository
    archive: ArchivalMemory
    agent: str | None = None

    @classmethod
    def of(cls, memory: MemoryFace, /, *, agent: str | None = None, blocks: BlockRepository | None = None) -> Self:
        """Return the view of `agent` on its own memory, or on the shared memory for None.

        `blocks` replaces its blocks.
        """
        repository = blocks if blocks is not None else BlockRepository(memory, agent=agent)
        return cls(memory, repository, ArchivalMemory(memory, agent=agent), agent)

    @property
    def is_shared(self) -> bool:
        """Return whether the agent sees everything its user said, and what was derived from it."""
        return self.agent is None

    @property
    def filters(self) -> RecallFilters:
        """Return the filters that limit recall to the view."""
        return RecallFilters(agents=() if self.agent is None else (self.agent,))

    async def search_conversations(
        self, query: str, /, *, limit: int = limits.CONVERSATION_HITS, conversation: str | None = None
    ) -> Sequence[RecallHit]:
        """Return messages and summaries that match `query`, from every conversation in the view or from one."""
        return await search_conversations(
            self.memory, query, limit=limit, conversation=conversation, filters=self.filters
        )
