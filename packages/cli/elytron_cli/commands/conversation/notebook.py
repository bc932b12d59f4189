"""Notes on a conversation's days, and private documents of a persona."""

import click

from elytron_cli.commands.conversation.continuity import write_plane
from elytron_cli.commands.conversation.write import conversation_scope
from elytron_cli.input.options import Command, Group, common, in_conversation
from elytron_cli.input.values import valid
from elytron_cli.runner import run
from elytron_cli.session import Session
from elytron_cli.tables import planes
from elytron_cli.terminal.output import Output
from elytron_core.contracts.conversation.continuity import ContinuityReport, ContinuityRequest
from elytron_core.contracts.knowledge.subjects import GardenAudience, GardenReport, GardenRequest
from elytron_core.contracts.planes import GardenDraft, GardenWrite, NoteDraft, NotesWrite
from elytron_core.planes.knowledge.garden import GardenRole

_AUDIENCES = click.Choice([one.value for one in GardenAudience])
_ROLES = click.Choice([one.value for one in GardenRole])


@click.group("notes", cls=Group)
@common
def notes() -> None:
    """See and write what days and months held."""


@notes.command("list", cls=Command)
@in_conversation
@common
def list_notes(*, conversation: str | None) -> int | None:
    """Show the conversation's notes, the latest first."""

    async def work(session: Session, out: Output) -> None:
        scope = conversation_scope(session, conversation)
        report = await session.call(ContinuityRequest(scope=scope), ContinuityReport)
        out.report(report, lambda console: planes.notes_shown(console, report.notes))

    return run(work)


@notes.command("write", cls=Command)
@click.argument("period")
@click.argument("text")
@in_conversation
@common
def write_note(*, period: str, text: str, conversation: str | None) -> int | None:
    """Write what PERIOD held, a day (2026-08-01) or a month (2026-08), in place of what was written before."""
    return write_plane(NotesWrite(notes=(valid(NoteDraft, period=period, text=text),)), conversation)


@click.group("garden", cls=Group)
@common
def garden() -> None:
    """See and write what a persona keeps to itself in a conversation."""


@garden.command("list", cls=Command)
@click.option("--audience", type=_AUDIENCES, default=GardenAudience.OWNER.value, show_default=True, help="For whom.")
@in_conversation
@common
def list_garden(*, audience: str, conversation: str | None) -> int | None:
    """Show the private documents that the audience may see."""

    async def work(session: Session, out: Output) -> None:
        scope = conversation_scope(session, conversation)
        report = await session.call(GardenRequest(scope=scope, audience=GardenAudience(audience)), GardenReport)
        out.report(report, lambda console: planes.garden_shown(console, report))

    return run(work)


@garden.command("write", cls=Command)
@click.argument("name")
@click.argument("text")
@click.option("--role", type=_ROLES, required=True, help="What it is for.")
@in_conversation
@common
def write_garden(*, name: str, text: str, role: str, conversation: str | None) -> int | None:
    """Write the private document NAME, in place of one of that name."""
    draft = valid(GardenDraft, name=name, text=text, role=GardenRole(role))
    return write_plane(GardenWrite(documents=(draft,)), conversation)
