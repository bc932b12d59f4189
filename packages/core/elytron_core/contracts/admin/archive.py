"""Export and import of a space as one archive file."""

from enum import StrEnum
from typing import Annotated, Self

from pydantic import Field, model_validator

from elytron_core.contracts.scope_fields import ScopedRequest
from elytron_core.model import Value

ARCHIVE_FORMAT = "elytron.transfer.archive"
ARCHIVE_VERSION = 2
PLAIN_VERSION = 1
"""The version of an archive without blobs, which older versions read too."""

Path = Annotated[str, Field(min_length=1, max_length=4_096, pattern=r"^[^\x00]+$")]


class MemorySpaceExportRequest(ScopedRequest):
    """Write what of the space may leave its owner's hands to the archive file `path`.

    Raw transcripts, chat aliases, links between transcripts and memories, private facts and every other private plane
    stay out, and so do the journal and the space's keys. With `include_private`, everything goes in.
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
    """Trust in an archive's statements of its memories' origin."""

    KEPT = "kept"
    """Every memory has the authority that the archive names: it comes from the store's operator."""
    CLAIMED = "claimed"
    """The word of an operator, a program or the runtime becomes a claim of an import: it comes from a member."""


class MemoryImportRequest(ScopedRequest):
    """Read the archive file `path` into the space. A damaged, foreign or newer archive changes nothing."""

    path: Path
    mode: ImportMode = ImportMode.FULL_RESTORE
    word: ArchiveWord = ArchiveWord.KEPT
    with_agents: bool = False
    """Bring what agents act on too, in a full restore: say so only of an archive from a store of one's own."""
    dry_run: bool = False

    @model_validator(mode="after")
    def _judged(self) -> Self:
        if self.word is ArchiveWord.CLAIMED and self.mode is ImportMode.FULL_RESTORE:
            raise ValueError("a full restore judges nothing: take the mode bootstrap for an archive of claims")
        if self.with_agents and self.mode is not ImportMode.FULL_RESTORE:
            raise ValueError("what agents act on comes whole: with_agents needs the mode full_restore")
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
    """Contents of an archive, and by collection what was left out."""

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


class MemoryImportReport(Value):
    """Result of an import, or with `dry_run` its preview."""

    space: str
    mode: ImportMode
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
