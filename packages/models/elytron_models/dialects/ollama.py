"""The dialect `ollama`: Ollama's own chat, lines of JSON."""

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
    UnfinishedAnswer,
    arguments_of,
    bearer_header,
    count_field,
    data_of,
    inner_object,
    join_roles,
    json_text,
    object_list,
    parse_object,
    present_fields,
    require_effort,
    returned_item,
    text_field,
    texts_of,
)
from elytron_models.server import failure_of

_EFFORTS: Final = frozenset({"none", "low", "medium", "high"})
_REASONS: Final = {"stop": chat.FinishReason.STOP, "length": chat.FinishReason.LENGTH}


def body_of(request: chat.ModelRequest, target: ModelTarget, /) -> dict[str, object]:
    """Return the JSON of `request`. The server has no tool choice: with NONE it is sent no tools.

    Raises InvalidInput for an effort that it does not know, and for calls one at a time.
    """
    effort = require_effort(request, _EFFORTS)
    if request.parallel_calls is False and request.tools:
        raise InvalidInput(field="parallel_tool_calls", problem="cannot be false: Ollama has no such option")
    tools = () if request.tool_choice is chat.ToolChoice.NONE else request.tools
    return present_fields(
        model=target.model,
        messages=[_encode_message(message, target) for message in join_roles(request.messages)],
        tools=[
            {
                "type": "function",
                "function": {
                    "name": tool.name,
                    "description": tool.description,
                    "parameters": parse_object(tool.parameters, field=f"the parameters of {tool.name!r}"),
                },
            }
            for tool in tools
        ],
        format=parse_object(request.answer_schema, field="answer_schema")
        if request.answer_schema is not None
        else None,
        # Without the window's size the server uses a small one, and silently cuts what does not fit.
        options=present_fields(
            num_predict=request.max_tokens,
            temperature=request.temperature,
            top_p=request.top_p,
            num_ctx=target.context_tokens,
        ),
        think=False if effort == "none" else effort,
    ) | {"stream": True}


def _encode_message(message: chat.Message, target: ModelTarget) -> dict[str, object]:
    match message:
        case chat.InputMessage():
            role = chat.ChatRole.USER if message.role is chat.ChatRole.USER else chat.ChatRole.SYSTEM
            images = [_encode_image(part) for part in message.parts if isinstance(part, chat.ImagePart)]
            return {"role": role.value, "content": texts_of(message.parts), **present_fields(images=images)}
        case chat.ToolResult():
            return {"role": "tool", "content": message.text, "tool_name": message.tool}
        case chat.ModelReply():
            calls = [
                {"function": {"name": item.name, "arguments": arguments_of(item)}}
                for item in message.items
                if isinstance(item, chat.ToolCall)
            ]
            opaque_items = [returned_item(item, target) for item in message.items if isinstance(item, chat.OpaquePart)]
            thinking = "".join(text_field(item, "thinking") for item in opaque_items if item is not None)
            text = "".join(item.text for item in message.items if isinstance(item, chat.TextPart))
            return {"role": "assistant", "content": text, **present_fields(thinking=thinking, tool_calls=calls)}


def _encode_image(part: chat.ImagePart) -> str:
    data = data_of(part)
    if data is None:
        raise InvalidInput(field="image", problem="is an address, but Ollama accepts only bytes: send a data: URL")
    return data[1]


@dataclass(slots=True)
class OllamaAnswer(UnfinishedAnswer):
    """An answer in lines. It ends with a line with `done: true`, or when its reason came and the bytes end.

    Any line may hold tool calls.
    """

    issuer: str = ""
    thoughts: list[str] = field(default_factory=list[str])
    calls: int = 0
    last: Fields = field(default_factory=dict[str, object])
    """The line with the reason of the end, if it did not say that the answer is done."""

    def take(self, event: Fields, /) -> Events:
        """Return the events of one line, of a chat or of a completion."""
        if event.get("error"):
            yield failure_of(inner_object(event, "error") or {"message": text_field(event, "error")})
            return
        message = inner_object(event, "message")
        if thinking := text_field(message, "thinking") or text_field(event, "thinking"):
            self.thoughts.append(thinking)
            yield chat.ReasoningDelta(text=thinking)
        if text := text_field(message, "content") or text_field(event, "response"):
            yield from self._end_thoughts()
            yield chat.TextDelta(text=text)
        for call in object_list(message, "tool_calls"):
            yield from self._end_thoughts()
            yield from self._called(call)
        if event.get("done") is True:
            yield from self._end_thoughts()
            yield from self._ended(event)
        elif text_field(event, "done_reason"):
            self.last = event

    def closed(self) -> Events:
        """Return the same as for a line with `done: true`, if the reason came."""
        if self.last:
            yield from self._end_thoughts()
            yield from self._ended(self.last)

    def _end_thoughts(self) -> Events:
        """Return the reasoning so far as one item, so that it keeps its position."""
        if self.thoughts:
            body = json_text({"thinking": "".join(self.thoughts)})
            self.thoughts.clear()
            yield chat.OpaquePart(type="thinking", body=body, issuer=self.issuer)

    def _called(self, call: Fields) -> Events:
        if self.calls >= limits.MODEL_TOOL_CALLS:
            yield chat.ReplyFailed(reason=chat.FailureReason.TOO_LARGE)
            return
        function = inner_object(call, "function")
        index, self.calls = self.calls, self.calls + 1
        arguments = json_text(inner_object(function, "arguments"))
        call_id = text_field(call, "id") or f"call_{index}"
        yield chat.ToolCallDelta(index=index, id=call_id, name=text_field(function, "name"), arguments=arguments)
        yield chat.ToolCall(id=call_id, name=text_field(function, "name"), arguments=arguments)

    def _ended(self, event: Fields) -> Events:
        if "eval_count" in event or "prompt_eval_count" in event:
            yield chat.TokenUsage(
                input_tokens=count_field(event, "prompt_eval_count"), output_tokens=count_field(event, "eval_count")
            )
        reason = _REASONS.get(text_field(event, "done_reason") or "stop", chat.FinishReason.INCOMPLETE)
        # The server also says `stop` for an answer that ends in calls.
        if self.calls and reason is chat.FinishReason.STOP:
            reason = chat.FinishReason.TOOLS
        yield chat.ReplyFinished(reason=reason)


DIALECT: Final = ModelDialect(
    path="/api/chat", headers=bearer_header, body=body_of, answer=OllamaAnswer, has_lines=True
)
