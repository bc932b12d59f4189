"""One question to the chat model of an agent: its answer as it streams, or why there is none."""

import asyncio
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from dataclasses import dataclass

from elytron_agent import limits
from elytron_agent.runs.events import AgentEvent, ReasoningSaid, StopReason, TextSaid
from elytron_agent.runs.parts import AgentParts
from elytron_agent.runs.settings import RunDeadline, WorkCancelled, abandon_task, finish_work
from elytron_core.errors import ModelError
from elytron_core.ports.chat import (
    ChatModel,
    FailureReason,
    Message,
    ModelEvent,
    ModelRequest,
    ModelTool,
    ReasoningDelta,
    ReplyFailed,
    ReplyFinished,
    TextDelta,
    TokenCounter,
    ToolChoice,
)
from elytron_models.answer import ModelAnswer, answer_of
from elytron_models.server import error_of


@dataclass(slots=True)
class ModelStep:
    """Asks a model. After `events`, either `answer` or `failed` is there, or neither, if time ran out."""

    agent: AgentParts
    deadline: RunDeadline
    answer: ModelAnswer | None = None
    failed: ReplyFailed | None = None
    has_spoken: bool = False
    is_first: bool = True

    async def events(self, messages: Sequence[Message], tools: Sequence[ModelTool], /) -> AsyncGenerator[AgentEvent]:
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

    async def count(self, messages: Sequence[Message], tools: Sequence[ModelTool], /) -> int | None:
        """Return how many tokens the model counts in what it would be asked; None if it does not tell in time."""
        model = self.agent.models.main
        if not isinstance(model, TokenCounter):
            return None
        try:
            timeout_s = self.deadline.timeout_s(limits.COUNT_DEADLINE_S)
            return await finish_work(model.count(self._request(messages, tools)), timeout_s=timeout_s)
        except (TimeoutError, WorkCancelled, ModelError):
            return None

    @property
    def problem(self) -> str:
        """Return why there is no answer, in words that hold nothing of it."""
        # Without the place of its server: a user of a service is shown this.
        name = self.agent.models.main.info.name.partition("@")[0]
        return error_of(self.failed, name=name).message if self.failed is not None else ""

    async def _asked(self, request: ModelRequest) -> AsyncGenerator[AgentEvent]:
        heard: list[ModelEvent] = []
        model = self.agent.models.main
        async with aclosing(_stream_answer(model, request, self.deadline)) as events:
            async for event in events:
                heard.append(event)
                match event:
                    case TextDelta():
                        self.has_spoken = True
                        yield TextSaid(text=event.text)
                    case ReasoningDelta():
                        yield ReasoningSaid(text=event.text)
                    case ReplyFailed():
                        self.failed = event
                        return
                    case _:
                        pass
        if self.deadline.is_over and not any(isinstance(event, ReplyFinished) for event in heard):
            return
        try:
            self.answer = answer_of(heard, name=model.info.name)
        except ModelError:
            self.failed = ReplyFailed(reason=FailureReason.MALFORMED)

    def _request(self, messages: Sequence[Message], tools: Sequence[ModelTool]) -> ModelRequest:
        is_plain, settings = self.agent.is_plain, self.agent.settings
        return ModelRequest(
            messages=tuple(messages),
            tools=tuple(tools),
            tool_choice=self.agent.client.choice if self.is_first else ToolChoice.AUTO,
            answer_schema=self.agent.client.schema_text,
            top_p=self.agent.client.top_p,
            reasoning_effort=self.agent.client.reasoning_effort,
            parallel_calls=self.agent.client.parallel_calls,
            temperature=None if is_plain else settings.temperature,
            max_tokens=None if is_plain else settings.max_tokens,
        )


async def _stream_answer(model: ChatModel, request: ModelRequest, deadline: RunDeadline) -> AsyncGenerator[ModelEvent]:
    """Yield the events of an answer until the deadline, also while the model is silent."""
    events: asyncio.Queue[ModelEvent | None] = asyncio.Queue()

    async def read() -> None:
        async with aclosing(model.stream(request)) as stream:
            async for event in stream:
                events.put_nowait(event)

    # The stream is read in one task of its own: a generator cannot be left in the middle of a wait in another way.
    reader = asyncio.ensure_future(read())
    reader.add_done_callback(lambda _: events.put_nowait(None))
    try:
        while not deadline.is_over:
            try:
                async with asyncio.timeout(deadline.timeout_s()):
                    event = await events.get()
            except TimeoutError:
                return
            if event is None:
                break
            yield event
        else:
            return
    finally:
        if not reader.done():
            await abandon_task(reader)
    if reader.cancelled():
        yield ReplyFailed(reason=FailureReason.CUT)
    else:
        reader.result()


def stop_of(failed: ReplyFailed | None, /) -> StopReason:
    """Return why a run ends whose model gave no answer."""
    if failed is None:
        return StopReason.SECONDS
    return StopReason.MALFORMED if failed.reason is FailureReason.MALFORMED else StopReason.FAILED
