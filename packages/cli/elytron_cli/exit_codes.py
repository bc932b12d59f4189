"""Ends of a run: an error is printed once, and the exit code says its kind."""

import os
import signal
import sys
import threading
from collections.abc import Callable, Generator
from contextlib import contextmanager
from types import FrameType
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from elytron_adapter.envelope import RejectedAnswer

DEBUG = "ELYTRON_DEBUG"
OK = 0
FAILURE = 1
INTERRUPTED = 130
TERMINATED = 143


def exit_code(run: Callable[[], object], /, *, as_json: bool | None) -> int:
    """Return the exit code of `run`, which returns it or None, and print what it raised."""
    signals: list[int] = []
    try:
        with _ending_at_sigterm(signals):
            found = run()
        sys.stdout.flush()
        return found if isinstance(found, int) else OK
    except (click.exceptions.Abort, KeyboardInterrupt):
        _tell_interrupted("stopped by SIGTERM" if signals else "stopped", as_json=as_json)
        return TERMINATED if signals else INTERRUPTED
    except BrokenPipeError:
        # The reader of our output has gone; the interpreter must not write again at its end.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return FAILURE
    except Exception as error:
        if os.environ.get(DEBUG):
            raise
        return _tell_error(error, as_json=as_json)


@contextmanager
def _ending_at_sigterm(signals: list[int]) -> Generator[None]:
    """Have the first SIGTERM end the block as Ctrl-C does, and be noted in `signals`. Servers have their own way."""

    def end(number: int, frame: FrameType | None) -> None:
        signals.append(number)
        signal.signal(signal.SIGTERM, signal.SIG_DFL)  # a second one waits for nothing
        interrupt = signal.getsignal(signal.SIGINT)
        if not callable(interrupt):  # ignored, as by a job in the background
            raise KeyboardInterrupt
        interrupt(signal.SIGINT, frame)

    is_ours = threading.current_thread() is threading.main_thread()
    if not is_ours or signal.getsignal(signal.SIGTERM) is not signal.SIG_DFL:
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

    reason = f"{what} before the end; what was acknowledged is kept"
    CommandOutput(as_json).error(RejectedAnswer(request_id="", error_key="interrupted", reason=reason))


def _tell_error(error: Exception, *, as_json: bool | None) -> int:
    # Imported now: a run that goes well, and the help, need none of it.
    from elytron_adapter.failures import failure_of
    from elytron_cli.terminal.output import CommandOutput

    rejected = _error_rejection(error)
    CommandOutput(as_json).error(rejected)
    return failure_of(rejected.error_key).exit


def _error_rejection(error: Exception) -> "RejectedAnswer":
    from elytron_adapter.envelope import RejectedAnswer
    from elytron_adapter.failures import INTERNAL, reject_error
    from elytron_cli.refusal import OperationRefused, QuestionDeclined
    from elytron_core.errors import ElytronError

    match error:
        case QuestionDeclined():
            return RejectedAnswer(request_id="", error_key=QuestionDeclined.key, reason="nothing was done")
        case OperationRefused():
            return error.rejected
        case click.ClickException():
            return RejectedAnswer(request_id="", error_key="invalid_input", reason=error.format_message())
        case ElytronError():
            return reject_error(error, request_id="")
        case _:
            reason = f"something went wrong inside ({type(error).__name__}); set {DEBUG}=1 to see where"
            return RejectedAnswer(request_id="", error_key=INTERNAL, reason=reason)
