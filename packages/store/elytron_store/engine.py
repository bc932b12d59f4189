"""Base of the engines: each call is checked here, then done by the engine; and a blob's bytes in pieces of one size."""

from abc import ABC, abstractmethod
from collections.abc import AsyncIterable, AsyncIterator, Sequence
from typing import NamedTuple

from elytron_core import limits
from elytron_core.errors import LimitExceeded, StoreClosed
from elytron_core.ids import SpaceId
from elytron_core.planes.knowledge.profiles import StoreCapabilities
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
    validate,
)
from elytron_store import document_checks
from elytron_store.journal import stand_ins


class Page(NamedTuple):
    """Documents of a collection that a scan selects."""

    collection: str
    prefix: str
    after: str
    limit: int
    descending: bool


class Engine(ABC):
    """The calls of a store, each refused if the store is closed or the request breaks the port's rules.

    An engine does what is behind them. A generator checks when it begins, so an engine's `read_blob` does that itself.
    """

    capabilities: StoreCapabilities

    def __init__(self) -> None:
        self._closed = False

    async def commit(self, batch: Batch, /) -> Committed:
        await document_checks.off_loop(validate, batch)
        self._require_open()
        return await self._commit(batch)

    async def get(self, space: SpaceId, refs: Sequence[Ref], /) -> Sequence[Document | None]:
        self._require_open()
        document_checks.require_get(space, refs)
        return await self._get(space, refs)

    async def scan(
        self,
        space: SpaceId,
        collection: str,
        /,
        *,
        prefix: str = "",
        after: str = "",
        limit: int,
        descending: bool = False,
    ) -> Sequence[Document]:
        self._require_open()
        document_checks.require_scan(space, collection, limit=limit)
        return await self._scan(space, Page(collection, prefix, after, limit, descending))

    async def journal(self, space: SpaceId, /, *, after: int, limit: int) -> Sequence[JournalEntry]:
        self._require_open()
        document_checks.require_journal(space, after=after, limit=limit)
        return await self._journal(space, after, limit)

    async def compact(self, space: SpaceId, runs: Sequence[Run], /) -> int:
        self._require_open()
        stand_ins.require_runs(space, runs)
        return await self._compact(space, runs)

    async def spaces(self, /, *, after: str = "", limit: int) -> Sequence[SpaceId]:
        self._require_open()
        document_checks.require_limit(limit, most=limits.SCAN_MAX)
        return await self._spaces(after, limit)

    async def write_blob(self, space: SpaceId, key: str, chunks: AsyncIterable[bytes], /) -> int:
        self._require_blob(space, key)
        return await self._write_blob(space, key, chunks)

    @abstractmethod
    def read_blob(self, space: SpaceId, key: str, /) -> AsyncIterator[bytes]: ...

    async def erase(self, erasure: Erasure, /) -> Erased:
        self._require_open()
        document_checks.require_erasure(erasure)
        return await self._erase(erasure)

    async def check(self) -> CheckReport:
        self._require_open()
        return await self._check()

    async def repair(self) -> CheckReport:
        self._require_open()
        return await self._repair()

    def _require_open(self) -> None:
        if self._closed:
            raise StoreClosed

    def _require_blob(self, space: SpaceId, key: str) -> None:
        self._require_open()
        document_checks.require_blob(space, key)

    @abstractmethod
    async def _commit(self, batch: Batch) -> Committed: ...

    @abstractmethod
    async def _get(self, space: SpaceId, refs: Sequence[Ref]) -> Sequence[Document | None]: ...

    @abstractmethod
    async def _scan(self, space: SpaceId, page: Page) -> Sequence[Document]: ...

    @abstractmethod
    async def _journal(self, space: SpaceId, after: int, limit: int) -> Sequence[JournalEntry]: ...

    @abstractmethod
    async def _compact(self, space: SpaceId, runs: Sequence[Run]) -> int: ...

    @abstractmethod
    async def _spaces(self, after: str, limit: int) -> Sequence[SpaceId]: ...

    @abstractmethod
    async def _write_blob(self, space: SpaceId, key: str, chunks: AsyncIterable[bytes]) -> int: ...

    @abstractmethod
    async def _erase(self, erasure: Erasure) -> Erased: ...

    @abstractmethod
    async def _check(self) -> CheckReport: ...

    @abstractmethod
    async def _repair(self) -> CheckReport: ...


async def pieces(chunks: AsyncIterable[bytes], /, *, size: int = limits.BLOB_CHUNK_BYTES) -> AsyncIterator[bytes]:
    """Yield the bytes of a blob in pieces of `size`; the last one is shorter, and none is empty.

    Raises LimitExceeded for more than `limits.BLOB_BYTES`.
    """
    piece = bytearray()
    taken = 0
    async for chunk in chunks:
        taken += len(chunk)
        if taken > limits.BLOB_BYTES:
            raise LimitExceeded(what="bytes in a blob", limit=limits.BLOB_BYTES)
        piece += chunk
        while len(piece) >= size:
            yield bytes(piece[:size])
            del piece[:size]
    if piece:
        yield bytes(piece)
