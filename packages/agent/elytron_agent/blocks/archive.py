"""Archival memory: what an agent stores permanently, searchable by meaning, words and tags."""

from collections.abc import Iterable, Sequence
from typing import Final

from elytron.api import MemoryFace
from elytron_agent import limits
from elytron_agent.tool import ToolAnswer
from elytron_core.contracts.recall import (
    AnyOf,
    ComparisonOperator,
    FieldCondition,
    MemoryRecallReport,
    RecallFilters,
    RecallHit,
    RecallOutcome,
    RecallPlane,
)
from elytron_core.evidence import PRIVATE_FLAG, STORE_FLAG, EvidenceRole, TrustLevel
from elytron_core.planes.transcript import Message
from elytron_core.policy.projection import sections

SEARCH_LINE_CHARS: Final = 1_200
"""Maximum number of characters of one memory in a search result."""


SOURCE: Final = "source"
SOURCE_TYPE: Final = "embedding_source_type"
"""Metadata field of turns stored through `/v1/rag`. It names their source type, which is never archival memory."""
ARCHIVAL: Final = "archival"
"""Name of the conversation with the archival memories, and the `source` in the metadata of their turns."""
NOT_ARCHIVAL: Final = AnyOf(
    conditions=(FieldCondition(field=SOURCE, comparison=ComparisonOperator.NE, values=(ARCHIVAL,)),)
)
NOT_PUT_IN: Final = AnyOf(
    conditions=(FieldCondition(field=SOURCE_TYPE, comparison=ComparisonOperator.EXISTS, values=(), negated=True),)
)
_IS_ARCHIVAL: Final = AnyOf(conditions=(FieldCondition(field=SOURCE, values=(ARCHIVAL,)),))


class ArchivalMemory:
    """The archival memory of an agent, or without `agent` that of all agents of the space.

    Each memory is stored as a turn of the assistant, so recall finds it too.
    """

    def __init__(self, memory: MemoryFace, /, *, agent: str | None = None) -> None:
        self._memory = memory
        self._agent = agent

    @property
    def conversation(self) -> str:
        """Return the name of the conversation with the memories."""
        return ARCHIVAL if self._agent is None else f"{ARCHIVAL}:{self._agent}"

    async def insert(self, content: str, /, *, tags: Iterable[str] = (), call: str | None = None) -> str:
        """Store `content` and return its id. Repeating a `call` stores it only once."""
        report = await self._memory.add(
            Message(role=EvidenceRole.ASSISTANT, text=content, speaker=self._agent),
            conversation=self.conversation,
            agent_id=self._agent,
            tags=tags_of(tags),
            metadata={SOURCE: ARCHIVAL},
            idempotency_key=call,
        )
        return report.ids[0]

    async def search(
        self, query: str, /, *, top_k: int = limits.ARCHIVAL_TOP_K, tags: Iterable[str] = ()
    ) -> Sequence[RecallHit]:
        """Return the memories that match `query`, best first. With `tags`, a memory must have at least one of them."""
        filters = RecallFilters(
            planes=(RecallPlane.TRANSCRIPT,),
            conversations=(self.conversation,),
            tags_any=tags_of(tags),
            where=(_IS_ARCHIVAL,),
        )
        return answering_hits(await self._memory.recall(query, limit=top_k, filters=filters))


def answering_hits(report: MemoryRecallReport, /) -> Sequence[RecallHit]:
    """Return the hits to show to a model: none if they are merely the nearest memories without a match."""
    return () if report.outcome is RecallOutcome.NOTHING else report.hits


def tags_of(tags: Iterable[str], /) -> tuple[str, ...]:
    """Return `tags` trimmed and without blank ones. A single text is split at commas.

    Normalisation is left to the code that stores or compares them.
    """
    return tuple(tag for raw_tag in (tags.split(",") if isinstance(tags, str) else tags) if (tag := raw_tag.strip()))


_WITHHELD: Final = (
    AnyOf(
        conditions=(
            FieldCondition(field=PRIVATE_FLAG, values=(True,)),
            FieldCondition(field=STORE_FLAG, values=(False,)),
        )
    ),
)


async def search_conversations(
    memory: MemoryFace,
    query: str,
    /,
    *,
    limit: int = limits.CONVERSATION_HITS,
    conversation: str | None = None,
    filters: RecallFilters | None = None,
) -> Sequence[RecallHit]:
    """Return the messages and summaries that answer `query`, best first, of all conversations or of one.

    `filters` narrow it further; an agent searches by its `AgentMemoryView`, which gives them. Private messages, which
    no recall finds unasked, and archival memories are left out, and so is a summary of a conversation that has a
    private message.
    """
    filters = (filters or RecallFilters()).model_copy(
        update={
            "planes": (RecallPlane.TRANSCRIPT, RecallPlane.SUMMARY),
            "conversations": () if conversation is None else (conversation,),
            "where": (NOT_ARCHIVAL, NOT_PUT_IN),
        }
    )
    hits = answering_hits(await memory.recall(query, limit=limit, filters=filters))
    summarised_conversations = {
        hit.conversation for hit in hits if hit.plane is RecallPlane.SUMMARY and hit.conversation is not None
    }
    withheld_conversations = {
        conversation_name
        for conversation_name in summarised_conversations
        if await _has_withheld(memory, conversation_name)
    }
    return [
        hit for hit in hits if hit.plane is not RecallPlane.SUMMARY or hit.conversation not in withheld_conversations
    ]


async def _has_withheld(memory: MemoryFace, conversation: str) -> bool:
    filters = RecallFilters(planes=(RecallPlane.TRANSCRIPT,), conversations=(conversation,), where=_WITHHELD)
    return bool((await memory.list(filters=filters, limit=1, include_private=True)).items)


_NOTHING = "Nothing was found."


def answer_of(hits: Iterable[RecallHit], /) -> ToolAnswer:
    """Return the lines of `hits` for a model; marked as text from outside if one of them is."""
    hit_list = list(hits)
    return ToolAnswer(
        text="\n".join(map(_hit_line, hit_list)) or _NOTHING,
        is_outside=any(hit.trust is TrustLevel.OUTSIDE for hit in hit_list),
    )


def _hit_line(hit: RecallHit) -> str:
    # A line that begins with a day and ends with an id is known as memory's own if it comes back.
    labels = (
        sections.format_minute(hit.at),
        sections.label_of(hit.speaker or hit.role or hit.plane),
        f"in {sections.label_of(hit.conversation)}" if hit.conversation else "",
        *(f"#{sections.label_of(tag)}" for tag in hit.tags),
    )
    line = sections.line_of(
        hit.id, labels, hit.text, most=SEARCH_LINE_CHARS, is_outside=hit.trust is TrustLevel.OUTSIDE
    )
    return f"{line.head}{line.text} ({hit.id})"
