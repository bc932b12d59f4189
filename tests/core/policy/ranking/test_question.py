"""Reading a question: what it asks for, by its words."""

import pytest

from elytron_core.clock import instant
from elytron_core.policy.ranking.question import AnswerOwner, AnswerVersion, QuestionLabel, read_question
from elytron_core.text.traits import TextTrait

NOW = instant("2026-03-10T12:00:00Z")


@pytest.mark.parametrize(
    ("text", "fits"),
    [
        ("When did Noor call?", TextTrait.TIME),
        ("How long has he lived there?", TextTrait.TIME),
        ("Who called?", TextTrait.NAME),
        ("How much was it?", TextTrait.NUMBER),
        ("Why did the ferry leave late?", TextTrait.NOTHING),
        ("tea", TextTrait.NOTHING),
        ("什么时候出发？", TextTrait.TIME),
        ("要放多少盐？", TextTrait.NUMBER),
        ("谁来了？", TextTrait.NAME),
    ],
)
def test_the_kind_of_answer_is_read_from_the_question_word(text: str, fits: TextTrait) -> None:
    assert read_question(text, NOW).fits == fits


@pytest.mark.parametrize(
    ("text", "several"),
    [
        ("Which cities did they visit?", True),
        ("What are her hobbies?", True),
        ("What has Ada painted?", True),
        ("List the steps.", True),
        ("她有哪些爱好？", True),
        ("How long has he lived there?", False),
        ("What is her dress made of?", False),
    ],
)
def test_several_answers_may_be_names_or_statements(text: str, *, several: bool) -> None:
    question = read_question(text, NOW)
    assert question.wants_several is several
    assert (TextTrait.NAME | TextTrait.QUOTE in question.fits) is several


def test_an_account_has_several_pieces() -> None:
    question = read_question("tea", NOW, {QuestionLabel.RETELLING})
    assert (question.retells, question.wants_several) == (True, True)


def test_the_requested_speaker_is_recognised() -> None:
    assert read_question("tea", NOW).owner is AnswerOwner.USER
    assert read_question("tea", NOW, {QuestionLabel.ASSISTANT}).owner is AnswerOwner.ASSISTANT


@pytest.mark.parametrize(
    ("text", "labels", "version"),
    [
        ("What is the extension?", {QuestionLabel.LATEST}, AnswerVersion.LATEST),
        ("What was the original date?", set[QuestionLabel](), AnswerVersion.FIRST),
        ("Where did she live at first, and where now?", {QuestionLabel.LATEST}, AnswerVersion.ANY),
        ("What is the date?", set[QuestionLabel](), AnswerVersion.ANY),
    ],
)
def test_the_requested_one_of_several_answers_over_time_is_recognised(
    text: str, labels: set[QuestionLabel], version: AnswerVersion
) -> None:
    assert read_question(text, NOW, labels).version is version


def test_times_are_read_too() -> None:
    (span,) = read_question("What happened yesterday?", NOW).spans
    assert (span.start, span.end) == (instant("2026-03-09"), instant("2026-03-10"))


@pytest.mark.parametrize(
    ("text", "heeds"),
    [
        ("Which tent should I buy?", TextTrait.STANDING),
        ("Any ideas for dinner?", TextTrait.STANDING),
        ("推荐一家饭馆", TextTrait.STANDING),
        ("a title for the talk", TextTrait.STANDING),
        ("Is a tent safe in a storm?", TextTrait.STANDING),
        ("Sum up how we met.", TextTrait.OCCASIONAL),
        ("What options did I turn down?", TextTrait.OCCASIONAL),
        ("Which tent did I buy?", TextTrait.OCCASIONAL),
        ("Why does Noor like the sea?", TextTrait.OCCASIONAL),
    ],
)
def test_a_request_for_something_made_or_advised_considers_standing_statements(text: str, heeds: TextTrait) -> None:
    assert read_question(text, NOW).heeds == heeds


def test_questions_about_the_assistants_words_consider_no_standing_statements() -> None:
    assert (
        read_question("What was your advice for the ferry?", NOW, {QuestionLabel.ASSISTANT}).heeds == TextTrait.NOTHING
    )


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
def test_words_that_ask_for_an_account_are_not_looked_for(text: str, looked_for: str) -> None:
    assert " ".join(read_question(text, NOW).text.split()) == looked_for


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
def test_a_question_that_wants_no_account_keeps_its_words(text: str, looked_for: str) -> None:
    assert " ".join(read_question(text, NOW).text.split()) == looked_for


@pytest.mark.parametrize("text", ["Summarise", "Recap what I told you.", "In which order?"])
def test_a_question_without_other_words_keeps_all_of_them(text: str) -> None:
    assert read_question(text, NOW).text == text


def test_without_patterns_for_a_language_the_labels_decide() -> None:
    several = read_question("¿Cuántas veces?", NOW, {QuestionLabel.SEVERAL, QuestionLabel.NUMBER}, "es")
    when = read_question("Wann war das?", NOW, {QuestionLabel.TIME}, "de")
    who = read_question("who", NOW, {QuestionLabel.NAME}, "nl")
    assert (several.wants_several, several.fits) == (True, TextTrait.NUMBER | TextTrait.NAME | TextTrait.QUOTE)
    assert (when.wants_several, when.fits, who.fits) == (False, TextTrait.TIME, TextTrait.NAME)


def test_in_english_and_chinese_the_words_decide_instead_of_labels() -> None:
    assert read_question("Was it cold?", NOW, {QuestionLabel.TIME, QuestionLabel.SEVERAL}).fits is TextTrait.NOTHING
    assert read_question("他什么时候来？", NOW, (), "zh").fits is TextTrait.TIME
    assert read_question("Wann war das?", NOW, (), "de").fits is TextTrait.NOTHING
