"""The calls of governance, continuity and subjects."""

from elytron.faces.face import Face
from elytron_core.contracts import continuity, governing, subjects


class GoverningFace(Face):
    """Decide on candidates, fold near duplicates, see where a conversation stands and who takes part."""

    async def list_candidates(
        self, request: governing.CandidateListRequest | None = None, /
    ) -> governing.CandidateListReport:
        """Read proposed beliefs a page at a time; without a request, those that wait."""
        return await self.operate(request or governing.CandidateListRequest(), governing.CandidateListReport)

    async def resolve_candidate(
        self, request: governing.CandidateResolveRequest, /
    ) -> governing.CandidateResolveReport:
        """Accept or reject a proposed belief. Raises NotFound."""
        return await self.operate(request, governing.CandidateResolveReport)

    async def merge_facts(self, request: governing.MemoryMergeRequest | None = None, /) -> governing.MemoryMergeReport:
        """Fold facts that say nearly the same; `undo` brings them back."""
        return await self.operate(request or governing.MemoryMergeRequest(), governing.MemoryMergeReport)

    async def read_continuity(
        self, request: continuity.ContinuityRequest | None = None, /
    ) -> continuity.ContinuityReport:
        """Say where the scope's conversation stands: state, summary, capsules, notes."""
        return await self.operate(request or continuity.ContinuityRequest(), continuity.ContinuityReport)

    async def export_continuity(
        self, request: continuity.ContinuityExportRequest | None = None, /
    ) -> continuity.ContinuityExportReport:
        """Take the scope's conversation along as a snapshot."""
        return await self.operate(request or continuity.ContinuityExportRequest(), continuity.ContinuityExportReport)

    async def import_continuity(
        self, request: continuity.ContinuityImportRequest, /
    ) -> continuity.ContinuityImportReport:
        """Take a snapshot into the scope's conversation; the newer word wins."""
        return await self.operate(request, continuity.ContinuityImportReport)

    async def read_subjects(self, request: subjects.SubjectsRequest | None = None, /) -> subjects.SubjectsReport:
        """Say who takes part in the space, and how they stand to each other."""
        return await self.operate(request or subjects.SubjectsRequest(), subjects.SubjectsReport)

    async def read_garden(self, request: subjects.GardenRequest, /) -> subjects.GardenReport:
        """Read the private documents of the scope's conversation, for a named audience."""
        return await self.operate(request, subjects.GardenReport)
