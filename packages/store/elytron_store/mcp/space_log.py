"""One space on an MCP file server as its one writer sees it: all of it in memory, each commit appended at once.

A blob of it is parts of lines under a version, which counts once its ready file is there:

<two digits>/<key>/<version>/<part>               lines of base64, each a chunk behind its checksum
<two digits>/<key>/<version>.<parts>.<bytes>      the version is whole: the number of its parts and bytes
"""

import asyncio
import binascii
from collections import deque
from collections.abc import AsyncGenerator, AsyncIterable, AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress
from typing import NamedTuple, TypeVar

from elytron_core.errors import Conflict, ElytronError, NotFound, StoreCorrupt, StoreUnavailable
from elytron_core.ids import SpaceId
from elytron_core.ports.store import (
    Batch,
    CommitReceipt,
    CompactedRun,
    ErasureReceipt,
    ErasureTarget,
)
from elytron_core.ports.store_checks import DamageKind
from elytron_core.strict_json import frame_checksum, sha256_digest
from elytron_store import commit_queue, engine
from elytron_store import limits as store_limits
from elytron_store.commit_queue import Outcome, Waiting
from elytron_store.engine import blob_pieces
from elytron_store.file import generation, repair
from elytron_store.file.frame import CHECKSUM_BYTES
from elytron_store.file.log import LogView
from elytron_store.file.repair import SpaceDamage, SpaceFindings, examine_log, mended_log
from elytron_store.mcp.shards import RemotePieces, ShardLog, SharedContext
from elytron_store.mcp.tools import WriteMode


class BlobVersion(NamedTuple):
    """A whole version of a blob."""

    name: str
    parts: int
    size: int

    @property
    def ready(self) -> str:
        return f"{self.name}.{self.parts}.{self.size}"


class BlobFiles:
    """The blobs in `folder`, of one space."""

    def __init__(self, shared_context: SharedContext, folder: str, /) -> None:
        self._shared = shared_context
        self._folder = folder

    async def write(self, key: str, chunks: AsyncIterable[bytes], /) -> int:
        """Write the bytes of `chunks` as the blob `key`, atomically; return their size."""
        name = f"{self._shared.lease.epoch:08}-{self._shared.ids.new()}"
        writer = _VersionWriter(self._shared, f"{self._of(key)}/{name}", key)
        try:
            async for piece in blob_pieces(chunks):
                await writer.write(piece)
            # Before the ready file, which publishes the version: another writer may have come.
            await self._shared.lease.confirm()
        except BaseException:
            # Likewise if the caller left: a version without a ready file does not count, and goes with the next
            # version.
            with suppress(ElytronError, asyncio.CancelledError):
                await self._shared.files.delete(f"{self._of(key)}/{name}", recursive=True)
            raise
        version = BlobVersion(name, writer.parts, writer.size)
        await self._shared.files.write(f"{self._of(key)}/{version.ready}", "ready\n", mode=WriteMode.TRUNCATE)
        # A later writer sees this version from here on and needs no older one.
        await self._shared.lease.confirm_on_server()
        await self._sweep(key, but=version)
        return writer.size

    async def read(self, key: str, /) -> AsyncIterator[bytes]:
        """Yield the chunks of the blob `key`. Raises NotFound; StoreCorrupt at the first damaged chunk."""
        versions = await self._versions(key)
        if not versions:
            raise NotFound(what="blob", name=key)
        async for chunk in self._chunks(key, versions[-1]):
            yield chunk

    async def remove(self, key: str, /) -> bool:
        """Remove the blob `key`; return whether there was one."""
        # The ready files first: without them no reader considers the rest a blob.
        versions = await self._versions(key)
        for version in versions:
            await self._shared.files.delete(f"{self._of(key)}/{version.ready}")
        await self._shared.files.delete(self._of(key), recursive=True)
        return bool(versions)

    async def clear(self) -> int:
        """Remove all blobs; return their number."""
        return sum([await self.remove(key) for key in await self._keys()])

    async def examine(self, findings: SpaceFindings, /) -> None:
        """Read every blob, and add the number of blobs and the damaged ones to `findings`."""
        for key in await self._keys():
            if await self._versions(key):
                findings.blobs += 1
                if not await self._is_whole(key):
                    findings.troubles.append(SpaceDamage(DamageKind.BLOB, f"blob {key}"))

    async def damaged(self) -> Sequence[str]:
        """Return the keys of the unreadable blobs."""
        return [key for key in await self._keys() if await self._versions(key) and not await self._is_whole(key)]

    async def text_of(self, key: str, /) -> str:
        """Return the lines of the blob `key`, damaged or not."""
        (*_, version) = await self._versions(key)
        parts: list[str] = []
        for part in range(version.parts):
            with suppress(NotFound):
                parts.append(await self._shared.files.read(f"{self._of(key)}/{version.name}/{part:06}"))
        return "".join(parts)

    async def _is_whole(self, key: str) -> bool:
        try:
            async for _ in self.read(key):
                pass
        except StoreCorrupt:
            return False
        return True

    async def _chunks(self, key: str, version: BlobVersion) -> AsyncIterator[bytes]:
        total_bytes, index = 0, 0
        for part in range(version.parts):
            async for line in self._lines(f"{self._of(key)}/{version.name}/{part:06}", key):
                chunk = _open_line(line, key, version.name, index)
                total_bytes, index = total_bytes + len(chunk), index + 1
                yield chunk
        if total_bytes != version.size:
            raise StoreCorrupt(what=f"blob {key}")

    async def _lines(self, path: str, key: str) -> AsyncIterator[str]:
        line_rest, offset = "", 0
        while True:
            try:
                text = await self._shared.files.read(path, offset=offset, length=store_limits.MCP_WRITE_CHARS)
            except NotFound:
                # A missing part is damage only while the folder of its version exists.
                if await self._shared.files.list(path.rpartition("/")[0]):
                    raise StoreCorrupt(what=f"blob {key}") from None
                raise StoreUnavailable("a blob was replaced or removed while it was read: read it again") from None
            offset += len(text.encode())
            *whole_lines, line_rest = (line_rest + text).split("\n")
            for line in whole_lines:
                yield line
            if len(text) < store_limits.MCP_WRITE_CHARS:
                if line_rest:
                    raise StoreCorrupt(what=f"blob {key}")
                return

    async def _sweep(self, key: str, *, but: BlobVersion) -> None:
        for entry in await self._shared.files.list(self._of(key)):
            if entry.name not in {but.name, but.ready}:
                await self._shared.files.delete(f"{self._of(key)}/{entry.name}", recursive=entry.is_folder)

    async def _versions(self, key: str) -> Sequence[BlobVersion]:
        names = [entry.name for entry in await self._shared.files.list(self._of(key)) if not entry.is_folder]
        return sorted(version for name in names if (version := _named_version(name)) is not None)

    async def _keys(self) -> Sequence[str]:
        keys: list[str] = []
        for prefix in await self._shared.files.list(self._folder):
            keys += [entry.name for entry in await self._shared.files.list(f"{self._folder}/{prefix.name}")]
        return sorted(keys)

    def _of(self, key: str) -> str:
        return f"{self._folder}/{sha256_digest(key.encode())[:2]}/{key}"


