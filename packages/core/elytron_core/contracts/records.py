"""Records: put, get, delete, search, list by namespace, and read history."""

from typing import Annotated, Final

from pydantic import Field, JsonValue, SerializerFunctionWrapHandler, model_serializer

from elytron_core import limits
from elytron_core.clock import Instant
from elytron_core.contracts.recall import Where
from elytron_core.model import Value
from elytron_core.planes.facts import FactPrivacy
from elytron_core.planes.records import Namespace, NamespacePrefix, RecordText, RecordValue, RecordVersion
from elytron_core.scope import IncludePrivate, Name, PageLimit, Reason, ScopedRequest, ScrubbedCounts

RECORD_TTL_S: Final = 10 * 366 * 24 * 3600
RECORD_OFFSET: Final = 100_000


__all__ = [
    "RecordDeleteReport",
    "RecordDeleteRequest",
    "RecordGetReport",
    "RecordGetRequest",
    "RecordHistoryReport",
    "RecordHistoryRequest",
    "RecordItem",
    "RecordNamespace",
    "RecordNamespaceListReport",
    "RecordNamespaceListRequest",
    "RecordPutReport",
    "RecordPutRequest",
    "RecordSearchReport",
    "RecordSearchRequest",
]

ExpectedVersion = Annotated[int, Field(ge=0)]
"""The version to replace; 0 means the record must not exist."""
Offset = Annotated[int, Field(ge=0, le=RECORD_OFFSET)]


class _ValueHolder(Value):
    """A JSON value. `null` is a value too and, unlike other empty fields, is written."""

    value: JsonValue

    @model_serializer(mode="wrap")  # names no type that it returns: the model's own schema is used
    def _with_value(self, handler: SerializerFunctionWrapHandler):
        return {**handler(self), "value": self.value}


class RecordItem(_ValueHolder):
    """A record as callers see it."""

    id: str
    """The memory id, as `get`, `forget` and `erase` take it."""
    namespace: tuple[str, ...]
    key: str
    text: str = ""
    privacy: FactPrivacy
    version: int
    created_at: Instant
    updated_at: Instant
    expires_at: Instant | None = None
    score: float | None = None
    """Search score for the query."""


class RecordPutRequest(ScopedRequest["RecordPutReport"], _ValueHolder):
    """Store a value under a namespace and a key; it replaces an existing one.

    With `expected_version`, only if the record has that version. With `ttl_s`, it expires after that time. `text`
    is what word search reads; without it, the record is found only by namespace, key and fields.
    """

    namespace: Namespace
    key: Name
    value: RecordValue
    text: RecordText = ""
    privacy: FactPrivacy = FactPrivacy.SHARED
    ttl_s: Annotated[int, Field(ge=1, le=RECORD_TTL_S)] | None = None
    expected_version: ExpectedVersion | None = None
    dry_run: bool = False


class RecordPutReport(Value):
    """The stored record. A put of an equal value changes nothing."""

    space: str
    record: RecordItem
    changed: bool
    dry_run: bool = False
    sequence: int = 0
    scrubbed: ScrubbedCounts = {}


class RecordGetRequest(ScopedRequest["RecordGetReport"]):
    """Read one record."""

    namespace: Namespace
    key: Name
    include_private: IncludePrivate = False


class RecordGetReport(Value):
    """One record."""

    space: str
    record: RecordItem


class RecordDeleteRequest(ScopedRequest["RecordDeleteReport"]):
    """Delete one record; its history stays until it is erased. With `expected_version`, only if it has that version."""

    namespace: Namespace
    key: Name
    expected_version: ExpectedVersion | None = None
    reason: Reason = ""
    dry_run: bool = False


class RecordDeleteReport(Value):
    """Result of a deletion, and whether the record existed. `version` is that of the deletion."""

    space: str
    id: str
    changed: bool
    version: int = 0
    dry_run: bool = False
    sequence: int = 0


class RecordSearchRequest(ScopedRequest["RecordSearchReport"]):
    """Find records whose namespace begins with `namespace` and whose value meets `where`.

    With `query`, those whose text answers it, best first; otherwise all, by namespace and key. Conditions name fields
    of the value; nested fields use a dot (`owner.name`).
    """

    namespace: NamespacePrefix = ()
    query: Annotated[str, Field(max_length=limits.QUERY_CHARS)] = ""
    where: Where = ()
    limit: PageLimit = 100
    offset: Offset = 0
    include_private: IncludePrivate = False


class RecordSearchReport(Value):
    """A page of records."""

    space: str
    items: tuple[RecordItem, ...]
    has_more: bool = False


class RecordNamespace(Value):
    """A namespace and its number of records; one cut at `max_depth` counts all below it."""

    namespace: tuple[str, ...]
    records: int


class RecordNamespaceListRequest(ScopedRequest["RecordNamespaceListReport"]):
    """List the namespaces that begin with `prefix`, in order; with `max_depth`, cut to that many parts."""

    prefix: NamespacePrefix = ()
    max_depth: Annotated[int, Field(ge=1, le=limits.RECORD_NAMESPACE_PARTS)] | None = None
    limit: PageLimit = 100
    offset: Offset = 0
    include_private: IncludePrivate = False


class RecordNamespaceListReport(Value):
    """A page of namespaces."""

    space: str
    namespaces: tuple[RecordNamespace, ...]
    has_more: bool = False


class RecordHistoryRequest(ScopedRequest["RecordHistoryReport"]):
    """List the stored versions of one record, oldest first, even of a deleted one."""

    namespace: Namespace
    key: Name
    include_private: IncludePrivate = False


class RecordHistoryReport(Value):
    """The versions of one record."""

    space: str
    id: str
    versions: tuple[RecordVersion, ...]
