"""Read one memory, list memories, and change or remove them: forget, correct, erase."""

from collections.abc import Iterator
from enum import StrEnum
from typing import Annotated, Self

from pydantic import Field, model_validator

from elytron_core import limits
from elytron_core.clock import Instant
from elytron_core.contracts.recall import RecallFilters, RecallHit, RecallPlane
from elytron_core.model import Value, no_item
from elytron_core.planes import transcript
from elytron_core.profiles import ErasureLayer, SpaceLoss
from elytron_core.scope import Cursor, IncludePrivate, PageLimit, Reason, ScopedRequest, ScrubbedCounts

__all__ = [
    "HiddenFilter",
    "ListOrder",
    "MemoryControlReport",
    "MemoryCorrectRequest",
    "MemoryEraseRequest",
    "MemoryForgetRequest",
    "MemoryGetRequest",
    "MemoryHistoryReport",
    "MemoryHistoryRequest",
    "MemoryListReport",
    "MemoryListRequest",
    "OriginKind",
    "OutsideOrigin",
]

MemoryId = Annotated[str, Field(min_length=1, max_length=limits.NAME_CHARS)]


class MemoryGetRequest(ScopedRequest[RecallHit]):
    """Read one memory by its id."""

    id: MemoryId
    include_private: IncludePrivate = False


class HiddenFilter(StrEnum):
    """True to include memories hidden from recall: forgotten, archived, masked, replaced or retired."""

    LEFT_OUT = "left_out"
    LISTED = "listed"
    """The text is omitted if it may not be read."""


class ListOrder(StrEnum):
    """The order of the listed memories."""

    STORED = "stored"
    """Messages in storage order, then facts, then skills, then the continuity of conversations: the same on every
    store."""
    LATEST = "latest"
    """The latest memories of every plane first. There is one page."""


class MemoryListRequest(ScopedRequest["MemoryListReport"]):
    """List memories a page at a time, in storage order: messages, then facts, then skills."""

    limit: PageLimit = 100
    cursor: Cursor | None = None
    filters: RecallFilters = RecallFilters()
    hidden: HiddenFilter = HiddenFilter.LEFT_OUT
    include_private: IncludePrivate = False
    order: ListOrder = ListOrder.STORED


class MemoryListReport(Value):
    """A page of memories; `next_cursor` continues after it."""

    space: str
    items: tuple[RecallHit, ...]
    next_cursor: str | None = None
    has_more: bool = False
    lost: int = 0
    """Number of turns that the journal names but damage removed; `inspect` with `check` gives details."""
    losses: tuple[SpaceLoss, ...] = ()
    """What repairs could not save, until an operator acknowledges it."""

    def __iter__(self) -> Iterator[RecallHit]:  # pyright: ignore[reportIncompatibleMethodOverride]
        """Yield the memories, in their order."""
        return iter(self.items)

    def __len__(self) -> int:
        return len(self.items)

    def __getitem__(self, index: int, /) -> RecallHit:
        try:
            return self.items[index]
        except TypeError:
            raise no_item(self, index) from None


class HistoryEvent(StrEnum):
    """Kind of an event of a memory."""

    ADDED = "added"
    CORRECTED = "corrected"
    SUPERSEDED = "superseded"
    CONFIRMED = "confirmed"
    FORGOTTEN = "forgotten"
    RESTORED = "restored"
    DELETED = "deleted"
    MARKED_STALE = "marked_stale"
    INVALIDATED = "invalidated"
    PRIVACY_CHANGED = "privacy_changed"
    SCOPE_CHANGED = "scope_changed"
    ARCHIVED = "archived"
    MASKED = "masked"
    RAW_DELETED = "raw_deleted"
    ENABLED = "enabled"
    DISABLED = "disabled"
    MERGED = "merged"
    RECOVERED = "recovered"


class HistoryItem(Value):
    """One event in a memory's life. `text` is its text at that time, if still stored."""

    id: str
    event: HistoryEvent
    at: Instant
    claimed_at: Instant | None = None
    """The time that the memory claims, if that is later than its recording."""
    text: str | None = None
    reason: str = ""
    by: str = ""
    """The id in the caller's own records, as the call gave it."""
    audit_id: str | None = None
    """The id of the caller's own records, as the call gave it."""
    source: str | None = None
    """Name that the caller of a control call gave."""


