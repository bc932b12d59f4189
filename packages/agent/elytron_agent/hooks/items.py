"""Items of a turn: what hosts send to model APIs and get from them, in one form, and back.

A host's messages are items of the Responses API or messages of chat completions. `items_of` reads both, `responses_of`
and `chat_of` write them. What has no place in an item is kept as JSON text in `body`.
"""

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from enum import StrEnum
from typing import Any, Final, cast

from pydantic import BaseModel

from elytron_agent import limits
from elytron_core.errors import InvalidInput, LimitExceeded
from elytron_core.model import Value

Json = dict[str, Any]
HostMessages = str | Mapping[str, Any] | BaseModel | Sequence[Mapping[str, Any] | BaseModel]
"""A text of the user, or the messages of a request: mappings, or the objects of a vendor's library."""

MESSAGE: Final = "message"
CALL: Final = "function_call"
RESULT: Final = "function_call_output"
OTHER: Final = "other"
"""Items of a host with neither a type nor a role."""
TEXTS: Final = frozenset({"input_text", "output_text", "text"})
IMAGES: Final = frozenset({"input_image", "image_url"})
SYSTEM: Final = frozenset({"system", "developer"})


class MessageForm(StrEnum):
    """Form of a host's messages."""

    RESPONSES = "responses"
    CHAT = "chat"


class ItemPart(Value):
    """A part of a message. `type` is that of the Responses API: `input_text`, `output_text`, `input_image`, ..."""

    type: str
    text: str = ""
    image_url: str = ""
    detail: str = ""
    file_id: str = ""
    filename: str = ""
    body: str = ""
    """JSON text of a part of another type, unchanged."""


