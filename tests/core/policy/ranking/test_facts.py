"""Points for facts: each rule separately, then the resulting order."""

from collections.abc import Mapping
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from elytron_core.clock import DAY_MS, Instant, instant
from elytron_core.ids import FactId
from elytron_core.planes.facts import Fact, FactAuthority, FactConfidence, FactKind
from elytron_core.policy.ranking.facts import (
    STANDARD,
    FactQuery,
    FactWeights,
    ScoredFact,
    best_first,
    by_age,
    diversify_facts,
    is_weak,
    prepare_fact,
    score_facts,
)

NOW = instant("2025-06-30T12:00:00Z")
LONG_AGO = Instant(NOW - 60 * DAY_MS)
BARE = FactWeights(
    evidence_each=0, evidence_citation=0, authority={}, confidence={}, trigram_max=0, stale=0, review=0,
    recent_week=0, recent_month=0, confirmed_week=0, confirmed_month=0,
)  # fmt: skip
"""Only the points for matching, without similarity."""


def fact(name: str = "f1", *, topic: str = "boat", content: str = "Tomas owns a skiff", **fields: object) -> Fact:
    given = {
        "id": FactId(name),
        "kind": FactKind.FACT,
        "topic": topic,
        "content": content,
        "observed_at": LONG_AGO,
        **fields,
    }
    return Fact.model_validate(
        {"recorded_at": NOW, "confirmed_at": LONG_AGO, "confidence": FactConfidence.LOW, **given}
    )


def query(text: str, *terms: str, **fields: object) -> FactQuery:
    return FactQuery.model_validate({"text": text, "terms": terms, "now": NOW, **fields})


def scored_of(facts: list[Fact], asked: FactQuery, *, weights: FactWeights = STANDARD) -> list[ScoredFact]:
    return score_facts([prepare_fact(one) for one in facts], asked, weights=weights)


def signals(one: Fact, asked: FactQuery, weights: FactWeights = BARE) -> Mapping[str, float]:
    [scored] = scored_of([one], asked, weights=weights)
    assert scored.score == pytest.approx(sum(scored.signals.values()))
    return scored.signals


def ids(scored: list[ScoredFact]) -> list[str]:
    return [item.fact.id for item in best_first(scored)]


@pytest.mark.parametrize(
    ("one", "asked", "points"),
    [
        (fact(), query("Boat!"), {"topic_exact": 14}),
        (fact(topic="blue boat"), query("boat"), {"topic_contains": 10}),
        (fact(), query("owns a skiff"), {"content_contains": 8}),
        (fact(), query("what of that boat", "boat"), {"terms": 4}),
        (fact(), query("what of that skiff", "skiff"), {"terms": 2}),
        (fact(keywords=("Red Sail", "sail")), query("which colour of sail", "sail"), {"terms": 3}),
        (fact(content="the boat", keywords=("boat",)), query("what of that boat", "boat"), {"terms": 9}),
        (fact(topic="walking"), query("who has been on walks", "walk"), {"terms": 4}),
        (fact(topic="外婆", content="她住在成都"), query("外婆的住在哪里呀朋友", "外婆", "住在"), {"terms": 6}),
        (fact(entities=("Saltmere",)), query("Saltmere"), {"entity": 10}),
        (fact(entities=("Saltmere",)), query("the way to Saltmere harbour"), {"entity": 8}),
        (fact(entities=("Saltmere Harbour",)), query("who lives down at the harbour"), {"entity": 6}),
        (fact(entities=("Li Wu Saltmere",)), query("who met li wu down there"), {}),
        (fact(entities=("Mina",)), query("and her?", grounding="Mina said so"), {"entity": 3, "terms": 0}),
        (fact(entities=("·", "外婆")), query("外婆住在哪里呀我的朋友"), {"entity": 8}),
        (fact(), query("what was on 1 May 2025"), {"temporal": 32}),
        (fact(), query("what was in May 2025"), {"temporal": 24}),
        (fact(content="sold in 2019"), query("what was in 2019"), {"temporal": 12}),
        (fact(valid_from=NOW), query("what was on 2025-06-30"), {"temporal": 32}),
        (fact(valid_to=NOW), query("what was in 2025"), {"temporal": 12}),
    ],
)
def test_each_way_of_matching_has_its_points(one: Fact, asked: FactQuery, points: Mapping[str, float]) -> None:
    assert signals(one, asked) == {name: value for name, value in points.items() if value}


