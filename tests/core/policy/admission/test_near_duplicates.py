"""Nearly equal facts are found, merged, and restored exactly."""

from elytron_core.clock import Instant
from elytron_core.ids import FactId
from elytron_core.planes.facts import Fact, FactConfidence, FactKind, FactPrivacy, FactState
from elytron_core.policy.admission import near_duplicates

NOW = Instant(5_000)


def fact(name: str, content: str, **more: object) -> Fact:
    fields: dict[str, object] = {
        "id": FactId(name),
        "kind": FactKind.PREFERENCE,
        "topic": name,
        "content": content,
        "observed_at": 1_000,
        "recorded_at": 1_000,
        "confirmed_at": 1_000,
    }
    return Fact.model_validate({**fields, **more})


TEA = fact("a", "Ada likes green tea in the morning", citations=("t1", "t2"), evidence_count=2)
SAME = fact("b", "Ada likes green tea in the mornings", citations=("t2", "t3"), confirmed_at=4_000)


def test_the_more_certain_of_two_is_preserved() -> None:
    (pair,) = near_duplicates.similar_pairs((SAME, TEA), limit=9)
    assert (pair.surviving, pair.folded) == (TEA, SAME)
    sure = SAME.model_copy(update={"confidence": FactConfidence.HIGH})
    (pair,) = near_duplicates.similar_pairs((sure, TEA), limit=9)
    assert pair.surviving == sure


def test_facts_of_other_kinds_privacy_or_numbers_and_closed_facts_are_not_paired() -> None:
    for other in (
        {"kind": FactKind.PROFILE},
        {"privacy": FactPrivacy.PRIVATE},
        {"state": FactState.FORGOTTEN},
        {"valid_to": 9_000},
        {"content": "Ada likes green tea in the morning at 7"},
        {"content": "Ben dislikes black coffee at night"},
    ):
        assert near_duplicates.similar_pairs((TEA, SAME.model_copy(update=other)), limit=9) == ()


def test_the_number_of_pairs_is_limited() -> None:
    many = [TEA, *(fact(f"c{number}", "Ada likes green tea in the mornings") for number in range(5))]
    assert len(near_duplicates.similar_pairs(many, limit=3)) == 3


def test_folding_loses_nothing_and_unfolding_restores_both() -> None:
    kept, folded = near_duplicates.fold_facts(TEA, SAME, at=NOW)
    assert (kept.evidence_count, kept.citations, kept.confirmed_at) == (3, ("t1", "t2", "t3"), 4_000)
    assert (folded.state, folded.superseded_by, folded.lent) == (FactState.MERGED, TEA.id, ("t3",))
    assert near_duplicates.unfold_facts(kept, folded) == (TEA, SAME)
    again = kept.model_copy(update={"evidence_count": 4, "confirmed_at": Instant(9_000)})
    alone, _ = near_duplicates.unfold_facts(again, folded)
    assert (alone.evidence_count, alone.confirmed_at) == (3, 9_000)


def test_the_most_similar_current_fact_of_a_kind_is_found() -> None:
    assert (
        near_duplicates.most_similar_fact("Ada likes green tea in the mornings!", FactKind.PREFERENCE, (TEA, SAME))
        == SAME
    )
    assert near_duplicates.most_similar_fact("Ada likes green tea in the mornings", FactKind.FACT, (TEA, SAME)) is None
    assert near_duplicates.most_similar_fact("Ada swims", FactKind.PREFERENCE, (TEA,)) is None
