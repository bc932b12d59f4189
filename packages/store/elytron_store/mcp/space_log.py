"""One space on an MCP file server as its one writer sees it: all of it in memory, each commit appended at once."""

import asyncio
from collections import deque
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from typing import TypeVar

from elytron_core.errors import Conflict, ElytronError, StoreCorrupt
from elytron_core.ids import SpaceId
from elytron_core.ports.store import Batch, CommitReceipt, CompactedRun, DamageKind, ErasureReceipt, ErasureTarget
from elytron_store import engine, group_commit
from elytron_store.file import generation, repair
from elytron_store.file.log import LogContents, LogView
from elytron_store.file.repair import SpaceDamage, SpaceFindings, examine_log, mended_log
from elytron_store.group_commit import Outcome, Waiting
from elytron_store.mcp.blob_files import BlobFiles
from elytron_store.mcp.shards import RemotePieces, ShardLog, SharedContext

T = TypeVar("T")


class SpaceLog:
    """The space in the folder `name`, None where its name is lost. Commits that wait for one are appended together."""

    def __init__(self, shared: SharedContext, name: str, space: SpaceId | None, /) -> None:
        self.folder = f"{shared.root}/spaces/{name[:2]}/{name}"  # a listing is bounded, so few are in one folder
        self.blobs = BlobFiles(shared, f"{shared.root}/blobs/{name[:2]}/{name}")
        self._shared = shared
        self._aside = RemotePieces(shared.files, f"{shared.root}/quarantine/{name[:2]}/{name}")
        self._space = space
        self._log = ShardLog(shared, self.folder, space)
        self._is_loaded = False
        self._is_to_be_cut = False
        self._turn = asyncio.Lock()
        self._waiting: deque[Waiting] = deque()
        self._appending: asyncio.Task[None] | None = None

    @property
    def size(self) -> int:
        """Return how many bytes of memory the space takes."""
        return self._log.size

    @property
    def is_idle(self) -> bool:
        return not self._turn.locked() and self._appending is None

    async def settle(self) -> None:
        """Wait until all commits have their answer."""
        while self._appending is not None:
            await asyncio.wait({self._appending})

    async def commit(self, batch: Batch, /) -> CommitReceipt:
        """Return what became of `batch`, which is appended although the caller goes away meanwhile."""
        answer: asyncio.Future[CommitReceipt] = asyncio.get_running_loop().create_future()
        self._waiting.append((batch, answer))
        if self._appending is None:
            self._appending = asyncio.create_task(self._append_all())
        return await answer

    async def read(self, look: Callable[[LogView], T], /, *, otherwise: T) -> T:
        """Return what `look` makes of the log, `otherwise` if there is none."""
        if not self._is_loaded:
            async with self._turn:
                await self._load()
        view = self._log.view
        return otherwise if view is None else look(view)

    async def begin(self) -> None:
        """Leave the space there, were it without a document."""
        async with self._writing():
            if self._log.view is None:
                await self._log.write_new(())

    async def erase(self, erasure: ErasureTarget, /) -> ErasureReceipt:
        """Remove what `erasure` names, as `Store.erase` promises. Raises StoreCorrupt while frames are lost."""
        if erasure.whole_space:
            return await self._erase_everything()
        async with self._writing():
            view = self._log.view
            if view is not None:
                view.contents.require_complete()
            await self._aside.forget(refs=erasure.refs, blobs=erasure.blobs)
            scrub = generation.DigestScrub(frozenset(erasure.refs))
            left = generation.left_by(erasure, scrub, *(view or (None, LogContents(b""))))
            await self._log.write_new(left.frames)
            blobs = sum([await self.blobs.remove(key) for key in set(erasure.blobs)])
            return ErasureReceipt(
                documents=left.documents, blobs=blobs, entries_scrubbed=scrub.count, sequence=left.sequence
            )

    async def compact_journal(self, runs: Sequence[CompactedRun], /) -> int:
        """Leave one journal entry in place of each of `runs`; return how many are gone. Raises Conflict."""
        async with self._writing():
            view = self._log.view
            if view is None:
                for run in runs:
                    raise engine.missing_run(run)
                return 0
            view.contents.require_complete()
            left = generation.CompactedRuns(runs)
            await self._log.write_new(generation.snapshot_frames(*view, without=frozenset(), rewrite=left))
            return view.contents.entries - left.count

    async def examine(self) -> SpaceFindings | None:
        """Read everything on the server again; return what was found, None if there is no such space."""
        async with self._turn:
            self._is_loaded = False
            findings = SpaceFindings(space=self._space)
            try:
                await self._load()
            except StoreCorrupt as lost:
                findings.troubles.append(SpaceDamage(DamageKind.ENGINE, lost.what))
                return findings
            if self._log.view is None:
                return None
            examine_log(self._log.view.log, findings)
            await self.blobs.examine(findings)
            return findings

    async def repair(self) -> SpaceFindings | None:
        """Move what is damaged aside and rewrite the rest; return what was found."""
        findings = await self.examine()
        if findings is None or not findings.troubles:
            return findings
        async with self._writing(is_lost_fine=True):
            view = self._log.view
            if view is None:  # without a header no frame can be recognised, so all of the log goes aside
                await self._log.move_aside(self._aside)
                return findings
            pieces, frames = mended_log(view.log)
            for label, piece in pieces:
                await self._aside.keep(label, piece)
            await self._log.write_new(frames)
            for key in await self.blobs.damaged():
                await self._aside.keep_text(repair.blob_label(key), await self.blobs.text_of(key))
                await self.blobs.remove(key)
        return findings

    async def _erase_everything(self) -> ErasureReceipt:
        async with self._writing(is_lost_fine=True):
            view = self._log.view
            await self._aside.clear()
            blobs = await self.blobs.clear()
            if view is None and self._is_loaded:
                return ErasureReceipt(documents=0, blobs=0, entries_scrubbed=0, sequence=0)
            documents, entries = (len(view.contents.ledger), view.contents.entries) if view is not None else (0, 0)
            await self._log.end()
            await self._shared.files.delete(self.folder, recursive=True)
            return ErasureReceipt(documents=documents, blobs=blobs, entries_scrubbed=entries, sequence=0)

    async def _append_all(self) -> None:
        while group := group_commit.take_group(self._waiting):
            try:
                outcomes = await self._append([batch for batch, _ in group])
            except ElytronError as error:
                outcomes = [error] * len(group)
            group_commit.answer_group(group, outcomes)
        self._appending = None

    async def _append(self, batches: Sequence[Batch]) -> Sequence[Outcome]:
        async with self._writing():
            view = self._log.view
            if view is None:
                outcomes, frames = generation.judge_batches(batches, LogContents(b""), None)
                if frames:
                    await self._log.write_new(frames)
                return outcomes
            view.contents.require_complete()
            outcomes, frames = generation.judge_batches(batches, view.contents, view.log)
            if frames:
                await self._log.append(frames)
        if self._log.is_worth_rewriting:
            with suppress(ElytronError):  # it saves room, and is wanted again if it failed
                await self._rewrite()
        return outcomes

    async def _rewrite(self) -> None:
        async with self._writing():
            if self._log.view is not None:
                log, contents = self._log.view
                kept = generation.snapshot_frames(log, contents, without=frozenset(), rewrite=iter)
                await self._log.write_new(kept)

    @asynccontextmanager
    async def _writing(self, *, is_lost_fine: bool = False) -> AsyncGenerator[None]:
        """Hold the space against other writers of this handle. What fails in the block is read again afterwards."""
        async with self._turn:
            try:
                await self._load()
            except StoreCorrupt:
                if not is_lost_fine:
                    raise
            try:
                yield
            except (Conflict, StoreCorrupt):  # nothing was begun
                raise
            except (asyncio.CancelledError, ElytronError):
                self._is_loaded, self._is_to_be_cut = False, True
                raise

    async def _load(self) -> None:
        await self._shared.lease.hold()
        if not self._is_loaded:
            await self._log.load(is_to_be_cut=self._is_to_be_cut or self._shared.lease.is_after_a_crash)
            self._is_loaded, self._is_to_be_cut = True, False
