"""What a question wants, read from its words."""

import pytest

from elytron_core.clock import instant
from elytron_core.policy.query.question import Owner, Version, read
from elytron_core.text.features import Trait

NOW = instant("2026-03-10T12:00:00Z")
SEVERAL = Trait.NAME | Trait.QUOTE


@pytest.mark.parametrize(
    ("text", "fits", "several"),
    [
        ("When did Noor call?", Trait.TIME, False),
        ("How long has he lived there?", Trait.TIME, False),
        ("Who called?", Trait.NAME, False),
        ("Where does she live?", Trait.NAME, False),
        ("How much was it?", Trait.NUMBER, False),
        ("How many cups are there?", Trait.NUMBER | SEVERAL, True),
        ("What books has Ada read?", SEVERAL, True),
        ("Which cities did they visit?", SEVERAL, True),
        ("What are her hobbies?", SEVERAL, True),
        ("What has Ada painted?", SEVERAL, True),
        ("What do Ada and Noor have in common?", SEVERAL, True),
        ("List the steps.", SEVERAL, True),
        ("Summarise the meeting", SEVERAL, True),
        ("What is her dress made of?", Trait.NOTHING, False),
        ("Why did the ferry leave late?", Trait.NOTHING, False),
        ("tea", Trait.NOTHING, False),
        ("什么时候出发？", Trait.TIME, False),
        ("要放多少盐？", Trait.NUMBER, False),
        ("谁来了？", Trait.NAME, False),
        ("她有哪些爱好？", SEVERAL, True),
    ],
)
def test_the_kind_of_answer_is_read_from_the_question(text: str, fits: Trait, *, several: bool) -> None:
    question = read(text, NOW)
    assert (question.fits, question.wants_several) == (fits, several)


@pytest.mark.parametrize(
    ("text", "owner"),
    [
        ("What did you recommend for the kitchen?", Owner.ASSISTANT),
        ("your advice on tyres", Owner.ASSISTANT),
        ("你建议了什么？", Owner.ASSISTANT),
        ("What did I tell my sister?", Owner.USER),
        ("Do you know my size?", Owner.USER),
        ("Can you recommend a tent?", Owner.USER),
    ],
)
def test_whose_words_are_asked_for(text: str, owner: Owner) -> None:
    assert read(text, NOW).owner is owner


@pytest.mark.parametrize(
    ("text", "version"),
    [
        ("What is the extension now?", Version.LATEST),
        ("Where does he currently live?", Version.LATEST),
        ("现在的号码是多少？", Version.LATEST),
        ("What was the original date?", Version.FIRST),
        ("Where did she live at first, and where now?", Version.ANY),
        ("What is the date?", Version.ANY),
    ],
)
def test_which_of_several_answers_over_time_is_asked_for(text: str, version: Version) -> None:
    assert read(text, NOW).version is version


@pytest.mark.parametrize(
    ("text", "guesses"),
    [
        ("Would Ada be considered religious?", True),
        ("What condition might she have?", True),
        ("他可能是医生吗？", True),
        ("Could you explain the offside rule?", False),
        ("Where does Ada live?", False),
    ],
)
def test_who_asks_for_a_guess_is_told_apart(text: str, *, guesses: bool) -> None:
    assert read(text, NOW).wants_guess is guesses


def test_times_are_read_along() -> None:
    (span,) = read("What happened yesterday?", NOW).spans
    assert (span.start, span.end) == (instant("2026-03-09"), instant("2026-03-10"))


@pytest.mark.parametrize(
    ("text", "heeds"),
    [
        ("Can you recommend a package for dates?", Trait.STANDING),
        ("Show me how to write a handler.", Trait.STANDING),
        ("Which tent should I buy?", Trait.STANDING),
        ("Any ideas for dinner?", Trait.STANDING),
        ("I'm thinking of leaving it out. What do you think?", Trait.STANDING),
        ("What strategies help against stress?", Trait.STANDING),
        ("Which database would you pick?", Trait.STANDING),
        ("What does a red flag mean?", Trait.STANDING),
        ("Why does the pump stop at night?", Trait.STANDING),
        ("The pump stops. What's going on?", Trait.STANDING),
        ("Would a second pump be a good idea?", Trait.STANDING),
        ("Which dish can I order there?", Trait.STANDING),
        ("推荐一家饭馆", Trait.STANDING),
        ("dinner ideas for Sunday", Trait.STANDING),
        ("a title for the talk", Trait.STANDING),
        ("something to read on the train?", Trait.STANDING),
        ("Noor is coming for tea. What could I bake?", Trait.STANDING),
        ("My train is late, so what should I tell Noor?", Trait.STANDING),
        ("Draft the letter to the tax office.", Trait.STANDING),
        ("Which lamp suits me?", Trait.STANDING),
        ("Is there a nice walk near the lake?", Trait.STANDING),
        ("What is a heat pump?", Trait.STANDING),
        ("How much gravel do I need for the yard?", Trait.STANDING),
        ("Proofread the invitation.", Trait.STANDING),
        ("Sort out a route to Trieste.", Trait.STANDING),
        ("Which wine goes with duck, and what do I cook?", Trait.STANDING),
        ("Is a tent safe in a storm?", Trait.STANDING),
        ("Who could mend a clock?", Trait.STANDING),
        ("Any chance of a poem for Noor?", Trait.STANDING),
        ("My turn to cook. Thoughts?", Trait.STANDING),
        ("What about a kite for Noor?", Trait.STANDING),
        ("Tell me how to mend a kite.", Trait.STANDING),
        ("Sum up how we met.", Trait.OCCASIONAL),
        ("Do we have a builder?", Trait.OCCASIONAL),
        ("What does Noor feel she could do?", Trait.OCCASIONAL),
        ("Tell me how Noor met the builder.", Trait.OCCASIONAL),
        ("What options did I turn down?", Trait.OCCASIONAL),
        ("What should I have done, did you say?", Trait.NOTHING),
        ("Give me an overview of the project.", Trait.OCCASIONAL),
        ("Which tent did I buy?", Trait.OCCASIONAL),
        ("In which order should I have told it?", Trait.OCCASIONAL),
        ("Why does Noor like the sea?", Trait.OCCASIONAL),
        ("When does the ferry leave?", Trait.OCCASIONAL),
        ("Walk me through how the ferry changed.", Trait.OCCASIONAL),
        ("Where do the ideas for the menu come from?", Trait.OCCASIONAL),
        ("Put the stages of the ferry into order.", Trait.OCCASIONAL),
        ("What was your advice for the ferry?", Trait.NOTHING),
        ("What did you suggest for the ferry?", Trait.NOTHING),
    ],
)
def test_who_asks_for_something_to_be_made_or_advised_is_told_what_holds(text: str, heeds: Trait) -> None:
    assert read(text, NOW).heeds == heeds
