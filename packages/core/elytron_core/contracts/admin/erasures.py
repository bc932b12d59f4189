"""Erasures kept outside of the store: what a copy of it that is put back has to lose again."""

from enum import StrEnum
from typing import Annotated, Final, Literal

from pydantic import Field

from elytron_core import limits
from elytron_core.clock import Instant
from elytron_core.contracts.admin.archive import Path
from elytron_core.contracts.knowledge.recall import Plane
from elytron_core.contracts.scope_fields import ScopedRequest
from elytron_core.model import Value
from elytron_core.scope import Space

ERASURES_FORMAT: Final = "elytron.erasure.log_file"
Key = Annotated[str, Field(min_length=1, max_length=limits.KEY_CHARS, pattern=r"^[0-9a-f.-]+$")]


class MemoryErasuresKeepRequest(ScopedRequest):
    """Write the space's erasures to the file `path`, beside those already there of it and of other spaces.

    The file holds no content: ids, and the names of spaces. With `whole_space`, which repeats the space's name, it
    records that the space itself was erased; it must have the space already.
    """

    path: Path
    whole_space: str | None = None


class MemoryErasuresKeepReport(Value):
    """Number of erased memories of each plane in the file, or that the whole space was erased."""

    space: str
    path: str
    erased: dict[Plane, int] = {}
    is_whole: bool = False


class MemoryErasuresApplyRequest(ScopedRequest):
    """Erase in the space what the file `path` lists as erased and is there again. Doing it twice is harmless.

    Documents written again under the same id since stay, and so does another space of the same name.
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
    """Memories erased again, or with `dry_run` to erase, by plane."""

    space: str
    outcome: ErasuresOutcome
    erased: dict[Plane, int] = {}
    changed: bool
    dry_run: bool = False


class ErasuresHead(Value):
    """The first line of a file of erasures: what it is, and how many lines follow."""

    format: Literal["elytron.erasure.log_file"] = ERASURES_FORMAT
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
