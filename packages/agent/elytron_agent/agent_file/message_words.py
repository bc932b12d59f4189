"""The words of a message of an agent file: what a person or the agent said in it, or what a tool gave back."""

import json
from typing import Any, Final, cast

from elytron_agent.agent_file.document import Json
from elytron_core.clock import Instant, instant
from elytron_core.errors import InvalidInput
from elytron_core.planes.roles import Role

_ROLES: Final = {"user": Role.USER, "assistant": Role.ASSISTANT, "tool": Role.TOOL, "function": Role.TOOL}
_SAID_BY_TOOL: Final = "send_message"
"""With this tool the agents of the first kind speak."""


def role_of(message: Json, /) -> Role | None:
    """Return in which role a message was given; None for what is no part of the talk, such as an instruction."""
    return _ROLES.get(str(message.get("role")))


def words_of(message: Json, /) -> str:
    """Return the words of a message, without thoughts and calls; "" if it has none."""
    text = _text(message.get("content"))
    if role_of(message) is Role.USER:
        return _unpacked(text, "user_message")
    if not text.strip() and role_of(message) is Role.ASSISTANT:
        return "\n".join(filter(None, map(_spoken, _list(message.get("tool_calls")))))
    return text


def moment_of(message: Json, /) -> Instant | None:
    """Return when a message was said, None if it says no time."""
    given = message.get("created_at")
    if not isinstance(given, str):
        return None
    try:
        return instant(given, field="created_at")
    except InvalidInput:
        return None


def _text(content: Any) -> str:
    if isinstance(content, str):
        return content
    parts = [cast("Json", part) for part in _list(content) if isinstance(part, dict)]
    texts = [part.get("text") for part in parts if part.get("type") == "text"]
    return "\n".join(text for text in texts if isinstance(text, str) and text.strip())


def _unpacked(text: str, kind: str) -> str:
    """Return the message in a text that packs one with its time; "" for a packed event, which is no one's words."""
    if not text.lstrip().startswith("{"):
        return text
    try:
        packed = json.loads(text)
    except ValueError:
        return text
    if not isinstance(packed, dict) or not {"type", "time"} <= cast("Json", packed).keys():
        return text
    said = cast("Json", packed)
    message = said.get("message")
    return message if said.get("type") == kind and isinstance(message, str) else ""


def _spoken(call: Any) -> str:
    function = cast("Json", call).get("function") if isinstance(call, dict) else None
    if not isinstance(function, dict) or cast("Json", function).get("name") != _SAID_BY_TOOL:
        return ""
    try:
        given = json.loads(str(cast("Json", function).get("arguments")))
    except ValueError:
        return ""
    said = cast("Json", given).get("message") if isinstance(given, dict) else None
    return said if isinstance(said, str) else ""


def _list(part: Any) -> list[Any]:
    return cast("list[Any]", part) if isinstance(part, list) else []
