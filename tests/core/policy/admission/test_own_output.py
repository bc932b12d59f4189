"""Memory recognises its own output, and preserves everything else."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from elytron_core.contracts.recall import RecallPlane
from elytron_core.planes.facts import FactKind
from elytron_core.policy.admission.own_output import StrippedText, is_own_output, own_words, strip_own_output
from elytron_core.policy.projection.builder import (
    POLICY,
    BlockForm,
    ProjectionInputs,
    RecalledItems,
    StableItems,
    build_projection,
)
from elytron_core.policy.projection.sections import RecalledItem, StandingFact

FACT = StandingFact(id="f", kind=FactKind.FACT, topic="tea", content="likes green tea")
HIT = RecalledItem(id="t", plane=RecallPlane.TRANSCRIPT, text="we drank tea")
WHOLE = build_projection(
    ProjectionInputs(
        form=BlockForm(max_chars=4_000), stable=StableItems(facts=(FACT,)), recalled=RecalledItems(items=(HIT,))
    ),
    mark="0a" * 12,
).block
STANDING = build_projection(
    ProjectionInputs(form=BlockForm(max_chars=4_000), stable=StableItems(facts=(FACT,))), mark="0a" * 12
).block


@pytest.mark.parametrize("block", [WHOLE, STANDING])
@given(before=st.sampled_from(["", "Hello.\n\n"]), after=st.sampled_from(["", "\n\nWhat now?", " and more"]))
def test_a_block_is_removed_and_surrounding_text_stays(block: str, before: str, after: str) -> None:
    if block is STANDING and after == " and more":
        return  # it would be the end of the last memory line
    told = strip_own_output(f"{before}{block}{after}")
    assert (" ".join(told.text.split()), told.blocks) == (" ".join(f"{before}{after}".split()), 1)
    assert is_own_output(f"{before}{block}{after}")


def test_several_blocks_are_removed() -> None:
    assert strip_own_output(f"{WHOLE}\nand\n{WHOLE}") == StrippedText("and", 2)


def test_a_fence_without_policy_text_or_end_is_recognised_too() -> None:
    fence = WHOLE[WHOLE.index("<memory-") :]
    assert strip_own_output(f"see {fence} yes") == StrippedText("see  yes", 1)
    torn = fence[: fence.index("</memory-")]
    assert strip_own_output(f"{torn}\nSo?") == StrippedText("So?", 1)


@pytest.mark.parametrize(
    "tag", ["<memory-0123456789abcdef>", WHOLE[(at := WHOLE.index("<memory-")) : WHOLE.index(">", at) + 1]]
)
@pytest.mark.parametrize(
    "words",
    [" I moved to Lisbon.", "\nI moved.\n- books\n- the cat", "\n- books\n- the cat", "\nTo pack:\n- books", "\n", ""],
)
def test_an_unclosed_tag_removes_no_text(tag: str, words: str) -> None:
    for text in (
        f"{tag}{words}",
        f"See {tag}{words}",
        f"{words}{tag}{words}{tag}",
        f"{tag}{words}\n</memory-00000000>",
    ):
        assert strip_own_output(text) == StrippedText(text, 0)
        assert strip_own_output(f"{WHOLE}\n\n{text}.") == StrippedText(f"{text}.".strip(), 1)


def test_text_between_two_blocks_stays() -> None:
    assert strip_own_output(f"{STANDING}\n\nMy question:\nwhat now?\n\n{WHOLE}") == StrippedText(
        "My question:\nwhat now?", 2
    )
    assert strip_own_output(f"{STANDING}\nMy question: what now?") == StrippedText("My question: what now?", 1)


@given(st.text())
def test_other_text_is_unchanged(text: str) -> None:
    assert strip_own_output(text) == StrippedText(text, 0) or is_own_output(text)


def test_text_about_memory_tags_is_not_output() -> None:
    for text in ("the tag <memory-> is odd", "use <memory-block>", POLICY[:-1]):
        assert strip_own_output(text) == StrippedText(text, 0)


@pytest.mark.parametrize(
    "note",
    [
        "From the transcript of 2026-02-03: Ada\n> Ada: I live in Lisbon.\n> Ada: I keep bees.",
        "From the transcript of 2026-02-03: Ada > Ada: I live in Lisbon. > Ada: I keep bees.",
    ],
)
def test_a_pasted_generated_note_is_evidence_but_nobodys_statement(note: str) -> None:
    text = f"You wrote:\n{note}\nI moved since."
    assert own_words(text).split("\n") == ["You wrote:", "", "I moved since."]
    assert strip_own_output(text) == StrippedText(text, 0)


def test_text_about_a_transcript_is_preserved() -> None:
    text = "From the transcript of the meeting I take it that I am to move to Lisbon."
    assert own_words(text) == text


LISTED = "[2026-01-01 Ada] likes green tea (0123456789abcdef01234567.000000000001)"
REFERENCE = 'Recalled memory:\n{"id": "m1", "text": "likes green tea", "score": 0.5}\n{"id": "m2", "text": "{tea}"}'


@pytest.mark.parametrize("shown", [LISTED, f"{LISTED}\n- {LISTED}", REFERENCE])
@given(before=st.sampled_from(["", "Hello.\n\n"]), after=st.sampled_from(["", "\n\nWhat now?"]))
def test_text_recalled_or_listed_for_a_model_is_removed(shown: str, before: str, after: str) -> None:
    text = f"{before}{shown}{after}"
    assert is_own_output(text)
    told = strip_own_output(text)
    assert (" ".join(told.text.split()), told.blocks > 0) == (" ".join(f"{before}{after}".split()), True)


@pytest.mark.parametrize(
    "text",
    [
        "Recalled memory: what does that mean?",
        'Recalled memory:\nnothing {"id": 1}',
        "Please forget (0123456789abcdef01234567.000000000001)",
        "[2026-01-01 Ada] wrote to the office (by mail)",
    ],
)
def test_text_about_references_is_not_output(text: str) -> None:
    assert (is_own_output(text), strip_own_output(text)) == (False, StrippedText(text, 0))


def test_hostile_lines_are_scanned_in_linear_time() -> None:
    for text in ("[2026-01-01 " * 80_000, "Recalled memory:\n" * 60_000, '{"' * 500_000, "(0123456789abcdef" * 60_000):
        assert strip_own_output(text).blocks == 0