class _VersionWriter:
    """A version being written. Small chunks share an append."""

    def __init__(self, shared_context: SharedContext, folder: str, key: str, /) -> None:
        self.parts = 0
        self.size = 0
        self._shared = shared_context
        self._folder = folder
        self._key = key
        self._index = 0
        self._chars = 0

    async def write(self, chunk: bytes, /) -> None:
        self.size += len(chunk)
        await self._shared.lease.hold()
        version = self._folder.rpartition("/")[2]
        sealed_chunk = _chunk_checksum(self._key, version, self._index, chunk) + chunk
        line = f"{binascii.b2a_base64(sealed_chunk, newline=False).decode()}\n"
        if not self.parts or self._chars + len(line) > store_limits.MCP_SHARD_CHARS:
            self.parts, self._chars = self.parts + 1, 0
        path = f"{self._folder}/{self.parts - 1:06}"
        await self._shared.files.write(path, line, mode=WriteMode.APPEND, offset=self._chars)
        self._chars, self._index = self._chars + len(line), self._index + 1


def _chunk_checksum(key: str, version: str, index: int, chunk: bytes) -> bytes:
    return frame_checksum(key.encode(), version.encode(), index.to_bytes(8, "big"), chunk)


def _open_line(line: str, key: str, version: str, index: int) -> bytes:
    """Return the chunk in a line. Raises StoreCorrupt."""
    with suppress(binascii.Error, ValueError):
        sealed_chunk = binascii.a2b_base64(line, strict_mode=True)
        chunk = sealed_chunk[CHECKSUM_BYTES:]
        if sealed_chunk[:CHECKSUM_BYTES] == _chunk_checksum(key, version, index, chunk):
            return chunk
    raise StoreCorrupt(what=f"blob {key}")


def _named_version(name: str) -> BlobVersion | None:
    name_parts = name.split(".")
    if len(name_parts) != len(BlobVersion._fields) or not (name_parts[1].isdecimal() and name_parts[2].isdecimal()):
        return None
    return BlobVersion(name_parts[0], int(name_parts[1]), int(name_parts[2]))


T = TypeVar("T")


