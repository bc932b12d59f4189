"""One line per event on standard error, as JSON or for people, and no secret in any."""

import logging
import sys
from collections.abc import MutableMapping
from enum import StrEnum
from typing import Any

import structlog

from elytron_core.policy.secrets import is_suspect, scrub

_DISCREET = ("a2a", "mcp", "sse_starlette", "httpx", "httpcore")
"""Libraries that log what they are sent, or each call: no log shows a body, so they are heard from warnings on."""


class LogStyle(StrEnum):
    """How lines look."""

    JSON = "json"
    CONSOLE = "console"


def configure(style: LogStyle, /, *, level: str) -> None:
    """Send what this process logs to standard error; the process is a server and nothing else."""
    renderer: Any = (
        structlog.processors.JSONRenderer()
        if style is LogStyle.JSON
        else structlog.dev.ConsoleRenderer(colors=sys.stderr.isatty())
    )
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(formatter(renderer))
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(level.upper())
    for name in _DISCREET:
        logging.getLogger(name).setLevel(max(logging.WARNING, root.level))


def formatter(renderer: Any, /) -> logging.Formatter:
    """Return what makes a line of a record: known fields, the time, secrets blacked out, and then `renderer`."""
    return structlog.stdlib.ProcessorFormatter(
        foreign_pre_chain=[
            structlog.stdlib.add_log_level,
            structlog.stdlib.add_logger_name,
            structlog.stdlib.ExtraAdder(),
            structlog.processors.TimeStamper(fmt="iso", utc=True),
        ],
        processors=[
            structlog.stdlib.ProcessorFormatter.remove_processors_meta,
            structlog.processors.format_exc_info,
            without_secrets,
            renderer,
        ],
    )


def without_secrets(_logger: Any, _method: str, event: MutableMapping[str, Any], /) -> MutableMapping[str, Any]:
    """Black out what looks like a credential in every text of `event`."""
    event.pop("color_message", None)  # uvicorn says some things twice
    for name, value in event.items():
        # The time is written here, after all that a caller could have named so.
        if isinstance(value, str) and name != "timestamp" and is_suspect(value):
            event[name] = scrub(value).text
    return event
