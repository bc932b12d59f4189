"""Daily model costs."""

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from elytron_core.clock import DAY_MS, Instant
from elytron_core.planes.jobs import MAINTAIN_BEYOND, DaySpent, MaintainedTurns, ModelUsage, SpendingHistory
from elytron_core.policy import spending_budget
from elytron_core.policy.spending_budget import SPENDING_DAYS, SpendingBudget

NOON = Instant(20_000 * DAY_MS + 12 * 3_600_000)


def test_a_calls_cost_is_reserved_before_and_settled_after_it() -> None:
    held = spending_budget.hold_call(SpendingHistory(), NOON, tokens=900)
    assert spending_budget.spent_today(held, NOON) == DaySpent(day=20_000, held_calls=1, held_tokens=900)
    spent = ModelUsage(calls=1, prompt_tokens=100, completion_tokens=20, cost=7)
    settled = spending_budget.settle_call(held, NOON, tokens=900, spent=spent)
    assert spending_budget.spent_today(settled, NOON) == DaySpent(day=20_000, spent=spent)


def test_calls_in_progress_count_against_the_budget() -> None:
    budget = SpendingBudget(calls_per_day=2, tokens_per_day=1_000)
    day = DaySpent(day=1, spent=ModelUsage(calls=1, prompt_tokens=300), held_calls=0, held_tokens=0)
    assert spending_budget.budget_allows(budget, day, tokens=700)
    assert not spending_budget.budget_allows(budget, day, tokens=701)
    assert not spending_budget.budget_allows(budget, day.model_copy(update={"held_calls": 1}), tokens=1)
    assert not spending_budget.budget_allows(SpendingBudget(calls_per_day=0), DaySpent(day=1), tokens=0)


def test_a_new_day_starts_at_zero_and_old_days_are_dropped() -> None:
    book = SpendingHistory()
    for day in range(SPENDING_DAYS + 5):
        book = spending_budget.hold_call(book, Instant(day * DAY_MS), tokens=1)
    assert len(book.days) == SPENDING_DAYS
    assert spending_budget.spent_today(book, Instant(99 * DAY_MS)) == DaySpent(day=99)


@given(text=st.text(alphabet=st.characters(exclude_categories=("Cs",)), max_size=200))
def test_estimates_err_on_the_high_side(text: str) -> None:
    assert spending_budget.estimate_tokens(text) * spending_budget.BYTES_PER_TOKEN >= len(text.encode("utf-8"))


@given(numbers=st.lists(st.integers(1, 60), max_size=60))
def test_processed_turns_are_known_in_any_order(numbers: list[int]) -> None:
    seen = MaintainedTurns()
    for number in numbers:
        seen = seen.plus(number)
    assert [number for number in range(1, 61) if seen.has(number)] == sorted(set(numbers))
    whole = next((gap for gap in range(1, 62) if gap not in numbers), 61) - 1
    assert seen.through == whole


@given(steps=st.lists(st.tuples(st.integers(1, 12), st.booleans()), max_size=40))
def test_turns_wait_until_a_model_has_processed_them(steps: list[tuple[int, bool]]) -> None:
    seen, waiting = MaintainedTurns(), set[int]()
    for number, waits in steps:
        seen = seen.put_off(number) if waits else seen.plus(number)
        waiting = waiting | {number} if waits else waiting - {number}
        assert seen.has(number)
    assert list(seen.waiting()) == sorted(waiting)
    assert all(last + 1 < first for (_, last), (first, _) in pairwise(seen.by_rules))


def test_too_many_gaps_are_closed_from_the_oldest() -> None:
    seen = MaintainedTurns()
    for number in range(2, 2 * MAINTAIN_BEYOND + 6, 2):
        seen = seen.plus(number)
    assert len(seen.beyond) <= MAINTAIN_BEYOND
    assert seen.has(1)
