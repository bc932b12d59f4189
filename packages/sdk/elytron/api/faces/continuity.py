"""Calls on the continuity of conversations: their state, its transfer, subjects, and private documents."""

from elytron.api.calls import BlockingCalls, CallFace, blocking_call
from elytron_core.contracts import continuity


class ContinuityFace(CallFace):
    """Read the state of a conversation and its subjects, and transfer it."""

    async def read_continuity(
        self, request: continuity.ContinuityRequest | None = None, /
    ) -> continuity.ContinuityReport:
        """Return the state of the scope's conversation: work, summary, capsules, notes.

        >>> state = elytron.ExecutionDraft(goal="move the tea shop", blocker="no van")
        >>> _ = memory.write(elytron.MemoryWriteRequest(write=elytron.ExecutionWrite(state=state)))
        >>> memory.read_continuity().state.blocker
        'no van'
        """
        return await self.operate(request or continuity.ContinuityRequest())

    async def export_continuity(
        self, request: continuity.ContinuityExportRequest | None = None, /
    ) -> continuity.ContinuityExportReport:
        """Export the scope's conversation as a snapshot.

        >>> snapshot = memory.export_continuity().snapshot
        >>> [fact.content for fact in snapshot.layers.facts]
        ['Ada drinks green tea']
        """
        return await self.operate(request or continuity.ContinuityExportRequest())

    async def import_continuity(
        self, request: continuity.ContinuityImportRequest, /
    ) -> continuity.ContinuityImportReport:
        """Import a snapshot into the scope's conversation; the newer version wins.

        >>> snapshot = memory.export_continuity().snapshot
        >>> there = elytron.Scope(space="ada-at-work", conversation="monday")
        >>> memory.import_continuity(elytron.ContinuityImportRequest(scope=there, snapshot=snapshot)).changed
        True
        """
        return await self.operate(request)

    async def read_subjects(self, request: continuity.SubjectsRequest | None = None, /) -> continuity.SubjectsReport:
        """Return the subjects of the space and their relations.

        >>> noor = elytron.SubjectDraft(name="noor", subject_kind="human_user")
        >>> _ = memory.write(elytron.MemoryWriteRequest(write=elytron.SubjectsWrite(subjects=(noor,))))
        >>> [subject.name for subject in memory.read_subjects().subjects]
        ['noor']
        """
        return await self.operate(request or continuity.SubjectsRequest())

    async def read_garden(self, request: continuity.GardenRequest, /) -> continuity.GardenReport:
        """Read the private documents of the scope's conversation, for a named audience.

        >>> diary = elytron.GardenDraft(role="diary", name="monday", text="I like these talks.")
        >>> _ = memory.write(elytron.MemoryWriteRequest(write=elytron.GardenWrite(documents=(diary,))))
        >>> request = elytron.GardenRequest(audience=elytron.GardenAudience.OWNER)
        >>> [document.text for document in memory.read_garden(request).documents]
        ['I like these talks.']
        """
        return await self.operate(request)


class BlockingContinuity(BlockingCalls):
    """The calls about continuity, blocking until their answer."""

    read_continuity = blocking_call(ContinuityFace.read_continuity)
    export_continuity = blocking_call(ContinuityFace.export_continuity)
    import_continuity = blocking_call(ContinuityFace.import_continuity)
    read_subjects = blocking_call(ContinuityFace.read_subjects)
    read_garden = blocking_call(ContinuityFace.read_garden)