class MemoryHistoryRequest(ScopedRequest["MemoryHistoryReport"]):
    """Read the history of one memory, oldest first; for a fact, the whole history of its topic.

    The id `space` stands for the space itself: when it was recovered, by whom and why.
    """

    id: MemoryId
    include_private: IncludePrivate = False


class MemoryHistoryReport(Value):
    """The events of one memory."""

    space: str
    id: str
    items: tuple[HistoryItem, ...]


class MemoryForgetRequest(ScopedRequest["MemoryControlReport"]):
    """Hide memories from recall and projection; evidence and history stay, and `undo` restores them."""

    ids: Annotated[tuple[MemoryId, ...], Field(min_length=1, max_length=limits.WRITES_PER_REQUEST)]
    reason: Reason = ""
    undo: bool = False
    dry_run: bool = False


class MemoryCorrectRequest(ScopedRequest["MemoryControlReport"]):
    """Replace the content of a fact or message; the old version stays in history.

    An edited message keeps its speaker and time, and has the original's id as `edit_of` in its metadata.
    """

    id: MemoryId
    content: Annotated[transcript.MessageText, Field(min_length=1)]
    reason: Reason = ""
    dry_run: bool = False


class OriginKind(StrEnum):
    """The channel that memories came through."""

    TOOL = "tool"
    """A tool, by the name that its observations and messages carry."""
    PAGE = "page"
    """A page, by its address in the turn's host references or metadata."""
    UPLOAD = "upload"
    """An uploaded file, by its id in the turn's host references or metadata."""
    SESSION = "session"
    """A coding assistant or one of its sessions, by its id in the turn's host references."""


class OutsideOrigin(Value):
    """One tool, page, upload or session."""

    kind: OriginKind
    name: Annotated[str, Field(min_length=1, max_length=limits.URI_CHARS)]


class MemoryEraseRequest(ScopedRequest["MemoryControlReport"]):
    """Permanently erase memories from documents, index and journal digests. This cannot be undone.

    Exactly one of `ids`, `origin` and `whole_space` selects what to erase, a message in all its versions; `whole_space`
    repeats the space's name, so an omission never erases a space. For an `origin`, a dry run lists what would go and
    returns a token. The real call takes the token, and erases these memories or none.
    """

    ids: Annotated[tuple[MemoryId, ...], Field(max_length=limits.WRITES_PER_REQUEST)] = ()
    origin: OutsideOrigin | None = None
    token: Annotated[str, Field(min_length=1, max_length=limits.KEY_CHARS)] | None = None
    whole_space: str | None = None
    reason: Reason = ""
    dry_run: bool = False


class ControlOutcome(StrEnum):
    """Outcome of one memory."""

    CHANGED = "changed"
    UNCHANGED = "unchanged"
    NOT_FOUND = "not_found"


Remaining = Annotated[tuple[str, ...], Field(max_length=limits.WRITES_PER_REQUEST)]


class ControlDecision(Value):
    """One memory and what was done to it."""

    id: str
    outcome: ControlOutcome
    plane: RecallPlane | None = None
    new_id: str | None = None
    reason: str | None = None
    """Why the memory is unchanged; always set if the outcome is `unchanged`."""
    remaining: Remaining = ()
    """For a fact: its other versions, which recall still returns for other times. Name them too if they must go."""

    @model_validator(mode="after")
    def _has_reason(self) -> Self:
        if self.outcome is ControlOutcome.UNCHANGED and not self.reason:
            raise ValueError("is missing: give the reason why the memory is unchanged")
        return self


class MemoryControlReport(Value):
    """Result of a forget, correct or erase, or its preview with `dry_run`.

    For an erasure, `removed` counts removed documents by collection. `derived` lists the memories that rest on erased
    or forgotten messages and remain: name them too if they must go. `token` comes from a dry run by origin, whose
    `decisions` list no more than one request can name.
    """

    space: str
    decisions: tuple[ControlDecision, ...]
    changed: bool
    dry_run: bool = False
    sequence: int = 0
    removed: dict[str, int] = {}
    derived: tuple[str, ...] = ()
    token: str | None = None
    planes: tuple[RecallPlane, ...] = ()
    """Every plane that was changed, or would be."""
    layers: tuple[ErasureLayer, ...] = ()
    """For an erasure on a database server: where the bytes are gone, and where they may remain."""
    other_spaces: tuple[str, ...] = ()
    """For an erased whole space: the same user's further spaces (the gateway's apps and projects), which remain."""
    scrubbed: ScrubbedCounts = {}
