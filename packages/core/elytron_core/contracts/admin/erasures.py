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
    """Write what was erased in the space to the file `path`, beside what stands there of it and of other spaces.

    The file holds no content: ids, and the names of spaces. With `whole_space`, which repeats the space's name, it is
    told that the space itself was erased; it must know the space from before.
    """

    path: Path
    whole_space: str | None = None


class MemoryErasuresKeepReport(Value):
    """How many memories of each plane the file now tells of as erased in the space, or that all of it was."""

    space: str
    path: str
    erased: dict[Plane, int] = {}
    is_whole: bool = False


class MemoryErasuresApplyRequest(ScopedRequest):
    """Erase in the space what the file `path` tells was erased in it, and is there again. Doing it twice is harmless.

    What was written anew under the same id since stays, and so does a space that only has the name of one.
    """

    path: Path
    dry_run: bool = False


class ErasuresOutcome(StrEnum):
    """What became of the erasures that a file tells of a space."""

    APPLIED = "applied"
    NOTHING = "nothing"
    """All of it is gone, or the file tells nothing of this space."""
    WRITTEN_SINCE = "written_since"
    """The whole space was to go, but was written to after it was put back: erase it, or what of it must go."""


class MemoryErasuresApplyReport(Value):
    """What was erased again, or with `dry_run` would be, by plane."""

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
    """A space that the following lines tell of, by its name and by what stands for its secret."""

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
