"""Calls of a memory: each takes a typed request or plain values, never both. Plain values become typed requests.

The request is performed, locally or remotely, and its report is returned. Plain values are messages, facts, times, and
mem0's ids.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Coroutine, Iterable, Mapping, Sequence
from datetime import datetime
from enum import StrEnum
from functools import wraps
from inspect import iscoroutinefunction
from itertools import zip_longest
from math import isfinite
from os import PathLike
from typing import (
    TYPE_CHECKING,
    Any,
    Concatenate,
    Generic,
    NoReturn,
    ParamSpec,
    Protocol,
    Self,
    TypeVar,
    cast,
    get_args,
    overload,
)

from pydantic import ValidationError

from elytron.api.metadata_filters import filters_from, user_from
from elytron.importers import message_shape
from elytron_core import limits
from elytron_core.clock import Instant, instant
from elytron_core.contracts.facts import FactDraft
from elytron_core.contracts.recall import RecallFilters
from elytron_core.contracts.transcript import MemoryWriteRequest, TranscriptWrite, TurnDraft
from elytron_core.errors import InvalidInput, ScopeMissing, StoreUrlInvalid
from elytron_core.errors.foreign_names import call_instead, require_keywords
from elytron_core.evidence import EvidenceRole
from elytron_core.ids import require_name
from elytron_core.lru_cache import remember_answers
from elytron_core.model import OperationRequest, Request, Value, VouchedMaker, invalid_input
from elytron_core.planes.facts import FactAuthority, FactKind
from elytron_core.planes.transcript import Message
from elytron_core.ports.store import KeyProvider, Store
from elytron_core.scope import Scope
from elytron_core.text import similarity

P = ParamSpec("P")
ReportT = TypeVar("ReportT", bound=Value)
RequestT = TypeVar("RequestT", bound=OperationRequest[Any])
AnyRequestT = TypeVar("AnyRequestT", bound=Request)
ResultT = TypeVar("ResultT")
Async = Coroutine[Any, Any, ReportT]

NOT_CARRIED = "a memory cannot be copied or pickled: open it in the process that uses it"
REQUEST_ATTRIBUTE = "request_type"
"""Attribute of a checked call: the request that it accepts instead of plain values, or None."""


class BoundCall(Generic[RequestT, P, ResultT]):
    """A call of a memory: it takes either a request or plain values."""

    @overload
    def __call__(self, request: RequestT, /) -> ResultT: ...

    @overload
    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> ResultT: ...

    def __call__(self, *args: Any, **kwargs: Any) -> Any: ...


class FaceCall(Generic[RequestT, P, ResultT]):
    """A call as a face declares it."""

    @overload
    def __get__(self, face: None, owner: type[object], /) -> Self: ...

    @overload
    def __get__(self, face: object, owner: type[object], /) -> BoundCall[RequestT, P, ResultT]: ...

    def __get__(self, face: object, owner: type[object], /) -> object: ...


def takes_request(
    request: type[RequestT], /
) -> Callable[[Callable[Concatenate[Any, P], Async[ReportT]]], FaceCall[RequestT, P, Async[ReportT]]]:
    """Let a method that takes plain values accept `request` instead, and return that request's report."""

    def decorate(method: Callable[Concatenate[Any, P], Async[ReportT]]) -> FaceCall[RequestT, P, Async[ReportT]]:
        arguments = _CallArguments(method)

        @wraps(method)
        async def call(face: Any, /, *args: P.args, **kwargs: P.kwargs) -> ReportT:
            call_request = arguments.request_of(args, kwargs, request)
            if call_request is None:
                return await method(face, *args, **kwargs)
            return await face.operate(call_request)

        setattr(call, REQUEST_ATTRIBUTE, request)
        return cast("FaceCall[RequestT, P, Async[ReportT]]", call)

    return decorate


