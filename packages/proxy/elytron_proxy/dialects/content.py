"""Content of requests and responses: texts, parts, lists, tools and events as the APIs write them."""

from base64 import b64decode, b64encode
from collections.abc import Iterable, Mapping
from typing import Final, cast

from elytron_models.fields import Fields, fields, inner, json_text, objects, text
from elytron_proxy.dialects.prompt import OfferedTool

Body = dict[str, object]
BETWEEN: Final = "\n\n"
_TEXTS: Final = frozenset({"text", "input_text", "output_text"})


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
