"""The SQLite engine: one file, one writer that commits in groups, and parallel readers."""

from collections.abc import AsyncIterable, AsyncIterator, Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Self, TypeVar, TypeVarTuple

from elytron_core.clock import Clock, Instant
from elytron_core.errors import StoreBusy, StoreFailed, StoreFull, StoreReadOnly
from elytron_core.ids import SpaceId
from elytron_core.ports.store import (
    Batch,
    CommitReceipt,
    CompactedRun,
    Document,
    DocumentRef,
    ErasureReceipt,
    ErasureTarget,
    JournalEntry,
)
from elytron_core.ports.store_checks import CheckReport, StoreLoss
from elytron_core.profiles import ErasurePromise, StoreCapabilities
from elytron_store import limits as store_limits
from elytron_store.disk_reserve import DEFAULT_BOUNDS, DeviceBounds
from elytron_store.engine import DocumentPage, Engine, WriteDurability
from elytron_store.sqlite import blobs, quarantine, reads, schema, setup, writes
from elytron_store.sqlite.driver import ENGINE, ERRORS, FileAccess, Raw, SqliteLibrary, StoreConnection, translate_error
from elytron_store.sqlite.driver import sqlite_library as default_library
from elytron_store.sqlite.reads import ReadCache
from elytron_store.sqlite.schema import STEPS, Step
from elytron_store.sqlite.setup import SqliteOptions, check_database, repair_database
from elytron_store.sqlite.wal_reserve import WalReserve
from elytron_store.sqlite.writes import WriteConnection

T = TypeVar("T")
Ts = TypeVarTuple("Ts")

_READERS = 2


