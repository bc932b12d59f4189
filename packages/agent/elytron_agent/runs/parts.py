"""Parts of an agent, which all its runs share: its memory, thread, models, settings and tools."""

from dataclasses import dataclass

from elytron.api import MemoryFace
from elytron_agent.blocks.archive import Archive
from elytron_agent.blocks.shelf import BlockShelf
from elytron_agent.context import limits
from elytron_agent.runs.approval import Approver
from elytron_agent.runs.journal import Journal
from elytron_agent.runs.settings import AgentSettings
from elytron_agent.runs.thread import Thread
from elytron_agent.runs.turn_recall import TurnRecall
from elytron_agent.strategies.strategy import MemoryStrategy
from elytron_agent.tool import Tool
from elytron_core.clock import Clock
from elytron_core.errors import InvalidInput
from elytron_core.ids import Ids
from elytron_core.ports.chat import ChatModel
from elytron_core.scope import Scope
from elytron_models.client import ModelClient, open_model


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


@dataclass(slots=True)
class AgentParts:
    """The parts of one agent. `blocks` is None with a strategy, which brings a memory of its own."""

    memory: MemoryFace
    scope: Scope
    journal: Journal
    thread: Thread
    recall: TurnRecall
    models: AgentModels
    settings: AgentSettings
    blocks: BlockShelf | None
    archive: Archive
    strategy: MemoryStrategy | None
    tools: tuple[Tool, ...]
    host_tools: frozenset[str]
    approver: Approver
    clock: Clock
    ids: Ids
    purpose: str = ""
    factor: float = limits.COUNT_MARGIN
    """Measure of estimates, as the model's provider counted the last request."""
    is_plain: bool = False
    """True if requests go without temperature and bound, because the model refuses a request that has them."""
