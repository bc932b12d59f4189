"""The store port's values on the wire: JSON, bytes in base64; blobs as frames."""

from collections.abc import AsyncIterable, AsyncIterator
from typing import Generic, TypeVar

from pydantic import ConfigDict

from elytron_core.errors import Unreachable
from elytron_core.ids import SpaceId
from elytron_core.model import Value
from elytron_core.ports.store import (
    Batch,
    CheckReport,
    Committed,
    Document,
    Erased,
    Erasure,
    JournalEntry,
    Ref,
    Run,
)

AnswerT = TypeVar("AnswerT", bound=Value)
PREFIX = "/v1/store"
BLOBS = f"{PREFIX}/blobs"
FRAMES = "application/vnd.elytron.frames"
CHUNK, PROBLEM, END = b"C", b"P", b"Z"
_HEAD_BYTES = 5


class Wire(Value):
    """A value of the wire; bytes in it are base64."""

    model_config = ConfigDict(ser_json_bytes="base64", val_json_bytes="base64")


class CommitCall(Wire):
    batch: Batch


class CommitAnswer(Wire):
    committed: Committed


class GetCall(Wire):
    space: SpaceId
    refs: tuple[Ref, ...]


class GetAnswer(Wire):
    documents: tuple[Document | None, ...]


class ScanCall(Wire):
    space: SpaceId
    collection: str
    prefix: str = ""
    after: str = ""
    limit: int
    descending: bool = False


class ScanAnswer(Wire):
    documents: tuple[Document, ...]


class JournalCall(Wire):
    space: SpaceId
    after: int
    limit: int


class JournalAnswer(Wire):
    entries: tuple[JournalEntry, ...]


class CompactCall(Wire):
    space: SpaceId
    runs: tuple[Run, ...]


class CompactAnswer(Wire):
    entries: int


class SpacesCall(Wire):
    after: str = ""
    limit: int


class SpacesAnswer(Wire):
    spaces: tuple[SpaceId, ...]


class EraseCall(Wire):
    erasure: Erasure


class EraseAnswer(Wire):
    erased: Erased


class HealthCall(Wire):
    """Ask for a check, or a repair; both take no more."""


class HealthAnswer(Wire):
    report: CheckReport


class BlobAnswer(Wire):
    size: int


class Route(Generic[AnswerT]):
    """One method of the port as a route: its path, what it takes and gives."""

    def __init__(self, name: str, taken: type[Wire], given: type[AnswerT], /) -> None:
        self.name = name
        self.path = f"{PREFIX}/{name}"
        self.taken = taken
        self.given = given


COMMIT = Route("commit", CommitCall, CommitAnswer)
GET = Route("get", GetCall, GetAnswer)
SCAN = Route("scan", ScanCall, ScanAnswer)
JOURNAL = Route("journal", JournalCall, JournalAnswer)
COMPACT = Route("compact", CompactCall, CompactAnswer)
SPACES = Route("spaces", SpacesCall, SpacesAnswer)
ERASE = Route("erase", EraseCall, EraseAnswer)
CHECK = Route("check", HealthCall, HealthAnswer)
REPAIR = Route("repair", HealthCall, HealthAnswer)


def frame(kind: bytes, data: bytes = b"", /) -> bytes:
    """Return a frame: what it is, how long it is, and its bytes."""
    return kind + len(data).to_bytes(4, "big") + data


async def frames(chunks: AsyncIterable[bytes], /) -> AsyncIterator[tuple[bytes, bytes]]:
    """Yield the frames in a stream of bytes. Raises Unreachable where it ends within one, or without an end."""
    held = bytearray()
    async for chunk in chunks:
        held += chunk
        while len(held) >= _HEAD_BYTES:
            size = _HEAD_BYTES + int.from_bytes(held[1:_HEAD_BYTES], "big")
            if len(held) < size:
                break
            kind, data = bytes(held[:1]), bytes(held[_HEAD_BYTES:size])
            del held[:size]
            yield kind, data
            if kind == END:
                return
    raise Unreachable("the server that holds the store stopped in the middle of a blob")
