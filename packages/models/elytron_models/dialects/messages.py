"""The dialect `messages`: Anthropic's Messages."""

from dataclasses import dataclass, field
from typing import Final

from elytron_core import limits
from elytron_core.ports import chat
from elytron_models.dialect import (
    Count,
    Dialect,
    Target,
    arguments_of,
    data_of,
    joined,
    output_tokens,
    parsed,
    present,
    returned,
)
from elytron_models.server import failure_of
from elytron_models.stream_parser import Answer, Events, Fields, count, inner, json_text, text

VERSION: Final = "2023-06-01"
_REASONS: Final = {
    "end_turn": chat.FinishReason.STOP,
    "stop_sequence": chat.FinishReason.STOP,
    "max_tokens": chat.FinishReason.LENGTH,
    "model_context_window_exceeded": chat.FinishReason.LENGTH,
    "tool_use": chat.FinishReason.TOOLS,
    "refusal": chat.FinishReason.REFUSED,
}
_CHOICES: Final = {chat.ToolChoice.NONE: "none", chat.ToolChoice.REQUIRED: "any"}


def headers_of(key: str, /) -> dict[str, str]:
    """Return the headers that show `key` and name the version of the dialect."""
    return {"x-api-key": key, "anthropic-version": VERSION} if key else {"anthropic-version": VERSION}


def body_of(request: chat.ModelRequest, target: Target, /) -> dict[str, object]:
    """Return the JSON of `request`, without its temperature, which the dialect does not have any more."""
    body = present(
        model=target.model,
        max_tokens=output_tokens(request),
        system=[block for message in request.messages if _is_policy(message) for block in _blocks(message, target)],
        messages=_turns(request, target),
        tools=[
            present(name=tool.name, description=tool.description)
            | {"input_schema": parsed(tool.parameters, field=f"the parameters of {tool.name!r}")}
            for tool in request.tools
        ],
    )
    if request.tools and request.tool_choice is not chat.ToolChoice.AUTO:
        body["tool_choice"] = {"type": _CHOICES[request.tool_choice]}
    if request.answer_schema is not None:
        shape = parsed(request.answer_schema, field="answer_schema")
        body["output_config"] = {"format": {"type": "json_schema", "schema": shape}}
    return {**body, "stream": True}


def _is_policy(message: chat.Message) -> bool:
    return isinstance(message, chat.InputMessage) and message.role is not chat.Role.USER


def _turns(request: chat.ModelRequest, target: Target) -> list[dict[str, object]]:
    """Return the messages that are no policy, neighbours of one role as one."""
    found: list[tuple[str, list[Fields]]] = []
    for message in joined(tuple(message for message in request.messages if not _is_policy(message))):
        blocks = _blocks(message, target)
        if not blocks:
            continue
        role = "assistant" if isinstance(message, chat.Reply) else "user"
        if found and found[-1][0] == role:
            found[-1][1].extend(blocks)
        else:
            found.append((role, blocks))
    return [{"role": role, "content": blocks} for role, blocks in found]


def _blocks(message: chat.Message, target: Target) -> list[Fields]:
    match message:
        case chat.InputMessage():
            return [block for part in message.parts if (block := _part(part)) is not None]
        case chat.ToolResult():
            block = present(type="tool_result", tool_use_id=message.call_id, content=message.text)
            return [block | {"is_error": True} if message.is_error else block]
        case chat.Reply():
            return [block for item in message.items if (block := _item(item, target)) is not None]


def _part(part: chat.Part) -> Fields | None:
    if isinstance(part, chat.TextPart):
        # An empty block is refused.
        return {"type": "text", "text": part.text} if part.text else None
    data = data_of(part)
    if data is None:
        return {"type": "image", "source": {"type": "url", "url": part.url}}
    return {"type": "image", "source": {"type": "base64", "media_type": data[0], "data": data[1]}}


def _item(item: chat.ReplyItem, target: Target) -> Fields | None:
    match item:
        case chat.TextPart():
            return _part(item)
        case chat.ToolCall():
            return {"type": "tool_use", "id": item.id, "name": item.name, "input": arguments_of(item)}
        case chat.Opaque():
            return returned(item, target)


@dataclass(slots=True)
class _Block:
    start: Fields
    pieces: list[str] = field(default_factory=list[str])
    signature: str = ""


