"""Calls on a memory as a whole: capabilities, spaces, contents, archives, closing."""

from os import PathLike, fspath

from elytron.api import calls
from elytron.api.calls import BlockingCalls, CallFace, blocking_call, takes_request
from elytron_core.contracts import archive, inspection


class PlatformFace(CallFace):
    """List abilities and contents; move, check and close a memory."""

    async def capabilities(
        self, request: inspection.MemoryCapabilitiesRequest | None = None, /
    ) -> inspection.MemoryCapabilityCatalog:
        """Return what this memory can do, and why other capabilities are unavailable.

        >>> memory.capabilities().recall.permitted
        True
        """
        request = request or inspection.MemoryCapabilitiesRequest()
        return await self.operate(request)

    @takes_request(inspection.MemorySpacesRequest)
    async def spaces(self, *, limit: int = 100, cursor: str | None = None) -> inspection.MemorySpacesReport:
        """List the spaces of the store by name, with their conversation counts.

        >>> _ = memory.add("I am vegetarian.", user_id="noor")
        >>> [space.space for space in memory.spaces().spaces]
        ['ada', 'noor']
        """
        return await self.operate(inspection.MemorySpacesRequest(limit=limit, cursor=cursor))

    @takes_request(inspection.MemoryInspectionRequest)
    async def inspect(
        self,
        *,
        check: bool = False,
        fingerprints: bool = False,
        head: str | None = None,
        acknowledge: bool = False,
        user_id: str | None = None,
    ) -> inspection.MemoryInspectionReport:
        """Report what the space contains; with `check`, whether its store is sound; with `fingerprints`, its
        fingerprints.

        `acknowledge` ends the reports of what repairs could not save of it.

        >>> memory.inspect(check=True).documents["turns"]
        2
        """
        scope = calls.scope_of(self.scope, user_id=user_id)
        request = inspection.MemoryInspectionRequest(
            scope=scope, check=check, fingerprints=fingerprints, head=head, acknowledge=acknowledge
        )
        return await self.operate(request)

    @takes_request(archive.MemorySpaceExportRequest)
    async def export(
        self,
        target: str | PathLike[str],
        /,
        *,
        include_private: bool = True,
        overwrite: bool = False,
        user_id: str | None = None,
    ) -> archive.MemorySpaceExportReport:
        """Write the whole space to one archive file, or without `include_private` only what may be shared.

        A file that exists is replaced only with `overwrite`.

        >>> memory.export("whole.elytron").documents["turns"]
        2
        >>> memory.export("shared.elytron", include_private=False).documents  # none of the messages
        {'facts': 1, 'slots': 1}
        """
        scope = calls.scope_of(self.scope, user_id=user_id)
        request = archive.MemorySpaceExportRequest(
            scope=scope, path=fspath(target), include_private=include_private, overwrite=overwrite
        )
        return await self.operate(request)

    @takes_request(archive.MemoryImportRequest)
    async def import_archive(
        self,
        source: str | PathLike[str],
        /,
        *,
        mode: archive.ImportMode = archive.ImportMode.FULL_RESTORE,
        user_id: str | None = None,
    ) -> archive.MemoryImportReport:
        """Import an archive file into the space: exactly into an empty one, otherwise what is new (see ImportMode).

        >>> _ = memory.export("ada.elytron")
        >>> memory.import_archive("ada.elytron", user_id="ada-restored").imported["turns"]
        2
        """
        scope = calls.scope_of(self.scope, user_id=user_id)
        mode = calls.word_member(archive.ImportMode, mode, field="mode")
        request = archive.MemoryImportRequest(scope=scope, path=fspath(source), mode=mode)
        return await self.operate(request)

    async def keep_erasures(
        self, target: str | PathLike[str] | archive.MemoryErasuresKeepRequest, /
    ) -> archive.MemoryErasuresKeepReport:
        """Add the erasures to a file, in addition to those already in it; it contains no memory content.

        >>> _ = memory.erase(key)
        >>> {str(plane): count for plane, count in memory.keep_erasures("erasures.jsonl").erased.items()}
        {'transcript': 1}
        """
        if not isinstance(target, archive.MemoryErasuresKeepRequest):
            target = archive.MemoryErasuresKeepRequest(path=fspath(target))
        return await self.operate(target)

    async def apply_erasures(
        self, source: str | PathLike[str] | archive.MemoryErasuresApplyRequest, /
    ) -> archive.MemoryErasuresApplyReport:
        """Re-apply the erasures in such a file to a restored older copy.

        >>> _ = memory.erase(key)
        >>> _ = memory.keep_erasures("erasures.jsonl")
        >>> print(memory.apply_erasures("erasures.jsonl").outcome)
        nothing
        """
        if not isinstance(source, archive.MemoryErasuresApplyRequest):
            source = archive.MemoryErasuresApplyRequest(path=fspath(source))
        return await self.operate(source)

    async def recover(
        self, request: inspection.MemoryRecoverRequest | None = None, /
    ) -> inspection.MemoryLifecycleReport:
        """Check the store and rebuild the space's index from its journal.

        >>> print(memory.recover().phase)
        recovered
        """
        return await self.operate(request or inspection.MemoryRecoverRequest())

    async def close(self, request: inspection.MemoryCloseRequest | None = None, /) -> inspection.MemoryLifecycleReport:
        """Finish accepted work and release the store; a second close does nothing.

        >>> print(memory.close().phase)
        closed
        """
        return await self.operate(request or inspection.MemoryCloseRequest())


class BlockingPlatform(BlockingCalls):
    """The platform calls, blocking until their answer."""

    inspect = blocking_call(PlatformFace.inspect)
    export = blocking_call(PlatformFace.export)
    spaces = blocking_call(PlatformFace.spaces)
    import_archive = blocking_call(PlatformFace.import_archive)
    keep_erasures = blocking_call(PlatformFace.keep_erasures)
    apply_erasures = blocking_call(PlatformFace.apply_erasures)
    recover = blocking_call(PlatformFace.recover)
    capabilities = blocking_call(PlatformFace.capabilities)
