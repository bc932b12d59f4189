"""The memory that one agent may see. Its tools and its context reach memory only through this view."""

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
    """An agent's view of a memory; with `agent`, of what is that agent's own, else of what the agents of it share."""

    memory: MemoryFace
    blocks: BlockRepository
    archive: ArchivalMemory
    agent: str | None = None

    @classmethod
    def of(cls, memory: MemoryFace, /, *, agent: str | None = None, blocks: BlockRepository | None = None) -> Self:
        """Return the view of an agent with a memory of its own, None: of the shared one; `blocks` replaces its own."""
        repository = blocks if blocks is not None else BlockRepository(memory, agent=agent)
        return cls(memory, repository, ArchivalMemory(memory, agent=agent), agent)

    @property
    def is_shared(self) -> bool:
        """Return whether the agent sees what its user said anywhere, and what was drawn from that."""
        return self.agent is None

    @property
    def filters(self) -> RecallFilters:
        """Return the filters that keep a recall within the view."""
        return RecallFilters(agents=() if self.agent is None else (self.agent,))

    async def search_conversations(
        self, query: str, /, *, limit: int = limits.CONVERSATION_HITS, conversation: str | None = None
    ) -> Sequence[RecallHit]:
        """Return the messages and summaries that answer `query`, of all conversations in the view or of one."""
        return await search_conversations(
            self.memory, query, limit=limit, conversation=conversation, filters=self.filters
        )
