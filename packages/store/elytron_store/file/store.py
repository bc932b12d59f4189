"""The file engine: a folder that several processes may share, one append-only log per space.

Every call of a space blocks; the store runs them in threads.
"""

import asyncio
import os
import shutil
from collections import OrderedDict
from collections.abc import AsyncIterable, AsyncIterator, Callable, Generator, Iterable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager, suppress
from pathlib import Path
from threading import Lock
from typing import ParamSpec, TypeVar

from elytron_core.clock import Clock, Instant
from elytron_core.errors import ElytronError, StoreBusy, StoreClosed, StoreCorrupt, StoreFailed, StoreFull
from elytron_core.ids import SpaceId
from elytron_core.ports.store import (
    QUEUE,
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
from elytron_store import engine
from elytron_store import limits as store_limits
from elytron_store.commit_queue import GroupCommitter, Outcome, Work
from elytron_store.disk_reserve import DEFAULT_BOUNDS, DeviceBounds, DeviceReserve
from elytron_store.engine import DocumentPage, Engine, blob_pieces
from elytron_store.file import blobs, disk, generation, records, repair
from elytron_store.file import folder as file_folder
from elytron_store.file.blobs import BlobReader, BlobWriter
from elytron_store.file.disk import (
    ENGINE,
    StorePaths,
    folder_name,
    locked_file,
    move_durably,
    while_reading,
    while_writing,
)
from elytron_store.file.generation import NewFrame
from elytron_store.file.log import GenerationLog, LogContents, LogView, read_document
from elytron_store.file.repair import SpaceFindings
from elytron_store.manifest import is_folder, is_there
from elytron_store.private_files import sync_path


class FileSpace:
    """A space as one handle sees it. Thread-safe.

    A writer takes `_turn` (this handle), then the space's lock (all handles and processes); `_mutex` guards the
    in-memory state and is held only to read or update it. Nothing is visible before it is acknowledged.
    """

    def __init__(
        self, paths: StorePaths, space: SpaceId, /, *, busy_wait_s: float, reserve: DeviceReserve | None = None
    ) -> None:
        self.space = space
        self.name = disk.folder_name(space)
        self.wants_compaction = False
        self.has_failed = False
        self._where = paths
        self._reserve = reserve or DeviceReserve(paths.reserve, most=0, engine=ENGINE)
        self._path = paths.log_of(self.name)
        self._mark = paths.queued / self.name
        self._has_marked = False
        self._busy_wait_s = busy_wait_s
        self._turn = Lock()
        self._mutex = Lock()
        self._contents = LogContents(b"")
        self._settled = False
        self._is_recorded = False

    def commit(self, batches: Sequence[Batch], /) -> Sequence[Outcome]:
        """Apply `batches` in order with one sync; return each one's answer or error."""
        try:
            self._reserve.hold_largest(self._contents.end)
        except StoreFull as refusal:
            return self._reserve.commit(batches, self._commit, refusal)
        return self._reserve.commit(batches, self._commit, None)

    def _commit(self, batches: Sequence[Batch]) -> Sequence[Outcome]:
        with self._writing("appending commits"), self._viewing() as view:
            if any(change.ref.collection == QUEUE for batch in batches for change in batch.puts):
                self._leave_mark()
            # A lost frame may contain a newer revision or an answered request, so no precondition can be judged.
            view.contents.require_complete()
            if not (self._is_recorded or view.is_empty):
                # A process may have died between the first log and its record.
                records.record_space(self._where, self.space)
                self._is_recorded = True
            outcomes, frames = generation.judge_batches(batches, view)
            if view.is_empty:
                if frames:
                    self._write_new(frames, view)
                return outcomes
            if frames:
                self._append(view, frames)
            if any(delete.ref.collection == QUEUE for batch in batches for delete in batch.deletes):
                self._settle_mark(view)
            return outcomes

    def get(self, refs: Sequence[DocumentRef], /) -> Sequence[Document | None]:
        """Return the documents at `refs`, in that order."""
        with self._reading() as view:
            with self._mutex:
                documents = view.contents.find(refs)
            # Without the lock: the bytes of a generation never change, and its file stays open.
            return [None if document is None else read_document(view.log, ref, document) for ref, document in documents]

    def scan(self, page: DocumentPage, /) -> Sequence[Document]:
        """Return documents in key order, as `Store.scan` promises."""
        with self._reading() as view:
            with self._mutex:
                documents = view.contents.scan(page)
            return [read_document(view.log, ref, document) for ref, document in documents]

    def count(self, collection: str, /) -> int:
        """Return the number of documents in `collection`, as `Store.count` promises."""
        with self._reading() as view, self._mutex:
            return view.contents.count(collection)

    def journal(self, *, after: int, limit: int) -> Sequence[JournalEntry]:
        """Return journal entries in order, as `Store.journal` promises."""
        with self._reading() as view:
            # Without the lock, since a page may read much: frame offsets are only ever appended.
            return view.contents.journal(view.log, after=after, limit=limit)

    def settle_queue(self) -> None:
        """Remove the queue mark of the space if it has no unfinished jobs."""
        if not self.count(QUEUE):
            with self._writing("settling a mark"), self._viewing() as view:
                self._settle_mark(view)

    def _leave_mark(self) -> None:
        # Before the batches: a process that dies in between leaves an extra mark rather than a missing one. Another
        # process's mark may not be durable.
        if not (self._has_marked and is_there(self._mark)):
            disk.leave_mark(self._mark)
            self._has_marked = True

    def _settle_mark(self, view: LogView) -> None:
        # Under the space's lock, so that no other writer comes between its mark and its batch.
        if not view.contents.count(QUEUE):
            self._drop_mark()

    def _drop_mark(self) -> None:
        with suppress(OSError):  # the batches are stored: an extra mark does no harm
            self._mark.unlink(missing_ok=True)

    def publish(self, writer: BlobWriter, key: str, /) -> None:
        """Publish the finished blob of `writer` as the blob `key`, durably."""
        with self._writing("publishing a blob"):
            with self._viewing() as view:
                if view.is_empty:
                    self._write_new((), view)  # a space is recognised by its log
            disk.make_folder(self._where.blobs_of(self.name))
            writer.publish(self._where.blob_of(self.name, key))

    def erase(self, erasure: ErasureTarget, /) -> ErasureReceipt:
        """Remove what `erasure` names, as `Store.erase` promises. Raises StoreCorrupt while frames are lost."""
        with self._writing("erasing"):
            # Unfinished uploads of dead processes may contain erased bytes.
            blobs.sweep_uploads(self._where, busy_wait_s=self._busy_wait_s)
            if erasure.whole_space:
                return self._reserve.use(self._erase_everything)
            with self._viewing() as view:
                view.contents.require_complete()
                repair.forget_pieces(self._where, self.name, refs=erasure.refs, blobs=erasure.blobs)
                removed_count = self._remove_blobs(set(erasure.blobs))
                # Last, since it writes the entry which says that everything named is gone.
                return self._erase_documents(view, erasure, removed_count)

    def compact_journal(self, runs: Sequence[CompactedRun], /) -> int:
        """Replace each of `runs` with one journal entry; return how many entries were removed. Raises Conflict."""
        with self._writing("compacting the journal"), self._viewing() as view:
            if view.is_empty:
                return sum(1 for _ in engine.compacted_journal((), runs))  # none of its runs exists
            view.contents.require_complete()
            compacted_runs = generation.CompactedRuns(runs)
            frames = generation.snapshot_frames(*view, without=frozenset(), rewrite=compacted_runs)
            self._write_new(frames, view)
            # Counted while the frames were written, so it is known only now.
            return view.contents.entries - compacted_runs.count

    def compact(self) -> None:
        """Rewrite the log without unreachable bodies, if that is worth it."""
        self.wants_compaction = False
        with self._writing("compacting"), self._viewing() as view:
            # Checked again under the lock: another process may have compacted since.
            if view.contents.wants_compaction:
                self._write_new(generation.snapshot_frames(*view, without=frozenset(), rewrite=iter), view)

    def _append(self, view: LogView, frames: Sequence[NewFrame]) -> None:
        log, log_contents = view
        start = log_contents.end
        data = generation.encode_frames(frames, salt=log_contents.salt, offset=start)
        generation.append_frames(self._path, data, salt=log_contents.salt, start=start)
        # Own frames go through the same fold as those of other processes.
        log.acknowledged = start + len(data)
        with self._mutex:
            log_contents.catch_up(log)
        self.wants_compaction = log_contents.wants_compaction

    def _write_new(self, frames: Iterable[NewFrame], view: LogView) -> None:
        """Replace the log of `view` with one of `frames`."""
        disk.make_folder(self._path.parent)
        generation.write_new(self._path, self.space, frames, instead_of=view.log)
        if not view.is_empty:
            return
        try:
            records.record_space(self._where, self.space)
        except OSError:
            # Its first commit was rejected, so nothing of it may stay.
            self._path.unlink(missing_ok=True)
            sync_path(self._path.parent)
            raise

    def _erase_documents(self, view: LogView, erasure: ErasureTarget, blobs_removed: int) -> ErasureReceipt:
        def rewrite() -> ErasureReceipt:
            digest_scrub = generation.DigestScrub(frozenset(erasure.refs))
            remainder = generation.left_by(erasure, digest_scrub, view)
            self._write_new(remainder.frames, view)
            return ErasureReceipt(
                documents=remainder.documents,
                blobs=blobs_removed,
                entries_scrubbed=digest_scrub.count,
                sequence=remainder.sequence,
            )

        return self._reserve.use(rewrite)

    def _erase_everything(self) -> ErasureReceipt:
        repair.clear_pieces(self._where, self.name)
        # Before the folder: a recorded space without a log would be damage.
        records.forget_space(self._where, self.name)
        folder = self._path.parent
        if not is_folder(folder):
            return ErasureReceipt(documents=0, blobs=0, entries_scrubbed=0, sequence=0)
        documents, entries = 0, 0
        try:
            with self._viewing() as view:
                documents, entries = len(view.contents.ledger), view.contents.entries
        except StoreCorrupt:
            pass  # an unreadable log can still be erased, uncounted
        removed_count = len(blobs.blob_keys(self._where, self.name))
        # Renamed in one step, so that a crash leaves a space whole or gone; the rest is swept at the next open.
        disk.make_folder(self._where.trash)
        trash_path = self._where.trash / f"{self.name}.{os.urandom(8).hex()}"
        move_durably(folder, trash_path)
        self._drop_mark()
        shutil.rmtree(trash_path)
        sync_path(self._where.trash)
        return ErasureReceipt(documents=documents, blobs=removed_count, entries_scrubbed=entries, sequence=0)

    def _remove_blobs(self, keys: set[str]) -> int:
        removed_count = 0
        for key in keys:
            path = self._where.blob_of(self.name, key)
            if is_there(path):
                path.unlink()
                removed_count += 1
        if removed_count:
            sync_path(self._where.blobs_of(self.name))
        return removed_count

    @contextmanager
    def _reading(self) -> Generator[LogView]:
        # A power cut may have removed the mark of answered commits: they are settled before this handle's first read.
        if not self._settled:
            if generation.is_unsettled(self._path):
                with self._writing("completing the writes of a process that ended"):
                    pass
            self._settled = True
        with self._viewing() as view:
            yield view

    @contextmanager
    def _viewing(self) -> Generator[LogView]:
        """Open the log and apply what it acknowledged."""
        log = GenerationLog.open(self._path)
        if log is None and self._has_begun():
            log = GenerationLog.open(self._path)  # it may have been created meanwhile
            if log is None:
                raise StoreCorrupt(what=f"the log of space folder {self.name[:16]!r}")
        if log is None:
            yield LogView.empty()
            return
        with log:
            with self._mutex:
                # Another salt is another generation: offsets of the old one mean nothing in it.
                if self._contents.salt != log.header.salt:
                    self._contents = LogContents(log.header.salt)
                log_contents = self._contents
                log_contents.catch_up(log)
            yield LogView(log, log_contents)

    def _has_begun(self) -> bool:
        with while_reading("the record of a space"):
            return records.is_recorded(self._where, self.name)

    def _require_sound(self, doing: str) -> None:
        if self.has_failed:
            raise StoreFailed(engine=ENGINE, doing=doing)

    @contextmanager
    def _writing(self, doing: str) -> Generator[None]:
        """Lock the space against all other writers, and settle a dead writer's remains.

        Raises StoreBusy; StoreFull; StoreFailed, after which this handle no longer writes to the space.
        """
        # Own threads queue here; the lock of the file is polled.
        if not self._turn.acquire(timeout=self._busy_wait_s):
            raise StoreBusy(engine=ENGINE, waited_s=self._busy_wait_s)
        try:
            self._require_sound(doing)
            with locked_file(self._where.lock_of(self.name), wait_s=self._busy_wait_s), while_writing(doing):
                generation.recover_log(self._path)
                yield
        except StoreFailed:
            self.has_failed = True
            raise
        finally:
            self._turn.release()


P = ParamSpec("P")
T = TypeVar("T")

_THREADS = 8
_SPACES_HELD = 1_024
"""Number of spaces whose maps a handle caches; others are read again at their next use."""


class FileStore(Engine):
    """A store in a folder. Use it from one event loop; files are touched in worker threads only."""

    capabilities = StoreCapabilities(
        durable=True, single_writer=False, erasure=ErasurePromise.NO_BYTE, ttl=True, queue_index=True
    )

    def __init__(self, paths: StorePaths, reserve: DeviceReserve, /, *, clock: Clock, busy_wait_s: float) -> None:
        super().__init__()
        self._where = paths
        self._reserve = reserve
        self._clock = clock
        self._busy_wait_s = busy_wait_s
        self._threads = ThreadPoolExecutor(_THREADS, thread_name_prefix="elytron-file")
        self._open_spaces: OrderedDict[SpaceId, tuple[FileSpace, GroupCommitter]] = OrderedDict()

    @classmethod
    async def open(
        cls,
        folder: Path,
        *,
        clock: Clock,
        profile: str | None = None,
        sealed: bool = False,
        busy_wait_s: float = store_limits.BUSY_WAIT_S,
        bounds: DeviceBounds = DEFAULT_BOUNDS,
    ) -> "FileStore":
        """Open the store in `folder`, created if the folder is absent or empty.

        Raises StoreForeign, StoreNewer, PermissionRefused, StoreUnavailable; nothing in the folder is changed then.
        """
        store = await cls.open_unnoted(
            folder, clock=clock, profile=profile, sealed=sealed, busy_wait_s=busy_wait_s, bounds=bounds
        )
        try:
            await store.note_opening()
        except BaseException:
            await store.close()
            raise
        return store

    @classmethod
    async def open_unnoted(
        cls,
        folder: Path,
        *,
        clock: Clock,
        profile: str | None = None,
        sealed: bool = False,
        busy_wait_s: float = store_limits.BUSY_WAIT_S,
        bounds: DeviceBounds = DEFAULT_BOUNDS,
    ) -> "FileStore":
        """Open the store in `folder` as `open` does, but do not modify an existing one.

        A caller that finds its own store calls `note_opening`.
        """
        paths = StorePaths(folder)
        await asyncio.to_thread(
            file_folder.prepare_folder, paths, at=clock.now(), profile=profile, sealed=sealed, busy_wait_s=busy_wait_s
        )
        reserve = DeviceReserve(paths.reserve, most=bounds.reserve_bytes, engine=ENGINE)
        if reserve.may_be_short:
            with suppress(StoreFull):  # writes will be rejected
                reserve.hold_largest(await asyncio.to_thread(file_folder.largest_log, paths))
        return cls(paths, reserve, clock=clock, busy_wait_s=busy_wait_s)

    async def note_opening(self) -> None:
        """Record that the store was opened now, and sweep what dead processes left."""
        opened_at = self._clock.now()
        await asyncio.to_thread(file_folder.note_opening, self._where, at=opened_at, busy_wait_s=self._busy_wait_s)

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
        """Return spaces in the order of their digests; only `check` names one whose header is lost."""
        return await self._run(self._list, self._where.spaces, after, limit)

    async def _queued_spaces(self, after: str, limit: int) -> Sequence[SpaceId]:
        spaces = await self._run(self._list, self._where.queued, after, limit)
        for space in spaces:
            with suppress(ElytronError):  # whoever reads the space gets the error
                await self._run(self._space(space).settle_queue)
        return spaces

    async def _write_blob(self, space: SpaceId, key: str, chunks: AsyncIterable[bytes]) -> int:
        file_space = self._space(space)
        writer = BlobWriter(self._where, file_space.name, key, busy_wait_s=self._busy_wait_s)
        try:
            async for piece in blob_pieces(chunks):
                await self._run(writer.write, piece)
            await self._run(file_space.publish, writer, key)
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
        findings = await self._examine_all()
        return repair.findings_report(
            findings, [problem for each in findings for problem in each.problems(repaired=False)]
        )

    async def _repair(self) -> CheckReport:
        at, findings = self._clock.now(), list[SpaceFindings]()
        for name in await self._run(records.space_names, self._where):
            space_findings = await self._run(
                repair.repair_space, self._where, name, at=at, busy_wait_s=self._busy_wait_s
            )
            if space_findings is not None:
                findings.append(space_findings)
        final_findings = await self._examine_all()
        problems = [problem for space_findings in findings for problem in space_findings.problems(repaired=True)]
        losses = [space_findings.loss for space_findings in findings if space_findings.loss is not None]
        return repair.findings_report(final_findings, problems, losses=losses)

    async def _examine_all(self) -> Sequence[SpaceFindings]:
        names = await self._run(records.space_names, self._where)
        return [each for name in names if (each := await self._run(repair.examine_space, self._where, name))]

    async def losses(self, space: SpaceId | None = None, /) -> Sequence[StoreLoss]:
        self._require_open()
        return await self._run(records.read_losses, self._where, space)

    async def acknowledge_losses(self, space: SpaceId | None, /, *, at: Instant) -> int:
        self._require_open()
        return await self._run(records.acknowledge_losses, self._where, space, at=at, busy_wait_s=self._busy_wait_s)

    async def close(self) -> None:
        self._closed = True
        for _, committer in self._open_spaces.values():
            await committer.close()
        self._open_spaces.clear()
        await asyncio.to_thread(self._threads.shutdown)

    async def _run(self, call: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        return await asyncio.wrap_future(self._submit(call, *args, **kwargs))

    def _submit(self, call: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> Future[T]:
        try:
            return self._threads.submit(call, *args, **kwargs)
        except RuntimeError as error:
            raise StoreClosed from error  # a closed store has ended its threads, and so has an exiting process

    def _finally(self, call: Callable[[], None]) -> None:
        """Make `call` even if its caller may be cancelled, after what the caller left in a thread."""
        try:
            self._threads.submit(call)
        except RuntimeError:
            call()  # the threads have ended, and so has everything that ran in them

    def _space(self, space: SpaceId) -> FileSpace:
        return self._hold(space)[0]

    def _hold(self, space: SpaceId) -> tuple[FileSpace, GroupCommitter]:
        cache_entry = self._open_spaces.get(space)
        if cache_entry is None:
            file_space = FileSpace(self._where, space, busy_wait_s=self._busy_wait_s, reserve=self._reserve)

            def between() -> Work | None:
                return file_space.compact if file_space.wants_compaction else None

            committer = GroupCommitter(file_space.commit, engine=ENGINE, submit=self._submit, between=between)
            cache_entry = self._open_spaces[space] = file_space, committer
            self._let_go()
        self._open_spaces.move_to_end(space)
        return cache_entry

    def _let_go(self) -> None:
        """Drop the least recently used spaces, except those that are writing or may write no more."""
        for space, (file_space, committer) in list(self._open_spaces.items()):
            if len(self._open_spaces) <= _SPACES_HELD:
                return
            if committer.is_idle and not file_space.has_failed:
                del self._open_spaces[space]

    def _names(self, folder: Path | None = None) -> list[str]:
        with while_reading("the folder of spaces"):
            return sorted(path.name for path in (folder or self._where.spaces).iterdir())

    def _list(self, folder: Path, after: str, limit: int) -> list[SpaceId]:
        after_name = folder_name(after) if after else ""
        spaces: list[SpaceId] = []
        for name in self._names(folder):
            if name > after_name and len(spaces) < limit:
                try:
                    log = GenerationLog.open(self._where.log_of(name))
                except StoreCorrupt:
                    continue
                if log is not None:
                    with log:
                        spaces.append(log.header.space)
        return spaces
