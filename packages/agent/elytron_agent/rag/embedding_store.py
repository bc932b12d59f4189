"""Insert, delete, count and search one user's embeddings, whose texts are ordinary memories."""

import asyncio
from collections import Counter
from collections.abc import AsyncGenerator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from elytron.context import OperationContext
from elytron.documents.stored_values import value_at, values_at
from elytron.embedding.embed_pass import nudge_embedding
from elytron.indexing.units import CHOICE
from elytron.memories.tag_links import tagged_turns
from elytron.runtime import MemoryRuntime
from elytron_agent.blocks.archive import ARCHIVAL, SOURCE, SOURCE_TYPE
from elytron_agent.rag.embedding_wire import (
    EmbeddingAnswer,
    EmbeddingRequest,
    ModelRows,
    QuotaState,
    RagHit,
    RagQuotaStates,
    RagSearchAnswer,
    RagSearchRequest,
    RagSkipped,
    RagStatus,
    conversation_of_row,
)
from elytron_agent.rag.rows import (
    MESSAGE,
    EmbeddingRow,
    recallable_units,
    row_pages,
    rows_of_turns,
    token_count_of,
    turn_pages,
)
from elytron_agent.rag.search_figures import SearchFigures
from elytron_agent.rag.table_cache import TableCache
from elytron_agent.rag.usage import UsageLedger
from elytron_agent.rag.vector_table import RankedRow, RowFilter, TableAnswer, VectorKind, VectorTable, merged_answers
from elytron_core import limits as core_limits
from elytron_core.clock import Instant
from elytron_core.contracts.memories import MemoryEraseRequest
from elytron_core.errors import InvalidInput, LimitExceeded, NotFound, Unsupported
from elytron_core.evidence import PRIVATE_FLAG, STORE_FLAG, EvidenceAuthority, EvidenceRole
from elytron_core.ids import SpaceId, TurnId
from elytron_core.planes.embedding import EmbeddingChoice
from elytron_core.planes.transcript import TURNS, Message, Turn, message_id
from elytron_core.ports.models import Embedder
from elytron_core.ports.store import DocumentRef, require_ref
from elytron_core.scope import Scope
from elytron_core.text import similarity
from elytron_turn.sizes import within_tokens

TEXT_BYTES: Final = 16 * 1024
QUERY_BYTES: Final = 4 * 1024
EMBED_WAIT_S: Final = 2.0
"""How long an insertion waits for its vector. After that, the text is embedded later."""
QUERY_WAIT_S: Final = 5.0


_RESERVED: Final = frozenset({SOURCE, SOURCE_TYPE, PRIVATE_FLAG, STORE_FLAG})
_MESSAGES_GO_OTHERWISE: Final = "message cannot be stored or deleted here: messages are deleted with their conversation"


@dataclass(frozen=True, slots=True)
class RagParts:
    """Parts that the embeddings of all users share."""

    context: OperationContext
    cache: TableCache
    ledger: UsageLedger
    figures: SearchFigures


