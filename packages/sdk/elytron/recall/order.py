"""The order of recalled memories. Hits are built only for those that are shown."""

import asyncio
import math
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import compress
from operator import attrgetter
from typing import Any, Final, NamedTuple

from elytron.context import OperationContext
from elytron.documents.hits import fact_hit, scored_hit
from elytron.documents.stored_values import documents_at
from elytron.indexing.units import ReadTurn
from elytron.recall.closer_look import CLOSER
from elytron.recall.outside_share import hits_once, is_crowded, is_outside, share_hits
from elytron_core import limits
from elytron_core.clock import Instant
from elytron_core.contracts.recall import RecallHit, RecallPlane, RerankUse
from elytron_core.errors import ModelRefused, ModelUnavailable
from elytron_core.evidence import TrustLevel
from elytron_core.ids import TurnId
from elytron_core.planes import facts, transcript
from elytron_core.planes.embedding import ModelReach
from elytron_core.policy.projection.sections import RECALLED_CHARS_MIN, RECALLED_SPARE
from elytron_core.policy.ranking import outcome, weights
from elytron_core.policy.ranking.facts import ScoredFact
from elytron_core.policy.ranking.latest_statements import WINDOW
from elytron_core.policy.ranking.recall_gate import GateSigns
from elytron_core.policy.ranking.weights import AnswerSigns
from elytron_core.ports.store import Document, DocumentRef
from elytron_core.scope import Scope
from elytron_core.text.analyser import TextAnalyser
from elytron_index import FoundCandidates, IndexQuery, UnitCandidate, UnitSignals
from elytron_index.lexicon.text_vectors import is_english
from elytron_index.search.nearness import text_likeness
from elytron_index.space_index import SpaceIndex

RERANK_TEXT_CHARS: Final = 4_000
RERANK_WAIT_S: Final = 10.0


_ANALYSER: Final = TextAnalyser()


def answer_scores(candidates: FoundCandidates, /) -> list[float]:
    """Return the score of each candidate, in order; scores never increase."""
    return [round(score, 6) for score in weights.hit_scores(signs_of(candidates), encoder=encoder_of(candidates))]


def answer_estimate(searches: Iterable[FoundCandidates], /) -> float:
    """Return the estimate that one of the best candidates answers; 0 if nothing was found."""
    return max(
        (
            weights.answer_chance(signs_of(search), encoder=encoder_of(search))
            for search in searches
            if search.candidates
        ),
        default=0.0,
    )


def signs_of(candidates: FoundCandidates, /) -> AnswerSigns:
    """Return the evidence of the search for its answer."""
    best_score = candidates.candidates[0].score if candidates.candidates else 0.0
    score_unit, lowest_vector, high_signals = abs(best_score) or 1.0, candidates.lows.vector, candidates.highs
    closeness = (high_signals.vector - lowest_vector) / (1.0 - lowest_vector) if lowest_vector < 1.0 else 1.0
    return AnswerSigns(
        strength=max(high_signals.text_vectors, (1.0 - candidates.alike) * high_signals.context, closeness, 0.0),
        agreement=best_score / candidates.most if candidates.most else 0.0,
        behind=tuple([(best_score - item.score) / score_unit for item in candidates.candidates]),
        is_foreign=candidates.is_foreign,
    )


