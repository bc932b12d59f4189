"""Memory around a turn with a model: what is recalled before the model answers, and what is stored afterwards.

Every entry uses it: an agent's loop, hooks of a host's loop, the proxy, and hooks of coding assistants. They differ in
where the context goes in their requests, and in what they do if memory fails.
"""

import asyncio
import re
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass
from typing import Any, Final, Literal, Protocol, TypeVar, overload

from elytron_core import limits
from elytron_core.clock import Instant
from elytron_core.contracts.maintenance.maintenance import (
    ExtractionMethod,
    MemoryFinalizeTurnReport,
    MemoryFinalizeTurnRequest,
)
from elytron_core.contracts.projection import MemoryProjectionReport, MemoryProjectionRequest, SectionName
from elytron_core.contracts.recall import (
    MemoryRecallReport,
    MemoryRecallRequest,
    RecallFilters,
    RecallGate,
    RecallHit,
    RecallOutcome,
    RecallPlane,
)
from elytron_core.contracts.tools import RegistryRefs
from elytron_core.contracts.transcript import (
    CanonicalTurnDelta,
    MemoryWriteReport,
    MemoryWriteRequest,
    TranscriptWrite,
    TurnDraft,
)
from elytron_core.errors import ElytronError, Unreachable
from elytron_core.evidence import TrustLevel
from elytron_core.ids import is_name
from elytron_core.model import OperationRequest, Value
from elytron_core.planes.transcript import ToolObservation, TurnOrigin
from elytron_core.policy.admission.own_output import own_words
from elytron_core.policy.projection.builder import DOUBT, POLICY, section_lines
from elytron_core.scope import Scope
from elytron_core.text import similarity

ReportT = TypeVar("ReportT", bound=Value)
ResultT = TypeVar("ResultT")
TurnOutcome = Literal["found", "nothing", "late", "failed", "off"]
_NO_MEMORIES: Final = frozenset({SectionName.SUBJECT, SectionName.AGENT_SKILLS, SectionName.AGENT_TOOLS})
"""Sections of a block whose entries are not memories: the host's own skills, tools and speakers."""
_LATE: Final = "memory did not answer within {wait_s:g} s: the turn continues without it"
_MINUTE: Final = re.compile(r"(?<=^- \[\d{4}-\d\d-\d\d) \d\d:\d\d")
"""The time of day in a line's label, in UTC."""


class OperateCall(Protocol):
    """Performs the operation that takes a request, with the rights of the turn's caller."""

    def __call__(self, request: OperationRequest[ReportT], /) -> Awaitable[ReportT]: ...


@dataclass(frozen=True, slots=True)
class TurnDeadline:
    """The event-loop time at which a turn continues without memory; None: it waits."""

    at_s: float | None = None

    @classmethod
    def after(cls, wait_s: float, /) -> "TurnDeadline":
        """Return the deadline of a turn that begins now and waits `wait_s` seconds for memory."""
        return cls(asyncio.get_running_loop().time() + wait_s)

    @property
    def remaining_s(self) -> float | None:
        """Return the remaining seconds; None if there is no deadline."""
        return None if self.at_s is None else self.at_s - asyncio.get_running_loop().time()

    async def run_within(self, work: Callable[[], Awaitable[ResultT]], /) -> ResultT:
        """Return the result of `work`. Late work is cancelled, and none starts late. Raises TimeoutError."""
        remaining_s = self.remaining_s
        if remaining_s is not None and remaining_s <= 0:
            raise TimeoutError
        async with asyncio.timeout_at(self.at_s):
            return await work()


NO_DEADLINE: Final = TurnDeadline()


class TurnMessages(Value):
    """What the model is shown of the conversation anyway, so that none of it is recalled again."""

    current: str
    """The current words of the turn's person: the query."""
    ids: frozenset[str] = frozenset()
    """The memory ids of messages that are shown."""
    texts: frozenset[str] = frozenset()
    """Texts of messages that are shown, in the form of `similarity.plain_text`."""
    has_conversation: bool = False
    """True if the model is shown all of the scope's own conversation."""

    @property
    def query(self) -> str:
        """Return the search text: the person's own words, without memory blocks that they repeat."""
        return own_words(self.current)[: limits.QUERY_CHARS].strip()

    def shows(self, hit: RecallHit, scope: Scope | None, /) -> bool:
        """Return whether a recalled memory is already shown: the message itself, or the conversation's own summary."""
        is_own = scope is not None and hit.conversation == scope.conversation
        is_shown = hit.id in self.ids or (hit.plane is RecallPlane.SUMMARY and is_own)
        return is_shown or (bool(self.texts) and similarity.plain_text(hit.text) in self.texts)


