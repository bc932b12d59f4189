"""The plane of records: JSON values that a host stores under a namespace and a key. Each change is a new version.

Earlier versions are retained in order, up to a limit.
"""

from collections.abc import Iterator
from typing import Annotated, Final

from pydantic import AfterValidator, Field, GetPydanticSchema, JsonValue
from pydantic_core.core_schema import any_schema

from elytron_core import limits, strict_json
from elytron_core.clock import Instant
from elytron_core.model import Value, VouchedMaker
from elytron_core.planes.facts import FactPrivacy
from elytron_core.scope import Name

RECORD_VALUE_DEPTH: Final = 32
RECORD_TEXT_CHARS: Final = 32_000
RECORD_FIELDS: Final = 64
"""Scalars of a record's value that conditions can name."""
RECORD_VERSIONS: Final = 32
RECORD_HISTORY_BYTES: Final = 1024 * 1024
"""Earlier versions of a record that are kept, and their bytes together; the oldest go first."""


RECORDS = "records"
RUNTIME_RECORDS = "runtime_records"
"""Collection of the runtime's own records: no memory id refers to one, and no registry operation reaches them."""
RESERVED_NAMESPACES = ("elytron:", "llm-proxy")
"""Prefixes of a namespace's first part that are reserved for the runtime, in any case."""
ID_WORD = "record"
"""Prefix of the memory ids of records."""
COPIES_OF_BLOCKS = ("elytron:shown",)
"""Namespaces below it contain copies of what a model was shown; every erasure in the space removes them all."""


def is_reserved(namespace: tuple[str, ...], /) -> bool:
    """Return True if the records of this namespace are the runtime's own."""
    return bool(namespace) and namespace[0].casefold().startswith(RESERVED_NAMESPACES)


def copies_of_turn(host_id: str, conversation: str, channel: str | None = None, /) -> tuple[str, ...]:
    """Return the namespace of records that repeat the turn with this host id; every erasure of the turn removes them.

    The same id in another conversation is another turn. So is, with `channel`, the same id in another channel.
    """
    return (f"elytron:run:{host_id}", conversation, *(() if channel is None else (channel,)))


def copies_of_conversation(conversation: str, /) -> tuple[str, ...]:
    """Return the namespace of records that repeat a conversation: they are erased with any message of it."""
    return ("elytron:conversation", conversation)


def is_copy(namespace: tuple[str, ...], /) -> bool:
    """Return True if the runtime's records of this namespace repeat what is stored elsewhere."""
    first_part = namespace[0]
    return first_part.startswith(copies_of_turn("", "")[0]) or first_part in {
        *COPIES_OF_BLOCKS,
        *copies_of_conversation("")[:1],
    }


_HOLDERS = (dict, list)


def _bounded_value(value: JsonValue) -> JsonValue:
    """Return `value`. Raises ValueError if it is too deep, too large, or not representable in JSON."""
    # Level by level and not by recursion, so that a hostile depth cannot exhaust the stack.
    level_values: list[JsonValue] = [value]
    for _ in range(RECORD_VALUE_DEPTH):
        contents = [
            container.values() if isinstance(container, dict) else container
            for container in level_values
            if isinstance(container, _HOLDERS)
        ]
        level_values = [member for content in contents for member in content]
        if not level_values:
            break
    else:
        raise ValueError(f"is nested deeper than {RECORD_VALUE_DEPTH} levels")
    # Serialized only now that its depth is known, because the encoder recurses.
    if len(strict_json.canonical_bytes(value)) > limits.RECORD_VALUE_BYTES:
        raise ValueError(f"has more than {limits.RECORD_VALUE_BYTES} bytes")
    return value


Scalar = bool | int | float | str | None
Namespace = Annotated[tuple[Name, ...], Field(min_length=1, max_length=limits.RECORD_NAMESPACE_PARTS)]
NamespacePrefix = Annotated[tuple[Name, ...], Field(max_length=limits.RECORD_NAMESPACE_PARTS)]
StoredJson = Annotated[JsonValue, GetPydanticSchema(lambda _, __: any_schema())]
"""A value known to consist of JSON: checking it would cost a call for each of its parts."""
BoundedJson = Annotated[StoredJson, AfterValidator(_bounded_value)]
"""A JSON value to be stored."""
RecordValue = Annotated[JsonValue, AfterValidator(_bounded_value)]
RecordText = Annotated[str, Field(max_length=RECORD_TEXT_CHARS)]


class RecordVersion(Value):
    """An earlier version of a record. A deletion has no value."""

    version: int
    at: Instant
    value: StoredJson = None
    text: str = ""
    deleted: bool = False


