"""The file engine: a folder that several processes may share, one append-only log per space."""

import asyncio
from collections import OrderedDict
from collections.abc import AsyncIterable, AsyncIterator, Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import ParamSpec, TypeVar

from elytron_core.clock import Clock, Instant
from elytron_core.errors import StoreClosed, StoreCorrupt
from elytron_core.ids import SpaceId
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
    StoreProblem,
)
from elytron_core.profiles import ErasurePromise, StoreCapabilities
from elytron_store import limits as store_limits
from elytron_store.engine import DocumentPage, Engine, blob_pieces
from elytron_store.file import folder as file_folder
from elytron_store.file import repair as file_repair
from elytron_store.file.blobs import BlobReader, BlobWriter
from elytron_store.file.disk import ENGINE, StorePaths, folder_name, while_reading
from elytron_store.file.log import GenerationLog
from elytron_store.file.space import FileSpace
from elytron_store.group_commit import GroupCommitter, Work

P = ParamSpec("P")
T = TypeVar("T")

_THREADS = 8
_SPACES_HELD = 1_024
"""Number of spaces whose maps a handle keeps; others are read again at their next use."""


class FileStore(Engine):
    """A store in a folder. Use it from one event loop; files are touched in worker threads only."""

    capabilities = StoreCapabilities(durable=True, single_writer=False, erasure=ErasurePromise.NO_BYTE, ttl=True)

    def __init__(self, where: StorePaths, /, *, busy_wait_s: float) -> None:
        super().__init__()
        self._where = where
        self._busy_wait_s = busy_wait_s
        self._threads = ThreadPoolExecutor(_THREADS, thread_name_prefix="elytron-file")
        self._held: OrderedDict[SpaceId, tuple[FileSpace, GroupCommitter]] = OrderedDict()

    @classmethod
    async def open(
        cls,
        folder: Path,
        *,
        clock: Clock,
        profile: str | None = None,
        sealed: bool = False,
        busy_wait_s: float = store_limits.BUSY_WAIT_S,
    ) -> "FileStore":
        """Open the store in `folder`, made new where the folder is absent or empty.

        Raises StoreForeign, StoreNewer, PermissionRefused, StoreUnavailable; nothing in the folder is changed then.
        """
        at = clock.now()
        store = await cls.found(folder, at=at, profile=profile, sealed=sealed, busy_wait_s=busy_wait_s)
        try:
            await store.note_opening(at)
        except BaseException:
            await store.close()
            raise
        return store

    @classmethod
    async def found(
        cls,
        folder: Path,
        *,
        at: Instant,
        profile: str | None = None,
        sealed: bool = False,
        busy_wait_s: float = store_limits.BUSY_WAIT_S,
    ) -> "FileStore":
        """Open the store in `folder` as `open` does, but leave one that is there already as it is.

        A caller that finds its own store calls `note_opening`.
        """
        where = StorePaths(folder)
        await asyncio.to_thread(
            file_folder.prepare_folder, where, at=at, profile=profile, sealed=sealed, busy_wait_s=busy_wait_s
        )
        return cls(where, busy_wait_s=busy_wait_s)

    async def note_opening(self, at: Instant, /) -> None:
        """Have the store say that it was opened at `at`, and sweep out what died before."""
        await asyncio.to_thread(file_folder.note_opening, self._where, at=at, busy_wait_s=self._busy_wait_s)

    async def _commit(self, batch: Batch) -> CommitReceipt:
        _, committer = self._hold(batch.space)
        return await committer.commit(batch)

    async def _get(self, space: SpaceId, refs: Sequence[DocumentRef]) -> Sequence[Document | None]:
        return await self._run(self._space(space).get, refs)

    async def _scan(self, space: SpaceId, page: DocumentPage) -> Sequence[Document]:
        return await self._run(self._space(space).scan, page)

    async def _count(self, space: SpaceId, collection: str) -> int:
        return await self._run(self._space(space).count, collection)

    async def _journal(self, space: SpaceId, after: int, limit: int) -> Sequence[JournalEntry]:
        return await self._run(self._space(space).journal, after=after, limit=limit)

    async def _compact(self, space: SpaceId, runs: Sequence[CompactedRun]) -> int:
        return await self._run(self._space(space).compact_journal, runs)

    async def _spaces(self, after: str, limit: int) -> Sequence[SpaceId]:
        """Return spaces in the order of their digests; one whose header is lost is named by `check` alone."""
        return await self._run(self._list, after, limit)

    async def _write_blob(self, space: SpaceId, key: str, chunks: AsyncIterable[bytes]) -> int:
        known = self._space(space)
        writer = BlobWriter(self._where, known.name, key, busy_wait_s=self._busy_wait_s)
        try:
            async for piece in blob_pieces(chunks):
                await self._run(writer.write, piece)
            await self._run(known.publish, writer, key)
        finally:
            self._finally(writer.discard)
        return writer.size

    async def read_blob(self, space: SpaceId, key: str, /) -> AsyncIterator[bytes]:
        self._require_blob(space, key)
        reader = BlobReader(self._where, folder_name(space), key)
        try:
            while chunks := await self._run(reader.next):
                for chunk in chunks:
                    yield chunk
        finally:
            self._finally(reader.close)

    async def _erase(self, erasure: ErasureTarget) -> ErasureReceipt:
        return await self._run(self._space(erasure.space).erase, erasure)

    async def _check(self) -> CheckReport:
        names = await self._run(self._names)
        found = [each for name in names if (each := await self._run(file_repair.examine_space, self._where, name))]
        return file_repair.findings_report(
            found, [problem for each in found for problem in each.problems(repaired=False)]
        )

    async def _repair(self) -> CheckReport:
        problems: list[StoreProblem] = []
        for name in await self._run(self._names):
            found = await self._run(file_repair.repair_space, self._where, name, busy_wait_s=self._busy_wait_s)
            if found is not None:
                problems += found.problems(repaired=True)
        names = await self._run(self._names)
        left = [each for name in names if (each := await self._run(file_repair.examine_space, self._where, name))]
        return file_repair.findings_report(left, problems)

    async def close(self) -> None:
        self._closed = True
        for _, committer in self._held.values():
            await committer.close()
        self._held.clear()
        await asyncio.to_thread(self._threads.shutdown)

    async def _run(self, call: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        return await asyncio.wrap_future(self._submit(call, *args, **kwargs))

    def _submit(self, call: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> Future[T]:
        try:
            return self._threads.submit(call, *args, **kwargs)
        except RuntimeError as error:
            raise StoreClosed from error  # a closed store has ended its threads, and so has a process at its end

    def _finally(self, call: Callable[[], None]) -> None:
        """Have `call` made although its caller may be cancelled, behind what the caller left in a thread."""
        try:
            self._threads.submit(call)
        except RuntimeError:
            call()  # the threads have ended, and so has everything that ran in them

    def _space(self, space: SpaceId) -> FileSpace:
        return self._hold(space)[0]

    def _hold(self, space: SpaceId) -> tuple[FileSpace, GroupCommitter]:
        held = self._held.get(space)
        if held is None:
            fresh = FileSpace(self._where, space, busy_wait_s=self._busy_wait_s)

            def between() -> Work | None:
                return fresh.compact if fresh.wants_compaction else None

            committer = GroupCommitter(fresh.commit, engine=ENGINE, submit=self._submit, between=between)
            held = self._held[space] = fresh, committer
            self._let_go()
        self._held.move_to_end(space)
        return held

    def _let_go(self) -> None:
        """Forget the spaces unused for longest; one that is writing, or may write no more, stays."""
        for space, (known, committer) in list(self._held.items()):
            if len(self._held) <= _SPACES_HELD:
                return
            if committer.is_idle and not known.has_failed:
                del self._held[space]

    def _names(self) -> list[str]:
        with while_reading("the folder of spaces"):
            return sorted(path.name for path in self._where.spaces.iterdir())

    def _list(self, after: str, limit: int) -> list[SpaceId]:
        behind = folder_name(after) if after else ""
        found: list[SpaceId] = []
        for name in self._names():
            if name > behind and len(found) < limit:
                try:
                    log = GenerationLog.open(self._where.log_of(name))
                except StoreCorrupt:
                    continue
                if log is not None:
                    with log:
                        found.append(log.header.space)
        return found
