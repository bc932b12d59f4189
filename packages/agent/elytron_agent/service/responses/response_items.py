"""Items and options of responses: inputs as model messages, stored turns as items, and the options that apply."""

import base64
import hashlib
import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, NamedTuple, get_args

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from pydantic import JsonValue

from elytron_agent import limits
from elytron_agent.runs.events import StopReason
from elytron_agent.runs.journal import RunRecord
from elytron_agent.runs.settings import AgentSettings
from elytron_agent.runs.source import ClientPart
from elytron_agent.runs.thread_notes import AGENTS
from elytron_agent.service.responses.response_wire import (
    RESPONSE_PREFIX,
    AnswerFormat,
    AnswerItem,
    CallItem,
    ContentPart,
    FunctionChoice,
    InputItem,
    OutputItem,
    OutputText,
    ResponseForm,
    ResponseRequest,
)
from elytron_core.errors import InvalidInput
from elytron_core.policy.credentials import SEAL_PREFIX
from elytron_core.ports.chat import (
    ChatRole,
    InputMessage,
    Message,
    ModelReply,
    ModelRequest,
    ModelTool,
    ReasoningEffort,
    ReplyItem,
    TextPart,
    ToolCall,
    ToolChoice,
    ToolResult,
)
from elytron_models.client import ModelClient
from elytron_turn.context import came_from_outside, outside_message, reference_message, shown_given, text_message
from elytron_turn.sizes import bytes_of, tokens_of

if TYPE_CHECKING:
    from elytron_agent.service.companion import UserAgents


_IMAGE: Final = "[image]"
_ITEM: Final = re.compile(r"(?:msg|fc|fco|rs|cmp)_([A-Za-z0-9-]{1,100})_[i0-9][0-9_]{0,12}")
_PREFIXES: Final = {
    "message": "msg",
    "function_call": "fc",
    "function_call_output": "fco",
    "reasoning": "rs",
    "compaction": "cmp",
}
_NONCE: Final = 12
_TAGS: Final = 6
"""Number of 96-bit tags that a key is made of."""


class TurnInput(NamedTuple):
    """The parsed input of a response: the user's text and images at its end, and the messages before it."""

    text: str = ""
    images: tuple[str, ...] = ()
    before: tuple[Message, ...] = ()

    @property
    def has_files(self) -> bool:
        """Return whether the text came with a file, in which case it may ask for nothing that outside text may not."""
        return any(map(came_from_outside, self.before))


def read_input(
    items: Sequence[InputItem], calls: Mapping[str, str], unsealed: Callable[[str], str], /, *, is_whole: bool = False
) -> TurnInput:
    """Parse an input that follows a response. `calls` are that response's open calls, ids with tool names.

    With `is_whole`, every item becomes a message.

    Raises InvalidInput for a result without a call.
    """
    final_start = len(items)
    while (
        not is_whole
        and final_start
        and items[final_start - 1].role not in {None, "assistant"}
        and items[final_start - 1].type == "message"
    ):
        final_start -= 1
    final_items = items[final_start:]
    user_items = [item for item in final_items if item.role == "user"]
    reader = _InputReader(calls, unsealed)
    for item in (*items[:final_start], *(item for item in final_items if item.role != "user")):
        reader.read(item)
    parts = [part for item in user_items for part in content_parts(item)]
    user_text = "\n\n".join(_words_of(item) for item in user_items).strip()
    images = tuple(part.image for part in parts if part.image is not None)
    _require_file_bytes(items)
    return TurnInput(user_text, images, (*reader.messages, *file_messages(user_items)))


def _require_file_bytes(items: Sequence[InputItem]) -> None:
    file_bytes = sum(len(part.file_text.encode()) for item in items for part in content_parts(item))
    if file_bytes > limits.RESPONSE_FILE_BYTES:
        raise InvalidInput(
            field="input", problem=f"has files with more than {limits.RESPONSE_FILE_BYTES} bytes in total"
        )


def file_messages(items: Iterable[InputItem], /) -> list[Message]:
    """Return the files in items as messages of outside text, which cannot ask for anything."""
    texts = (part.file for item in items for part in content_parts(item))
    return [outside_message(text) for text in texts if text is not None]


