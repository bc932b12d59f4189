"""The store port over HTTP, under its user's key: a space, or a whole store, on an Elytron server.

Nothing is buffered: what returned is durable there. Values are JSON on the wire, bytes in base64, blobs are frames.
"""

import asyncio
from collections.abc import AsyncIterable, AsyncIterator, Awaitable, Callable, Generator, Iterable, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final, Generic, TypeVar

from pydantic import ConfigDict, ValidationError

from elytron_core import limits
from elytron_core.errors import ElytronError, PermissionRefused, Unreachable
from elytron_core.errors.tree import error_of
from elytron_core.ids import SpaceId, is_reserved
from elytron_core.model import Value
from elytron_core.ports.store import (
    Batch,
    CommitReceipt,
    CompactedRun,
    Document,
    DocumentRef,
    ErasureReceipt,
    ErasureTarget,
    JournalEntry,
    Store,
)
from elytron_core.ports.store_checks import CheckReport
from elytron_core.profiles import ErasurePromise, StoreCapabilities
from elytron_outbound.answers import request_within
from elytron_outbound.clients import ClientSettings, http_client
from elytron_store.engine import DocumentPage, Engine

if TYPE_CHECKING:
    import httpx

GATEWAY_ANSWER_BYTES: Final = 512 * 1024 * 1024
"""An answer of a server that shares its store: a page of documents may have many large ones."""


AnswerT = TypeVar("AnswerT", bound=Value)
PREFIX = "/v1/store"
BLOBS = f"{PREFIX}/blobs"
FRAMES = "application/vnd.elytron.frames"
CHUNK, PROBLEM, END = b"C", b"P", b"Z"
_HEAD_BYTES = 5


class WireValue(Value):
    """A value of the wire; bytes in it are base64."""

    model_config = ConfigDict(ser_json_bytes="base64", val_json_bytes="base64")


class CommitCall(WireValue):
    batch: Batch


class CommitAnswer(WireValue):
    committed: CommitReceipt


class GetCall(WireValue):
    space: SpaceId
    refs: tuple[DocumentRef, ...]


class GetAnswer(WireValue):
    documents: tuple[Document | None, ...]


class ScanCall(WireValue):
    space: SpaceId
    collection: str
    prefix: str = ""
    after: str = ""
    limit: int
    descending: bool = False


class ScanAnswer(WireValue):
    documents: tuple[Document, ...]


class JournalCall(WireValue):
    space: SpaceId
    after: int
    limit: int


class JournalAnswer(WireValue):
    entries: tuple[JournalEntry, ...]


class CompactCall(WireValue):
    space: SpaceId
    runs: tuple[CompactedRun, ...]


class CompactAnswer(WireValue):
    entries: int


class SpacesCall(WireValue):
    after: str = ""
    limit: int


class SpacesAnswer(WireValue):
    spaces: tuple[SpaceId, ...]


class EraseCall(WireValue):
    erasure: ErasureTarget


class EraseAnswer(WireValue):
    erased: ErasureReceipt


class HealthCall(WireValue):
    """Request for a check or a repair, which have no other arguments."""


class StoreHealthAnswer(WireValue):
    report: CheckReport


class BlobAnswer(WireValue):
    size: int


@dataclass(frozen=True, slots=True)
class PortCall(Generic[AnswerT]):
    """One method of the port on the wire: its name, request type and answer type."""

    name: str
    request: type[WireValue]
    answer: type[AnswerT]

    @property
    def path(self) -> str:
        return f"{PREFIX}/{self.name}"


COMMIT = PortCall("commit", CommitCall, CommitAnswer)
GET = PortCall("get", GetCall, GetAnswer)
SCAN = PortCall("scan", ScanCall, ScanAnswer)
JOURNAL = PortCall("journal", JournalCall, JournalAnswer)
COMPACT = PortCall("compact", CompactCall, CompactAnswer)
SPACES = PortCall("spaces", SpacesCall, SpacesAnswer)
ERASE = PortCall("erase", EraseCall, EraseAnswer)
CHECK = PortCall("check", HealthCall, StoreHealthAnswer)
REPAIR = PortCall("repair", HealthCall, StoreHealthAnswer)


def encode_frame(kind: bytes, data: bytes = b"", /) -> bytes:
    """Return a frame: its type, its length, and its bytes."""
    return kind + len(data).to_bytes(4, "big") + data


async def decode_frames(chunks: AsyncIterable[bytes], /) -> AsyncIterator[tuple[bytes, bytes]]:
    """Yield the frames in a stream of bytes. Raises Unreachable if it ends within one, or without an end frame."""
    buffer = bytearray()
    async for chunk in chunks:
        buffer += chunk
        while len(buffer) >= _HEAD_BYTES:
            frame_size = _HEAD_BYTES + int.from_bytes(buffer[1:_HEAD_BYTES], "big")
            if len(buffer) < frame_size:
                break
            kind, data = bytes(buffer[:1]), bytes(buffer[_HEAD_BYTES:frame_size])
            del buffer[:frame_size]
            yield kind, data
            if kind == END:
                return
    raise Unreachable("the store's server stopped in the middle of a blob")


