"""A conversation's turns as one audience may see them, and the life of their raw text."""

from typing import Any

import click

from elytron_adapter.failures import EXIT_DAMAGE
from elytron_cli.input.options import Group, OneOf, asking, choosing, common, paged, reasoned
from elytron_cli.runner import answer, scope_of
from elytron_cli.tables import transcript as tables_transcript
from elytron_cli.terminal.confirmation import confirm
from elytron_core.contracts.conversation.transcript import (
    MemoryTranscriptExportRequest,
    MemoryTranscriptLifecycleRequest,
    MemoryTranscriptRepairReport,
    MemoryTranscriptRepairRequest,
    MemoryTranscriptReplayRequest,
    TranscriptLifecycleTransition,
    TranscriptReplayView,
)

_WHERE = click.option("--conversation", metavar="NAME", help="Whose turns.")
_PAGE = paged("Turns on a page.")


@click.group("transcript", cls=Group)
@common
def transcript() -> None:
    """Show a conversation as one audience may see it, put its text away or delete it, check its links."""


@transcript.command("replay")
@_WHERE
@choosing("--view", TranscriptReplayView.HOST_UI, "Whose eyes.")
@_PAGE
@common
def replay(*, conversation: str | None, **asked: Any) -> int | None:
    """Show turns as the view may see them, and what was left out and why."""
    return answer(MemoryTranscriptReplayRequest(scope=scope_of(conversation), **asked), tables_transcript.viewed)


@transcript.command("export")
@_WHERE
@_PAGE
@common
def export(*, conversation: str | None, **asked: Any) -> int | None:
    """Show turns as they may leave the house: the export view."""
    return answer(MemoryTranscriptExportRequest(scope=scope_of(conversation), **asked), tables_transcript.viewed)


@transcript.command("lifecycle")
@click.argument("transition", type=OneOf(TranscriptLifecycleTransition))
@click.argument("turns", nargs=-1, metavar="[TURN]...")
@_WHERE
@reasoned("Why; the report holds it.")
@asking
@common
def lifecycle(
    *,
    transition: TranscriptLifecycleTransition,
    turns: tuple[str, ...],
    conversation: str | None,
    reason: str,
    yes: bool,
) -> int | None:
    """Archive, restore, mask or delete the raw text of TURNs, or of the whole conversation; review changes nothing."""
    if transition is TranscriptLifecycleTransition.DELETE_RAW:
        what = f"{len(turns)} turns" if turns else "the whole conversation"
        confirm(f"Delete the text of {what}, with no way back?", yes=yes)
    scope = scope_of(conversation)
    request = MemoryTranscriptLifecycleRequest(scope=scope, transition=transition, turn_ids=turns, reason=reason)
    return answer(request, tables_transcript.turned)


@transcript.command("repair")
@_WHERE
@common
def repair(*, conversation: str | None) -> int | None:
    """Say which links of the conversation are broken. Exits with 13 if any is."""

    def code(report: MemoryTranscriptRepairReport) -> int | None:
        return EXIT_DAMAGE if report.fail_closed else None

    return answer(MemoryTranscriptRepairRequest(scope=scope_of(conversation)), tables_transcript.checked, code=code)
