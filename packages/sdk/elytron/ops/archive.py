"""Export and import of a space as one archive file."""

import asyncio
from collections import Counter
from pathlib import Path
from typing import assert_never

from elytron.context import OperationContext
from elytron.documents.planes import public_form
from elytron.erasure.reapplication import (
    erase_again,
    gather_erasures,
    known_erasures,
    note_gone,
    read_erasures,
    write_erasures,
)
from elytron.journal.verification import EventFingerprint, StateFingerprint, space_documents
from elytron.secrets.user_spaces import further_spaces
from elytron.transfer.archive import ArchiveReader, ArchiveWriter
from elytron.transfer.bootstrap import bootstrap_space
from elytron.transfer.restore import full_restore
from elytron_core.contracts.archive import (
    ImportMode,
    MemoryErasuresApplyReport,
    MemoryErasuresApplyRequest,
    MemoryErasuresKeepReport,
    MemoryErasuresKeepRequest,
    MemoryImportReport,
    MemoryImportRequest,
    MemorySpaceExportReport,
    MemorySpaceExportRequest,
)
from elytron_core.errors import InvalidInput, NotFound, StoreBusy
from elytron_core.planes.servers.gateway import WITH_BLOBS
from elytron_core.policy.redaction import PublicForm
from elytron_core.ports import store
from elytron_core.ports.store import Document
from elytron_core.scope import Scope

ATTEMPTS = 3


async def export_space(ctx: OperationContext, request: MemorySpaceExportRequest, /) -> MemorySpaceExportReport:
    """Write the exportable parts of the space, or all with `include_private`, as a consistent snapshot.

    Raises NotFound for a space never written to, InvalidInput for a file that exists without `overwrite`.
    """
    scope = ctx.scope_of(request)
    if await ctx.spaces.find(scope.space) is None:
        raise NotFound(what="space", name=scope.space, way_out="nothing was ever written to it in this store")
    for _ in range(ATTEMPTS):
        report = await _write_archive(
            ctx, scope, Path(request.path), include_private=request.include_private, overwrite=request.overwrite
        )
        if report is not None:
            return report
    raise StoreBusy(engine=ctx.engine, waited_s=0)


async def import_archive(ctx: OperationContext, request: MemoryImportRequest, /) -> MemoryImportReport:
    """Import an archive into the space. Raises UnreadableFile; SpaceInUse if a full restore finds memories."""
    scope = ctx.scope_of(request)
    archive_reader = await asyncio.to_thread(ArchiveReader, Path(request.path))
    with archive_reader:
        match request.mode:
            case ImportMode.FULL_RESTORE:
                return await full_restore(
                    ctx, scope, archive_reader, with_agents=request.with_agents, dry_run=request.dry_run
                )
            case ImportMode.BOOTSTRAP:
                return await bootstrap_space(ctx, scope, archive_reader, word=request.word, dry_run=request.dry_run)
            case _:
                assert_never(request.mode)


async def _write_archive(
    ctx: OperationContext, scope: Scope, path: Path, *, include_private: bool, overwrite: bool
) -> MemorySpaceExportReport | None:
    """Write the archive, or nothing if another call wrote to the space meanwhile."""
    counts: Counter[str] = Counter()
    redacted_counts: Counter[str] = Counter()
    state_fingerprint, event_fingerprint, output_fingerprint = (
        StateFingerprint(),
        EventFingerprint(),
        EventFingerprint(),
    )
    publisher = PublicForm(public_form, ctx.clock.now())
    blob_count = 0
    with ArchiveWriter(path, overwrite=overwrite) as writer:
        async for entry in store.scan_entries(ctx.store, scope.space):
            event_fingerprint.add(entry)
            if include_private:
                writer.entry(entry)
                output_fingerprint.add(entry)
        async for document in space_documents(ctx.store, scope.space):
            collection = document.ref.collection
            body = document.body if include_private else publisher.public(collection, document.body)
            if body is None:
                redacted_counts[collection] += 1
                continue
            output_document = Document(document.ref, document.revision, body)
            writer.document(output_document)
            counts[collection] += 1
            state_fingerprint.add(output_document)
            if collection in WITH_BLOBS:
                blob_count += await _write_blob(ctx, scope, document.ref.key, writer)
        # Written to meanwhile: the archive would be of no single moment.
        if await ctx.store.journal(scope.space, after=event_fingerprint.sequence, limit=1):
            return None
        archive_bytes = await asyncio.to_thread(
            writer.finish,
            space=scope.space,
            sequence=output_fingerprint.sequence,
            state_fingerprint=state_fingerprint.hexdigest(),
            event_fingerprint=output_fingerprint.hexdigest(),
            include_private=include_private,
        )
    return MemorySpaceExportReport(
        space=scope.space,
        path=str(path),
        size_bytes=archive_bytes,
        include_private=include_private,
        documents=dict(sorted(counts.items())),
        redacted=dict(sorted(redacted_counts.items())),
        entries=output_fingerprint.count,
        blobs=blob_count,
        state_fingerprint=state_fingerprint.hexdigest(),
        event_fingerprint=output_fingerprint.hexdigest(),
        other_spaces=await further_spaces(ctx.store, scope.space),
    )


async def _write_blob(ctx: OperationContext, scope: Scope, key: str, writer: ArchiveWriter) -> int:
    """Write the bytes of a document's blob; return 0 if it has none, else 1."""
    chunks = ctx.store.read_blob(scope.space, key)
    try:
        first_chunk = await anext(chunks, b"")
    except NotFound:
        return 0  # an attachment that is an address, or a file whose bytes never came
    blob = writer.blob(key)
    blob.add(first_chunk)
    async for chunk in chunks:
        blob.add(chunk)
    return 1


async def keep_erasures(ctx: OperationContext, request: MemoryErasuresKeepRequest, /) -> MemoryErasuresKeepReport:
    """Add the space's erasures to a file without changing others. Raises NotFound, UnreadableFile."""
    scope = ctx.scope_of(request)
    if request.whole_space is not None and request.whole_space != scope.space:
        raise InvalidInput(field="whole_space", problem="does not match the space of the scope: repeat its name")
    path = Path(request.path)
    erasures = await asyncio.to_thread(known_erasures, path)
    gather_function = note_gone if request.whole_space is not None else gather_erasures
    space_erasures = await gather_function(ctx, scope, erasures)
    if space_erasures is None:
        raise NotFound(
            what="space",
            name=scope.space,
            way_out="nothing was ever written to it in this store; if it was erased as a whole, repeat whole_space",
        )
    await asyncio.to_thread(write_erasures, path, erasures)
    return MemoryErasuresKeepReport(
        space=scope.space,
        path=request.path,
        erased=space_erasures.by_plane(),
        is_whole=space_erasures.whole_at is not None,
    )


async def apply_erasures(ctx: OperationContext, request: MemoryErasuresApplyRequest, /) -> MemoryErasuresApplyReport:
    """Erase again what the file lists as erased in the space and exists. Raises UnreadableFile."""
    scope = ctx.scope_of(request)
    erasures = await asyncio.to_thread(read_erasures, Path(request.path))
    return await erase_again(ctx, scope, erasures, dry_run=request.dry_run)
