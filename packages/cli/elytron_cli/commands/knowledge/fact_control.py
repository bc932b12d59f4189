"""Long-term control at the command line: facts listed, shown, changed, forgotten, and what is not learned."""

from typing import Any

import click

from elytron_cli.input.options import Command, asking, common, disclosing, in_conversation, limited, told
from elytron_cli.input.values import valid
from elytron_cli.runner import run
from elytron_cli.session import Session
from elytron_cli.tables import facts
from elytron_cli.terminal.confirmation import at_terminal, confirm
from elytron_cli.terminal.output import Output
from elytron_core.clock import instant
from elytron_core.contracts.knowledge.facts import (
    FactAction,
    FactChangeReport,
    FactChangeRequest,
    FactDetailReport,
    FactDetailRequest,
    FactForgetReport,
    FactForgetRequest,
    FactListReport,
    FactListRequest,
    LearningReport,
    LearningRequest,
)
from elytron_core.planes.knowledge.learning_rules import LearningAction
from elytron_core.planes.knowledge.long_term import Kind, Privacy, Reach, State

_REASON = click.option("--reason", default="", metavar="TEXT", help="Why; it is kept in the history.")
_DRY_RUN = click.option("--dry-run", is_flag=True, help="Only say what would be done.")
_VERSION = click.option("--expect", metavar="VERSION", help="Only if this is its version still, as `facts show` told.")


@click.command("list", cls=Command)
@click.argument("query", default="")
@click.option(
    "--state",
    "states",
    multiple=True,
    type=click.Choice([state.value for state in State]),
    default=(State.ACTIVE.value,),
    show_default=True,
    help="In which state; may be repeated.",
)
@click.option("--kind", "kinds", multiple=True, type=click.Choice([kind.value for kind in Kind]), help="Of which kind.")
@disclosing
@limited("How many facts to show at most.")
@click.option("--cursor", metavar="CURSOR", help="Continue behind an earlier page.")
@common
def list_facts(**asked: Any) -> int | None:
    """Show the facts that hold every word of QUERY, with what they are worth, and what is not learned."""
    request = valid(FactListRequest, **asked)

    async def work(session: Session, out: Output) -> None:
        report = await session.call(request, FactListReport)
        out.report(report, lambda console: facts.listed(console, report))

    return run(work)


@click.command("show", cls=Command)
@click.argument("fact")
@disclosing
@common
def show(*, fact: str, include_private: bool) -> int | None:
    """Show the fact with the id FACT in full, in any state."""
    request = valid(FactDetailRequest, id=fact, include_private=include_private)

    async def work(session: Session, out: Output) -> None:
        report = await session.call(request, FactDetailReport)
        out.report(report, lambda console: facts.shown(console, report))

    return run(work)


@click.command("correct", cls=Command)
@click.argument("fact")
@click.argument("text")
@_VERSION
@_REASON
@_DRY_RUN
@common
def correct(*, fact: str, text: str, expect: str | None, reason: str, dry_run: bool) -> int | None:
    """Put TEXT in the place of the fact with the id FACT, which was wrong; history stays."""
    return _change(
        id=fact,
        action=FactAction.CORRECT,
        content=text,
        expected_version=expect,
        reason=reason,
        dry_run=dry_run,
    )


@click.command("change", cls=Command)
@click.argument("fact")
@click.argument("action", type=click.Choice([action.value for action in FactAction]))
@click.option("--content", metavar="TEXT", help="For correct and supersede: what takes its place.")
@click.option("--at", metavar="WHEN", help="For supersede and invalidate: since when, in ISO 8601; now without it.")
@click.option("--privacy", type=click.Choice([one.value for one in Privacy]), help="For change_privacy.")
@click.option("--reach", type=click.Choice([one.value for one in Reach]), help="For change_scope.")
@in_conversation
@_VERSION
@_REASON
@_DRY_RUN
@common
def change(*, at: str | None, fact: str, expect: str | None, conversation: str | None, **asked: Any) -> int | None:
    """Correct, supersede, delete, mark stale or invalidate a fact, or change its privacy or scope."""
    moment = instant(at, field="--at") if at is not None else None
    channel = told(click.get_current_context()).get("channel")
    where = {name: value for name, value in (("conversation", conversation), ("channel", channel)) if value}
    return _change(id=fact, at=moment, expected_version=expect, where=where, **asked)


@click.command("forget", cls=Command)
@click.argument("query")
@click.option("--kind", "kinds", multiple=True, type=click.Choice([kind.value for kind in Kind]), help="Of which kind.")
@disclosing
@click.option("--token", metavar="TOKEN", help="Of a dry run: forget what it named, without asking.")
@asking
@_REASON
@_DRY_RUN
@common
def forget(
    *,
    query: str,
    kinds: tuple[str, ...],
    include_private: bool,
    token: str | None,
    yes: bool,
    reason: str,
    dry_run: bool,
) -> int | None:
    """Forget every fact that holds each word of QUERY; it is named first, and not learned again until allowed."""
    asked: dict[str, Any] = {"query": query, "kinds": kinds, "include_private": include_private, "reason": reason}
    first = valid(FactForgetRequest, **asked, token=token, dry_run=dry_run or token is None)

    async def work(session: Session, out: Output) -> None:
        report = await session.call(first, FactForgetReport)
        may_go_on = not dry_run and token is None and report.items and (yes or at_terminal())
        if may_go_on:
            if not yes:
                out.report(report, lambda console: facts.forgotten(console, report))
            confirm(f"Forget these {len(report.items)} facts?", yes=yes)
            report = await session.call(valid(FactForgetRequest, **asked, token=report.token), FactForgetReport)
        out.report(report, lambda console: facts.forgotten(console, report))

    return run(work)


def _change(*, where: dict[str, str] | None = None, **asked: Any) -> int | None:
    async def work(session: Session, out: Output) -> None:
        scope = session.scope.model_copy(update=where) if where and session.scope is not None else None
        report = await session.call(valid(FactChangeRequest, scope=scope, **asked), FactChangeReport)
        out.report(report, lambda console: facts.changed(console, report))

    return run(work)


def _learning(name: str, action: LearningAction, told: str, *, needs_topic: bool) -> click.Command:
    """Return the command that does `action`."""

    @click.command(name, cls=Command, help=told)
    @click.argument("topic", required=needs_topic)
    @_REASON
    @_DRY_RUN
    @common
    def command(*, topic: str | None, reason: str, dry_run: bool) -> int | None:
        request = valid(LearningRequest, action=action, topic=topic, reason=reason, dry_run=dry_run)

        async def work(session: Session, out: Output) -> None:
            report = await session.call(request, LearningReport)
            out.report(report, lambda console: facts.learned(console, report))

        return run(work)

    return command


CONTROL: tuple[click.Command, ...] = (
    list_facts,
    show,
    correct,
    change,
    forget,
    _learning("pause", LearningAction.PAUSE, "Learn nothing, or not about TOPIC, until resumed.", needs_topic=False),
    _learning("resume", LearningAction.RESUME, "Learn again what was paused.", needs_topic=False),
    _learning("suppress", LearningAction.SUPPRESS, "Learn nothing about TOPIC until it is allowed.", needs_topic=True),
    _learning(
        "allow", LearningAction.ALLOW, "Learn about TOPIC again, also what was forgotten of it.", needs_topic=True
    ),
)
"""The commands of `elytron facts` beside add and merge."""
