"""The dialect `ollama`: Ollama's own chat, lines of JSON."""

from dataclasses import dataclass, field
from typing import Final

from elytron_core import limits
from elytron_core.errors import InvalidInput
from elytron_core.ports import chat
from elytron_models.dialect import (
    Dialect,
    Target,
    arguments_of,
    bearer,
    data_of,
    joined,
    parsed,
    present,
    returned,
    texts_of,
)
from elytron_models.server import failure_of
from elytron_models.stream_parser import Answer, Events, Fields, count, inner, json_text, objects, text

_REASONS: Final = {"stop": chat.FinishReason.STOP, "length": chat.FinishReason.LENGTH}


def body_of(request: chat.ModelRequest, target: Target, /) -> dict[str, object]:
    """Return the JSON of `request`. The server has no choice of tools: with NONE it is sent none."""
    tools = () if request.tool_choice is chat.ToolChoice.NONE else request.tools
    return present(
        model=target.model,
        messages=[_message(message, target) for message in joined(request.messages)],
        tools=[
            {
                "type": "function",
                "function": {
                    "name": tool.name,
                    "description": tool.description,
                    "parameters": parsed(tool.parameters, field=f"the parameters of {tool.name!r}"),
                },
            }
            for tool in tools
        ],
        format=parsed(request.answer_schema, field="answer_schema") if request.answer_schema is not None else None,
        # Without the window's size the server takes a small one, and cuts what does not fit without a word.
        options=present(num_predict=request.max_tokens, temperature=request.temperature, num_ctx=target.context_tokens),
    ) | {"stream": True}


def _message(message: chat.Message, target: Target) -> dict[str, object]:
    match message:
        case chat.InputMessage():
            role = chat.Role.USER if message.role is chat.Role.USER else chat.Role.SYSTEM
            images = [_image(part) for part in message.parts if isinstance(part, chat.ImagePart)]
            return {"role": role.value, "content": texts_of(message.parts), **present(images=images)}
        case chat.ToolResult():
            return {"role": "tool", "content": message.text, "tool_name": message.tool}
        case chat.Reply():
            calls = [
                {"function": {"name": item.name, "arguments": arguments_of(item)}}
                for item in message.items
                if isinstance(item, chat.ToolCall)
            ]
            opaque = [returned(item, target) for item in message.items if isinstance(item, chat.Opaque)]
            thought = "".join(text(item, "thinking") for item in opaque if item is not None)
            said = "".join(item.text for item in message.items if isinstance(item, chat.TextPart))
            return {"role": "assistant", "content": said, **present(thinking=thought, tool_calls=calls)}


def _image(part: chat.ImagePart) -> str:
    data = data_of(part)
    if data is None:
        raise InvalidInput(field="image", problem="is an address, and Ollama takes only the bytes: give a data: URL")
    return data[1]


@dataclass(slots=True)
class OllamaAnswer(Answer):
    """An answer in lines. It is whole when a line with `done: true` came; any line may hold tool calls."""

    issuer: str = ""
    thoughts: list[str] = field(default_factory=list[str])
    calls: int = 0

    def take(self, event: Fields, /) -> Events:
        """Return the events of one line, of a chat or of a completion."""
        if event.get("error"):
            yield failure_of(inner(event, "error") or {"message": text(event, "error")})
            return
        message = inner(event, "message")
        if thought := text(message, "thinking") or text(event, "thinking"):
            self.thoughts.append(thought)
            yield chat.ReasoningDelta(text=thought)
        if said := text(message, "content") or text(event, "response"):
            yield from self._thought()
            yield chat.TextDelta(text=said)
        for call in objects(message, "tool_calls"):
            yield from self._thought()
            yield from self._called(call)
        if event.get("done") is True:
            yield from self._thought()
            yield from self._ended(event)

    def _thought(self) -> Events:
        """Return what was thought so far as one item, so that it keeps its place before what follows."""
        if self.thoughts:
            body = json_text({"thinking": "".join(self.thoughts)})
            self.thoughts.clear()
            yield chat.Opaque(type="thinking", body=body, issuer=self.issuer)

    def _called(self, call: Fields) -> Events:
        if self.calls >= limits.MODEL_TOOL_CALLS:
            yield chat.Failed(reason=chat.FailureReason.TOO_LARGE)
            return
        function = inner(call, "function")
        index, self.calls = self.calls, self.calls + 1
        arguments = json_text(inner(function, "arguments"))
        named = text(call, "id") or f"call_{index}"
        yield chat.ToolCallDelta(index=index, id=named, name=text(function, "name"), arguments=arguments)
        yield chat.ToolCall(id=named, name=text(function, "name"), arguments=arguments)

    def _ended(self, event: Fields) -> Events:
        if "eval_count" in event or "prompt_eval_count" in event:
            yield chat.Usage(input_tokens=count(event, "prompt_eval_count"), output_tokens=count(event, "eval_count"))
        reason = _REASONS.get(text(event, "done_reason") or "stop", chat.FinishReason.INCOMPLETE)
        if self.calls and reason is chat.FinishReason.STOP:
            reason = chat.FinishReason.TOOLS
        yield chat.Finished(reason=reason)


OLLAMA: Final = Dialect(path="/api/chat", headers=bearer, body=body_of, answer=OllamaAnswer, has_lines=True)
