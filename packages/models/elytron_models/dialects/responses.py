"""The dialect `responses`: OpenAI's Responses and Open Responses. The server stores nothing."""

from dataclasses import dataclass, field
from typing import Final

from elytron_core import limits
from elytron_core.ports import chat
from elytron_models.dialect import (
    Events,
    Fields,
    ModelDialect,
    ModelTarget,
    TokenCount,
    UnfinishedAnswer,
    bearer_header,
    count_field,
    data_of,
    inner_object,
    json_text,
    object_fields,
    object_list,
    parse_object,
    present_fields,
    returned_item,
    text_field,
)
from elytron_models.server import failure_of

_REASONING: Final = frozenset({"response.reasoning_summary_text.delta", "response.reasoning_text.delta"})
_FAILED: Final = frozenset({"failed", "cancelled"})
_INCOMPLETE: Final = {"max_output_tokens": chat.FinishReason.LENGTH, "content_filter": chat.FinishReason.REFUSED}


def body_of(request: chat.ModelRequest, target: ModelTarget, /) -> dict[str, object]:
    """Return the JSON of `request`."""
    body = present_fields(
        model=target.model,
        input=[item for message in request.messages for item in _encode_items(message, target)],
        tools=[
            present_fields(type="function", name=tool.name, description=tool.description)
            | {"parameters": parse_object(tool.parameters, field=f"the parameters of {tool.name!r}"), "strict": False}
            for tool in request.tools
        ],
        max_output_tokens=request.max_tokens,
        temperature=request.temperature,
        top_p=request.top_p,
        reasoning=present_fields(effort=request.reasoning_effort),
        parallel_tool_calls=request.parallel_calls if request.tools else None,
    )
    if request.tools and request.tool_choice is not chat.ToolChoice.AUTO:
        body["tool_choice"] = request.tool_choice.value
    if request.answer_schema is not None:
        answer_schema = parse_object(request.answer_schema, field="answer_schema")
        body["text"] = {"format": {"type": "json_schema", "name": "answer", "strict": True, "schema": answer_schema}}
    return {**body, "stream": True, "store": False, "include": ["reasoning.encrypted_content"]}


def _encode_items(message: chat.Message, target: ModelTarget) -> list[Fields]:
    match message:
        case chat.InputMessage():
            content = [_encode_part(part) for part in message.parts]
            return [{"type": "message", "role": message.role.value, "content": content}]
        case chat.ToolResult():
            return [{"type": "function_call_output", "call_id": message.call_id, "output": message.text}]
        case chat.ModelReply():
            return [item for one in message.items if (item := _encode_item(one, target)) is not None]


def _encode_part(part: chat.Part) -> Fields:
    if isinstance(part, chat.TextPart):
        return {"type": "input_text", "text": part.text}
    # Called only for its check: this dialect takes the URL unchanged.
    data_of(part)
    return {"type": "input_image", "image_url": part.url, "detail": "auto"}


def _encode_item(item: chat.ReplyItem, target: ModelTarget) -> Fields | None:
    match item:
        case chat.TextPart():
            return {"type": "message", "role": "assistant", "content": item.text} if item.text else None
        case chat.ToolCall():
            return {"type": "function_call", "call_id": item.id, "name": item.name, "arguments": item.arguments}
        case chat.OpaquePart():
            return returned_item(item, target)


