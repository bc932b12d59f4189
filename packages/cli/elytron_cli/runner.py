"""From a parsed command line to an open session and an output."""

import asyncio
import os
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import click

from elytron_cli.config import RunSettings, resolve_settings
from elytron_cli.input.files import valid_value
from elytron_cli.input.options import as_json, global_options
from elytron_cli.session import CommandSession, open_session, scope_fields
from elytron_cli.terminal.output import CommandOutput, ProgressBar
from elytron_core.errors import KeyDestroyed, SpaceIncomplete, SpaceLocked, StoreCorrupt
from elytron_core.ids import SYSTEM_SPACE
from elytron_core.model import OperationRequest, Value
from elytron_core.scope import Scope
from elytron_store import WhenMissing

if TYPE_CHECKING:
    from rich.console import Console

ReportT = TypeVar("ReportT", bound=Value)

SPACES_NAMED = 5


def run_settings() -> RunSettings:
    """Return the settings of this run."""
    return resolve_settings(global_options(click.get_current_context()), environment=os.environ, folder=Path.cwd())


def run_output() -> CommandOutput:
    """Return where this run prints."""
    return CommandOutput(as_json(click.get_current_context()))


def run_work(
    work: Callable[[CommandSession, CommandOutput], Awaitable[int | None]],
    /,
    *,
    when_missing: WhenMissing = WhenMissing.REFUSE,
    hints: bool = True,
) -> int | None:
    """Open the store, do `work`, close; return its exit code. Raises StoreMissing.

    A command that only reads gives a hint if its space is empty and the store has others.
    """
    found, out = run_settings(), run_output()

    async def whole() -> int | None:
        with ProgressBar("indexing", unit="entries", shown=not out.is_json, unasked=True) as bar:
            async with open_session(found, when_missing=when_missing, progress=bar.at, loads_search=False) as session:
                session.runtime.context.entries.add("cli")
                hint = await _other_spaces(session) if hints and when_missing is WhenMissing.REFUSE else None
                code = await work(session, out)
                if hint is not None:
                    out.hint(hint)
                return code

    return asyncio.run(whole())


def answer_request(
    request: OperationRequest[ReportT],
    show: Callable[["Console", ReportT], None],
    /,
    *,
    code: Callable[[ReportT], int | None] | None = None,
    when_missing: WhenMissing = WhenMissing.REFUSE,
    hints: bool = True,
) -> int | None:
    """Perform `request` and print its report, which `show` does at a terminal; return the exit code it has by `code`.

    Raises StoreMissing.
    """

    async def work(session: CommandSession, out: CommandOutput) -> int | None:
        report = await session.call(request)
        out.report(report, show)
        return code(report) if code is not None else None

    return run_work(work, when_missing=when_missing, hints=hints)


def scope_of(conversation: str | None, /) -> Scope:
    """Return the scope of this run, in the conversation that is named."""
    named = {"conversation": conversation, "chat": None} if conversation is not None else {}
    return valid_value(Scope, **(scope_fields(run_settings()) | named))


def storing_missing(*, dry_run: bool) -> WhenMissing:
    """Return how a command that writes opens a missing store: it makes one, and a dry run only pretends to."""
    return WhenMissing.PRETEND if dry_run else WhenMissing.MAKE


async def _other_spaces(session: CommandSession) -> str | None:
    """Return a hint that names a few other spaces if the session's own was never written to."""
    context = session.runtime.context
    try:
        if session.scope is None or await context.spaces.find(session.scope.space) is not None:
            return None
    except (
        StoreCorrupt,
        SpaceLocked,
        SpaceIncomplete,
        KeyDestroyed,
    ):  # the command says so itself, or is one that needs not read it
        return None
    found = [space for space in await context.store.spaces(limit=SPACES_NAMED + 2) if space != SYSTEM_SPACE]
    if not found:
        return None
    told = ", ".join(repr(space) for space in found[:SPACES_NAMED])
    more = " and others (`elytron spaces`)" if len(found) > SPACES_NAMED else ""
    return f"the space {session.scope.space!r} is empty; this store has {told}{more}: name one with --space"
