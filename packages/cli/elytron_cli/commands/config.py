"""The command's settings and their sources."""

import click

from elytron_cli.config import OPTIONS, OTHER_VARIABLES, SECRETS, ways_to_set
from elytron_cli.input.options import PageGroup, common_options, page_command
from elytron_cli.session import run_output, stated_settings
from elytron_cli.tables import layout as tables_layout
from elytron_core.model import Value


class ConfigItem(Value):
    """A setting and, on request, its source; secrets are masked."""

    value: str
    origin: str | None = None


class ConfigReport(Value):
    """All current settings; the other settings, and how to set them; and the variables of single commands."""

    settings: dict[str, ConfigItem]
    unset: dict[str, str]
    variables: dict[str, str]


@click.group("config", cls=PageGroup)
@common_options
def config_group() -> None:
    """Show the settings of the command line."""


@config_group.command("show")
@click.option(
    "--origin/--no-origin", "with_origin", default=True, show_default=True, help="Show where settings come from."
)
@common_options
def show_command(*, with_origin: bool) -> None:
    """Show each setting with its origin, the settings without a value, and the environment variables.

    No store is opened.
    """
    items = {
        name: ConfigItem(value=item.masked_value, origin=item.origin if with_origin else None)
        for name, item in stated_settings().explicit_settings().items()
    }
    ways_by_name = {name: ways_to_set(name) for name in (*OPTIONS, *SECRETS) if name not in items}
    rows = [
        *((name, f"{item.value}  ({item.origin})" if with_origin else item.value) for name, item in items.items()),
        *((name, f"not set  ({ways})") for name, ways in ways_by_name.items()),
        *OTHER_VARIABLES.items(),
    ]
    report = ConfigReport(settings=items, unset=ways_by_name, variables=OTHER_VARIABLES)
    run_output().report(report, lambda console, _: tables_layout.show_pairs(console, rows))


SHELLS = ("bash", "zsh", "fish")
_VARIABLE = "_ELYTRON_COMPLETE"


@page_command("completion")
@click.argument("shell", type=click.Choice(SHELLS))
@common_options
def completion_command(*, shell: str) -> None:
    """Print the completion script for SHELL.

    Load it when the shell starts: eval "$(elytron completion bash)" in ~/.bashrc, likewise with zsh in ~/.zshrc, or
    elytron completion fish | source in the configuration of fish.
    """
    from click.shell_completion import get_completion_class

    from elytron_cli.app import elytron_group

    shell_class = get_completion_class(shell)
    assert shell_class is not None
    completion = shell_class(elytron_group, {}, "elytron", _VARIABLE)
    # Not source(), which runs bash to find out its version.
    print(completion.source_template % completion.source_vars())
