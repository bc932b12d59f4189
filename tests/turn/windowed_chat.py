"""A model server that enforces its window: it rejects longer requests by its own token count."""

import re
from collections.abc import AsyncGenerator, Callable
from typing import cast

from elytron_core.ports.chat import (
    FailureReason,
    FinishReason,
    ModelEvent,
    ModelInfo,
    ModelRequest,
    ReplyFailed,
    ReplyFinished,
    TextDelta,
    TokenUsage,
)

_PIECE = re.compile(r"\w{1,4}|[^\w\s]|\s{2,}")
Answer = Callable[[ModelRequest], tuple[ModelEvent, ...]]


def count_tokens(text: str, /) -> int:
    """Return a separate count, unrelated to the product's: word pieces, signs, long gaps."""
    return len(_PIECE.findall(text))


def tokens_in(request: ModelRequest, /) -> int:
    """Return the tokens of a complete request: messages, tools, and the answer's schema."""
    tools = sum(count_tokens(f"{tool.name} {tool.description} {tool.parameters}") for tool in request.tools)
    messages = sum(count_tokens(_shown(message.model_dump())) + 4 for message in request.messages)
    return tools + messages + count_tokens(request.answer_schema or "")


def _shown(value: object) -> str:
    """Return the texts of a message, as a server writes them into its prompt."""
    if isinstance(value, dict):
        fields = cast("dict[str, object]", value)
        return " ".join(_shown(each) for name, each in fields.items() if name not in {"kind", "is_reference"})
    if isinstance(value, list | tuple):
        return " ".join(map(_shown, cast("list[object]", value)))
    return value if isinstance(value, str) else ""


class WindowedChat:
    """Returns `answers` in turn, then repeats the last one, and rejects a request beyond `window` tokens."""

    def __init__(self, window: int, *answers: Answer, reported: int | None = None) -> None:
        self.info = ModelInfo(name="windowed")
        self.window, self.answers, self.reported = window, list(answers) or [say("Yes.")], reported
        self.asked: list[ModelRequest] = []
        self.refused: list[int] = []

    async def stream(self, request: ModelRequest, /) -> AsyncGenerator[ModelEvent]:
        tokens = tokens_in(request)
        if tokens > self.window:
            self.refused.append(tokens)
            yield ReplyFailed(reason=FailureReason.CONTEXT_TOO_LONG)
            return
        self.asked.append(request)
        answer = self.answers[min(len(self.asked), len(self.answers)) - 1]
        for event in answer(request):
            if isinstance(event, ReplyFinished):
                counted = tokens if self.reported is None else self.reported
                yield TokenUsage(input_tokens=counted, output_tokens=1)
            yield event

    @property
    def last(self) -> ModelRequest:
        return self.asked[-1]

    @property
    def last_text(self) -> str:
        """Return the messages of the last request as one text."""
        return "\n".join(_shown(message.model_dump()) for message in self.last.messages)


def say(text: str, /) -> Answer:
    """Return an answer in text."""
    return lambda _request: (TextDelta(text=text), ReplyFinished(reason=FinishReason.STOP))
