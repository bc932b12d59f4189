"""The dialect `messages`: Anthropic's Messages."""

from dataclasses import dataclass, field
from typing import Final

from elytron_core import limits
from elytron_core.errors import InvalidInput
from elytron_core.ports import chat
from elytron_models.dialect import (
    Events,
    Fields,
    ModelDialect,
    ModelTarget,
    TokenCount,
    UnfinishedAnswer,
    arguments_of,
    count_field,
    data_of,
    inner_object,
    join_roles,
    json_text,
    output_tokens,
    parse_object,
    present_fields,
    require_effort,
    returned_item,
    text_field,
)
from elytron_models.server import failure_of

VERSION: Final = "2023-06-01"
_REASONS: Final = {
    "end_turn": chat.FinishReason.STOP,
    "stop_sequence": chat.FinishReason.STOP,
    "max_tokens": chat.FinishReason.LENGTH,
    "model_context_window_exceeded": chat.FinishReason.LENGTH,
    "tool_use": chat.FinishReason.TOOLS,
    "refusal": chat.FinishReason.REFUSED,
}
_EFFORTS: Final = frozenset({"low", "medium", "high"})
_CHOICES: Final = {chat.ToolChoice.NONE: "none", chat.ToolChoice.REQUIRED: "any"}


def headers_of(key: str, /) -> dict[str, str]:
    """Return the headers with `key` and the version of the dialect."""
    return {"x-api-key": key, "anthropic-version": VERSION} if key else {"anthropic-version": VERSION}


def body_of(request: chat.ModelRequest, target: ModelTarget, /) -> dict[str, object]:
    """Return the JSON of `request`, without its temperature, which the dialect no longer has.

    Raises InvalidInput for `top_p`, and an effort that it does not know.
    """
    if request.top_p is not None:
        raise InvalidInput(field="top_p", problem="is not supported by this model's dialect")
    require_effort(request, _EFFORTS)
    body = present_fields(
        model=target.model,
        max_tokens=output_tokens(request),
        system=[
            block for message in request.messages if _is_policy(message) for block in _encode_blocks(message, target)
        ],
        messages=_encode_turns(request, target),
        tools=[
            present_fields(name=tool.name, description=tool.description)
            | {"input_schema": parse_object(tool.parameters, field=f"the parameters of {tool.name!r}")}
            for tool in request.tools
        ],
    )
    if request.tools and request.tool_choice is not chat.ToolChoice.AUTO:
        body["tool_choice"] = {"type": _CHOICES[request.tool_choice]}
    if request.tools and request.parallel_calls is False and request.tool_choice is not chat.ToolChoice.NONE:
        choice = _CHOICES.get(request.tool_choice, "auto")
        body["tool_choice"] = {"type": choice, "disable_parallel_tool_use": True}
    config: dict[str, object] = present_fields(effort=request.reasoning_effort)
    if request.answer_schema is not None:
        answer_schema = parse_object(request.answer_schema, field="answer_schema")
        config["format"] = {"type": "json_schema", "schema": answer_schema}
    if config:
        body["output_config"] = config
    return {**body, "stream": True}


def _is_policy(message: chat.Message) -> bool:
    return isinstance(message, chat.InputMessage) and message.role is not chat.ChatRole.USER


def _encode_turns(request: chat.ModelRequest, target: ModelTarget) -> list[dict[str, object]]:
    """Return the messages except policy, with neighbours of one role merged."""
    turns: list[tuple[str, list[Fields]]] = []
    for message in join_roles(tuple(message for message in request.messages if not _is_policy(message))):
        blocks = _encode_blocks(message, target)
        if not blocks:
            continue
        role = "assistant" if isinstance(message, chat.ModelReply) else "user"
        if turns and turns[-1][0] == role:
            turns[-1][1].extend(blocks)
        else:
            turns.append((role, blocks))
    return [{"role": role, "content": blocks} for role, blocks in turns]


def _encode_blocks(message: chat.Message, target: ModelTarget) -> list[Fields]:
    match message:
        case chat.InputMessage():
            return [block for part in message.parts if (block := _encode_part(part)) is not None]
        case chat.ToolResult():
            block = present_fields(type="tool_result", tool_use_id=message.call_id, content=message.text)
            return [block | {"is_error": True} if message.is_error else block]
        case chat.ModelReply():
            return [block for item in message.items if (block := _encode_item(item, target)) is not None]


def _encode_part(part: chat.Part) -> Fields | None:
    if isinstance(part, chat.TextPart):
        # An empty block is rejected.
        return {"type": "text", "text": part.text} if part.text else None
    data = data_of(part)
    if data is None:
        return {"type": "image", "source": {"type": "url", "url": part.url}}
    return {"type": "image", "source": {"type": "base64", "media_type": data[0], "data": data[1]}}


def _encode_item(item: chat.ReplyItem, target: ModelTarget) -> Fields | None:
    match item:
        case chat.TextPart():
            return _encode_part(item)
        case chat.ToolCall():
            return {"type": "tool_use", "id": item.id, "name": item.name, "input": arguments_of(item)}
        case chat.OpaquePart():
            return returned_item(item, target)


@dataclass(slots=True)
class _StreamedBlock:
    start: Fields
    pieces: list[str] = field(default_factory=list[str])
    signature: str = ""


