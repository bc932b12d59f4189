"""Context sources: the parts shared by an agent's runs, and what thread, blocks, memory and strategy add."""

import hashlib
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Final

from elytron.api import MemoryFace
from elytron_agent.blocks.block_repository import HUMAN, BlockRepository, MemoryBlock
from elytron_agent.blocks.view import AgentMemoryView
from elytron_agent.runs.events import ANSWERS, StopReason
from elytron_agent.runs.journal import CallResult, RunInput, RunJournal, RunRecord
from elytron_agent.runs.settings import AgentSettings, HostApprover, UserPreferences
from elytron_agent.runs.thread import AgentThread
from elytron_agent.runs.thread_notes import WELCOMED
from elytron_agent.strategies.strategy import MemoryStrategy
from elytron_agent.tool import Tool
from elytron_core import limits as core_limits
from elytron_core.clock import Clock
from elytron_core.contracts.maintenance.maintenance import MemoryFinalizeTurnRequest
from elytron_core.contracts.transcript import CanonicalTurnDelta
from elytron_core.errors import ElytronError, InvalidInput
from elytron_core.evidence import EvidenceRole
from elytron_core.ids import IdSource
from elytron_core.model import Value
from elytron_core.planes import transcript
from elytron_core.policy.projection.sections import clip_text
from elytron_core.ports.chat import (
    ChatModel,
    ChatRole,
    InputMessage,
    ModelReply,
    ModelTool,
    ReasoningEffort,
    TextPart,
    ToolChoice,
    ToolResult,
)
from elytron_core.scope import Scope
from elytron_models.client import ModelClient, open_model
from elytron_turn import limits as turn_limits
from elytron_turn.assembler import ContextParts
from elytron_turn.context import (
    ShownBlock,
    StableContext,
    TailParts,
    WindowTurn,
    changed_blocks,
    summary_text,
    welcome_text,
)
from elytron_turn.memory import TurnBudget, TurnContext, TurnMemory, TurnMessages
from elytron_turn.sizes import TokenWindow, window_of

RECALL_LIMIT: Final = 8
OUTSIDE_CHARS: Final = 2_000
"""Maximum length of each text from outside that is stored with a turn as evidence."""
WELCOME_RUNS: Final = 15
"""Number of first runs with guidance for meeting a person the agent does not know yet."""
REFUSED_SHARE: Final = 0.7
"""Maximum size of a retry, relative to the request that the server rejected as too long."""


class AgentModels:
    """The models of an agent, as models or as their addresses. Summaries and images use the main model by default."""

    def __init__(
        self,
        model: ChatModel | str | None,
        /,
        *,
        summary: ChatModel | str | None = None,
        vision: ChatModel | str | None = None,
        context_tokens: int | None = None,
    ) -> None:
        if model is None:
            raise InvalidInput(field="model", problem="is missing: pass a chat model, or set its address")
        self._opened: list[ModelClient] = []
        self._context_tokens = context_tokens
        self.main = self._model(model)
        self.summary = self._model(summary) if summary is not None else self.main
        self.vision = self._model(vision) if vision is not None else self.main

    def summary_window(self, window: TokenWindow, /) -> TokenWindow:
        """Return the window of the model that writes summaries, given that of the main model."""
        return window if self.summary is self.main else window_of(self.summary, window.tokens)

    async def close(self) -> None:
        """Close the models that were opened here."""
        for model in self._opened:
            await model.close()

    def _model(self, model: ChatModel | str) -> ChatModel:
        if not isinstance(model, str):
            return model
        opened_model = open_model(model, context_tokens=self._context_tokens)
        self._opened.append(opened_model)
        return opened_model


class ClientPart(Value):
    """A client's settings for its runs: tools that it calls itself, and the form of the answer."""

    tools: tuple[ModelTool, ...] = ()
    choice: ToolChoice = ToolChoice.AUTO
    """Tool choice for the first request of a run. `required` demands one of the client's tools."""
    schema_text: str | None = None
    """JSON Schema for the answer, as JSON text."""
    hidden: frozenset[str] = frozenset()
    """The agent's own tools that are not offered."""
    top_p: float | None = None
    reasoning_effort: ReasoningEffort | None = None
    parallel_calls: bool | None = None
    keeps_all: bool = False
    """True if nothing may be left out of the window. A run whose request does not fit then fails."""

    @property
    def names(self) -> frozenset[str]:
        return frozenset(tool.name for tool in self.tools)

    def offered(self, own: Sequence[ModelTool], /, *, is_first: bool) -> tuple[ModelTool, ...]:
        """Return the tools to offer: the client's and the agent's `own`, or only the client's if the choice says so."""
        must_call_tool = is_first and self.choice is ToolChoice.REQUIRED
        return self.tools if must_call_tool else (*own, *self.tools)


