"""Layout of human-readable reports: tables, pairs, and lines that several reports share.

Stored text is printed as plain text: no markup, and no terminal control sequences.
"""

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, cast

from elytron_cli.terminal.output import safe_line, safe_text
from elytron_core.clock import Instant, as_datetime
from elytron_core.policy.admission.claimed_times import future_claim_text
from elytron_core.scope import FutureClaims

if TYPE_CHECKING:
    from rich.console import Console
    from rich.text import Text


_WIDE = 120
"""Minimum columns for an id next to a text."""


def minute_text(at: Instant | None, /) -> str:
    """Return `at` to the minute, in UTC."""
    return as_datetime(at).strftime("%Y-%m-%d %H:%M") if at is not None else ""


def show_future_claims(console: "Console", claims: FutureClaims, /) -> None:
    """Show which times of a request lie in the future and are ignored for ordering."""
    for claim in claims:
        console.print(safe_line(future_claim_text(claim)), soft_wrap=True)


def show_other_spaces(console: "Console", spaces: Sequence[str], /) -> None:
    """Show which spaces of the same user an operation on one space did not reach."""
    if spaces:
        names = ", ".join(map(safe_line, spaces))
        console.print(f"this user has other spaces, which are not included: {names}", soft_wrap=True)


def show_pairs(console: "Console", rows: Iterable[tuple[str, str]], /) -> None:
    """Show names and values, without empty values. A name may be in several rows."""
    filled_rows = [(name, value) for name, value in rows if value]
    width = max((len(name) for name, _ in filled_rows), default=0)
    for name, value in filled_rows:
        console.print(f"{name:<{width}}  {safe_line(value)}", soft_wrap=True)


def show_more(console: "Console", cursor: str | None, /) -> None:
    """Show how to continue after a page, if there is more."""
    if cursor is not None:
        console.print(f"more: --cursor {safe_text(cursor)}", soft_wrap=True)


def known_by_id(
    console: "Console",
    columns: Sequence[str],
    rows: Iterable[tuple[Sequence[object], str]],
    /,
    *,
    numbers: Sequence[str] = (),
    none: str = "",
) -> None:
    """Show rows and their ids, each id unbroken: beneath the last cell if space is short."""
    from rich.text import Text

    is_wide = console.width >= _WIDE

    def cells(row: Sequence[object], name: str) -> tuple[object, ...]:
        id_text = Text(safe_text(name), style="dim")
        return (*row, id_text) if is_wide else (*row[:-1], Text.assemble(_table_cell(row[-1]), "\n", id_text))

    cell_rows = (cells(row, name) for row, name in rows)
    show_table(console, (*columns, "id") if is_wide else columns, cell_rows, numbers=numbers, whole="id", none=none)


def show_table(
    console: "Console",
    columns: Sequence[str],
    rows: Iterable[Sequence[object]],
    /,
    *,
    numbers: Sequence[str] = (),
    whole: str | Sequence[str] = "",
    none: str = "",
) -> None:
    """Show `rows`, or the text `none` if there are no rows.

    Columns in `numbers` are set right, and cells of the columns `whole` are not broken. Text that is not styled is
    printed on one line, safely.
    """
    from rich import box
    from rich.table import Table

    whole_columns = {whole} if isinstance(whole, str) else set(whole)
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for column in columns:
        justify = "right" if column in numbers else "left"
        table.add_column(column, justify=justify, overflow="fold", no_wrap=column in whole_columns)
    for row in rows:
        table.add_row(*map(_table_cell, row))
    if table.row_count:
        console.print(table)
    elif none:
        console.print(none)


def _table_cell(value: object) -> "str | Text":
    if value is None:
        return ""
    return safe_line(str(value)) if isinstance(value, str | int) else cast("Text", value)