def test_the_year_of_observation_alone_does_not_match() -> None:
    assert signals(fact(), query("what was in 2025")) == {}
    assert signals(fact(), query("what was in 2024-05")) == {}


def test_matching_signals_are_bounded() -> None:
    names = tuple(f"name{at}" for at in range(16))
    days = " ".join(f"2025-05-{day:02}" for day in range(1, 9))
    found = signals(fact(entities=names, content=days), query(f"{' '.join(names)} {days}"))
    assert (found["entity"], found["temporal"]) == (96, 64)


def test_similarity_tolerates_typos_and_ignores_chance() -> None:
    only_likeness = BARE.model_copy(update={"trigram_max": 18})
    found = signals(fact(topic="harbour master", content="Ada"), query("harbor mastr"), only_likeness)
    assert 0.3 * 18 < found["trigram"] < 18
    assert signals(fact(), query("quay of glass"), only_likeness) == {}
    just = only_likeness.model_copy(update={"trigram_floor": found["trigram"] / 18})
    assert signals(fact(topic="harbour master", content="Ada"), query("harbor mastr"), just) == found
    assert signals(fact(topic="boat " * 20, content="x" * 200), query("bot"), only_likeness) == {}


@pytest.mark.parametrize(
    ("one", "asked", "name", "points"),
    [
        (fact(evidence_count=3, citations=("t1", "t2")), query("boat"), "evidence", 22),
        (fact(evidence_count=50), query("boat"), "evidence", 64),
        (fact(authority=FactAuthority.USER_ASSERTED), query("boat"), "authority", 12),
        (fact(authority=FactAuthority.IMPORTED), query("boat"), "authority", 2),
        (fact(authority=FactAuthority.ASSISTANT_SELF_CLAIM), query("boat"), "authority", 0),
        (fact(chat="quay"), query("boat", chat="quay"), "same_chat", 6),
        (fact(chat="quay"), query("boat", chat="sea"), "same_chat", 0),
        (fact(), query("boat"), "same_chat", 0),
        (fact(observed_at=NOW - 7 * DAY_MS), query("boat"), "recency", 6),
        (fact(observed_at=NOW - 30 * DAY_MS), query("boat"), "recency", 3),
        (fact(), query("boat"), "recency", 0),
        (fact(confirmed_at=NOW), query("boat"), "confirmed", 4),
        (fact(confirmed_at=NOW - 8 * DAY_MS), query("boat"), "confirmed", 2),
        (fact(confidence=FactConfidence.LOW), query("boat"), "confidence", 0),
        (fact(confidence=FactConfidence.MEDIUM), query("boat"), "confidence", 2),
        (fact(confidence=FactConfidence.HIGH), query("boat"), "confidence", 4),
        (fact(kind=FactKind.FACT), query("boat"), "freshness", 0),
        (fact(kind=FactKind.PROJECT), query("boat"), "freshness", -8),
        (fact(kind=FactKind.TASK), query("boat"), "freshness", -24),
    ],
)
def test_each_value_has_its_points(one: Fact, asked: FactQuery, name: str, points: float) -> None:
    assert signals(one, asked, FactWeights()).get(name, 0) == points


@pytest.mark.parametrize(
    ("text", "weak"),
    [
        ("", True),
        ("and he", True),
        ("a b  c", True),
        ("a b  cd", False),
        ("her boat", True),
        ("Saltmere?", True),
        ("to the quay", False),
        ("harbour master", False),
        ("where is she", False),
    ],
)
def test_a_short_query_is_weak(text: str, weak: bool) -> None:
    assert is_weak(text) is weak


def test_only_a_weak_query_is_extended_by_the_conversation() -> None:
    facts = [fact("boat"), fact("tea", topic="tea", content="Mina drinks green tea")]
    talk = "Tomas went out in the skiff and the sail tore"
    assert ids(scored_of(facts, query("and?", grounding=talk), weights=BARE)) == ["boat"]
    assert signals(facts[0], query("and?", grounding=talk)) == {"terms": 0.5 * (2 + 2)}
    strong = query("does Mina like tea or coffee", "tea", grounding=talk)
    assert ids(scored_of(facts, strong, weights=BARE)) == ["tea"]


