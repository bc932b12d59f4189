"""Spending on models: the budget of a day, and what calls have cost."""

from typing import Final

from elytron_core.clock import DAY_MS, Instant
from elytron_core.model import Value
from elytron_core.planes.jobs import (
    DaySpent,
    ModelUsage,
    SpendingHistory,
)

MODEL_CALLS_PER_DAY: Final = 2_000


MODEL_TOKENS_PER_DAY: Final = 5_000_000


SPENDING_DAYS: Final = 31


BYTES_PER_TOKEN: Final = 3
"""Fewer than any common vocabulary needs for plain text, so that estimates err on the high side."""


class SpendingBudget(Value):
    """Daily limit (UTC) per space of model calls, and of input and output tokens. 0 allows none."""

    calls_per_day: int = MODEL_CALLS_PER_DAY
    tokens_per_day: int = MODEL_TOKENS_PER_DAY


def day_of(at: Instant, /) -> int:
    """Return the number of the day, in UTC, since 1970-01-01."""
    return at // DAY_MS


def estimate_tokens(text: str, /) -> int:
    """Return an estimate of a prompt's tokens, rather too high than too low."""
    return len(text.encode("utf-8")) // BYTES_PER_TOKEN + 16


def spent_today(history: SpendingHistory, at: Instant, /) -> DaySpent:
    """Return the usage of the day of `at`."""
    day = day_of(at)
    return next((spent_day for spent_day in history.days if spent_day.day == day), DaySpent(day=day))


def budget_allows(budget: SpendingBudget, day: DaySpent, *, tokens: int) -> bool:
    """Return whether the budget allows one more call of up to `tokens`, including running calls."""
    call_count = day.spent.calls + day.held_calls + 1
    return call_count <= budget.calls_per_day and day.spent.tokens + day.held_tokens + tokens <= budget.tokens_per_day


def hold_call(history: SpendingHistory, at: Instant, *, tokens: int) -> SpendingHistory:
    """Return `history` with one call of up to `tokens` reserved."""
    day = spent_today(history, at)
    return _with_day(
        history,
        day.model_copy(update={"held_calls": day.held_calls + 1, "held_tokens": day.held_tokens + tokens}),
    )


def settle_call(history: SpendingHistory, held_at: Instant, *, tokens: int, spent: ModelUsage) -> SpendingHistory:
    """Return `history` with the reservation made at `held_at` replaced by the actual usage."""
    day = spent_today(history, held_at)
    return _with_day(
        history,
        day.model_copy(
            # The day may have left the history meanwhile, with its reservations.
            update={
                "held_calls": max(0, day.held_calls - 1),
                "held_tokens": max(0, day.held_tokens - tokens),
                "spent": day.spent.plus(spent),
            }
        ),
    )


def _with_day(history: SpendingHistory, day: DaySpent) -> SpendingHistory:
    other_days = (spent_day for spent_day in history.days if spent_day.day != day.day)
    days = sorted((*other_days, day), key=lambda spent_day: spent_day.day)
    return SpendingHistory(days=tuple(days)[-SPENDING_DAYS:])
