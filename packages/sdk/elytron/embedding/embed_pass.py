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
    lost_races = LostRaces()
    while progress.embedded < texts:
        record = await ctx.spaces.find(space)
        if record is None:
            break
        tag = record.model_tag(embedder.info.model)
        index = await ctx.folds.current(space)
        stored_dimensions = index.dimensions_of(tag)
        if stored_dimensions not in {None, embedder.info.dimensions}:
            info = embedder.info
            stored_description = f"those stored under its name have {stored_dimensions}"
            reason = f"{info.model!r} returns {info.dimensions} dimensions, but {stored_description}"
            raise ModelRefused(f"{reason}: give it another name and switch to it")
        limit = min(DOCUMENTS_AT_ONCE, texts - progress.embedded)
        refs = index.unembedded_refs(tag, limit=limit, skip=ctx.encoders.refused(space, tag))
        if not refs:
            break
        try:
            await _EmbedStep(ctx, space, record, embedder, tag).take(refs, progress)
        except Conflict as conflict:
            ctx.spaces.forget(space)
            await lost_races.lost(conflict)
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
        vector_refs = [vectors_ref(ref, self.tag) for ref in refs]
        *all_documents, choice_document = await self.ctx.store.get(self.space, [*refs, *vector_refs, CHOICE])
        documents, vector_documents = all_documents[: len(refs)], all_documents[len(refs) :]
        texts_by_ref = {
            ref: _document_texts(document)
            for ref, document in zip(refs, documents, strict=True)
            if document is not None
        }
        former_sets = {
            ref: VectorSet.from_bytes(document.body)
            for ref, document in zip(refs, vector_documents, strict=True)
            if document is not None
        }
        stored_vectors = {ref: former_sets[ref].vectors if ref in former_sets else {} for ref in refs}
        missing_texts = {
            digest: text
            for ref, texts in texts_by_ref.items()
            for digest, text in texts.items()
            if digest not in stored_vectors[ref]
        }
        pieces_by_text = _passage_pieces(documents, missing_texts, self.embedder.info.passages)
        new_vectors = await self._embedded(
            missing_texts | {digest: text for texts in pieces_by_text.values() for digest, text in texts}
        )
        for ref, document, vector_document in zip(refs, documents, vector_documents, strict=True):
            texts = texts_by_ref.get(ref)
            vectors = {digest: stored_vectors[ref].get(digest) or new_vectors.get(digest) for digest in texts or ()}
            text_vectors = {digest: vector for digest, vector in vectors.items() if vector is not None}
            if document is None or not vectors or len(text_vectors) < len(vectors):
                self.ctx.encoders.refuse(self.space, self.tag, ref)
                progress.refused += 1
                # A refused text of a turn does not delay its others.
                if document is None or text_vectors.keys() <= stored_vectors[ref].keys():
                    continue
            info = self.embedder.info
            former_passages = former_sets[ref].passages if ref in former_sets else {}
            passage_vectors = {
                digest: tuple(new_vectors[piece] for piece, _ in pieces_by_text.get(digest, ()) if piece in new_vectors)
                or former_passages.get(digest, ())
                for digest in text_vectors
            }
            passages = {digest: vector for digest, vector in passage_vectors.items() if vector}
            vector_set = VectorSet(
                model=info.model, dimensions=info.dimensions, vectors=text_vectors, passages=passages
            )
            revision = vector_document.revision if vector_document is not None else 0
            # Rejected if the text has changed since it was read: the vectors would be of the old one.
            self.new_vectors[ref] = (vector_set, revision, RequireRevision(ref, document.revision))
        if self.new_vectors:
            progress.sequence = await self._commit(choice_document)
        progress.embedded += len(missing_texts.keys() & new_vectors.keys())
        progress.reused += sum(
            new_vectors.keys().isdisjoint(vector_set.vectors) for vector_set, _, _ in self.new_vectors.values()
        )

    async def _embedded(self, texts: Mapping[str, str]) -> dict[str, str]:
        """Return the vectors of `texts` by check; if a batch is refused, those of its texts that are accepted one by
        one."""
        vectors: dict[str, str] = {}
        digests = list(texts)
        for start in range(0, len(digests), limits.EMBED_BATCH_TEXTS):
            batch = digests[start : start + limits.EMBED_BATCH_TEXTS]
            try:
                vectors |= await self._embed({digest: texts[digest] for digest in batch})
            except ModelRefused:
                refused_count = 0
                for digest in batch:
                    try:
                        vectors |= await self._embed({digest: texts[digest]})
                    except ModelRefused:
                        refused_count += 1
                # If every text is refused, the fault is the embedder's and not a text's.
                if refused_count == len(batch) > 1:
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
            new_choice, revision = (
                await choice_of(self.ctx, self.embedder, self.tag),
                choice_document.revision if choice_document else 0,
            )
            put(CHOICE, new_choice, revision, JournalAction.OPERATOR)
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
    info, model_reach = embedder.info, await reach_of(ctx.encoders, embedder)
    return EmbeddingChoice(
        model=info.model, tag=tag, dimensions=info.dimensions, chosen_at=ctx.clock.now(), reach=model_reach
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
    receipt = await ctx.store.commit(batch)
    ctx.folds.feed(space, fed_commit(number_entries(batch, after=receipt.first - 1), documents))
    return receipt.last


async def drop_others(ctx: OperationContext, space: SpaceId, tag: str, /, *, limit: int) -> int:
    """Remove up to `limit` vector documents of models other than `tag`; return their number."""
    dropped_count = 0
    last_key = ""
    while dropped_count < limit:
        page = await ctx.store.scan(space, VECTORS, after=last_key, limit=limits.PAGE_MAX)
        if not page:
            break
        last_key = page[-1].ref.key
        other_vectors = [document for document in page if not document.ref.key.endswith(f".{tag}")][
            : limit - dropped_count
        ]
        if other_vectors:
            batch = Batch(
                space=space,
                at=ctx.clock.now(),
                entries=tuple(EntryDraft(JournalAction.MAINTENANCE, document.ref) for document in other_vectors),
                deletes=tuple(DeleteChange(document.ref, document.revision) for document in other_vectors),
                requires=(RequireRevision(REF, 1),),
            )
            await ctx.store.commit(batch)
            dropped_count += len(other_vectors)
    return dropped_count


def _passage_pieces(
    documents: Sequence[Document | None], missing_texts: Mapping[str, str], passages_max: int
) -> dict[str, list[tuple[str, str]]]:
    """Return the passages to embed for each of `missing_texts`, by its check: their checks, and their texts."""
    pieces_by_text: dict[str, list[tuple[str, str]]] = {}
    for document in documents if passages_max else ():
        passages_left = EMBED_PASSAGES_OF_DOCUMENT
        for unit in units_of(document) if document is not None else ():
            digest = check_of(embedded_text(unit)) if unit.check else ""
            if digest in missing_texts:
                texts = embedded_passages(unit, min(passages_max, passages_left))
                passages_left -= len(texts)
                pieces_by_text[digest] = [(check_of(text), text) for text in texts]
    return pieces_by_text


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
    model_name = embedder.info.model
    model_reach = encoders.reaches.get(model_name)
    if model_reach is None:
        model_reach = encoders.reaches[model_name] = await _try_languages(embedder)
    return model_reach


async def _try_languages(embedder: Embedder) -> ModelReach:
    """Return which languages `embedder` reads; many if it refuses the sample texts. Raises ModelUnavailable."""
    pairs_by_language: dict[str, list[list[str]]] = json.loads(
        files("elytron.embedding").joinpath("language_pairs.json").read_text("utf-8")
    )
    all_pairs = [pair for language_pairs in pairs_by_language.values() for pair in language_pairs]
    try:
        memories = await embed_texts(embedder, [memory for memory, _ in all_pairs])
        questions = await embed_texts(embedder, [question for _, question in all_pairs], as_queries=True)
    except ModelRefused:
        return ModelReach.MANY
    match_count, start = 0, 0
    for language_pairs in pairs_by_language.values():
        end = start + len(language_pairs)
        similarities = [
            [_cosine_likeness(question_vector, memory_vector) for memory_vector in memories[start:end]]
            for question_vector in questions[start:end]
        ]
        match_count += sum(row.index(max(row)) == position for position, row in enumerate(similarities))
        start = end
    return ModelReach.MANY if match_count >= _LEAST * len(all_pairs) else ModelReach.ENGLISH


def _cosine_likeness(left: Sequence[float], right: Sequence[float]) -> float:
    length_product = math.hypot(*left) * math.hypot(*right)
    return math.fsum(map(mul, left, right)) / length_product if length_product else 0.0
