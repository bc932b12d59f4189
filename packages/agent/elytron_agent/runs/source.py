"""Sources of a context's parts: the thread, the blocks, memory, and the strategy of a run."""

import hashlib
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from elytron_agent import limits
from elytron_agent import limits as context_limits
from elytron_agent.blocks.shelf import HUMAN, MemoryBlock
from elytron_agent.context import reference
from elytron_agent.context.reference import RecalledMemory, ShownBlock, StableContext, TailParts
from elytron_agent.context.request import ContextParts, WindowTurn, clip_words
from elytron_agent.runs.events import ANSWERS, StopReason
from elytron_agent.runs.journal import CallResult, RunInput, RunRecord
from elytron_agent.runs.parts import AgentParts, Outcome
from elytron_agent.runs.settings import UserPreferences
from elytron_core import limits as core_limits
from elytron_core.contracts.maintenance import MemoryFinalizeTurnRequest
from elytron_core.contracts.projection import MemoryProjectionRequest
from elytron_core.contracts.transcript import CanonicalTurnDelta
from elytron_core.errors import ElytronError
from elytron_core.evidence import EvidenceRole
from elytron_core.planes import transcript
from elytron_core.policy.projection.builder import POLICY
from elytron_core.ports.chat import ChatRole, InputMessage, ModelReply, TextPart, ToolResult
from elytron_core.scope import Scope

BLOCK_TOOLS: Final = frozenset({"memory_append", "core_memory_append"})
ARCHIVE_TOOLS: Final = frozenset({"archival_insert", "archival_memory_insert"})
SEARCH_TOOLS: Final = frozenset({"archival_search", "archival_memory_search", "conversation_search", "session_search"})


@dataclass(frozen=True, slots=True)
class MemoryTools:
    """Ways in which a model may use memory by tools in one run."""

    writes_human: bool = False
    """True if it may write the block `human`."""
    archives: bool = False
    searches: bool = False

    @property
    def instruction(self) -> str:
        """Return what the model is to do with its memory; nothing without tools for it."""
        places = ["facts about the person in the block `human`"] if self.writes_human else []
        if self.archives:
            places.append(f"{'the rest' if self.writes_human else 'facts and plans'} in archival memory")
        told = [f"Keep what will matter later: {', '.join(places)}."] if places else []
        return " ".join(told + (["Search memory before you say that you do not know."] if self.searches else []))


NO_TOOLS: Final = MemoryTools()


def memory_tools_of(tools: Collection[str], blocks: Collection[str], /) -> MemoryTools:
    """Return how memory is used by tools of these names, over blocks of these labels."""
    names = frozenset(tools)
    return MemoryTools(
        writes_human=HUMAN in blocks and bool(names & BLOCK_TOOLS),
        archives=bool(names & ARCHIVE_TOOLS),
        searches=bool(names & SEARCH_TOOLS),
    )


@dataclass(slots=True)
class TurnContext:
    """Context of a run beside its conversation, and its origin."""

    tail: str
    recalled: tuple[RecalledMemory, ...]
    recall: Outcome
    blocks: tuple[ShownBlock, ...]


