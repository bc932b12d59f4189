"""The gate for automatically recalled memories: more evidence opens it, more memories close it, and it is total."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from elytron_core.contracts.recall import RecallGateNumbers, RecallHit, RecallPlane
from elytron_core.planes.embedding import ModelReach
from elytron_core.policy.ranking.recall_gate import (
    DOUBTFUL_CONTEXT,
    DOUBTFUL_FIRST,
    DOUBTFUL_FROM,
    FIRST_LINES,
    FIRST_SCORE,
    LEAST_SHARE,
    GateSigns,
    gate_chance,
    gate_numbers,
    injected_memories,
    strict_numbers,
)

TURNS, FACTS = RecallPlane.TRANSCRIPT, RecallPlane.LONG_TERM
encoders = st.sampled_from([None, *ModelReach])
margins = st.floats(allow_nan=True, allow_infinity=True)
signs = st.builds(
    GateSigns,
    evidence=st.floats(0.0, 1.5),
    searched=st.integers(0, 10_000_000),
    context=st.floats(0.0, 1.0),
    encoder=encoders,
)


@given(signs, margins, st.floats(0.0, 1.0))
def test_more_evidence_more_context_and_a_question_open_the_gate(sign: GateSigns, asks: float, more: float) -> None:
    chance = gate_chance(sign, asks)
    assert 0.0 <= chance <= 1.0
    assert gate_chance(sign._replace(evidence=sign.evidence + more), asks) >= chance
    assert gate_chance(sign._replace(context=sign.context + more), asks) >= chance
    if not math.isnan(asks):
        assert gate_chance(sign, asks + more) >= chance


@given(st.floats(0.0, 1.5), st.integers(1, 12), st.integers(13, 10_000_000), st.floats(-6.0, 6.0), encoders)
def test_the_same_evidence_counts_less_among_more_memories(
    evidence: float, few: int, many: int, asks: float, encoder: ModelReach | None
) -> None:
    sparse, crowded = (GateSigns(evidence, count, 0.0, encoder) for count in (few, many))
    assert gate_chance(crowded, asks) <= gate_chance(sparse, asks)


@given(signs, margins)
def test_a_search_without_an_answer_opens_only_named_facts(sign: GateSigns, asks: float) -> None:
    rows = gate_numbers({TURNS: sign, FACTS: sign}, asks, is_answered=False, named_planes=(FACTS,))
    assert [(row.plane, row.is_open) for row in rows] == [(TURNS, False), (FACTS, True)]


@pytest.mark.parametrize(
    ("chance", "first", "context", "is_open"),
    [
        (DOUBTFUL_FROM, DOUBTFUL_FIRST, 0.0, True),
        (DOUBTFUL_FROM - 0.01, 0.6, 1.0, False),
        (0.99, DOUBTFUL_FIRST - 0.01, DOUBTFUL_CONTEXT - 0.01, False),
        (0.99, 0.0, DOUBTFUL_CONTEXT, True),
    ],
)
def test_a_strict_gate_requires_more_of_doubtful_memories(
    chance: float, first: float, context: float, is_open: bool
) -> None:
    row = RecallGateNumbers(plane=TURNS, evidence=1, searched=9, asks=1, context=context, chance=chance, is_open=True)
    shut = row.model_copy(update={"plane": FACTS, "is_open": False})
    assert strict_numbers([row, shut], first) == (row.model_copy(update={"is_open": is_open}), shut)


@pytest.mark.parametrize("count", [0, 1, FIRST_LINES, FIRST_LINES + 4])
def test_open_planes_show_the_first_hits_and_others_only_near_the_best(count: int) -> None:
    row = RecallGateNumbers(plane=TURNS, evidence=1, searched=9, asks=1, context=1, chance=0.9, is_open=True)
    shut = row.model_copy(update={"plane": FACTS, "is_open": False})
    hits = [_hit(f"{number}", TURNS, 0.8 if not number else 0.8 * LEAST_SHARE / 2) for number in range(count)]
    fact = _hit("fact", FACTS, 0.9)
    assert [hit.id for hit in injected_memories([fact, *hits], [row, shut])] == [hit.id for hit in hits[:FIRST_LINES]]
    far = _hit("far", TURNS, FIRST_SCORE / 2)
    assert far not in injected_memories([*hits, far], [row])


def _hit(name: str, plane: RecallPlane, score: float) -> RecallHit:
    return RecallHit(id=name, plane=plane, text="Wren has a red kite.", score=score)
