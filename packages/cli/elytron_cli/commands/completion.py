"""Completion of commands and options by the shell."""

import click

from elytron_cli.input.options import command, common

SHELLS = ("bash", "zsh", "fish")
_VARIABLE = "_ELYTRON_COMPLETE"


@command("completion")
@click.argument("shell", type=click.Choice(SHELLS))
@common
def completion(*, shell: str) -> None:
    """Print what lets SHELL complete commands and options.

    Let the shell read it at its start: eval "$(elytron completion bash)" in ~/.bashrc, the same with zsh in ~/.zshrc,
    elytron completion fish | source in fish's configuration.
    """
    from click.shell_completion import get_completion_class

    from elytron_cli.app import cli

    found = get_completion_class(shell)
    assert found is not None
    made = found(cli, {}, "elytron", _VARIABLE)
    # Not source(), which runs a bash to ask for its version.
    print(made.source_template % made.source_vars())