class TurnItem(Value):
    """A message, a call of a tool, or its result; of another type, `body` is its JSON text, unchanged."""

    type: str = MESSAGE
    role: str = ""
    content: tuple[ItemPart, ...] = ()
    name: str = ""
    call_id: str = ""
    arguments: str = ""
    output: str = ""
    body: str = ""

    @property
    def texts(self) -> tuple[str, ...]:
        """Return the words of the item, part by part."""
        if self.type == RESULT:
            return (self.output,)
        return tuple(part.text for part in self.content if part.type in TEXTS)

    @property
    def words(self) -> str:
        """Return the words of the item as one text."""
        return "\n".join(self.texts)

    @property
    def tokens(self) -> int:
        """Return about how many tokens the item has: a quarter of its characters."""
        own = (self.type, self.role, self.name, self.call_id, self.arguments, self.output, self.body)
        parts = (text for part in self.content for text in (part.type, part.text, part.image_url, part.filename))
        return -(-(sum(map(len, own)) + sum(map(len, parts))) // limits.CHARS_PER_TOKEN)

    @property
    def identity(self) -> str:
        """Return a digest that is the same for the same item in either form."""
        seen = {"type": self.type, "role": self.role, "words": self.words.strip(), "name": self.name}
        seen |= {"call": self.call_id, "arguments": self.arguments, "body": self.body}
        images = [part.image_url or part.file_id or part.body for part in self.content if part.type not in TEXTS]
        return hashlib.sha256(json.dumps([seen, images], sort_keys=True).encode()).hexdigest()


class HostMessage(Value):
    """A message as its host wrote it, and the items that it is read as."""

    raw: Any
    items: tuple[TurnItem, ...]

    @property
    def role(self) -> str:
        return self.items[0].role if self.items else ""

    @property
    def tokens(self) -> int:
        return sum(item.tokens for item in self.items)


def read_messages(messages: HostMessages, /) -> tuple[HostMessage, ...]:
    """Return the messages with the items that they hold. Raises InvalidInput for what is none, LimitExceeded."""
    if isinstance(messages, str):
        messages = {"role": "user", "content": messages}
    each = [messages] if isinstance(messages, Mapping | BaseModel) else list(messages)
    if len(each) > limits.HOST_MESSAGES:
        raise LimitExceeded(what="messages of one turn", limit=limits.HOST_MESSAGES, found=len(each))
    return tuple(
        HostMessage(raw=raw, items=tuple(_message_items(_message_mapping(raw, number))))
        for number, raw in enumerate(each)
    )


def items_of(messages: HostMessages, /) -> tuple[TurnItem, ...]:
    """Return the items of messages in either form, in their order."""
    return tuple(item for message in read_messages(messages) for item in message.items)


def form_of(messages: Iterable[HostMessage], /) -> MessageForm:
    """Return how the host writes: as the Responses API does where anything shows that, else as chat completions do."""
    for message in messages:
        raw = _message_mapping(message.raw, 0)
        kinds = {_raw_text(part, "type") for part in _list_mappings(raw.get("content"))}
        if raw.get("type") is not None or kinds & {"input_text", "output_text", "input_image", "input_file"}:
            return MessageForm.RESPONSES
    return MessageForm.CHAT


def write_items(items: Iterable[TurnItem], form: MessageForm, /) -> list[Json]:
    """Return the items as a host of that form sends them."""
    return responses_of(items) if form is MessageForm.RESPONSES else chat_of(items)


def responses_of(items: Iterable[TurnItem], /) -> list[Json]:
    """Return the items as input items of the Responses API."""
    return [_response_item(item) for item in items]


def chat_of(items: Iterable[TurnItem], /) -> list[Json]:
    """Return the items as messages of chat completions; what has no place there, such as reasoning, is left out."""
    messages: list[Json] = []
    for item in items:
        match item.type:
            case "message":
                messages.append({"role": item.role, "content": _chat_content(item)})
            case "function_call":
                if not messages or messages[-1]["role"] != "assistant":
                    messages.append({"role": "assistant", "content": None})
                function = {"name": item.name, "arguments": item.arguments}
                calls = messages[-1].setdefault("tool_calls", [])
                calls.append({"id": item.call_id, "type": "function", "function": function})
            case "function_call_output":
                messages.append({"role": "tool", "tool_call_id": item.call_id, "content": item.output})
            case _:
                continue
    return messages


def paired_items(items: Iterable[TurnItem], /) -> tuple[TurnItem, ...]:
    """Return the items without calls that have no result and results that have no call: model APIs refuse these."""
    listed = tuple(items)
    calls = {item.call_id for item in listed if item.type == CALL}
    results = {item.call_id for item in listed if item.type == RESULT}
    whole = calls & results
    return tuple(item for item in listed if item.type not in {CALL, RESULT} or item.call_id in whole)


def latest_user(messages: Sequence[HostMessage], /) -> int | None:
    """Return the place of the user's latest message, None where the user said nothing."""
    return next((place for place in reversed(range(len(messages))) if messages[place].role == "user"), None)


def reply_of(reply: HostMessages, /) -> tuple[TurnItem, ...]:
    """Return the items of an answer: a text, messages or items, or the whole answer of either API."""
    if isinstance(reply, str):
        part = ItemPart(type="output_text", text=reply)
        return (TurnItem(role="assistant", content=(part,)),)
    if isinstance(reply, Mapping | BaseModel):
        whole = _message_mapping(reply, 0)
        for choice in _list_mappings(whole.get("choices")):
            return items_of(_list_mappings([choice.get("message")]))
        if isinstance(whole.get("output"), list) and "type" not in whole:
            return items_of(_list_mappings(whole["output"]))
        return items_of(whole)
    return items_of(reply)


def _message_mapping(raw: object, number: int) -> Json:
    if isinstance(raw, BaseModel):
        return raw.model_dump(exclude_none=True)
    if not isinstance(raw, Mapping):
        raise InvalidInput(field=f"messages.{number}", problem="is neither a mapping nor a message of a known library")
    return dict(cast("Mapping[str, Any]", raw))


def _message_items(raw: Json) -> Iterable[TurnItem]:
    kind, role = raw.get("type", MESSAGE), raw.get("role")
    if kind == CALL:
        yield TurnItem(
            type=CALL,
            name=_raw_text(raw, "name"),
            call_id=_raw_text(raw, "call_id"),
            arguments=_raw_text(raw, "arguments"),
        )
    elif kind == RESULT:
        yield TurnItem(type=RESULT, call_id=_raw_text(raw, "call_id"), output=_output_text(raw.get("output")))
    elif role == "tool":
        yield TurnItem(type=RESULT, call_id=_raw_text(raw, "tool_call_id"), output=_output_text(raw.get("content")))
    elif kind != MESSAGE or not isinstance(role, str):
        yield TurnItem(type=OTHER if kind == MESSAGE else _sound_text(str(kind)), body=_json_text(raw))
    else:
        calls = _list_mappings(raw.get("tool_calls"))
        content = tuple(_content_parts(raw.get("content"), role))
        if content or not calls:
            yield TurnItem(role=_sound_text(role), content=content)
        for call in calls:
            function = next(iter(_list_mappings([call.get("function")])), call)
            arguments, name = _raw_text(function, "arguments"), _raw_text(function, "name")
            yield TurnItem(type=CALL, name=name, call_id=_raw_text(call, "id"), arguments=arguments)


def _list_mappings(value: object) -> list[Json]:
    """Return the mappings of a list; what is none of them holds nothing that is read here."""
    each = cast("list[Any]", value) if isinstance(value, list) else []
    return [dict(cast("Mapping[str, Any]", one)) for one in each if isinstance(one, Mapping)]


def _sound_text(text: str) -> str:
    """Return `text` as valid UTF-8: half a character of a host's cut becomes a question mark."""
    return text.encode("utf-8", "replace").decode()


def _raw_text(raw: Json, name: str) -> str:
    return _value_word(raw.get(name))


def _value_word(value: object) -> str:
    return _sound_text(value) if isinstance(value, str) else "" if value is None else _json_text(value)


def _output_text(content: object) -> str:
    if isinstance(content, list):
        return "\n".join(part.text or part.body for part in _content_parts(cast("object", content), "tool"))
    return _value_word(content)


def _content_parts(content: object, role: str) -> Iterable[ItemPart]:
    said = "output_text" if role == "assistant" else "input_text"
    if isinstance(content, str):
        yield ItemPart(type=said, text=_sound_text(content))
    for part in cast("list[Any]", content) if isinstance(content, list) else ():
        if isinstance(part, str):
            yield ItemPart(type=said, text=_sound_text(part))
        elif isinstance(part, Mapping):
            yield _content_part(dict(cast("Mapping[str, Any]", part)), said)


def _content_part(part: Json, said: str) -> ItemPart:
    kind = _raw_text(part, "type")
    if kind in TEXTS and isinstance(part.get("text"), str):
        return ItemPart(type=said, text=_raw_text(part, "text"))
    if kind in IMAGES:
        url: Any = part.get("image_url")
        inner: Json = cast("Json", url) if isinstance(url, dict) else {"url": url, "detail": part.get("detail")}
        return ItemPart(
            type="input_image",
            image_url=_raw_text(inner, "url"),
            detail=_raw_text(inner, "detail"),
            file_id=_raw_text(part, "file_id"),
        )
    file = next(iter(_list_mappings([part.get("file")])), part)
    if kind in {"input_file", "file"} and not file.get("file_data"):
        return ItemPart(type="input_file", file_id=_raw_text(file, "file_id"), filename=_raw_text(file, "filename"))
    return ItemPart(type=kind, body=_json_text(part))


def _response_item(item: TurnItem) -> Json:
    match item.type:
        case "message":
            return {"type": MESSAGE, "role": item.role, "content": [_response_part(part) for part in item.content]}
        case "function_call":
            return {"type": CALL, "call_id": item.call_id, "name": item.name, "arguments": item.arguments}
        case "function_call_output":
            return {"type": RESULT, "call_id": item.call_id, "output": item.output}
        case _:
            return json.loads(item.body)


def _response_part(part: ItemPart) -> Json:
    if part.body:
        return json.loads(part.body)
    told = part.model_dump(exclude_defaults=True)
    return told | ({"text": part.text} if part.type in TEXTS else {})


def _chat_content(item: TurnItem) -> str | list[Json]:
    if all(part.type in TEXTS for part in item.content):
        return item.words
    return [_chat_part(part) for part in item.content]


def _chat_part(part: ItemPart) -> Json:
    if part.body:
        return json.loads(part.body)
    if part.type in TEXTS:
        return {"type": "text", "text": part.text}
    if part.type == "input_image":
        detail = {"detail": part.detail} if part.detail else {}
        return {"type": "image_url", "image_url": {"url": part.image_url, **detail}}
    return {"type": "file", "file": part.model_dump(include={"file_id", "filename"}, exclude_defaults=True)}


def _json_text(value: object) -> str:
    return json.dumps(value, sort_keys=True, separators=(",", ":"), default=str)
