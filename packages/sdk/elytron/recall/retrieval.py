"""Retrieval: each plane's candidates for a query on one scale, with their texts and hints."""

import logging
from collections.abc import Container, Mapping, Sequence
from dataclasses import replace
from functools import partial
from types import MappingProxyType
from typing import NamedTuple

from elytron.context import OperationContext
from elytron.documents.hits import fact_hit, skill_hit, with_newer
from elytron.documents.planes import PLANES_IF_NAMED, kept_memory, text_of, title_of
from elytron.documents.stored_values import documents_at
from elytron.embedding.embed_pass import nudge_embedding
from elytron.indexing.units import COVERED, SESSION, plane_of
from elytron.memories.chat_aliases import meant_conversation
from elytron.recall.closer_look import CLOSER, SearchedSpace, looked_closer
from elytron.recall.filters import asked_planes, index_filters
from elytron.recall.hit_places import time_places
from elytron.recall.order import (
    HitBounds,
    PlacedMemory,
    RankedMemory,
    answer_estimate,
    answer_scores,
    gate_signs,
    hit_estimates,
    in_one_order,
    in_own_order,
    placed_memory,
    ranked_facts,
    shown_hits,
    signals_of,
    slot_of,
    turns_of,
)
from elytron.recall.space_reader import SpaceReader
from elytron.transcript import recent_talk
from elytron_core import limits
from elytron_core.clock import Instant
from elytron_core.contracts.recall import (
    HitDiversity,
    NothingReason,
    RecallFilters,
    RecallGate,
    RecallGateNumbers,
    RecallGateReport,
    RecallHit,
    RecallOutcome,
    RecallPlane,
    VectorUse,
)
from elytron_core.ids import SkillId, SpaceId
from elytron_core.planes import transcript
from elytron_core.planes.embedding import ModelReach
from elytron_core.planes.facts import FactPrivacy, topic_key
from elytron_core.planes.skills import Skill
from elytron_core.planes.space import SpaceRecord
from elytron_core.policy.ranking import question as query_question
from elytron_core.policy.ranking import recall_gate, time_ranges, weights
from elytron_core.policy.ranking.facts import FactQuery, diversify_facts, is_weak, score_facts
from elytron_core.policy.ranking.outcome import recall_outcome
from elytron_core.policy.ranking.skills import score_skills
from elytron_core.ports.store import Document, DocumentRef
from elytron_core.scope import ConversationKey, Scope
from elytron_core.text import analyser, similarity
from elytron_index import FoundCandidates, IndexQuery, UnitFilters
from elytron_index.lexicon.text_vectors import language_of
from elytron_index.space_index import SpaceIndex

logger = logging.getLogger(__name__)

FACTS_SCORED = 96
SKILLS_SCORED = 48
KEPT_SCORED = 16
HELD_SCORE = 0.6
"""Minimum score of a text with a title that together contain all words of the query; less in proportion."""
WITHHELD = (FactPrivacy.PRIVATE.value,)
EXTRA = 16
"""Candidates beyond the limit, so that vanished ones leave no hole."""


class HitQuery(NamedTuple):
    """What a recall searches for: up to `limit` hits that `gate` admits, and `depth` further positions of the order.

    `room` is the size of the block that they are for; None: they are for none.
    """

    text: str
    filters: RecallFilters
    limit: int
    gate: RecallGate
    room: int | None = None
    diversity: HitDiversity = HitDiversity.AUTO
    depth: int = 0
    private: Container[RecallPlane] = ()
    """The planes whose private memories are searched."""


class SearchAccount(NamedTuple):
    """How a space was searched: `considered` memories passed the filters, `available` of these matched."""

    considered: int = 0
    available: int = 0
    sequence: int = 0
    vectors: VectorUse = VectorUse.NONE
    unembedded: int = 0
    alias: transcript.AliasTrust = transcript.AliasTrust.TRUSTED
    """State of the scope's chat; if it names no conversation, no turn is recalled."""


