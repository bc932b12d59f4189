"""The manifest of a store; everything must match at open, or the open refuses with the way out."""

from pathlib import Path
from stat import S_ISDIR
from typing import Annotated, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from elytron_core.clock import Instant
from elytron_core.errors import StoreForeign, StoreNewer
from elytron_core.profiles import ProfileName
from elytron_core.strict_json import canonical_bytes

SCHEMA_VERSION = 2
"""Of all engines. 1: a file store has no marks of the spaces with unfinished jobs."""
DEFAULT_PROFILE = "server-linux-dev-full"
_UNREADABLE = "this is not an elytron store: its manifest cannot be read"


class StoreManifest(BaseModel):
    """Schema, engine, profile and kind of a store. `sealed` stores hold ciphertext only."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    schema_name: Literal["elytron.store"] = "elytron.store"
    schema_version: int = SCHEMA_VERSION
    engine: str
    profile: str = DEFAULT_PROFILE
    memory_system: str = "elytron.memory"
    sealed: bool = False
    created_at: Instant
    opened_at: Instant

    @classmethod
    def fresh(cls, engine: str, /, *, at: Instant, profile: str | None = None, sealed: bool = False) -> Self:
        """Return the manifest of a store that is created at `at`."""
        profile = profile or DEFAULT_PROFILE
        return cls(engine=engine, profile=profile, sealed=sealed, created_at=at, opened_at=at)

    def to_bytes(self) -> bytes:
        """Return the canonical bytes to store."""
        return canonical_bytes(self)


class _ManifestHead(BaseModel):
    """Fields in the manifest of every version."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    schema_name: Literal["elytron.store"]
    schema_version: Annotated[int, Field(ge=1, strict=True)]


def read_manifest(data: bytes, /) -> StoreManifest:
    """Return the manifest in `data`. Raises StoreNewer for a newer schema, StoreForeign for anything else's."""
    try:
        version = _ManifestHead.model_validate_json(data).schema_version
        if version > SCHEMA_VERSION:  # checked before parsing the rest, which may have any form
            raise StoreNewer(found=version, known=SCHEMA_VERSION)
        manifest = StoreManifest.model_validate_json(data)
    except ValidationError:
        raise StoreForeign(_UNREADABLE) from None
    if manifest.model_fields_set < StoreManifest.model_fields.keys():
        raise StoreForeign(_UNREADABLE)  # a default may be wrong for a store whose field is lost
    return manifest


def known_manifest(data: bytes, /, *, engine: str) -> StoreManifest | None:
    """Return the manifest in `data`, None if it is unreadable, or names another engine or an unknown profile.

    A repair then writes a new one. Raises StoreNewer.
    """
    try:
        manifest = read_manifest(data)
        ProfileName(manifest.profile)
    except (StoreForeign, ValueError):
        return None
    return manifest if manifest.engine == engine else None


def require_match(manifest: StoreManifest, /, *, engine: str, profile: str | None, sealed: bool) -> None:
    """Raise StoreForeign unless `manifest` is of this engine, sealing and profile: the full one if none is named."""
    if manifest.memory_system != "elytron.memory":
        raise StoreForeign(f"this store belongs to the memory system {manifest.memory_system!r}, not to elytron")
    if manifest.engine != engine:
        raise StoreForeign(f"this is a {manifest.engine!r} store: open it with that engine's URL, not as {engine!r}")
    if manifest.sealed and not sealed:
        raise StoreForeign("this store is sealed: open it with its key (--key-file, ELYTRON_KEY_FILE or keys=)")
    if sealed and not manifest.sealed:
        raise StoreForeign("this store is not sealed: open it without a key, or export it into a sealed one")
    name = f"{profile or DEFAULT_PROFILE}"
    if manifest.profile != name:
        reason = f"this store was created for profile {manifest.profile!r}: open it with that profile, not {name!r}"
        raise StoreForeign(reason, profile=manifest.profile)


def is_there(path: Path, /) -> bool:
    """Return whether anything is at `path`. Raises OSError if that cannot be read, ValueError for a NUL in it."""
    return bool(_path_mode(path))


def is_folder(path: Path, /) -> bool:
    """Return whether a folder is at `path`. Raises OSError if that cannot be read, ValueError for a NUL in it."""
    return S_ISDIR(_path_mode(path))


def _path_mode(path: Path) -> int:
    """Return the mode of the entry at `path`, 0 if there is none."""
    try:
        return path.stat().st_mode
    except (FileNotFoundError, NotADirectoryError):
        return 0
