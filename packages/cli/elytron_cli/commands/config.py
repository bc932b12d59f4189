"""The command's settings and their sources."""

import click

from elytron_cli.input.options import Group, common
from elytron_cli.runner import output, settings
from elytron_cli.tables import common as tables_common
from elytron_core.model import Value


class ConfigItem(Value):
    """A setting and, on request, its source; secrets are masked."""

    value: str
    origin: str | None = None


class ConfigReport(Value):
    """Everything that is set."""

    settings: dict[str, ConfigItem]


@click.group("config", cls=Group)
@common
def config() -> None:
    """See the command's settings."""


@config.command("show")
@click.option("--origin/--no-origin", "with_origin", default=True, show_default=True, help="Show the source of each.")
@common
def show(*, with_origin: bool) -> None:
    """Show each setting and where it came from: an option, a variable, elytron.toml or the default.

    No store is opened.
    """
    found = {
        name: ConfigItem(value=item.shown, origin=item.origin if with_origin else None)
        for name, item in settings().told().items()
    }
    rows = [(name, f"{item.value}  ({item.origin})" if with_origin else item.value) for name, item in found.items()]
    output().report(ConfigReport(settings=found), lambda console, _: tables_common.pairs(console, rows))
