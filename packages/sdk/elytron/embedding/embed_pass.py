"""Embedding passes over a space: compute missing vectors, and remove those of a former model.

Missing work is never recorded: it is every unit of the index without a vector, so a pass that was killed, refused or
never started loses nothing. Each step commits vectors together with the exact document revision that they belong to.

The languages that an embedder reads are measured on invented pairs, because no name or setting states them reliably. A
pair is a memory and a paraphrased question about it, in one of six languages. Of 36 questions a multilingual encoder
finds 34 among the other memories of its language, an English one 13, and chance six.
"""

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from importlib.resources import files
from operator import mul
from typing import Final

from elytron.context import OperationContext
from elytron.indexing.units import CHOICE, embedded_passages, embedded_text, units_of, vectors_ref
from elytron.indexing.waiting_commits import fed_commit
from elytron.state.change_lines import LostRaces
from elytron.state.encoders import RuntimeEncoders, check_vectors, embed_texts
from elytron.state.space_records import REF
from elytron_core import limits
from elytron_core.errors import Conflict, ModelRefused
from elytron_core.ids import SpaceId
from elytron_core.planes.embedding import VECTORS, EmbeddingChoice, ModelReach, VectorSet, check_of
from elytron_core.planes.space import SpaceRecord
from elytron_core.ports.models import Embedder
from elytron_core.ports.store import (
    Batch,
    DeleteChange,
    Document,
    DocumentRef,
    EntryDraft,
    JournalAction,
    PutChange,
    RequireRevision,
    number_entries,
)

EMBED_PASSAGES_OF_DOCUMENT: Final = 512
"""Passages of all messages of a document that may be embedded."""


DOCUMENTS_AT_ONCE = 64


@dataclass(slots=True)
class EmbedProgress:
    """Progress of a pass."""

    embedded: int = 0
    reused: int = 0
    refused: int = 0
    sequence: int = 0
    is_done: bool = False
    """True if all texts are embedded, except those that the embedder refused."""


async def embed_some(
    ctx: OperationContext, space: SpaceId, embedder: Embedder, progress: EmbedProgress, /, *, texts: int
) -> None:
    """Create and commit vectors until none is missing or `texts` texts were embedded; `progress` gets each step.

    Raises ModelUnavailable if the embedder fails, ModelRefused if it returns no vectors; committed vectors stay.
    """
    race = LostRaces()
    while progress.embedded < texts:
        record = await ctx.spaces.find(space)
        if record is None:
            break
        tag = record.model_tag(embedder.info.model)
        index = await ctx.folds.current(space)
        stored_dimensions = index.dimensions_of(tag)
        if stored_dimensions not in {None, embedder.info.dimensions}:
            info = embedder.info
            stored = f"those stored under its name have {stored_dimensions}"
            reason = f"{info.model!r} returns {info.dimensions} dimensions, but {stored}"
            raise ModelRefused(f"{reason}: give it another name and switch to it")
        limit = min(DOCUMENTS_AT_ONCE, texts - progress.embedded)
        refs = index.unembedded_refs(tag, limit=limit, skip=ctx.encoders.refused(space, tag))
        if not refs:
            break
        try:
            await _EmbedStep(ctx, space, record, embedder, tag).take(refs, progress)
        except Conflict as conflict:
            ctx.spaces.forget(space)
            await race.lost(conflict)
    else:
        # The budget is used up, and something may be left.
        return
    progress.is_done = True


