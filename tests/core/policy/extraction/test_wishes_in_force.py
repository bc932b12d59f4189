"""Standing wishes that people stated, and those that they withdrew."""

from collections.abc import Iterable

import pytest

from elytron_core.clock import Instant
from elytron_core.policy.extraction.wishes import PersonMessage, standing_wishes
from elytron_core.policy.projection.sections import WishItem
from elytron_core.text.traits import LastingTime, StandingPhrases


def held(latest_first: Iterable[PersonMessage]) -> tuple[WishItem, ...]:
    """Return the wishes in force by the shipped phrases."""
    lasting = StandingPhrases.load().lasting
    return standing_wishes(latest_first, is_standing=lambda text: lasting(text) is not LastingTime.NOT)


def wishes(*texts: str) -> list[str]:
    """Return the wishes in force after `texts` in turn, latest first."""
    said = [
        PersonMessage(id=f"m{place}", text=text, speaker="Mina", at=Instant(place)) for place, text in enumerate(texts)
    ]
    return [wish.text for wish in held(reversed(said))]


@pytest.mark.parametrize(
    "texts",
    [
        ("Always answer in metric units.", "Never suggest pork."),
        ("I'm allergic to peanuts.", "Never suggest recipes with fish."),
        ("Never suggest red meat.", "Never suggest red wine."),
        ("我对花生过敏。", "请不要推荐海鲜。"),
    ],
)
def test_wishes_in_force_are_listed_latest_first(texts: tuple[str, ...]) -> None:
    assert wishes(*texts) == list(reversed(texts))


def test_a_merely_shared_word_withdraws_nothing() -> None:
    assert wishes("Never suggest pork.", "Now I put the pork from the market into the oven.") == ["Never suggest pork."]


def test_questions_quotes_and_stories_are_not_wishes() -> None:
    assert wishes("Do you always answer like that?", "He said 'always call me Bob'.", "It rained.") == []


@pytest.mark.parametrize(
    ("texts", "held"),
    [
        (("I never eat pork.", "Actually, pork is fine now."), []),
        (("Please never use tables.", "Tables are okay again."), []),
        (("I prefer decaf coffee.", "I no longer care about decaf coffee, bring what you have."), []),
        (("我不吃香菜。", "我现在可以吃香菜了。"), []),
    ],
)
def test_withdrawn_wishes_are_omitted(texts: tuple[str, ...], held: list[str]) -> None:
    assert wishes(*texts) == held


@pytest.mark.parametrize(
    ("first", "last"),
    [
        ("Please answer in German from now on.", "Please always answer in English again."),
        ("Always use metric units.", "From now on please use imperial units."),
        ("Please keep your answers short.", "Always give me detailed explanations."),
        ("From now on call me Mimi.", "From now on call me Mina."),
        ("Always be formal.", "Please don't be so formal."),
        ("以后都用英文回答我。", "以后请用中文回答。"),
        ("I prefer window seats on trains.", "I prefer window seats on trains and planes."),
    ],
)
def test_the_last_wish_about_a_matter_wins(first: str, last: str) -> None:
    assert wishes(first, "How was your day?", last) == [last]


def test_another_person_cannot_withdraw_a_wish() -> None:
    ada = PersonMessage(id="a", text="I never eat pork.", speaker="Ada", at=Instant(1))
    bob = PersonMessage(id="b", text="Actually, pork is fine now.", speaker="Bob", at=Instant(2))
    assert [wish.id for wish in held((bob, ada))] == ["a"]


def test_only_the_wishing_sentences_of_a_message_are_stored() -> None:
    said = PersonMessage(
        id="m", text="My flight is on Monday. I prefer aisle seats. Always book early!", speaker="Mina", at=Instant(3)
    )
    (wish,) = held((said,))
    assert wish == WishItem(
        id="m", text="I prefer aisle seats. Always book early!", is_whole=False, speaker="Mina", at=Instant(3)
    )
    (whole,) = held((PersonMessage(id="n", text="Always book early!"),))
    assert whole.is_whole
