"""Facts: stated in plain words, and folded together if they say nearly the same."""

import click

from elytron_cli.commands.conversation.write import receipt
from elytron_cli.commands.knowledge.fact_control import CONTROL
from elytron_cli.input.options import Command, Group, command, common, disclosing, limited
from elytron_cli.input.values import valid
from elytron_cli.runner import run
from elytron_cli.session import Session
from elytron_cli.tables import facts as tables_facts
from elytron_cli.tables import planes
from elytron_cli.terminal.output import Output
from elytron_core import limits
from elytron_core.clock import instant
from elytron_core.contracts.conversation.candidates import MemoryMergeReport, MemoryMergeRequest
from elytron_core.contracts.conversation.write import FactDraft, LongTermExtraction, MemoryWriteRequest
from elytron_core.contracts.knowledge.facts import ProfileReport, ProfileRequest, ProfileWording
from elytron_core.planes.knowledge.long_term import Authority, Kind
from elytron_store import WhenMissing


@click.group("facts", cls=Group)
@common
def facts() -> None:
    """State facts, read and change them, forget them by query, and say what is not to be learned."""


for _command in CONTROL:
    facts.add_command(_command)


@facts.command("add", cls=Command)
@click.argument("topic")
@click.argument("content")
@click.option(
    "--kind",
    type=click.Choice([kind.value for kind in Kind]),
    default=Kind.FACT.value,
    show_default=True,
    help="What it is about.",
)
@click.option(
    "--authority",
    type=click.Choice([authority.value for authority in Authority]),
    default=Authority.OPERATOR.value,
    show_default=True,
    help="Who vouches for it.",
)
@click.option("--at", metavar="WHEN", help="When it was observed, in ISO 8601; now, where nothing is given.")
@click.option("--citation", "citations", multiple=True, metavar="ID", help="A message it rests on; may be repeated.")
@click.option("--dry-run", is_flag=True, help="Only say what would be decided.")
@common
def add(
    *,
    topic: str,
    content: str,
    kind: str,
    authority: str,
    at: str | None,
    citations: tuple[str, ...],
    dry_run: bool,
) -> int | None:
    """Propose CONTENT as the current fact on TOPIC; admission judges it, and says why it refuses one."""
    seen = instant(at, field="--at") if at is not None else None
    draft: FactDraft = valid(
        FactDraft,
        topic=topic,
        content=content,
        fact_kind=kind,
        authority=authority,
        citations=citations,
        observed_at=seen,
    )

    async def work(session: Session, out: Output) -> None:
        write = LongTermExtraction(facts=(draft,))
        report = await session.write(MemoryWriteRequest(scope=session.scope, write=write, dry_run=dry_run))
        out.report(report, lambda console: console.print(receipt(report)))

    return run(work, when_missing=WhenMissing.PRETEND if dry_run else WhenMissing.MAKE)


@facts.command("merge", cls=Command)
@limited("How many pairs to fold at most.", most=limits.WRITES_PER_REQUEST)
@click.option("--undo", multiple=True, metavar="FACT", help="Bring this folded fact back instead; may be repeated.")
@click.option("--dry-run", is_flag=True, help="Only say what would be done.")
@common
def merge(*, limit: int, undo: tuple[str, ...], dry_run: bool) -> int | None:
    """Fold each fact that says nearly what another does into the surer of the two; history and citations stay."""
    request = valid(MemoryMergeRequest, limit=limit, undo=undo, dry_run=dry_run)

    async def work(session: Session, out: Output) -> None:
        report = await session.call(request, MemoryMergeReport)
        out.report(report, lambda console: planes.facts_merged(console, report))

    return run(work)


@command("profile")
@click.argument("person", default="")
@click.option("--as-of", metavar="WHEN", help="What held at this time, in ISO 8601.")
@click.option("--known-at", metavar="WHEN", help="What was believed at this time.")
@click.option("--written", is_flag=True, help="Have the language model word it; each sentence cites its facts.")
@disclosing
@limited("How many facts to show at most.", most=limits.PROFILE_LINES_MAX, usual=limits.PROFILE_LINES)
@common
def profile(
    *, person: str, as_of: str | None, known_at: str | None, written: bool, include_private: bool, limit: int
) -> int | None:
    """Show what is known of PERSON, grouped and cited; without a name, of the owner of the space."""
    request = ProfileRequest(
        person=person,
        as_of=instant(as_of, field="--as-of") if as_of is not None else None,
        known_at=instant(known_at, field="--known-at") if known_at is not None else None,
        wording=ProfileWording.MODEL if written else ProfileWording.RULES,
        include_private=include_private,
        limit=limit,
    )

    async def work(session: Session, out: Output) -> None:
        report = await session.call(request, ProfileReport)
        out.report(report, lambda console: tables_facts.profiled(console, report))

    return run(work)
