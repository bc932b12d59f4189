"""Plain values of everyday calls, turned into typed requests: messages, facts, times, mem0's ids."""

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from enum import StrEnum
from functools import lru_cache
from math import isfinite
from os import PathLike
from typing import Any, Protocol, TypeVar, cast

from pydantic import ValidationError

from elytron.api.metadata_filters import filters_from, user_from
from elytron.importers import message_shape
from elytron_core import limits
from elytron_core.clock import Instant, instant
from elytron_core.contracts.facts import FactDraft
from elytron_core.contracts.recall import RecallFilters
from elytron_core.contracts.transcript import MemoryWriteRequest, TranscriptWrite, TurnDraft
from elytron_core.errors import InvalidInput, ScopeMissing, StoreUrlInvalid
from elytron_core.evidence import EvidenceRole
from elytron_core.ids import require_name
from elytron_core.model import VouchedMaker, invalid_input
from elytron_core.planes.facts import FactAuthority, FactKind
from elytron_core.planes.transcript import Message
from elytron_core.ports.store import KeyProvider, Store
from elytron_core.scope import Scope
from elytron_core.text import similarity

WordT = TypeVar("WordT", bound=StrEnum)


def word_member(kind: type[WordT], value: WordT, /, *, field: str) -> WordT:
    """Return the member of `kind` that `value` is, or names as a plain text. Raises InvalidInput."""
    try:
        return kind(value)
    except ValueError:
        raise InvalidInput(field=field, problem=f"is none of {', '.join(kind)}") from None


def require_store(
    store: str | PathLike[str] | Store,
    /,
    *,
    keys: KeyProvider | None,
    index_bytes: int,
) -> None:
    """Raise StoreUrlInvalid for what is no store, and InvalidInput for names in the place of things."""
    if not isinstance(store, str | PathLike) and not hasattr(store, "commit"):
        raise StoreUrlInvalid(problem="is neither a text, nor a path, nor a Store")
    if isinstance(keys, str | PathLike):
        raise InvalidInput(field="keys", problem="is a name: give elytron_store.sealed.providers.FileKeys of it")
    if index_bytes < 0:
        raise InvalidInput(field="index_bytes", problem="is negative")


def path_list(given: Sequence[str | PathLike[str]] | str | PathLike[str], /) -> Sequence[str | PathLike[str]]:
    """Return the paths; a single path is one, and not one per letter."""
    return (given,) if isinstance(given, str | PathLike) else given


def text_list(given: Sequence[str], /, *, field: str) -> tuple[str, ...]:
    """Return the texts of a list. Raises InvalidInput for a single text, which would be read letter by letter."""
    if isinstance(given, str):
        raise InvalidInput(field=field, problem="is a text: give a list of them")
    return tuple(given)


def id_list(given: object, /) -> tuple[str, ...]:
    """Return the ids of memories; a single id is one. Raises InvalidInput for other values."""
    if isinstance(given, str):
        return (given,)
    if not isinstance(given, Iterable):
        raise InvalidInput(field="ids", problem="are neither a memory's id nor a list of them")
    return tuple(cast("Iterable[str]", given))


class SaidByModel(Protocol):
    """A message as a model's library gives it: its `role` (or `type`) is looked for when it comes."""

    @property
    def content(self) -> object: ...


Said = str | Mapping[str, Any] | Message | SaidByModel
"""A text, one message {role, content, name?, timestamp?}, a Message, or one as a model's library gives it."""
Messages = Said | Sequence[Said]
_Plain = str | Mapping[str, Any] | Message
When = datetime | float | str
"""A datetime, ISO 8601 text, or a number: epoch seconds below 100,000,000,000, else milliseconds."""

