"""The calls on a memory as a whole: its abilities, spaces, contents, archives and end."""

from os import PathLike, fspath

from elytron.api import arguments, validation
from elytron.api.base import Face, takes_request
from elytron_core.contracts.admin import archive, erasures, inspection, platform, spaces


class PlatformFace(Face):
    """Say what can be done here and what a space holds; move, check and close it."""

    async def capabilities(
        self, request: platform.MemoryCapabilitiesRequest | None = None, /
    ) -> platform.MemoryCapabilityCatalog:
        """Say what this memory can do, and what keeps it from the rest.

        >>> memory.capabilities().recall.permitted
        True
        """
        request = request or platform.MemoryCapabilitiesRequest()
        return await self.operate(request, platform.MemoryCapabilityCatalog)

    @takes_request(spaces.MemorySpacesRequest, spaces.MemorySpacesReport)
    async def spaces(self, *, limit: int = 100, cursor: str | None = None) -> spaces.MemorySpacesReport:
        """List the spaces of the store, by name, with what they hold of conversations.

        >>> _ = memory.add("I am vegetarian.", user_id="noor")
        >>> [space.space for space in memory.spaces().spaces]
        ['ada', 'noor']
        """
        request = spaces.MemorySpacesRequest(limit=limit, cursor=cursor)
        return await self.operate(request, spaces.MemorySpacesReport)

    @takes_request(inspection.MemoryInspectionRequest, inspection.MemoryInspectionReport)
    async def inspect(
        self,
        *,
        check: bool = False,
        head: str | None = None,
        user_id: str | None = None,
    ) -> inspection.MemoryInspectionReport:
        """Say what the space holds, with fingerprints; with `check`, whether its store is sound.

        >>> memory.inspect(check=True).documents["turns"]
        2
        """
        scope = arguments.scope_of(self.scope, user_id=user_id)
        request = inspection.MemoryInspectionRequest(scope=scope, check=check, head=head)
        return await self.operate(request, inspection.MemoryInspectionReport)

    @takes_request(archive.MemorySpaceExportRequest, archive.MemorySpaceExportReport)
    async def export(
        self,
        target: str | PathLike[str],
        /,
        *,
        include_private: bool = False,
        overwrite: bool = False,
        user_id: str | None = None,
    ) -> archive.MemorySpaceExportReport:
        """Write what of the space may leave its owner's hands to one archive file, or with `include_private` all.

        A file that exists is replaced only with `overwrite`.

        >>> memory.export("shared.elytron").documents["facts"]  # none of the messages
        1
        >>> memory.export("whole.elytron", include_private=True).documents["turns"]
        2
        """
        scope = arguments.scope_of(self.scope, user_id=user_id)
        request = archive.MemorySpaceExportRequest(
            scope=scope, path=fspath(target), include_private=include_private, overwrite=overwrite
        )
        return await self.operate(request, archive.MemorySpaceExportReport)

    @takes_request(archive.MemoryImportRequest, archive.MemoryImportReport)
    async def import_archive(
        self,
        source: str | PathLike[str],
        /,
        *,
        mode: archive.ImportMode = archive.ImportMode.FULL_RESTORE,
        user_id: str | None = None,
    ) -> archive.MemoryImportReport:
        """Read an archive file into the space: exactly into an empty one, or what is new (see ImportMode).

        >>> _ = memory.export("ada.elytron", include_private=True)
        >>> memory.import_archive("ada.elytron", user_id="ada-restored").imported["turns"]
        2
        """
        scope = arguments.scope_of(self.scope, user_id=user_id)
        mode = validation.word(archive.ImportMode, mode, field="mode")
        request = archive.MemoryImportRequest(scope=scope, path=fspath(source), mode=mode)
        return await self.operate(request, archive.MemoryImportReport)

    async def keep_erasures(
        self, target: str | PathLike[str] | erasures.MemoryErasuresKeepRequest, /
    ) -> erasures.MemoryErasuresKeepReport:
        """Write the erasures to a file, beside those already in it; it has no content of memories.

        >>> _ = memory.erase(key)
        >>> {str(plane): count for plane, count in memory.keep_erasures("erasures.jsonl").erased.items()}
        {'transcript': 1}
        """
        if not isinstance(target, erasures.MemoryErasuresKeepRequest):
            target = erasures.MemoryErasuresKeepRequest(path=fspath(target))
        return await self.operate(target, erasures.MemoryErasuresKeepReport)

    async def apply_erasures(
        self, source: str | PathLike[str] | erasures.MemoryErasuresApplyRequest, /
    ) -> erasures.MemoryErasuresApplyReport:
        """Erase again what such a file lists, if an older copy brought it back.

        >>> _ = memory.erase(key)
        >>> _ = memory.keep_erasures("erasures.jsonl")
        >>> print(memory.apply_erasures("erasures.jsonl").outcome)
        nothing
        """
        if not isinstance(source, erasures.MemoryErasuresApplyRequest):
            source = erasures.MemoryErasuresApplyRequest(path=fspath(source))
        return await self.operate(source, erasures.MemoryErasuresApplyReport)

    async def recover(
        self, request: inspection.MemoryRecoverRequest | None = None, /
    ) -> inspection.MemoryLifecycleReport:
        """Check the store and rebuild the space's index from its journal.

        >>> print(memory.recover().phase)
        recovered
        """
        return await self.operate(request or inspection.MemoryRecoverRequest(), inspection.MemoryLifecycleReport)

    async def close(self, request: inspection.MemoryCloseRequest | None = None, /) -> inspection.MemoryLifecycleReport:
        """Finish what was accepted and let go of the store; a second close does nothing.

        >>> print(memory.close().phase)
        closed
        """
        return await self.operate(request or inspection.MemoryCloseRequest(), inspection.MemoryLifecycleReport)
