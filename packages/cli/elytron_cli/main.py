"""The entry point of the `elytron` command. Everything is loaded when it is run, and a command when it is called."""

import os
import sys


def run() -> None:
    """Run the command line and end the process with its exit code."""
    if sys.argv[1:] in (["--help"], ["-h"]):
        # Asked most often, and answered without the library that reads command lines.
        from elytron_cli.overview import page

        try:
            print(page(), flush=True)
        except BrokenPipeError:
            # The reader has gone; the interpreter must not try again when it ends.
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            sys.exit(1)
        return
    from elytron_cli.app import cli

    cli()
