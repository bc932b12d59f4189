"""The entry point of the `elytron` command. Modules load when it runs, and each subcommand when it is called."""

import io
import os
import sys
from collections.abc import Sequence

_HELP = ("--help", "-h")


def run_command_line() -> None:
    """Run the command line and end the process with its exit code."""
    use_utf8()
    page = _asked_page(sys.argv[1:])
    if page is not None:
        try:
            print(page, flush=True)
        except BrokenPipeError:
            # The reader has gone; the interpreter must not write again when it exits.
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            sys.exit(1)
        return
    if sys.argv[1:3] == ["hooks", "status"]:
        from elytron_cli.agents.status_line import print_status_line

        print_status_line(sys.argv[3:])
        return
    if "--resident" in sys.argv and "hooks" in sys.argv:
        from elytron_cli.agents.prompt_client import print_resident_answer, print_started_answer

        code = print_resident_answer(sys.argv[1:])
        code = code if code is not None else print_started_answer(sys.argv[1:])
        if code is not None:
            sys.exit(code)
    from elytron_cli.app import elytron_group

    elytron_group()


def use_utf8() -> None:
    """Make the standard streams and the arguments UTF-8, whatever the code page or locale is.

    A stored text may have any character, and in a Windows code page or the POSIX locale it could not be printed.
    """
    for stream in (sys.stdin, sys.stdout, sys.stderr):
        # A host, or a test, may have replaced them with another object.
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(encoding="utf-8", errors="replace")
    if sys.getfilesystemencoding() != "utf-8":
        sys.argv[1:] = [os.fsencode(argument).decode("utf-8", "replace") for argument in sys.argv[1:]]


def _asked_page(arguments: Sequence[str]) -> str | None:
    """Return the requested help page. This is common, so it is answered without the command line library."""
    if not arguments or arguments[-1] not in _HELP:
        return None
    if len(arguments) == 1:
        from elytron_cli.terminal.help_page import command_page

        return command_page()
    from elytron_cli.terminal.help_page import kept_page

    return kept_page(arguments[:-1])
