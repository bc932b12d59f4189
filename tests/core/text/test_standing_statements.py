"""Whether a text says what is to hold from now on."""

import pytest

from elytron_core.text.features import Trait, read
from elytron_core.text.standing_statements import Lasting


def lasts(text: str) -> Lasting:
    """Return how long what `text` says is to hold."""
    traits = read(text).traits
    if Trait.OCCASIONAL in traits:
        assert Trait.STANDING in traits
        return Lasting.ON_OCCASION
    return Lasting.FROM_NOW_ON if Trait.STANDING in traits else Lasting.NOT


@pytest.mark.parametrize(
    "text",
    [
        "Give me times in 24-hour format.",
        "Skip the pleasantries.",
        "Put the totals at the end.",
        "pls no emojis",
        "Please stop ending every message with a question.",
        "Could you from now on write the dates out in full?",
        "Could you use shorter sentences?",
        "Thanks. And in future, weights in grams, not cups.",
        "Titles in sentence case, not in capitals.",
        "Three options at most, otherwise I can't decide.",
        "No need to explain the basics to me.",
        "Be blunt with me.",
        "Ask me before you send anything.",
        "Amounts in francs unless I say otherwise.",
        "I want prices with tax included.",
        "I want it in euros",
        "Window seat, always.",
        "No capitals, ever.",
        "I'm up late, so no early calls.",
        "The sum belongs at the top.",
        "Keep in mind that my husband is Ilir, with one l.",
        "Speak plainly to me.",
        "Tell me the odds as a fraction.",
        "You may swear with me.",
        "Dates: day before month, thanks.",
    ],
)
def test_wishes_for_answers_last(text: str) -> None:
    assert lasts(text) is Lasting.FROM_NOW_ON


@pytest.mark.parametrize(
    "text",
    [
        "I can't stand bullet lists.",
        "Wind I can’t bear.",
        "Tables don't work on my phone.",
        "Long intros annoy me.",
        "Caps lock headlines drive me nuts.",
        "I'm colour-blind so no red or green in the charts.",
        "Rather a train than a plane, any day.",
        "no meat for me",
        "Shellfish makes me swell up.",
        "gluten gets me every time",
        "I only shop second-hand.",
        "fyi i dont do dairy",
        "I'm more of a dog person.",
        "I've sworn off fast fashion.",
        "My stomach can't handle chillies.",
        "The kids won't touch mushrooms.",
        "Horror isn't my thing.",
        "Crowded trains make me panic.",
        "My throat closes up when I eat kiwi.",
        "Milk and I don't get along.",
        "I'm hopeless before my first coffee.",
        "Raisins in cakes are a crime.",
        "Corduroy gives me the shivers.",
        "The older the wine, the happier I am.",
        "The theatre beats the cinema for me.",
        "Lilies are deadly for the cat.",
        "I'm on blood thinners.",
        "Tuesdays I look after my granddaughter.",
        "We're Muslim, so what could we order?",
    ],
)
def test_tastes_and_what_somebody_cannot_have_last(text: str) -> None:
    assert lasts(text) is Lasting.FROM_NOW_ON


@pytest.mark.parametrize(
    "text",
    [
        "When I ask about suppliers, name the VAT number too.",
        "if i mention my knee, remind me of the exercises",
        "Whenever money comes up I want it in euros.",
        "If somebody asks about the price, say it's from 40 euros.",
        "For anything about the garden, use the Latin names.",
        "When it comes to gifts, nothing plastic.",
        "About recipes: servings for two.",
        "If you don't know, admit it.",
        "With recipes I'd like the oven in gas marks.",
        "When trains are the topic, name the platform.",
    ],
)
def test_what_is_wished_for_an_occasion_says_so(text: str) -> None:
    assert lasts(text) is Lasting.ON_OCCASION


@pytest.mark.parametrize(
    "text",
    [
        "Give me three names for the cat.",
        "Make it shorter.",
        "Now give me the same in French.",
        "Today I want it in dollars.",
        "Just this once, leave out the prices.",
        "Use the blue folder for this one.",
        "Skip the second page, it's blank.",
        "Don't forget to write to him today.",
        "Could you send it again?",
        "Should I always wear a helmet?",
        "If you see Tom, say hi.",
        "When I asked about the invoice she hung up.",
        "Whenever you have time, look at the photos.",
        "Please call me back.",
        "No luck with the landlord.",
        "I can't stand here all day.",
        "I never got the parcel.",
        "I love it, thanks!",
        "I'd like a coffee.",
        "The red one, please.",
        "Sugar is out of stock.",
        "Whenever she visits, the cat hides.",
        "The kids make me laugh.",
        "For him nothing changed.",
        "In the attic we keep the skis.",
        "If the shop is closed, be back by six.",
        "Dates: 4 May and 6 June.",
        "Regarding your question: yes, the room is free.",
    ],
)
def test_what_is_asked_once_or_told_does_not_last(text: str) -> None:
    assert lasts(text) is Lasting.NOT
