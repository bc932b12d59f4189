"""One question to the chat model of an agent: its answer as it streams, or why there is none."""

import asyncio
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import aclosing
from dataclasses import dataclass

from elytron_agent.runs import limits
from elytron_agent.runs.events import AgentEvent, ReasoningSaid, StopReason, TextSaid
from elytron_agent.runs.parts import AgentParts
from elytron_core.errors import ModelError
from elytron_core.ports.chat import (
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
from elytron_models.failures import error_of


@dataclass(slots=True)
class ModelStep:
    """Asks a model. After `events`, either `answer` or `failed` is there, or neither, if time ran out."""

    agent: AgentParts
    is_over: Callable[[], bool]
    """True if the run's time is over."""
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
            if not is_refused or self.agent.is_plain or self.has_spoken:
                return
            self.agent.is_plain = True

    async def count(self, messages: Sequence[Message], tools: Sequence[Tool], /) -> int | None:
        """Return how many tokens the model counts in what it would be asked; None if it does not tell in time."""
        model = self.agent.models.main
        if not isinstance(model, TokenCounter):
            return None
        try:
            async with asyncio.timeout(limits.COUNT_DEADLINE_S):
                return await model.count(self._request(messages, tools))
        except (TimeoutError, ModelError):
            return None

    @property
    def problem(self) -> str:
        """Return why there is no answer, in words that hold nothing of it."""
        name = self.agent.models.main.info.name
        return error_of(self.failed, name=name).message if self.failed is not None else ""

    async def _asked(self, request: ModelRequest) -> AsyncGenerator[AgentEvent]:
        heard: list[ModelEvent] = []
        model = self.agent.models.main
        async with aclosing(model.stream(request)) as events:
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
            self.answer = answer_of(heard, name=model.info.name)
        except ModelError:
            self.failed = Failed(reason=FailureReason.MALFORMED)

    def _request(self, messages: Sequence[Message], tools: Sequence[Tool]) -> ModelRequest:
        is_plain, settings = self.agent.is_plain, self.agent.settings
        return ModelRequest(
            messages=tuple(messages),
            tools=tuple(tools),
            temperature=None if is_plain else settings.temperature,
            max_tokens=None if is_plain else settings.max_tokens,
        )


def stop_of(failed: Failed | None, /) -> StopReason:
    """Return why a run ends whose model gave no answer."""
    if failed is None:
        return StopReason.SECONDS
    return StopReason.MALFORMED if failed.reason is FailureReason.MALFORMED else StopReason.FAILED
