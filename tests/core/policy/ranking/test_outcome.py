"""A recall says `found` if its first hit is likely to answer, judged among others by a value of the requested kind."""

import pytest

from elytron_core import limits
from elytron_core.contracts.recall import RecallOutcome
from elytron_core.policy.ranking import outcome
from elytron_core.policy.ranking.outcome import (
    FOUND_SCORE,
    FirstHitSigns,
    first_hit_chance,
    lacks_value,
    recall_outcome,
)
from elytron_core.text.analyser import TextAnalyser
from elytron_core.text.traits import pattern_table

SIGNS = FirstHitSigns(evidence=0.4, few=1.0, unshared=0.4, coverage=0.2, lead=0.3, searched=20, lacks_value=False)


def test_an_outcome_summarizes_two_estimates() -> None:
    some, none = limits.PROJECTED_SCORE, limits.PROJECTED_SCORE - 0.01
    sure, unsure = FOUND_SCORE, FOUND_SCORE - 0.01
    assert [recall_outcome(*pair) for pair in ((some, sure), (some, unsure), (none, sure))] == [
        RecallOutcome.FOUND,
        RecallOutcome.DOUBTFUL,
        RecallOutcome.NOTHING,
    ]


@pytest.mark.parametrize("sign", ["evidence", "unshared", "lead"])
def test_evidence_remaining_similarity_and_a_lead_make_the_first_hit_more_likely(sign: str) -> None:
    chances = [first_hit_chance(SIGNS._replace(**{sign: value})) for value in (0.1, 0.5, 0.9)]
    assert chances == sorted(set(chances))


def test_a_good_hit_without_a_value_of_the_requested_kind_is_doubtful() -> None:
    best = FirstHitSigns(evidence=0.6, few=1.0, unshared=0.8, coverage=0.1, lead=0.5, searched=20, lacks_value=False)
    lacking = first_hit_chance(best._replace(lacks_value=True))
    assert lacking < FOUND_SCORE < first_hit_chance(best)


def test_a_lead_counts_little_among_few_memories() -> None:
    chances = [first_hit_chance(SIGNS._replace(searched=count)) for count in (1, 2, 8, 11, 400)]
    assert chances == sorted(chances)
    assert chances[0] == first_hit_chance(SIGNS._replace(lead=0.0))
    assert chances[-1] == chances[-2]


def test_signals_for_few_statements_do_not_count_in_talk() -> None:
    talk = SIGNS._replace(few=0.0)
    assert first_hit_chance(talk) == first_hit_chance(talk._replace(unshared=0.9, coverage=0.9))


def test_the_remainder_of_two_texts_excludes_shared_words() -> None:
    parts = outcome.unshared_parts("What colour is the Skoda?", "Paid off the Skodas in March.", TextAnalyser().terms)
    assert [" ".join(part.split()) for part in parts] == ["What colour is the ?", "Paid off the in March."]


@pytest.mark.parametrize(
    ("question", "text", "lacks"),
    [
        ("What colour is the Skoda?", "Paid off the Skoda in March.", True),
        ("What colour is the Skoda?", "The Skoda is dark green.", False),
        ("How much does a litre of diesel cost?", "Diesel is only pumped before ten.", True),
        ("How much does the choir cost?", "The choir takes 45 euros a term.", False),
        ("How old is Ella?", "Ella lost a tooth.", True),
        ("How old is Ella?", "Ella turned six.", False),
        ("When does the ferry leave?", "The ferry leaves at six.", False),
        ("When does the ferry leave?", "The ferry leaves from the old pier.", True),
        ("How many pods do we have?", "The pods are restarted by hand.", True),
        ("Which airline flies to Doha?", "The flight to Doha is late.", True),
        ("Which airline flies to Doha?", "To Doha we fly with Aster.", False),
        ("Why is the lift closed?", "The lift is being repaired.", False),
    ],
)
def test_a_value_of_the_requested_kind_is_recognised_by_its_form(question: str, text: str, *, lacks: bool) -> None:
    _, rest = outcome.unshared_parts(question, text, TextAnalyser().terms)
    assert lacks_value(question, rest) is lacks


def test_every_value_pattern_is_valid() -> None:
    table = pattern_table("values")
    assert all(table[name].pattern for name in table.names)