@dataclass(slots=True)
class ContextSource:
    """Gathers the parts of a run's context."""

    agent: AgentParts
    policy: str
    memory: MemoryTools = NO_TOOLS
    seen: tuple[ShownBlock, ...] | None = None
    """The blocks at the beginning of the run, which its first step shows; None: they are read then."""

    async def stable(self) -> StableContext:
        """Return the stable part of the epoch; the first run of an epoch makes it."""
        found = await self.agent.thread.read_stable()
        return found if found is not None else await self._made(await self._facts() or "")

    async def renewed(self) -> StableContext:
        """Return the stable part, rebuilt if one of its facts is not current: a withdrawn fact is not shown."""
        found, facts = await self.agent.thread.read_stable(), await self._facts()
        if found is not None and (facts is None or set(found.facts.splitlines()) <= set(facts.splitlines())):
            return found
        return await self._made(facts or "")

    async def _made(self, facts: str) -> StableContext:
        blocks = await self._blocks()
        made = StableContext(blocks=blocks, facts=facts, mark=self.agent.ids.secret(6).hex(), at=self.agent.clock.now())
        await self.agent.thread.keep_stable(made)
        return made

    async def turn(self, text: str, preferences: UserPreferences, /, *, strategy_reference: str | None) -> TurnContext:
        """Return what is true of this turn alone."""
        stable, blocks = await self.renewed(), await self._blocks()
        self.seen = None
        past = self.agent.thread.past
        beside = {memory for turn in past for memory in turn.memories}
        recalled, outcome = await self.agent.recall.recall(text, beside=beside)
        head = self.agent.thread.head
        parts = TailParts(
            at=self.agent.clock.now(),
            zone=preferences.timezone,
            locale=preferences.locale,
            counts={"earlier turns": head.runs - 1, "of them shown": len(past)} if head.runs > 1 else {},
            compacted_at=head.compacted_at if head.summary else None,
            is_first_time=self.agent.settings.welcomes and is_first_time(head.runs, blocks),
            writes_human=self.memory.writes_human,
            searches=self.memory.searches,
            changed_blocks=reference.changed_blocks(blocks, stable.blocks),
            recalled=recalled,
            reference=strategy_reference,
        )
        tail = reference.context_tail(parts, mark=self.agent.ids.secret(6).hex())
        return TurnContext(tail=tail, recalled=recalled, recall=outcome, blocks=blocks)

    async def parts(self, turn: TurnContext, current: WindowTurn, /, *, zone: str, before_history: str) -> ContextParts:
        """Return all that a request is made of."""
        stable, summary = await self.stable(), self.agent.thread.summary
        return ContextParts(
            policy=self.policy,
            stable=stable.text,
            summary=reference.summary_text(summary.text, stable.mark) if summary is not None else "",
            window=self.agent.thread.past,
            before_history=before_history,
            tail=turn.tail,
            current=current,
            zone=zone,
        )

    async def shown_blocks(self) -> tuple[ShownBlock, ...]:
        """Return the blocks as they are now; none if they cannot be read."""
        if self.agent.blocks is None:
            return ()
        try:
            found = await self.agent.blocks.list()
        except ElytronError:
            return ()
        return shown_blocks(found)

    async def _blocks(self) -> tuple[ShownBlock, ...]:
        return self.seen if self.seen is not None else await self.shown_blocks()

    async def _facts(self) -> str | None:
        """Return the standing part as memory projects it; None if memory fails."""
        request = MemoryProjectionRequest(
            scope=self.agent.scope,
            query="",
            max_chars=context_limits.STABLE_FACTS_CHARS,
            recent_messages_limit=0,
            recall_limit=0,
        )
        try:
            report = await self.agent.memory.project(request)
        except ElytronError:
            return None
        shown = [section for section in report.sections if section.included]
        stable = report.system_memory_block[: report.stable_chars] if shown else ""
        return stable.removeprefix(POLICY).strip()


def shown_blocks(blocks: Iterable[MemoryBlock], /) -> tuple[ShownBlock, ...]:
    """Return the blocks in the form for a context."""
    return tuple(
        ShownBlock(
            label=block.label,
            value=block.value,
            description=block.description,
            version=block.version,
            is_read_only=block.read_only,
        )
        for block in blocks
    )


WELCOME: Final = (
    "Hello, I am glad to meet you.",
    "I remember what we talk about, and you can see and change what I keep at any time.",
    "What may I call you, and what is on your mind?",
)
"""First words to a person whom the agent does not know."""


def is_first_time(runs: int, blocks: Sequence[ShownBlock], /) -> bool:
    """Return whether the agent does not know the person yet: among the first runs, and the block `human` is empty."""
    known = any(block.label == HUMAN and block.value.strip() for block in blocks)
    return runs <= limits.WELCOME_RUNS and not known


def prefix_fingerprint(parts: ContextParts, /) -> str:
    """Return a digest of the part before the window."""
    told = f"{parts.policy}\0{parts.stable}\0{parts.summary}"
    return hashlib.sha256(told.encode()).hexdigest()[:16]


