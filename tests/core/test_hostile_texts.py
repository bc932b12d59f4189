"""Each rule that reads a text takes time linear in it, whatever the text: a megabyte holds nobody up."""

import time
from collections.abc import Callable

import pytest

from elytron_core.policy.admission import own_output, procedure_checks
from elytron_core.policy.extraction import rule_facts
from elytron_core.policy.privacy import secrets
from elytron_core.policy.privacy.secret_formats import BEGINNING, WITHIN
from elytron_core.policy.projection import sections
from elytron_core.policy.projection.builder import POLICY
from elytron_core.policy.query import summary_requests
from elytron_core.policy.ranking import best_sentence, excerpts
from elytron_core.policy.skills import front_matter
from elytron_core.policy.temporal import dates, event_anchors
from elytron_core.policy.tools import experience
from elytron_core.text import features, similarity

SIZE = 1_000_000
MOST_S = 8.0
"""CPU time. A linear rule takes a fifth of it at the most, a quadratic one minutes."""

RULES: dict[str, Callable[[str], object]] = {
    "scrub": secrets.scrub,
    "strip_own_output": own_output.strip_own_output,
    "own_words": own_output.own_words,
    "escape": sections.escape,
    "unlinked": sections.unlinked,
    "glean": rule_facts.glean,
    "sentences": lambda text: list(rule_facts.sentences(text)),
    "named_in": dates.named_in,
    "pieces_of": lambda text: excerpts.pieces_of(text, 1_000),
    "passages_of": lambda text: excerpts.passages_of(text, ("a", "password"), 400),
    "sentences_of": lambda text: best_sentence.sentences_of(text, str.split),
    "flaw": procedure_checks.flaw,
    "is_raw": procedure_checks.is_raw,
    "normalise": similarity.normalise,
    "kept_words": experience.kept_words,
    "telling": features.read,
    "skill_file": front_matter.read,
    "anchor_in": lambda text: event_anchors.anchor_in(text, text.lower()),
    "without_asking": lambda text: summary_requests.without_asking(text, text.lower()),
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
    "](",
    "I prefer tea. ",
    "January 5, ",
    'Recalled memory:\n{"}',
    "\n[2024-01-01] (runtime_skill__a) (",
    "\n",
    " ",
    "1",
    "。",
)


def cpu_s(rule: Callable[[str], object], text: str) -> float:
    began = time.thread_time()
    rule(text)
    return time.thread_time() - began


@pytest.mark.parametrize("name", RULES)
def test_a_rule_takes_a_hostile_megabyte_in_its_stride(name: str) -> None:
    spent = 0.0
    for part in PARTS[:: 1 if name in {"scrub", "strip_own_output", "own_words"} else 4]:
        spent = max(spent, cpu_s(RULES[name], (part * (SIZE // len(part) + 1))[:SIZE]))
    assert spent < MOST_S


def test_each_form_of_a_key_takes_a_megabyte_of_its_own_beginnings_in_its_stride() -> None:
    hints = [*BEGINNING, *WITHIN]
    text = "".join(f" {hint}" * (SIZE // len(hints) // (len(hint) + 1)) for hint in hints)
    assert cpu_s(secrets.scrub, text) < MOST_S


def test_many_blocks_that_never_end_are_taken_out_in_one_pass() -> None:
    text = "".join(f"<memory-{number:08x}>\nx " for number in range(SIZE // 20))
    assert cpu_s(own_output.strip_own_output, text) < MOST_S
    assert own_output.strip_own_output(text).blocks == SIZE // 20
