"""The version, printed without loading anything."""

import json
from importlib.metadata import version as version_of

import click

from elytron_cli.input.options import as_json, common_options, page_command
from elytron_cli.terminal.output import CommandOutput


@page_command("version")
@common_options
def version_command() -> None:
    """Print the version."""
    version = version_of("elytron")
    output = CommandOutput(as_json(click.get_current_context()))
    click.echo(json.dumps({"version": version}) if output.is_json else f"elytron {version}")