@dataclass(slots=True)
class ResponsesAnswer(UnfinishedAnswer):
    """An answer as events of items. It ends with `response.completed`, `response.incomplete` or `response.done`.

    No other event says why the answer ended, so that without one of these it is cut.
    """

    issuer: str = ""
    settled: set[int] = field(default_factory=set[int])
    """Completed items."""
    text_items: set[int] = field(default_factory=set[int])
    called: bool = False
    refused: bool = False

    def take(self, event: Fields, /) -> Events:
        """Return the events of one server event; unknown kinds have none."""
        kind, index = text_field(event, "type"), count_field(event, "output_index")
        # Indexes are remembered, so the server must not choose them freely.
        if index >= limits.MODEL_ITEMS:
            yield chat.ReplyFailed(reason=chat.FailureReason.TOO_LARGE)
            return
        match kind:
            case "response.output_text.delta" | "response.refusal.delta":
                self.text_items.add(index)
                self.refused = self.refused or kind == "response.refusal.delta"
                if text := text_field(event, "delta"):
                    yield chat.TextDelta(text=text)
            case _ if kind in _REASONING:
                yield chat.ReasoningDelta(text=text_field(event, "delta"))
            case "response.output_item.added":
                item = inner_object(event, "item")
                if text_field(item, "type") == "function_call":
                    yield chat.ToolCallDelta(index=index, id=text_field(item, "call_id"), name=text_field(item, "name"))
            case "response.function_call_arguments.delta":
                yield chat.ToolCallDelta(index=index, arguments=text_field(event, "delta"))
            case "response.output_item.done":
                yield from self._item(index, inner_object(event, "item"))
            case "response.completed" | "response.incomplete" | "response.done":
                yield from self._ended(inner_object(event, "response"), kind.removeprefix("response."))
            case "response.failed" | "response.cancelled":
                yield failure_of(inner_object(inner_object(event, "response"), "error"))
            case "error":
                yield failure_of(inner_object(event, "error") or event)
            case _:
                pass

    def _item(self, index: int, item: Fields) -> Events:
        """Return what a complete item adds to its deltas."""
        # The last event repeats all items, and each counts once.
        if index in self.settled:
            return
        self.settled.add(index)
        match text_field(item, "type"):
            case "message":
                # Otherwise its text came as deltas.
                if index not in self.text_items:
                    yield from self._message(item)
            case "function_call":
                self.called = True
                yield chat.ToolCall(
                    id=text_field(item, "call_id"),
                    name=text_field(item, "name"),
                    arguments=text_field(item, "arguments"),
                )
            case "reasoning":
                # Without its content the server would look for an item that it does not store.
                if item.get("encrypted_content") or item.get("content"):
                    yield chat.OpaquePart(type="reasoning", body=json_text(item), issuer=self.issuer)
            case "":
                yield chat.ReplyFailed(reason=chat.FailureReason.MALFORMED)
            case kind:
                yield chat.OpaquePart(type=kind, body=json_text(item), issuer=self.issuer)

    def _message(self, item: Fields) -> Events:
        for part in object_list(item, "content"):
            self.refused = self.refused or text_field(part, "type") == "refusal"
            if text := text_field(part, "text") or text_field(part, "refusal"):
                yield chat.TextDelta(text=text)

    def _ended(self, response: Fields, kind: str) -> Events:
        status = text_field(response, "status") if kind == "done" else kind
        if status in _FAILED:
            yield failure_of(inner_object(response, "error"))
            return
        for index, item in enumerate(object_list(response, "output")):
            yield from self._item(index, item)
        if usage := inner_object(response, "usage"):
            yield usage_of(usage)
        if status == "incomplete":
            incomplete_reason = text_field(inner_object(response, "incomplete_details"), "reason")
            yield chat.ReplyFinished(reason=_INCOMPLETE.get(incomplete_reason, chat.FinishReason.INCOMPLETE))
        elif self.called:
            yield chat.ReplyFinished(reason=chat.FinishReason.TOOLS)
        else:
            yield chat.ReplyFinished(reason=chat.FinishReason.REFUSED if self.refused else chat.FinishReason.STOP)


def usage_of(usage: Fields, /) -> chat.TokenUsage:
    """Return the usage in a response."""
    return chat.TokenUsage(
        input_tokens=count_field(usage, "input_tokens"),
        output_tokens=count_field(usage, "output_tokens"),
        cached_tokens=count_field(object_fields(usage.get("input_tokens_details")), "cached_tokens"),
        reasoning_tokens=count_field(object_fields(usage.get("output_tokens_details")), "reasoning_tokens"),
    )


DIALECT: Final = ModelDialect(
    path="/responses",
    headers=bearer_header,
    body=body_of,
    answer=ResponsesAnswer,
    count=TokenCount(
        "/responses/input_tokens", frozenset({"stream", "store", "include", "max_output_tokens", "temperature"})
    ),
)