@dataclass(frozen=True, slots=True)
class TurnBudget:
    """How much memory may add to a turn, and how long the turn waits for it."""

    max_chars: int
    """Size of the block."""
    memories: int | None = None
    """Number of recalled memories returned as values, with the block's standing parts, for an entry that fits them into
    its window itself; None: they are in the block."""
    wait_s: float | None = None
    """Timeout of a recall; None: as long as it takes, or as the entry's own calls may."""
    answers_only: bool = False
    """True for a block of only what was recalled for the query, without standing items."""
    gate: RecallGate = RecallGate.AUTO
    """What recalled memories have to pass."""


class RecalledMemory(Value):
    """A memory that was recalled for a turn."""

    id: str
    text: str
    score: float
    at: Instant | None = None
    speaker: str | None = None
    is_outside: bool = False


class StandingWish(Value):
    """A standing wish as one escaped line of the block."""

    id: str
    line: str

    @property
    def text(self) -> str:
        """Return the wish without its label."""
        return self.line.partition("] ")[2]


@dataclass(frozen=True, slots=True)
class TurnContext:
    """What memory adds to a turn."""

    outcome: TurnOutcome = "nothing"
    failure: ElytronError | None = None
    """Why something is missing, if the memory failed."""
    block: str = ""
    """The block with its policy and its fence; empty if it contains no memory."""
    selected: tuple[str, ...] = ()
    """The ids of everything in the block."""
    cites: tuple[str, ...] = ()
    """Those of them that are memories."""
    facts: str | None = None
    """The standing part of the block without its policy; None if it could not be read."""
    wishes: tuple[StandingWish, ...] = ()
    recalled: tuple[RecalledMemory, ...] = ()
    note: str = ""
    """A doubt about what was recalled."""