@dataclass(slots=True)
class AgentParts:
    """The parts of one agent."""

    memory: MemoryFace
    scope: Scope
    journal: RunJournal
    thread: AgentThread
    turn_memory: TurnMemory
    models: AgentModels
    settings: AgentSettings
    view: AgentMemoryView
    strategy: MemoryStrategy | None
    tools: tuple[Tool, ...]
    host_tools: frozenset[str]
    approver: HostApprover
    clock: Clock
    ids: IdSource
    purpose: str = ""
    client: ClientPart = field(default_factory=ClientPart)
    factor: float = turn_limits.COUNT_MARGIN
    """Calibration factor for token estimates, from the provider's count of the last request."""
    refused_bytes: int = 0
    """Size of the smallest request that the model's server rejected as too long; 0 for none."""
    is_plain: bool = False
    """True if requests omit temperature and token limit because the model rejects them."""

    @property
    def blocks(self) -> BlockRepository | None:
        """Return the blocks, or None with a strategy, which brings its own memory."""
        return self.view.blocks if self.strategy is None else None

    @property
    def window(self) -> TokenWindow:
        """Return the window of requests: the configured size, but not more than the model's."""
        max_tokens = self.settings.max_context_tokens
        return TokenWindow(
            tokens=min(max_tokens, self.models.main.info.context_tokens or max_tokens), factor=self.factor
        )

    def max_bytes(self, share: float = 1.0, /) -> int:
        """Return the size limit of a request before it is shortened, or the given share of it."""
        max_bytes_of_window = self.window.max_bytes(self.settings.compaction_threshold)
        if self.refused_bytes:
            max_bytes_of_window = min(max_bytes_of_window, int(self.refused_bytes * REFUSED_SHARE))
        return int(max_bytes_of_window * share)


BLOCK_TOOLS: Final = frozenset({"memory_append", "core_memory_append"})
ARCHIVE_TOOLS: Final = frozenset({"archival_insert", "archival_memory_insert"})
SEARCH_TOOLS: Final = frozenset({"archival_search", "archival_memory_search", "conversation_search", "session_search"})


@dataclass(frozen=True, slots=True)
class MemoryTools:
    """How a model can use memory through tools in one run."""

    writes_human: bool = False
    """True if the model can write the block `human`."""
    archives: bool = False
    searches: bool = False

    @property
    def instruction(self) -> str:
        """Return instructions for using memory, or "" without such tools."""
        memory_places = ["facts about the person in the block `human`"] if self.writes_human else []
        if self.archives:
            memory_places.append(f"{'the rest' if self.writes_human else 'facts and plans'} in archival memory")
        sentences = [f"Keep what will matter later: {', '.join(memory_places)}."] if memory_places else []
        return " ".join(sentences + (["Search memory before you say that you do not know."] if self.searches else []))


NO_TOOLS: Final = MemoryTools()


def memory_tools_of(tools: Collection[str], blocks: Collection[str], /) -> MemoryTools:
    """Return the possible use of memory with tools of these names and writable blocks of these labels."""
    names = frozenset(tools)
    return MemoryTools(
        writes_human=HUMAN in blocks and bool(names & BLOCK_TOOLS),
        archives=bool(names & ARCHIVE_TOOLS),
        searches=bool(names & SEARCH_TOOLS),
    )


@dataclass(slots=True)
class RunContext:
    """The context of a run in addition to its conversation, and where it came from."""

    notes: TailParts
    mark: str
    memory: TurnContext
    blocks: tuple[ShownBlock, ...]

    def tail(self, thread: AgentThread, /) -> TailParts:
        """Return the notes with recalled memory. Turns are counted as they are after any compaction."""
        head = thread.head
        counts = {"earlier turns": head.runs - 1, "of them shown": len(thread.past)} if head.runs > 1 else {}
        compacted_at = head.compacted_at if head.summary else None
        return self.notes.model_copy(update={"counts": counts, "compacted_at": compacted_at})


