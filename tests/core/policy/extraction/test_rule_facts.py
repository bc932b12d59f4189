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
def test_text_that_is_no_statement_about_the_speaker_yields_no_fact(message: dict[str, str]) -> None:
    assert read_stated_facts(message["text"]) == ()


def test_at_least_98_percent_of_extracted_facts_are_right_and_most_are_found() -> None:
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


def test_a_fact_names_its_speaker_so_two_people_never_share_a_slot() -> None:
    (ada,) = read_stated_facts("I live in Lisbon.", speaker="Ada")
    (grace,) = read_stated_facts("I live in Rome.", speaker="Grace")
    assert (ada.topic, ada.content) == ("Ada: residence", "Ada lives in Lisbon")
    assert grace.topic == "Grace: residence"


def test_facts_that_no_longer_hold_are_proposed_for_deletion() -> None:
    (fact,) = read_stated_facts("I'm no longer vegan.")
    assert (fact.operation, fact.kind, fact.topic) == (FactOperation.DELETE, FactKind.CONSTRAINT, "diet: vegan")


@pytest.mark.parametrize("text", ["i'm vegan", "hi, i’m vegan and i live in Lisbon", "i am vegan."])
def test_a_lowercase_i_is_read(text: str) -> None:
    assert read_stated_facts(text)[0].content == read_stated_facts("I'm vegan")[0].content


@pytest.mark.parametrize("text", ["appendix i is vegan", "i = vegan", "for i in vegan: pass", "iq-i am vegan"])
def test_a_single_lowercase_letter_is_not_a_person(text: str) -> None:
    assert read_stated_facts(text) == ()


def test_the_last_statement_about_a_topic_wins() -> None:
    facts = read_stated_facts("I live in Lisbon. We moved to Porto last year.")
    assert [fact.content for fact in facts] == ["The user lives in Porto"]


def test_a_pasted_text_is_not_read() -> None:
    assert read_stated_facts("I live in Lisbon. " + "x" * rule_facts.READ_CHARS) == ()


def test_a_topic_too_long_for_its_slot_yields_no_fact() -> None:
    assert read_stated_facts("I love very old black and white films about trains and the sea.") == ()


def test_one_message_yields_at_most_eight_facts() -> None:
    said = " ".join(
        f"I'm allergic to {thing}."
        for thing in ["ants", "bees", "cats", "dogs", "eggs", "fish", "milk", "nuts", "rye", "soy"]
    )
    assert len(read_stated_facts(said)) == rule_facts.FACTS_PER_MESSAGE


@pytest.mark.parametrize(
    "asked", ["Remember that it matters.", "Please note: me too.", "请记住要买牛奶。", "Remember that soup."]
)
def test_errands_and_bare_references_are_not_remembered(asked: str) -> None:
    assert read_stated_facts(asked) == ()


def test_a_chinese_request_to_remember_is_stored_verbatim() -> None:
    (fact,) = read_stated_facts("请记住我的停车位是地下二层的一百零三号。")
    assert fact.kind is FactKind.FACT
    assert "我的停车位是地下二层的一百零三号" in fact.content