def first_hit_chance(candidates: FoundCandidates, hit: RecallHit, query: str, /) -> float:
    """Return the estimate that `hit`, the first of a recall, answers; `candidates` is the search of its plane."""
    if hit.signals.get("topic_exact") or hit.signals.get("name_exact"):
        return 1.0
    answer_signs = signs_of(candidates)
    position, item = next(
        ((position, item) for position, item in enumerate(candidates.candidates) if hit.id in _possible_ids(item)),
        (1, None),
    )
    text = hit.text if hit.plane is RecallPlane.TRANSCRIPT or not hit.title else f"{hit.title}. {hit.text}"
    unshared_share, lacks_value = 0.0, False
    # Most questions among many memories need neither, and reading a hit takes as long as a tenth of a recall.
    if candidates.few or outcome.value_kind(query) is not None:
        unshared_texts = outcome.unshared_parts(query, text, _ANALYSER.terms)
        lacks_value = outcome.lacks_value(query, unshared_texts[1]) and is_english(text[: outcome.READ_CHARS])
        unnamed_terms = set(candidates.terms).difference(candidates.name_terms)
        has_all_words = unnamed_terms.issubset(_ANALYSER.terms(text[: outcome.READ_CHARS]))
        unshared_share = 1.0 if has_all_words else text_likeness(*unshared_texts) if candidates.few else 0.0
    first_hit_signs = outcome.FirstHitSigns(
        evidence=answer_signs.evidence,
        few=candidates.few,
        unshared=unshared_share,
        coverage=item.signals.coverage if item is not None else 0.0,
        lead=answer_signs.behind[1] if not position and len(answer_signs.behind) > 1 else 0.0,
        searched=candidates.searched,
        lacks_value=lacks_value,
    )
    return outcome.first_hit_chance(first_hit_signs)


def hit_estimates(
    candidates_by_plane: Mapping[RecallPlane, FoundCandidates],
    hits: Sequence[RecallHit],
    query: str,
    estimate: float,
    /,
) -> tuple[float, float]:
    """Return the estimates that one of the best hits answers, and that the first one does.

    `estimate` is what `answer_estimate` returned for the candidates.
    """
    if not hits:
        return 0.0, 0.0
    return max(hits[0].score, estimate), first_hit_chance(candidates_by_plane[hits[0].plane], hits[0], query)


def _possible_ids(item: UnitCandidate) -> tuple[str, str]:
    """Return the ids of the hit that `item` becomes, if it is a message and if it is not."""
    key = item.unit.ref.key
    return transcript.message_id(TurnId(key), item.unit.part), key


def gate_signs(candidates: FoundCandidates, /) -> GateSigns:
    """Return the search's signals on whether its memories are wanted unasked."""
    return GateSigns(
        evidence=signs_of(candidates).evidence,
        searched=candidates.searched,
        context=candidates.highs.context,
        encoder=encoder_of(candidates),
    )


def encoder_of(candidates: FoundCandidates, /) -> ModelReach | None:
    """Return which kind of encoder contributed to the results, if any."""
    if candidates.highs.vector <= 0.0:
        return None
    return ModelReach.ENGLISH if candidates.is_english else ModelReach.MANY


EVIDENCE_SHARE = 0.5
"""Share of the best score from which evidence comes first, if the query asks for it."""
_EVIDENCE = frozenset({RecallPlane.TRANSCRIPT, RecallPlane.ARCHIVE})


@dataclass(frozen=True, slots=True)
class PlacedMemory:
    """A memory in the order, whether it is shown or not."""

    id: str
    score: float
    signals: Mapping[str, float]


class RankedMemory(NamedTuple):
    """A memory with its position; the hit of a turn or fact is made once it is known to be shown."""

    score: float
    at: int
    sequence: int
    key: str
    part: int
    match: RecallHit | UnitCandidate | ScoredFact
    plane: RecallPlane


_new: Callable[..., Any] = tuple[Any, ...].__new__
in_place: Callable[[tuple[float, int, int, str, int, UnitCandidate | ScoredFact, RecallPlane]], RankedMemory] = partial(
    _new, RankedMemory
)
"""Makes a `RankedMemory` from its parts, in fewer steps than the class itself: a recall does it for every result."""


def ranked_facts(
    facts: Sequence[ScoredFact], estimates: Mapping[str, float], sequences: Mapping[str, int], /
) -> list[RankedMemory]:
    """Return ranked facts, each with its points or the search's estimate, whichever is higher."""
    return [
        in_place(
            (
                max(round(weights.common_scale(item.match), 6), estimates[item.fact.id]),
                item.fact.ordered_at,
                sequences[item.fact.id],
                item.fact.id,
                0,
                item,
                RecallPlane.LONG_TERM,
            )
        )
        for item in facts
    ]


def turns_of(candidates: FoundCandidates, /) -> list[RankedMemory]:
    """Return the turns found, each with its score."""
    return [
        in_place(
            (
                score,
                item.unit.at,
                item.unit.sequence,
                item.unit.ref.key,
                item.unit.part,
                item,
                RecallPlane.TRANSCRIPT,
            )
        )
        for score, item in zip(answer_scores(candidates), candidates.candidates, strict=True)
    ]