@dataclass(slots=True)
class ContextSource:
    """Collect the parts of a run's context."""

    agent: AgentParts
    policy: str
    memory: MemoryTools = NO_TOOLS
    first_blocks: tuple[ShownBlock, ...] | None = None
    """The blocks at the beginning of the run, shown in its first step. If None, they are read then."""
    welcome: str = ""

    async def stable(self, facts: str | None, /) -> StableContext:
        """Return the stable part of the epoch, rebuilt if one of its facts is no longer current.

        This prevents a withdrawn fact from being shown. If facts could not be read (None), nothing changes.
        """
        stable_context = await self.agent.thread.read_stable()
        if stable_context is not None and (
            facts is None or set(stable_context.facts.splitlines()) <= set(facts.splitlines())
        ):
            return stable_context
        stable_context = StableContext(
            blocks=await self._blocks(),
            facts=facts or "",
            mark=self.agent.ids.secret(6).hex(),
            at=self.agent.clock.now(),
        )
        await self.agent.thread.keep_stable(stable_context)
        return stable_context

    async def turn(self, text: str, preferences: UserPreferences, /, *, strategy_reference: str | None) -> RunContext:
        """Return the context that applies only to this turn."""
        shown_ids = frozenset(memory_id for turn in self.agent.thread.past for memory_id in turn.memories)
        agent_settings = self.agent.settings
        # A strategy brings its own memory.
        wait_s = agent_settings.recall_deadline_s if self.agent.strategy is None else 0
        budget = TurnBudget(turn_limits.STANDING_CHARS, memories=RECALL_LIMIT, wait_s=wait_s)
        turn_context = await self.agent.turn_memory.before(TurnMessages(current=text, ids=shown_ids), budget)
        stable_context, blocks = await self.stable(turn_context.facts), await self._blocks()
        self.first_blocks = None
        await self.agent.thread.read_reactions()
        self.welcome = await self._welcome(preferences.timezone)
        head = self.agent.thread.head
        parts = TailParts(
            at=self.agent.clock.now(),
            zone=preferences.timezone,
            locale=preferences.locale,
            is_first_time=agent_settings.welcomes and is_first_time(head.runs, blocks),
            writes_human=self.memory.writes_human,
            searches=self.memory.searches,
            changed_blocks=changed_blocks(blocks, stable_context.blocks),
            wishes=turn_context.wishes,
            recalled=turn_context.recalled,
            note=turn_context.note,
            reference=strategy_reference,
        )
        return RunContext(notes=parts, mark=self.agent.ids.secret(6).hex(), memory=turn_context, blocks=blocks)

    async def parts(self, turn: RunContext, current: WindowTurn, /, *, zone: str, before_history: str) -> ContextParts:
        """Return all parts of a request."""
        stable_context, summary = await self.stable(turn.memory.facts), self.agent.thread.summary
        return ContextParts(
            policy=self.policy,
            stable=stable_context,
            summary=summary_text(summary.text, stable_context.mark) if summary is not None else "",
            welcome=self.welcome if summary is None else "",
            window=self.agent.thread.past,
            before_history=before_history,
            tail=turn.tail(self.agent.thread),
            mark=turn.mark,
            current=current,
            zone=zone,
        )

    async def shown_blocks(self) -> tuple[ShownBlock, ...]:
        """Return the current blocks, or nothing if they cannot be read."""
        if self.agent.blocks is None:
            return ()
        try:
            blocks = await self.agent.blocks.list()
        except ElytronError:
            return ()
        return shown_blocks(blocks)

    async def _welcome(self, zone: str) -> str:
        """Return the stored greeting with the person's reactions to it, or "" if there is none."""
        thread_state = self.agent.thread.state
        welcome = thread_state.welcome
        if welcome is None:
            return ""
        try:
            welcome_reactions = await self.agent.journal.reactions(
                (WELCOMED,) if WELCOMED in thread_state.reacted else ()
            )
        except ElytronError:
            return ""
        return welcome_text(welcome.texts, welcome.at, zone=zone, reactions=welcome_reactions.get(WELCOMED, ()))

    async def _blocks(self) -> tuple[ShownBlock, ...]:
        return self.first_blocks if self.first_blocks is not None else await self.shown_blocks()


def shown_blocks(blocks: Iterable[MemoryBlock], /) -> tuple[ShownBlock, ...]:
    """Return the blocks in their form for a context."""
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
"""Greeting for a person the agent does not know yet."""


def is_first_time(runs: int, blocks: Sequence[ShownBlock], /) -> bool:
    """Return whether the agent does not know the person yet: an early run, with an empty block `human`."""
    is_known = any(block.label == HUMAN and block.value.strip() for block in blocks)
    return runs <= WELCOME_RUNS and not is_known