_FIELDS = frozenset({"role", "content", "name", "timestamp"})
_BESIDE = frozenset(
    {"annotations", "audio", "function_call", "id", "refusal", "status", "tool_call_id", "tool_calls", "type"}
)
"""Fields of model APIs beside a message's words: they are not words and are left out."""
_NO_FILTERS = RecallFilters()
_SCOPES_KEPT = 256
# Their parts were checked before.
_DRAFTS = VouchedMaker(TurnDraft, "messages", "metadata")
_TRANSCRIPTS = VouchedMaker(TranscriptWrite, "turns")
_WRITES = VouchedMaker(MemoryWriteRequest, "scope", "write")


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

    `speaker` names who said what is the user's, or the only message; `at` is when, where a message does not say so.
    Raises InvalidInput where a message is not one, there are too many, or none holds a word.
    """
    listed = _each_message(messages)
    only = len(listed) == 1
    said_at = given_instant(at, field="at") if at is not None else None
    labels, fields = text_list(tags, field="tags"), _metadata_fields(metadata)
    try:
        turns = tuple(
            _message_draft(message, labels, fields)
            for number, item in enumerate(listed)
            if not similarity.is_blank((message := _numbered_message(number, item, speaker, said_at, only=only)).text)
        )
        if not turns:
            raise InvalidInput(field="messages", problem="hold no words: give a text or at least one message with some")
        if len(turns) > limits.TURNS_PER_COMMIT:
            problem = f"are more than {limits.TURNS_PER_COMMIT} at once: add them in parts, or import a file of them"
            raise InvalidInput(field="messages", problem=problem)
        return _TRANSCRIPTS.make(turns=turns)
    except ValidationError as error:
        raise invalid_input(error) from None


def write_of(write: TranscriptWrite, /, *, scope: Scope | None, idempotency_key: str | None) -> MemoryWriteRequest:
    """Return the request to store what `transcript_of` made. Raises InvalidInput for a key that is none."""
    if idempotency_key is None and isinstance(scope, Scope):
        return _WRITES.make(scope=scope, write=write)
    return MemoryWriteRequest(scope=scope, write=write, idempotency_key=idempotency_key)


def fact_of(
    topic: str,
    content: str,
    /,
    *,
    kind: FactKind,
    authority: FactAuthority,
    at: When | None,
    citations: tuple[str, ...],
) -> FactDraft:
    """Return the draft of a fact. Raises InvalidInput where a part of it is none."""
    seen = given_instant(at, field="at") if at is not None else None
    try:
        return FactDraft(
            topic=topic, content=content, fact_kind=kind, authority=authority, citations=citations, observed_at=seen
        )
    except ValidationError as error:
        raise invalid_input(error) from None


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


NO_USER = "agents, runs and conversations lie in a user's space: give user_id= too, or open the runtime with space="


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
    if None not in {run_id, conversation} and run_id != conversation:
        raise InvalidInput(field="run_id", problem="is another conversation than conversation names")
    named = {"space": user_id, "agent": agent_id, "conversation": run_id if run_id is not None else conversation}
    fields = dict(default or ()) | {name: value for name, value in named.items() if value is not None}
    if "space" not in fields:
        raise ScopeMissing(operation="agent, run or conversation", way_out=NO_USER)
    try:
        return _parts_scope(**fields)
    except ValidationError as error:
        raise invalid_input(error) from None


def _parts_scope(**fields: str | None) -> Scope:
    """Return the scope of these parts; calls mostly name what was named before."""
    try:
        return _known_scope(**fields)
    except TypeError:  # what cannot be looked up is no text
        return Scope.model_validate(fields)


@lru_cache(maxsize=_SCOPES_KEPT)
def _known_scope(**fields: str | None) -> Scope:
    return Scope.model_validate(fields)


def _message_draft(message: Message, tags: tuple[str, ...], metadata: dict[str, Any]) -> TurnDraft:
    if tags or metadata:
        return TurnDraft(messages=(message,), tags=tags, metadata=metadata)
    return _DRAFTS.make(messages=(message,), metadata={})


def _metadata_fields(metadata: object) -> dict[str, Any]:
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


def _each_message(messages: object) -> list[_Plain]:
    """Return the messages one by one. Raises InvalidInput for what is none."""
    # A model library's object may also be a list of its own fields: its `content` decides.
    is_one = isinstance(messages, str | Mapping | Message) or hasattr(messages, "content")
    if is_one or not isinstance(messages, Iterable):
        return [_plain_message(cast("object", messages))]
    return [_plain_message(item) for item in cast("Iterable[object]", messages)]


def _plain_message(item: object) -> _Plain:
    """Return a message object of a model's library as a mapping, and any other value unchanged."""
    if isinstance(item, str | Mapping | Message):
        return cast("_Plain", item)
    role = getattr(item, "role", None) or getattr(item, "type", None)
    if not isinstance(role, str) or not hasattr(item, "content"):
        raise InvalidInput(field="messages", problem="are neither a text, nor a message, nor a list of them")
    return {"role": role, "content": getattr(item, "content", None), "name": getattr(item, "name", None)}


def _numbered_message(number: int, item: _Plain, speaker: str | None, at: Instant | None, *, only: bool) -> Message:
    if isinstance(item, str):
        return Message(text=item, speaker=speaker, at=at)
    if isinstance(item, Message):
        named = item.speaker or (speaker if only or item.role is EvidenceRole.USER else None)
        said_at = item.at if item.at is not None else at
        return Message(role=item.role, text=item.text, speaker=named, at=said_at, authority=item.authority)
    has_words = "content" in item or "tool_calls" in item or "function_call" in item
    if item.keys() - _FIELDS - _BESIDE or not has_words:
        wanted = "takes role, content, name and timestamp, and needs content"
        raise InvalidInput(field=f"messages.{number}", problem=wanted)
    said_at = given_instant(item["timestamp"], field=f"messages.{number}.timestamp") if item.get("timestamp") else at
    role = message_shape.named_role(item.get("role", EvidenceRole.USER), what=f"messages.{number}.role")
    named = item.get("name") or (speaker if only or role is EvidenceRole.USER else None)
    text = _content_words(item.get("content"), field=f"messages.{number}.content")
    return Message(role=role, text=text, speaker=named, at=said_at)


def given_instant(given: When, *, field: str) -> Instant:
    """Return the instant; a number is seconds or milliseconds by its size, as in the transcripts that are imported.

    Raises InvalidInput for a negative number, which is mostly a mistake.
    """
    if isinstance(given, int | float) and not isinstance(given, bool):
        if given < 0:
            raise InvalidInput(field=field, problem="is negative: write a time before 1970 as ISO 8601 text")
        given = given * 1000 if given < message_shape.SECONDS_BELOW else given
    return instant(given, field=field)


def _content_words(content: object, *, field: str) -> str:
    """Return the words of a message's content: a text, or the text parts of a list; None has none."""
    if isinstance(content, str):
        return content
    if isinstance(content, list | tuple):
        parts = cast("Sequence[object]", content)
        return "\n".join(text for text in map(_part_text, parts) if text)
    if content is None:
        return ""
    raise InvalidInput(field=field, problem="is neither a text nor a list of content parts")


def _part_text(part: object) -> str:
    if isinstance(part, str):
        return part
    is_mapping = isinstance(part, Mapping)
    text = cast("Mapping[str, object]", part).get("text") if is_mapping else getattr(part, "text", None)
    return text if isinstance(text, str) else ""