def in_own_order(ranked: Sequence[RankedMemory], /) -> list[RankedMemory]:
    """Return memories of one plane, best first, and the latest first among equals."""
    return sorted(ranked, key=_rank_key)


def _rank_key(item: RankedMemory) -> tuple[float, int, int, str, int]:
    score, at, sequence, key, part, *_ = item
    return -score, -at, -sequence, key, part


def in_one_order(ranked: list[RankedMemory], route: weights.PlaneRoute, /) -> list[RankedMemory]:
    """Return memories of all planes in one order, each with its plane's bonus; if the query names a slot, only that.

    Where scores are equal, the order of `ranked` stays. If the query asks who said something, messages come first.
    """
    if route.slot is not None:
        ranked = [item for item in ranked if _slot_of(item) == route.slot] or ranked
    if route.bonus:
        item_bonuses = [(item, route.bonus.get(item.plane, 0.0)) for item in ranked]
        ranked = [_with_bonus(item, bonus) if bonus else item for item, bonus in item_bonuses]
    ordered_memories = sorted(ranked, key=attrgetter("score"), reverse=True)
    return _evidence_first(ordered_memories) if route.intent is weights.QueryIntent.EVIDENCE else ordered_memories


def slot_of(ranked: Sequence[RankedMemory], /) -> str | None:
    """Return the slot of the first of `ranked`, if it is a fact."""
    return _slot_of(ranked[0]) if ranked else None


def _slot_of(item: RankedMemory) -> str | None:
    if not isinstance(item.match, ScoredFact):
        return None
    fact = item.match.fact
    return f"{fact.kind.value}:{facts.topic_key(fact.topic)}"


def _evidence_first(ordered_memories: list[RankedMemory]) -> list[RankedMemory]:
    """Return the evidence that is at least half as good as the best, then the others; scores stay with the
    positions."""
    if not ordered_memories:
        return ordered_memories
    least_score = ordered_memories[0].score * EVIDENCE_SHARE
    first_memories = [item for item in ordered_memories if item.plane in _EVIDENCE and item.score >= least_score]
    if not first_memories:
        return ordered_memories
    other_memories = [item for item in ordered_memories if item.plane not in _EVIDENCE or item.score < least_score]
    return [
        _placed_at(item, ranked_item.score)
        for item, ranked_item in zip((*first_memories, *other_memories), ordered_memories, strict=True)
    ]


def _placed_at(item: RankedMemory, score: float) -> RankedMemory:
    memory = item.match
    if isinstance(memory, RecallHit):
        memory = memory.model_copy(update={"score": round(score, 6)})
    return item._replace(score=score, match=memory)


def _with_bonus(item: RankedMemory, favour: float) -> RankedMemory:
    """Return the memory with its plane's bonus, which its hit shows."""
    score, memory = weights.lift_strength(min(item.score, 1.0), favour), item.match
    if isinstance(memory, RecallHit):
        signals = {**memory.signals, "route": favour}
        memory = memory.model_copy(update={"score": round(score, 6), "signals": signals})
    elif isinstance(memory, ScoredFact):
        memory = memory._replace(favour=favour)
    return item._replace(score=score, match=memory)


async def hits_of(
    ctx: OperationContext,
    scope: Scope,
    ranked: Sequence[RankedMemory],
    /,
    *,
    limit: int,
    now: Instant,
    signed: int | None = None,
) -> tuple[RecallHit, ...]:
    """Return the hits of the best `limit`; the next one replaces any that vanished since it was indexed.

    With `signed`, only the first so many of those that are made here have signals.
    """
    hits: list[RecallHit] = []
    read_turn = partial(ctx.folds.readings.turn, scope.space)
    start = 0
    while len(hits) < limit and start < len(ranked):
        page = ranked[start : start + limit - len(hits)]
        positions = range(start, start + len(page))
        start += len(page)
        refs = (item.match.unit.ref for item in page if isinstance(item.match, UnitCandidate))
        documents = await documents_at(ctx.store, scope.space, refs)
        page_hits = (
            _ranked_hit(item, documents, read_turn, now, is_signed=signed is None or position < signed)
            for position, item in zip(positions, page, strict=True)
        )
        hits += [hit for hit in page_hits if hit is not None]
    return tuple(hits)