def prefix_fingerprint(parts: ContextParts, /) -> str:
    """Return a digest of everything before the window, without any size limit."""
    stable_text = parts.stable.text if parts.stable is not None else ""
    prefix_text = f"{parts.policy}\0{stable_text}\0{parts.summary}" + (f"\0{parts.welcome}" if parts.welcome else "")
    return hashlib.sha256(prefix_text.encode()).hexdigest()[:16]


READ_RESULT: Final = "read_result"
"""Tool that repeats results of the run, which are stored as evidence only once."""
_DELIVERIES: Final = {
    StopReason.CANCELLED: transcript.TurnDelivery.CANCELLED,
    StopReason.FAILED: transcript.TurnDelivery.UPSTREAM_FAILED,
    StopReason.WINDOW: transcript.TurnDelivery.UPSTREAM_FAILED,
    StopReason.MALFORMED: transcript.TurnDelivery.UPSTREAM_FAILED,
}


def delivery_of(reason: StopReason, text: str, /) -> transcript.TurnDelivery:
    """Return how a turn was delivered. An answer counts only if it exists and the run reached its end."""
    if reason in ANSWERS or reason is StopReason.REFUSED:
        return transcript.TurnDelivery.DELIVERED if text else transcript.TurnDelivery.USER_ONLY
    return _DELIVERIES[reason]


def turn_of(agent: AgentParts, record: RunRecord, reason: StopReason, /) -> MemoryFinalizeTurnRequest | None:
    """Return the request that stores the turn in memory, idempotently. None if there is no text.

    Text that tools brought from outside is stored with the tool's role, which carries no authority. The text of a
    schedule is stored with the system's role.
    """
    delivery = delivery_of(reason, record.text)
    new_results = (result for result in record.results if result.tool != READ_RESULT)
    outside_results = [result for result in new_results if result.is_outside and not result.is_error]
    role = EvidenceRole.USER if record.input.schedule is None else EvidenceRole.SYSTEM
    input_words = (
        [transcript.Message(role=role, text=record.input.text, at=record.input.at)] if record.input.text else []
    )
    client_messages = given_messages(record.input)
    tool_messages = (
        transcript.Message(role=EvidenceRole.TOOL, text=clip_text(result.text, OUTSIDE_CHARS), speaker=result.tool)
        for result in outside_results[: core_limits.TOOL_OBSERVATIONS]
        if result.text.strip()
    )
    has_answer = delivery is transcript.TurnDelivery.DELIVERED
    input_messages = (*client_messages, *input_words, *tool_messages)
    if not input_messages and not has_answer:
        return None
    answer = transcript.Message(role=EvidenceRole.ASSISTANT, text=record.text) if has_answer else None
    delta = CanonicalTurnDelta(
        turn_id=record.input.run,
        delivery=delivery,
        input_messages=input_messages,
        assistant_message=answer,
        tool_observations=tuple(_observe_result(result) for result in record.results[: core_limits.TOOL_OBSERVATIONS]),
        external_content_used=bool(outside_results)
        or record.input.is_outside
        or any(message.role is EvidenceRole.TOOL for message in client_messages),
    )
    return agent.turn_memory.closing_of(delta)


def given_messages(run_input: RunInput, /) -> list[transcript.Message]:
    """Return the client's messages that are evidence: results of its tools, and messages added without a question.

    A history sent along with a question is not evidence, because it may have been sent before.
    """
    messages: list[transcript.Message] = []
    for message in run_input.before:
        match message:
            case ToolResult():
                text, role = clip_text(message.text, OUTSIDE_CHARS), EvidenceRole.TOOL
                messages.append(
                    transcript.Message(role=role, text=text.strip() or "(empty)", speaker=message.tool or None)
                )
            case InputMessage(role=ChatRole.USER, is_reference=False) if not run_input.asks:
                text = "\n".join(part.text for part in message.parts if isinstance(part, TextPart))
                messages += (
                    [transcript.Message(role=EvidenceRole.USER, text=text, at=run_input.at)] if text.strip() else []
                )
            case ModelReply() if not run_input.asks:
                text = "".join(item.text for item in message.items if isinstance(item, TextPart))
                messages += [transcript.Message(role=EvidenceRole.ASSISTANT, text=text)] if text.strip() else []
            case _:
                pass
    return messages[: core_limits.MESSAGES_PER_TURN - 1 - core_limits.TOOL_OBSERVATIONS]


def _observe_result(result: CallResult) -> transcript.ToolObservation:
    outcome = "failed" if result.is_error else "answered"
    return transcript.ToolObservation(
        observation_id=f"{result.step}.{result.place}",
        tool_name=result.tool,
        summary="outcome unknown" if result.is_unknown else outcome,
        external_content=result.is_outside,
    )