class QueryReading(NamedTuple):
    """The query as it was read."""

    question: query_question.ReadQuestion | None = None
    """None if nothing was searched."""
    terms: tuple[str, ...] = ()
    """The terms of the search."""
    intent: weights.QueryIntent = weights.QueryIntent.MIXED

    @property
    def wants_several(self) -> bool:
        """True if the answer is probably in several places."""
        return self.question is not None and self.question.wants_several

    @property
    def retells(self) -> bool:
        """True if an account of what was said is requested, so that memories belong in chronological order."""
        return self.question is not None and self.question.retells


class HitRanking(NamedTuple):
    """All that was put in order, hits and beyond."""

    scores: tuple[float, ...] = ()
    order: tuple[PlacedMemory, ...] = ()
    """The whole order with the signals of each, if `depth` was given."""
    places: Mapping[str, int] = MappingProxyType({})
    """The chronological position of each hit, by its id, if an account is requested."""


class HitVerdict(NamedTuple):
    """What was decided about the hits."""

    reason: NothingReason | None
    """Why nothing was found, if so."""
    answered: float = 0.0
    """The estimate that one of the best hits answers."""
    first: float = 0.0
    """The estimate that the first hit answers."""
    gate: RecallGateReport | None = None
    """What the gate decided, if it was asked for; the hits are those that it let through."""

    @property
    def outcome(self) -> RecallOutcome:
        """Whether one of the best hits answers."""
        return recall_outcome(self.answered, self.first)


class GatheredHits(NamedTuple):
    """Hits, best first."""

    verdict: HitVerdict
    hits: tuple[RecallHit, ...] = ()
    ranking: HitRanking = HitRanking()
    reading: QueryReading = QueryReading()
    search: SearchAccount = SearchAccount()
    private: tuple[str, ...] = ()
    """The private facts nearest to the query that were left out, if the hits are for a block."""


class _AskedQuery(NamedTuple):
    """Basis of comparison: the query, its intent, its conversation and time."""

    text: str
    chat: str
    now: Instant
    grounding: str
    """The recent talk, if the query is too short to stand alone."""
    facts: int
    """Maximum number of facts, spread over kinds and topics if more match."""

    def of_beliefs(self, search: FoundCandidates, /) -> FactQuery:
        """Return the query with the terms that the index made of it."""
        terms = tuple(similarity.normalise_text(self.text).split()) if self.grounding else search.terms
        return FactQuery(text=self.text, terms=terms, chat=self.chat, now=self.now, grounding=self.grounding)


