"""Translate mem0's arguments into Elytron's requests, and Elytron's reports into mem0's dictionaries."""

import hashlib
import json
from collections.abc import Callable, Collection, Coroutine, Mapping, Sequence
from dataclasses import dataclass
from functools import wraps
from inspect import signature
from typing import Any, Concatenate, Final, ParamSpec, TypeVar, cast
from urllib.parse import quote, unquote
from uuid import UUID

from elytron.api import calls
from elytron.api.metadata_filters import also_prefixed
from elytron.importers.memories.foreign_memory import MEMORIES
from elytron.importers.memories.mem0_files import SYSTEM
from elytron_core import limits
from elytron_core.clock import Instant, as_datetime
from elytron_core.contracts.memories import HistoryItem
from elytron_core.contracts.recall import RecallFilters, RecallHit
from elytron_core.contracts.transcript import TranscriptWrite, TurnDraft, WriteDecision
from elytron_core.errors import InvalidInput, ScopeMissing, Unauthorized, Unsupported
from elytron_core.errors.foreign_names import way_out
from elytron_core.evidence import ROLE_WORDS, EvidenceRole
from elytron_core.ids import is_name
from elytron_core.policy.redaction import scrub_secrets
from elytron_core.scope import DEFAULT_CONVERSATION, Scope
from elytron_integrations.mem0.config import KEY_HINT, plain_settings

P = ParamSpec("P")
SelfT = TypeVar("SelfT")
ResultT = TypeVar("ResultT")
Mem0Answer = dict[str, Any]
"""A dictionary in the form that mem0 returns."""
SHARED_SPACE: Final = "mem0-shared"
"""The space of memories that belong to an agent or run but to no user."""
_AGENT: Final = "agent_id"
_IMPORTED: Final = f"{SYSTEM}."
"""Prefix of the metadata of memories that were imported from mem0."""
_NESTED: Final = "mem0_nested"
"""Metadata key for nested values, which are stored as JSON."""
_IDS: Final = frozenset({"user_id", _AGENT, "run_id", "actor_id", _NESTED})
_UNCHANGING: Final[Mapping[str, tuple[object, ...]]] = {
    "async_mode": (False,),
    "delete_linked": (False,),
    "enable_graph": (False,),
    "explain": (False,),
    "output_format": ("v1.1",),
    "rerank": (False,),
    "show_expired": (False,),
    "version": ("v2", "v3"),
}
"""mem0 arguments that are accepted only with these values, which match what happens anyway."""
_INSTEAD: Final = {
    "answer with a model of your own from what search() returns": "chat",
    "call update() or delete() for each memory": "batch_delete batch_update",
    "choose the store and its models with from_config()": (
        "config db embedding_model entity_store graph llm reranker vector_store"
    ),
    "correct a memory with update() or remove it with delete()": "feedback",
    "follow the server's events": "create_webhook delete_webhook get_webhooks update_webhook",
    "give each project a server or store of its own": "get_project org_id project project_id update_project",
    "read the memories with get_all()": (
        "create_memory_export generate_profile get_memory_export get_profile get_profile_job get_profile_settings "
        "get_summary sample_profiles update_profile_settings"
    ),
}
"""What to do instead of using mem0's other calls and attributes."""


class Mem0NameAbsent(Unsupported, AttributeError):
    """A call or attribute of mem0 that has no counterpart; `hasattr` says so too."""


def absent_name(memory: object, name: str, /) -> AttributeError:
    """Return the error for a name that `memory` does not have, with the way out if mem0 has it."""
    for instead, names in _INSTEAD.items():
        if name in names.split():
            return Mem0NameAbsent(f"mem0's {name!r} has no counterpart here: {instead}")
    return AttributeError(f"a memory has no attribute {name!r}", name=name, obj=memory)


def mem0_arguments(
    method: Callable[Concatenate[SelfT, P], Coroutine[Any, Any, ResultT]], /
) -> Callable[Concatenate[SelfT, P], Coroutine[Any, Any, ResultT]]:
    """Let `method` take mem0's `options=` as keywords, and reject arguments that it does not support."""
    parameters = signature(method).parameters.keys() - {"self"}
    names = (parameters - {"ids"}) | {"user_id", _AGENT, "run_id"} if "ids" in parameters else parameters
    method.__qualname__ = method.__name__  # Python shows it in errors, where the class may be another one

    @wraps(method)
    async def call(self: SelfT, *args: P.args, **kwargs: P.kwargs) -> ResultT:
        arguments = {**plain_settings(kwargs.pop("options", None), what="options"), **kwargs}
        drop_unchanging(method.__name__, arguments, names)
        try:
            return await cast("Any", method)(self, *args, **arguments)
        except Unauthorized:
            raise Unauthorized(KEY_HINT) from None

    return call