READ_RESULT: Final = "read_result"
"""Tool that repeats results of the run, which are evidence once."""
_DELIVERIES: Final = {
    StopReason.CANCELLED: transcript.TurnDelivery.CANCELLED,
    StopReason.FAILED: transcript.TurnDelivery.UPSTREAM_FAILED,
    StopReason.WINDOW: transcript.TurnDelivery.UPSTREAM_FAILED,
    StopReason.MALFORMED: transcript.TurnDelivery.UPSTREAM_FAILED,
}


def delivery_of(reason: StopReason, text: str, /) -> transcript.TurnDelivery:
    """Return how a run's turn was delivered: an answer counts only if there is one, and the run came to its end."""
    if reason in ANSWERS or reason is StopReason.REFUSED:
        return transcript.TurnDelivery.DELIVERED if text else transcript.TurnDelivery.USER_ONLY
    return _DELIVERIES[reason]


def turn_of(record: RunRecord, reason: StopReason, scope: Scope | None, /) -> MemoryFinalizeTurnRequest | None:
    """Return the request that has memory keep the turn; a repeat of it stores nothing. None if there are no words.

    Text that tools brought from outside is stored beside the messages as a tool's, which vouches for nothing, and a
    schedule's words as the system's.
    """
    delivery = delivery_of(reason, record.text)
    new = (result for result in record.results if result.tool != READ_RESULT)
    outside = [result for result in new if result.is_outside and not result.is_error]
    role = EvidenceRole.USER if record.input.schedule is None else EvidenceRole.SYSTEM
    words = [transcript.Message(role=role, text=record.input.text, at=record.input.at)] if record.input.text else []
    given = given_messages(record.input)
    heard = (
        transcript.Message(
            role=EvidenceRole.TOOL, text=clip_words(result.text, limits.OUTSIDE_CHARS), speaker=result.tool
        )
        for result in outside[: core_limits.TOOL_OBSERVATIONS]
        if result.text.strip()
    )
    has_answer = delivery is transcript.TurnDelivery.DELIVERED
    said = (*given, *words, *heard)
    if not said and not has_answer:
        return None
    answer = transcript.Message(role=EvidenceRole.ASSISTANT, text=record.text) if has_answer else None
    return MemoryFinalizeTurnRequest(
        scope=scope,
        delta=CanonicalTurnDelta(
            turn_id=record.input.run,
            delivery=delivery,
            input_messages=said,
            assistant_message=answer,
            tool_observations=tuple(
                _observe_result(result) for result in record.results[: core_limits.TOOL_OBSERVATIONS]
            ),
            external_content_used=bool(outside)
            or record.input.is_outside
            or any(each.role is EvidenceRole.TOOL for each in given),
        ),
    )


def given_messages(asked: RunInput, /) -> list[transcript.Message]:
    """Return what is evidence of the messages that a client gave: results of its tools, and words that it added.

    A history that it sends along with a question is none: it may have been sent before.
    """
    found: list[transcript.Message] = []
    for message in asked.before:
        match message:
            case ToolResult():
                text, role = clip_words(message.text, limits.OUTSIDE_CHARS), EvidenceRole.TOOL
                found.append(
                    transcript.Message(role=role, text=text.strip() or "(empty)", speaker=message.tool or None)
                )
            case InputMessage(role=ChatRole.USER, is_reference=False) if not asked.asks:
                text = "\n".join(part.text for part in message.parts if isinstance(part, TextPart))
                found += [transcript.Message(role=EvidenceRole.USER, text=text, at=asked.at)] if text.strip() else []
            case ModelReply() if not asked.asks:
                text = "".join(item.text for item in message.items if isinstance(item, TextPart))
                found += [transcript.Message(role=EvidenceRole.ASSISTANT, text=text)] if text.strip() else []
            case _:
                pass
    return found[: core_limits.MESSAGES_PER_TURN - 1 - core_limits.TOOL_OBSERVATIONS]


def _observe_result(result: CallResult) -> transcript.ToolObservation:
    told = "failed" if result.is_error else "answered"
    return transcript.ToolObservation(
        observation_id=f"{result.step}.{result.place}",
        tool_name=result.tool,
        summary="outcome unknown" if result.is_unknown else told,
        external_content=result.is_outside,
    )
