"""Codec of chat messages: the messages of several model APIs as one form of items, and back.

`message_items` reads chat completions (Ollama's are the same) and items of the Responses API; `anthropic_items` reads
Anthropic messages; `responses_of` and `chat_of` write. No message is rejected: a part without a field of its own is
stored as JSON text in `body`, as `body_of` makes it. The proxy, the turn hooks and the importers use this codec; model
clients write their own typed requests.
"""

import hashlib
import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Final, cast

from elytron_core.evidence import TEXT_PARTS
from elytron_core.model import Value
from elytron_core.text.similarity import CHARS_PER_TOKEN

Json = dict[str, Any]
BodyText = Callable[[object], str]
"""Converts a value without its own field to text for storage."""

MESSAGE: Final = "message"
CALL: Final = "function_call"
RESULT: Final = "function_call_output"
OTHER: Final = "other"
"""Items of a host with neither a type nor a role."""
TEXTS: Final = TEXT_PARTS
IMAGES: Final = frozenset({"input_image", "image_url"})
_TOOL_BLOCKS: Final = ("tool_use", "tool_result")
"""Suffixes of the types of Anthropic's blocks without words."""
SYSTEM: Final = frozenset({"system", "developer"})
IMAGE_TOKENS: Final = 1_600
"""Maximum tokens counted for an image, however long its `data:` URL is."""


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
        """Return the text of the item, part by part."""
        if self.type == RESULT:
            return (self.output,)
        return tuple(part.text for part in self.content if part.type in TEXTS)

    @property
    def words(self) -> str:
        """Return the text of the item as one string."""
        return "\n".join(self.texts)

    @property
    def tokens(self) -> int:
        """Return an estimate of the item's tokens: a quarter of its bytes, at most `IMAGE_TOKENS` for an image."""
        own_texts = (self.type, self.role, self.name, self.call_id, self.arguments, self.output, self.body)
        part_texts = (text for part in self.content for text in (part.type, part.text, part.filename))
        size_bytes = sum(len(text.encode()) for text in (*own_texts, *part_texts))
        size_bytes += sum(min(len(part.image_url), IMAGE_TOKENS * CHARS_PER_TOKEN) for part in self.content)
        return -(-size_bytes // CHARS_PER_TOKEN)

    @property
    def identity(self) -> str:
        """Return a digest that is the same for the same item in either form."""
        identity_fields = {"type": self.type, "role": self.role, "words": self.words.strip(), "name": self.name}
        identity_fields |= {"call": self.call_id, "arguments": self.arguments, "body": self.body}
        media_sources = [part.image_url or part.file_id or part.body for part in self.content if part.type not in TEXTS]
        return hashlib.sha256(json.dumps([identity_fields, media_sources], sort_keys=True).encode()).hexdigest()


def json_text(value: object, /) -> str:
    """Return `value` as JSON text that is the same for equal values."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), default=str)


def no_text(_value: object, /) -> str:
    """Return an empty text: for readers of words only, so that a large image is not serialized again."""
    return ""


def message_items(raw_message: Mapping[str, Any], /, *, body_of: BodyText = json_text) -> Iterator[TurnItem]:
    """Yield the items of a message of chat completions, or of an item of the Responses API."""
    kind, role = raw_message.get("type", MESSAGE), raw_message.get("role")
    if kind == CALL:
        yield TurnItem(
            type=CALL,
            name=_raw_text(raw_message, "name"),
            call_id=_raw_text(raw_message, "call_id"),
            arguments=_raw_text(raw_message, "arguments"),
        )
    elif kind == RESULT:
        yield TurnItem(
            type=RESULT,
            call_id=_raw_text(raw_message, "call_id"),
            output=_output_text(raw_message.get("output"), body_of),
        )
    elif role == "tool":
        yield TurnItem(
            type=RESULT,
            call_id=_raw_text(raw_message, "tool_call_id"),
            output=_output_text(raw_message.get("content"), body_of),
        )
    elif kind != MESSAGE or not isinstance(role, str):
        yield TurnItem(type=OTHER if kind == MESSAGE else _sound_text(str(kind)), body=body_of(raw_message))
    else:
        calls = list_mappings(raw_message.get("tool_calls"))
        content = tuple(_content_parts(raw_message.get("content"), role, body_of))
        # A message with only calls has no words, but an empty message is preserved.
        if content or not calls:
            yield TurnItem(role=_sound_text(role), content=content)
        for call in calls:
            function = next(iter(list_mappings([call.get("function")])), call)
            arguments, name = _raw_text(function, "arguments"), _raw_text(function, "name")
            yield TurnItem(type=CALL, name=name, call_id=_raw_text(call, "id"), arguments=arguments)


def anthropic_items(raw_message: Mapping[str, Any], /, *, body_of: BodyText = json_text) -> Iterator[TurnItem]:
    """Yield the items of an Anthropic message: its tool results, its words, then its calls."""
    role, content = _raw_text(raw_message, "role"), raw_message.get("content")
    blocks = list_mappings(content)
    results = [block for block in blocks if block.get("type") == "tool_result"]
    calls = [block for block in blocks if _raw_text(block, "type").endswith("tool_use")]
    for block in results:
        output = _output_text(block.get("content"), body_of)
        yield TurnItem(type=RESULT, call_id=_raw_text(block, "tool_use_id"), output=output)
    parts = tuple(part for part in _content_parts(content, role, body_of) if not part.type.endswith(_TOOL_BLOCKS))
    if parts or not (results or calls):
        yield TurnItem(role=role, content=parts)
    for block in calls:
        arguments = body_of(block.get("input"))
        yield TurnItem(type=CALL, name=_raw_text(block, "name"), call_id=_raw_text(block, "id"), arguments=arguments)


def list_mappings(value: object, /) -> list[Json]:
    """Return the mappings of a list; other values contain nothing that is read here."""
    listed_values = cast("list[Any]", value) if isinstance(value, list) else []
    return [dict(cast("Mapping[str, Any]", one)) for one in listed_values if isinstance(one, Mapping)]


def _sound_text(text: str) -> str:
    """Return `text` as valid UTF-8: a split surrogate pair becomes a question mark."""
    return text.encode("utf-8", "replace").decode()


def _raw_text(raw_message: Mapping[str, Any], name: str) -> str:
    return _value_word(raw_message.get(name))


def _value_word(value: object) -> str:
    return _sound_text(value) if isinstance(value, str) else "" if value is None else json_text(value)


def _output_text(content: object, body_of: BodyText) -> str:
    if isinstance(content, list):
        return "\n".join(part.text or part.body for part in _content_parts(cast("object", content), "tool", body_of))
    return _value_word(content)


def _content_parts(content: object, role: str, body_of: BodyText) -> Iterator[ItemPart]:
    kind = "output_text" if role == "assistant" else "input_text"
    if isinstance(content, str):
        yield ItemPart(type=kind, text=_sound_text(content))
    for part in cast("list[Any]", content) if isinstance(content, list) else ():
        if isinstance(part, str):
            yield ItemPart(type=kind, text=_sound_text(part))
        elif isinstance(part, Mapping):
            yield _content_part(dict(cast("Mapping[str, Any]", part)), kind, body_of)


def _content_part(part: Json, text_type: str, body_of: BodyText) -> ItemPart:
    kind = _raw_text(part, "type")
    if kind in TEXTS and isinstance(part.get("text"), str):
        return ItemPart(type=text_type, text=_raw_text(part, "text"))
    if kind in IMAGES:
        url: Any = part.get("image_url")
        image_fields: Json = cast("Json", url) if isinstance(url, dict) else {"url": url, "detail": part.get("detail")}
        return ItemPart(
            type="input_image",
            image_url=_raw_text(image_fields, "url"),
            detail=_raw_text(image_fields, "detail"),
            file_id=_raw_text(part, "file_id"),
        )
    file = next(iter(list_mappings([part.get("file")])), part)
    # The bytes of a file have no field here, so such a part is stored as JSON.
    if kind in {"input_file", "file"} and not file.get("file_data"):
        return ItemPart(type="input_file", file_id=_raw_text(file, "file_id"), filename=_raw_text(file, "filename"))
    return ItemPart(type=kind, body=body_of(part))


def responses_of(items: Iterable[TurnItem], /) -> list[Json]:
    """Return the items as input items of the Responses API."""
    return [_response_item(item) for item in items]


def chat_of(items: Iterable[TurnItem], /) -> list[Json]:
    """Return the items as messages of chat completions; what they cannot express, such as reasoning, is left out."""
    messages: list[Json] = []
    for item in items:
        match item.type:
            case "message":
                messages.append({"role": item.role, "content": _chat_content(item)})
            case "function_call":
                # Calls belong to the preceding assistant message, or to one created for them.
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
    fields = part.model_dump(exclude_defaults=True)
    return fields | ({"text": part.text} if part.type in TEXTS else {})


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
