"""Reading single memories and lists of them."""

from typing import Any

import click

from elytron_cli.input.filters import filtered
from elytron_cli.input.options import command, common, disclosing, paged
from elytron_cli.runner import answer
from elytron_cli.tables import common as tables_common
from elytron_core.contracts.knowledge.control import (
    Hidden,
    ListOrder,
    MemoryGetRequest,
    MemoryHistoryRequest,
    MemoryListRequest,
)


@command("get")
@click.argument("memory")
@disclosing
@common
def get(*, memory: str, include_private: bool) -> int | None:
    """Show the memory with the id MEMORY."""
    return answer(MemoryGetRequest(id=memory, include_private=include_private), tables_common.memory)


@command("list")
@paged("Memories on a page.")
@click.option("--hidden", is_flag=True, help="Also what was forgotten, put away, replaced or retired.")
@click.option("--latest", is_flag=True, help="What was stored last comes first; one page.")
@disclosing
@filtered
@common
def list_memories(*, hidden: bool, latest: bool, **asked: Any) -> int | None:
    """List memories in the order in which they were stored."""
    which = Hidden.LISTED if hidden else Hidden.LEFT_OUT
    order = ListOrder.LATEST if latest else ListOrder.STORED
    return answer(MemoryListRequest(hidden=which, order=order, **asked), tables_common.listed)


@command("history")
@click.argument("memory")
@disclosing
@common
def history(*, memory: str, include_private: bool) -> int | None:
    """Show what happened to the memory with the id MEMORY, oldest first."""
    return answer(MemoryHistoryRequest(id=memory, include_private=include_private), tables_common.history)
