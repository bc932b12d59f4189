"""Maintenance: everything that is done with what was said, after it was said."""

import click

from elytron_cli import work_tables
from elytron_cli.commands.writing import conversation_scope
from elytron_cli.options import command, common
from elytron_cli.output import Output
from elytron_cli.running import run
from elytron_cli.session import Session
from elytron_core import limits
from elytron_core.contracts.maintaining import Extraction, MemoryMaintainRequest, MemoryMaintenanceReport
from elytron_core.planes.jobs import Pass


@command("maintain")
@click.option("--conversation", metavar="NAME", help="Which conversation's turns to look at.")
@click.option("--channel", metavar="NAME", help="The channel of the conversation.")
@click.option(
    "--extraction",
    type=click.Choice([member.value for member in Extraction]),
    default=Extraction.AUTO.value,
    show_default=True,
    help="How lasting facts are drawn from turns; auto is by the model where one is named, else by rules.",
)
@click.option(
    "--only", "passes", multiple=True, type=click.Choice([member.value for member in Pass]), help="Only this part."
)
@click.option(
    "--turns",
    type=click.IntRange(1, limits.MAINTAIN_TURNS),
    default=limits.MAINTAIN_TURNS,
    show_default=True,
    help="How many turns to look at, at most.",
)
@common
def maintain(
    *, conversation: str | None, channel: str | None, extraction: str, passes: tuple[str, ...], turns: int
) -> int | None:
    """Look at the turns that nobody has looked at yet, and keep memory in order; each part says what it came to."""

    async def work(session: Session, out: Output) -> None:
        request = MemoryMaintainRequest(
            scope=conversation_scope(session, conversation, channel=channel),
            extraction=Extraction(extraction),
            passes=tuple(Pass(name) for name in passes) or tuple(Pass),
            turns_max=turns,
        )
        report = await session.call(request, MemoryMaintenanceReport)
        out.report(report, lambda console: work_tables.maintained(console, report))

    return run(work)
