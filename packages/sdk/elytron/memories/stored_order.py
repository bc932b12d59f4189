"""The documents of a collection in the order in which they were stored, the same on every store.

Keys are tags under a space's own secret, so their order differs from store to store. Turns are walked by the journal,
facts by their ids, which ascend; what is stored over is ordered by when that was last done.
"""

from collections.abc import AsyncIterator
from typing import NamedTuple

from elytron.context import OperationContext
from elytron.documents.plane_documents import at_of, kept, title_of
from elytron_core import limits
from elytron_core.ids import SpaceId
from elytron_core.planes.conversation import transcript
from elytron_core.planes.knowledge import long_term, procedural
from elytron_core.ports.store import Action, Document, JournalEntry

_PAGE = 256


class Mark(NamedTuple):
    """The place of a document in this order."""

    number: int
    """Of a turn, its journal sequence; of a fact nothing; of others the time when they were stored."""
    key: str


async def documents_as_stored(
    ctx: OperationContext, space: SpaceId, collection: str, /, *, after: Mark | None, most_often: int
) -> AsyncIterator[tuple[Mark, Document | None]]:
    """Yield the documents behind `after`, and None for each lost turn: the journal knows it, the store does not.

    The first page is of what is `most_often` all that is looked at.
    """
    found: AsyncIterator[tuple[Mark, Document | None]]
    match collection:
        case transcript.TURNS:
            found = _by_journal(ctx, space, after.number if after is not None else 0, most_often)
        case long_term.FACTS:
            found = _by_key(ctx, space, collection, after.key if after is not None else "", most_often)
        case _:
            found = _by_time(ctx, space, collection, after)
    async for marked in found:
        yield marked


async def _by_journal(
    ctx: OperationContext, space: SpaceId, after: int, most_often: int
) -> AsyncIterator[tuple[Mark, Document | None]]:
    size = min(most_often, _PAGE)
    while entries := await ctx.store.journal(space, after=after, limit=size):
        stored = [
            entry for entry in entries if entry.action is Action.WRITE and entry.ref.collection == transcript.TURNS
        ]
        documents = await ctx.store.get(space, [entry.ref for entry in stored]) if stored else ()
        for entry, document in zip(stored, documents, strict=True):
            if document is not None:
                yield Mark(entry.sequence, document.ref.key), document
            elif await _is_missing(ctx, space, entry):
                yield Mark(entry.sequence, entry.ref.key), None
        after, size = entries[-1].sequence, _PAGE


async def _is_missing(ctx: OperationContext, space: SpaceId, entry: JournalEntry) -> bool:
    """Return whether the journal still has a turn that the store no longer finds; an erasure removes the digest."""
    if not entry.digest:
        return False
    again = await ctx.store.journal(space, after=entry.sequence - 1, limit=1)
    (document,) = await ctx.store.get(space, (entry.ref,))
    return document is None and bool(again) and again[0] == entry


async def _by_key(
    ctx: OperationContext, space: SpaceId, collection: str, after: str, most_often: int
) -> AsyncIterator[tuple[Mark, Document]]:
    size = min(most_often, _PAGE)
    while documents := await ctx.store.scan(space, collection, after=after, limit=size):
        for document in documents:
            yield Mark(0, document.ref.key), document
        after, size = documents[-1].ref.key, _PAGE


async def _by_time(
    ctx: OperationContext, space: SpaceId, collection: str, after: Mark | None
) -> AsyncIterator[tuple[Mark, Document]]:
    marked: list[tuple[int, str, Mark, Document]] = []
    async for _, document in _by_key(ctx, space, collection, "", limits.SCAN_MAX):
        at, name = _stored_at(document)
        marked.append((at, name, Mark(at, document.ref.key), document))
    marked.sort(key=lambda one: one[:3])
    places = {mark: place for place, (_, _, mark, _) in enumerate(marked)}
    start = 0
    if after is not None:
        # Of what was stored over since, only the time is left; what shares it is given again rather than left out.
        behind = (place for place, (at, _, _, _) in enumerate(marked) if at >= after.number)
        start = places[after] + 1 if after in places else next(behind, len(marked))
    for _, _, mark, document in marked[start:]:
        yield mark, document


def _stored_at(document: Document) -> tuple[int, str]:
    if document.ref.collection == procedural.SKILLS:
        skill = procedural.Skill.from_bytes(document.body)
        return skill.recorded_at, skill.name
    value = kept(document).value
    return at_of(value), title_of(value)
