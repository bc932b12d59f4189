"""A hit equals the validated instance of its class, although nothing in it is checked again."""

from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from elytron.documents.hits import fact_hit, scored_hit, turn_hit
from elytron_core.clock import Instant
from elytron_core.contracts.recall import RecallHit, RecallPlane
from elytron_core.evidence import EvidenceRole
from elytron_core.ids import FactId, TurnId
from elytron_core.planes import facts, transcript

TURN = transcript.Turn(
    sequence=1,
    recorded_at=Instant(5),
    channel="web",
    conversation="c1",
    messages=(
        transcript.Message(text="tea?", speaker="Ada", role=EvidenceRole.USER, at=Instant(3)),
        transcript.Message(text="two cups"),
    ),
    tags=("home", "kitchen"),
    metadata={"cups": 2, "hot": True, "note": None},
)
FACT = facts.Fact(
    id=FactId("f1"),
    kind=facts.FactKind.PREFERENCE,
    topic="tea",
    content="Ada likes tea",
    citations=("t1",),
    observed_at=Instant(1),
    recorded_at=Instant(2),
    confirmed_at=Instant(3),
)
SCORES = st.floats(0, 1) | st.just(1)
SIGNALS = st.dictionaries(st.sampled_from(["body", "coverage", "near"]), st.floats(0, 30) | st.integers(0, 3))


def told(hit: RecallHit) -> tuple[str, str, str, set[str]]:
    return hit.model_dump_json(), hit.model_dump_json(exclude_defaults=True), repr(hit), hit.model_fields_set


def checked(hit: RecallHit) -> RecallHit:
    return RecallHit(**{name: getattr(hit, name) for name in hit.model_fields_set})


@given(SCORES, SIGNALS)
@pytest.mark.parametrize("part", [0, 1])
def test_the_hit_of_a_message_equals_a_validated_one(part: int, score: float, signals: dict[str, float]) -> None:
    signals = {name: float(value) for name, value in signals.items()}
    hit = scored_hit(turn_hit(TurnId("t1"), TURN, part), score=score, signals=signals)
    assert hit == checked(hit)
    assert told(hit) == told(checked(hit))
    assert (hit.metadata, hit.metadata is TURN.metadata) == (TURN.metadata, False)


@given(SCORES, SIGNALS)
def test_the_hit_of_a_fact_equals_a_validated_one(score: float, signals: dict[str, float]) -> None:
    hit = fact_hit(FACT, score=score, signals=signals)
    assert hit == checked(hit)
    assert told(hit) == told(checked(hit))


def test_a_hit_also_provides_its_time_as_a_datetime() -> None:
    hit = RecallHit(id="t1", plane=RecallPlane.TRANSCRIPT, text="tea", score=1.0, at=Instant(1_740_909_600_000))
    assert hit.when == datetime(2025, 3, 2, 10, tzinfo=UTC)
    assert hit.model_copy(update={"at": None}).when is None
