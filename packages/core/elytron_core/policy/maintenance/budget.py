"""Daily budget of models for a space: a hard stop on calls and tokens, reserved before a call, settled after it."""

from typing import Final

from elytron_core import limits
from elytron_core.clock import DAY_MS, Instant
from elytron_core.model import Value
from elytron_core.planes.admin.jobs import DaySpent, SpendingBook, Spent

BYTES_PER_TOKEN: Final = 3
"""Fewer than any common vocabulary needs for plain text, so that an estimate errs on the dear side."""


class Budget(Value):
    """Limit of model calls, and of tokens in and out, of a space in a day (UTC). 0 allows none."""

    calls_per_day: int = limits.MODEL_CALLS_PER_DAY
    tokens_per_day: int = limits.MODEL_TOKENS_PER_DAY


def day_of(at: Instant, /) -> int:
    """Return the number of the day, in UTC, since 1970-01-01."""
    return at // DAY_MS


def estimate(text: str, /) -> int:
    """Return about how many tokens a prompt has, rather too many than too few."""
    return len(text.encode("utf-8")) // BYTES_PER_TOKEN + 16


def today(book: SpendingBook, at: Instant, /) -> DaySpent:
    """Return what the day of `at` has come to."""
    day = day_of(at)
    return next((known for known in book.days if known.day == day), DaySpent(day=day))


def allows(budget: Budget, day: DaySpent, *, tokens: int) -> bool:
    """Return whether one more call of up to `tokens` is within the budget, running calls included."""
    calls = day.spent.calls + day.held_calls + 1
    return calls <= budget.calls_per_day and day.spent.tokens + day.held_tokens + tokens <= budget.tokens_per_day


def held(book: SpendingBook, at: Instant, *, tokens: int) -> SpendingBook:
    """Return `book` with one call of up to `tokens` under way."""
    day = today(book, at)
    return _with(
        book,
        day.model_copy(update={"held_calls": day.held_calls + 1, "held_tokens": day.held_tokens + tokens}),
    )


def settled(book: SpendingBook, held_at: Instant, *, tokens: int, spent: Spent) -> SpendingBook:
    """Return `book` with the call that was held at `held_at` replaced by what it came to."""
    day = today(book, held_at)
    return _with(
        book,
        day.model_copy(
            update={
                "held_calls": max(0, day.held_calls - 1),
                "held_tokens": max(0, day.held_tokens - tokens),
                "spent": day.spent.plus(spent),
            }
        ),
    )


def _with(book: SpendingBook, day: DaySpent) -> SpendingBook:
    others = (known for known in book.days if known.day != day.day)
    days = sorted((*others, day), key=lambda known: known.day)
    return SpendingBook(days=tuple(days)[-limits.SPENDING_DAYS :])
