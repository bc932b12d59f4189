"""Embedding rows: the messages and archival memories of a space, with their vectors."""

import asyncio
from collections.abc import AsyncGenerator, Iterable, Sequence
from typing import Final, NamedTuple

from elytron.documents.stored_values import documents_at
from elytron.indexing.units import embedded_text, source_of, units_of_value, vectors_prefix, vectors_ref
from elytron_agent.blocks.archive import ARCHIVAL, SOURCE, SOURCE_TYPE
from elytron_core import limits as core_limits
from elytron_core.contracts.recall import RecallPlane
from elytron_core.ids import SpaceId, TurnId
from elytron_core.planes.embedding import VECTORS, VectorSet, check_of
from elytron_core.planes.transcript import TURNS, Turn, message_id
from elytron_core.ports.store import Document, DocumentRef, Store
from elytron_index import SearchUnit
from elytron_turn.sizes import text_bytes, tokens_of

PAGE_TURNS: Final = 500
"""Number of turns per read."""


MESSAGE: Final = "message"
_KIND: Final = vectors_prefix(DocumentRef(TURNS, "0"))[: -len("0.")]
"""Common prefix of the keys of all vectors of turns."""


class StoredVector(NamedTuple):
    """A vector of a row, as little-endian half-precision numbers."""

    model: str
    dimension: int
    halves: bytes


class EmbeddingRow(NamedTuple):
    """A text that is or will be embedded. `vectors` holds one vector per model."""

    id: str
    turn: str
    source_type: str
    conversation: str
    tags: tuple[str, ...]
    token_count: int
    size_bytes: int
    vectors: tuple[StoredVector, ...]

    @property
    def is_put_in(self) -> bool:
        """Return whether the row was inserted and is not a message of a conversation."""
        return self.source_type != MESSAGE


def token_count_of(text: str, /) -> int:
    """Return the number of tokens that a text counts as."""
    return tokens_of(text_bytes(text), factor=1.0)


def source_type_of(turn: Turn, /) -> str:
    """Return the source type of a turn's messages: archival, the type given at insertion, or message."""
    if turn.metadata.get(SOURCE) == ARCHIVAL:
        return ARCHIVAL
    source_type = turn.metadata.get(SOURCE_TYPE)
    return source_type if isinstance(source_type, str) else MESSAGE


async def row_pages(store: Store, space: SpaceId, /) -> AsyncGenerator[Sequence[EmbeddingRow]]:
    """Yield all rows of a space in pages, in the order of their turns."""
    last_key, vector_pages = "", _VectorPages(store, space)
    while page := await store.scan(space, TURNS, after=last_key, limit=PAGE_TURNS):
        last_key = page[-1].ref.key
        yield await asyncio.to_thread(_read_rows, page, await vector_pages.through(last_key))


async def turn_pages(
    store: Store, space: SpaceId, turns: Sequence[str], model_tag: str, /
) -> AsyncGenerator[Sequence[EmbeddingRow]]:
    """Yield the rows of the given turns in pages, without reading other turns.

    Rows carry only the vectors of one model. If a turn lacks one of these, its rows carry the vectors of all models.
    """
    for page_start in range(0, len(turns), PAGE_TURNS):
        documents = await _turn_documents(store, space, turns[page_start : page_start + PAGE_TURNS])
        vector_documents = await documents_at(
            store, space, [vectors_ref(document.ref, model_tag) for document in documents]
        )
        rows = await asyncio.to_thread(_read_rows, documents, list(vector_documents.values()))
        incomplete_turns = {row.turn for row in rows if not row.vectors}
        yield [
            *(row for row in rows if row.turn not in incomplete_turns),
            *await rows_of_turns(store, space, incomplete_turns),
        ]


async def rows_of_turns(store: Store, space: SpaceId, turns: Iterable[str], /) -> Sequence[EmbeddingRow]:
    """Return the rows of some turns. Deleted turns have none."""
    turn_keys = sorted(set(turns))
    rows: list[EmbeddingRow] = []
    for page_start in range(0, len(turn_keys), PAGE_TURNS):
        page = await _turn_documents(store, space, turn_keys[page_start : page_start + PAGE_TURNS])
        vector_documents: list[Document] = []
        for document in page:
            prefix = vectors_prefix(document.ref)
            vector_documents += await store.scan(space, VECTORS, prefix=prefix, limit=core_limits.PAGE_MAX)
        rows += await asyncio.to_thread(_read_rows, page, vector_documents)
    return rows


async def _turn_documents(store: Store, space: SpaceId, turns: Iterable[str]) -> Sequence[Document]:
    return list((await documents_at(store, space, [DocumentRef(TURNS, turn) for turn in turns])).values())


class _VectorPages:
    """The vectors of turns in turn order, read in pages."""

    def __init__(self, store: Store, space: SpaceId, /) -> None:
        self._store = store
        self._space = space
        self._ahead: list[Document] = []
        self._after = ""
        self._is_over = False

    async def through(self, turn: str, /) -> Sequence[Document]:
        """Return the vector documents up to those of `turn` that were not returned before."""
        documents: list[Document] = []
        while True:
            due_count = next(
                (index for index, document_ahead in enumerate(self._ahead) if _turn_key(document_ahead) > turn),
                len(self._ahead),
            )
            documents += self._ahead[:due_count]
            self._ahead = self._ahead[due_count:]
            if self._ahead or self._is_over:
                return documents
            page = await self._store.scan(
                self._space, VECTORS, prefix=_KIND, after=self._after, limit=core_limits.PAGE_MAX
            )
            self._ahead, self._is_over = list(page), len(page) < core_limits.PAGE_MAX
            if page:
                self._after = page[-1].ref.key


def turns_of(refs: Sequence[DocumentRef], /) -> set[str]:
    """Return the turns whose rows are affected by changes to the documents at `refs`."""
    turns = {ref.key for ref in refs if ref.collection == TURNS}
    sources = (source_of(ref)[0] for ref in refs if ref.collection == VECTORS)
    return turns | {source.key for source in sources if source.collection == TURNS}


def _turn_key(document: Document) -> str:
    turn_ref, _ = source_of(document.ref)
    return turn_ref.key


def _read_rows(turns: Sequence[Document], vectors: Sequence[Document]) -> list[EmbeddingRow]:
    vector_sets: dict[str, list[VectorSet]] = {}
    for document in vectors:
        vector_sets.setdefault(_turn_key(document), []).append(VectorSet.from_bytes(document.body))
    return [
        row
        for document in turns
        for row in _turn_rows(Turn.from_bytes(document.body), document.ref, vector_sets.get(document.ref.key, ()))
    ]


def _turn_rows(turn: Turn, ref: DocumentRef, sets: Sequence[VectorSet]) -> Iterable[EmbeddingRow]:
    source = source_type_of(turn)
    for unit in recallable_units(ref, turn):
        text_check = check_of(embedded_text(unit))
        yield EmbeddingRow(
            message_id(TurnId(ref.key), unit.part),
            ref.key,
            source,
            turn.conversation,
            unit.tags,
            token_count_of(unit.text),
            len(unit.text.encode("utf-8", "surrogatepass")),
            tuple(
                StoredVector(vector_set.model, vector_set.dimensions, vector_set.halves_of(text_check))
                for vector_set in sets
                if text_check in vector_set.vectors
            ),
        )


def recallable_units(ref: DocumentRef, turn: Turn, /) -> Iterable[SearchUnit]:
    """Return the units of a turn that ordinary recall can find; none for a private turn."""
    return [unit for unit in units_of_value(ref, turn) if unit.plane == RecallPlane.TRANSCRIPT]
