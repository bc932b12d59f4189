"""Commands for a host's tool registries and for what their use has taught."""

from pathlib import Path

import click

from elytron_cli.input.options import PageGroup, common_options, dry_run_option, yes_option
from elytron_cli.input.values import read_value
from elytron_cli.session import answer_request, run_output, storing_missing
from elytron_cli.tables import tools
from elytron_cli.terminal.output import confirm_question
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
from elytron_core.contracts.transcript import MemoryWriteReport, MemoryWriteRequest, WriteOutcome
from elytron_core.planes.tools import AgentToolRegistrySnapshot
from elytron_core.policy.tools import with_fingerprints
from elytron_store import WhenMissing

REFUSED = 2
_FILE = click.argument("file", type=click.Path(path_type=Path))


@click.group("tools", cls=PageGroup)
@common_options
def tools_group() -> None:
    """Register the tools of a host, and show what was learned from their use. The tools stay with the host."""


@tools_group.command("list")
@common_options
def list_registries() -> int | None:
    """List the registries of the space."""
    return answer_request(AgentToolRegistryListRequest(), tools.show_registries)


@tools_group.command("show")
@click.argument("registry")
@common_options
def show_command(*, registry: str) -> int | None:
    """Show the registry with the id REGISTRY."""
    return answer_request(AgentToolRegistryGetRequest(registry_id=registry), tools.show_registry)


@tools_group.command("fingerprint")
@_FILE
@common_options
def fingerprint_command(*, file: Path) -> None:
    """Print the registry snapshot in FILE (JSON) with its fingerprints; nothing is stored."""
    snapshot = with_fingerprints(read_value(AgentToolRegistrySnapshot, file))
    run_output().report(snapshot, lambda console, _: console.print(snapshot.fingerprint))


@tools_group.command("register")
@_FILE
@common_options
def register_command(*, file: Path) -> int | None:
    """Register the snapshot in FILE (JSON), replacing the registry with its id."""

    def code(report: AgentToolRegistryUpsertReport) -> int | None:
        return None if report.accepted else REFUSED

    request = AgentToolRegistryUpsertRequest(snapshot=read_value(AgentToolRegistrySnapshot, file))
    return answer_request(request, tools.show_registered, code=code, when_missing=WhenMissing.MAKE)


@tools_group.command("delete")
@click.argument("registry")
@yes_option
@common_options
def delete_command(*, registry: str, yes: bool) -> int | None:
    """Remove the registry with the id REGISTRY; what was learned about its tools stays."""
    confirm_question(f"Remove the registry {registry!r}?", yes=yes)
    return answer_request(AgentToolRegistryDeleteRequest(registry_id=registry), tools.show_registry_deleted)


@tools_group.command("feedback")
@_FILE
@dry_run_option("Show the result without storing it.")
@common_options
def feedback_command(*, file: Path, dry_run: bool) -> int | None:
    """Submit the usage feedback in FILE (JSON), and show the governance decisions."""

    def code(report: MemoryWriteReport) -> int | None:
        return REFUSED if report.count(WriteOutcome.REJECTED) else None

    feedback_write = AgentToolUsageFeedbackWrite(feedback=read_value(AgentToolUsageFeedback, file))
    request = MemoryWriteRequest(write=feedback_write, dry_run=dry_run)
    return answer_request(request, tools.show_judgement, code=code, when_missing=storing_missing(dry_run=dry_run))


@tools_group.command("hints")
@click.argument("query", default="tools")
@common_options
def hints_command(*, query: str) -> int | None:
    """Show the hints that a recall of QUERY would include, and why others are left out."""
    request = MemoryRecallRequest(query=query, limit=limits.RECALL_DEFAULT)
    return answer_request(request, tools.show_hints)
