"""Daily notes: the days that are read, and the sentences that are noted."""

import pytest

from elytron_core.clock import DAY_MS, Instant
from elytron_core.evidence import EvidenceRole
from elytron_core.ids import ConversationTag, TurnId
from elytron_core.planes import transcript
from elytron_core.policy.continuity import draw_notes
from elytron_core.policy.extraction import rule_facts

NOW = Instant(1_767_225_600_000)
TAG = ConversationTag("a" * 24)
TELLING = "I met Ada in 2019."


def turns(*told: tuple[int, str], **more: object) -> list[tuple[TurnId, transcript.Turn]]:
    """Return turns from some days ago."""
    return [
        (
            transcript.turn_id(TAG, number),
            transcript.Turn.model_validate(
                {
                    "sequence": number,
                    "channel": "c",
                    "conversation": "d",
                    "messages": ({"text": text},),
                    "recorded_at": NOW - days * DAY_MS,
                }
                | more
            ),
        )
        for number, (days, text) in enumerate(told, 1)
    ]


def test_only_the_last_week_is_read() -> None:
    found = draw_notes(turns((9, TELLING), (8, TELLING), (7, TELLING), (9, TELLING)), NOW, is_cut=True)
    assert ([draft.period for draft in found.drafts], found.through) == (["2025-12-23", "2025-12-24"], 2)


def test_a_day_that_may_continue_on_the_next_page_is_skipped() -> None:
    read = turns((10, TELLING), (9, TELLING), (9, TELLING))
    assert draw_notes(read, NOW, is_cut=True).through == 1
    assert draw_notes(read, NOW, is_cut=False).through == 3
    assert draw_notes(read[1:], NOW, is_cut=True).through == 3


def test_future_times_cannot_block_the_notes() -> None:
    message = {"text": TELLING, "at": NOW + 900 * DAY_MS}
    assert draw_notes(turns((9, ""), messages=(message,)), NOW, is_cut=False).through == 1


@pytest.mark.parametrize(
    ("text", "more"),
    [
        ("Thanks!", {}),
        ("x" * (rule_facts.READ_CHARS + 1), {}),
        (TELLING, {"external_content_used": True}),
        (TELLING, {"messages": ({"text": TELLING, "role": EvidenceRole.SYSTEM},)}),
        (TELLING, {"messages": ()}),
        (TELLING, {"redaction": "masked"}),
        (TELLING, {"forgotten": {0: NOW}}),
    ],
)
def test_a_day_without_noteworthy_or_recallable_sentences_has_no_note(text: str, more: dict[str, object]) -> None:
    assert draw_notes(turns((9, text), **more), NOW, is_cut=False) == ((), 1)


def test_a_note_has_the_eight_most_informative_sentences_in_order_and_cites_each_message() -> None:
    told = [(9, f"I saw {number} whales in 2019.") for number in range(9)]
    (draft,) = draw_notes(turns((9, "The sea is blue."), *told[:8], told[7]), NOW, is_cut=False).drafts
    lines = [f"> user: {text}" for _, text in told[:8]]
    assert draft.text.splitlines() == ["From the transcript of 2025-12-23: user", *lines]
    assert draft.citations == tuple(transcript.turn_id(TAG, number) for number in range(2, 10))


def test_a_day_that_occurs_twice_has_one_note() -> None:
    read = turns((9, TELLING), (8, TELLING), (9, "We flew to Porto in 2020."))
    first, second = draw_notes(read, NOW, is_cut=False).drafts
    assert [line for line in first.text.splitlines() if line[0] == ">"] == [
        "> user: I met Ada in 2019.", "> user: We flew to Porto in 2020.",
    ]  # fmt: skip
    assert second.period == "2025-12-24"
