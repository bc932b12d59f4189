"""Parts of an agent, which all its runs share: its memory, thread, models, settings and tools."""

import asyncio
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from typing import Literal

from elytron.api import MemoryFace
from elytron_agent import limits
from elytron_agent.blocks.archive import ArchivalMemory
from elytron_agent.blocks.shelf import BlockShelf
from elytron_agent.context.reference import RecalledMemory, is_outside
from elytron_agent.runs.journal import RunJournal
from elytron_agent.runs.settings import AgentSettings, HostApprover
from elytron_agent.runs.thread import AgentThread
from elytron_agent.strategies.strategy import MemoryStrategy
from elytron_agent.tool import Tool
from elytron_core import limits as core_limits
from elytron_core.clock import Clock
from elytron_core.contracts.recall import (
    MemoryRecallReport,
    MemoryRecallRequest,
    RecallFilters,
    RecallHit,
    RecallOutcome,
    RecallPlane,
)
from elytron_core.errors import ElytronError, InvalidInput
from elytron_core.ids import IdSource
from elytron_core.model import Value
from elytron_core.ports.chat import ChatModel, ModelTool, ReasoningEffort, ToolChoice
from elytron_core.scope import Scope
from elytron_models.client import ModelClient, open_model

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

    async def recall(self, text: str, /, *, beside: Collection[str]) -> tuple[tuple[RecalledMemory, ...], Outcome]:
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
            RecalledMemory(
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
        return hit.id in beside or (hit.plane is RecallPlane.SUMMARY and is_own)

    async def close(self) -> None:
        """Wait for what is still under way."""
        if self._late:
            await asyncio.wait(set(self._late))

    def _over(self, task: asyncio.Task[MemoryRecallReport]) -> None:
        self._late.discard(task)
        if not task.cancelled():
            task.exception()  # taken, so that nothing is reported of one that no caller waits for


class AgentModels:
    """The models of an agent. A text is the address of a model; without one of their own, summaries and images take the
    model of the runs."""

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
            raise InvalidInput(field="model", problem="is missing: give a chat model, or an address in the settings")
        self._opened: list[ModelClient] = []
        self._context_tokens = context_tokens
        self.main = self._model(model)
        self.summary = self._model(summary) if summary is not None else self.main
        self.vision = self._model(vision) if vision is not None else self.main

    async def close(self) -> None:
        """Close the models that were opened here."""
        for model in self._opened:
            await model.close()

    def _model(self, wanted: ChatModel | str) -> ChatModel:
        if not isinstance(wanted, str):
            return wanted
        opened = open_model(wanted, context_tokens=self._context_tokens)
        self._opened.append(opened)
        return opened


class ClientPart(Value):
    """A client's part in its runs: tools that it calls itself, and the form of the answer."""

    tools: tuple[ModelTool, ...] = ()
    choice: ToolChoice = ToolChoice.AUTO
    """Of the first question of a run; `required` is one of the client's tools."""
    schema_text: str | None = None
    """JSON Schema, as JSON text, that the answer is to fit."""
    hidden: frozenset[str] = frozenset()
    """Tools of the agent's own that are not offered."""
    top_p: float | None = None
    reasoning_effort: ReasoningEffort | None = None
    parallel_calls: bool | None = None
    keeps_all: bool = False
    """True if nothing may be left out of the window: a run whose request does not fit has failed."""

    @property
    def names(self) -> frozenset[str]:
        return frozenset(tool.name for tool in self.tools)

    def offered(self, own: Sequence[ModelTool], /, *, is_first: bool) -> tuple[ModelTool, ...]:
        """Return what is offered to the model beside the agent's `own` tools, or in their place, as the choice says."""
        is_bound = is_first and self.choice is ToolChoice.REQUIRED
        return self.tools if is_bound else (*own, *self.tools)


@dataclass(slots=True)
class AgentParts:
    """The parts of one agent. `blocks` is None with a strategy, which brings a memory of its own."""

    memory: MemoryFace
    scope: Scope
    journal: RunJournal
    thread: AgentThread
    recall: TurnRecall
    models: AgentModels
    settings: AgentSettings
    blocks: BlockShelf | None
    archive: ArchivalMemory
    strategy: MemoryStrategy | None
    tools: tuple[Tool, ...]
    host_tools: frozenset[str]
    approver: HostApprover
    clock: Clock
    ids: IdSource
    purpose: str = ""
    client: ClientPart = field(default_factory=ClientPart)
    factor: float = limits.COUNT_MARGIN
    """Measure of estimates, as the model's provider counted the last request."""
    is_plain: bool = False
    """True if requests go without temperature and bound, because the model refuses a request that has them."""