class SqliteStore(Engine):
    """A store in one SQLite file that any number of handles and processes may share.

    Commits that wait at the same time share one flush. With `WriteDurability.NORMAL` an acknowledged write survives the
    end of the process, not a power cut. A write that fails at the device disables writes of the handle: open it again.
    On a full device stored content can be read, and written again once there is room.
    """

    capabilities = StoreCapabilities(
        durable=True, single_writer=False, erasure=ErasurePromise.NO_BYTE, ttl=True, queue_index=True
    )

    def __init__(
        self,
        writer: WriteConnection,
        readers: Sequence[StoreConnection],
        watch: Raw | None,
        /,
        *,
        clock: Clock,
        access: FileAccess,
    ) -> None:
        super().__init__(in_process=ENGINE)  # a child has neither the worker threads nor the file locks of its parent
        self._memo = ReadCache(watch, others=writer.others) if watch is not None else None
        self._writer = writer
        self._readers = readers or (writer.connection,)
        self._reads = [0] * len(self._readers)
        self._clock = clock
        self._access = access

    @classmethod
    async def open(
        cls,
        path: Path,
        /,
        *,
        clock: Clock,
        profile: str | None = None,
        sealed: bool = False,
        durability: WriteDurability = WriteDurability.FULL,
        library: SqliteLibrary | None = None,
        steps: Sequence[Step] = STEPS,
        busy_wait_s: float = store_limits.BUSY_WAIT_S,
        bounds: DeviceBounds = DEFAULT_BOUNDS,
    ) -> Self:
        """Open the store at `path`, which is created if its folder exists.

        A file that this process may not write is opened for reading, and changes raise StoreReadOnly. `library` and
        `steps` are this build's own unless a test replaces them; `busy_wait_s` limits how long a write waits for other
        processes. Raises StoreForeign, StoreNewer, StoreCorrupt, StoreBusy, StoreUnavailable.
        """
        driver = library or default_library()
        options = setup.SqliteOptions(
            path, clock.now(), profile, sealed, durability, driver, steps, busy_wait_s, bounds
        )
        store = await cls.open_unnoted(options, clock=clock)
        try:
            await store.note_opening(options.at)
        except BaseException:
            await store.close()
            raise
        return store

    @classmethod
    async def open_unnoted(cls, options: SqliteOptions, /, *, clock: Clock) -> Self:
        """Open the store that `options` describes as `open` does, but do not modify an existing one.

        A caller that finds its own store calls `note_opening`.
        """
        library, path = options.library, options.path
        connect_reader = partial(setup.connect_reader, library, path, options.busy_wait_s)
        if setup.is_read_only(path):
            return await cls._opened(
                options, clock, _OpeningWay(connect_reader, setup.prepare_reading, refused=setup.read_only_refusal())
            )
        setup.create_file(path)
        try:
            connect_writer = partial(setup.connect_writer, library, path)
            return await cls._opened(options, clock, _OpeningWay(connect_writer, setup.prepare_file))
        except (StoreFull, StoreFailed):
            # Usually there is not even room for the index of the WAL, which handles share; SQLite reports no more.
            connect_alone = partial(setup.connect_alone, library, path)
            return await cls._opened(options, clock, _OpeningWay(connect_alone, setup.prepare_file, readers=0))

    async def note_opening(self, at: Instant, /) -> None:
        """Record that the store was opened at `at`, and sweep what dead processes left; a read-only store is
        unchanged."""
        if self._writer.takes_writes:
            await self._write(setup.note_opening, self._access, at)
            # If others hold the file, or the device is full, the rest of an erasure is left to the next opening.
            with suppress(StoreBusy, StoreFull):
                await self._remove(writes.purge_remains, self._access)

    @classmethod
    async def _opened(cls, options: SqliteOptions, clock: Clock, opening_way: "_OpeningWay", /) -> Self:
        library, path = options.library, options.path
        open_connections: list[StoreConnection] = []
        try:
            connection = await _connect_file(open_connections, opening_way.connector)
            access = await connection.call(opening_way.prepare, options)
            connect_reader = partial(setup.connect_reader, library, path, options.busy_wait_s)
            reader_connections = [
                await _connect_file(open_connections, connect_reader) for _ in range(opening_way.readers)
            ]
            # Without a WAL every check would lock the file.
            watch_connection = (
                setup.connect_reader(library, path, 0.0) if opening_way.readers and access.mode == "wal" else None
            )
        except BaseException as error:
            for connection in open_connections:
                await connection.close()
            if isinstance(error, ERRORS):
                raise translate_error(error, doing=f"opening {str(path)!r}") from error
            raise
        wal_reserve = WalReserve(path, reserve_bytes=options.bounds.reserve_bytes)
        writer = WriteConnection(connection, clock=clock, access=access, room=wal_reserve, refused=opening_way.refused)
        return cls(writer, reader_connections, watch_connection, clock=clock, access=access)

    async def _commit(self, batch: Batch) -> CommitReceipt:
        read_cache = self._memo
        if read_cache is None:
            return await self._writer.commit(batch)
        try:
            receipt = await self._writer.commit(batch)
        # The batch may still be written after a cancellation.
        except BaseException:
            read_cache.lose(batch.space)
            raise
        if batch.is_import:
            read_cache.lose(batch.space)  # more than a cache entry may have
        else:
            read_cache.note_commit(batch, receipt)
        return receipt

    async def get(self, space: SpaceId, refs: Sequence[DocumentRef], /) -> Sequence[Document | None]:
        self._require_open()
        read_cache = self._memo
        # Only valid requests are cached, so a hit needs no check.
        documents = None if read_cache is None else read_cache.documents(read_cache.version(), space, refs)
        return await super().get(space, refs) if documents is None else documents

    async def _get(self, space: SpaceId, refs: Sequence[DocumentRef]) -> Sequence[Document | None]:
        read_cache = self._memo
        if read_cache is None:
            return await self._read(reads.get_documents, space, refs)
        version = read_cache.version()
        documents = await self._read(reads.get_documents, space, refs)
        read_cache.keep_documents(version, space, refs, documents)
        return documents

    async def _scan(self, space: SpaceId, page: DocumentPage) -> Sequence[Document]:
        read_cache = self._memo
        if read_cache is None:
            return await self._read(reads.scan_documents, space, page)
        version = read_cache.version()
        documents = read_cache.scan(version, (space, page))
        if documents is None:
            documents = await self._read(reads.scan_documents, space, page)
            read_cache.keep_scan(version, (space, page), documents)
        return documents

    async def _count(self, space: SpaceId, collection: str) -> int:
        return await self._read(reads.count_documents, space, collection)

    async def _journal(self, space: SpaceId, after: int, limit: int) -> Sequence[JournalEntry]:
        read_cache, journal_query = self._memo, (space, after, limit)
        if read_cache is None:
            return await self._read(reads.journal_page, space, after, limit)
        version = read_cache.version()
        entries = read_cache.journal(version, journal_query)
        if entries is None:
            entries = await self._read(reads.journal_page, space, after, limit)
            read_cache.keep_journal(version, journal_query, entries)
        return entries

    async def _compact(self, space: SpaceId, runs: Sequence[CompactedRun]) -> int:
        removal_count = await self._write(schema.compact_journal, self._access, space, runs)
        if self._memo is not None:
            self._memo.forget()
        return removal_count

    async def _spaces(self, after: str, limit: int) -> Sequence[SpaceId]:
        return await self._read(reads.spaces_page, after, limit)

    async def _queued_spaces(self, after: str, limit: int) -> Sequence[SpaceId]:
        return await self._read(reads.queued_page, after, limit)

    async def _write_blob(self, space: SpaceId, key: str, chunks: AsyncIterable[bytes]) -> int:
        return await blobs.write_blob(self._change, space, key, chunks, at=self._clock.now())

    async def read_blob(self, space: SpaceId, key: str, /) -> AsyncIterator[bytes]:
        self._require_blob(space, key)
        async for chunk in blobs.read_blob(self._read, space, key):
            yield chunk

    async def _erase(self, erasure: ErasureTarget) -> ErasureReceipt:
        """Remove what `erasure` names; see `Store.erase`. Takes time and room in proportion to the whole store.

        If only the second half fails (StoreBusy, StoreFull), readers no longer see the content, but its bytes may be in
        the file: erase again.
        """
        try:
            erasure_receipt = await self._remove(writes.erase_rows, self._access, erasure)
        except StoreFull:
            if not erasure.whole_space:
                raise
            erasure_receipt = await self._remove(writes.drop_space, self._access, erasure)
        # Between the two: if the second fails, no erased document is answered from the cache.
        if self._memo is not None:
            self._memo.forget()
        await self._remove(partial(writes.purge_file, whole_space=erasure.whole_space), self._access)
        return erasure_receipt

    async def _check(self) -> CheckReport:
        # A check follows suspected damage, so later reads must read the file.
        if self._memo is not None:
            self._memo.forget()
        return await self._read(check_database)

    async def _repair(self) -> CheckReport:
        report = await self._write(repair_database, self._access, self._clock.now())
        if self._memo is not None:
            self._memo.forget()
        return report

    async def losses(self, space: SpaceId | None = None, /) -> Sequence[StoreLoss]:
        self._require_open()
        return await self._read(quarantine.read_losses, space)

    async def acknowledge_losses(self, space: SpaceId | None, /, *, at: Instant) -> int:
        self._require_open()
        return await self._write(quarantine.acknowledge_losses, self._access, space, at)

    async def close(self) -> None:
        if self._closed:
            return
        self._closed = True
        if self._memo is not None:
            self._memo.close()
        await self._writer.finish()
        # Without readers the writer's connection is both: it is closed once, and last.
        for connection in dict.fromkeys((*self._readers, self._writer.connection)):
            await connection.close()

    async def _read(self, function: Callable[[Raw, *Ts], T], /, *args: *Ts) -> T:
        """Run `function` on the read connection with the fewest callers."""
        index = min(range(len(self._readers)), key=self._reads.__getitem__)
        self._reads[index] += 1
        try:
            return await self._readers[index].call(function, *args)
        except ERRORS as error:
            raise translate_error(error, doing="reading") from None
        finally:
            self._reads[index] -= 1

    async def _write(self, function: Callable[[Raw, *Ts], T], /, *args: *Ts) -> T:
        """Run `function`, which manages its own transactions, on the write connection."""
        if self._memo is not None:
            self._memo.doubt()
        return await self._writer.run(function, *args)

    async def _remove(self, function: Callable[[Raw, *Ts], T], /, *args: *Ts) -> T:
        """Run `function` as `_write` does, with the reserve's room if the device is full."""
        if self._memo is not None:
            self._memo.doubt()
        return await self._writer.remove(function, *args)

    async def _change(self, function: Callable[[Raw, *Ts], T], /, *args: *Ts) -> T:
        """Run `function` on the write connection in a separate transaction."""
        if self._memo is not None:
            self._memo.doubt()
        return await self._writer.change(function, *args)


@dataclass(frozen=True, slots=True)
class _OpeningWay:
    """How a file is opened: creates and prepares the write connection, and sets the number of readers.

    Without readers the write connection reads too. `refused` is the error of every change.
    """

    connector: Callable[[], Raw]
    prepare: Callable[[Raw, SqliteOptions], FileAccess]
    readers: int = _READERS
    refused: StoreReadOnly | None = None


async def _connect_file(open_connections: list[StoreConnection], connector: Callable[[], Raw]) -> StoreConnection:
    connection = StoreConnection(connector)
    try:
        await connection
    except BaseException:
        await connection.ended()
        raise
    open_connections.append(connection)
    return connection
