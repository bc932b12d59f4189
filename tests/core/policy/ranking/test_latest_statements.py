"""The latest statement of several messages on a matter."""

import pytest

from elytron_core.clock import Instant
from elytron_core.policy.ranking.latest_statements import BestMessage, asks_how_things_are, in_succession, last_words


def said(text: str, at: int, coverage: float = 0.8, speaker: str = "Mina") -> BestMessage:
    return BestMessage(speaker, "user", Instant(at), coverage, text)


@pytest.mark.parametrize(
    ("query", "asks"),
    [
        ("How many riders are we?", True),
        ("What's the lab extension?", True),
        ("Am I travelling alone?", True),
        ("Where does Ada live?", True),
        ("爸爸的手机号是多少？", True),
        ("How many riders were we at first?", False),
        ("What did you suggest?", False),
        ("In what order is it done?", False),
        ("爸爸以前的手机号是多少？", False),
        ("red kayak", False),
    ],
)
def test_a_question_concerns_the_present_or_the_past(query: str, *, asks: bool) -> None:
    assert asks_how_things_are(query) is asks


OLD = said("We are 14 riders.", 1)
QUERY = "How many riders are we?"


@pytest.mark.parametrize(
    ("query", "older", "later"),
    [
        (QUERY, "We are 14 riders.", "We're 19 riders now."),
        (QUERY, "We are 14 riders.", "Good news! The number of riders was raised to 19. Any tips?"),
        ("Where do the riders start?", "Our riders start in Ghent.", "We moved the riders from Ghent to Bruges."),
        ("我们有多少骑手？", "我们有14个骑手。", "我们的骑手现在是19个。"),
        ("What is it now?", "It is red.", "It was changed."),
    ],
)
def test_a_later_change_overtakes_earlier_statements(query: str, older: str, later: str) -> None:
    assert last_words((said(older, 1), None, said(later, 2)), query) == {0: 2}


@pytest.mark.parametrize(
    "later",
    [
        said("We were 19 riders in summer.", 2),
        said("We're 19 riders now.", 1),
        said("We're 19 riders now.", 2, coverage=0.2),
        said("We're 19 riders now.", 2, speaker="Bram"),
        said("Thanks. It was moved to 19. The riders like it.", 2),
        said("The riders are happy now.", 2),
        said("We bought 19 bags for the riders up to now.", 2),
    ],
    ids=["no change", "no later", "little of it", "somebody else", "another change", "no number", "up to now"],
)
def test_nothing_else_overtakes(later: BestMessage) -> None:
    assert last_words((OLD, later), QUERY) == {}


def test_the_last_of_several_changes_is_named() -> None:
    told = (OLD, said("We're 19 riders now.", 2), said("We're 17 riders now.", 3))
    assert last_words(told, QUERY) == {0: 2, 1: 2}


def test_a_mere_question_is_not_overtaken() -> None:
    assert last_words((said("How do riders get a bicycle?", 1), said("We're 19 riders now.", 2)), QUERY) == {}


def test_the_latest_statement_precedes_the_first_it_overtook() -> None:
    assert in_succession(5, {}) == [0, 1, 2, 3, 4]
    assert in_succession(5, {1: 3, 2: 3}) == [0, 3, 1, 2, 4]
    assert in_succession(3, {2: 0}) == [0, 1, 2]
