"""Questions that want what was said to be told again, and the words that only ask for it."""

import pytest

from elytron_core.clock import instant
from elytron_core.policy.query.question import read

NOW = instant("2026-03-10T12:00:00Z")


@pytest.mark.parametrize(
    ("text", "looked_for"),
    [
        ("Can you summarise what I told you about Leif?", "Leif?"),
        ("Walk me through how my tents changed over time.", "how my tents changed ."),
        ("In which order did I mention the roof and the well?", "the roof and the well?"),
        ("Please give me a short overview of the garden throughout our conversations.", "the garden ."),
        ("Recap everything we've discussed about tea", "tea"),
        ("List the tools in order", "the tools"),
        ("Put the stages of the build into order, please", "the build , please"),
        ("Tell me the whole story of my knee as you know it", "my knee"),
        ("Everything about the trip to Malmö", "the trip to Malmö"),
        ("What do you know about my diet?", "my diet?"),
        ("Sum up the talks with the bank", "the talks with the bank"),
        ("Who had the boat, one after the other?", "Who had the boat, ?"),
        ("My jobs from the first to the last", "My jobs"),
    ],
)
def test_words_that_ask_for_the_telling_are_not_looked_for(text: str, looked_for: str) -> None:
    assert " ".join(read(text, NOW).text.split()) == looked_for


@pytest.mark.parametrize(
    ("text", "looked_for"),
    [
        ("How many of us have I mentioned?", "How many of us ?"),
        ("Did I say where the key is?", "where the key is?"),
        ("Tell me about last spring", "last spring"),
        ("Remind me of the plan", "of the plan"),
        ("Who told the waiter?", "Who told the waiter?"),
        ("Where is the order of the day?", "Where is the order of the day?"),
        ("How did you know?", "How did you know?"),
        ("What happened to the boat?", "What happened to the boat?"),
        ("Is all on board?", "Is all on board?"),
        ("sort keys by length", "sort keys by length"),
    ],
)
def test_what_is_asked_for_itself_is_not_told_again(text: str, looked_for: str) -> None:
    assert " ".join(read(text, NOW).text.split()) == looked_for


@pytest.mark.parametrize("text", ["Summarise", "Recap what I told you.", "In which order?"])
def test_where_nothing_else_is_asked_the_question_stays_as_it_is(text: str) -> None:
    assert read(text, NOW).text == text
