"""Spending on models: of one space by day, and of the spaces of the store that spend most."""

from typing import Final

from elytron.context import OperationContext
from elytron.jobs.spending_budget import spent_on
from elytron_adapter.call_figures import CallFigures
from elytron_console import limits
from elytron_core.clock import DAY_MS, Instant
from elytron_core.ids import SpaceId, is_reserved
from elytron_core.model import Value
from elytron_core.planes.jobs import NOTHING, ModelUsage
from elytron_core.policy.spending_budget import SpendingBudget, day_of, spent_today

SPENDING_SPACES: Final = 50
"""Spaces in the list of those that used the most of models."""


class SpentDay(Value):
    """Usage of a day, in UTC; `held_calls` and `held_tokens` are reserved for running calls."""

    at: Instant
    spent: ModelUsage
    held_calls: int = 0
    held_tokens: int = 0


class ProgramSpending(Value):
    """Tokens that programs used of one model through this server, on a day in UTC."""

    at: Instant
    model: str
    calls: int
    read: int
    written: int


class SpendingReport(Value):
    """Model usage for a space: by its maintenance, on days with model calls, and by programs."""

    space: str
    today: Instant
    budget: SpendingBudget
    model: str | None = None
    """The model that maintenance calls; None: it works with rules."""
    days: tuple[SpentDay, ...] = ()
    programs: tuple[ProgramSpending, ...] = ()
    """Answers of models to programs that asked for this space, which named their tokens: since `programs_since`."""
    programs_since: Instant


class SpaceSpending(Value):
    """Usage of a space today, and on all days of its book."""

    space: str
    today: ModelUsage = NOTHING
    total: ModelUsage = NOTHING


class StoreSpending(Value):
    """The spaces with model usage, those with the most tokens first; the first of many are counted."""

    items: tuple[SpaceSpending, ...]
    counted: int
    clipped: bool = False


async def space_spending(ctx: OperationContext, figures: CallFigures, space: SpaceId, /) -> SpendingReport:
    """Return the usage of models for `space`."""
    model = ctx.models.language
    return SpendingReport(
        space=space,
        today=Instant(day_of(ctx.clock.now()) * DAY_MS),
        budget=ctx.budget,
        model=model.name if model is not None else None,
        days=tuple(
            SpentDay(
                at=Instant(day.day * DAY_MS), spent=day.spent, held_calls=day.held_calls, held_tokens=day.held_tokens
            )
            for day in (await spent_on(ctx, space)).days
        ),
        programs=tuple(
            ProgramSpending(
                at=row.day, model=row.model, calls=row.calls, read=row.input_tokens, written=row.output_tokens
            )
            for row in figures.programs(space)
        ),
        programs_since=figures.began_at,
    )


async def store_spending(ctx: OperationContext, /) -> StoreSpending:
    """Return the spaces with the highest usage of models."""
    names = await ctx.store.spaces(limit=limits.SPACES_COUNTED)
    spaces = [space for space in names if not is_reserved(space)]
    now = ctx.clock.now()
    items: list[SpaceSpending] = []
    for space in spaces:
        space_spending_report = await spent_on(ctx, space)
        if space_spending_report.days:
            total = NOTHING
            for day in space_spending_report.days:
                total = total.plus(day.spent)
            items.append(SpaceSpending(space=space, today=spent_today(space_spending_report, now).spent, total=total))
    items.sort(key=lambda each: (-each.total.tokens, each.space))
    is_clipped = len(names) == limits.SPACES_COUNTED
    return StoreSpending(items=tuple(items[:SPENDING_SPACES]), counted=len(spaces), clipped=is_clipped)
