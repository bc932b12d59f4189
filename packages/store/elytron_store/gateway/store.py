"""The store port over HTTP, under its user's key. Nothing is buffered: what returned is durable there."""

import asyncio
from collections.abc import AsyncIterable, AsyncIterator, Generator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TypeVar

from pydantic import ConfigDict, ValidationError

from elytron_core import limits
from elytron_core.errors import ElytronError, InvalidInput, MissingExtra, Unreachable
from elytron_core.errors.tree import error_of
from elytron_core.ids import SpaceId
from elytron_core.model import Value
from elytron_core.ports.store import (
    Batch,
    CheckReport,
    CommitReceipt,
    CompactedRun,
    Document,
    DocumentRef,
    ErasureReceipt,
    ErasureTarget,
    JournalEntry,
)
from elytron_core.profiles import ErasurePromise, StoreCapabilities
from elytron_store.engine import DocumentPage, Engine
from elytron_store.gateway import wire

if TYPE_CHECKING:
    import httpx

AnswerT = TypeVar("AnswerT", bound=Value)
OK = 200


class ProblemAnswer(Value):
    """A problem document, read leniently."""

    model_config = ConfigDict(extra="ignore")

    code: str
    detail: str = ""
    details: dict[str, str | int] = {}


class GatewayStore(Engine):
    """A store on an Elytron server that shares it. `api_key` decides: a user's own space, or an operator's all spaces.

    A server that does not answer raises Unreachable, and it is unknown whether a commit arrived: under an
    idempotency key it can be sent again. Nothing is tried again here, and nothing is answered from memory.
    """

    capabilities = StoreCapabilities(durable=True, single_writer=False, erasure=ErasurePromise.OF_SERVER, ttl=True)

    def __init__(self, url: str, /, *, api_key: str | None = None, timeout_s: float = limits.REMOTE_ANSWER_S) -> None:
        super().__init__()
        try:
            import httpx
        except ImportError as error:
            raise MissingExtra(extra="client", purpose="a store on a server") from error

        headers = {"Authorization": f"Bearer {api_key}"} if api_key is not None else {}
        try:
            self._client = httpx.AsyncClient(
                base_url=url,
                headers=headers,
                timeout=httpx.Timeout(timeout_s, connect=min(timeout_s, limits.REMOTE_CONNECT_S)),
                limits=httpx.Limits(max_connections=limits.REMOTE_CONNECTIONS, keepalive_expiry=limits.REMOTE_IDLE_S),
                trust_env=False,
                # Without encryption the system's certificates need not be read.
                verify=not url.startswith("http://"),
            )
        except (httpx.InvalidURL, UnicodeError):
            raise InvalidInput(field="url", problem="is no address of a server") from None
        self._under_way = 0
        self._idle = asyncio.Event()
        self._idle.set()

    async def _commit(self, batch: Batch) -> CommitReceipt:
        return (await self._call(wire.COMMIT, wire.CommitCall(batch=batch))).committed

    async def _get(self, space: SpaceId, refs: Sequence[DocumentRef]) -> Sequence[Document | None]:
        return (await self._call(wire.GET, wire.GetCall(space=space, refs=tuple(refs)))).documents

    async def _scan(self, space: SpaceId, page: DocumentPage) -> Sequence[Document]:
        return (await self._call(wire.SCAN, wire.ScanCall(space=space, **page._asdict()))).documents

    async def _journal(self, space: SpaceId, after: int, limit: int) -> Sequence[JournalEntry]:
        return (await self._call(wire.JOURNAL, wire.JournalCall(space=space, after=after, limit=limit))).entries

    async def _compact(self, space: SpaceId, runs: Sequence[CompactedRun]) -> int:
        return (await self._call(wire.COMPACT, wire.CompactCall(space=space, runs=tuple(runs)))).entries

    async def _spaces(self, after: str, limit: int) -> Sequence[SpaceId]:
        return (await self._call(wire.SPACES, wire.SpacesCall(after=after, limit=limit))).spaces

    async def _write_blob(self, space: SpaceId, key: str, chunks: AsyncIterable[bytes]) -> int:
        response = await self._send("PUT", wire.BLOBS, params={"space": space, "key": key}, content=aiter(chunks))
        return self._answer(wire.BlobAnswer, response).size

    async def read_blob(self, space: SpaceId, key: str, /) -> AsyncIterator[bytes]:
        import httpx

        self._require_blob(space, key)
        with self._call_under_way():
            try:
                async with self._client.stream("GET", wire.BLOBS, params={"space": space, "key": key}) as response:
                    if response.status_code != OK:
                        await response.aread()
                        raise self._told(response)
                    async for kind, data in wire.decode_frames(response.aiter_bytes()):
                        match kind:
                            case wire.CHUNK:
                                yield data
                            case wire.PROBLEM:
                                raise _problem_error(data)
                            case _:
                                return
            except httpx.HTTPError as error:
                raise _unreachable_server(error) from None

    async def _erase(self, erasure: ErasureTarget) -> ErasureReceipt:
        return (await self._call(wire.ERASE, wire.EraseCall(erasure=erasure))).erased

    async def _check(self) -> CheckReport:
        return (await self._call(wire.CHECK, wire.HealthCall())).report

    async def _repair(self) -> CheckReport:
        return (await self._call(wire.REPAIR, wire.HealthCall())).report

    async def close(self) -> None:
        self._closed = True
        await self._idle.wait()
        await self._client.aclose()

    async def _call(self, route: wire.PortRoute[AnswerT], call: wire.WireValue) -> AnswerT:
        content = call.model_dump_json().encode()
        response = await self._send("POST", route.path, content=content, headers={"Content-Type": "application/json"})
        return self._answer(route.given, response)

    async def _send(self, method: str, path: str, **sent: Any) -> "httpx.Response":
        import httpx

        with self._call_under_way():
            try:
                return await self._client.request(method, path, **sent)
            except httpx.HTTPError as error:
                raise _unreachable_server(error) from None

    def _answer(self, model: type[AnswerT], response: "httpx.Response") -> AnswerT:
        if response.status_code != OK:
            raise self._told(response)
        try:
            return model.model_validate_json(response.content)
        except ValidationError:
            raise Unreachable("what answers there is no Elytron server of this version") from None

    def _told(self, response: "httpx.Response") -> ElytronError:
        return _problem_error(response.content)

    @contextmanager
    def _call_under_way(self) -> Generator[None]:
        """Let a closing wait for what is done in the block. Raises StoreClosed if it has begun."""
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
        told = ProblemAnswer.model_validate_json(data)
    except ValidationError:
        return Unreachable("what answers there is no Elytron server")
    return error_of(told.code, told.detail, told.details)


def _unreachable_server(error: Exception) -> Unreachable:
    return Unreachable(f"the server that holds the store does not answer: {type(error).__name__}")
