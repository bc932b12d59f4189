"""The dialect `chat`: OpenAI's chat completions, as most servers speak it."""

from dataclasses import dataclass, field
from typing import Final

from elytron_core import limits
from elytron_core.ports import chat
from elytron_models.dialect import (
    Events,
    Fields,
    ModelDialect,
    ModelTarget,
    UnfinishedAnswer,
    bearer_header,
    count_field,
    data_of,
    inner_object,
    join_roles,
    json_text,
    object_list,
    parse_object,
    present_fields,
    returned_item,
    text_field,
    texts_of,
)
from elytron_models.server import failure_of

_REASONS: Final = {
    "stop": chat.FinishReason.STOP,
    "length": chat.FinishReason.LENGTH,
    "tool_calls": chat.FinishReason.TOOLS,
    "function_call": chat.FinishReason.TOOLS,
    "content_filter": chat.FinishReason.REFUSED,
}
_FAILED: Final = "error"
"""Reason that some routers give for an interrupted answer."""


def body_of(request: chat.ModelRequest, target: ModelTarget, /) -> dict[str, object]:
    """Return the JSON of `request`."""
    body = present_fields(
        model=target.model,
        messages=[_encode_message(message, target) for message in join_roles(_plain_messages(request))],
        tools=[_encode_tool(tool.name, tool.description, tool.parameters) for tool in request.tools],
        temperature=request.temperature,
        top_p=request.top_p,
        reasoning_effort=request.reasoning_effort,
        parallel_tool_calls=request.parallel_calls if request.tools else None,
    )
    if request.tools and request.tool_choice is not chat.ToolChoice.AUTO:
        body["tool_choice"] = request.tool_choice.value
    if request.answer_schema is not None:
        answer_schema = {
            "name": "answer",
            "strict": True,
            "schema": parse_object(request.answer_schema, field="answer_schema"),
        }
        body["response_format"] = {"type": "json_schema", "json_schema": answer_schema}
    if request.max_tokens is not None:
        # The service's newer models reject the older name, most other servers know no other.
        body["max_completion_tokens" if target.is_official else "max_tokens"] = request.max_tokens
    return {**body, "stream": True, "stream_options": {"include_usage": True}}


def _plain_messages(request: chat.ModelRequest) -> tuple[chat.Message, ...]:
    """Return the messages without the role `developer`, which most servers do not know."""
    return tuple(
        chat.InputMessage(role=chat.ChatRole.SYSTEM, parts=message.parts)
        if isinstance(message, chat.InputMessage) and message.role is chat.ChatRole.DEVELOPER
        else message
        for message in request.messages
    )


def _encode_message(message: chat.Message, target: ModelTarget) -> dict[str, object]:
    match message:
        case chat.InputMessage():
            return {"role": message.role.value, "content": _encode_content(message.parts)}
        case chat.ModelReply():
            extra_fields = _call_extras(message, target)
            calls = [
                {
                    "id": item.id,
                    "type": "function",
                    "function": {"name": item.name, "arguments": item.arguments},
                    **present_fields(extra_content=extra_fields.get(item.id)),
                }
                for item in message.items
                if isinstance(item, chat.ToolCall)
            ]
            text = "".join(item.text for item in message.items if isinstance(item, chat.TextPart))
            return {"role": "assistant", "content": text or (None if calls else ""), **present_fields(tool_calls=calls)}
        case chat.ToolResult():
            return {"role": "tool", "tool_call_id": message.call_id, "content": message.text}


def _call_extras(message: chat.ModelReply, target: ModelTarget) -> dict[str, Fields]:
    """Return what the server wants back in addition to its calls, by their ids."""
    opaque_items = [returned_item(item, target) for item in message.items if isinstance(item, chat.OpaquePart)]
    return {text_field(item, "id"): inner_object(item, "extra_content") for item in opaque_items if item is not None}


def _encode_content(parts: tuple[chat.Part, ...]) -> object:
    if all(isinstance(part, chat.TextPart) for part in parts):
        return texts_of(parts)
    encoded_parts: list[dict[str, object]] = []
    for part in parts:
        if isinstance(part, chat.TextPart):
            encoded_parts.append({"type": "text", "text": part.text})
        else:
            # Called only for its check: this dialect takes the URL unchanged.
            data_of(part)
            encoded_parts.append({"type": "image_url", "image_url": {"url": part.url}})
    return encoded_parts


def _encode_tool(name: str, description: str, parameters: str) -> dict[str, object]:
    answer_schema = parse_object(parameters, field=f"the parameters of {name!r}")
    return {
        "type": "function",
        "function": present_fields(name=name, description=description) | {"parameters": answer_schema},
    }


@dataclass(slots=True)
class _StreamedCall:
    id: str
    name: str = ""
    arguments: list[str] = field(default_factory=list[str])
    extra: Fields = field(default_factory=dict[str, object])
    """Gemini's signature of a call, sent back in the same place."""


