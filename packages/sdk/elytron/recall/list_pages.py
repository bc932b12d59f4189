"""Pages of a list of memories: all of a space in the order of their planes, or the latest."""

import re
from collections.abc import AsyncIterator
from typing import assert_never

from elytron.context import OperationContext
from elytron.documents.hits import CursorForm, cited_hit
from elytron.documents.planes import LISTED_HOMES
from elytron.memories.lookup import (
    DocumentMark,
    Memory,
    documents_as_stored,
    is_gone,
    latest_memories,
    parts_of,
    readable_hit,
)
from elytron.recall.filters import is_meant, passes_filters, wants_plane
from elytron_core import limits
from elytron_core.clock import Instant
from elytron_core.contracts.memories import HiddenFilter, MemoryListReport, MemoryListRequest
from elytron_core.contracts.recall import RecallHit, RecallPlane
from elytron_core.errors import InvalidInput
from elytron_core.ids import SpaceId
from elytron_core.planes import skills, transcript
from elytron_core.planes.facts import FACTS, FactPrivacy
from elytron_core.ports.store import Document, DocumentRef

_ORDER = (
    (RecallPlane.TRANSCRIPT, transcript.TURNS),
    (RecallPlane.LONG_TERM, FACTS),
    (RecallPlane.PROCEDURAL, skills.SKILLS),
    *((home.plane, collection) for collection, home in LISTED_HOMES.items()),
)


_CURSOR = CursorForm(re.compile(r"([0-9]{1,16})\.([0-9]{1,16})\.([0-9]{1,16})\.(.+)", re.DOTALL), "a list report")


async def stored_page(ctx: OperationContext, space: SpaceId, request: MemoryListRequest, /) -> MemoryListReport:
    """Return the memories after the cursor in the order of their planes, and how many of them are lost."""
    items: list[RecallHit] = []
    cursors: list[str] = []
    lost_count = counted_losses = 0
    async for cursor, hit in _walk_memories(ctx, space, request):
        if hit is None:
            lost_count += 1
            continue
        if len(items) == request.limit:
            page = MemoryListReport(space=space, items=tuple(items), lost=counted_losses)
            return page.model_copy(update={"next_cursor": cursors[-1], "has_more": True})
        items.append(cited_hit(hit, space))
        cursors.append(cursor)
        # Lost ones after the last item are counted by the next page.
        counted_losses = lost_count
    return MemoryListReport(space=space, items=tuple(items), lost=lost_count)


async def latest_page(ctx: OperationContext, space: SpaceId, request: MemoryListRequest, /) -> MemoryListReport:
    """Return the latest memories. Raises InvalidInput for a cursor."""
    if request.cursor is not None:
        raise InvalidInput(field="cursor", problem="is not supported with the order 'latest', which has a single page")
    collections = {collection for plane, collection in _ORDER if wants_plane(request.filters, plane)}
    now = ctx.clock.now()
    hits = await latest_memories(
        ctx,
        space,
        lambda document: [hit for _, hit in _document_hits(document, request, now)],
        collections=collections,
        limit=request.limit,
    )
    return MemoryListReport(space=space, items=tuple(cited_hit(hit, space) for hit in hits))


def _document_hits(document: Document, request: MemoryListRequest, now: Instant) -> list[tuple[int, RecallHit]]:
    """Return the requested memories of a document, each with its part."""
    matches = [(part, member) for part, member in enumerate(parts_of(document)) if _is_asked(member, request, now)]
    hits = [(part, readable_hit(memory, now)) for part, memory in matches]
    if request.include_private:
        return hits
    return [(part, hit) for part, hit in hits if hit.privacy is not FactPrivacy.PRIVATE]


def _is_asked(memory: Memory, request: MemoryListRequest, now: Instant) -> bool:
    match request.hidden:
        case HiddenFilter.LEFT_OUT:
            return passes_filters(memory, request.filters, now)
        case HiddenFilter.LISTED:
            return is_meant(memory, request.filters) and not is_gone(memory, now)
        case _:
            assert_never(request.hidden)


async def _walk_memories(
    ctx: OperationContext, space: SpaceId, request: MemoryListRequest
) -> AsyncIterator[tuple[str, RecallHit | None]]:
    """Yield each matching memory, with the cursor that continues after it; None is a lost one."""
    start_plane, start_mark, start_part = _parse_cursor(request.cursor)
    now = ctx.clock.now()
    for plane_number, (plane, collection) in enumerate(_ORDER):
        if plane_number < start_plane or not wants_plane(request.filters, plane):
            continue
        start_after, last_part = (start_mark, start_part) if plane_number == start_plane else (None, -1)
        # The previous page may have ended inside a document: its other parts come first.
        if start_after is not None:
            (document,) = await ctx.store.get(space, (DocumentRef(collection, start_after.key),))
            for part, hit in _document_hits(document, request, now) if document is not None else ():
                if part > last_part:
                    yield _list_cursor(plane_number, part, start_after), hit
        async for document_mark, document in documents_as_stored(
            ctx, space, collection, after=start_after, most_often=request.limit + 1
        ):
            if document is None:
                yield _list_cursor(plane_number, 0, document_mark), None
                continue
            for part, hit in _document_hits(document, request, now):
                yield _list_cursor(plane_number, part, document_mark), hit


def _list_cursor(place: int, part: int, mark: DocumentMark) -> str:
    return f"{place}.{part}.{mark.number}.{mark.key}"


def _parse_cursor(cursor: str | None) -> tuple[int, DocumentMark | None, int]:
    if cursor is None:
        return 0, None, -1
    *number_texts, key = _CURSOR.parts(cursor)
    plane_number, part_number, mark_number = map(int, number_texts)
    if plane_number >= len(_ORDER) or part_number >= limits.MESSAGES_PER_TURN or mark_number > limits.LATEST_MS:
        raise _CURSOR.refusal()
    return plane_number, DocumentMark(mark_number, key), part_number
