"""Log lines of a server: one per event, on stderr, without secrets."""

import logging
import sys
import time
from collections.abc import Callable
from datetime import UTC, datetime
from enum import StrEnum
from typing import Any, Final

import structlog
from structlog.typing import EventDict

from elytron_core import limits
from elytron_core.ids import is_id
from elytron_core.policy.redaction import is_suspect, scrub_secrets

LOG_TEXTS_KNOWN: Final = 1_024
"""Texts in which nothing was found to black out, so that they are not searched again."""


LOG_LINES_ALIKE: Final = 60
"""Lines a minute that strangers can cause and that say the same; further ones are counted."""


_SERVER = "uvicorn.error"


_DISCREET = ("a2a", "mcp", "sse_starlette", "httpx", "httpcore", _SERVER)
"""Libraries that log received data, or each call: no log shows a body or a query, so they only log from warnings on."""


_TOLD_ALREADY = "ASGI callable returned without completing handshake."
"""The server library's line for every rejected handshake, which is a request like others."""


_WRONG_TEXT = "Invalid UTF-8 sequence received from client."
"""Its line, with a traceback, for a frame that is not text: the socket ends with the code for that."""


_MINUTE_S = 60.0


_STANDARD = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "taskName", "color_message"}
"""Fields of every record; the others were added to the message. uvicorn repeats some of them."""


class LogStyle(StrEnum):
    """Format of lines."""

    JSON = "json"
    CONSOLE = "console"


def configure_logs(style: LogStyle, /, *, level: str) -> None:
    """Send this process's logs to standard error; the process is a server and nothing else."""
    renderer: Any = (
        structlog.processors.JSONRenderer()
        if style is LogStyle.JSON
        else structlog.dev.ConsoleRenderer(colors=sys.stderr.isatty())
    )
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(LogLines(renderer))
    handler.addFilter(RepeatFilter())
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(level.upper())
    for name in _DISCREET:
        logging.getLogger(name).setLevel(max(logging.WARNING, root.level))


class RepeatFilter(logging.Filter):
    """Passes a limited number of equal lines per minute, so that callers without a key cannot fill the disk.

    That goes for the lines of libraries. The first line of a later minute says in `left_out` how many there were
    beyond. Lines are equal by what they say before their arguments, of which a library has a few.
    """

    def __init__(self, *, most: int = LOG_LINES_ALIKE, now: Callable[[], float] = time.monotonic) -> None:
        super().__init__()
        self._most = most
        self._now = now
        self._last_times: dict[str, tuple[float, int]] = {}

    def filter(self, record: logging.LogRecord) -> bool:
        """Return whether a line passes; those of loggers other than the libraries' always do."""
        if not record.name.startswith(_DISCREET):
            return True
        if record.msg == _TOLD_ALREADY:
            return False
        if record.msg == _WRONG_TEXT:
            record.levelno, record.levelname, record.exc_info = logging.WARNING, "WARNING", None
        now = self._now()
        window_start, count = self._last_times.get(record.msg, (now, 0))
        if now - window_start >= _MINUTE_S:
            if count > self._most:
                record.left_out = count - self._most
            window_start, count = now, 0
        self._last_times[record.msg] = (window_start, count + 1)
        return count < self._most


class LogLines(logging.Formatter):
    """Formats a record: known fields, the time, secrets redacted, and then the renderer's output."""

    def __init__(self, renderer: Any, /) -> None:
        super().__init__()
        self._renderer = renderer
        self._clean: set[str] = set()
        """Short texts without secrets, which are in every line: routes, methods and principals."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the line."""
        level = record.levelname.lower()
        event: EventDict = {"event": record.getMessage(), "level": level, "logger": record.name}
        event |= {name: value for name, value in record.__dict__.items() if name not in _STANDARD}
        if record.exc_info:
            event["exception"] = self.formatException(record.exc_info)
        if record.stack_info:
            event["stack_info"] = record.stack_info
        self._black_out(event)
        # After everything that a caller could have named so.
        event["timestamp"] = _utc_text(record.created)
        line: str = self._renderer(None, level, event)
        return line

    def _black_out(self, event: EventDict) -> None:
        """Redact what resembles a credential in every text of `event`."""
        for name, value in event.items():
            # The ids that are created here are in every line, and contain none.
            if not isinstance(value, str) or value in self._clean or is_id(value):
                continue
            # The first check is cheap, and most texts have no hint of a secret.
            if is_suspect(value) and (text := scrub_secrets(value).text) != value:
                event[name] = text
            elif len(value) <= limits.NAME_CHARS:
                if len(self._clean) >= LOG_TEXTS_KNOWN:
                    self._clean.clear()
                self._clean.add(value)


def _utc_text(seconds: float) -> str:
    return f"{datetime.fromtimestamp(seconds, UTC).isoformat(timespec='microseconds')[:-6]}Z"
