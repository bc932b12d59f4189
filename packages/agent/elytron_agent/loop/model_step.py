"""The chat models of an agent, and one question to one: its answer as it streams, or why there is none."""

import asyncio
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import aclosing
from dataclasses import dataclass

from elytron_agent.runs import limits
from elytron_agent.runs.events import AgentEvent, ReasoningSaid, StopReason, TextSaid
from elytron_agent.runs.settings import AgentSettings
from elytron_core.errors import InvalidInput, ModelError
from elytron_core.ports.chat import (
    ChatModel,
    Failed,
    FailureReason,
    Message,
    ModelEvent,
    ModelRequest,
    ReasoningDelta,
    TextDelta,
    TokenCounter,
    Tool,
)
from elytron_models.answer import ModelAnswer, answer_of
from elytron_models.client import ModelClient, open_model
from elytron_models.failures import error_of


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
class ModelStep:
    """Asks a model. After `events`, either `answer` or `failed` is there, or neither, if time ran out."""

    model: ChatModel
    settings: AgentSettings
    is_over: Callable[[], bool]
    """True if the run's time is over."""
    is_plain: bool = False
    """True if requests go without temperature and bound, because the model refuses a request that has them."""
    answer: ModelAnswer | None = None
    failed: Failed | None = None
    has_spoken: bool = False

    async def events(self, messages: Sequence[Message], tools: Sequence[Tool], /) -> AsyncGenerator[AgentEvent]:
        """Yield the pieces of the answer as they come."""
        while True:
            self.answer, self.failed, self.has_spoken = None, None, False
            async with aclosing(self._asked(self._request(messages, tools))) as pieces:
                async for piece in pieces:
                    yield piece
            is_refused = self.failed is not None and self.failed.reason is FailureReason.REFUSED
            if not is_refused or self.is_plain or self.has_spoken:
                return
            self.is_plain = True

    async def count(self, messages: Sequence[Message], tools: Sequence[Tool], /) -> int | None:
        """Return how many tokens the model counts in what it would be asked; None if it does not tell in time."""
        if not isinstance(self.model, TokenCounter):
            return None
        try:
            async with asyncio.timeout(limits.COUNT_DEADLINE_S):
                return await self.model.count(self._request(messages, tools))
        except (TimeoutError, ModelError):
            return None

    @property
    def problem(self) -> str:
        """Return why there is no answer, in words that hold nothing of it."""
        return error_of(self.failed, name=self.model.info.name).message if self.failed is not None else ""

    async def _asked(self, request: ModelRequest) -> AsyncGenerator[AgentEvent]:
        heard: list[ModelEvent] = []
        async with aclosing(self.model.stream(request)) as events:
            async for event in events:
                heard.append(event)
                match event:
                    case TextDelta():
                        self.has_spoken = True
                        yield TextSaid(text=event.text)
                    case ReasoningDelta():
                        yield ReasoningSaid(text=event.text)
                    case Failed():
                        self.failed = event
                        return
                    case _:
                        pass
                if self.is_over():
                    return
        try:
            self.answer = answer_of(heard, name=self.model.info.name)
        except ModelError:
            self.failed = Failed(reason=FailureReason.MALFORMED)

    def _request(self, messages: Sequence[Message], tools: Sequence[Tool]) -> ModelRequest:
        return ModelRequest(
            messages=tuple(messages),
            tools=tuple(tools),
            temperature=None if self.is_plain else self.settings.temperature,
            max_tokens=None if self.is_plain else self.settings.max_tokens,
        )


def stop_of(failed: Failed | None, /) -> StopReason:
    """Return why a run ends whose model gave no answer."""
    if failed is None:
        return StopReason.SECONDS
    return StopReason.MALFORMED if failed.reason is FailureReason.MALFORMED else StopReason.FAILED