@dataclass(frozen=True, slots=True)
class SpaceAccess:
    """The spaces of a caller: `only` one, or every space. `opened` returns a space, or raises the refusal.

    `closed` are collections that no caller changes. An erasure may name documents in them that `removable` returns for
    a space; it then removes all of them, so that a caller cannot omit any.
    """

    only: SpaceId | None
    opened: Callable[[str], SpaceId]
    closed: frozenset[str] = frozenset()
    removable: Callable[[SpaceId], Awaitable[tuple[DocumentRef, ...]]] | None = None

    def require_open(self, refs: Iterable[DocumentRef], /) -> None:
        """Raise PermissionRefused for documents of a closed collection."""
        if any(ref.collection in self.closed for ref in refs):
            raise PermissionRefused("the runtime's own records cannot be written by others: leave them out")


Handler = Callable[[Store, SpaceAccess, Any], Awaitable[WireValue]]


async def _serve_commit(store: Store, space_access: SpaceAccess, call: CommitCall) -> WireValue:
    space_access.opened(call.batch.space)
    batch = call.batch
    space_access.require_open(each.ref for each in (*batch.puts, *batch.deletes, *batch.entries))
    return CommitAnswer(committed=await store.commit(call.batch))


async def _serve_get(store: Store, space_access: SpaceAccess, call: GetCall) -> WireValue:
    return GetAnswer(documents=tuple(await store.get(space_access.opened(call.space), call.refs)))


async def _serve_scan(store: Store, space_access: SpaceAccess, call: ScanCall) -> WireValue:
    documents = await store.scan(
        space_access.opened(call.space),
        call.collection,
        prefix=call.prefix,
        after=call.after,
        limit=call.limit,
        descending=call.descending,
    )
    return ScanAnswer(documents=tuple(documents))


async def _serve_journal(store: Store, space_access: SpaceAccess, call: JournalCall) -> WireValue:
    entries = await store.journal(space_access.opened(call.space), after=call.after, limit=call.limit)
    return JournalAnswer(entries=tuple(entries))


async def _serve_compact(store: Store, space_access: SpaceAccess, call: CompactCall) -> WireValue:
    return CompactAnswer(entries=await store.compact(space_access.opened(call.space), call.runs))


async def _serve_spaces(store: Store, space_access: SpaceAccess, call: SpacesCall) -> WireValue:
    if space_access.only is None:
        spaces = await store.spaces(after=call.after, limit=call.limit)
        return SpacesAnswer(spaces=tuple(space for space in spaces if not is_reserved(space)))
    holds_only_space = call.after == "" and bool(await store.journal(space_access.only, after=0, limit=1))
    return SpacesAnswer(spaces=(space_access.only,) if holds_only_space else ())


async def _serve_erase(store: Store, space_access: SpaceAccess, call: EraseCall) -> WireValue:
    space_access.opened(call.erasure.space)
    # The caller decides what is named, because the caller's runtime is behind the server.
    erasure = replace(call.erasure, named=call.erasure.named or ())
    return EraseAnswer(erased=await store.erase(await _permitted_erasure(space_access, erasure)))


async def _permitted_erasure(space_access: SpaceAccess, erasure: ErasureTarget) -> ErasureTarget:
    """Return `erasure`, plus everything removable in closed collections if it names some. Raises PermissionRefused."""
    closed_refs = {ref for ref in erasure.refs if ref.collection in space_access.closed}
    if not closed_refs or space_access.removable is None:
        space_access.require_open(closed_refs)
        return erasure
    removable_refs = await space_access.removable(erasure.space)
    space_access.require_open(closed_refs.difference(removable_refs))
    return replace(erasure, refs=tuple(dict.fromkeys((*erasure.refs, *removable_refs))))


async def _serve_check(store: Store, _space_access: SpaceAccess, _call: HealthCall) -> WireValue:
    return StoreHealthAnswer(report=await store.check())


async def _serve_repair(store: Store, _space_access: SpaceAccess, _call: HealthCall) -> WireValue:
    return StoreHealthAnswer(report=await store.repair())


ANSWERS: tuple[tuple[PortCall[Any], Handler], ...] = (
    (COMMIT, _serve_commit),
    (GET, _serve_get),
    (SCAN, _serve_scan),
    (JOURNAL, _serve_journal),
    (COMPACT, _serve_compact),
    (SPACES, _serve_spaces),
    (ERASE, _serve_erase),
)
"""Routes for a caller's own spaces."""
HEALTH_ANSWERS: tuple[tuple[PortCall[Any], Handler], ...] = ((CHECK, _serve_check), (REPAIR, _serve_repair))
"""Routes for the whole store, reserved for operators."""


OK = 200


class ProblemAnswer(Value):
    """A problem document, read leniently."""

    model_config = ConfigDict(extra="ignore")

    code: str
    detail: str = ""
    details: dict[str, str | int] = {}