@dataclass(slots=True)
class ChatAnswer(UnfinishedAnswer):
    """An answer in chunks. It ends with `[DONE]`, or when every choice has its reason and the bytes end."""

    issuer: str = ""
    calls: dict[int, _StreamedCall] = field(default_factory=dict[int, _StreamedCall])
    # The first choice is open from the start, so that an end without any choice is not a complete answer.
    open: set[int] = field(default_factory=lambda: {0})
    has_begun: bool = False
    reason: chat.FinishReason = chat.FinishReason.INCOMPLETE
    usage: chat.TokenUsage | None = None
    refused: bool = False

    def take(self, event: Fields, /) -> Events:
        """Return the events of one chunk."""
        if event.get("error"):
            yield failure_of(inner_object(event, "error") or {"message": text_field(event, "error")})
            return
        if usage := inner_object(event, "usage"):
            self.usage = usage_of(usage)
        for answer_choice in object_list(event, "choices"):
            index = count_field(answer_choice, "index")
            reason = text_field(answer_choice, "finish_reason")
            if reason == _FAILED:
                yield chat.ReplyFailed(reason=chat.FailureReason.UNAVAILABLE)
                return
            if reason:
                self.open.discard(index)
            elif index not in self.open:
                self.open.add(index)
                # A server must not open unlimited choices, since each is remembered.
                if len(self.open) > limits.MODEL_ITEMS:
                    yield chat.ReplyFailed(reason=chat.FailureReason.TOO_LARGE)
                    return
            if index == 0:
                self.has_begun = True
                # Some servers answer a streaming request with one whole object.
                yield from self._delta(inner_object(answer_choice, "delta") or inner_object(answer_choice, "message"))
                if reason:
                    self.reason = _REASONS.get(reason, chat.FinishReason.INCOMPLETE)

    def end_events(self) -> Events:
        """Return the calls, the usage and the end. A server may mark the end without a reason."""
        if not self.has_begun:
            yield chat.ReplyFailed(reason=chat.FailureReason.MALFORMED)
            return
        if 0 in self.open:
            self.reason = chat.FinishReason.STOP
        # Pieces of several calls may alternate, so no call is complete before the end.
        for call in self.calls.values():
            yield chat.ToolCall(id=call.id, name=call.name, arguments="".join(call.arguments))
            if call.extra:
                body = json_text({"id": call.id, "extra_content": call.extra})
                yield chat.OpaquePart(type="tool_call_extra", body=body, issuer=self.issuer)
        if self.usage is not None:
            yield self.usage
        if self.refused:
            self.reason = chat.FinishReason.REFUSED
        elif self.calls and self.reason is chat.FinishReason.STOP:
            self.reason = chat.FinishReason.TOOLS
        yield chat.ReplyFinished(reason=self.reason)

    def closed(self) -> Events:
        """Return the same as for `[DONE]`, if every choice has its reason."""
        return () if self.open else self.end_events()

    def _delta(self, delta: Fields) -> Events:
        if reasoning := text_field(delta, "reasoning_content") or text_field(delta, "reasoning"):
            yield chat.ReasoningDelta(text=reasoning)
        if text := text_field(delta, "content"):
            yield chat.TextDelta(text=text)
        if refusal := text_field(delta, "refusal"):
            self.refused = True
            yield chat.TextDelta(text=refusal)
        for part in object_list(delta, "tool_calls"):
            index = self._index(part)
            if index is None:
                yield chat.ReplyFailed(reason=chat.FailureReason.TOO_LARGE)
                return
            function = inner_object(part, "function")
            call = self.calls.setdefault(index, _StreamedCall(text_field(part, "id") or f"call_{index}"))
            call.name += text_field(function, "name")
            call.arguments.append(text_field(function, "arguments"))
            call.extra = inner_object(part, "extra_content") or call.extra
            yield chat.ToolCallDelta(
                index=index,
                id=text_field(part, "id"),
                name=text_field(function, "name"),
                arguments=text_field(function, "arguments"),
            )

    def _index(self, part: Fields) -> int | None:
        """Return which call a piece belongs to; servers without indexes start each with an id. None: too many."""
        index = part.get("index")
        if not isinstance(index, int):
            index = len(self.calls) if text_field(part, "id") or not self.calls else len(self.calls) - 1
        return index if index in self.calls or len(self.calls) < limits.MODEL_TOOL_CALLS else None


def usage_of(usage: Fields, /) -> chat.TokenUsage:
    """Return the usage in a chunk."""
    return chat.TokenUsage(
        input_tokens=count_field(usage, "prompt_tokens"),
        output_tokens=count_field(usage, "completion_tokens"),
        cached_tokens=count_field(inner_object(usage, "prompt_tokens_details"), "cached_tokens"),
        reasoning_tokens=count_field(inner_object(usage, "completion_tokens_details"), "reasoning_tokens"),
    )


DIALECT: Final = ModelDialect(path="/chat/completions", headers=bearer_header, body=body_of, answer=ChatAnswer)