@dataclass(slots=True)
class MessagesAnswer(UnfinishedAnswer):
    """An answer as blocks. It ends with `message_stop`, or when its reason came and the bytes end."""

    issuer: str = ""
    blocks: dict[int, _StreamedBlock] = field(default_factory=dict[int, _StreamedBlock])
    usage: dict[str, object] = field(default_factory=dict[str, object])
    reason: chat.FinishReason = chat.FinishReason.INCOMPLETE
    has_reason: bool = False

    def take(self, event: Fields, /) -> Events:
        """Return the events of one server event; unknown kinds have none."""
        index = count_field(event, "index")
        match text_field(event, "type"):
            case "message_start":
                self.usage.update(inner_object(inner_object(event, "message"), "usage"))
            case "content_block_start":
                yield from self._started(index, inner_object(event, "content_block"))
            case "content_block_delta":
                yield from self._delta(index, inner_object(event, "delta"))
            case "content_block_stop":
                yield from self._stopped(self.blocks.pop(index, None))
            case "message_delta":
                # A missing figure must not replace an earlier one.
                self.usage.update(
                    {name: figure for name, figure in inner_object(event, "usage").items() if figure is not None}
                )
                if stop_reason := text_field(inner_object(event, "delta"), "stop_reason"):
                    self.reason, self.has_reason = _REASONS.get(stop_reason, chat.FinishReason.INCOMPLETE), True
            case "message_stop":
                yield from self._ended()
            case "error":
                yield failure_of(inner_object(event, "error"))
            case _:
                pass

    def closed(self) -> Events:
        """Return the same as for `message_stop`, if the reason came and every block has stopped."""
        return self._ended() if self.has_reason and not self.blocks else ()

    def _started(self, index: int, start: Fields) -> Events:
        # Blocks are remembered until they stop, so their number needs a limit.
        if len(self.blocks) >= limits.MODEL_ITEMS:
            yield chat.ReplyFailed(reason=chat.FailureReason.TOO_LARGE)
            return
        self.blocks[index] = _StreamedBlock(start)
        if text_field(start, "type") == "tool_use":
            yield chat.ToolCallDelta(index=index, id=text_field(start, "id"), name=text_field(start, "name"))
        elif text_field(start, "type") == "text" and (text := text_field(start, "text")):
            yield chat.TextDelta(text=text)

    def _delta(self, index: int, delta: Fields) -> Events:
        block = self.blocks.get(index)
        if block is None:
            yield chat.ReplyFailed(reason=chat.FailureReason.MALFORMED)
            return
        match text_field(delta, "type"):
            case "text_delta":
                yield chat.TextDelta(text=text_field(delta, "text"))
            case "thinking_delta":
                block.pieces.append(text_field(delta, "thinking"))
                yield chat.ReasoningDelta(text=text_field(delta, "thinking"))
            case "signature_delta":
                block.signature += text_field(delta, "signature")
            case "input_json_delta":
                block.pieces.append(text_field(delta, "partial_json"))
                if text_field(block.start, "type") == "tool_use":
                    yield chat.ToolCallDelta(index=index, arguments=text_field(delta, "partial_json"))
            case _:
                pass

    def _stopped(self, block: _StreamedBlock | None) -> Events:
        if block is None:
            return
        block_start, text = block.start, "".join(block.pieces)
        match text_field(block_start, "type"):
            case "text":
                pass
            case "tool_use":
                # Without deltas the whole input came with the start of the block.
                arguments = text or json_text(block_start.get("input") or {})
                yield chat.ToolCall(
                    id=text_field(block_start, "id"), name=text_field(block_start, "name"), arguments=arguments
                )
            case "thinking":
                signature = block.signature or text_field(block_start, "signature")
                thinking_block = {
                    "type": "thinking",
                    "thinking": text_field(block_start, "thinking") + text,
                    "signature": signature,
                }
                yield chat.OpaquePart(type="thinking", body=json_text(thinking_block), issuer=self.issuer)
            case kind:
                yield chat.OpaquePart(type=kind, body=json_text(block_start), issuer=self.issuer)

    def _ended(self) -> Events:
        # A block without its stop means that events were lost.
        if self.blocks:
            yield chat.ReplyFailed(reason=chat.FailureReason.MALFORMED)
            return
        if self.usage:
            yield usage_of(self.usage)
        yield chat.ReplyFinished(reason=self.reason)


def usage_of(usage: Fields, /) -> chat.TokenUsage:
    """Return the usage of a message; the dialect counts cached input separately from the rest."""
    cache_read_tokens = count_field(usage, "cache_read_input_tokens")
    return chat.TokenUsage(
        input_tokens=count_field(usage, "input_tokens")
        + count_field(usage, "cache_creation_input_tokens")
        + cache_read_tokens,
        output_tokens=count_field(usage, "output_tokens"),
        cached_tokens=cache_read_tokens,
        reasoning_tokens=count_field(inner_object(usage, "output_tokens_details"), "thinking_tokens"),
    )


DIALECT: Final = ModelDialect(
    path="/messages",
    headers=headers_of,
    body=body_of,
    answer=MessagesAnswer,
    count=TokenCount("/messages/count_tokens", frozenset({"stream", "max_tokens"})),
)
