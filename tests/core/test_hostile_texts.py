"""Each rule that reads text takes linear time: eight times the text, about eight times the work."""

import time
from collections.abc import Callable

import pytest

from elytron_core.policy import redaction, tools
from elytron_core.policy.admission import own_output, rules
from elytron_core.policy.extraction import rule_facts
from elytron_core.policy.projection.builder import POLICY
from elytron_core.policy.projection.sections import escape_line, escape_links
from elytron_core.policy.ranking import excerpts, question, time_ranges
from elytron_core.policy.redaction import BEGINNING, WITHIN
from elytron_core.policy.skills import read_skill_file
from elytron_core.text import similarity
from elytron_core.text.analyser import TextAnalyser
from elytron_core.text.traits import read_traits

SIZE = 4_000
FACTOR = 8
MOST_GROWTH = 3 * FACTOR
"""A linear rule takes `FACTOR` times as long for a text that much longer, a quadratic one its square."""
LEAST_S = 0.008
"""Less CPU time than this for the longer text is meaningless, and a quadratic rule takes more."""
TRIES = 3

RULES: dict[str, Callable[[str], object]] = {
    "scrub": redaction.scrub_secrets,
    "strip_own_output": own_output.strip_own_output,
    "own_words": own_output.own_words,
    "escape": escape_line,
    "unlinked": escape_links,
    "glean": lambda text: rule_facts.read_stated_facts(text[: rule_facts.READ_CHARS]),
    "sentences": lambda text: list(rule_facts.own_sentences(text)),
    "named_in": time_ranges.named_in,
    "pieces_of": lambda text: excerpts.pieces_of(text, 1_000),
    "passages_of": lambda text: excerpts.passages_of(text, ("a", "password"), 400),
    "sentences_of": lambda text: excerpts.sentences_of(text, str.split),
    "flaw": rules.procedure_flaw,
    "is_raw": rules.is_raw,
    "normalise": similarity.normalise_text,
    "kept_words": tools.kept_words,
    "traits": read_traits,
    "terms": lambda text: TextAnalyser().terms(text),
    "skill_file": read_skill_file,
    "anchor_in": lambda text: time_ranges.anchor_in(text, text.lower()),
    "without_asking": lambda text: question.without_asking(text, text.lower()),
}
PARTS = (
    "-----BEGIN PRIVATE KEY----- a-",
    "<memory-aaaaaaaa>",
    f"{POLICY}\n- a\n",
    POLICY,
    "From the transcript of 2024-01-01: x\n> ",
    'password="',
    "pwd=",
    "://a:",
    "eyJaaaaaaaa.",
    "DE89 3704 ",
    "4111 1111 ",
    "<\u200c",
    "zoo|",
    "act\u200b",
    "a\u200b",
    "a<\u034f",
    "&a\\n",
    "](",
    "I prefer tea. ",
    "January 5, ",
    'Recalled memory:\n{"}',
    "\n[2024-01-01] (runtime_skill__a) (",
    "\n",
    " ",
    "1",
    "1-",
    "1,",
    "a.",
    "a@b.",
    "a_",
    "x'",
    "é1:",
    "\u0301",
    "。",
)


def cpu_s(rule: Callable[[str], object], text: str) -> float:
    began = time.thread_time()
    rule(text)
    return time.thread_time() - began


def is_linear(rule: Callable[[str], object], text: Callable[[int], str]) -> bool:
    """Return whether the work of `rule` grows with `text`; a disturbed measurement is repeated."""
    short, long = text(SIZE), text(SIZE * FACTOR)
    rule(short)
    for _ in range(TRIES):
        spent = cpu_s(rule, long)
        if spent < LEAST_S or spent < MOST_GROWTH * cpu_s(rule, short):
            return True
    return False


@pytest.mark.parametrize("name", RULES)
def test_a_rule_takes_time_linear_in_a_hostile_text(name: str) -> None:
    slow = [part for part in PARTS if not is_linear(RULES[name], lambda size, part=part: part * (size // len(part)))]
    assert slow == []


def test_each_form_of_a_key_takes_time_linear_in_its_own_beginnings() -> None:
    hints = [*BEGINNING, *WITHIN]
    assert is_linear(
        redaction.scrub_secrets,
        lambda size: "".join(f" {hint}" * (size // len(hints) // (len(hint) + 1)) for hint in hints),
    )


def test_many_unclosed_tags_are_scanned_in_one_pass() -> None:
    def blocks(size: int) -> str:
        return "".join(f"<memory-{number:08x}>\nx " for number in range(size // 20))

    assert is_linear(own_output.strip_own_output, blocks)
    assert own_output.strip_own_output(blocks(SIZE)) == own_output.StrippedText(blocks(SIZE), 0)
