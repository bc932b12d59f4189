"""Notes on a conversation's days, and private documents of a persona."""

import click

from elytron_cli.commands.conversation.continuity import write_plane
from elytron_cli.input.options import Group, OneOf, choosing, common, in_conversation
from elytron_cli.input.values import valid
from elytron_cli.runner import answer, scope_of
from elytron_cli.tables import planes
from elytron_core.contracts.conversation.continuity import ContinuityRequest
from elytron_core.contracts.knowledge.subjects import GardenAudience, GardenRequest
from elytron_core.contracts.planes import GardenDraft, GardenWrite, NoteDraft, NotesWrite
from elytron_core.planes.knowledge.garden import GardenRole


@click.group("notes", cls=Group)
@common
def notes() -> None:
    """See and write what days and months held."""


@notes.command("list")
@in_conversation
@common
def list_notes(*, conversation: str | None) -> int | None:
    """Show the conversation's notes, the latest first."""
    return answer(ContinuityRequest(scope=scope_of(conversation)), planes.notes_shown)


@notes.command("write")
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


@garden.command("list")
@choosing("--audience", GardenAudience.OWNER, "For whom.")
@in_conversation
@common
def list_garden(*, audience: GardenAudience, conversation: str | None) -> int | None:
    """Show the private documents that the audience may see."""
    return answer(GardenRequest(scope=scope_of(conversation), audience=audience), planes.garden_shown)


@garden.command("write")
@click.argument("name")
@click.argument("text")
@click.option("--role", type=OneOf(GardenRole), required=True, help="What it is for.")
@in_conversation
@common
def write_garden(*, name: str, text: str, role: GardenRole, conversation: str | None) -> int | None:
    """Write the private document NAME, in place of one of that name."""
    draft = valid(GardenDraft, name=name, text=text, role=role)
    return write_plane(GardenWrite(documents=(draft,)), conversation)