def _guard_request(method: Callable[..., Async[Any]]) -> Callable[..., Async[Any]]:
    """Return a method with checked arguments that accepts no request."""
    arguments = _CallArguments(method)
    first_annotation = next(iter(method.__annotations__.values()), None)
    request_types = [
        each
        for each in (first_annotation, *get_args(first_annotation))
        if isinstance(each, type) and issubclass(each, Request)
    ]
    request_type = request_types[0] if request_types else None

    @wraps(method)
    async def call(face: object, /, *args: object, **kwargs: object) -> object:
        arguments.request_of(args, kwargs, request_type)
        return await method(face, *args, **kwargs)

    setattr(call, REQUEST_ATTRIBUTE, None)
    return call


class _CallArguments:
    """The parameters of one call, and the checks of its arguments before it is made."""

    def __init__(self, method: Callable[..., Any]) -> None:
        # Without the name of its class, which means nothing to the caller: Python shows it in errors.
        method.__qualname__ = self._name = method.__name__
        method_code = method.__code__
        parameter_count = method_code.co_argcount + method_code.co_kwonlyargcount
        self._names = method_code.co_varnames[1 : method_code.co_argcount]
        self._keywords = frozenset(method_code.co_varnames[method_code.co_posonlyargcount : parameter_count]) - {"self"}

    def request_of(
        self, args: Sequence[object], kwargs: Mapping[str, object], kind: type[AnyRequestT] | None
    ) -> AnyRequestT | None:
        """Return the request among the arguments; None if there is none.

        Raises InvalidInput for a request with anything beside it, and for one that is not of `kind`, TypeError for a
        keyword that the call does not have.
        """
        request = next((value for value in (*args, *kwargs.values()) if isinstance(value, Request)), None)
        if request is None:
            if not kwargs.keys() <= self._keywords:
                require_keywords(self._name, kwargs, self._keywords)
            return None
        type_name = type(request).__name__
        arguments = [*zip_longest(self._names[: len(args)], args, fillvalue="values"), *kwargs.items()]
        if other_arguments := [str(name) for name, value in arguments if value is not request]:
            problem = f"cannot be combined with a {type_name}: pass either a request or plain values"
            raise InvalidInput(field=", ".join(other_arguments), problem=problem)
        if kind is None or not isinstance(request, kind):
            expected_form = f"a {kind.__name__}" if kind is not None else "plain values"
            raise InvalidInput(field="the request", problem=f"is a {type_name}, but {self._name} takes {expected_form}")
        return request


def no_call(memory: object, name: str, /) -> AttributeError:
    """Return the error for a call that `memory` does not have, suggesting the intended one."""
    public_names = [each for each in dir(type(memory)) if not each.startswith("_")]
    suggestion = "" if name.startswith("_") else call_instead(name, public_names)
    return AttributeError(f"a memory has no attribute {name!r}{suggestion}", name=name, obj=memory)


class CallFace(ABC):
    """Calls of one family. Each builds a typed request and passes it to `operate`; none does work of its own."""

    def __init_subclass__(cls, **options: Any) -> None:
        """Check the arguments of each public call before it is made, so that no face can forget to."""
        super().__init_subclass__(**options)
        for name, attribute in list(vars(cls).items()):
            is_call = iscoroutinefunction(attribute) and not name.startswith("_") and name != "operate"
            if is_call and not hasattr(attribute, REQUEST_ATTRIBUTE):
                setattr(cls, name, _guard_request(attribute))

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> NoReturn:
            raise no_call(self, name)

    @property
    @abstractmethod
    def scope(self) -> Scope | None:
        """Return the default scope of calls."""

    @abstractmethod
    async def operate(self, request: OperationRequest[ReportT], /) -> ReportT:
        """Perform the operation that takes `request` and return its report. Raises Unsupported.

        >>> report = memory.operate(elytron.MemoryRecallRequest(query="boat key"))
        >>> report.hits[0].text
        'The boat key is under the oar.'
        """

    def __reduce__(self) -> NoReturn:
        raise TypeError(NOT_CARRIED)


class BlockingCalls(ABC):
    """Blocking calls of a face: the same names per family, made from the same methods."""

    runtime: Any
    """The face whose calls these are."""

    @abstractmethod
    def run(self, call: Coroutine[Any, Any, ResultT], /) -> ResultT:
        """Run `call` where the face lives and return its result."""