def _ranked_hit(
    item: RankedMemory,
    documents: Mapping[DocumentRef, Document],
    reading: Callable[[Document], ReadTurn],
    now: Instant,
    *,
    is_signed: bool,
) -> RecallHit | None:
    """Return the hit of a ranked memory; None for a message that vanished or may not be recalled any more."""
    match item.match:
        case UnitCandidate(unit):
            document = documents.get(unit.ref)
            hit = reading(document).hit(TurnId(item.key), item.part) if document is not None else None
            signals = signals_of(item.match) if is_signed else {}
            return scored_hit(hit, score=item.score, signals=signals) if hit is not None else None
        case ScoredFact():
            signals = item.match.signals if is_signed else None
            return fact_hit(item.match.fact, now=now, score=item.score, signals=signals)
        case RecallHit():
            return item.match


def placed_memory(item: RankedMemory, /) -> PlacedMemory:
    """Return the explanation of a memory's position."""
    score = round(item.score, 6)
    match item.match:
        case RecallHit():
            return PlacedMemory(item.match.id, score, item.match.signals)
        case ScoredFact():
            return PlacedMemory(item.match.fact.id, score, item.match.signals)
        case UnitCandidate():
            return PlacedMemory(transcript.message_id(TurnId(item.key), item.part), score, signals_of(item.match))


def signals_of(candidate: UnitCandidate, /) -> dict[str, float]:
    """Return the signals that support a unit, to four places."""
    return four_each(UnitSignals._fields, candidate.signals)


class HitBounds(NamedTuple):
    """How many hits are wanted, and the size of the block that is to have room for them; None: they are for none."""

    limit: int
    room: int | None


async def shown_hits(
    ctx: OperationContext,
    scope: Scope,
    ranked: Sequence[RankedMemory],
    index: SpaceIndex,
    search: IndexQuery | None,
    /,
    *,
    bounds: HitBounds,
    now: Instant,
) -> tuple[RecallHit, ...]:
    """Return the hits of the best of `ranked`, at least as many as `bounds` say if there are.

    `search` found the messages among them: if text from outside crowds the others out, it finds those again, alone.
    With room of a block, they are those that it may have room for; behind the window without signals.
    """
    limit, room = bounds
    hit_count = max(limit, WINDOW)
    # The share of text from outside is relative to all hits, so these must be known.
    if room is not None and not any(map(_is_from_outside, ranked[:hit_count])):
        count = max(_count_fitting(ranked[:hit_count], room), WINDOW)
        return await _best_hits(ctx, scope, ranked, count=count, now=now, signed=WINDOW)
    hits = await _best_hits(ctx, scope, ranked, count=hit_count, now=now)
    if search is None or not is_crowded(hits, limit=limit):
        return hits
    # The same for any limit, so that pages of one recall agree on the order.
    least_trust = max(search.filters.min_trust or 0, TrustLevel.DRAWN.rank)
    inside_candidates = index.search(
        replace(search, limit=CLOSER, filters=replace(search.filters, min_trust=least_trust))
    )
    return share_hits(hits, await _inside_hits(ctx, scope, ranked, inside_candidates, now=now))


def _is_from_outside(item: RankedMemory) -> bool:
    match item.match:
        case UnitCandidate(unit):
            return unit.trust == TrustLevel.OUTSIDE.rank
        case ScoredFact():
            return item.match.fact.trust is TrustLevel.OUTSIDE
        case RecallHit():
            return is_outside(item.match)


def _count_fitting(ranked: Sequence[RankedMemory], chars_max: int) -> int:
    """Return how many of `ranked` may fit into a block, in whatever order it shows them."""
    chars_left = chars_max + RECALLED_SPARE
    for hit_count, item in enumerate(ranked, 1):
        match item.match:
            case UnitCandidate(unit):
                hit_chars = unit.chars
            case ScoredFact():
                hit_chars = len(item.match.fact.content)
            case RecallHit():
                hit_chars = len(item.match.text)
        chars_left -= min(hit_chars, RECALLED_CHARS_MIN)
        if chars_left < 0:
            return hit_count
    return len(ranked)


