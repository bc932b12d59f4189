"""The store port's values on the wire: JSON, bytes in base64; blobs as frames."""

from collections.abc import AsyncIterable, AsyncIterator, Awaitable, Callable, Iterable
from dataclasses import dataclass, replace
from typing import Any, Generic, TypeVar

from pydantic import ConfigDict

from elytron_core.errors import PermissionRefused, Unreachable
from elytron_core.ids import SpaceId, is_reserved
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
    Store,
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


@dataclass(frozen=True, slots=True)
class Wall:
    """The spaces of a caller: `only` one, or every space. `opened` returns a space, or raises what refuses it.

    `closed` are collections that no caller changes. An erasure may name documents in them that are `removable`, which
    returns these of a space: then it takes them all, so that none is left out by choice.
    """

    only: SpaceId | None
    opened: Callable[[str], SpaceId]
    closed: frozenset[str] = frozenset()
    removable: Callable[[SpaceId], Awaitable[tuple[Ref, ...]]] | None = None

    def require_open(self, refs: Iterable[Ref], /) -> None:
        """Raise PermissionRefused for documents of a closed collection."""
        if any(ref.collection in self.closed for ref in refs):
            raise PermissionRefused("the runtime's own records are written by no other: leave them out")


Handler = Callable[[Store, Wall, Any], Awaitable[Wire]]


async def _commit(store: Store, wall: Wall, call: CommitCall) -> Wire:
    wall.opened(call.batch.space)
    batch = call.batch
    wall.require_open(each.ref for each in (*batch.puts, *batch.deletes, *batch.entries))
    return CommitAnswer(committed=await store.commit(call.batch))


async def _get(store: Store, wall: Wall, call: GetCall) -> Wire:
    return GetAnswer(documents=tuple(await store.get(wall.opened(call.space), call.refs)))


async def _scan(store: Store, wall: Wall, call: ScanCall) -> Wire:
    documents = await store.scan(
        wall.opened(call.space),
        call.collection,
        prefix=call.prefix,
        after=call.after,
        limit=call.limit,
        descending=call.descending,
    )
    return ScanAnswer(documents=tuple(documents))


async def _journal(store: Store, wall: Wall, call: JournalCall) -> Wire:
    entries = await store.journal(wall.opened(call.space), after=call.after, limit=call.limit)
    return JournalAnswer(entries=tuple(entries))


async def _compact(store: Store, wall: Wall, call: CompactCall) -> Wire:
    return CompactAnswer(entries=await store.compact(wall.opened(call.space), call.runs))


async def _spaces(store: Store, wall: Wall, call: SpacesCall) -> Wire:
    if wall.only is None:
        found = await store.spaces(after=call.after, limit=call.limit)
        return SpacesAnswer(spaces=tuple(space for space in found if not is_reserved(space)))
    holds = call.after == "" and bool(await store.journal(wall.only, after=0, limit=1))
    return SpacesAnswer(spaces=(wall.only,) if holds else ())


async def _erase(store: Store, wall: Wall, call: EraseCall) -> Wire:
    wall.opened(call.erasure.space)
    return EraseAnswer(erased=await store.erase(await _walled(wall, call.erasure)))


async def _walled(wall: Wall, erasure: Erasure) -> Erasure:
    """Return `erasure`, with all that is removable in closed collections if it names some. Raises PermissionRefused."""
    named = {ref for ref in erasure.refs if ref.collection in wall.closed}
    if not named or wall.removable is None:
        wall.require_open(named)
        return erasure
    removable = await wall.removable(erasure.space)
    wall.require_open(named.difference(removable))
    return replace(erasure, refs=tuple(dict.fromkeys((*erasure.refs, *removable))))


async def _check(store: Store, _wall: Wall, _call: HealthCall) -> Wire:
    return HealthAnswer(report=await store.check())


async def _repair(store: Store, _wall: Wall, _call: HealthCall) -> Wire:
    return HealthAnswer(report=await store.repair())


ANSWERS: tuple[tuple[Route[Any], Handler], ...] = (
    (COMMIT, _commit),
    (GET, _get),
    (SCAN, _scan),
    (JOURNAL, _journal),
    (COMPACT, _compact),
    (SPACES, _spaces),
    (ERASE, _erase),
)
"""The routes of a caller's own spaces."""
HEALTH_ANSWERS: tuple[tuple[Route[Any], Handler], ...] = ((CHECK, _check), (REPAIR, _repair))
"""The routes of the whole store, which are an operator's."""