class SpaceLog:
    """The space in the folder `name`, None if its name is lost. Waiting commits are appended together."""

    def __init__(self, shared_context: SharedContext, name: str, space: SpaceId | None, /) -> None:
        self.folder = f"{shared_context.root}/spaces/{name[:2]}/{name}"  # a listing is bounded, so each folder has few
        self.blobs = BlobFiles(shared_context, f"{shared_context.root}/blobs/{name[:2]}/{name}")
        self._shared = shared_context
        self._aside = RemotePieces(shared_context.files, f"{shared_context.root}/quarantine/{name[:2]}/{name}")
        self._space = space
        self._log = ShardLog(shared_context, self.folder, space)
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
        """Return the outcome of `batch`, which is appended even if the caller leaves meanwhile."""
        answer: asyncio.Future[CommitReceipt] = asyncio.get_running_loop().create_future()
        self._waiting.append((batch, answer))
        if self._appending is None:
            self._appending = asyncio.create_task(self._append_all())
        return await answer

    async def read(self) -> LogView:
        """Return the log, loaded if necessary."""
        if not self._is_loaded:
            async with self._turn:
                await self._load()
        return self._log.view

    async def begin(self) -> None:
        """Create the space, even without a document."""
        async with self._writing():
            if self._log.view.is_empty:
                await self._log.write_new(())

    async def erase(self, erasure: ErasureTarget, /) -> ErasureReceipt:
        """Remove what `erasure` names, as `Store.erase` promises. Raises StoreCorrupt while frames are lost."""
        if erasure.whole_space:
            return await self._erase_everything()
        async with self._writing():
            view = self._log.view
            view.contents.require_complete()
            await self._aside.forget(refs=erasure.refs, blobs=erasure.blobs)
            digest_scrub = generation.DigestScrub(frozenset(erasure.refs))
            remainder = generation.left_by(erasure, digest_scrub, view)
            await self._log.write_new(remainder.frames)
            blobs = sum([await self.blobs.remove(key) for key in set(erasure.blobs)])
            return ErasureReceipt(
                documents=remainder.documents,
                blobs=blobs,
                entries_scrubbed=digest_scrub.count,
                sequence=remainder.sequence,
            )

    async def compact_journal(self, runs: Sequence[CompactedRun], /) -> int:
        """Replace each of `runs` with one journal entry; return how many entries were removed. Raises Conflict."""
        async with self._writing():
            view = self._log.view
            if view.is_empty:
                return sum(1 for _ in engine.compacted_journal((), runs))  # none of its runs exists
            view.contents.require_complete()
            compacted_runs = generation.CompactedRuns(runs)
            await self._log.write_new(generation.snapshot_frames(*view, without=frozenset(), rewrite=compacted_runs))
            return view.contents.entries - compacted_runs.count

    async def examine(self) -> SpaceFindings | None:
        """Read everything on the server again; return the findings, None if there is no such space."""
        async with self._turn:
            self._is_loaded = False
            findings = SpaceFindings(space=self._space)
            try:
                await self._load()
            except StoreCorrupt as damage_error:
                findings.troubles.append(SpaceDamage(DamageKind.ENGINE, damage_error.what))
                return findings
            if self._log.view.is_empty:
                return None
            examine_log(self._log.view.log, findings)
            await self.blobs.examine(findings)
            return findings

    async def repair(self) -> SpaceFindings | None:
        """Quarantine damaged content and rewrite the rest; return the findings."""
        findings = await self.examine()
        if findings is None or not findings.troubles:
            return findings
        async with self._writing(is_lost_fine=True):
            view = self._log.view
            if view.is_empty:  # without a header no frame can be recognised, so all of the log is quarantined
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
            if view.is_empty and self._is_loaded:
                return ErasureReceipt(documents=0, blobs=0, entries_scrubbed=0, sequence=0)
            documents, entries = len(view.contents.ledger), view.contents.entries
            await self._log.end()
            await self._shared.files.delete(self.folder, recursive=True)
            return ErasureReceipt(documents=documents, blobs=blobs, entries_scrubbed=entries, sequence=0)

    async def _append_all(self) -> None:
        while group := commit_queue.take_group(self._waiting):
            try:
                outcomes = await self._append([batch for batch, _ in group])
            except ElytronError as error:
                outcomes = [error] * len(group)
            commit_queue.answer_group(group, outcomes)
        self._appending = None

    async def _append(self, batches: Sequence[Batch]) -> Sequence[Outcome]:
        async with self._writing():
            view = self._log.view
            view.contents.require_complete()
            outcomes, frames = generation.judge_batches(batches, view)
            if frames:
                await (self._log.write_new(frames) if view.is_empty else self._log.append(frames))
        if self._log.is_worth_rewriting:
            with suppress(ElytronError):  # it saves room, and is due again if it failed
                await self._rewrite()
        return outcomes

    async def _rewrite(self) -> None:
        async with self._writing():
            if not self._log.view.is_empty:
                frames = generation.snapshot_frames(*self._log.view, without=frozenset(), rewrite=iter)
                await self._log.write_new(frames)

    @asynccontextmanager
    async def _writing(self, *, is_lost_fine: bool = False) -> AsyncGenerator[None]:
        """Lock the space against other writers of this handle. After a failure in the block it is reloaded."""
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
