"""A whole answer, put together from the events of a stream."""

from collections.abc import AsyncGenerator, Iterable
from contextlib import aclosing
from dataclasses import dataclass

from elytron_core.errors import ModelRefused
from elytron_core.ports.chat import (
    ChatModel,
    Failed,
    Finished,
    FinishReason,
    ModelEvent,
    ModelRequest,
    Opaque,
    Reply,
    ReplyItem,
    TextDelta,
    TextPart,
    ToolCall,
    Usage,
)
from elytron_models.failures import error_of


@dataclass(frozen=True, slots=True)
class ModelAnswer:
    """A model's answer, the reason of its end, and its usage."""

    reply: Reply
    reason: FinishReason
    usage: Usage

    @property
    def text(self) -> str:
        return "".join(item.text for item in self.reply.items if isinstance(item, TextPart))

    @property
    def calls(self) -> tuple[ToolCall, ...]:
        return tuple(item for item in self.reply.items if isinstance(item, ToolCall))


def answer_of(events: Iterable[ModelEvent], /, *, name: str) -> ModelAnswer:
    """Return the answer that `events` of the model `name` tell. Raises ModelUnavailable, ModelRefused."""
    items: list[ReplyItem] = []
    said: list[str] = []
    usage = Usage()
    for event in events:
        match event:
            case TextDelta():
                said.append(event.text)
            case ToolCall() | Opaque():
                _say(items, said)
                items.append(event)
            case Usage():
                usage = event
            case Finished():
                _say(items, said)
                return ModelAnswer(Reply(items=tuple(items)), event.reason, usage)
            case Failed():
                raise error_of(event, name=name)
            case _:
                pass
    raise ModelRefused(f"the model {name!r} gave neither an end nor a failure: check how it streams")


async def ask(model: ChatModel, request: ModelRequest, /) -> ModelAnswer:
    """Return the whole answer to `request`. Raises ModelUnavailable, ModelRefused, InvalidInput."""
    stream: AsyncGenerator[ModelEvent] = model.stream(request)
    async with aclosing(stream) as events:
        return answer_of([event async for event in events], name=model.info.name)


def _say(items: list[ReplyItem], said: list[str]) -> None:
    if said:
        items.append(TextPart(text="".join(said)))
        said.clear()
