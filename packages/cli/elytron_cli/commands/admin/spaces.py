"""The spaces of a store."""

from typing import TYPE_CHECKING, Any

from elytron_cli.input.options import command, common, paged
from elytron_cli.runner import answer
from elytron_cli.tables import common as tables_common
from elytron_core.contracts.admin.spaces import MemorySpacesReport, MemorySpacesRequest

if TYPE_CHECKING:
    from rich.console import Console


@command("spaces")
@paged("Spaces on a page.")
@common
def spaces(**asked: Any) -> int | None:
    """List the spaces of the store, and what they hold of conversations."""
    return answer(MemorySpacesRequest(**asked), _listed, hints=False)


def _listed(console: "Console", report: MemorySpacesReport) -> None:
    rows = (
        (
            found.space,
            *((found.conversations, found.turns) if found.readable else ("cannot be read", "")),
            tables_common.when(found.first_at),
            tables_common.when(found.last_at),
        )
        for found in report.spaces
    )
    columns = ("space", "conversations", "turns", "from", "to")
    numbers = ("conversations", "turns")
    tables_common.table(console, columns, rows, numbers=numbers, none="no space was written to yet")
    tables_common.more(console, report.next_cursor)
