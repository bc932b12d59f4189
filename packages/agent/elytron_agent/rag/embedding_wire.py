"""Requests and responses of `/v1/rag`."""

from typing import Annotated, Any, Final, Literal

from pydantic import AfterValidator, Field

from elytron_agent.blocks.archive import ARCHIVAL, tags_of
from elytron_agent.rag.rows import MESSAGE
from elytron_core import limits as core_limits
from elytron_core.clock import Instant
from elytron_core.model import Request, Value
from elytron_core.planes.transcript import Metadata
from elytron_core.scope import Name
from elytron_core.tags import TagFilter, Tags

RESULTS_DEFAULT: Final = 5
RESULTS_MAX: Final = 20
SOURCE_TYPES: Final = 8
"""Maximum number of source types in one call."""


SourceType = Annotated[str, Field(pattern=r"^[a-z][a-z0-9_-]{0,31}$")]
"""`message`, `archival`, or a name chosen by the caller."""
_TAGS: Final = "tags"


MetadataValue = (
    Annotated[str, Field(max_length=core_limits.METADATA_CHARS)]
    | int
    | Annotated[float, Field(allow_inf_nan=False)]
    | bool
    | None
)


def _require_values(values: dict[str, Any]) -> dict[str, Any]:
    if any(isinstance(value, tuple) for name, value in values.items() if name != _TAGS):
        raise ValueError(f"contains a list other than {_TAGS}")
    return values


class EmbeddingRequest(Request):
    """Store and embed a text, so that it can be found. Tags may also be given in the metadata, under `tags`."""

    text: Annotated[str, Field(min_length=1, max_length=core_limits.MESSAGE_CHARS)]
    source_type: SourceType = ARCHIVAL
    """Kind of the text, such as `document`. Messages are embedded automatically."""
    tags: Tags = ()
    metadata: Annotated[
        dict[Name, MetadataValue | Tags], Field(max_length=core_limits.METADATA_KEYS), AfterValidator(_require_values)
    ] = Field(default_factory=dict)

    @property
    def every_tag(self) -> tuple[str, ...]:
        """Return the tags of the request and of its metadata."""
        inner_tags = self.metadata.get(_TAGS)
        return (*self.tags, *(tags_of(inner_tags) if isinstance(inner_tags, str | tuple) else ()))

    @property
    def values(self) -> dict[str, MetadataValue]:
        """Return the metadata without tags."""
        return {name: value for name, value in self.metadata.items() if not isinstance(value, tuple) and name != _TAGS}


class EmbeddingAnswer(Value):
    """A row. `model` and `dimension` are missing until the text is embedded."""

    id: str
    object: Literal["rag.embedding"] = "rag.embedding"
    source_type: str
    conversation_id: str | None = None
    """Conversation of a message; null for other rows."""
    tags: tuple[str, ...] = ()
    token_count: int
    model: str | None = None
    dimension: int | None = None
    created_at: Instant | None = None


class EmbeddingDeleted(Value):
    """A row that was deleted with its text."""

    id: str
    object: Literal["rag.embedding.deleted"] = "rag.embedding.deleted"
    deleted: bool = True


class EmbeddingsDeleted(Value):
    """Result of a deletion, or of its dry run. Messages are deleted with their conversations."""

    object: Literal["rag.embeddings.deleted"] = "rag.embeddings.deleted"
    deleted: bool
    dry_run: bool
    rows: int
    messages_left: int


class RagSearchRequest(Request):
    """Find the rows nearest to a query, by cosine only."""

    query: Annotated[str, Field(min_length=1, max_length=core_limits.QUERY_CHARS)]
    top_k: Annotated[int, Field(ge=1, le=RESULTS_MAX)] = RESULTS_DEFAULT
    max_tokens: Annotated[int, Field(ge=1)] | None = None
    """Token limit. The first row that does not fit ends the response."""
    source_types: Annotated[tuple[SourceType, ...], Field(max_length=SOURCE_TYPES)] = ()
    conversation_id: Name | None = None
    tags: TagFilter = ()
    """Only return rows with at least one of these tags."""


class RagHit(Value):
    """A row that a search found, with its cosine to the query."""

    id: str
    score: float
    text: str
    source_type: str
    conversation_id: str | None = None
    tags: tuple[str, ...] = ()
    metadata: Metadata = Field(default_factory=dict)
    token_count: int
    model: str
    dimension: int
    created_at: Instant | None = None


class RagSkipped(Value):
    """Rows that match the filters but were not compared: of other models or dimensions, or not embedded yet."""

    other_models: int = 0
    other_dimensions: int = 0
    unembedded: int = 0


class RagSearchAnswer(Value):
    """The nearest rows, best first. Of equally near rows, the shorter one comes first."""

    object: Literal["list"] = "list"
    data: tuple[RagHit, ...]
    model: str
    dimension: int
    compared: int
    skipped: RagSkipped
    total_tokens: int
    is_cut: bool
    """True if `max_tokens` ended the list."""


class ModelRows(Value):
    """Number of rows that have a vector of one model."""

    model: str
    dimension: int
    rows: int


class QuotaState(Value):
    """A quota and its usage. For an hourly quota, `ends_at` is the end of the hour."""

    used: int
    limit: int
    ends_at: Instant | None = None


class RagQuotaStates(Value):
    """The quotas for one user's inserted rows and for those of all users of the server."""

    rows: QuotaState
    size_bytes: QuotaState
    inserts: QuotaState
    project_rows: QuotaState
    project_bytes: QuotaState


class RagStatus(Value):
    """Number of a user's rows. Stale rows have vectors, but none of the current model."""

    object: Literal["rag.status"] = "rag.status"
    model: str
    dimension: int
    total: int
    by_model: tuple[ModelRows, ...]
    by_source_type: dict[str, int]
    stale_count: int
    unembedded_count: int
    quotas: RagQuotaStates


def conversation_of_row(source_type: str, conversation: str, /) -> str | None:
    """Return the conversation that is shown for a row."""
    return conversation if source_type == MESSAGE else None