@overload
def blocking_call(method: FaceCall[RequestT, P, Coroutine[Any, Any, ResultT]]) -> FaceCall[RequestT, P, ResultT]: ...


@overload
def blocking_call(
    method: Callable[Concatenate[Any, P], Coroutine[Any, Any, ResultT]],
) -> Callable[Concatenate[Any, P], ResultT]: ...


def blocking_call(method: Any) -> Any:
    """Return `method` as a blocking call."""

    @wraps(method)
    def call(self: BlockingCalls, /, *args: Any, **kwargs: Any) -> Any:
        # Looked up by name: a face may override it.
        return self.run(getattr(self.runtime, method.__name__)(*args, **kwargs))

    return call


WordT = TypeVar("WordT", bound=StrEnum)


def word_member(kind: type[WordT], value: WordT, /, *, field: str) -> WordT:
    """Return `value` as a member of `kind`, by value or name. Raises InvalidInput."""
    try:
        return kind(value)
    except ValueError:
        raise InvalidInput(field=field, problem=f"must be one of {', '.join(kind)}") from None


def require_store(
    store: str | PathLike[str] | Store,
    /,
    *,
    keys: KeyProvider | None,
    index_bytes: int,
) -> None:
    """Raise StoreUrlInvalid for something that is no store, and InvalidInput for names instead of objects."""
    if not isinstance(store, str | PathLike) and not hasattr(store, "commit"):
        raise StoreUrlInvalid(problem="is not a text, a path or a Store")
    if isinstance(keys, str | PathLike):
        raise InvalidInput(field="keys", problem="is a file name: pass elytron_store.sealed.providers.FileKeys(name)")
    if index_bytes < 0:
        raise InvalidInput(field="index_bytes", problem="is negative")


def path_list(paths: Sequence[str | PathLike[str]] | str | PathLike[str], /) -> Sequence[str | PathLike[str]]:
    """Return the paths; a single path is one path, not one per letter."""
    return (paths,) if isinstance(paths, str | PathLike) else paths


def text_list(texts: Sequence[str], /, *, field: str) -> tuple[str, ...]:
    """Return the texts of a list. Raises InvalidInput for a single text, which would be read letter by letter."""
    if isinstance(texts, str):
        raise InvalidInput(field=field, problem="is a text: pass a list of texts")
    return tuple(texts)


def id_list(ids: object, /) -> tuple[str, ...]:
    """Return the ids of memories; a single id is accepted. Raises InvalidInput for other values."""
    if isinstance(ids, str):
        return (ids,)
    if not isinstance(ids, Iterable):
        raise InvalidInput(field="ids", problem="must be a memory's id or a list of ids")
    return tuple(cast("Iterable[str]", ids))


class LibraryMessage(Protocol):
    """A message object of a model library, read through its `role` (or `type`)."""

    @property
    def content(self) -> object: ...


MessageInput = str | Mapping[str, Any] | Message | LibraryMessage
"""A text, one message {role, content, name?, timestamp?}, a Message, or an object of a model library."""
Messages = MessageInput | Sequence[MessageInput]
_Plain = str | Mapping[str, Any] | Message
When = datetime | float | str
"""A datetime, ISO 8601 text, or a number: epoch seconds below 100,000,000,000, else milliseconds."""

_FIELDS = frozenset({"role", "content", "name", "timestamp"})
_BESIDE = frozenset(
    {"annotations", "audio", "function_call", "id", "refusal", "status", "tool_call_id", "tool_calls", "type"}
)
"""Fields of model APIs other than a message's words; they are ignored."""
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
    """Return a write with one turn per message; messages without words, such as tool calls, are left out.

    `speaker` names who said what is the user's, or the only message; `at` is when, where a message does not say so.
    Raises InvalidInput where a message is not one, there are too many, or none holds a word.
    """
    message_items = _each_message(messages)
    is_only_message = len(message_items) == 1
    said_at = given_instant(at, field="at") if at is not None else None
    tag_labels, fields = text_list(tags, field="tags"), _metadata_fields(metadata)
    try:
        turns = tuple(
            _message_draft(message, tag_labels, fields)
            for item_index, item in enumerate(message_items)
            if not similarity.is_blank(
                (message := _numbered_message(item_index, item, speaker, said_at, only=is_only_message)).text
            )
        )
        if not turns:
            raise InvalidInput(field="messages", problem="contain no text: pass a text or a message with text")
        if len(turns) > limits.TURNS_PER_COMMIT:
            problem = f"are limited to {limits.TURNS_PER_COMMIT} at once: add them in parts, or import a file of them"
            raise InvalidInput(field="messages", problem=problem)
        return _TRANSCRIPTS.make(turns=turns)
    except ValidationError as error:
        raise invalid_input(error) from None