async def gather_hits(
    ctx: OperationContext, reader: SpaceReader | None, scope: Scope, hit_query: HitQuery, /
) -> GatheredHits:
    """Return the hits for `hit_query`, and how they were found."""
    if reader is None:
        return GatheredHits(HitVerdict(NothingReason.EMPTY_SPACE))
    record, index, query, limit = reader.record, reader.index, hit_query.text, hit_query.limit
    if similarity.is_blank(query):
        return GatheredHits(HitVerdict(NothingReason.EMPTY_QUERY), search=SearchAccount(sequence=index.watermark))
    now, conversation = ctx.clock.now(), await meant_conversation(ctx, scope)
    key = conversation.key if conversation.is_trusted else None
    question = _anchor_question(index, _read_query(ctx, query, now), hit_query.filters, now, key)
    grounding = await recent_talk(ctx, scope, record, key) if key is not None and is_weak(query) else ""
    vector_use, vector = await ctx.encoders.search_vector(record, index, question.text)
    searches = _plane_searches(index, question, vector, hit_query, key, now=now, grounding=grounding)
    candidates = await _found_candidates(ctx, scope.space, record, index, searches)
    route, fact_count = weights.query_route(query), limit if hit_query.diversity is HitDiversity.WIDE else FACTS_SCORED
    query_context = _AskedQuery(query, (key or scope.conversation_key).conversation, now, grounding, fact_count)
    ranked = await _rank_candidates(ctx, scope, query_context, candidates, route=route)
    # Repeats are removed from a list, so any number may have to be read.
    chars_max = limits.PROJECTION_CHARS_MAX if hit_query.room is not None and question.wants_several else hit_query.room
    is_gated = hit_query.gate is not RecallGate.OFF
    estimate = answer_estimate(candidates.values())
    gates = _gate_numbers(ctx, query, ranked, candidates, route, estimate=estimate) if is_gated else None
    memories = ranked if gates is None else recall_gate.injected_memories(ranked, gates)
    search = searches.get(RecallPlane.TRANSCRIPT) if memories else None
    visible_hits = await shown_hits(ctx, scope, memories, index, search, bounds=HitBounds(limit, chars_max), now=now)
    # Hits from within that replace those from outside count as well.
    visible_hits = visible_hits if gates is None else recall_gate.injected_memories(visible_hits, gates)
    hits = with_newer(question, query, visible_hits, partial(time_places, index))[:limit]
    estimates = hit_estimates(candidates, hits, query, estimate)
    is_doubtful = recall_outcome(*estimates) is RecallOutcome.DOUBTFUL
    if gates is not None and is_doubtful and hit_query.gate is RecallGate.STRICT:
        gates = recall_gate.strict_numbers(gates, estimates[1])
        hits = recall_gate.injected_memories(hits, gates)
        estimates = hit_estimates(candidates, hits, query, estimate)
    gate_report = (
        None if gates is None else recall_gate.gate_report(gates, left_out=min(limit, len(ranked)) - len(hits))
    )
    reason = _nothing_reason(hits, is_held_back=gates is not None and bool(ranked))
    return GatheredHits(
        HitVerdict(reason, *estimates, gate=gate_report),
        hits,
        HitRanking(
            scores=tuple([item.score for item in ranked]),
            order=tuple(map(placed_memory, ranked)) if hit_query.depth else (),
            places=time_places(index, visible_hits) if question.retells else {},
        ),
        QueryReading(question, next((part.terms for part in candidates.values()), ()), route.intent),
        SearchAccount(
            considered=sum(part.searched for part in candidates.values()),
            available=sum(part.pool for part in candidates.values()),
            sequence=index.watermark,
            vectors=vector_use,
            unembedded=_count_unembedded(ctx, scope, index, vector_use),
            alias=conversation.trust,
        ),
        private=() if hit_query.room is None else _withheld_facts(index, searches.get(RecallPlane.LONG_TERM), limit),
    )


def _gate_numbers(
    ctx: OperationContext,
    query: str,
    ranked: Sequence[RankedMemory],
    candidates: Mapping[RecallPlane, FoundCandidates],
    route: weights.PlaneRoute,
    *,
    estimate: float,
) -> tuple[RecallGateNumbers, ...]:
    """Return the gate's decision about each plane; a fact that the query names by its slot may always be shown."""
    best_score = max([estimate, *(item.score for item in ranked[:1])])
    return recall_gate.gate_numbers(
        {plane: gate_signs(part) for plane, part in candidates.items()},
        _prompt_margin(ctx, query),
        is_answered=best_score >= limits.PROJECTED_SCORE,
        named_planes=(RecallPlane.LONG_TERM,) if route.slot is not None and slot_of(ranked) == route.slot else (),
    )


def _prompt_margin(ctx: OperationContext, query: str) -> float:
    """Return the classifier's margin; if a host's own fails, memories are withheld, but no prompt fails."""
    try:
        return float(ctx.models.asks.margin(query))
    except Exception as error:  # noqa: BLE001 - a host's code may raise anything
        logger.warning("the classifier of prompts failed with %s: memories are held back", type(error).__name__)
        return -recall_gate.ASKS_MOST


def _withheld_facts(index: SpaceIndex, search: IndexQuery | None, limit: int) -> tuple[str, ...]:
    """Return the keys of the private facts that `search` leaves out, at most `limit`.

    They are looked for apart, so that nothing else in a report depends on them.
    """
    scope = dict(search.filters.scope) if search is not None else {}
    if search is None or "privacy" not in scope:
        return ()
    filters = replace(search.filters, scope=tuple((scope | {"privacy": WITHHELD}).items()))
    candidates = index.search(replace(search, limit=limit, filters=filters)).candidates
    return tuple(dict.fromkeys(item.unit.ref.key for item in candidates))


