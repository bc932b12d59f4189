"""Registries of a host's tools, and what use has taught of them."""

from pathlib import Path

import click

from elytron_cli.input.files import read_value
from elytron_cli.input.options import Group, asking, common, dry
from elytron_cli.runner import answer, output, storing
from elytron_cli.tables import jobs as tables_tools
from elytron_cli.terminal.confirmation import confirm
from elytron_core import limits
from elytron_core.contracts.recall import MemoryRecallRequest
from elytron_core.contracts.tools import (
    AgentToolRegistryDeleteRequest,
    AgentToolRegistryGetRequest,
    AgentToolRegistryListRequest,
    AgentToolRegistryUpsertReport,
    AgentToolRegistryUpsertRequest,
    AgentToolUsageFeedback,
    AgentToolUsageFeedbackWrite,
)
from elytron_core.contracts.transcript import MemoryWriteReport, MemoryWriteRequest, Outcome
from elytron_core.planes.tools import AgentToolRegistrySnapshot
from elytron_core.policy.tools import with_fingerprints
from elytron_store import WhenMissing

REFUSED = 2
_FILE = click.argument("file", type=click.Path(path_type=Path))


@click.group("tools", cls=Group)
@common
def tools() -> None:
    """Tell memory which tools your host has, and see what use has taught of them. The tools stay with the host."""


@tools.command("list")
@common
def list_registries() -> int | None:
    """List the registries of the space."""
    return answer(AgentToolRegistryListRequest(), tables_tools.listed)


@tools.command("show")
@click.argument("registry")
@common
def show(*, registry: str) -> int | None:
    """Show the registry with the id REGISTRY."""
    return answer(AgentToolRegistryGetRequest(registry_id=registry), tables_tools.shown)


@tools.command("fingerprint")
@_FILE
@common
def fingerprint(*, file: Path) -> None:
    """Print the snapshot in FILE (JSON) with the fingerprints that it has; nothing is stored."""
    snapshot = with_fingerprints(read_value(AgentToolRegistrySnapshot, file))
    output().report(snapshot, lambda console, _: console.print(snapshot.fingerprint))


@tools.command("register")
@_FILE
@common
def register(*, file: Path) -> int | None:
    """Register the snapshot in FILE (JSON), in the place of the one that had its id."""

    def code(report: AgentToolRegistryUpsertReport) -> int | None:
        return None if report.accepted else REFUSED

    request = AgentToolRegistryUpsertRequest(snapshot=read_value(AgentToolRegistrySnapshot, file))
    return answer(request, tables_tools.registered, code=code, when_missing=WhenMissing.MAKE)


@tools.command("delete")
@click.argument("registry")
@asking
@common
def delete(*, registry: str, yes: bool) -> int | None:
    """Remove the registry with the id REGISTRY; what was learned of its tools stays."""
    confirm(f"Remove the registry {registry!r}?", yes=yes)
    return answer(AgentToolRegistryDeleteRequest(registry_id=registry), tables_tools.deleted)


@tools.command("feedback")
@_FILE
@dry("Only say what would become of it.")
@common
def feedback(*, file: Path, dry_run: bool) -> int | None:
    """Write the usage feedback in FILE (JSON), and say what governance made of it."""

    def code(report: MemoryWriteReport) -> int | None:
        return REFUSED if report.count(Outcome.REJECTED) else None

    write = AgentToolUsageFeedbackWrite(feedback=read_value(AgentToolUsageFeedback, file))
    request = MemoryWriteRequest(write=write, dry_run=dry_run)
    return answer(request, tables_tools.judged, code=code, when_missing=storing(dry_run=dry_run))


@tools.command("hints")
@click.argument("query", default="tools")
@common
def hints(*, query: str) -> int | None:
    """Show the hints that a recall of QUERY would bring, and why others are left out."""
    request = MemoryRecallRequest(query=query, limit=limits.RECALL_DEFAULT)
    return answer(request, tables_tools.hinted)