class GatewayStore(Engine):
    """A store on an Elytron server that shares it. `api_key` decides: a user's own space, or an operator's all spaces.

    A server that does not answer raises Unreachable, and it is unknown whether a commit arrived: under an idempotency
    key it can be sent again. Nothing is retried here, and nothing is cached.
    """

    capabilities = StoreCapabilities(durable=True, single_writer=False, erasure=ErasurePromise.OF_SERVER, ttl=True)

    def __init__(self, url: str, /, *, api_key: str | None = None, timeout_s: float = limits.REMOTE_ANSWER_S) -> None:
        super().__init__()
        # Neither a proxy nor a `.netrc` from the environment is used: both would change who is asked, or as whom.
        self._client = http_client(
            ClientSettings(
                extra="client",
                purpose="a store on a server",
                url=url,
                headers={"Authorization": f"Bearer {api_key}"} if api_key is not None else {},
                timeout_s=timeout_s,
                connect_s=limits.REMOTE_CONNECT_S,
            )
        )
        self._under_way = 0
        self._idle = asyncio.Event()
        self._idle.set()

    async def _commit(self, batch: Batch) -> CommitReceipt:
        return (await self._call(COMMIT, CommitCall(batch=batch))).committed

    async def _get(self, space: SpaceId, refs: Sequence[DocumentRef]) -> Sequence[Document | None]:
        return (await self._call(GET, GetCall(space=space, refs=tuple(refs)))).documents

    async def _scan(self, space: SpaceId, page: DocumentPage) -> Sequence[Document]:
        return (await self._call(SCAN, ScanCall(space=space, **page._asdict()))).documents

    async def _journal(self, space: SpaceId, after: int, limit: int) -> Sequence[JournalEntry]:
        return (await self._call(JOURNAL, JournalCall(space=space, after=after, limit=limit))).entries

    async def _compact(self, space: SpaceId, runs: Sequence[CompactedRun]) -> int:
        return (await self._call(COMPACT, CompactCall(space=space, runs=tuple(runs)))).entries

    async def _spaces(self, after: str, limit: int) -> Sequence[SpaceId]:
        return (await self._call(SPACES, SpacesCall(after=after, limit=limit))).spaces

    async def _write_blob(self, space: SpaceId, key: str, chunks: AsyncIterable[bytes]) -> int:
        response = await self._send("PUT", BLOBS, params={"space": space, "key": key}, content=aiter(chunks))
        return self._answer(BlobAnswer, response).size

    async def read_blob(self, space: SpaceId, key: str, /) -> AsyncIterator[bytes]:
        import httpx

        self._require_blob(space, key)
        with self._call_under_way():
            try:
                async with self._client.stream("GET", BLOBS, params={"space": space, "key": key}) as response:
                    if response.status_code != OK:
                        await response.aread()
                        raise self._error_of(response)
                    async for kind, data in decode_frames(response.aiter_bytes()):
                        if kind == PROBLEM:
                            raise _problem_error(data)
                        if kind != CHUNK:
                            return
                        yield data
            except httpx.HTTPError as error:
                raise _unreachable_server(error) from None

    async def _erase(self, erasure: ErasureTarget) -> ErasureReceipt:
        return (await self._call(ERASE, EraseCall(erasure=erasure))).erased

    async def _check(self) -> CheckReport:
        return (await self._call(CHECK, HealthCall())).report

    async def _repair(self) -> CheckReport:
        return (await self._call(REPAIR, HealthCall())).report

    async def close(self) -> None:
        self._closed = True
        # Running calls keep their connections until they have their answers.
        await self._idle.wait()
        await self._client.aclose()

    async def _call(self, method: PortCall[AnswerT], call: WireValue) -> AnswerT:
        content = call.model_dump_json().encode()
        response = await self._send("POST", method.path, content=content, headers={"Content-Type": "application/json"})
        return self._answer(method.answer, response)

    async def _send(self, method: str, path: str, **options: Any) -> "httpx.Response":
        import httpx

        with self._call_under_way():
            try:
                return await request_within(self._client, method, path, limit=GATEWAY_ANSWER_BYTES, **options)
            except httpx.HTTPError as error:
                raise _unreachable_server(error) from None

    def _answer(self, model: type[AnswerT], response: "httpx.Response") -> AnswerT:
        if response.status_code != OK:
            raise self._error_of(response)
        try:
            return model.model_validate_json(response.content)
        except ValidationError:
            raise Unreachable("the server at this address is not an Elytron server of this version") from None

    def _error_of(self, response: "httpx.Response") -> ElytronError:
        return _problem_error(response.content)

    @contextmanager
    def _call_under_way(self) -> Generator[None]:
        """Make a close wait for the block. Raises StoreClosed if one has begun."""
        self._require_open()
        self._under_way += 1
        self._idle.clear()
        try:
            yield
        finally:
            self._under_way -= 1
            if not self._under_way:
                self._idle.set()


def _problem_error(data: bytes) -> ElytronError:
    """Return the error of a problem document."""
    try:
        problem = ProblemAnswer.model_validate_json(data)
    except ValidationError:
        return Unreachable("the server at this address is not an Elytron server")
    return error_of(problem.code, problem.detail, problem.details)


def _unreachable_server(error: Exception) -> Unreachable:
    return Unreachable(f"the store's server does not respond: {type(error).__name__}")
