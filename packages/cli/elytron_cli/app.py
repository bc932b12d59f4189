"""The command and its lazily loaded subcommands, and the mapping of errors to exit codes."""

import os
import signal
import sys
import threading
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from importlib import import_module
from types import FrameType
from typing import TYPE_CHECKING, Any, NoReturn

import click

from elytron_cli.input.options import PageGroup, common_options, json_choice
from elytron_cli.terminal.help_page import COMMANDS, command_page
from elytron_core.errors.foreign_names import command_instead

if TYPE_CHECKING:
    from elytron_adapter.envelope import RejectedAnswer


DEBUG = "ELYTRON_DEBUG"
OK = 0
FAILURE = 1
INTERRUPTED = 130
TERMINATED = 143


def exit_code(run: Callable[[], object], /, *, as_json: bool | None) -> int:
    """Return the exit code of `run`, which returns it or None, and print any error."""
    signals: list[int] = []
    try:
        with _ending_at_sigterm(signals):
            outcome = run()
        sys.stdout.flush()
        return outcome if isinstance(outcome, int) else OK
    except (click.exceptions.Abort, KeyboardInterrupt):
        _tell_interrupted("stopped by SIGTERM" if signals else "stopped", as_json=as_json)
        return TERMINATED if signals else INTERRUPTED
    except BrokenPipeError:
        # The reader of our output has gone; the interpreter must not write again when it exits.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return FAILURE
    except Exception as error:
        if os.environ.get(DEBUG):
            raise
        return _tell_error(error, as_json=as_json)


@contextmanager
def _ending_at_sigterm(signals: list[int]) -> Generator[None]:
    """Make the first SIGTERM end the block as Ctrl-C does, recorded in `signals`. Servers have their own handling."""

    def end(number: int, frame: FrameType | None) -> None:
        signals.append(number)
        signal.signal(signal.SIGTERM, signal.SIG_DFL)  # a second one ends the process at once
        interrupt_handler = signal.getsignal(signal.SIGINT)
        if not callable(interrupt_handler):  # ignored, as in a background job
            raise KeyboardInterrupt
        interrupt_handler(signal.SIGINT, frame)

    is_main_thread = threading.current_thread() is threading.main_thread()
    if not is_main_thread or signal.getsignal(signal.SIGTERM) is not signal.SIG_DFL:
        yield
        return
    signal.signal(signal.SIGTERM, end)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)


def _tell_interrupted(what: str, *, as_json: bool | None) -> None:
    from elytron_adapter.envelope import RejectedAnswer
    from elytron_cli.terminal.output import CommandOutput

    reason = f"{what} before completion; everything acknowledged is stored"
    CommandOutput(as_json).error(RejectedAnswer(request_id="", error_key="interrupted", reason=reason))


def _tell_error(error: Exception, *, as_json: bool | None) -> int:
    # Imported late: a successful run, and the help, need none of it.
    from elytron_adapter.envelope import failure_of
    from elytron_cli.terminal.output import CommandOutput

    rejected = _error_rejection(error)
    CommandOutput(as_json).error(rejected)
    return failure_of(rejected.error_key).exit


def _error_rejection(error: Exception) -> "RejectedAnswer":
    from elytron_adapter.envelope import INTERNAL, RejectedAnswer, reject_error
    from elytron_cli.terminal.output import OperationRefused, QuestionDeclined
    from elytron_core.errors import ElytronError

    match error:
        case QuestionDeclined():
            return RejectedAnswer(request_id="", error_key=QuestionDeclined.key, reason="nothing was changed")
        case OperationRefused():
            return error.rejected
        case click.ClickException():
            return RejectedAnswer(request_id="", error_key="invalid_input", reason=error.format_message())
        case ElytronError():
            return reject_error(error, request_id="")
        case _:
            reason = f"internal error ({type(error).__name__}); set {DEBUG}=1 to see the traceback"
            return RejectedAnswer(request_id="", error_key=INTERNAL, reason=reason)


_LISTED = [click.Command(name, help=told) for name, (_, told) in COMMANDS.items()]


class LazyCommands(PageGroup):
    """Subcommands that are imported when called; listing them needs no import."""

    def format_help(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002 - click's signature
        """Show the commands in their groups."""
        click.echo(command_page())

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Return the command itself, for a call."""
        if args and args[0] not in COMMANDS and not args[0].startswith("-") and not ctx.resilient_parsing:
            ctx.fail(f"No such command {args[0]!r}. {command_instead(args[0], COMMANDS)}")
        name, command, remaining_arguments = super().resolve_command(ctx, args)
        return name, load_command(name) if name in COMMANDS else command, remaining_arguments

    def main(
        self,
        args: Sequence[str] | None = None,
        prog_name: str | None = None,
        complete_var: str | None = None,
        standalone_mode: bool = True,  # noqa: FBT001, FBT002, ARG002 - click's signature
        windows_expand_args: bool = True,  # noqa: FBT001, FBT002 - click's signature
        **extra: Any,
    ) -> NoReturn:
        """Run the command, print any error, and exit with its code."""
        arguments = list(args) if args is not None else sys.argv[1:]

        def run() -> object:
            return super(LazyCommands, self).main(
                arguments,
                prog_name or "elytron",
                complete_var,
                windows_expand_args=windows_expand_args,
                standalone_mode=False,
                **extra,
            )

        sys.exit(exit_code(run, as_json=json_choice(arguments)))


def load_command(name: str, /) -> click.Command:
    """Return the command called `name`, importing its module."""
    module, _, attribute_name = COMMANDS[name][0].partition(":")
    command = getattr(import_module(f"elytron_cli.commands.{module}"), attribute_name)
    assert isinstance(command, click.Command)
    return command


@click.group(cls=LazyCommands, commands=_LISTED, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="elytron", message="elytron %(version)s")
@common_options
def elytron_group() -> None:
    """Run one of the commands."""
