"""Spending: the calls and tokens of models that maintenance of a space used, by day, and its budget."""

from collections.abc import Iterable

from starlette.requests import Request
from starlette.responses import Response

from elytron.jobs.queue import spent_on
from elytron_adapter.dispatch import CallerEntrance
from elytron_adapter.http.requests import query_scope
from elytron_adapter.http.responses import principal_of
from elytron_adapter.surface import Surface, SurfaceAccess, SurfaceDescription
from elytron_console import limits
from elytron_console.journal import JournalReader
from elytron_console.sessions import GROUP, ConsoleDoor, value_response
from elytron_core.clock import DAY_MS, Instant
from elytron_core.ids import is_reserved
from elytron_core.model import Value
from elytron_core.planes.jobs import NOTHING, ModelUsage
from elytron_core.policy.maintenance import SpendingBudget, day_of, spent_today


class SpentDay(Value):
    """Usage of a day, in UTC; `held_calls` and `held_tokens` are reserved for calls that run."""

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
    """Usage of models for a space: by its maintenance, on the days on which models were asked, and by programs."""

    space: str
    today: Instant
    budget: SpendingBudget
    model: str | None = None
    """The model that maintenance asks; None: it works by rules."""
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
    """The spaces that asked models, those with the most tokens first; the first of many are counted."""

    items: tuple[SpaceSpending, ...]
    counted: int
    clipped: bool = False


def spending_surfaces(entrance: CallerEntrance, door: ConsoleDoor, journal: JournalReader, /) -> Iterable[Surface]:
    """Return the surfaces of spending: of one space, and of the spaces of the store."""
    context = entrance.dispatcher.runtime.context

    async def shown(request: Request) -> Response:
        space = journal.space_of(principal_of(request.scope), query_scope(request.query_params))
        days = tuple(
            SpentDay(
                at=Instant(day.day * DAY_MS), spent=day.spent, held_calls=day.held_calls, held_tokens=day.held_tokens
            )
            for day in (await spent_on(context, space)).days
        )
        model = context.models.language
        report = SpendingReport(
            space=space,
            today=Instant(day_of(context.clock.now()) * DAY_MS),
            budget=context.budget,
            model=model.name if model is not None else None,
            days=days,
            programs=tuple(
                ProgramSpending(at=row.day, model=row.model, calls=row.calls, read=row.read, written=row.written)
                for row in entrance.figures.programs(space)
            ),
            programs_since=entrance.figures.began_at,
        )
        return value_response(report)

    async def by_space(_request: Request) -> Response:
        spaces = await context.store.spaces(limit=limits.SPACES_COUNTED)
        now = context.clock.now()
        found: list[SpaceSpending] = []
        for space in spaces:
            book = await spent_on(context, space)
            if not book.days or is_reserved(space):
                continue
            total = NOTHING
            for day in book.days:
                total = total.plus(day.spent)
            found.append(SpaceSpending(space=space, today=spent_today(book, now).spent, total=total))
        found.sort(key=lambda each: (-each.total.tokens, each.space))
        clipped = len(spaces) == limits.SPACES_COUNTED
        counted = sum(not is_reserved(space) for space in spaces)
        items = tuple(found[: limits.SPENDING_SPACES])
        return value_response(StoreSpending(items=items, counted=counted, clipped=clipped))

    own = SurfaceDescription(
        "console_spending", "Give by day what maintenance used of models, and its budget.", None, SpendingReport, (),
        ("space",), group=GROUP,
    )  # fmt: skip
    every = SurfaceDescription(
        "console_spending_by_space", "List the spaces that used the most of models.", None, StoreSpending, group=GROUP
    )
    return (
        door.surface("GET", "/spending", shown, own),
        door.surface("GET", "/spending/spaces", by_space, every, access=SurfaceAccess.OPERATOR),
    )
