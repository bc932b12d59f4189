"""The store port over the six tools of an MCP file server: one append-only log per space, one writer at a time."""

from collections import OrderedDict
from collections.abc import AsyncIterable, AsyncIterator, Sequence
from contextlib import suppress
from typing import Final, Self

from elytron_core.clock import Clock
from elytron_core.errors import ElytronError, NotFound, StoreMissing
from elytron_core.ids import IdSource, SpaceId
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
from elytron_core.ports.store_checks import CheckReport, StoreProblem
from elytron_core.profiles import ErasurePromise, StoreCapabilities
from elytron_store import manifest
from elytron_store.engine import DocumentPage, Engine
from elytron_store.file.disk import folder_name
from elytron_store.file.frame import HEADER_BYTES, decode_header
from elytron_store.file.log import LogView, read_document
from elytron_store.file.repair import SpaceFindings, findings_report
from elytron_store.manifest import StoreManifest
from elytron_store.mcp.lease import WriterLease
from elytron_store.mcp.shards import SharedContext, join_shards, read_text, standing_generation
from elytron_store.mcp.space_log import SpaceLog
from elytron_store.mcp.tools import ENGINE, ToolFiles, WriteMode

MCP_HELD_BYTES: Final = 256 * 1024 * 1024
"""Bytes of spaces on an MCP file server that a handle keeps in memory."""


_ROOT = "/elytron"
_HEADER_CHARS = 4 * HEADER_BYTES


