"""The plane of records: JSON values that a host keeps under a namespace and a key, each change with a version."""

from collections.abc import Iterable, Iterator
from typing import Annotated

from pydantic import AfterValidator, Field, JsonValue

from elytron_core import limits, strict_json
from elytron_core.clock import Instant
from elytron_core.model import Value
from elytron_core.planes.facts import FactPrivacy
from elytron_core.scope import Name

RECORDS = "records"
RUNTIME_RECORDS = "runtime_records"
"""Collection of the runtime's own records: no memory id names one, and no operation of the registry reaches them."""
RESERVED_NAMESPACES = ("elytron:", "llm-proxy")
"""Beginnings of a namespace's first part that are the runtime's own, in letters of any case."""
ID_WORD = "record"
"""Prefix of the memory ids of records."""
COPIES_OF_BLOCKS = ("elytron:shown",)
"""Below it stand copies of what a model was shown: each erasure in the space takes them all."""


def is_reserved(namespace: tuple[str, ...], /) -> bool:
    """Return True if the records of this namespace are the runtime's own."""
    return bool(namespace) and namespace[0].casefold().startswith(RESERVED_NAMESPACES)


def copies_of_turn(host_id: str, conversation: str, /) -> tuple[str, str]:
    """Return the namespace of records that repeat a conversation's turn of this host id: each erasure of it takes them.

    The same id in another conversation is another turn.
    """
    return f"elytron:run:{host_id}", conversation


def copies_of_conversation(conversation: str, /) -> tuple[str, ...]:
    """Return the namespace of records that repeat a conversation: they are erased with any message of it."""
    return ("elytron:conversation", conversation)


def is_copy(namespace: tuple[str, ...], /) -> bool:
    """Return True if the runtime's records of this namespace repeat what is stored elsewhere."""
    first = namespace[0]
    return first.startswith(copies_of_turn("", "")[0]) or first in {*COPIES_OF_BLOCKS, *copies_of_conversation("")[:1]}


def _bounded_value(value: JsonValue) -> JsonValue:
    """Return `value`. Raises ValueError if it is too deep, too large, or holds what JSON cannot say."""
    level: list[JsonValue] = [value]
    for _ in range(limits.RECORD_VALUE_DEPTH):
        level = [inner for outer in level if isinstance(outer, dict | list) for inner in _value_parts(outer)]
        if not level:
            break
    else:
        raise ValueError(f"is nested deeper than {limits.RECORD_VALUE_DEPTH} levels")
    if len(strict_json.canonical_bytes(value)) > limits.RECORD_VALUE_BYTES:
        raise ValueError(f"has more than {limits.RECORD_VALUE_BYTES} bytes")
    return value


def _value_parts(value: dict[str, JsonValue] | list[JsonValue]) -> Iterable[JsonValue]:
    return value.values() if isinstance(value, dict) else value


Scalar = bool | int | float | str | None
Namespace = Annotated[tuple[Name, ...], Field(min_length=1, max_length=limits.RECORD_NAMESPACE_PARTS)]
NamespacePrefix = Annotated[tuple[Name, ...], Field(max_length=limits.RECORD_NAMESPACE_PARTS)]
RecordValue = Annotated[JsonValue, AfterValidator(_bounded_value)]
RecordText = Annotated[str, Field(max_length=limits.RECORD_TEXT_CHARS)]


class RecordVersion(Value):
    """An earlier version of a record. A deletion has no value."""

    version: int
    at: Instant
    value: JsonValue = None
    text: str = ""
    deleted: bool = False


class Record(Value):
    """A record as stored, with its earlier versions. `forgotten_at` is set while it is deleted or forgotten."""

    namespace: Namespace
    key: Name
    value: JsonValue
    text: str = ""
    privacy: FactPrivacy = FactPrivacy.SHARED
    version: Annotated[int, Field(ge=1)] = 1
    created_at: Instant
    updated_at: Instant
    expires_at: Instant | None = None
    forgotten_at: Instant | None = None
    deleted: bool = False
    """True if this version is a deletion; `value` is the previous one."""
    earlier: tuple[RecordVersion, ...] = ()

    def is_expired(self, now: Instant, /) -> bool:
        """Return whether the record's time to live is over at `now`."""
        return self.expires_at is not None and self.expires_at <= now

    def is_alive(self, now: Instant, /) -> bool:
        """Return whether the record may be read at `now`."""
        return self.forgotten_at is None and not self.is_expired(now)

    @property
    def words(self) -> str:
        """Return the text to index, else the value as JSON."""
        return self.text or strict_json.canonical_bytes(self.value).decode()

    @property
    def fields(self) -> dict[str, Scalar]:
        """Return what conditions of a filter compare: the scalars of the value, inner ones by dotted names."""
        found: dict[str, Scalar] = {}
        for name, value in _scalar_leaves(self.value, ""):
            if len(found) == limits.RECORD_FIELDS:
                break
            if len(name) <= limits.NAME_CHARS and (not isinstance(value, str) or len(value) <= limits.CONDITION_CHARS):
                found[name] = value
        return found


def _scalar_leaves(value: JsonValue, prefix: str) -> Iterator[tuple[str, Scalar]]:
    if not isinstance(value, dict):
        return
    for name, inner in value.items():
        if isinstance(inner, dict):
            yield from _scalar_leaves(inner, f"{prefix}{name}.")
        elif not isinstance(inner, list):
            yield f"{prefix}{name}", inner
