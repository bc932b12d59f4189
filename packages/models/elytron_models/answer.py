"""A whole answer, put together from the events of a stream."""

from collections.abc import AsyncGenerator, Iterable
from contextlib import aclosing
from dataclasses import dataclass

from elytron_core.errors import ModelRefused
from elytron_core.ports import chat
from elytron_models.failures import error_of


@dataclass(frozen=True, slots=True)
class ModelAnswer:
    """A model's answer, the reason of its end, and its usage."""

    reply: chat.Reply
    reason: chat.FinishReason
    usage: chat.Usage

    @property
    def text(self) -> str:
        return "".join(item.text for item in self.reply.items if isinstance(item, chat.TextPart))

    @property
    def calls(self) -> tuple[chat.ToolCall, ...]:
        return tuple(item for item in self.reply.items if isinstance(item, chat.ToolCall))


def answer_of(events: Iterable[chat.ModelEvent], /, *, name: str) -> ModelAnswer:
    """Return the answer that `events` of the model `name` tell. Raises ModelUnavailable, ModelRefused."""
    items: list[chat.ReplyItem] = []
    said: list[str] = []
    usage = chat.Usage()
    for event in events:
        match event:
            case chat.TextDelta():
                said.append(event.text)
            case chat.ToolCall() | chat.Opaque():
                _say(items, said)
                items.append(event)
            case chat.Usage():
                usage = event
            case chat.Finished():
                _say(items, said)
                return ModelAnswer(chat.Reply(items=tuple(items)), event.reason, usage)
            case chat.Failed():
                raise error_of(event, name=name)
            case _:
                pass
    raise ModelRefused(f"the model {name!r} gave neither an end nor a failure: check how it streams")


async def ask(model: chat.ChatModel, request: chat.ModelRequest, /) -> ModelAnswer:
    """Return the whole answer to `request`. Raises ModelUnavailable, ModelRefused, InvalidInput."""
    stream: AsyncGenerator[chat.ModelEvent] = model.stream(request)
    async with aclosing(stream) as events:
        return answer_of([event async for event in events], name=model.info.name)


def _say(items: list[chat.ReplyItem], said: list[str]) -> None:
    if said:
        items.append(chat.TextPart(text="".join(said)))
        said.clear()