async def _best_hits(
    ctx: OperationContext,
    scope: Scope,
    ranked: Sequence[RankedMemory],
    /,
    *,
    count: int,
    now: Instant,
    signed: int | None = None,
) -> tuple[RecallHit, ...]:
    """Return the hits of the best `count`; a repetition of text from outside is skipped.

    With `signed`, only so many have signals.
    """
    hits: tuple[RecallHit, ...] = ()
    page_start = 0
    while len(hits) < count and page_start < len(ranked):
        page = ranked[page_start : page_start + count - len(hits)]
        page_start += len(page)
        hits = hits_once((*hits, *await hits_of(ctx, scope, page, limit=len(page), now=now, signed=signed)))
    return hits


async def _inside_hits(
    ctx: OperationContext,
    scope: Scope,
    ranked: Sequence[RankedMemory],
    inside_candidates: FoundCandidates,
    /,
    *,
    now: Instant,
) -> tuple[RecallHit, ...]:
    """Return the hits of messages that do not come from outside, and of everything that is no message."""
    other_memories = [item for item in ranked if not isinstance(item.match, UnitCandidate)]
    inside_memories = sorted((*turns_of(inside_candidates), *other_memories), key=lambda item: item.score, reverse=True)
    return await hits_of(ctx, scope, inside_memories, limit=len(inside_memories), now=now)


async def rerank_hits(
    ctx: OperationContext, query: str, hits: Sequence[RecallHit], /
) -> tuple[RerankUse, tuple[RecallHit, ...]]:
    """Return the hits with the best `limits.RERANK_HITS` in the reranker's order; unchanged if it fails.

    Scores belong to the places: the first keeps the highest. The reranker's scores are in `signals`. Equal answers
    leave the order as it was.
    """
    reranker = ctx.models.reranker
    head = hits[: limits.RERANK_HITS]
    if reranker is None or len(head) < 2:
        return RerankUse.NONE, tuple(hits)
    texts = [hit.text[:RERANK_TEXT_CHARS] for hit in head]
    try:
        async with asyncio.timeout(RERANK_WAIT_S):
            rerank_scores = await reranker.rerank(query, texts)
    except (ModelUnavailable, ModelRefused, TimeoutError):
        return RerankUse.FAILED, tuple(hits)
    # A NaN among the answers would leave the order undefined.
    if len(rerank_scores) != len(head) or not all(math.isfinite(answer) for answer in rerank_scores):
        return RerankUse.FAILED, tuple(hits)
    ranked_positions = sorted(range(len(head)), key=lambda position: (-rerank_scores[position], position))
    reranked_hits = (
        head[position].model_copy(
            update={
                "score": former_hit.score,
                "signals": {**head[position].signals, "rerank": round(rerank_scores[position], 4)},
            }
        )
        for position, former_hit in zip(ranked_positions, head, strict=True)
    )
    return RerankUse.RANKED, (*reranked_hits, *hits[len(head) :])


_FOUR = 10_000.0
_EXACT = 100_000.0
"""Below this, the rounding error of a number times `_FOUR` is far less than the distance kept from a tie."""
_TIE = 0.4999
_WHOLE = 3 * 2.0**51
"""Adding it leaves a number of that size no room for a fraction; subtracting it gives the nearest whole number."""


def four_each(names: Iterable[str], signal_values: Collection[float], /) -> dict[str, float]:
    """Return the non-zero numbers by their names, each as `round(number, 4)` gives it."""
    # Both parts of a quotient are whole numbers that a float represents exactly, so it is the float nearest to the
    # decimal.
    return {
        name: whole_quarters / _FOUR
        if 0.0 < signal < _EXACT
        and -_TIE < (scaled_signal := signal * _FOUR) - (whole_quarters := scaled_signal + _WHOLE - _WHOLE) < _TIE
        else round(float(signal), 4)
        for name, signal in compress(zip(names, signal_values, strict=True), signal_values)
    }