def _nothing_reason(hits: Sequence[RecallHit], *, is_held_back: bool) -> NothingReason | None:
    if hits:
        return None
    return NothingReason.HELD_BACK if is_held_back else NothingReason.NOTHING_MATCHES_FILTERS


def _read_query(ctx: OperationContext, query: str, now: Instant) -> query_question.ReadQuestion:
    """Return what `query` asks for, by its labels and in its language."""
    return query_question.read_question(query, now, ctx.models.questions.classify(query), language_of(query))


def _plane_searches(
    index: SpaceIndex,
    question: query_question.ReadQuestion,
    vector: tuple[str, bytes] | None,
    hit_query: HitQuery,
    key: ConversationKey | None,
    /,
    *,
    now: Instant,
    grounding: str,
) -> dict[RecallPlane, IndexQuery]:
    """Return the search of each plane to read."""
    limit = max(hit_query.limit, hit_query.depth)
    return {
        plane: asked_of_index(
            question if plane is RecallPlane.TRANSCRIPT else _ground_question(question, grounding),
            vector,
            limit=_wanted_count(plane, limit),
            filters=index_filters(hit_query.filters, plane, now, key, include_private=plane in hit_query.private),
            diversity=hit_query.diversity,
            encoder=_reach_of(index, vector),
        )
        for plane in _asked_planes(index, hit_query.filters, key)
    }


async def _found_candidates(
    ctx: OperationContext,
    space: SpaceId,
    record: SpaceRecord,
    index: SpaceIndex,
    searches: Mapping[RecallPlane, IndexQuery],
    /,
) -> Mapping[RecallPlane, FoundCandidates]:
    """Return the results of each plane, messages in the order of a closer look, if one is worthwhile."""
    candidates_by_plane = {plane: index.search(search) for plane, search in searches.items()}
    message_candidates = candidates_by_plane.get(RecallPlane.TRANSCRIPT)
    if message_candidates is None:
        return candidates_by_plane
    has_passages = searches[RecallPlane.TRANSCRIPT].vector is not None and ctx.encoders.reads_passages(record, index)
    if not message_candidates.long and not has_passages:
        return candidates_by_plane
    searched_space = SearchedSpace(space, index, searches[RecallPlane.TRANSCRIPT], message_candidates, has_passages)
    return candidates_by_plane | {RecallPlane.TRANSCRIPT: await looked_closer(ctx, searched_space)}


def _reach_of(index: SpaceIndex, vector: tuple[str, bytes] | None) -> ModelReach | None:
    if vector is None:
        return None
    return ModelReach.ENGLISH if index.is_english else ModelReach.MANY


def _ground_question(question: query_question.ReadQuestion, grounding: str) -> query_question.ReadQuestion:
    """Return `question` followed by the recent talk, if it says nothing by itself."""
    if not grounding or not analyser.ENGLISH.issuperset(similarity.normalise_text(question.text).split()):
        return question
    return question._replace(text=f"{question.text} {grounding}"[: limits.QUERY_CHARS])


def _count_unembedded(ctx: OperationContext, scope: Scope, index: SpaceIndex, use: VectorUse) -> int:
    """Return the number of units without a vector, and schedule those vectors."""
    unembedded_count = index.unembedded(index.compared) if use is not VectorUse.NONE else 0
    if unembedded_count:
        nudge_embedding(ctx, scope.space)
    return unembedded_count


def _asked_planes(index: SpaceIndex, filters: RecallFilters, key: ConversationKey | None) -> list[RecallPlane]:
    """Return the planes that are asked and hold something; without a trusted conversation nothing said is recalled."""
    planes_present, planes = {plane_of(plane) for plane in index.planes()}, asked_planes(filters)
    return [
        plane
        for plane in planes
        if plane in planes_present and (key is not None or plane is not RecallPlane.TRANSCRIPT)
    ]


