"""Export and import of a space as one archive file."""

import asyncio
from collections import Counter
from pathlib import Path
from typing import assert_never

from elytron.archive import ArchiveReader, ArchiveWriter
from elytron.context import OperationContext
from elytron.fingerprints import EventFingerprint, document_line, documents, entries, state_fingerprint
from elytron.restoring import bootstrap, full_restore
from elytron_core.contracts.moving import (
    ImportMode,
    MemoryExportReport,
    MemoryExportRequest,
    MemoryImportReport,
    MemoryImportRequest,
)
from elytron_core.errors import NotFound, StoreBusy
from elytron_core.scope import Scope

ATTEMPTS = 3


async def export(ctx: OperationContext, request: MemoryExportRequest, /) -> MemoryExportReport:
    """Write the space to one archive file, as it stood at one moment. Raises NotFound for a space never written to."""
    scope = ctx.scope_of(request)
    if await ctx.spaces.find(scope.space) is None:
        raise NotFound(what="space", name=scope.space)
    path = Path(request.path)
    for _ in range(ATTEMPTS):
        report = await _export(ctx, scope, path)
        if report is not None:
            return report
    raise StoreBusy(engine=ctx.engine, waited_s=0)


async def import_archive(ctx: OperationContext, request: MemoryImportRequest, /) -> MemoryImportReport:
    """Read an archive into the space. Raises UnreadableFile; Conflict where a full restore finds the space in use."""
    scope = ctx.scope_of(request)
    reader = await asyncio.to_thread(ArchiveReader, Path(request.path))
    with reader:
        match request.mode:
            case ImportMode.FULL_RESTORE:
                return await full_restore(ctx, scope, reader, dry_run=request.dry_run)
            case ImportMode.BOOTSTRAP:
                return await bootstrap(ctx, scope, reader, dry_run=request.dry_run)
            case _:
                assert_never(request.mode)


async def _export(ctx: OperationContext, scope: Scope, path: Path) -> MemoryExportReport | None:
    """Write the archive, or nothing where somebody wrote to the space meanwhile."""
    counts: Counter[str] = Counter()
    lines: list[bytes] = []
    events = EventFingerprint()
    with ArchiveWriter(path) as writer:
        async for entry in entries(ctx.store, scope.space):
            writer.entry(entry)
            events.add(entry)
        async for document in documents(ctx.store, scope.space):
            writer.document(document)
            counts[document.ref.collection] += 1
            lines.append(document_line(document))
        if await ctx.store.journal(scope.space, after=events.count, limit=1):
            return None
        state = state_fingerprint(lines)
        size = await asyncio.to_thread(
            writer.finish,
            space=scope.space,
            sequence=events.count,
            state_fingerprint=state,
            event_fingerprint=events.hexdigest(),
        )
    return MemoryExportReport(
        space=scope.space,
        path=str(path),
        size_bytes=size,
        documents=dict(sorted(counts.items())),
        entries=events.count,
        state_fingerprint=state,
        event_fingerprint=events.hexdigest(),
    )
