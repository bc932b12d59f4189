"""A chat model that returns scripted answers and records its requests."""

import json
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from typing import Any

from elytron_agent import AgentEvent
from elytron_core.ports.chat import (
    ChatRole,
    FailureReason,
    FinishReason,
    InputMessage,
    ModelEvent,
    ModelInfo,
    ModelReply,
    ModelRequest,
    ReplyFailed,
    ReplyFinished,
    TextDelta,
    TextPart,
    TokenUsage,
    ToolCall,
    ToolResult,
)

Answer = Sequence[ModelEvent] | Callable[[ModelRequest], Sequence[ModelEvent]]


def text(said: str, *, tokens: int = 0) -> Sequence[ModelEvent]:
    """Return an answer in text; with `tokens`, the provider counts that many in the request."""
    usage = (TokenUsage(input_tokens=tokens, output_tokens=1),) if tokens else ()
    return (TextDelta(text=said), *usage, ReplyFinished(reason=FinishReason.STOP))


def calls(*wanted: tuple[str, Any], said: str = "") -> Sequence[ModelEvent]:
    """Return an answer that calls tools, with arguments as values or as text that may be invalid JSON."""
    made = [
        ToolCall(id=f"c{place}", name=name, arguments=given if isinstance(given, str) else json.dumps(given))
        for place, (name, given) in enumerate(wanted)
    ]
    words = (TextDelta(text=said),) if said else ()
    return (*words, *made, ReplyFinished(reason=FinishReason.TOOLS))


def failure(reason: FailureReason, *, said: str = "") -> Sequence[ModelEvent]:
    """Return an answer that fails, optionally after some text."""
    return (*((TextDelta(text=said),) if said else ()), ReplyFailed(reason=reason))


class ScriptedChat:
    """Returns its answers in turn, then repeats the last one."""

    def __init__(self, *answers: Answer, context_tokens: int | None = None) -> None:
        self.info = ModelInfo(name="scripted", context_tokens=context_tokens)
        self.answers = list(answers)
        self.asked: list[ModelRequest] = []
        self.before: Callable[[], Awaitable[None]] | None = None

    async def stream(self, request: ModelRequest, /) -> AsyncGenerator[ModelEvent]:
        self.asked.append(request)
        answer = self.answers[min(len(self.asked), len(self.answers)) - 1]
        for event in answer(request) if callable(answer) else answer:
            yield event

    @property
    def last(self) -> ModelRequest:
        return self.asked[-1]


def words(request: ModelRequest, *roles: ChatRole) -> str:
    """Return all text of messages in these roles, without tool results and replies."""
    return "\n".join(
        part.text
        for message in request.messages
        if isinstance(message, InputMessage) and message.role in roles
        for part in message.parts
        if isinstance(part, TextPart)
    )


def results(request: ModelRequest) -> list[str]:
    """Return the texts of tool results, oldest first."""
    return [message.text for message in request.messages if isinstance(message, ToolResult)]


def replies(request: ModelRequest) -> list[str]:
    """Return the model's earlier replies, oldest first."""
    return [
        "".join(item.text for item in message.items if isinstance(item, TextPart))
        for message in request.messages
        if isinstance(message, ModelReply)
    ]


async def heard(events: AsyncGenerator[AgentEvent]) -> list[AgentEvent]:
    """Return all events of a run."""
    return [event async for event in events]
