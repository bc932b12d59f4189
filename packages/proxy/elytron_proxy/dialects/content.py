"""Content of messages: a text or a list of parts, read as text and given one part more."""

from base64 import b64decode, b64encode
from collections.abc import Iterable, Mapping
from typing import Final, cast

from elytron_models.fields import Fields, fields, inner, json_text, objects, text
from elytron_proxy.dialects.prompt import TAG, OfferedTool
from elytron_proxy.settings import Placement

Body = dict[str, object]
BETWEEN: Final = "\n\n"
_TEXTS: Final = frozenset({"text", "input_text", "output_text"})


def fenced(block: str, /) -> str:
    """Return the block in its tag, whose version defines its contents."""
    return f'<{TAG} version="1">\n{block.strip()}\n</{TAG}>'


def shelved(block: str, /) -> str:
    """Return a block in base64, so that it is stored: as it is, it would be taken for an echo and left out."""
    return b64encode(block.encode("utf-8", "replace")).decode()


def unshelved(kept: str, /) -> str:
    """Return the block that was stored as `kept`; empty if it is damaged."""
    try:
        return b64decode(kept, validate=True).decode("utf-8", "replace")
    except ValueError:
        return ""


def said_in(content: object, /) -> str:
    """Return the text of a message's content; images and files have none."""
    if isinstance(content, str):
        return text({"content": content}, "content")
    if not isinstance(content, list):
        return ""
    parts = [fields(part) for part in cast("list[object]", content)]
    return BETWEEN.join(text(part, "text") for part in parts if text(part, "type") in _TEXTS and text(part, "text"))


def with_part(content: object, block: str, /, *, kind: str, placement: Placement) -> object:
    """Return `content` with the block behind it, or before it; a text stays a text."""
    is_before = placement is Placement.BEFORE
    if isinstance(content, str):
        return f"{block}{BETWEEN}{content}" if is_before else f"{content}{BETWEEN}{block}"
    parts = cast("list[object]", content) if isinstance(content, list) else []
    part: object = {"type": kind, "text": block}
    return [part, *parts] if is_before else [*parts, part]


def with_message(messages: list[object], at: int, block: str, /, *, kind: str, placement: Placement) -> list[object]:
    """Return `messages` with the block in the one at `at`."""
    message = dict(fields(messages[at]))
    message["content"] = with_part(message.get("content"), block, kind=kind, placement=placement)
    return [*messages[:at], message, *messages[at + 1 :]]


def before_history(messages: list[object], block: str, /, *, kind: str, roles: Iterable[str]) -> list[object]:
    """Return `messages` with the block before all but the policy: in the first user message there.

    Templates of many models refuse two user messages in a row, so it becomes a separate one only before an answer.
    """
    policies = frozenset(roles)
    at = next((place for place, one in enumerate(messages) if text(fields(one), "role") not in policies), len(messages))
    if at < len(messages) and text(fields(messages[at]), "role") == "user":
        return with_message(messages, at, block, kind=kind, placement=Placement.BEFORE)
    return [*messages[:at], {"role": "user", "content": block}, *messages[at:]]


def in_system(messages: list[object], block: str, /, *, roles: Iterable[str]) -> list[object]:
    """Return `messages` with the block at the end of the first system message that is a text, else first of all."""
    policies = frozenset(roles)
    for place, one in enumerate(messages):
        message = fields(one)
        content = message.get("content")
        if text(message, "role") in policies and isinstance(content, str):
            changed = {**message, "content": f"{content}{BETWEEN}{block}"}
            return [*messages[:place], changed, *messages[place + 1 :]]
    return [{"role": "system", "content": block}, *messages]


def items_of(body: Mapping[str, object], name: str, /) -> list[object]:
    """Return the list at `name`, else an empty one."""
    found = body.get(name)
    return list(cast("list[object]", found)) if isinstance(found, list) else []


def offered(tools: Iterable[Fields], schema: str = "parameters", /) -> tuple[OfferedTool, ...]:
    """Return the tools that have a name, each with the schema in that field."""
    return tuple(OfferedTool(name, json_text(tool.get(schema))) for tool in tools if (name := text(tool, "name")))


def functions_of(body: Fields, /) -> tuple[OfferedTool, ...]:
    """Return the tools that chat completions and Ollama write as functions."""
    return offered(inner(tool, "function") for tool in objects(body, "tools"))


def events(*told: Fields) -> bytes:
    """Return unnamed server-sent events."""
    return b"".join(f"data: {json_text(event)}\n\n".encode("utf-8", "replace") for event in told)


def named_event(event: Fields, /) -> bytes:
    """Return a server-sent event that is named as its data is."""
    return f"event: {text(event, 'type')}\ndata: {json_text(event)}\n\n".encode("utf-8", "replace")