class McpStore(Engine):
    """A store on an MCP file server. Use it from one event loop.

    One handle at a time writes and reads it: others get StoreBusy until it is closed, or idle for the time of a lease;
    if another one took over then, it raises StoreFailed from then on. A server that does not answer raises Unreachable,
    and it is unknown whether a commit arrived: under an idempotency key it can be sent again.
    """

    capabilities = StoreCapabilities(
        durable=True, single_writer=True, erasure=ErasurePromise.OF_SERVER, ttl=True, following=False
    )

    def __init__(self, shared_context: SharedContext, /) -> None:
        super().__init__()
        self._shared = shared_context
        self._logs: OrderedDict[SpaceId, SpaceLog] = OrderedDict()
        self._names: dict[str, SpaceId] = {}

    @classmethod
    async def open(
        cls,
        files: ToolFiles,
        /,
        *,
        clock: Clock,
        ids: IdSource,
        profile: str | None = None,
        sealed: bool = False,
        is_made: bool = True,
    ) -> Self:
        """Open the store on `files`, created if there is none and `is_made`; it closes them.

        Raises StoreBusy, StoreMissing, StoreForeign, StoreNewer, Unauthorized, Unreachable, and then changes nothing.
        """
        writer_lease = WriterLease(files, f"{_ROOT}/lease", holder=ids.new(), clock=clock)
        try:
            current_manifest = await _remote_manifest(files, is_made=is_made)
            if current_manifest is not None:
                manifest.require_match(current_manifest, engine=ENGINE, profile=profile, sealed=sealed)
            await writer_lease.hold()
            if current_manifest is None:
                new_manifest = StoreManifest.fresh(ENGINE, at=clock.now(), profile=profile, sealed=sealed)
                await files.write(f"{_ROOT}/manifest.json", new_manifest.to_bytes().decode(), mode=WriteMode.TRUNCATE)
        except BaseException:
            await files.close()
            raise
        return cls(SharedContext(files, writer_lease, ids, _ROOT))

    async def _commit(self, batch: Batch) -> CommitReceipt:
        return await self._space(batch.space).commit(batch)

    async def _get(self, space: SpaceId, refs: Sequence[DocumentRef]) -> Sequence[Document | None]:
        view = await self._read(space)
        documents = view.contents.find(refs)
        return [None if document is None else read_document(view.log, ref, document) for ref, document in documents]

    async def _scan(self, space: SpaceId, page: DocumentPage) -> Sequence[Document]:
        view = await self._read(space)
        return [read_document(view.log, ref, document) for ref, document in view.contents.scan(page)]

    async def _count(self, space: SpaceId, collection: str) -> int:
        return (await self._read(space)).contents.count(collection)

    async def _journal(self, space: SpaceId, after: int, limit: int) -> Sequence[JournalEntry]:
        view = await self._read(space)
        return view.contents.journal(view.log, after=after, limit=limit)

    async def _compact(self, space: SpaceId, runs: Sequence[CompactedRun]) -> int:
        await self._shared.lease.hold()
        return await self._space(space).compact_journal(runs)

    async def _spaces(self, after: str, limit: int) -> Sequence[SpaceId]:
        """Return spaces in the order of their digests; only `check` names one whose header is lost."""
        await self._shared.lease.hold()
        after_name = folder_name(after) if after else ""
        spaces: list[SpaceId] = []
        for name in await self._folders():
            if len(spaces) == limit:
                break
            if name > after_name and (space := await self._name_of(name)) is not None:
                spaces.append(space)
        return spaces

    async def _write_blob(self, space: SpaceId, key: str, chunks: AsyncIterable[bytes]) -> int:
        await self._shared.lease.hold()
        space_log = self._space(space)
        size = await space_log.blobs.write(key, self._while_open(chunks))
        await space_log.begin()
        return size

    async def read_blob(self, space: SpaceId, key: str, /) -> AsyncIterator[bytes]:
        self._require_blob(space, key)
        await self._shared.lease.hold()
        async for chunk in self._space(space).blobs.read(key):
            yield chunk
            # The caller may have closed the store while it worked on the chunk.
            self._require_open()

    async def _erase(self, erasure: ErasureTarget) -> ErasureReceipt:
        await self._shared.lease.hold()
        self._names.pop(folder_name(erasure.space), None)
        return await self._space(erasure.space).erase(erasure)

    async def _check(self) -> CheckReport:
        findings = await self._examined()
        return findings_report(findings, [problem for each in findings for problem in each.problems(repaired=False)])

    async def _repair(self) -> CheckReport:
        await self._shared.lease.hold()
        problems: list[StoreProblem] = []
        for name in await self._folders():
            repaired_findings = await self._log_of(name, await self._name_of(name)).repair()
            if repaired_findings is not None:
                problems += repaired_findings.problems(repaired=True)
        return findings_report(await self._examined(), problems)

    async def close(self) -> None:
        """Finish accepted work, and release the lease immediately if the server can be reached."""
        if not self._closed:
            self._closed = True
            for space in self._logs.values():
                await space.settle()
            with suppress(ElytronError):  # otherwise the lease expires
                await self._shared.lease.release()
            self._logs.clear()
            await self._shared.files.close()

    async def _read(self, space: SpaceId) -> LogView:
        await self._shared.lease.hold()
        return await self._space(space).read()

    def _space(self, space: SpaceId) -> SpaceLog:
        space_log = self._logs.get(space)
        if space_log is None:
            space_log = self._logs[space] = SpaceLog(self._shared, folder_name(space), space)
            self._let_go()
        self._logs.move_to_end(space)
        return space_log

    def _let_go(self) -> None:
        """Drop the least recently used spaces beyond the limit."""
        cached_bytes = 0
        for space, space_log in reversed(list(self._logs.items())):
            cached_bytes += space_log.size
            if cached_bytes > MCP_HELD_BYTES and space_log.is_idle:
                del self._logs[space]

    async def _while_open(self, chunks: AsyncIterable[bytes]) -> AsyncIterator[bytes]:
        async for chunk in chunks:
            self._require_open()
            yield chunk
        self._require_open()

    async def _folders(self) -> Sequence[str]:
        files, names = self._shared.files, list[str]()
        for prefix in await files.list(f"{_ROOT}/spaces"):
            names += [entry.name for entry in await files.list(f"{_ROOT}/spaces/{prefix.name}")]
        return sorted(names)

    async def _name_of(self, name: str) -> SpaceId | None:
        """Return the name of the space in a folder, None if it does not exist or its header is lost."""
        if name not in self._names:
            folder = f"{_ROOT}/spaces/{name[:2]}/{name}"
            generation = await standing_generation(self._shared.files, folder)
            if generation is None or generation.is_gone or not generation.shards:
                return None
            (shard, shard_size) = generation.shards[0]
            path = f"{folder}/{generation.name}/{shard}"
            with suppress(NotFound):
                text = await read_text(self._shared.files, path, min(shard_size, _HEADER_CHARS))
                first_line = text.partition("\n")[0].removeprefix("~")
                header = decode_header(join_shards([(0, first_line[: len(first_line) // 4 * 4] + "\n")])[:HEADER_BYTES])
                if header is not None:
                    self._names[name] = header.space
        return self._names.get(name)

    def _log_of(self, name: str, space: SpaceId | None) -> SpaceLog:
        return SpaceLog(self._shared, name, None) if space is None else self._space(space)

    async def _examined(self) -> Sequence[SpaceFindings]:
        self._require_open()
        await self._shared.lease.hold()
        findings = [await self._log_of(name, await self._name_of(name)).examine() for name in await self._folders()]
        return [each for each in findings if each is not None]


async def _remote_manifest(files: ToolFiles, *, is_made: bool) -> StoreManifest | None:
    try:
        return manifest.read_manifest((await files.read(f"{_ROOT}/manifest.json")).encode())
    except NotFound:
        if not is_made:
            raise StoreMissing(place="the MCP file server") from None
        return None
