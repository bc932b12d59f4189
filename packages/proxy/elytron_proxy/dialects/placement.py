"""Placement of the block in a request: in its tag, in a message, in the system text, or before the history."""

from collections.abc import Iterable
from typing import cast

from elytron_models.fields import fields, text
from elytron_proxy.dialects.content import BETWEEN
from elytron_proxy.dialects.prompt import TAG
from elytron_proxy.settings import Placement


def fenced(block: str, /) -> str:
    """Return the block in its tag, whose version defines its contents."""
    return f'<{TAG} version="1">\n{block.strip()}\n</{TAG}>'


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