class _InputReader:
    """Read the items before the user's text."""

    def __init__(self, calls: Mapping[str, str], unsealed: Callable[[str], str]) -> None:
        self._open, self._call_names = dict(calls), dict(calls)
        self._unsealed = unsealed
        self._results: list[Message] = []
        self._messages: list[Message] = []

    @property
    def messages(self) -> tuple[Message, ...]:
        """Return the messages. Results of open calls come first, because they directly follow these calls."""
        return (*self._results, *self._messages)

    def read(self, item: InputItem) -> None:
        match item.type:
            case "message" if item.role == "assistant":
                self._reply(TextPart(text=_words_of(item)))
            case "message":
                role = ChatRole(item.role or "user")
                files = file_messages((item,))
                self._messages += files
                if (spoken_words := _words_of(item, image=_IMAGE)) or not files:
                    self._messages.append(text_message(role, spoken_words or _IMAGE))
            case "function_call":
                tool_call = ToolCall(id=item.call_id or "", name=item.name or "", arguments=item.arguments or "")
                self._call_names[tool_call.id] = tool_call.name
                self._reply(tool_call)
            case "function_call_output":
                self._result(item)
            case "compaction":
                self._messages.append(reference_message(self._unsealed(item.encrypted_content or "")))
            case "reasoning":
                pass

    def _reply(self, part: ReplyItem) -> None:
        last_message = self._messages[-1] if self._messages else None
        # A single reply arrives as several items.
        if isinstance(last_message, ModelReply):
            self._messages[-1] = ModelReply(items=(*last_message.items, part))
        else:
            self._messages.append(ModelReply(items=(part,)))

    def _result(self, item: InputItem) -> None:
        call_id = item.call_id or ""
        if call_id not in self._call_names:
            raise InvalidInput(field="input", problem="has a tool result without a call: no call has its id")
        result = ToolResult(call_id=call_id, tool=self._call_names[call_id], text=_output_text(item))
        if self._open.pop(call_id, None) is not None:
            self._results.append(result)
        else:
            self._messages.append(result)


def content_parts(item: InputItem, /) -> tuple[ContentPart, ...]:
    """Return the parts of an item's content."""
    if isinstance(item.content, str):
        part_type = "output_text" if item.role == "assistant" else "input_text"
        return (ContentPart(type=part_type, text=item.content),)
    return item.content or ()


def _words_of(item: InputItem, *, image: str = "") -> str:
    texts = [part.words if part.image is None else image for part in content_parts(item)]
    return "\n".join(text for text in texts if text)


def _output_text(item: InputItem) -> str:
    if isinstance(item.output, str):
        return item.output
    return "\n".join(part.words if part.image is None else _IMAGE for part in item.output or ())


def stored_items(items: Iterable[InputItem], /) -> tuple[InputItem, ...]:
    """Return the items in their stored form, without images, which the turn describes in words."""
    return tuple(
        item.model_copy(
            update={"id": None, "content": _without_images(item.content), "output": _without_images(item.output)}
        )
        for item in items
    )


def _without_images(content: str | tuple[ContentPart, ...] | None) -> str | tuple[ContentPart, ...] | None:
    if content is None or isinstance(content, str):
        return content
    return tuple(part if part.image is None else ContentPart(type="input_text", text=_IMAGE) for part in content)


def word_of(response: str, /) -> str:
    """Return the part of a response's id that the ids of its items contain."""
    return response.removeprefix(RESPONSE_PREFIX)


def response_of_item(item: str, /) -> str | None:
    """Return the id of the response that an item id names, or None for an id of another form."""
    item_match = _ITEM.fullmatch(item)
    return f"{RESPONSE_PREFIX}{item_match[1]}" if item_match is not None else None


def listed_items(response: str, items: Sequence[InputItem], /) -> list[dict[str, JsonValue]]:
    """Return the items of an input in their form for a client: each with an id, and its content as parts."""
    rows: list[dict[str, JsonValue]] = []
    for index, item in enumerate(items):
        fields: dict[str, JsonValue] = item.model_dump(mode="json", exclude_none=True)
        fields |= {"id": f"{_PREFIXES[item.type]}_{word_of(response)}_i{index}", "status": "completed"}
        if item.type == "message":
            parts = (part.model_dump(mode="json", exclude_none=True) for part in content_parts(item))
            fields["content"] = [_shown_part(part) for part in parts]
        rows.append(fields)
    return rows


def _shown_part(part: dict[str, JsonValue]) -> JsonValue:
    return part | {"annotations": []} if part["type"] == "output_text" else part


def message_item(response: str, step: int, text: str, /, *, attempt: int = 0, status: str = "completed") -> AnswerItem:
    """Return the message of a step of a response."""
    item_id = f"msg_{word_of(response)}_{step}" + (f"_{attempt}" if attempt else "")
    content = (OutputText(text=text),) if text or status == "completed" else ()
    return AnswerItem.model_validate({"id": item_id, "status": status, "content": content})


