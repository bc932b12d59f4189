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
"""Version of an archive without blobs, which older builds can read too."""

Path = Annotated[str, Field(min_length=1, max_length=4_096, pattern=r"^[^\x00]+$")]


class MemorySpaceExportRequest(ScopedRequest["MemorySpaceExportReport"]):
    """Export the non-private part of the space to the archive file `path`.

    Raw transcripts, chat aliases, links between transcripts and memories, private facts and every other private plane
    are left out, as are the journal and the space's keys. `include_private` includes everything.
    """

    path: Path
    include_private: bool = False
    overwrite: bool = False
    """Replace an existing file atomically."""


class ImportMode(StrEnum):
    """Mode of an import into a space."""

    FULL_RESTORE = "full_restore"
    """Into an empty space: documents and journal are restored exactly."""
    BOOTSTRAP = "bootstrap"
    """Into a space with contents: add missing turns and the newest version of each fact and skill."""


class ArchiveWord(StrEnum):
    """Trust in an archive's claims about the origin of its memories."""

    KEPT = "kept"
    """Memories get the authority that the archive names, because it comes from the store's operator."""
    CLAIMED = "claimed"
    """The authority of an operator, a program or the runtime is lowered to an import's claim: the archive comes from a
    member."""


class MemoryImportRequest(ScopedRequest["MemoryImportReport"]):
    """Import the archive file `path` into the space. A damaged, foreign or newer archive changes nothing."""

    path: Path
    mode: ImportMode = ImportMode.FULL_RESTORE
    word: ArchiveWord = ArchiveWord.KEPT
    with_agents: bool = False
    """Also restore what agents act on in a full restore. Use it only for an archive from your own store."""
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
    """Bytes stored with a document: the member `blobs/<key>` of an archive."""

    key: str
    size: int
    sha256: str


class ArchiveManifest(Value):
    """The first file of an archive: its kind, and the other files that it must contain."""

    format: str = ARCHIVE_FORMAT
    version: int = ARCHIVE_VERSION
    space: str
    sequence: int
    members: tuple[ArchiveMember, ...]
    blobs: tuple[ArchiveBlob, ...] = ()
    state_fingerprint: str
    event_fingerprint: str
    include_private: bool = True
    """True if it contains the whole space; any other archive can be merged into a space, but not restored into one."""


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
    """Further spaces of the same user (the gateway's apps and projects) that this archive does not contain."""


class MemoryImportReport(Value):
    """Result of an import, or with `dry_run` its preview."""

    space: str
    mode: ImportMode
    contents: dict[str, int] = {}
    """Documents in the archive, by collection."""
    imported: dict[str, int]
    skipped: dict[str, int]
    deleted: dict[str, int] = {}
    """Facts of this space that the archive superseded."""
    left_out: dict[str, int] = {}
    """Documents that mode `bootstrap` does not import, by collection; `messages` counts hidden messages of other
    turns."""
    blobs: int = 0
    """Number of files restored with their bytes; a full restore restores all of them, bootstrap none."""
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
    """All of it is gone, or the file lists nothing for this space."""
    WRITTEN_SINCE = "written_since"
    """The whole space should be erased, but it was written to after the restore: erase it, or the parts that must
    go."""


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
    """The space that the following lines belong to, by its name and a tag of its secret."""

    space: Space
    identity: Key
    whole_at: Instant | None = None
    """When the whole space was erased."""


class ErasedMemory(Value):
    """An erased document, or one erased message of a turn. Content written to it after `at` is not affected."""

    collection: Annotated[str, Field(max_length=limits.COLLECTION_CHARS)]
    key: Key
    part: Annotated[int, Field(ge=0)] | None = None
    at: Instant