class TurnMemory:
    """Memory around the turns of one scope. `operate` may raise its entry's own errors, which are passed on."""

    def __init__(
        self,
        operate: OperateCall,
        scope: Scope | None,
        /,
        *,
        filters: RecallFilters = RecallFilters(),  # noqa: B008 - a frozen value
        registries: RegistryRefs = (),
        extraction: ExtractionMethod = ExtractionMethod.AUTO,
        has_facts: bool = True,
    ) -> None:
        self._operate = operate
        self._scope = scope
        self._filters = filters
        self._registries = registries
        self._extraction = extraction
        self._has_facts = has_facts
        self._late: set[asyncio.Future[MemoryRecallReport]] = set()

    async def before(self, messages: TurnMessages, budget: TurnBudget, /) -> TurnContext:
        """Return what memory adds to a turn, within the budget. A failed or late memory adds nothing."""
        if budget.memories is None:
            return await self._block(messages, budget)
        standing_context = await self._standing(messages, budget)
        # A message that is no more than its wish is not shown twice.
        texts = messages.texts.union(similarity.plain_text(wish.text) for wish in standing_context.wishes)
        extended_messages = messages.model_copy(update={"texts": texts})
        recall_context = await self._recalled(extended_messages, budget.memories, budget)
        return TurnContext(
            outcome=recall_context.outcome,
            failure=recall_context.failure or standing_context.failure,
            facts=standing_context.facts,
            wishes=standing_context.wishes if recall_context.outcome != "off" else (),
            recalled=recall_context.recalled,
            note=recall_context.note,
        )

    @overload
    async def after(self, reply: CanonicalTurnDelta, /) -> MemoryFinalizeTurnReport: ...

    @overload
    async def after(
        self, reply: Iterable[TurnDraft], /, *, origin: TurnOrigin = TurnOrigin.HOST
    ) -> MemoryWriteReport: ...

    async def after(
        self, reply: CanonicalTurnDelta | Iterable[TurnDraft], /, *, origin: TurnOrigin = TurnOrigin.HOST
    ) -> MemoryFinalizeTurnReport | MemoryWriteReport:
        """Store a turn once for any number of calls: a complete one with its maintenance, drafts only as evidence."""
        if isinstance(reply, CanonicalTurnDelta):
            return await self._operate(self.closing_of(reply))
        write = MemoryWriteRequest(scope=self._scope, write=TranscriptWrite(turns=tuple(reply), origin=origin))
        return await self._operate(write)

    def closing_of(self, reply: CanonicalTurnDelta, /) -> MemoryFinalizeTurnRequest:
        """Return the request that stores a turn, for an entry that commits its own documents with it."""
        return MemoryFinalizeTurnRequest(scope=self._scope, delta=reply, extraction=self._extraction)

    async def close(self) -> None:
        """Wait for running recalls."""
        if self._late:
            # A copy, since finished calls remove themselves.
            await asyncio.wait(set(self._late))

    async def _block(self, messages: TurnMessages, budget: TurnBudget) -> TurnContext:
        deadline = NO_DEADLINE if budget.wait_s is None else TurnDeadline.after(budget.wait_s)
        update = {
            "answers_only": budget.answers_only,
            "recall_gate": budget.gate,
            "without_conversation": messages.has_conversation,
            "shown_ids": tuple(sorted(messages.ids))[: limits.RECALL_MAX],
        }
        try:
            request = self._projection(messages.query, budget.max_chars).model_copy(update=update)
            report = await deadline.run_within(lambda: self._operate(request))
        except ElytronError as error:
            return TurnContext(outcome="failed", failure=error)
        except TimeoutError:
            return TurnContext(outcome="late", failure=Unreachable(_LATE.format(wait_s=budget.wait_s)))
        if not report.selected_ids:
            return TurnContext()
        cited_ids = {
            memory_id: None for part in report.sections if part.name not in _NO_MEMORIES for memory_id in part.included
        }
        return TurnContext("found", None, report.system_memory_block, report.selected_ids, tuple(cited_ids))

    async def _standing(self, messages: TurnMessages, budget: TurnBudget) -> TurnContext:
        """Return the standing facts, and the wishes that the model is not shown anyway."""
        if not budget.max_chars:
            return TurnContext(facts="")
        try:
            report = await self._operate(self._projection("", budget.max_chars, recall_limit=0))
        except ElytronError as error:
            return TurnContext(failure=error)
        wishes = (
            StandingWish(id=memory, line=_MINUTE.sub("", line))
            for memory, line in section_lines(report, SectionName.WISHES)
            if memory not in messages.ids
        )
        return TurnContext(facts=_standing_facts(report) if self._has_facts else "", wishes=tuple(wishes))

    async def _recalled(self, messages: TurnMessages, count: int, budget: TurnBudget) -> TurnContext:
        """Return up to `count` memories that the gate lets through and the model is not shown anyway.

        With a time to wait, a recall that is late goes on, so that an index that it builds is there next time.
        """
        wait_s = budget.wait_s
        if wait_s is not None and wait_s <= 0:
            return TurnContext(outcome="off")
        if not count or similarity.is_blank(query := messages.query):
            return TurnContext()
        request = MemoryRecallRequest(
            scope=self._scope,
            query=query,
            # Memories already shown may be among the best, and are left out below.
            limit=min(count + len(messages.ids) + len(messages.texts), limits.RECALL_MAX),
            filters=self._filters,
            recall_gate=budget.gate,
        )
        try:
            report = await self._operate(request) if wait_s is None else await self._report_within(request, wait_s)
        except ElytronError as error:
            return TurnContext(outcome="failed", failure=error)
        if report is None:
            return TurnContext(outcome="late")
        hits = [hit for hit in report.hits if not messages.shows(hit, self._scope)]
        recalled = tuple(map(_recalled_memory, hits[:count]))
        note = DOUBT if recalled and report.outcome is RecallOutcome.DOUBTFUL else ""
        return TurnContext(outcome="found" if recalled else "nothing", recalled=recalled, note=note)

    async def _report_within(self, request: MemoryRecallRequest, wait_s: float) -> MemoryRecallReport | None:
        """Return the report of a recall; None if it is late."""
        task = asyncio.ensure_future(self._operate(request))
        self._late.add(task)
        task.add_done_callback(self._end_recall)
        finished_tasks, _ = await asyncio.wait({task}, timeout=wait_s)
        return task.result() if finished_tasks else None

    def _projection(self, query: str, max_chars: int, *, recall_limit: int | None = None) -> MemoryProjectionRequest:
        return MemoryProjectionRequest(
            scope=self._scope,
            query=query,
            max_chars=max_chars,
            # The last messages are in the request already.
            recent_messages_limit=0,
            recall_limit=recall_limit,
            filters=self._filters,
            tool_registry_refs=self._registries,
        )

    def _end_recall(self, task: "asyncio.Future[Any]") -> None:
        self._late.discard(task)
        if not task.cancelled():
            task.exception()  # taken, so that nothing is reported of one that no caller waits for


def observed_tools(calls: Iterable[tuple[str, str]], /, *, is_outside: bool) -> tuple[ToolObservation, ...]:
    """Return the calls of a turn's tools by id and name, each id once. Invalid names are left out."""
    tool_names = {call: tool for call, tool in calls if is_name(call) and is_name(tool)}
    observations = (
        ToolObservation(observation_id=call, tool_name=tool, external_content=is_outside)
        for call, tool in tool_names.items()
    )
    return tuple(observations)[: limits.TOOL_OBSERVATIONS]


def _standing_facts(report: MemoryProjectionReport) -> str:
    has_memory = any(section.included for section in report.sections)
    stable_text = report.system_memory_block[: report.stable_chars] if has_memory else ""
    return stable_text.removeprefix(POLICY).strip()


def _recalled_memory(hit: RecallHit) -> RecalledMemory:
    return RecalledMemory(
        id=hit.id,
        text=hit.text,
        score=hit.score,
        at=hit.at,
        speaker=hit.speaker or (hit.role.value if hit.role is not None else None),
        is_outside=hit.trust is TrustLevel.OUTSIDE,
    )
