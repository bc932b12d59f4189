"""Times that are described by an event."""

import pytest

from elytron_core.clock import Instant, instant
from elytron_core.policy.ranking.question import read_question
from elytron_core.policy.ranking.time_ranges import AnchorSide, anchor_in, spans_of

NOW = instant("2026-03-10T12:00:00Z")
DAY = 86_400_000
USUAL = 90 * DAY


@pytest.mark.parametrize(
    ("text", "what", "side", "reach"),
    [
        ("What did we plant before we moved?", "we moved", AnchorSide.BEFORE, USUAL),
        ("Where did I swim after the roof was repaired, and when?", "the roof was repaired", AnchorSide.AFTER, USUAL),
        ("How is she doing since the accident?", "the accident", AnchorSide.AFTER, USUAL),
        ("Prior to the wedding, who called?", "the wedding", AnchorSide.BEFORE, USUAL),
        ("What broke two weeks after the wedding?", "the wedding", AnchorSide.AFTER, USUAL),
        ("What did I sell a year before the flood?", "the flood", AnchorSide.BEFORE, 366 * DAY * 3 // 2),
        ("What did I read 9999 years before the flood?", "the flood", AnchorSide.BEFORE, 1_000 * 366 * DAY * 3 // 2),
    ],
)
def test_the_event_that_names_a_time_is_read_from_the_question(
    text: str, what: str, side: AnchorSide, reach: int
) -> None:
    assert anchor_in(text, text.lower()) == (what, side, reach)


@pytest.mark.parametrize(
    "text",
    ["Who called?", "What did I do after all?", "Until when was it there?", "What happened before?", "My aftershave?"],
)
def test_a_question_that_names_no_event_has_no_anchor(text: str) -> None:
    assert anchor_in(text, text.lower()) is None


@pytest.mark.parametrize("text", ["What did I do before 4 May 2025?", "Suggest a meal after a long ride"])
def test_dates_need_no_anchor_nor_does_advice(text: str) -> None:
    assert read_question(text, NOW).anchor is None


def test_memories_near_the_anchor_on_the_right_side_are_likelier_answers() -> None:
    before, after = (read_question(f"What broke {side} we moved?", NOW).anchor for side in ("before", "after"))
    assert before is not None
    assert after is not None
    moved = Instant(instant("2025-07-04"))
    near, far = spans_of(before, moved)
    assert near.start < moved - 80 * DAY
    assert far.start < near.start
    assert moved < near.end == far.end < moved + DAY
    assert near.worth > far.worth > 0
    near, far = spans_of(after, moved)
    assert moved - DAY < near.start == far.start < moved
    assert moved + 80 * DAY < near.end < far.end
