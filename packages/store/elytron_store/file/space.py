"""One space of a file store: its commits, reads and erasure. Every call blocks; the store runs them in threads."""

import os
import shutil
from collections.abc import Generator, Iterable, Sequence
from contextlib import contextmanager
from threading import Lock

from elytron_core.errors import StoreBusy, StoreCorrupt, StoreFailed
from elytron_core.ids import SpaceId
from elytron_core.ports.store import (
    Batch,
    CompactedRun,
    Document,
    DocumentRef,
    ErasureReceipt,
    ErasureTarget,
    JournalEntry,
)
from elytron_store import engine
from elytron_store.engine import DocumentPage
from elytron_store.file import blobs, disk, generation, repair
from elytron_store.file.blobs import BlobWriter
from elytron_store.file.disk import ENGINE, StorePaths, locked_file, move_durably, sync_folder, while_writing
from elytron_store.file.generation import NewFrame
from elytron_store.file.log import GenerationLog, LogContents, LogView, read_document
from elytron_store.group_commit import Outcome
from elytron_store.manifest import is_folder, is_there


class FileSpace:
    """A space as one handle sees it. Safe to call from several threads.

    A writer takes `_turn` (this handle), then the space's lock (all handles and processes); `_mutex` guards what
    is known in memory and is held only to look at it or to catch up. Nothing is seen before it is acknowledged.
    """

    def __init__(self, where: StorePaths, space: SpaceId, /, *, busy_wait_s: float) -> None:
        self.space = space
        self.name = disk.folder_name(space)
        self.wants_compaction = False
        self.has_failed = False
        self._where = where
        self._path = where.log_of(self.name)
        self._busy_wait_s = busy_wait_s
        self._turn = Lock()
        self._mutex = Lock()
        self._contents = LogContents(b"")
        self._settled = False

    def commit(self, batches: Sequence[Batch], /) -> Sequence[Outcome]:
        """Apply `batches` in order with one sync; return for each what it is answered or why it was refused."""
        with self._writing("appending commits"), self._viewing() as view:
            if view is None:
                outcomes, frames = generation.judge_batches(batches, LogContents(b""), None)
                if frames:
                    self._write_new(frames, instead_of=None)
                return outcomes
            view.contents.require_complete()
            outcomes, frames = generation.judge_batches(batches, view.contents, view.log)
            if frames:
                self._append(view, frames)
            return outcomes

    def get(self, refs: Sequence[DocumentRef], /) -> Sequence[Document | None]:
        """Return the documents at `refs`, in that order."""
        with self._reading() as view:
            if view is None:
                return [None] * len(refs)
            with self._mutex:
                found = view.contents.find(refs)
            return [None if held is None else read_document(view.log, ref, held) for ref, held in found]

    def scan(self, page: DocumentPage, /) -> Sequence[Document]:
        """Return documents in key order, as `Store.scan` promises."""
        with self._reading() as view:
            if view is None:
                return []
            with self._mutex:
                found = view.contents.scan(page)
            return [read_document(view.log, ref, held) for ref, held in found]

    def count(self, collection: str, /) -> int:
        """Return the number of documents in `collection`, as `Store.count` promises."""
        with self._reading() as view:
            if view is None:
                return 0
            with self._mutex:
                return view.contents.count(collection)

    def journal(self, *, after: int, limit: int) -> Sequence[JournalEntry]:
        """Return journal entries in order, as `Store.journal` promises."""
        with self._reading() as view:
            return [] if view is None else view.contents.journal(view.log, after=after, limit=limit)

    def publish(self, writer: BlobWriter, key: str, /) -> None:
        """Leave the finished blob of `writer` as the blob `key` for good."""
        with self._writing("publishing a blob"):
            if not is_there(self._path):
                self._write_new((), instead_of=None)  # a space is known by its log
            disk.make_folder(self._where.blobs_of(self.name))
            writer.publish(self._where.blob_of(self.name, key))

    def erase(self, erasure: ErasureTarget, /) -> ErasureReceipt:
        """Remove what `erasure` names, as `Store.erase` promises. Raises StoreCorrupt while frames are lost."""
        with self._writing("erasing"):
            blobs.sweep_uploads(self._where, busy_wait_s=self._busy_wait_s)
            if erasure.whole_space:
                return self._erase_everything()
            with self._viewing() as view:
                if view is not None:
                    view.contents.require_complete()
                repair.forget_pieces(self._where, self.name, refs=erasure.refs, blobs=erasure.blobs)
                removed = self._remove_blobs(set(erasure.blobs))
                return self._erase_documents(view, erasure, removed)

    def compact_journal(self, runs: Sequence[CompactedRun], /) -> int:
        """Leave one journal entry in place of each of `runs`; return how many are gone. Raises Conflict."""
        with self._writing("compacting the journal"), self._viewing() as view:
            if view is None:
                for run in runs:
                    raise engine.missing_run(run)
                return 0
            view.contents.require_complete()
            left = generation.CompactedRuns(runs)
            frames = generation.snapshot_frames(view.log, view.contents, without=frozenset(), rewrite=left)
            self._write_new(frames, instead_of=view.log)
            return view.contents.entries - left.count

    def compact(self) -> None:
        """Rewrite the log without unreachable bodies, if that is worth it."""
        self.wants_compaction = False
        with self._writing("compacting"), self._viewing() as view:
            if view is not None and view.contents.wants_compaction:
                kept = generation.snapshot_frames(view.log, view.contents, without=frozenset(), rewrite=iter)
                self._write_new(kept, instead_of=view.log)

    def _append(self, view: LogView, frames: Sequence[NewFrame]) -> None:
        log, contents = view
        start = contents.end
        data = generation.encode_frames(frames, salt=contents.salt, offset=start)
        generation.append_frames(self._path, data, salt=contents.salt, start=start)
        log.acknowledged = start + len(data)
        with self._mutex:
            contents.catch_up(log)
        self.wants_compaction = contents.wants_compaction

    def _write_new(self, frames: Iterable[NewFrame], *, instead_of: GenerationLog | None) -> None:
        disk.make_folder(self._path.parent)
        generation.write_new(self._path, self.space, frames, instead_of=instead_of)

    def _erase_documents(self, view: LogView | None, erasure: ErasureTarget, blobs_removed: int) -> ErasureReceipt:
        scrub = generation.DigestScrub(frozenset(erasure.refs))
        left = generation.left_by(erasure, scrub, *(view or (None, LogContents(b""))))
        self._write_new(left.frames, instead_of=None if view is None else view.log)
        return ErasureReceipt(
            documents=left.documents, blobs=blobs_removed, entries_scrubbed=scrub.count, sequence=left.sequence
        )

    def _erase_everything(self) -> ErasureReceipt:
        repair.clear_pieces(self._where, self.name)
        folder = self._path.parent
        if not is_folder(folder):
            return ErasureReceipt(documents=0, blobs=0, entries_scrubbed=0, sequence=0)
        documents, entries = 0, 0
        try:
            with self._viewing() as view:
                if view is not None:
                    documents, entries = len(view.contents.ledger), view.contents.entries
        except StoreCorrupt:
            pass  # a log that cannot be read any more can still be erased, uncounted
        removed = len(blobs.blob_keys(self._where, self.name))
        # Out of sight in one step, so that a crash leaves a space whole or gone; the rest is swept at the next open.
        disk.make_folder(self._where.trash)
        gone = self._where.trash / f"{self.name}.{os.urandom(8).hex()}"
        move_durably(folder, gone)
        shutil.rmtree(gone)
        sync_folder(self._where.trash)
        return ErasureReceipt(documents=documents, blobs=removed, entries_scrubbed=entries, sequence=0)

    def _remove_blobs(self, keys: set[str]) -> int:
        removed = 0
        for key in keys:
            path = self._where.blob_of(self.name, key)
            if is_there(path):
                path.unlink()
                removed += 1
        if removed:
            sync_folder(self._where.blobs_of(self.name))
        return removed

    @contextmanager
    def _reading(self) -> Generator[LogView | None]:
        if not self._settled:
            if generation.is_unsettled(self._path):
                with self._writing("settling what a dead writer left"):
                    pass
            self._settled = True
        with self._viewing() as view:
            yield view

    @contextmanager
    def _viewing(self) -> Generator[LogView | None]:
        """Open the log and take in what it acknowledged; None where the space has none."""
        log = GenerationLog.open(self._path)
        if log is None:
            yield None
            return
        with log:
            with self._mutex:
                if self._contents.salt != log.header.salt:
                    self._contents = LogContents(log.header.salt)
                contents = self._contents
                contents.catch_up(log)
            yield LogView(log, contents)

    def _require_sound(self, doing: str) -> None:
        if self.has_failed:
            raise StoreFailed(engine=ENGINE, doing=doing)

    @contextmanager
    def _writing(self, doing: str) -> Generator[None]:
        """Hold the space against all other writers, with a dead writer's rest settled.

        Raises StoreBusy; StoreFull; StoreFailed, after which this handle writes to the space no more.
        """
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
