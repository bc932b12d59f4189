"""Plain values of everyday calls, turned into typed requests: messages, times, mem0's ids."""

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from math import isfinite
from typing import Any, cast

from pydantic import ValidationError

from elytron.conditions import filters_from, user_from
from elytron.given import texts
from elytron.transcripts import shape
from elytron_core import limits
from elytron_core.clock import Instant, instant
from elytron_core.contracts.recalling import RecallFilters
from elytron_core.contracts.writing import TranscriptWrite, TurnDraft
from elytron_core.errors import InvalidInput, ScopeMissing
from elytron_core.model import invalid
from elytron_core.planes.transcript import Message, Role
from elytron_core.scope import Scope
from elytron_core.text.names import require_name

Messages = str | Mapping[str, Any] | Sequence[str | Mapping[str, Any]]
"""A text, one message {role, content, name?, timestamp?}, or a list of either."""
When = datetime | int | str
"""A datetime, epoch milliseconds, or ISO 8601 text."""

_FIELDS = frozenset({"role", "content", "name", "timestamp"})
_BESIDE = frozenset(
    {"annotations", "audio", "function_call", "id", "refusal", "status", "tool_call_id", "tool_calls", "type"}
)
"""What model APIs put beside a message's words: none of it was said, and it is left out."""
_NO_FILTERS = RecallFilters()


def transcript_of(
    messages: Messages,
    /,
    *,
    speaker: str | None = None,
    at: When | None = None,
    tags: Sequence[str] = (),
    metadata: Mapping[str, Any] | None = None,
) -> TranscriptWrite:
    """Return a write of one turn per message; those without words, such as calls of tools, are left out.

    Raises InvalidInput where a message is not one, there are too many, or none holds a word.
    """
    listed = _each(messages)
    moment = instant(at, field="at") if at is not None else None
    labels, fields = texts(tags, field="tags"), _fields(metadata)
    try:
        turns = tuple(
            TurnDraft(messages=(message,), tags=labels, metadata=fields)
            for number, item in enumerate(listed)
            if (message := _message(number, item, speaker, moment)).text.strip()
        )
        if not turns:
            raise InvalidInput(field="messages", problem="hold no words: give a text or at least one message with some")
        return TranscriptWrite(turns=turns)
    except ValidationError as error:
        raise invalid(error) from None


def narrowed_by(
    filters: RecallFilters | Mapping[str, Any] | None,
    /,
    *,
    user_id: str | None = None,
    agent_id: str | None = None,
    run_id: str | None = None,
) -> tuple[str | None, RecallFilters]:
    """Return whose memory is asked for, and `filters`, typed or nested, narrowed to mem0's agent and run.

    Nested filters may name the user, as mem0's do. Raises InvalidInput, LimitExceeded.
    """
    if isinstance(filters, Mapping):
        named, rest = user_from(filters)
        if None not in {named, user_id} and named != user_id:
            raise InvalidInput(field="filters.user_id", problem="is another user than user_id names")
        user_id = user_id if user_id is not None else named
        narrowed = filters_from(rest)
    else:
        narrowed = filters or _NO_FILTERS
    if agent_id is not None:
        narrowed = narrowed.model_copy(update={"agents": (agent_id,)})
    if run_id is not None:
        narrowed = narrowed.model_copy(update={"conversations": (run_id,)})
    return user_id, narrowed


def scope_of(
    default: Scope | None,
    /,
    *,
    user_id: str | None = None,
    agent_id: str | None = None,
    run_id: str | None = None,
    conversation: str | None = None,
) -> Scope | None:
    """Return `default` with mem0's ids laid over it: user = space, agent = agent, run = conversation."""
    if user_id is None and agent_id is None and run_id is None and conversation is None:
        return default
    named = {"space": user_id, "agent": agent_id, "conversation": run_id if run_id is not None else conversation}
    given = {name: value for name, value in named.items() if value is not None}
    base = default.model_dump() if default is not None else {}
    if "space" not in base | given:
        raise ScopeMissing(operation="this call", way_out="give user_id=, or open the runtime with space=")
    try:
        return Scope.model_validate(base | given)
    except ValidationError as error:
        raise invalid(error) from None


def _fields(metadata: object) -> dict[str, Any]:
    if metadata is not None and not isinstance(metadata, Mapping):
        raise InvalidInput(field="metadata", problem="is no mapping of names to values")
    fields = dict(cast("Mapping[str, Any]", metadata or {}))
    for name, value in fields.items():
        if not isinstance(cast("object", name), str):
            raise InvalidInput(field="a name in metadata", problem="is no text")
        require_name(name, field="a name in metadata", limit=limits.NAME_CHARS)
        if value is not None and not isinstance(value, str | int | float):
            raise InvalidInput(field=f"metadata.{name}", problem="is neither a text, nor a number, true, false or None")
        if isinstance(value, float) and not isfinite(value):
            raise InvalidInput(field=f"metadata.{name}", problem="is no finite number")
    return fields


def _each(messages: object) -> list[str | Mapping[str, Any]]:
    """Return the messages one by one. Raises InvalidInput for what is none."""
    if isinstance(messages, Iterable) and not isinstance(messages, str | Mapping):
        listed = list(cast("Iterable[object]", messages))
    else:
        listed = [cast("object", messages)]
    if not all(isinstance(item, str | Mapping) for item in listed):
        raise InvalidInput(field="messages", problem="are neither a text, nor a message, nor a list of them")
    return cast("list[str | Mapping[str, Any]]", listed)


def _message(number: int, item: str | Mapping[str, Any], speaker: str | None, at: Instant | None) -> Message:
    if isinstance(item, str):
        return Message(text=item, speaker=speaker, at=at)
    has_words = "content" in item or "tool_calls" in item or "function_call" in item
    if item.keys() - _FIELDS - _BESIDE or not has_words:
        wanted = "takes role, content, name and timestamp, and needs content"
        raise InvalidInput(field=f"messages.{number}", problem=wanted)
    said_at = instant(item["timestamp"], field=f"messages.{number}.timestamp") if item.get("timestamp") else at
    return Message(
        role=shape.role(item.get("role", Role.USER), what=f"messages.{number}.role"),
        text=_words(item.get("content"), field=f"messages.{number}.content"),
        speaker=item.get("name") or speaker,
        at=said_at,
    )


def _words(content: object, *, field: str) -> str:
    """Return the words of a message's content: a text, or the text parts of a list of whatever else; None has none."""
    if isinstance(content, str):
        return content
    if isinstance(content, list | tuple):
        parts = cast("Sequence[object]", content)
        return "\n".join(text for text in map(_part, parts) if text)
    if content is None:
        return ""
    raise InvalidInput(field=field, problem="is neither a text nor a list of content parts")


def _part(part: object) -> str:
    if isinstance(part, str):
        return part
    if isinstance(part, Mapping):
        text = cast("Mapping[str, object]", part).get("text")
        return text if isinstance(text, str) else ""
    return ""