@dataclass(frozen=True, slots=True)
class _EmbedStep:
    """Some documents, embedded together and committed as one batch."""

    ctx: OperationContext
    space: SpaceId
    record: SpaceRecord
    embedder: Embedder
    tag: str
    new_vectors: dict[DocumentRef, tuple[VectorSet, int, RequireRevision]] = field(
        default_factory=dict[DocumentRef, tuple[VectorSet, int, RequireRevision]]
    )

    async def take(self, refs: Sequence[DocumentRef], progress: EmbedProgress) -> None:
        """Embed the documents at `refs` and commit their vectors."""
        places = [vectors_ref(ref, self.tag) for ref in refs]
        *store_documents, choice_document = await self.ctx.store.get(self.space, [*refs, *places, CHOICE])
        documents, vector_documents = store_documents[: len(refs)], store_documents[len(refs) :]
        texts_by_ref = {
            ref: _document_texts(document)
            for ref, document in zip(refs, documents, strict=True)
            if document is not None
        }
        former = {
            ref: VectorSet.from_bytes(document.body)
            for ref, document in zip(refs, vector_documents, strict=True)
            if document is not None
        }
        stored_vectors = {ref: former[ref].vectors if ref in former else {} for ref in refs}
        missing = {
            check: text
            for ref, texts in texts_by_ref.items()
            for check, text in texts.items()
            if check not in stored_vectors[ref]
        }
        pieces = _passage_pieces(documents, missing, self.embedder.info.passages)
        fresh = await self._embedded(missing | {check: text for texts in pieces.values() for check, text in texts})
        for ref, document, place in zip(refs, documents, vector_documents, strict=True):
            texts = texts_by_ref.get(ref)
            vectors = {check: stored_vectors[ref].get(check) or fresh.get(check) for check in texts or ()}
            text_vectors = {check: numbers for check, numbers in vectors.items() if numbers is not None}
            if document is None or not vectors or len(text_vectors) < len(vectors):
                self.ctx.encoders.refuse(self.space, self.tag, ref)
                progress.refused += 1
                # A refused text of a turn does not delay its others.
                if document is None or text_vectors.keys() <= stored_vectors[ref].keys():
                    continue
            info = self.embedder.info
            former_passages = former[ref].passages if ref in former else {}
            read = {
                check: tuple(fresh[piece] for piece, _ in pieces.get(check, ()) if piece in fresh)
                or former_passages.get(check, ())
                for check in text_vectors
            }
            passages = {check: numbers for check, numbers in read.items() if numbers}
            value = VectorSet(model=info.model, dimensions=info.dimensions, vectors=text_vectors, passages=passages)
            revision = place.revision if place is not None else 0
            # Rejected if the text has changed since it was read: the vectors would be of the old one.
            self.new_vectors[ref] = (value, revision, RequireRevision(ref, document.revision))
        if self.new_vectors:
            progress.sequence = await self._commit(choice_document)
        progress.embedded += len(missing.keys() & fresh.keys())
        progress.reused += sum(fresh.keys().isdisjoint(value.vectors) for value, _, _ in self.new_vectors.values())

    async def _embedded(self, texts: Mapping[str, str]) -> dict[str, str]:
        """Return the vectors of `texts` by check; if a batch is refused, those of its texts that are accepted one by
        one."""
        vectors: dict[str, str] = {}
        checks = list(texts)
        for start in range(0, len(checks), limits.EMBED_BATCH_TEXTS):
            batch = checks[start : start + limits.EMBED_BATCH_TEXTS]
            try:
                vectors |= await self._embed({check: texts[check] for check in batch})
            except ModelRefused:
                refused = 0
                for check in batch:
                    try:
                        vectors |= await self._embed({check: texts[check]})
                    except ModelRefused:
                        refused += 1
                # If every text is refused, the fault is the embedder's and not a text's.
                if refused == len(batch) > 1:
                    raise
        return vectors

    async def _embed(self, texts: Mapping[str, str]) -> dict[str, str]:
        vectors = await embed_texts(self.embedder, tuple(texts.values()))
        return check_vectors(self.embedder, dict(zip(texts, vectors, strict=True))).vectors

    async def _commit(self, choice_document: Document | None) -> int:
        puts: list[PutChange] = []
        entries: list[EntryDraft] = []
        documents: dict[DocumentRef, VectorSet | EmbeddingChoice] = {}

        def put(ref: DocumentRef, value: VectorSet | EmbeddingChoice, revision: int, action: JournalAction) -> None:
            body = value.to_bytes()
            puts.append(PutChange(ref, body, revision))
            entries.append(EntryDraft(action, ref, self.record.digest(body)))
            documents[ref] = value

        for ref, (value, revision, _) in self.new_vectors.items():
            put(vectors_ref(ref, self.tag), value, revision, JournalAction.MAINTENANCE)
        if choice_document is None or _is_untried(choice_document, self.tag):
            choice, revision = (
                await choice_of(self.ctx, self.embedder, self.tag),
                choice_document.revision if choice_document else 0,
            )
            put(CHOICE, choice, revision, JournalAction.OPERATOR)
        requires = [RequireRevision(REF, 1), *(require for _, _, require in self.new_vectors.values())]
        return await commit_vectors(
            self.ctx, self.space, puts=puts, entries=entries, requires=requires, documents=documents
        )


def _is_untried(choice_document: Document, tag: str) -> bool:
    """Return whether a build that did not measure languages chose the model `tag`."""
    choice = EmbeddingChoice.from_bytes(choice_document.body)
    return choice.tag == tag and choice.reach is None


async def choice_of(ctx: OperationContext, embedder: Embedder, tag: str, /) -> EmbeddingChoice:
    """Return the document that makes recall compare the vectors of `embedder`. Raises ModelUnavailable."""
    info, reach = embedder.info, await reach_of(ctx.encoders, embedder)
    return EmbeddingChoice(
        model=info.model, tag=tag, dimensions=info.dimensions, chosen_at=ctx.clock.now(), reach=reach
    )


