"""The framework adapters of this installation, and their conformance tests."""

from typing import TYPE_CHECKING

import click

from elytron_cli.app import FAILURE
from elytron_cli.input.options import common_options
from elytron_cli.session import run_output
from elytron_cli.tables import layout as tables_layout
from elytron_integrations.conformance_runs import (
    IntegrationsReport,
    IntegrationStatus,
    check_integrations,
    integration_statuses,
)

if TYPE_CHECKING:
    from rich.console import Console
    from rich.text import Text

_WIDE = 100
"""Minimum columns for a framework and its versions on one line."""


@click.command("integrations")
@click.option("--check", is_flag=True, help="Run the conformance tests of each adapter. Needs a checkout and pytest.")
@common_options
def integrations_command(*, check: bool) -> int | None:
    """List the framework adapters with their versions, or check that they conform.

    With --check, exits with 1 if a test fails or the framework of an adapter is not installed.
    """
    report = IntegrationsReport(integrations=tuple(check_integrations())) if check else integration_statuses()
    run_output().report(report, _show_checks if check else _show_versions)
    return FAILURE if check and not all(status.conforms for status in report.integrations) else None


def _show_versions(console: "Console", report: IntegrationsReport) -> None:
    columns = ("module", "tested with", "installed")
    rows = ((status.module, _tested_text(console, status), _installed_text(status)) for status in report.integrations)
    tables_layout.show_table(console, columns, rows, whole=columns[:2])


def _show_checks(console: "Console", report: IntegrationsReport) -> None:
    columns = ("module", "installed", "passed", "failed")
    rows = (
        (
            status.module,
            _installed_text(status),
            status.passed_tests if status.passed_tests is not None else "not run",
            status.failed_tests if status.failed_tests is not None else "",
        )
        for status in report.integrations
    )
    tables_layout.show_table(console, columns, rows, numbers=columns[-2:], whole="module")


def _tested_text(console: "Console", status: IntegrationStatus) -> "Text":
    """Return the framework and its versions, on two lines if space is short."""
    from rich.text import Text

    versions = status.tested_with.removeprefix(status.distribution)
    return Text(f"{status.distribution}{'' if console.width >= _WIDE else chr(10)}{versions}")


def _installed_text(status: IntegrationStatus) -> str:
    if status.installed_version is None:
        return f"no: extra {status.extra}"
    return f"{status.installed_version}{'' if status.is_tested else ' (not tested)'}"