def test_only_facts_that_match_are_returned() -> None:
    facts = [fact("far", topic="tea", content="green"), fact("near", topic="x", content="a boat"), fact("exact")]
    scored = scored_of(facts, query("boat", "boat"))
    assert ids(scored) == ["exact", "near"]
    assert [item.match > 0 for item in scored] == [True, True]


def test_if_nothing_matches_all_are_listed_by_value() -> None:
    facts = [fact("old"), fact("sure", confidence=FactConfidence.HIGH), fact("new", observed_at=NOW)]
    scored = scored_of(facts, query("zebra crossing rules", "zebra", "cross"))
    assert ids(scored) == ["new", "sure", "old"]
    assert [item.match for item in scored] == [0, 0, 0]
    assert scored_of([], query("zebra")) == []


def test_kind_and_topic_name_one_slot() -> None:
    facts = [
        fact("boat", kind=FactKind.PROJECT, topic="Blue  Boat"),
        fact("older", kind=FactKind.PROJECT, topic="blue boat", observed_at=LONG_AGO - 1),
        fact("other", kind=FactKind.TASK, topic="blue boat"),
    ]
    assert ids(scored_of(facts, query(" Project: blue boat "))) == ["boat", "older"]
    assert ids(scored_of(facts, query("task:blue boat"))) == ["other"]


def test_a_colon_without_such_a_slot_is_an_ordinary_question() -> None:
    facts = [fact("boat", kind=FactKind.PROJECT, topic="boat")]
    assert signals(facts[0], query("project: when is the boat done", "boat")) == {"terms": 4}


def test_ties_are_broken_by_later_observation_then_later_id() -> None:
    facts = [fact("b"), fact("c", observed_at=LONG_AGO + 1), fact("a")]
    assert ids(scored_of(facts, query("boat"))) == ["c", "b", "a"]


def test_age_points_end_after_a_month() -> None:
    assert [by_age(days * DAY_MS, week=6, month=3) for days in (-1, 7, 8, 30, 31)] == [6, 6, 3, 3, 0]


def scored(name: str, kind: FactKind, topic: str) -> ScoredFact:
    return ScoredFact(fact(name, kind=kind, topic=topic), 1_000 - 100 * int(name), (), query(""))


def test_diversity_selects_each_kind_then_each_topic_then_the_rest() -> None:
    listed = [
        scored("1", FactKind.TASK, "boat"),
        scored("2", FactKind.TASK, "Boat"),
        scored("3", FactKind.TASK, "oars"),
        scored("4", FactKind.PROJECT, "boat"),
        scored("5", FactKind.PROFILE, "name"),
    ]
    assert [ids(diversify_facts(listed, limit)) for limit in range(6)] == [
        [],
        ["1"],
        ["1", "5"],
        ["1", "3", "5"],
        ["1", "2", "3", "5"],
        ["1", "2", "3", "4", "5"],
    ]


WORDS = st.lists(st.sampled_from(["boat", "tea", "外婆", "Mina", "2025-06", "", ":", "fact"]), max_size=4).map(" ".join)
FACTS = st.lists(
    st.builds(
        fact,
        st.text("abc", min_size=1, max_size=2),
        topic=st.sampled_from(["boat", "tea", "外婆", " "]),
        content=WORDS.map(lambda text: text or "x"),
        kind=st.sampled_from(FactKind),
        entities=st.lists(st.sampled_from(["Mina", "外婆"]), max_size=2).map(tuple),
        observed_at=st.sampled_from([NOW, LONG_AGO]),
        authority=st.sampled_from(FactAuthority),
    ),
    unique_by=lambda one: one.id,
    max_size=6,
)


@given(FACTS, WORDS, st.integers(0, 7), st.randoms(use_true_random=False))
def test_the_result_does_not_depend_on_input_order(facts: list[Fact], text: str, limit: int, random: Random) -> None:
    shuffled = list(facts)
    random.shuffle(shuffled)
    asked = query(text, *text.split(), grounding="Mina and the boat")
    made = best_first(scored_of(facts, asked))
    assert best_first(scored_of(shuffled, asked)) == made
    assert all(item.match >= 0 for item in made)
    assert bool(made) == bool(facts)

    chosen = diversify_facts(made, limit)
    assert len(chosen) == min(limit, len(made))
    assert chosen == [item for item in made if item in chosen]
    assert chosen[:1] == made[: min(limit, 1)]