class Record(Value):
    """A record as stored, with its earlier versions. `forgotten_at` is set while it is deleted or forgotten."""

    namespace: Namespace
    key: Name
    value: StoredJson
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
        """Return whether the record's time to live has passed at `now`."""
        return self.expires_at is not None and self.expires_at <= now

    def is_alive(self, now: Instant, /) -> bool:
        """Return whether the record may be read at `now`."""
        return self.forgotten_at is None and (self.expires_at is None or self.expires_at > now)

    @property
    def words(self) -> str:
        """Return the text to index, or the value as JSON."""
        return self.text or strict_json.canonical_bytes(self.value).decode()

    @property
    def fields(self) -> dict[str, Scalar]:
        """Return what filter conditions compare: the scalars of the value, nested ones by dotted names."""
        scalars: dict[str, Scalar] = {}
        for name, value in _scalar_leaves(self.value, ""):
            if len(scalars) == RECORD_FIELDS:
                break
            if len(name) <= limits.NAME_CHARS and (not isinstance(value, str) or len(value) <= limits.CONDITION_CHARS):
                scalars[name] = value
        return scalars


def _scalar_leaves(value: JsonValue, prefix: str) -> Iterator[tuple[str, Scalar]]:
    if not isinstance(value, dict):
        return
    for name, inner in value.items():
        if isinstance(inner, dict):
            yield from _scalar_leaves(inner, f"{prefix}{name}.")
        elif not isinstance(inner, list):
            yield f"{prefix}{name}", inner


_RECORDS = VouchedMaker(
    Record, "namespace", "key", "value", "text", "privacy", "created_at", "updated_at", "expires_at"
)


def new_record(
    *,
    namespace: Namespace,
    key: str,
    value: JsonValue,
    text: str,
    privacy: FactPrivacy,
    expires_at: Instant | None,
    at: Instant,
) -> Record:
    """Return the record that a request of `at` describes."""
    return _RECORDS.make(
        namespace=namespace,
        key=key,
        value=value,
        text=text,
        privacy=privacy,
        created_at=at,
        updated_at=at,
        expires_at=expires_at,
    )


def put_record(current_record: Record | None, record: Record, /, *, has_history: bool = True) -> Record:
    """Return the record after this put of `record`, which is a new one; `current_record` itself if it says the same
    already.

    Versions go on after a deletion and after an expiry, so that no version number has two meanings. What has expired
    leaves nothing in the history, and without `has_history` nothing does.
    """
    put_at = record.updated_at
    if current_record is None:
        return record
    if current_record.is_expired(put_at):
        return record.model_copy(update={"version": current_record.version + 1})
    if current_record.is_alive(put_at) and _says_same(current_record, record):
        return current_record
    changed_fields = {
        "version": current_record.version + 1,
        "earlier": _extend_history(current_record) if has_history else (),
    }
    return record.model_copy(
        update=changed_fields | ({"created_at": current_record.created_at} if current_record.is_alive(put_at) else {})
    )


def delete_record(record: Record, /, *, at: Instant) -> Record:
    """Return the record deleted at `at`; its value stays in the history until it is erased."""
    return record.model_copy(
        update={
            "version": record.version + 1,
            "updated_at": at,
            "forgotten_at": at,
            "deleted": True,
            "earlier": _extend_history(record),
        }
    )


def shown_again(record: Record, /) -> Record:
    """Return the record as `forget` with `undo` restores it; after a deletion that is a new version."""
    if not record.deleted:
        return record.model_copy(update={"forgotten_at": None})
    restored_fields = {
        "version": record.version + 1,
        "forgotten_at": None,
        "deleted": False,
        "earlier": _extend_history(record),
    }
    return record.model_copy(update=restored_fields)


def succeed_record(record: Record, current_record: Record, /) -> Record:
    """Return an archive's record with a version after that of `current_record`, which has the same name."""
    return record.model_copy(update={"version": max(record.version, current_record.version + 1)})


def record_history(record: Record, /) -> tuple[RecordVersion, ...]:
    """Return the stored versions, oldest first."""
    return (*record.earlier, _record_version(record))


def _says_same(current_record: Record, record: Record) -> bool:
    if (current_record.text, current_record.privacy, current_record.expires_at) != (
        record.text,
        record.privacy,
        record.expires_at,
    ):
        return False
    # Compared as JSON too, because in Python 1, 1.0 and True are equal.
    bytes_of = strict_json.canonical_bytes
    return current_record.value == record.value and bytes_of(current_record.value) == bytes_of(record.value)


def _record_version(record: Record) -> RecordVersion:
    if record.deleted:
        return RecordVersion(version=record.version, at=record.updated_at, deleted=True)
    return RecordVersion(version=record.version, at=record.updated_at, value=record.value, text=record.text)


def _extend_history(record: Record) -> tuple[RecordVersion, ...]:
    """Return the earlier versions plus that of `record`; beyond the limits the oldest are dropped."""
    versions: list[RecordVersion] = []
    size = 0
    # From the newest back, so that the limit drops the oldest.
    for version in reversed(record_history(record)[-RECORD_VERSIONS:]):
        size += len(version.to_bytes())
        if size > RECORD_HISTORY_BYTES:
            break
        versions.append(version)
    return tuple(reversed(versions))
