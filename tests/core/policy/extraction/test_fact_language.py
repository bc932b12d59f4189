"""A language file is data for one mechanism: it is checked on loading, and no phrase of it takes long."""

import time

import pytest

from elytron_core import limits
from elytron_core.errors import UnreadableFile
from elytron_core.planes.facts import FactConfidence
from elytron_core.policy.extraction.fact_language import parse_language
from elytron_core.policy.extraction.rule_facts import SENTENCE_CHARS, FactReader, read_stated_facts, shipped_readers

FRAME = """
language = "de"
spaced = true
own = ["Ich", "ich"]
unsure = ["wenn"]
"""
FORM = """
[[facts]]
says = "(Ich|ich) wohne in {x:place}"
kind = "profile"
topic = "residence"
content = "{who} lives in {x}"
"""
MOST_S = 1.0
"""CPU time. A bounded form takes at most a hundredth of it; one with an open repetition takes hours."""


def reader(text: str) -> FactReader:
    return FactReader(parse_language(text.encode(), name="facts.de.toml"))


def contents(text: str, *more: FactReader) -> list[str]:
    return [fact.content for fact in read_stated_facts(text, more=more)]


def test_a_custom_language_file_is_read_next_to_the_shipped_ones() -> None:
    german = reader(FRAME + FORM)
    assert contents("Ich wohne in Bremen.") == []
    assert contents("Ich wohne in Bremen. I'm vegan.", german) == ["The user lives in Bremen", "The user is vegan"]
    assert contents("Wenn ich wohne in Bremen.", german) == []


def test_a_form_may_be_less_certain() -> None:
    (fact,) = read_stated_facts("Ich wohne in Bremen.", more=(reader(FRAME + FORM + 'confidence = "medium"\n'),))
    assert fact.confidence is FactConfidence.MEDIUM


def test_a_language_without_frame_lists_reads_only_whole_statements() -> None:
    bare = reader(FRAME + FORM)
    assert contents("Ich wohne in Bremen, ich wohne in Hamburg.", bare) == ["The user lives in Hamburg"]
    assert contents("Merk dir: Der Schlüssel liegt unten.", bare) == []


@pytest.mark.parametrize(
    ("guard", "said", "is_read"),
    [
        ('begins = ["Bre"]', "Bremen", True),
        ('begins = ["bremen"]', "Bremen", False),
        ('contains = ["am"]', "Frankfurt am Main", False),
        ('ends = ["main"]', "Frankfurt am Main", False),
        ('equals = ["frankfurt"]', "Frankfurt am Main", True),
        ("words_most = 2", "Frankfurt am Main", False),
        ("least = 3", "Bremen", False),
        ("", "Bremen", True),
    ],
)
def test_a_guard_decides_whether_a_slot_is_read(guard: str, said: str, is_read: bool) -> None:
    text = FRAME + f"[guards.place]\n{guard}\n" + FORM + 'guards = ["place"]\n'
    assert bool(contents(f"Ich wohne in {said}.", reader(text))) is is_read


def form(says: str) -> str:
    return FRAME + FORM.replace("(Ich|ich) wohne in {x:place}", says)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("own = [", "is not valid TOML"),
        ("x" * (limits.FACT_LANGUAGE_BYTES + 1), "bytes"),
        (FRAME, "facts"),
        (FRAME + "color = 1" + FORM, "unknown"),
        (form("Ich wohne"), "needs the slot x"),
        (form("Ich {x:names} und {x:names}"), "each be used once"),
        (form("Ich {x:({y:(a)})}"), "not inside each other"),
        (form("Ich {w:names}"), "the slots"),
        (form("Ich {x:nothing}"), "not defined before it"),
        (form("Ich {x:names 1-2}"), "does not take a size"),
        (form("Ich {x:words}"), "needs a size"),
        (form("Ich {x:words 0-3}"), "needs a size"),
        (form("Ich {x:text 1-900}"), "needs a size"),
        (form("Ich {x"), "braces"),
        (form("Ich {x:(a)"), "not closed"),
        (form("Ich (a {x:names}"), "unclosed"),
        (form("Ich a) {x:names}"), "unmatched"),
        (form("Ich a? {x:names}"), "without an opening bracket"),
        (form("(" * 9 + "a" + ")" * 9 + "{x:names}"), "deep"),
        (form("(a)?" * 17 + "{x:names}"), "optional"),
        (form("{x:text 1-9}{text 1-9}{text 1-9}{text 1-9}"), "open shapes"),
        (form("{x:names}") + 'guards = ["none"]\n', "guard"),
        (form("{x:names}").replace("lives in {x}", "lives in {y}"), "slot that its phrase does not have"),
        (form("{x:names}").replace("lives in {x}", "lives in {x!r}"), "slot that its phrase does not have"),
        (form("{x:names}").replace("lives in {x}", "lives in {"), "unclosed"),
        (form("{x:names}").replace('content = "{who} lives in {x}"', ""), "content"),
        (FRAME + '[parts]\nnames = ["a"]\n' + FORM, "shape"),
        (FRAME + '[parts]\nslot = ["{x:(a)}"]\n' + FORM.replace("{x:place}", "{slot} {x:names}"), "a part has a slot"),
    ],
)
def test_errors_in_a_file_are_reported_with_their_location(text: str, problem: str) -> None:
    with pytest.raises(UnreadableFile, match=problem) as caught:
        parse_language(text.encode(), name="facts.de.toml")
    assert "facts.de.toml" in str(caught.value)


def test_a_phrase_that_expands_too_far_is_rejected() -> None:
    parts = '[parts]\nlong = ["' + '", "'.join(["a" * 99] * 99) + '"]\n'
    with pytest.raises(UnreadableFile, match="characters with its parts"):
        reader(FRAME + parts + FORM.replace("in {x", "{long}{long}{x"))


STARTS = (
    "I'm working on a", "I prefer", "I like", "My name is", "I live in", "I moved from", "I work as a", "I work for",
    "My favourite", "My dog", "I have an", "I speak", "I play the", "Always answer", "Hi, I'm", "Remember that",
    "我喜欢", "我最喜欢的", "我在", "我会说", "我住在", "I have two kids called", "",
)  # fmt: skip
FILLERS = ("a", "A", "a ", "Aa ", "Aa, ", "and ", "to ", "is ", "'", "- ", "1", "的", "是", "语", "please ", "and I ")


@pytest.mark.parametrize("start", STARTS)
def test_a_maximally_ambiguous_sentence_is_read_quickly(start: str) -> None:
    began = time.thread_time()
    for filler in FILLERS:
        for end in ("#", " #", "", " x)("):
            read_stated_facts(f"{start} {filler * SENTENCE_CHARS}"[: SENTENCE_CHARS - 4] + end)
    assert time.thread_time() - began < MOST_S * len(FILLERS) * 4 / 10


def test_the_shipped_files_are_valid_and_loaded_once() -> None:
    assert [reader.language.language for reader in shipped_readers()] == ["en", "zh"]
    assert shipped_readers() is shipped_readers()