class EmbeddingStore:
    """The embeddings of one user, whose memory is one space."""

    def __init__(self, parts: RagParts, space: SpaceId, /, *, caller: str) -> None:
        self._parts = parts
        self._space = space
        self._scope = Scope(space=space)
        self._context = parts.context
        self._memory = MemoryRuntime(parts.context.bound_to(self._scope, caller=caller))

    async def insert(self, request: EmbeddingRequest, /, *, key: str | None) -> EmbeddingAnswer:
        """Store a text, embed it, and return its row. If the embedder fails, the text is embedded later.

        Raises InvalidInput, LimitExceeded, RateLimited.
        """
        await self._embedder()
        text_bytes = len(request.text.encode("utf-8", "surrogatepass"))
        _require_bytes("text", text_bytes, TEXT_BYTES)
        if similarity.is_blank(request.text):
            raise InvalidInput(field="text", problem="contains no words")
        if request.source_type == MESSAGE:
            raise InvalidInput(field="source_type", problem=_MESSAGES_GO_OTHERWISE)
        for name in sorted(_RESERVED & request.metadata.keys()):
            raise InvalidInput(field=f"metadata.{name}", problem="is reserved for the server: choose another name")
        row_bytes = text_bytes + self._parts.ledger.vector_bytes
        await self._parts.ledger.take(self._space, row_bytes)
        is_new = False
        try:
            row_id, is_new = await self._store(request, key)
        finally:
            if not is_new:
                await self._parts.ledger.give_back(self._space, 1, row_bytes, inserts=1)
        await self._embedded(row_id)
        row = await self._row(row_id)
        turn, _ = await value_at(self._context.store, self._space, DocumentRef(TURNS, row.turn), Turn)
        return _row_answer(row, await self._kind(), turn.recorded_at if turn is not None else None)

    async def _store(self, request: EmbeddingRequest, key: str | None) -> tuple[str, bool]:
        """Store a text. Return its id, and whether it is new under `key`."""
        is_archival = request.source_type == ARCHIVAL
        metadata_marks = {SOURCE: ARCHIVAL} if is_archival else {SOURCE_TYPE: request.source_type}
        # Documents come from outside. A model sees them as such, and nothing in them counts as the user's statement.
        role = EvidenceRole.ASSISTANT if is_archival else EvidenceRole.TOOL
        authority = None if is_archival else EvidenceAuthority.EXTERNAL_CONTENT
        report = await self._memory.add(
            Message(role=role, text=request.text, authority=authority),
            conversation=ARCHIVAL if is_archival else f"rag:{request.source_type}",
            tags=request.every_tag,
            metadata={**request.values, **metadata_marks},
            idempotency_key=key,
        )
        return report.ids[0], not report.duplicated

    async def delete(self, row_id: str, /) -> None:
        """Erase a row with its text, whatever its source. Raises NotFound."""
        row = await self._row(row_id)
        await self._erase([row], "the user deleted the embedding")

    async def delete_all(self, source_types: Sequence[str], /, *, dry_run: bool) -> tuple[int, int]:
        """Erase all inserted rows, or those of some source types. Return the number of erased rows and of messages.

        Messages are not erased. Raises InvalidInput if they are named.
        """
        if MESSAGE in source_types:
            raise InvalidInput(field="source_type", problem=_MESSAGES_GO_OTHERWISE)
        rows: list[EmbeddingRow] = []
        message_count = 0
        async for page in row_pages(self._context.store, self._space):
            message_count += sum(not row.is_put_in for row in page)
            rows += [
                row._replace(vectors=())
                for row in page
                if row.is_put_in and (not source_types or row.source_type in source_types)
            ]
        if not dry_run:
            for batch_start in range(0, len(rows), core_limits.WRITES_PER_REQUEST):
                row_batch = rows[batch_start : batch_start + core_limits.WRITES_PER_REQUEST]
                await self._erase(row_batch, "the user deleted the embeddings")
        return len(rows), message_count

    async def search(self, request: RagSearchRequest, /) -> RagSearchAnswer:
        """Return the rows nearest to a query. Raises ModelUnavailable, LimitExceeded, Overloaded."""
        _require_bytes("query", len(request.query.encode("utf-8", "surrogatepass")), QUERY_BYTES)
        embedder = await self._embedder()
        kind = VectorKind(embedder.info.model, embedder.info.dimensions)
        query_vector = await self._context.encoders.query_vector(embedder, request.query, wait_s=QUERY_WAIT_S)
        row_filter = RowFilter(frozenset(request.source_types), request.conversation_id, frozenset(request.tags))
        ranked_rows = await self._ranked(query_vector, kind, row_filter, limit=request.top_k)
        hits = await self._hits(ranked_rows.ranked, kind)
        fitting_hits = within_tokens(hits, request.max_tokens, tokens=lambda hit: hit.token_count)
        return RagSearchAnswer(
            data=tuple(fitting_hits),
            model=kind.model,
            dimension=kind.dimension,
            compared=ranked_rows.compared,
            skipped=RagSkipped(**ranked_rows.skipped._asdict()),
            total_tokens=sum(hit.token_count for hit in fitting_hits),
            is_cut=len(fitting_hits) < len(hits),
        )

    async def _ranked(self, query: bytes, kind: VectorKind, row_filter: RowFilter, *, limit: int) -> TableAnswer:
        cached_table = None if row_filter.tags else await self._parts.cache.table(self._space, kind)
        search_figures = self._parts.figures
        if cached_table is not None:
            with search_figures.search(is_cached=True):
                return await asyncio.to_thread(cached_table.search, query, row_filter, limit=limit)
        table_answers: list[TableAnswer] = []
        with search_figures.search(is_cached=False):
            async for page in await self._pages(kind, row_filter):
                passing_rows = [row for row in page if row_filter.passes(row)]
                page_table = await asyncio.to_thread(VectorTable.of, kind, passing_rows)
                table_answers.append(await asyncio.to_thread(page_table.search, query, RowFilter(), limit=limit))
            return merged_answers(table_answers, limit=limit)

    async def _pages(self, kind: VectorKind, row_filter: RowFilter) -> AsyncGenerator[Sequence[EmbeddingRow]]:
        """Yield pages of all rows. In a space with a user secret, only turns with a tag of the filter are read."""
        store = self._context.store
        turns = await tagged_turns(self._context, self._space, row_filter.tags) if row_filter.tags else None
        record = await self._context.spaces.find(self._space)
        if turns is None or record is None:
            return row_pages(store, self._space)
        return turn_pages(store, self._space, turns, record.model_tag(kind.model))

    async def _hits(self, ranked: Sequence[RankedRow], kind: VectorKind) -> Sequence[RagHit]:
        """Return rows with their texts. Rows deleted meanwhile are left out."""
        refs_by_turn = {ranked_row.row.turn: DocumentRef(TURNS, ranked_row.row.turn) for ranked_row in ranked}
        turns: Mapping[DocumentRef, Turn] = await values_at(
            self._context.store, self._space, refs_by_turn.values(), Turn
        )
        texts = {
            message_id(TurnId(ref.key), unit.part): (unit.text, turn)
            for ref, turn in turns.items()
            for unit in recallable_units(ref, turn)
        }
        hits: list[RagHit] = []
        for score, row in ranked:
            if row.id in texts:
                text, turn = texts[row.id]
                answer = _row_answer(row, kind, turn.recorded_at)
                metadata = {name: value for name, value in turn.metadata.items() if name not in _RESERVED}
                hits.append(
                    RagHit(
                        id=row.id,
                        score=score,
                        text=text,
                        source_type=row.source_type,
                        conversation_id=answer.conversation_id,
                        tags=row.tags,
                        metadata=metadata,
                        token_count=token_count_of(text),
                        model=kind.model,
                        dimension=kind.dimension,
                        created_at=answer.created_at,
                    )
                )
        return hits

    async def status(self) -> RagStatus:
        """Return the number of rows per model, and the use of the quotas."""
        embedder = await self._embedder()
        kind = VectorKind(embedder.info.model, embedder.info.dimensions)
        rows_by_model: Counter[VectorKind] = Counter()
        rows_by_source: Counter[str] = Counter()
        stale_count = unembedded_count = 0
        async for page in row_pages(self._context.store, self._space):
            for row in page:
                row_kinds = {VectorKind(each.model, each.dimension) for each in row.vectors}
                rows_by_model.update(row_kinds)
                rows_by_source[row.source_type] += 1
                unembedded_count += not row_kinds
                stale_count += bool(row_kinds) and kind not in row_kinds
        return RagStatus(
            model=kind.model,
            dimension=kind.dimension,
            total=rows_by_source.total(),
            by_model=tuple(
                ModelRows(model=each.model, dimension=each.dimension, rows=rows_by_model[each])
                for each in sorted(rows_by_model)
            ),
            by_source_type=dict(sorted(rows_by_source.items())),
            stale_count=stale_count,
            unembedded_count=unembedded_count,
            quotas=await self._quota_states(),
        )

    async def _quota_states(self) -> RagQuotaStates:
        ledger = self._parts.ledger
        usage, project, quotas = await ledger.of(self._space), await ledger.project(), ledger.quotas
        ends_at = Instant(self._context.clock.now() + 1000 * ledger.hour_ends_in_s())
        return RagQuotaStates(
            rows=QuotaState(used=usage.rows, limit=quotas.user_rows),
            size_bytes=QuotaState(used=usage.size_bytes, limit=quotas.user_bytes),
            inserts=QuotaState(used=ledger.inserts_of(usage), limit=quotas.inserts_per_hour, ends_at=ends_at),
            project_rows=QuotaState(used=project.rows, limit=quotas.project_rows),
            project_bytes=QuotaState(used=project.size_bytes, limit=quotas.project_bytes),
        )

    async def _embedder(self) -> Embedder:
        """Return the embedder whose vectors are compared. Raises Unsupported without one."""
        embedder = self._context.encoders.current
        if embedder is None:
            raise Unsupported("this server has no embedder: start it with --embedder")
        record = await self._context.spaces.find(self._space)
        if record is None:
            return embedder
        # This document answers it without the index, which would require reading the whole space.
        embedding_choice, _ = await value_at(self._context.store, self._space, CHOICE, EmbeddingChoice)
        return (
            self._context.encoders.serving(record, embedding_choice.tag if embedding_choice is not None else None)
            or embedder
        )

    async def _kind(self) -> VectorKind:
        info = (await self._embedder()).info
        return VectorKind(info.model, info.dimensions)

    async def _embedded(self, row_id: str) -> None:
        """Wait a limited time until a row has its vector. Do not wait if the embedder recently timed out."""
        encoders = self._context.encoders
        if encoders.is_resting:
            return
        try:
            async with asyncio.timeout(EMBED_WAIT_S):
                for _ in range(2):
                    await encoders.settled(self._space)
                    if (await self._row(row_id)).vectors:
                        return
                    nudge_embedding(self._context, self._space)
        except TimeoutError:
            encoders.rest()

    async def _row(self, row_id: str) -> EmbeddingRow:
        """Return a row. Raises NotFound."""
        turn = row_id.partition("#")[0]
        try:
            require_ref(DocumentRef(TURNS, turn))
            rows = await rows_of_turns(self._context.store, self._space, [turn])
        except InvalidInput:
            rows = ()
        for row in rows:
            if row.id == row_id:
                return row
        raise NotFound(what="embedding", name=row_id)

    async def _erase(self, rows: Sequence[EmbeddingRow], reason: str) -> None:
        row_ids = tuple(row.id for row in rows)
        await self._memory.erase(MemoryEraseRequest(scope=self._scope, ids=row_ids, reason=reason))
        self._parts.cache.forget(self._space)
        inserted_rows = [row for row in rows if row.is_put_in]
        size_bytes = sum(row.size_bytes + self._parts.ledger.vector_bytes for row in inserted_rows)
        if inserted_rows:
            await self._parts.ledger.give_back(self._space, len(inserted_rows), size_bytes)


def _row_answer(row: EmbeddingRow, kind: VectorKind, created_at: Instant | None) -> EmbeddingAnswer:
    is_embedded = any((vector.model, vector.dimension) == kind for vector in row.vectors)
    return EmbeddingAnswer(
        id=row.id,
        source_type=row.source_type,
        conversation_id=conversation_of_row(row.source_type, row.conversation),
        tags=row.tags,
        token_count=row.token_count,
        model=kind.model if is_embedded else None,
        dimension=kind.dimension if is_embedded else None,
        created_at=created_at,
    )


def _require_bytes(what: str, size: int, most: int) -> None:
    if size > most:
        raise LimitExceeded(what=f"bytes in a {what}", limit=most, found=size, way_out="send it in parts")