def _anchor_question(
    index: SpaceIndex,
    question: query_question.ReadQuestion,
    filters: RecallFilters,
    now: Instant,
    key: ConversationKey | None,
) -> query_question.ReadQuestion:
    """Return `question` with the time of its anchor; unchanged if it has none, or no message mentions it."""
    time_anchor = question.anchor
    if time_anchor is None or key is None or RecallPlane.TRANSCRIPT not in index.planes():
        return question
    unit_filters = index_filters(filters, RecallPlane.TRANSCRIPT, now, key)
    matches = index.search(
        IndexQuery(text=time_anchor.text, limit=1, weights=weights.WORDED, filters=unit_filters, owner=question.owner)
    ).candidates
    if not matches or not matches[0].unit.at or matches[0].signals.coverage < time_ranges.LEAST_COVERED:
        return question
    return question._replace(spans=time_ranges.spans_of(time_anchor, Instant(matches[0].unit.at)))


def asked_of_index(
    question: query_question.ReadQuestion,
    vector: tuple[str, bytes] | None,
    /,
    *,
    limit: int,
    filters: UnitFilters,
    diversity: HitDiversity,
    encoder: ModelReach | None = None,
) -> IndexQuery:
    """Return the index search for `question`, in the plane that `filters` name."""
    return IndexQuery(
        text=question.text,
        limit=limit,
        vector=vector,
        filters=filters,
        weights=weights.weights_for(question, diversity, encoder=encoder),
        spans=question.spans,
        fits=question.fits,
        heeds=question.heeds,
        owner=question.owner,
        is_english=encoder is ModelReach.ENGLISH,
    )


async def _rank_candidates(
    ctx: OperationContext,
    scope: Scope,
    query: _AskedQuery,
    candidates: Mapping[RecallPlane, FoundCandidates],
    /,
    *,
    route: weights.PlaneRoute,
) -> list[RankedMemory]:
    """Return all candidates in one order; equal scores follow the order of the route's planes."""
    ranked: list[RankedMemory] = []
    for plane in sorted(candidates, key=route.place):
        match plane:
            case RecallPlane.TRANSCRIPT:
                ranked += turns_of(candidates[plane])
            case RecallPlane.LONG_TERM:
                ranked += in_own_order(await _rank_facts(ctx, scope, query, candidates[plane]))
            case RecallPlane.PROCEDURAL:
                ranked += in_own_order(await _rank_skills(ctx, scope, query, candidates[plane]))
            case _:
                ranked += in_own_order(await _rank_kept(ctx, scope, candidates[plane], query.now))
    return in_one_order(ranked, route)


def _wanted_count(plane: RecallPlane, limit: int) -> int:
    match plane:
        case RecallPlane.TRANSCRIPT:
            return min(max(limit + EXTRA, CLOSER), limits.RECALL_MAX)
        case RecallPlane.LONG_TERM:
            return FACTS_SCORED
        case RecallPlane.PROCEDURAL:
            return SKILLS_SCORED
        case plane if plane in PLANES_IF_NAMED:
            return min(limit + EXTRA, limits.RECALL_MAX)
        case _:
            return KEPT_SCORED


async def _rank_facts(
    ctx: OperationContext, scope: Scope, query: _AskedQuery, search: FoundCandidates
) -> list[RankedMemory]:
    documents = await _read_candidates(ctx, scope, search)
    facts = [ctx.folds.readings.fact(scope.space, document) for document in documents.values()]
    estimates = _unit_estimates(search)
    matching_facts = [item for item in score_facts(facts, query.of_beliefs(search)) if item.match > 0]
    sequences = {item.unit.ref.key: item.unit.sequence for item in search.candidates}
    ranked = ranked_facts(diversify_facts(matching_facts, query.facts), estimates, sequences)
    matching_ids = {item.fact.id for item in matching_facts}
    candidates_by_id = {item.unit.ref.key: item for item in search.candidates}
    # Without a common word: found only by the index, whose score they keep.
    hits = [
        fact_hit(
            entry.fact,
            now=query.now,
            score=estimates[entry.fact.id],
            signals=signals_of(candidates_by_id[entry.fact.id]),
        )
        for entry in facts
        if entry.fact.id not in matching_ids
    ]
    return ranked + [RankedMemory(hit.score, hit.at or 0, sequences[hit.id], hit.id, 0, hit, hit.plane) for hit in hits]