async def commit_vectors(
    ctx: OperationContext,
    space: SpaceId,
    /,
    *,
    puts: Sequence[PutChange],
    entries: Sequence[EntryDraft],
    requires: Sequence[RequireRevision],
    documents: Mapping[DocumentRef, VectorSet | EmbeddingChoice],
) -> int:
    """Commit documents of vectors, feed them to the index, and return their last sequence. Raises Conflict."""
    batch = Batch(space=space, at=ctx.clock.now(), entries=tuple(entries), puts=tuple(puts), requires=tuple(requires))
    committed = await ctx.store.commit(batch)
    ctx.folds.feed(space, fed_commit(number_entries(batch, after=committed.first - 1), documents))
    return committed.last


async def drop_others(ctx: OperationContext, space: SpaceId, tag: str, /, *, limit: int) -> int:
    """Remove up to `limit` vector documents of models other than `tag`; return their number."""
    dropped = 0
    after = ""
    while dropped < limit:
        page = await ctx.store.scan(space, VECTORS, after=after, limit=limits.PAGE_MAX)
        if not page:
            break
        after = page[-1].ref.key
        old = [document for document in page if not document.ref.key.endswith(f".{tag}")][: limit - dropped]
        if old:
            batch = Batch(
                space=space,
                at=ctx.clock.now(),
                entries=tuple(EntryDraft(JournalAction.MAINTENANCE, document.ref) for document in old),
                deletes=tuple(DeleteChange(document.ref, document.revision) for document in old),
                requires=(RequireRevision(REF, 1),),
            )
            await ctx.store.commit(batch)
            dropped += len(old)
    return dropped


def _passage_pieces(
    documents: Sequence[Document | None], missing: Mapping[str, str], most: int
) -> dict[str, list[tuple[str, str]]]:
    """Return the passages to embed for each `missing` text, by its check: their checks, and their texts."""
    pieces: dict[str, list[tuple[str, str]]] = {}
    for document in documents if most else ():
        room = EMBED_PASSAGES_OF_DOCUMENT
        for unit in units_of(document) if document is not None else ():
            check = check_of(embedded_text(unit)) if unit.check else ""
            if check in missing:
                texts = embedded_passages(unit, min(most, room))
                room -= len(texts)
                pieces[check] = [(check_of(text), text) for text in texts]
    return pieces


def _document_texts(document: Document) -> dict[str, str]:
    """Return the texts to embed of a document by their checks."""
    texts = [embedded_text(unit) for unit in units_of(document) if unit.check]
    return {check_of(text): text for text in texts}


def nudge_embedding(ctx: OperationContext, space: SpaceId, /) -> None:
    """Schedule vectors for texts without one; no caller waits for it, and no call fails because of it."""

    async def work() -> None:
        record = await ctx.spaces.find(space)
        if record is None:
            return
        embedder = ctx.encoders.serving(record, (await ctx.folds.current(space)).compared)
        if embedder is not None:
            await embed_some(ctx, space, embedder, EmbedProgress(), texts=limits.EMBED_TEXTS_PER_CALL)

    ctx.encoders.nudge(space, work)


_LEAST: Final = 2 / 3
"""An embedder that matches this share of the pairs reads many languages."""


async def reach_of(encoders: RuntimeEncoders, embedder: Embedder, /) -> ModelReach:
    """Return which languages `embedder` reads, measured once per runtime. Raises ModelUnavailable."""
    model = embedder.info.model
    reach = encoders.reaches.get(model)
    if reach is None:
        reach = encoders.reaches[model] = await _try_languages(embedder)
    return reach


async def _try_languages(embedder: Embedder) -> ModelReach:
    """Return which languages `embedder` reads; many if it refuses the sample texts. Raises ModelUnavailable."""
    pairs: dict[str, list[list[str]]] = json.loads(
        files("elytron.embedding").joinpath("language_pairs.json").read_text("utf-8")
    )
    every = [pair for language_pairs in pairs.values() for pair in language_pairs]
    try:
        memories = await embed_texts(embedder, [memory for memory, _ in every])
        questions = await embed_texts(embedder, [question for _, question in every], as_queries=True)
    except ModelRefused:
        return ModelReach.MANY
    match_count, start = 0, 0
    for language_pairs in pairs.values():
        end = start + len(language_pairs)
        likeness = [
            [_cosine_likeness(question_vector, memory_vector) for memory_vector in memories[start:end]]
            for question_vector in questions[start:end]
        ]
        match_count += sum(row.index(max(row)) == place for place, row in enumerate(likeness))
        start = end
    return ModelReach.MANY if match_count >= _LEAST * len(every) else ModelReach.ENGLISH


def _cosine_likeness(one: Sequence[float], other: Sequence[float]) -> float:
    lengths = math.hypot(*one) * math.hypot(*other)
    return math.fsum(map(mul, one, other)) / lengths if lengths else 0.0