def write_of(write: TranscriptWrite, /, *, scope: Scope | None, idempotency_key: str | None) -> MemoryWriteRequest:
    """Return the request to store what `transcript_of` made. Raises InvalidInput for an invalid key."""
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
    """Return the draft of a fact. Raises InvalidInput for an invalid part."""
    said_at = given_instant(at, field="at") if at is not None else None
    try:
        return FactDraft(
            topic=topic, content=content, fact_kind=kind, authority=authority, citations=citations, observed_at=said_at
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
    """Return the requested space, and `filters`, typed or nested, narrowed to mem0's agent and run.

    Nested filters may name the user, as mem0's do. Raises InvalidInput, LimitExceeded.
    """
    if isinstance(filters, Mapping):
        filter_user, remaining_filters = user_from(filters)
        if None not in {filter_user, user_id} and filter_user != user_id:
            raise InvalidInput(field="filters.user_id", problem="and user_id name different users")
        user_id = user_id if user_id is not None else filter_user
        recall_filters = filters_from(remaining_filters)
    elif filters is None or isinstance(cast("object", filters), RecallFilters):
        recall_filters = filters or _NO_FILTERS
    else:
        raise InvalidInput(field="filters", problem='must be a mapping, such as {"agent_id": "cook"}')
    if agent_id is not None:
        recall_filters = recall_filters.model_copy(update={"agents": (agent_id,)})
    if run_id is not None:
        recall_filters = recall_filters.model_copy(update={"conversations": (run_id,)})
    return user_id, recall_filters


NO_USER = "agents, runs and conversations belong to a user's space: pass user_id= too, or open the runtime with space="


def scope_of(
    default: Scope | None,
    /,
    *,
    user_id: str | None = None,
    agent_id: str | None = None,
    run_id: str | None = None,
    conversation: str | None = None,
) -> Scope | None:
    """Return `default` overlaid with mem0's ids: user = space, agent = agent, run = conversation."""
    if user_id is None and agent_id is None and run_id is None and conversation is None:
        return default
    if None not in {run_id, conversation} and run_id != conversation:
        raise InvalidInput(field="run_id", problem="and conversation name different conversations")
    scope_fields = {"space": user_id, "agent": agent_id, "conversation": run_id if run_id is not None else conversation}
    fields = dict(default or ()) | {name: value for name, value in scope_fields.items() if value is not None}
    if "space" not in fields:
        raise ScopeMissing(operation="agent, run or conversation", way_out=NO_USER)
    try:
        return _parts_scope(**fields)
    except ValidationError as error:
        raise invalid_input(error) from None


def _parts_scope(**fields: str | None) -> Scope:
    """Return the scope of these parts; cached, because calls usually repeat them."""
    try:
        return _known_scope(**fields)
    except TypeError:  # unhashable values are no texts
        return Scope.model_validate(fields)


@remember_answers(_SCOPES_KEPT)
def _known_scope(**fields: str | None) -> Scope:
    return Scope.model_validate(fields)


def _message_draft(message: Message, tags: tuple[str, ...], metadata: dict[str, Any]) -> TurnDraft:
    if tags or metadata:
        return TurnDraft(messages=(message,), tags=tags, metadata=metadata)
    return _DRAFTS.make(messages=(message,), metadata={})


def _metadata_fields(metadata: object) -> dict[str, Any]:
    if metadata is not None and not isinstance(metadata, Mapping):
        raise InvalidInput(field="metadata", problem="is not a mapping of names to values")
    fields = dict(cast("Mapping[str, Any]", metadata or {}))
    for name, value in fields.items():
        if not isinstance(cast("object", name), str):
            raise InvalidInput(field="a name in metadata", problem="is not a text")
        require_name(name, field="a name in metadata", limit=limits.NAME_CHARS)
        if value is not None and not isinstance(value, str | int | float):
            raise InvalidInput(field=f"metadata.{name}", problem="must be a text, a number, true, false or None")
        if isinstance(value, float) and not isfinite(value):
            raise InvalidInput(field=f"metadata.{name}", problem="is not a finite number")
    return fields


def _each_message(messages: object) -> list[_Plain]:
    """Yield the messages one by one. Raises InvalidInput for anything else."""
    # A model library's object may also iterate over its own fields: its `content` decides.
    is_one = isinstance(messages, str | Mapping | Message) or hasattr(messages, "content")
    if is_one or not isinstance(messages, Iterable):
        return [_plain_message(cast("object", messages))]
    return [_plain_message(item) for item in cast("Iterable[object]", messages)]


def _plain_message(item: object) -> _Plain:
    """Return a message object of a model library as a mapping, and any other value unchanged."""
    if isinstance(item, str | Mapping | Message):
        return cast("_Plain", item)
    role = getattr(item, "role", None) or getattr(item, "type", None)
    if not isinstance(role, str) or not hasattr(item, "content"):
        raise InvalidInput(field="messages", problem="must be a text, a message, or a list of messages")
    return {"role": role, "content": getattr(item, "content", None), "name": getattr(item, "name", None)}


def _numbered_message(item_index: int, item: _Plain, speaker: str | None, at: Instant | None, *, only: bool) -> Message:
    if isinstance(item, str):
        return Message(text=item, speaker=speaker, at=at)
    if isinstance(item, Message):
        speaker_name = item.speaker or (speaker if only or item.role is EvidenceRole.USER else None)
        said_at = item.at if item.at is not None else at
        return Message(role=item.role, text=item.text, speaker=speaker_name, at=said_at, authority=item.authority)
    has_content = "content" in item or "tool_calls" in item or "function_call" in item
    if item.keys() - _FIELDS - _BESIDE or not has_content:
        problem = "accepts role, content, name and timestamp, and requires content"
        raise InvalidInput(field=f"messages.{item_index}", problem=problem)
    said_at = (
        given_instant(item["timestamp"], field=f"messages.{item_index}.timestamp") if item.get("timestamp") else at
    )
    role = message_shape.named_role(item.get("role", EvidenceRole.USER), what=f"messages.{item_index}.role")
    speaker_name = item.get("name") or (speaker if only or role is EvidenceRole.USER else None)
    text = _content_words(item.get("content"), field=f"messages.{item_index}.content")
    return Message(role=role, text=text, speaker=speaker_name, at=said_at)


def given_instant(moment: When, *, field: str) -> Instant:
    """Return the instant; a number is seconds or milliseconds by its size, as in imported transcripts.

    Raises InvalidInput for a negative number, which is mostly a mistake.
    """
    if isinstance(moment, int | float) and not isinstance(moment, bool):
        if moment < 0:
            raise InvalidInput(field=field, problem="is negative: pass a time before 1970 as ISO 8601 text")
        moment = moment * 1000 if moment < message_shape.SECONDS_BELOW else moment
    return instant(moment, field=field)


def _content_words(content: object, *, field: str) -> str:
    """Return the words of a message's content: a text, or the text parts of a list; None has none."""
    if isinstance(content, str):
        return content
    if isinstance(content, list | tuple):
        content_parts = cast("Sequence[object]", content)
        return "\n".join(text for text in map(_part_text, content_parts) if text)
    if content is None:
        return ""
    raise InvalidInput(field=field, problem="must be a text or a list of content parts")


def _part_text(content_part: object) -> str:
    if isinstance(content_part, str):
        return content_part
    is_mapping = isinstance(content_part, Mapping)
    text = cast("Mapping[str, object]", content_part).get("text") if is_mapping else getattr(content_part, "text", None)
    return text if isinstance(text, str) else ""
