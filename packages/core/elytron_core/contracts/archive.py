"""Archives of a space, and erasures recorded outside the store."""

from enum import StrEnum
from typing import Annotated, Final, Literal, Self

from pydantic import Field, model_validator

from elytron_core import limits
from elytron_core.clock import Instant
from elytron_core.contracts.recall import RecallPlane
from elytron_core.model import Value
from elytron_core.scope import FutureClaims, ScopedRequest, Space

__all__ = [
    "ArchiveWord",
    "ImportMode",
    "MemoryErasuresApplyReport",
    "MemoryErasuresApplyRequest",
    "MemoryErasuresKeepReport",
    "MemoryErasuresKeepRequest",
    "MemoryImportReport",
    "MemoryImportRequest",
    "MemorySpaceExportReport",
    "MemorySpaceExportRequest",
]

ARCHIVE_FORMAT = "elytron.transfer.archive"
ARCHIVE_VERSION = 2
PLAIN_VERSION = 1
"""The version of an archive without blobs, which older versions read too."""

Path = Annotated[str, Field(min_length=1, max_length=4_096, pattern=r"^[^\x00]+$")]


class MemorySpaceExportRequest(ScopedRequest["MemorySpaceExportReport"]):
    """Export the non-private part of the space to the archive file `path`.

    Raw transcripts, chat aliases, links between transcripts and memories, private facts and every other private plane
    are left out, as are the journal and the space's keys. `include_private` includes everything.
    """

    path: Path
    include_private: bool = False
    overwrite: bool = False
    """Replace an existing file, as a whole or not at all."""


class ImportMode(StrEnum):
    """Mode of an import into a space."""

    FULL_RESTORE = "full_restore"
    """Into an empty space: documents and journal come back exactly."""
    BOOTSTRAP = "bootstrap"
    """Into a space that may hold things: turns not yet there, the newest word of each fact and skill."""


class ArchiveWord(StrEnum):
    """Trust in what an archive states about the origin of its memories."""

    KEPT = "kept"
    """Every memory has the authority that the archive names: it comes from the store's operator."""
    CLAIMED = "claimed"
    """The word of an operator, a program or the runtime becomes a claim of an import: it comes from a member."""


class MemoryImportRequest(ScopedRequest["MemoryImportReport"]):
    """Import the archive file `path` into the space. A damaged, foreign or newer archive changes nothing."""

    path: Path
    mode: ImportMode = ImportMode.FULL_RESTORE
    word: ArchiveWord = ArchiveWord.KEPT
    with_agents: bool = False
    """Bring what agents act on too, in a full restore: say so only of an archive from a store of one's own."""
    dry_run: bool = False

    @model_validator(mode="after")
    def _judged(self) -> Self:
        if self.word is ArchiveWord.CLAIMED and self.mode is ImportMode.FULL_RESTORE:
            raise ValueError("word=claimed is not supported in a full restore: use mode=bootstrap")
        if self.with_agents and self.mode is not ImportMode.FULL_RESTORE:
            raise ValueError("with_agents requires the mode full_restore")
        return self


class ArchiveMember(Value):
    """One file inside an archive."""

    name: str
    lines: int
    sha256: str


class ArchiveBlob(Value):
    """The bytes beside a document: the member `blobs/<key>` of an archive."""

    key: str
    size: int
    sha256: str


class ArchiveManifest(Value):
    """The first file of an archive: what it is and what the others must be."""

    format: str = ARCHIVE_FORMAT
    version: int = ARCHIVE_VERSION
    space: str
    sequence: int
    members: tuple[ArchiveMember, ...]
    blobs: tuple[ArchiveBlob, ...] = ()
    state_fingerprint: str
    event_fingerprint: str
    include_private: bool = True
    """True if it has the whole space; another one can be added to a space, not restored into one."""


class MemorySpaceExportReport(Value):
    """Contents of an archive, and what was left out, by collection."""

    space: str
    path: str
    size_bytes: int
    include_private: bool
    documents: dict[str, int]
    redacted: dict[str, int]
    entries: int
    blobs: int = 0
    state_fingerprint: str
    event_fingerprint: str
    other_spaces: tuple[str, ...] = ()
    """Further spaces of the same user, for apps and projects of the gateway, which are not in this archive."""


class MemoryImportReport(Value):
    """Result of an import, or with `dry_run` its preview."""

    space: str
    mode: ImportMode
    contents: dict[str, int] = {}
    """Documents that the archive holds, by collection."""
    imported: dict[str, int]
    skipped: dict[str, int]
    deleted: dict[str, int] = {}
    """Facts here that the archive superseded."""
    left_out: dict[str, int] = {}
    """Documents that mode `bootstrap` does not bring, by collection; `messages` are hidden ones of other turns."""
    blobs: int = 0
    """Number of files restored with their bytes; a full restore brings all, bootstrap none."""
    changed: bool
    dry_run: bool = False
    sequence: int = 0
    state_fingerprint: str = ""
    future_claims: FutureClaims = ()


ERASURES_FORMAT: Final = "elytron.erasure.reapplication"
Key = Annotated[str, Field(min_length=1, max_length=limits.KEY_CHARS, pattern=r"^[0-9a-f.-]+$")]


class MemoryErasuresKeepRequest(ScopedRequest["MemoryErasuresKeepReport"]):
    """Add the space's erasures to the file `path`, which may list those of other spaces too.

    The file has no content, only ids and names of spaces. With `whole_space`, which repeats the space's name, it
    records that the space itself was erased; the space must already be in it.
    """

    path: Path
    whole_space: str | None = None


class MemoryErasuresKeepReport(Value):
    """Number of erased memories of each plane in the file, or that the whole space was erased."""

    space: str
    path: str
    erased: dict[RecallPlane, int] = {}
    is_whole: bool = False


class MemoryErasuresApplyRequest(ScopedRequest["MemoryErasuresApplyReport"]):
    """Re-apply to the space the erasures that the file `path` lists. Repeating it is harmless.

    Documents since rewritten under the same id stay, as does another space of the same name.
    """

    path: Path
    dry_run: bool = False


class ErasuresOutcome(StrEnum):
    """Outcome of the erasures that a file lists for a space."""

    APPLIED = "applied"
    NOTHING = "nothing"
    """All of it is gone, or the file has nothing of this space."""
    WRITTEN_SINCE = "written_since"
    """The whole space was to go, but was written to after it was put back: erase it, or what of it must go."""


class MemoryErasuresApplyReport(Value):
    """Memories re-erased, or to be erased with `dry_run`, by plane."""

    space: str
    outcome: ErasuresOutcome
    erased: dict[RecallPlane, int] = {}
    changed: bool
    dry_run: bool = False


class ErasuresHead(Value):
    """The first line of a file of erasures: what it is, and how many lines follow."""

    format: Literal["elytron.erasure.reapplication"] = ERASURES_FORMAT
    version: Literal[1] = 1
    lines: Annotated[int, Field(ge=0)]


class ErasedSpace(Value):
    """The space of the following lines, by its name and a tag of its secret."""

    space: Space
    identity: Key
    whole_at: Instant | None = None
    """When all of it had been erased."""


class ErasedMemory(Value):
    """A document that was erased, or one message of a turn; what was written to it after `at` is another."""

    collection: Annotated[str, Field(max_length=limits.COLLECTION_CHARS)]
    key: Key
    part: Annotated[int, Field(ge=0)] | None = None
    at: Instant
