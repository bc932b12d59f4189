"""A memory store for Strands agents over one user's messages and memories."""

from collections.abc import Sequence
from typing import Any
from uuid import uuid4

from typing_extensions import override

from elytron.api import MemoryFace
from elytron_core import limits
from elytron_core.contracts.recall import RecallHit, RecallOutcome
from elytron_core.errors import InvalidInput
from elytron_core.evidence import EvidenceRole
from elytron_integrations.conversation_items import joined_text, mended_text
from elytron_integrations.integration_table import require_framework
from elytron_integrations.run_memory import AgentRunMemory, spoken_message
from elytron_integrations.user_memory import user_memory

require_framework(__name__)

from strands.memory import MemoryEntry, MemoryStore, SearchOptions  # noqa: E402
from strands.memory.extraction.types import ExtractionConfig  # noqa: E402
from strands.memory.types import AddMessagesContext, Metadata  # noqa: E402
from strands.types.content import Message  # noqa: E402


class ElytronMemoryStore(MemoryStore):
    """Memory store in one memory space: `space`, or the memory's own.

    With `extraction`, the manager passes the conversation's messages every few turns; each is stored once.
    """

    def __init__(
        self,
        memory: MemoryFace,
        *,
        space: str | None = None,
        name: str = "elytron",
        description: str | None = "What is remembered of the user, from all conversations.",
        max_search_results: int | None = limits.RECALL_DEFAULT,
        writable: bool = True,
        extraction: ExtractionConfig | bool | None = None,
    ) -> None:
        self._memory = user_memory(memory, space, operation="the memory store")
        self._run = AgentRunMemory(self._memory, framework="strands")
        self._run_id = uuid4().hex
        self.name = name
        self.description = description
        self.max_search_results = max_search_results
        self.writable = writable
        self.extraction = extraction

    @override
    async def initialize(self) -> None:
        """Start a new run. Message numbers restart with each run, so their ids include the run."""
        self._run_id = uuid4().hex

    @override
    async def search(self, query: str, options: SearchOptions | None = None) -> list[MemoryEntry]:
        """Return memories that answer `query`, best first, or none if memory has no answer."""
        limit = (options or {}).get("max_search_results") or self.max_search_results or limits.RECALL_DEFAULT
        report = await self._memory.recall(
            mended_text(query)[: limits.QUERY_CHARS], limit=min(limit, limits.RECALL_MAX)
        )
        return [_entry_of(hit) for hit in report.hits] if report.outcome is not RecallOutcome.NOTHING else []

    @override
    async def add(self, content: str, metadata: Metadata | None = None) -> Any:
        """Store a text that the agent or an extractor considered worth remembering, and return its id."""
        if not content.strip():
            raise InvalidInput(field="content", problem="has no words")
        message = spoken_message(EvidenceRole.ASSISTANT, content)
        report = await self._memory.add(message, metadata=metadata, conversation="strands-memories")
        return report.ids[0] if report.ids else None

    @override
    async def add_messages(self, messages: list[Message], context: AddMessagesContext | None = None) -> Any:
        """Store messages as evidence. Messages of a batch that is sent again are stored once."""
        numbers: Sequence[int | None] = (context.sequence_numbers if context is not None else None) or [None] * len(
            messages
        )
        messages_with_ids = [
            (_spoken_of(message), f"{self._run_id}:{number}" if number is not None else None)
            for message, number in zip(messages, numbers, strict=True)
        ]
        await self._run.add(messages_with_ids, conversation=f"run-{self._run_id}")
        return len(messages_with_ids)


def _spoken_of(message: Message) -> Any:
    """Return what a message says, without tool calls and their results."""
    role = EvidenceRole.USER if message["role"] == "user" else EvidenceRole.ASSISTANT
    return spoken_message(role, joined_text(block.get("text") for block in message["content"]))


def _entry_of(hit: RecallHit) -> MemoryEntry:
    fields = {
        "id": hit.id,
        "score": hit.score,
        "at": hit.when.isoformat() if hit.when is not None else None,
        "speaker": hit.speaker or hit.role,
        "trust": hit.trust,
        "conversation": hit.conversation,
    }
    metadata = {name: str(value) if not isinstance(value, float) else value for name, value in fields.items() if value}
    return MemoryEntry(content=hit.text, metadata={**hit.metadata, **metadata})
