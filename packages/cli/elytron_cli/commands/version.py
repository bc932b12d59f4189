"""The version, printed without loading anything."""

import json
from importlib.metadata import version as version_of

import click

from elytron_cli.input.options import as_json, command, common
from elytron_cli.terminal.output import Output


@command("version")
@common
def version() -> None:
    """Print the version."""
    found = version_of("elytron")
    out = Output(as_json(click.get_current_context()))
    click.echo(json.dumps({"version": found}) if out.is_json else f"elytron {found}")
