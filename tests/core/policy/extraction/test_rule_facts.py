"""Facts by rules: few, and none that the user did not state."""

import json
from pathlib import Path

import pytest

from elytron_core.planes.facts import FactKind, FactOperation
from elytron_core.policy.extraction import rule_facts
from elytron_core.policy.extraction.rule_facts import read_stated_facts

MESSAGES = json.loads((Path(__file__).parents[3] / "data/gleaning.json").read_text("utf-8"))["messages"]
HOLDING = [message for message in MESSAGES if message["facts"]]
EMPTY = [message for message in MESSAGES if not message["facts"]]


def texts(message: dict[str, str]) -> str:
    return message["text"].replace("\n", " / ")[:60]


@pytest.mark.parametrize("message", EMPTY, ids=texts)
def test_what_is_no_statement_about_oneself_gives_no_fact(message: dict[str, str]) -> None:
    assert read_stated_facts(message["text"]) == ()


def test_of_a_hundred_facts_read_ninety_eight_are_right_and_most_are_found() -> None:
    right = wrong = missed = 0
    for message in MESSAGES:
        wanted = [tuple(fact) for fact in message["facts"]]
        for fact in read_stated_facts(message["text"]):
            hit = next((w for w in wanted if w[0] == fact.topic and w[1] in fact.content), None)
            if hit is None:
                wrong += 1
            else:
                right += 1
                wanted.remove(hit)
        missed += len(wanted)
    assert right / (right + wrong) >= 0.98
    assert right / (right + missed) >= 0.95


def test_a_fact_names_who_said_it_so_that_two_people_never_share_a_slot() -> None:
    (ada,) = read_stated_facts("I live in Lisbon.", speaker="Ada")
    (grace,) = read_stated_facts("I live in Rome.", speaker="Grace")
    assert (ada.topic, ada.content) == ("Ada: residence", "Ada lives in Lisbon")
    assert grace.topic == "Grace: residence"


def test_what_no_longer_holds_is_proposed_for_deletion() -> None:
    (fact,) = read_stated_facts("I'm no longer vegan.")
    assert (fact.operation, fact.kind, fact.topic) == (FactOperation.DELETE, FactKind.CONSTRAINT, "diet: vegan")


@pytest.mark.parametrize("text", ["i'm vegan", "hi, i’m vegan and i live in Lisbon", "i am vegan."])
def test_a_small_i_is_read(text: str) -> None:
    assert read_stated_facts(text)[0].content == read_stated_facts("I'm vegan")[0].content


@pytest.mark.parametrize("text", ["appendix i is vegan", "i = vegan", "for i in vegan: pass", "iq-i am vegan"])
def test_a_small_letter_alone_is_no_person(text: str) -> None:
    assert read_stated_facts(text) == ()


def test_of_one_topic_the_last_word_is_kept() -> None:
    facts = read_stated_facts("I live in Lisbon. We moved to Porto last year.")
    assert [fact.content for fact in facts] == ["The user lives in Porto"]


def test_a_pasted_text_is_not_read() -> None:
    assert read_stated_facts("I live in Lisbon. " + "x" * rule_facts.READ_CHARS) == ()


def test_a_topic_too_long_for_its_slot_gives_no_fact() -> None:
    assert read_stated_facts("I love very old black and white films about trains and the sea.") == ()


def test_one_message_gives_no_more_than_eight_facts() -> None:
    said = " ".join(
        f"I'm allergic to {thing}."
        for thing in ["ants", "bees", "cats", "dogs", "eggs", "fish", "milk", "nuts", "rye", "soy"]
    )
    assert len(read_stated_facts(said)) == rule_facts.FACTS_PER_MESSAGE


@pytest.mark.parametrize(
    "asked", ["Remember that it matters.", "Please note: me too.", "请记住要买牛奶。", "Remember that soup."]
)
def test_an_errand_or_a_bare_pointer_is_nothing_to_remember(asked: str) -> None:
    assert read_stated_facts(asked) == ()


def test_a_chinese_request_to_remember_is_kept_in_its_words() -> None:
    (fact,) = read_stated_facts("请记住我的停车位是地下二层的一百零三号。")
    assert fact.kind is FactKind.FACT
    assert "我的停车位是地下二层的一百零三号" in fact.content
