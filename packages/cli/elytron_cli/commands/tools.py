"""Registries of a host's tools, and what use has taught of them."""

from pathlib import Path

import click

from elytron_cli.input.files import read_value
from elytron_cli.input.options import Command, Group, asking, common
from elytron_cli.runner import output, run, storing
from elytron_cli.session import Session
from elytron_cli.tables import tools as tables_tools
from elytron_cli.terminal.confirmation import confirm
from elytron_cli.terminal.output import Output
from elytron_core import limits
from elytron_core.contracts.conversation.write import MemoryWriteRequest, Outcome
from elytron_core.contracts.knowledge.recall import MemoryRecallReport, MemoryRecallRequest
from elytron_core.contracts.tools import (
    AgentToolRegistryDeleteReport,
    AgentToolRegistryDeleteRequest,
    AgentToolRegistryGetReport,
    AgentToolRegistryGetRequest,
    AgentToolRegistryListReport,
    AgentToolRegistryListRequest,
    AgentToolRegistryUpsertReport,
    AgentToolRegistryUpsertRequest,
    AgentToolUsageFeedback,
    AgentToolUsageFeedbackWrite,
)
from elytron_core.planes.tools import AgentToolRegistrySnapshot
from elytron_core.policy.tools.fingerprints import with_fingerprints
from elytron_store import WhenMissing

REFUSED = 2
_FILE = click.argument("file", type=click.Path(path_type=Path))


@click.group("tools", cls=Group)
@common
def tools() -> None:
    """Tell memory which tools your host has, and see what use has taught of them. The tools stay with the host."""


@tools.command("list", cls=Command)
@common
def list_registries() -> int | None:
    """List the registries of the space."""

    async def work(session: Session, out: Output) -> None:
        report = await session.call(AgentToolRegistryListRequest(), AgentToolRegistryListReport)
        out.report(report, lambda console: tables_tools.listed(console, report))

    return run(work)


@tools.command("show", cls=Command)
@click.argument("registry")
@common
def show(*, registry: str) -> int | None:
    """Show the registry with the id REGISTRY."""
    request = AgentToolRegistryGetRequest(registry_id=registry)

    async def work(session: Session, out: Output) -> None:
        report = await session.call(request, AgentToolRegistryGetReport)
        out.report(report, lambda console: tables_tools.shown(console, report))

    return run(work)


@tools.command("fingerprint", cls=Command)
@_FILE
@common
def fingerprint(*, file: Path) -> None:
    """Print the snapshot in FILE (JSON) with the fingerprints that it has; nothing is stored."""
    snapshot = with_fingerprints(read_value(AgentToolRegistrySnapshot, file))
    output().report(snapshot, lambda console: console.print(snapshot.fingerprint))


@tools.command("register", cls=Command)
@_FILE
@common
def register(*, file: Path) -> int | None:
    """Register the snapshot in FILE (JSON), in the place of the one that had its id."""
    request = AgentToolRegistryUpsertRequest(snapshot=read_value(AgentToolRegistrySnapshot, file))

    async def work(session: Session, out: Output) -> int | None:
        report = await session.call(request, AgentToolRegistryUpsertReport)
        out.report(report, lambda console: tables_tools.registered(console, report))
        return None if report.accepted else REFUSED

    return run(work, when_missing=WhenMissing.MAKE)


@tools.command("delete", cls=Command)
@click.argument("registry")
@asking
@common
def delete(*, registry: str, yes: bool) -> int | None:
    """Remove the registry with the id REGISTRY; what was learned of its tools stays."""
    confirm(f"Remove the registry {registry!r}?", yes=yes)
    request = AgentToolRegistryDeleteRequest(registry_id=registry)

    async def work(session: Session, out: Output) -> None:
        report = await session.call(request, AgentToolRegistryDeleteReport)
        told = "deleted" if report.changed else "there is no registry"
        out.report(report, lambda console: console.print(f"{told} {registry}", soft_wrap=True))

    return run(work)


@tools.command("feedback", cls=Command)
@_FILE
@click.option("--dry-run", is_flag=True, help="Only say what would become of it.")
@common
def feedback(*, file: Path, dry_run: bool) -> int | None:
    """Write the usage feedback in FILE (JSON), and say what governance made of it."""
    write = AgentToolUsageFeedbackWrite(feedback=read_value(AgentToolUsageFeedback, file))
    request = MemoryWriteRequest(write=write, dry_run=dry_run)

    async def work(session: Session, out: Output) -> int | None:
        report = await session.write(request)
        out.report(report, lambda console: tables_tools.judged(console, report))
        return REFUSED if report.count(Outcome.REJECTED) else None

    return run(work, when_missing=storing(dry_run=dry_run))


@tools.command("hints", cls=Command)
@click.argument("query", default="tools")
@common
def hints(*, query: str) -> int | None:
    """Show the hints that a recall of QUERY would bring, and why others are left out."""
    request = MemoryRecallRequest(query=query, limit=limits.RECALL_DEFAULT)

    async def work(session: Session, out: Output) -> None:
        report = await session.call(request, MemoryRecallReport)
        out.report(report, lambda console: tables_tools.hinted(console, report))

    return run(work)
