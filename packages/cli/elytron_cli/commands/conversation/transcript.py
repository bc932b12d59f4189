"""A conversation's turns as one audience may see them, and the life of their raw text."""

from collections.abc import Callable
from typing import Any, TypeVar

import click

from elytron_adapter.failures import EXIT_DAMAGE
from elytron_cli.commands.conversation.write import conversation_scope
from elytron_cli.input.options import Command, Group, asking, common, limited
from elytron_cli.runner import run
from elytron_cli.session import Session
from elytron_cli.tables import transcript as tables_transcript
from elytron_cli.terminal.confirmation import confirm
from elytron_cli.terminal.output import Output
from elytron_core.contracts.conversation.transcript import (
    MemoryTranscriptExportReport,
    MemoryTranscriptExportRequest,
    MemoryTranscriptLifecycleReport,
    MemoryTranscriptLifecycleRequest,
    MemoryTranscriptRepairReport,
    MemoryTranscriptRepairRequest,
    MemoryTranscriptReplayReport,
    MemoryTranscriptReplayRequest,
    TranscriptLifecycleTransition,
    TranscriptReplayView,
)

Body = TypeVar("Body", bound=Callable[..., Any])

_WHERE = (click.option("--conversation", metavar="NAME", help="Whose turns."),)
_PAGE = (
    limited("Turns on a page."),
    click.option("--cursor", metavar="CURSOR", help="Continue behind an earlier page."),
)
_VIEWS = click.Choice([view.value for view in TranscriptReplayView])


def _options(*options: Callable[[Any], Any]) -> Callable[[Body], Body]:
    def add(body: Body) -> Body:
        for option in reversed(options):
            body = option(body)
        return body

    return add


@click.group("transcript", cls=Group)
@common
def transcript() -> None:
    """Show a conversation as one audience may see it, put its text away or delete it, check its links."""


@transcript.command("replay", cls=Command)
@_options(*_WHERE)
@click.option("--view", type=_VIEWS, default=TranscriptReplayView.HOST_UI.value, show_default=True, help="Whose eyes.")
@_options(*_PAGE)
@common
def replay(*, conversation: str | None, view: str, limit: int, cursor: str | None) -> int | None:
    """Show turns as the view may see them, and what was left out and why."""

    async def work(session: Session, out: Output) -> None:
        scope = conversation_scope(session, conversation)
        request = MemoryTranscriptReplayRequest(
            scope=scope, view=TranscriptReplayView(view), limit=limit, cursor=cursor
        )
        report = await session.call(request, MemoryTranscriptReplayReport)
        out.report(report, lambda console: tables_transcript.viewed(console, report))

    return run(work)


@transcript.command("export", cls=Command)
@_options(*_WHERE, *_PAGE)
@common
def export(*, conversation: str | None, limit: int, cursor: str | None) -> int | None:
    """Show turns as they may leave the house: the export view."""

    async def work(session: Session, out: Output) -> None:
        scope = conversation_scope(session, conversation)
        request = MemoryTranscriptExportRequest(scope=scope, limit=limit, cursor=cursor)
        report = await session.call(request, MemoryTranscriptExportReport)
        out.report(report, lambda console: tables_transcript.viewed(console, report))

    return run(work)


@transcript.command("lifecycle", cls=Command)
@click.argument("transition", type=click.Choice([one.value for one in TranscriptLifecycleTransition]))
@click.argument("turns", nargs=-1, metavar="[TURN]...")
@_options(*_WHERE)
@click.option("--reason", default="", metavar="TEXT", help="Why; it stands in the report.")
@asking
@common
def lifecycle(
    *, transition: str, turns: tuple[str, ...], conversation: str | None, reason: str, yes: bool
) -> int | None:
    """Archive, restore, mask or delete the raw text of TURNs, or of the whole conversation; review changes nothing."""
    if transition == TranscriptLifecycleTransition.DELETE_RAW:
        what = f"{len(turns)} turns" if turns else "the whole conversation"
        confirm(f"Delete the text of {what}, with no way back?", yes=yes)

    async def work(session: Session, out: Output) -> None:
        request = MemoryTranscriptLifecycleRequest(
            scope=conversation_scope(session, conversation),
            transition=TranscriptLifecycleTransition(transition),
            turn_ids=turns,
            reason=reason,
        )
        report = await session.call(request, MemoryTranscriptLifecycleReport)
        out.report(report, lambda console: tables_transcript.turned(console, report))

    return run(work)


@transcript.command("repair", cls=Command)
@_options(*_WHERE)
@common
def repair(*, conversation: str | None) -> int | None:
    """Say which links of the conversation are broken. Exits with 13 if any is."""

    async def work(session: Session, out: Output) -> int | None:
        request = MemoryTranscriptRepairRequest(scope=conversation_scope(session, conversation))
        report = await session.call(request, MemoryTranscriptRepairReport)
        out.report(report, lambda console: tables_transcript.checked(console, report))
        return EXIT_DAMAGE if report.fail_closed else None

    return run(work)