def _unit_estimates(search: FoundCandidates) -> dict[str, float]:
    """Return the score of each document's best unit, by its key."""
    scores: dict[str, float] = {}
    for score, item in zip(answer_scores(search), search.candidates, strict=True):
        # Candidates come in order, so the first of a document is its best.
        scores.setdefault(item.unit.ref.key, score)
    return scores


async def _rank_skills(
    ctx: OperationContext, scope: Scope, query: _AskedQuery, search: FoundCandidates
) -> list[RankedMemory]:
    documents = await _read_candidates(ctx, scope, search)
    skills = [Skill.from_bytes(document.body) for document in documents.values()]
    sequences = {SkillId(item.unit.ref.key): item.unit.sequence for item in search.candidates}
    ranked_ids = tuple(SkillId(item.unit.ref.key) for item in search.candidates)
    scored_skills = score_skills(skills, query.of_beliefs(search), ranks=ranked_ids, sequences=sequences)
    estimates, signals = _unit_estimates(search), {item.unit.ref.key: signals_of(item) for item in search.candidates}
    hits = {
        item.skill.id: skill_hit(
            item.skill, score=max(weights.common_scale(item.match), estimates[item.skill.id]), signals=item.signals
        )
        for item in scored_skills
    }
    scored_topics = {topic_key(item.skill.topic) for item in scored_skills}
    # Found only by the index. Of a topic that was scored, the scored skill is enough.
    hits |= {
        skill.id: skill_hit(skill, score=estimates[skill.id], signals=signals[skill.id])
        for skill in skills
        if skill.is_recallable and topic_key(skill.topic) not in scored_topics
    }
    return [
        RankedMemory(hit.score, hit.at or 0, sequences[skill], hit.id, 0, hit, hit.plane) for skill, hit in hits.items()
    ]


async def _rank_kept(ctx: OperationContext, scope: Scope, search: FoundCandidates, now: Instant) -> list[RankedMemory]:
    """Return conversations' continuity documents, each with its score."""
    documents = await _read_candidates(ctx, scope, search)
    term_signs = [similarity.signs_of(term) for word in search.terms if (term := similarity.normalise_text(word))]
    ranked: list[RankedMemory] = []
    for estimate, item in zip(answer_scores(search), search.candidates, strict=True):
        document = documents.get(item.unit.ref)
        if document is None:
            continue
        memory = kept_memory(document)
        text = similarity.pad_words(similarity.normalise_text(f"{title_of(memory.value)} {text_of(memory.value)}"))
        matched_share = sum(similarity.has_any(text, word_signs) for word_signs in term_signs) / max(len(term_signs), 1)
        hit = memory.to_hit(
            score=max(estimate, round(HELD_SCORE * matched_share, 6)), signals=signals_of(item), now=now
        )
        ranked.append(RankedMemory(hit.score, hit.at or 0, item.unit.sequence, hit.id, 0, hit, hit.plane))
    return ranked


async def _read_candidates(ctx: OperationContext, scope: Scope, search: FoundCandidates) -> dict[DocumentRef, Document]:
    """Return the documents of candidates, without those that vanished since they were indexed."""
    return await documents_at(ctx.store, scope.space, (candidate.unit.ref for candidate in search.candidates))


async def covered_overrides(
    ctx: OperationContext, space: SpaceId, query: str, /, *, session: str | None, limit: int
) -> dict[str, float]:
    """Return the keys of up to `limit` overrides whose memories' hidden words answer `query`, with their scores.

    With `session`, of that one alone. The scores are those that recall would give.
    """
    if await ctx.spaces.find(space) is None or similarity.is_blank(query):
        return {}
    index = await ctx.folds.current(space)
    if COVERED not in index.planes():
        return {}
    now = ctx.clock.now()
    question = _read_query(ctx, query, now)
    scope = ((SESSION, (session,)),) if session is not None else ()
    filters = UnitFilters(planes=(COVERED,), scope=scope)
    index_query = asked_of_index(question, None, limit=limit, filters=filters, diversity=HitDiversity.OFF)
    return {item.key: item.score for item in turns_of(index.search(index_query))}