@dataclass(slots=True)
class MessagesAnswer(Answer):
    """An answer as blocks. It is whole when `message_stop` came."""

    issuer: str = ""
    blocks: dict[int, _Block] = field(default_factory=dict[int, _Block])
    used: dict[str, object] = field(default_factory=dict[str, object])
    reason: chat.FinishReason = chat.FinishReason.INCOMPLETE

    def take(self, event: Fields, /) -> Events:
        """Return the events of one server event; unknown kinds have none."""
        index = count(event, "index")
        match text(event, "type"):
            case "message_start":
                self.used.update(inner(inner(event, "message"), "usage"))
            case "content_block_start":
                yield from self._started(index, inner(event, "content_block"))
            case "content_block_delta":
                yield from self._delta(index, inner(event, "delta"))
            case "content_block_stop":
                yield from self._stopped(self.blocks.pop(index, None))
            case "message_delta":
                self.used.update({name: told for name, told in inner(event, "usage").items() if told is not None})
                if why := text(inner(event, "delta"), "stop_reason"):
                    self.reason = _REASONS.get(why, chat.FinishReason.INCOMPLETE)
            case "message_stop":
                yield from self._ended()
            case "error":
                yield failure_of(inner(event, "error"))
            case _:
                pass

    def _started(self, index: int, start: Fields) -> Events:
        if len(self.blocks) >= limits.MODEL_ITEMS:
            yield chat.Failed(reason=chat.FailureReason.TOO_LARGE)
            return
        self.blocks[index] = _Block(start)
        if text(start, "type") == "tool_use":
            yield chat.ToolCallDelta(index=index, id=text(start, "id"), name=text(start, "name"))
        elif text(start, "type") == "text" and (said := text(start, "text")):
            yield chat.TextDelta(text=said)

    def _delta(self, index: int, delta: Fields) -> Events:
        block = self.blocks.get(index)
        if block is None:
            yield chat.Failed(reason=chat.FailureReason.MALFORMED)
            return
        match text(delta, "type"):
            case "text_delta":
                yield chat.TextDelta(text=text(delta, "text"))
            case "thinking_delta":
                block.pieces.append(text(delta, "thinking"))
                yield chat.ReasoningDelta(text=text(delta, "thinking"))
            case "signature_delta":
                block.signature += text(delta, "signature")
            case "input_json_delta":
                block.pieces.append(text(delta, "partial_json"))
                if text(block.start, "type") == "tool_use":
                    yield chat.ToolCallDelta(index=index, arguments=text(delta, "partial_json"))
            case _:
                pass

    def _stopped(self, block: _Block | None) -> Events:
        if block is None:
            return
        start, written = block.start, "".join(block.pieces)
        match text(start, "type"):
            case "text":
                pass
            case "tool_use":
                arguments = written or json_text(start.get("input") or {})
                yield chat.ToolCall(id=text(start, "id"), name=text(start, "name"), arguments=arguments)
            case "thinking":
                signature = block.signature or text(start, "signature")
                told = {"type": "thinking", "thinking": text(start, "thinking") + written, "signature": signature}
                yield chat.Opaque(type="thinking", body=json_text(told), issuer=self.issuer)
            case kind:
                yield chat.Opaque(type=kind, body=json_text(start), issuer=self.issuer)

    def _ended(self) -> Events:
        if self.blocks:
            yield chat.Failed(reason=chat.FailureReason.MALFORMED)
            return
        if self.used:
            yield usage_of(self.used)
        yield chat.Finished(reason=self.reason)


def usage_of(used: Fields, /) -> chat.Usage:
    """Return the usage of a message; the dialect counts what is cached beside the rest of the input."""
    read = count(used, "cache_read_input_tokens")
    return chat.Usage(
        input_tokens=count(used, "input_tokens") + count(used, "cache_creation_input_tokens") + read,
        output_tokens=count(used, "output_tokens"),
        cached_tokens=read,
        reasoning_tokens=count(inner(used, "output_tokens_details"), "thinking_tokens"),
    )


MESSAGES: Final = Dialect(
    path="/messages",
    headers=headers_of,
    body=body_of,
    answer=MessagesAnswer,
    count=Count("/messages/count_tokens", frozenset({"stream", "max_tokens"})),
)
