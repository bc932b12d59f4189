"""The entry point of the `elytron` command. Everything is loaded when it is run, and a command when it is called."""


def run() -> None:
    """Run the command line and end the process with its exit code."""
    from elytron_cli.app import cli

    cli()