def call_items(response: str, step: int, calls: Sequence[ToolCall], /) -> list[CallItem]:
    """Return the calls of a step that the client has to make."""
    return [
        CallItem(id=f"fc_{word_of(response)}_{step}_{index}", call_id=call.id, name=call.name, arguments=call.arguments)
        for index, call in enumerate(calls)
    ]


def output_items(response: str, record: RunRecord, /) -> tuple[OutputItem, ...]:
    """Return the messages of a run, and the calls that it hands to the client."""
    text_replies = (reply for reply in record.replies if reply.text)
    items: list[OutputItem] = [message_item(response, reply.step, reply.text) for reply in text_replies]
    if record.end is not None and record.end.reason is StopReason.HANDED:
        items += call_items(response, record.replies[-1].step, record.open_calls)
    return tuple(items)


def words_of_messages(messages: Iterable[Message], /) -> str:
    """Return messages as lines of text to be summarised."""
    lines: list[str] = []
    for message in messages:
        match message:
            case InputMessage():
                lines += [f"{message.role.value}: {part.text}" for part in message.parts if isinstance(part, TextPart)]
            case ModelReply():
                lines += [f"assistant: {item.text}" for item in message.items if isinstance(item, TextPart)]
            case ToolResult():
                lines.append(f"{message.tool}: {message.text}")
    return "\n".join(lines)


class SummarySeal:
    """Seal and open summaries that clients store, with a key of the user's space. Only its server can read them."""

    def __init__(self, user: "UserAgents", /) -> None:
        self._user = user
        self._key: bytes | None = None

    async def prepare(self) -> None:
        """Ensure that the key exists, creating the user's space if necessary."""
        spaces, space_id = self._user.memory.context.spaces, self._user.space
        if await spaces.find(space_id) is None:
            await self._user.records.put((AGENTS, "responses"), "seal", {"version": 1})
        record = await spaces.find(space_id)
        assert record is not None
        tags = "".join(record.tag("agent", "summary", str(number)) for number in range(_TAGS))
        self._key = hashlib.sha256(tags.encode()).digest()

    def seal(self, text: str, /) -> str:
        """Return a summary as text that only `open` can read."""
        nonce = self._user.memory.context.ids.secret(_NONCE)
        sealed_text = base64.urlsafe_b64encode(nonce + self._cipher.encrypt(nonce, text.encode(), None))
        return SEAL_PREFIX + sealed_text.decode()

    def open(self, sealed: str, /) -> str:
        """Return a sealed summary. Raises InvalidInput for one that was not sealed here."""
        try:
            sealed_bytes = base64.urlsafe_b64decode(sealed.removeprefix(SEAL_PREFIX).encode("ascii"))
            return self._cipher.decrypt(sealed_bytes[:_NONCE], sealed_bytes[_NONCE:], None).decode()
        except (ValueError, InvalidTag):
            raise InvalidInput(field="encrypted_content", problem="was not sealed by this server") from None

    @property
    def _cipher(self) -> AESGCM:
        assert self._key is not None
        return AESGCM(self._key)


HIDDEN: Final = frozenset({"done", "set_preference", "spawn_subagent"})
"""Agent tools that are of no use in a thread of responses."""
_RESERVED: Final = frozenset({"done", "read_result"})
_PLAIN_OBJECT: Final = '{"type":"object"}'
_INCLUDABLE: Final = frozenset(
    {
        "code_interpreter_call.outputs",
        "computer_call_output.output.image_url",
        "file_search_call.results",
        "reasoning.encrypted_content",
        "web_search_call.action.sources",
        "web_search_call.results",
    }
)
"""Parts that no item here ever has, so that including them has no effect."""
_EFFORTS: Final = get_args(ReasoningEffort)


def require_options(request: ResponseRequest, model: ModelClient, /) -> None:
    """Raise InvalidInput for an unsupported option, naming its field."""
    _require_tools(request)
    for name, problem in _option_problems(request):
        raise InvalidInput(field=name, problem=problem)
    part = client_part(request.form)
    # A placeholder stands for the agent's tools, which the model must support too.
    model.require(
        ModelRequest(
            messages=(text_message(ChatRole.USER, "."),),
            tools=(*part.tools, ModelTool(name="recall")),
            top_p=part.top_p,
            reasoning_effort=part.reasoning_effort,
            parallel_calls=part.parallel_calls,
        )
    )


def require_room(request: ResponseRequest, client_input: TurnInput, max_tokens: int, /) -> None:
    """Raise InvalidInput if the input alone exceeds the window and nothing of it may be left out."""
    if request.truncation != "disabled" and not client_input.has_files:
        return
    input_bytes = bytes_of((*shown_given(client_input.before), text_message(ChatRole.USER, client_input.text)))
    tokens = tokens_of(input_bytes + len(request.instructions or ""), factor=1)
    if tokens > max_tokens:
        limit_reason = "`truncation` is disabled" if request.truncation == "disabled" else "files are not cut"
        problem = f"has about {tokens} tokens, but the window is {max_tokens}, and {limit_reason}"
        raise InvalidInput(field="input", problem=problem)


