"""The file of erasures: JSON Lines, a head, then each space and behind it what was erased in it. Never content."""

import os
import tempfile
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, NamedTuple

from elytron.documents.planes import PLANES
from elytron_core import limits, strict_json
from elytron_core.canonical import canonical_bytes
from elytron_core.clock import Instant
from elytron_core.contracts.admin.erasures import ErasedMemory, ErasedSpace, ErasuresHead
from elytron_core.contracts.knowledge.recall import Plane
from elytron_core.errors import InvalidInput, LimitExceeded, StoreUnavailable, UnreadableFile
from elytron_core.ids import SpaceId
from elytron_core.planes.admin.access import ACCESS_KEYS
from elytron_core.planes.admin.gateway import KEYS, USERS
from elytron_core.ports.store import Ref

_TOLD = frozenset({*PLANES, USERS, KEYS, ACCESS_KEYS})
"""The collections of a file: memories, and the keys and users of the system space."""


class Erased(NamedTuple):
    """A whole document, or one message of a turn."""

    ref: Ref
    part: int | None = None


@dataclass(slots=True)
class SpaceErasures:
    """Erasures in one space, each with the time of the last word that was erased."""

    space: SpaceId
    identity: str
    whole_at: Instant | None = None
    memories: dict[Erased, Instant] = field(default_factory=dict[Erased, Instant])

    def add(self, erased: Erased, at: Instant, /) -> None:
        self.memories[erased] = max(at, self.memories.get(erased, at))

    def by_plane(self) -> dict[Plane, int]:
        """Count documents, and messages of turns that were not erased as a whole."""
        counted = (
            erased.ref for erased in self.memories if erased.part is None or Erased(erased.ref) not in self.memories
        )
        return dict(Counter(PLANES[ref.collection] for ref in counted if ref.collection in PLANES))


class Erasures:
    """A file's erasures of each space: by its name, and by a tag of its secret, for a name may be another's."""

    def __init__(self) -> None:
        self._told: dict[tuple[SpaceId, str], SpaceErasures] = {}

    @property
    def spaces(self) -> tuple[SpaceErasures, ...]:
        return tuple(self._told.values())

    def of(self, space: SpaceId, identity: str, /) -> SpaceErasures:
        """Return a space's erasures, to which more can be added."""
        return self._told.setdefault((space, identity), SpaceErasures(space, identity))

    def find(self, space: SpaceId, identity: str, /) -> SpaceErasures | None:
        """Return the erasures of a space, or of the one that it was restored from under another name."""
        known = self._told.get((space, identity))
        return known or next((told for told in self._told.values() if told.identity == identity), None)


def read_erasures(path: Path, /) -> Erasures:
    """Return the file's erasures. Raises UnreadableFile for another kind of file, one cut off, or a wrong line."""
    try:
        with path.open("rb") as file:
            return _read(path.name, file)
    except (OSError, ValueError) as error:
        raise UnreadableFile(name=path.name, problem="cannot be opened") from error


def known_erasures(path: Path, /) -> Erasures:
    """Return the file's erasures; empty if there is no file yet. Raises UnreadableFile."""
    # Asked of `os`, which has a no also for what may not be looked at.
    return read_erasures(path) if os.path.exists(path) else Erasures()  # noqa: PTH110


def write_erasures(path: Path, erasures: Erasures, /) -> None:
    """Leave `erasures` in a file that its owner alone may read, in place of what was there: whole, or not at all."""
    lines = list(_lines(erasures))
    if len(lines) > limits.ERASURES_LINES:
        raise LimitExceeded(what="lines in a file of erasures", limit=limits.ERASURES_LINES, found=len(lines))
    beside = ""
    try:
        number, beside = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
        with os.fdopen(number, "wb") as file:
            file.write(canonical_bytes(ErasuresHead(lines=len(lines))) + b"\n")
            file.writelines(lines)
            file.flush()
            os.fsync(file.fileno())
        Path(beside).replace(path)
    except (OSError, ValueError) as error:
        if beside:
            Path(beside).unlink(missing_ok=True)
        raise StoreUnavailable(f"cannot write {path.name!r}: name a file in a folder of yours") from error


def _lines(erasures: Erasures) -> Iterator[bytes]:
    for told in erasures.spaces:
        yield ErasedSpace(space=told.space, identity=told.identity, whole_at=told.whole_at).to_bytes() + b"\n"
        for ((collection, key), part), at in told.memories.items():
            yield ErasedMemory(collection=collection, key=key, part=part, at=at).to_bytes() + b"\n"


def _read(name: str, file: IO[bytes]) -> Erasures:
    found = Erasures()
    current: SpaceErasures | None = None
    count = -1
    expected = 0
    while data := file.readline(limits.ERASURES_LINE_BYTES + 1):
        count += 1
        if count > limits.ERASURES_LINES or not data.endswith(b"\n"):
            raise UnreadableFile(name=name, problem="is no file of erasures, or is cut off")
        try:
            told = strict_json.parse(data, limit=limits.ERASURES_LINE_BYTES)
            if count == 0:
                expected = ErasuresHead.model_validate(told).lines
            elif isinstance(told, dict) and "identity" in told:
                line = ErasedSpace.model_validate(told)
                current = found.of(line.space, line.identity)
                current.whole_at = line.whole_at
            else:
                _tell(current, ErasedMemory.model_validate(told))
        except (InvalidInput, ValueError):
            raise UnreadableFile(name=name, problem=f"holds no erasure in line {count + 1}") from None
    if count != expected:
        raise UnreadableFile(name=name, problem="is no file of erasures, or is cut off")
    return found


def _tell(space: SpaceErasures | None, line: ErasedMemory) -> None:
    if space is None or line.collection not in _TOLD:
        raise ValueError("a line that belongs to no space or plane")
    space.add(Erased(Ref(line.collection, line.key), line.part), line.at)
