"""Compaction: over any history each turn is in the window or under exactly one summary, whatever is done and undone."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from elytron_core.clock import Instant
from elytron_core.ports.chat import InputMessage, Message, ModelReply, TextPart, ToolCall, ToolResult
from elytron_turn import limits
from elytron_turn.compaction import (
    RECENT_TURNS_KEPT,
    SUMMARY_WORDS,
    TurnSize,
    WindowSummaryDraft,
    extract_summary,
    plan_compaction,
    problem_of,
)
from elytron_turn.context import (
    NO_RESULT,
    ThreadHead,
    WindowSummary,
    WindowTurn,
    calls_of,
    compact_head,
    turn_messages,
    uncompact_head,
)

AT = Instant(1_780_000_000_000)
WINDOW = 10_000


@st.composite
def histories(draw: st.DrawFn) -> list[tuple[str, int]]:
    """Return the steps for a thread: turns of some size are added, compactions are made and undone."""
    doing = st.tuples(st.sampled_from(["turn", "turn", "turn", "compact", "force", "undo"]), st.integers(1, 4_000))
    return draw(st.lists(doing, max_size=60))


@given(histories(), st.integers(0, 3_000))
def test_each_turn_is_in_the_window_or_under_exactly_one_summary(history: list[tuple[str, int]], fixed: int) -> None:
    head, chain, sizes = ThreadHead(), dict[int, WindowSummary](), dict[str, int]()
    for doing, size in history:
        match doing:
            case "turn":
                run = f"r{len(sizes)}"
                sizes[run] = size
                head = head.model_copy(update={"window": (*head.window, run), "runs": head.runs + 1})
            case "undo" if head.summary:
                head = uncompact_head(head, chain[head.summary])
            case "compact" | "force":
                turns = [TurnSize(run=run, tokens=sizes[run]) for run in head.window]
                planned = plan_compaction(turns, fixed_tokens=fixed, max_tokens=WINDOW, is_forced=doing == "force")
                if planned is not None:
                    assert planned.evicted + planned.kept == head.window
                    made = WindowSummary(
                        number=head.summaries + 1, text="…", covers=planned.evicted, previous=head.summary, at=AT
                    )
                    chain[made.number] = made
                    head = compact_head(head, made)
            case _:
                pass
        covered: list[str] = []
        number = head.summary
        while number:
            covered = [*chain[number].covers, *covered]
            number = chain[number].previous
        assert [*covered, *head.window] == list(sizes)


@given(st.lists(st.integers(1, 5_000), max_size=60), st.integers(0, 20_000), st.integers(1_000, 60_000), st.booleans())
def test_a_plan_frees_room_where_possible_and_keeps_pending_calls(
    tokens: list[int], fixed: int, window: int, is_pending: bool
) -> None:
    turns = [TurnSize(run=f"r{place}", tokens=size) for place, size in enumerate(tokens)]
    if turns and is_pending:
        turns[-1] = turns[-1].model_copy(update={"is_pending": True})
    planned = plan_compaction(turns, fixed_tokens=fixed, max_tokens=window)
    before = fixed + sum(tokens)
    if before <= window * limits.COMPACTION_THRESHOLD:
        assert planned is None
        return
    movable = [turn.run for turn in turns if not turn.is_pending]
    if not movable:
        assert planned is None
        return
    assert planned is not None
    assert planned.evicted
    assert set(planned.evicted) <= set(movable)
    assert (*planned.evicted, *planned.kept) == tuple(turn.run for turn in turns)
    left = planned.tokens_after
    assert left == fixed + limits.SUMMARY_TOKENS + sum(turn.tokens for turn in turns if turn.run in planned.kept)
    # Either there is room again, or everything that may be removed has been.
    assert left <= window * limits.COMPACTION_THRESHOLD or set(planned.evicted) == set(movable)


def test_the_latest_turns_stay_if_there_is_room_for_them() -> None:
    turns = [TurnSize(run=f"r{place}", tokens=400) for place in range(40)]
    planned = plan_compaction(turns, fixed_tokens=0, max_tokens=WINDOW)
    assert planned is not None
    assert len(planned.kept) >= RECENT_TURNS_KEPT


items = st.lists(
    st.one_of(
        st.lists(st.sampled_from(["c0", "c1", "c2"]), unique=True, max_size=3).map(
            lambda ids: ModelReply(
                items=(TextPart(text="said"), *(ToolCall(id=i, name="t", arguments="{}") for i in ids))
            )
        ),
        st.sampled_from(["c0", "c1"]).map(lambda i: ToolResult(call_id=i, tool="t", text="x" * 3_000)),
    ),
    max_size=8,
)


@given(items)
def test_no_call_is_shown_without_its_result(found: list[Message]) -> None:
    turn = WindowTurn(run="r", at=AT, input="Do.", items=tuple(found))
    told = turn_messages(turn, zone="UTC")
    waiting: set[str] = set()
    for message in told:
        match message:
            case ModelReply():
                assert not waiting
                waiting = {call.id for call in calls_of(message)}
            case ToolResult():
                waiting.discard(message.call_id)
                assert len(message.text) <= max(limits.OLD_RESULT_CHARS, len(NO_RESULT))
            case InputMessage():
                assert not waiting
            case _:
                pass
    assert not waiting


TURNS = (
    WindowTurn(run="a", at=AT, input="My boat is called Marimba. It is blue.", items=()),
    WindowTurn(run="b", at=AT, input="We sail in May.", items=(ModelReply(items=(TextPart(text="Fair winds!"),)),)),
)


def draft(overview: str, *quotes: str) -> WindowSummaryDraft:
    return WindowSummaryDraft(overview=overview, state="", next_step="", quotes=quotes)


@pytest.mark.parametrize(
    ("found", "problem"),
    [
        (draft("Ada has a boat.", "My boat is called Marimba"), None),
        (draft("Ada said “we sail in May”.", "fair winds"), None),
        (draft("Ada said “we sail in June”.", "fair winds"), "it quotes something that was not said"),
        (draft("Ada has a boat.", "my car is red"), "none of its quotes was said"),
        (draft("Ada has a boat."), "it cites no passage"),
        (draft(""), "it is empty"),
    ],
)
def test_a_summary_quotes_what_was_said(found: WindowSummaryDraft, problem: str | None) -> None:
    assert problem_of(found, TURNS, "") == problem


def test_an_extract_is_short_and_includes_the_earlier_summary() -> None:
    many = [WindowTurn(run=str(n), at=AT, input=f"Sentence number {n} of a long talk.") for n in range(50)]
    told = extract_summary(many, "Earlier they spoke of boats. " * 30)
    assert len(told.split()) <= SUMMARY_WORDS
    assert "Earlier they spoke of boats." in told
    assert "number 49" in told
    assert extract_summary([], "") == "Nothing was said in words."