def drop_unchanging(call: str, arguments: dict[str, Any], names: Collection[str], /) -> None:
    """Remove arguments without effect that are not in `names`. Raises InvalidInput for others without a counterpart."""
    for name in arguments.keys() - names:
        if arguments.pop(name) not in (None, *_UNCHANGING.get(name, ())):
            raise InvalidInput(field=f"{name} of {call}()", problem=f"has no counterpart here{way_out(name, names)}")


@dataclass(frozen=True, slots=True)
class Mem0Scope:
    """Whose memory a call concerns, and the filters from its ids and nested filters."""

    space: str
    filters: RecallFilters

    @property
    def scope(self) -> Scope:
        """Return the scope for a write. Raises InvalidInput if the filters contain more than ids."""
        parts = {"agent": self.filters.agents, "conversation": self.filters.conversations}
        ids_only = RecallFilters(agents=parts["agent"][:1], conversations=parts["conversation"][:1])
        if self.filters != ids_only:
            raise InvalidInput(field="filters", problem="may only name a user_id, agent_id and run_id in this call")
        return Scope.model_validate({"space": self.space, **{part: names[0] for part, names in parts.items() if names}})


def scope_of_call(call: str, owner: str | None, filters: Mapping[str, Any] | None, /, **ids: object) -> Mem0Scope:
    """Return the memory that a call with these ids concerns. `owner` is the only user of the object, if it has one.

    Raises ScopeMissing without any id, and InvalidInput for an invalid id or a user other than the owner.
    """
    texts = {name: str(value).strip() for name, value in ids.items() if value is not None}
    user, narrowed = calls.narrowed_by(filters, **texts)
    narrowed = narrowed.model_copy(update={"where": also_prefixed(narrowed.where, _IMPORTED)})
    users = (user,) if user is not None else ()
    for name, values in (("user_id", users), (_AGENT, narrowed.agents), ("run_id", narrowed.conversations)):
        for value in values:
            if not is_name(value):
                problem = f"is empty, longer than {limits.NAME_CHARS} characters or not printable"
                raise InvalidInput(field=f"{name} of {call}()", problem=problem)
    if user is None and owner is None and not (narrowed.agents or narrowed.conversations):
        raise ScopeMissing(operation=call, way_out="pass a user_id, agent_id or run_id, as an argument or in filters")
    if owner is not None and user not in {None, owner}:
        raise InvalidInput(field="user_id", problem="is not the user that this memory was opened for")
    if user == SHARED_SPACE:
        raise InvalidInput(field="user_id", problem="is a reserved name: choose another")
    return Mem0Scope(user or owner or SHARED_SPACE, narrowed)


def public_id(space: str, memory: str, /) -> str:
    """Return the id for mem0's calls. It contains the user's space, so the id by itself locates the memory."""
    return f"{memory}@{quote(space, safe='')}"


def split_id(memory_id: str, owner: str | None, /) -> tuple[str, str]:
    """Return a memory's space and id, or empty strings if the id is invalid or belongs to another user."""
    memory, _, place = memory_id.rpartition("@")
    space = unquote(place)
    return (space, memory) if memory and space and owner in {None, space} else ("", "")


def draft_messages(
    messages: calls.Messages,
    scope: Scope,
    /,
    *,
    metadata: Mapping[str, Any] | None,
    timestamp: calls.When | None,
) -> TranscriptWrite:
    """Return a write that stores each message as a turn, with ids that prevent storing the same message twice.

    System messages are left out, as in mem0.
    """
    fields = _stored_metadata(metadata, scope)
    write = calls.transcript_of(messages, at=timestamp, metadata=fields)
    turns = [turn for turn in write.turns if turn.messages[0].role is not EvidenceRole.SYSTEM]
    if not turns:
        raise InvalidInput(field="messages", problem="contain no message from a user or an assistant")
    digests = [_turn_digest(turn, scope) for turn in turns]
    # Equal messages within one call were said that many times.
    names = [f"mem0-{digest}-{digests[:place].count(digest)}" for place, digest in enumerate(digests)]
    drafts = (turn.model_copy(update={"host_id": name}) for turn, name in zip(turns, names, strict=True))
    return TranscriptWrite(turns=tuple(drafts))


def _turn_digest(turn: TurnDraft, scope: Scope) -> str:
    """Return the digest of a turn with secrets redacted, as it is stored, so that it reveals nothing else."""
    (message,) = turn.messages
    parts = (message.role, scrub_secrets(message.text).text, message.speaker, message.at, scope.agent)
    fields = json.dumps(turn.metadata, sort_keys=True)
    whole = json.dumps((*parts, scrub_secrets(fields).text))
    return UUID(bytes=hashlib.blake2b(whole.encode("utf-8", "surrogatepass"), digest_size=16).digest()).hex