def effort_of(form: ResponseForm, /) -> ReasoningEffort | None:
    """Return the requested effort, or None for the model's default."""
    effort = (form.reasoning or {}).get("effort")
    return next((option for option in _EFFORTS if option == effort), None)


def _option_problems(request: ResponseRequest) -> list[tuple[str, str]]:
    """Return the fields with unsupported values, each with the reason."""
    reasoning, stream = request.reasoning or {}, request.stream_options or {}
    problems: list[tuple[str, str]] = []
    if reasoning.get("effort") not in (None, *_EFFORTS):
        problems.append(("reasoning.effort", f"must be one of {', '.join(_EFFORTS)}"))
    problems += [
        (f"reasoning.{name}", "is not supported: answers contain no reasoning items")
        for name in sorted(reasoning.keys() - {"effort"})
        if reasoning[name] is not None
    ]
    if unknown_names := sorted(set(request.include or ()) - _INCLUDABLE):
        problems.append(("include", f"does not support {unknown_names[0]!r}: no response has it"))
    if request.top_logprobs:
        problems.append(("top_logprobs", "must be 0: answers contain no probabilities"))
    if stream.get("include_obfuscation"):
        problems.append(("stream_options", "requests padding, which is not supported"))
    if request.context_management:
        problems.append(("context_management", "is set per agent: PUT /v1/agent/config sets its compaction"))
    if request.text is not None and request.text.verbosity not in {None, "medium"}:
        problems.append(("text.verbosity", "cannot be set: state it in `instructions`"))
    for name, penalty in (("presence", request.presence_penalty), ("frequency", request.frequency_penalty)):
        if penalty:
            problems.append((f"{name}_penalty", "is not supported: leave it out or set it to 0"))
    return problems


def changed_settings(settings: AgentSettings, form: ResponseForm, /) -> AgentSettings:
    """Return the agent's settings, changed by the options of one response."""
    requested_options: dict[str, Any] = {
        "temperature": form.temperature,
        "max_tokens": form.max_output_tokens,
        "instructions": form.instructions,
    }
    changes = {name: value for name, value in requested_options.items() if value is not None} | {"welcomes": False}
    if form.max_tool_calls is not None:
        changes["budget"] = settings.budget.model_copy(update={"calls": form.max_tool_calls})
    if form.tool_choice == "none":
        changes["uses_tools"] = False
    return settings.model_copy(update=changes)


def client_part(form: ResponseForm, /) -> ClientPart:
    """Return the client's tools and answer format for a response."""
    answer_format = form.text.format if form.text is not None else AnswerFormat()
    schema = json.dumps(answer_format.schema_) if answer_format.schema_ is not None else None
    tools = [] if form.tool_choice == "none" else list(form.tools or ())
    choice = ToolChoice.AUTO
    if isinstance(form.tool_choice, FunctionChoice):
        choice, name = ToolChoice.REQUIRED, form.tool_choice.name
        tools = [tool for tool in tools if tool.name == name]
    elif form.tool_choice == "required":
        choice = ToolChoice.REQUIRED
    return ClientPart(
        tools=tuple(
            ModelTool(
                name=tool.name,
                description=tool.description or "",
                parameters=json.dumps(tool.parameters)
                if tool.parameters is not None
                else ModelTool(name="x").parameters,
            )
            for tool in tools
        ),
        choice=choice,
        schema_text=_PLAIN_OBJECT if answer_format.type == "json_object" else schema,
        hidden=HIDDEN,
        top_p=form.top_p,
        reasoning_effort=effort_of(form),
        parallel_calls=form.parallel_tool_calls,
        keeps_all=form.truncation == "disabled",
    )


def _require_tools(request: ResponseRequest) -> None:
    """Raise InvalidInput for tools that cannot be offered together."""
    names = [tool.name for tool in request.tools or ()]
    if len(set(names)) < len(names):
        raise InvalidInput(field="tools", problem="include two with the same name")
    if _RESERVED & set(names):
        raise InvalidInput(field="tools", problem=f"use a name reserved for the agent: {', '.join(sorted(_RESERVED))}")
    choice = request.tool_choice
    if isinstance(choice, FunctionChoice) and choice.name not in names:
        raise InvalidInput(field="tool_choice", problem="is not one of the tools")
    if choice == "required" and not names:
        raise InvalidInput(field="tool_choice", problem="is required, but there are no tools")
