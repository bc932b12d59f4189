"""Reading who takes part in a space, and what a persona keeps to itself."""

from typing import assert_never

from elytron.context import OperationContext
from elytron.memories.chat_aliases import meant
from elytron_core import limits
from elytron_core.contracts.knowledge.subjects import (
    GardenAudience,
    GardenReport,
    GardenRequest,
    SubjectAudience,
    SubjectsReport,
    SubjectsRequest,
)
from elytron_core.planes.knowledge import garden, subjects
from elytron_core.planes.knowledge.garden import GardenDocument, GardenRole
from elytron_core.planes.knowledge.subjects import Subject, SubjectEdge, SubjectVisibility


async def read_subjects(ctx: OperationContext, request: SubjectsRequest, /) -> SubjectsReport:
    """Return the subjects that the audience may see, by name, and the edges between them."""
    scope = ctx.scope_of(request)
    documents = await ctx.store.scan(scope.space, subjects.SUBJECTS, limit=limits.PAGE_MAX + 1)
    known = [Subject.from_bytes(document.body) for document in documents[: limits.PAGE_MAX]]
    asked = [subject for subject in known if not request.kinds or subject.kind in request.kinds]
    seen = sorted((subject for subject in asked if _may_see(subject, request.audience)), key=lambda one: one.name)
    names = {subject.name for subject in seen}
    kept = await ctx.store.scan(scope.space, subjects.SUBJECT_EDGES, limit=limits.SCAN_MAX)
    edges = [SubjectEdge.from_bytes(document.body) for document in kept]
    shown = [edge for edge in edges if {edge.source, edge.target} <= names]
    shown.sort(key=lambda edge: (edge.source, edge.kind, edge.target))
    return SubjectsReport(
        space=scope.space,
        subjects=tuple(seen),
        edges=tuple(shown),
        withheld=len(asked) - len(seen),
        clipped=len(documents) > limits.PAGE_MAX or len(kept) == limits.SCAN_MAX,
    )


async def read_garden(ctx: OperationContext, request: GardenRequest, /) -> GardenReport:
    """Return the private documents of the scope's conversation that the audience may see; none for another's chat."""
    found = await meant(ctx, ctx.scope_of(request))
    scope = found.within(ctx.scope_of(request))
    channel, conversation = scope.conversation_key
    record = await ctx.spaces.find(scope.space)
    documents: list[GardenDocument] = []
    if record is not None and found.is_trusted:
        prefix = f"{record.conversation_tag(scope.conversation_key)}."
        kept = await ctx.store.scan(scope.space, garden.GARDEN, prefix=prefix, limit=limits.GARDEN_DOCUMENTS)
        documents = [GardenDocument.from_bytes(document.body) for document in kept]
    shown = [document for document in documents if _may_read(document, request.audience)]
    return GardenReport(
        space=scope.space,
        channel=channel,
        conversation=conversation,
        documents=tuple(sorted(shown, key=lambda document: document.name)),
        withheld=len(documents) - len(shown),
    )


def _may_see(subject: Subject, audience: SubjectAudience) -> bool:
    return audience is SubjectAudience.AUDIT or subject.visibility is SubjectVisibility.VISIBLE


def _may_read(document: GardenDocument, audience: GardenAudience) -> bool:
    match audience:
        case GardenAudience.OWNER:
            return document.forgotten_at is None
        case GardenAudience.MODEL:
            return document.forgotten_at is None and document.role is not GardenRole.SEALED
        case GardenAudience.HOST_UI:
            return False
        case _:
            assert_never(audience)