def _stored_metadata(metadata: Mapping[str, Any] | None, scope: Scope) -> dict[str, Any]:
    """Return the metadata with nested values as JSON.

    Raises InvalidInput for the names of ids and for values that JSON cannot represent.
    """
    fields = plain_settings(metadata, what="metadata") if not isinstance(metadata, Mapping) else dict(metadata)
    if names := sorted(_IDS & fields.keys()):
        raise InvalidInput(field=f"metadata.{names[0]}", problem="is reserved for an id: pass it as an argument")
    nested = {name: fields.pop(name) for name, value in [*fields.items()] if isinstance(value, dict | list | tuple)}
    try:
        fields |= {_NESTED: json.dumps(nested, allow_nan=False)} if nested else {}
    except (TypeError, ValueError):
        raise InvalidInput(field="metadata", problem="contains a value that JSON cannot represent") from None
    return fields | ({_AGENT: scope.agent} if scope.agent is not None else {})


def _public_metadata(hit: RecallHit) -> dict[str, Any] | None:
    """Return the metadata in its original form, or None if there is none."""
    fields: dict[str, Any] = {name: value for name, value in hit.metadata.items() if name not in {*_IDS, "edit_of"}}
    try:
        fields |= json.loads(str(hit.metadata.get(_NESTED, "{}")))
    except ValueError:  # a secret in it was redacted
        fields[_NESTED] = hit.metadata[_NESTED]
    return fields or None


def memory_answer(hit: RecallHit, space: str, memory: str, /, **more: Any) -> Mem0Answer:
    """Return a memory in mem0's form under the id `memory`, with only the ids that it has."""
    hit = _original_hit(hit)
    at = _iso_time(hit.at)
    ids = {
        "user_id": space if space != SHARED_SPACE else None,
        _AGENT: hit.metadata.get(_AGENT),
        "run_id": hit.conversation if hit.conversation != DEFAULT_CONVERSATION else None,
        "actor_id": hit.speaker,
        "role": hit.role.value if hit.role is not None else None,
    }
    return {
        "id": public_id(space, memory),
        "memory": hit.text,
        "hash": hashlib.md5(hit.text.encode("utf-8", "surrogatepass"), usedforsecurity=False).hexdigest(),
        "metadata": _public_metadata(hit),
        "created_at": at,
        "updated_at": at,
        **{name: value for name, value in ids.items() if value is not None},
        **more,
    }


def _original_hit(hit: RecallHit) -> RecallHit:
    """Return a memory that was imported from mem0 with the ids and metadata that it had there, others unchanged."""
    if (hit.channel, hit.conversation) != (SYSTEM, MEMORIES):
        return hit
    fields = {name.removeprefix(_IMPORTED): value for name, value in hit.metadata.items()}
    original = {
        "conversation": fields.get("run_id", DEFAULT_CONVERSATION),
        "speaker": fields.get("actor_id"),
        "role": ROLE_WORDS.get(str(fields.pop("role", None))),
        "metadata": fields,
    }
    return hit.model_copy(update=original)


def stored_answer(turn: TurnDraft, decision: WriteDecision, space: str, event: str, /) -> Mem0Answer:
    """Return the result for one message as mem0's `add` does; for a refused message, include the reason."""
    (message,) = turn.messages
    answer: Mem0Answer = {
        "id": public_id(space, decision.id) if decision.id is not None else None,
        "memory": scrub_secrets(message.text).text,
        "event": event,
        "role": message.role.value,
    }
    reason = {"reason": decision.reason} if decision.id is None else {}
    return answer | ({"actor_id": message.speaker} if message.speaker is not None else {}) | reason


def history_answer(items: Sequence[HistoryItem], memory_id: str, hit: RecallHit, /) -> list[Mem0Answer]:
    """Return a memory's versions as mem0's history, oldest first."""
    hit = _original_hit(hit)
    return [
        {
            "id": item.id,
            "memory_id": memory_id,
            "old_memory": earlier.text if earlier is not None else None,
            "new_memory": item.text,
            "event": "ADD" if earlier is None else "UPDATE",
            "created_at": _iso_time(items[0].at),
            "updated_at": _iso_time(item.at),
            "is_deleted": False,
            "actor_id": hit.speaker,
            "role": hit.role.value if hit.role is not None else None,
        }
        for earlier, item in zip((None, *items), items, strict=False)
    ]


def _iso_time(at: Instant | None) -> str | None:
    return as_datetime(at).isoformat() if at is not None else None
