"""Options of commands that start or call a server: its address, the caller's key, logging, and limits."""

import os
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TextIO

import click

from elytron_cli.input.options import Body, common_options
from elytron_core import limits
from elytron_core.errors import InvalidInput
from elytron_store import parse_url
from elytron_store.private_files import private_opener, read_own_file, replace_file

if TYPE_CHECKING:
    from elytron_agent.rag.rag_surfaces import RagSettings
    from elytron_agent.runs.settings import RunBudget


DEFAULT_URL = "http://127.0.0.1:8010"
_ADDRESS = (
    click.option("--url", envvar="ELYTRON_URL", default=DEFAULT_URL, show_default=True, help="Address of the server."),
    click.option("--key", envvar="ELYTRON_API_KEY", metavar="KEY", help="Access key; prefer ELYTRON_API_KEY."),
    click.option("--proxy", envvar="ELYTRON_PROXY", metavar="URL", help="HTTP proxy, instead of the environment's."),
)


@dataclass(frozen=True, slots=True)
class NamedServer:
    """The address of a server, the caller's key, and the proxy in between."""

    url: str
    key: str | None = field(repr=False)
    proxy: str | None = field(repr=False)


def server_options(body: Callable[..., Any]) -> Callable[..., Any]:
    """Give a command the options that identify the server, and `body` that server."""

    @wraps(body)
    def given(*, url: str, key: str | None, proxy: str | None, **rest: Any) -> Any:
        return body(server=NamedServer(url, key, proxy), **rest)

    decorated_command: Callable[..., Any] = given
    for option in reversed(_ADDRESS):
        decorated_command = option(decorated_command)
    return common_options(decorated_command)


def several_options(*several: Callable[[Body], Body]) -> Callable[[Body], Body]:
    """Give a command several options, in their order."""

    def give(body: Body) -> Body:
        for option in reversed(several):
            body = option(body)
        return body

    return give


def listening_options(port: int, /) -> Callable[[Body], Body]:
    """Give a server the options for where it listens; defaults to `port` on only this machine."""
    return several_options(
        click.option("--host", default="127.0.0.1", show_default=True, help="Address to listen on."),
        click.option(
            "--port", type=click.IntRange(0, 65_535), default=port, show_default=True, help="Port (0 = any free port)."
        ),
    )


def logging_options(usual: str, help_text: str, /) -> Callable[[Body], Body]:
    """Give a server the options for logging, with the default level `usual`."""
    level_choice = click.Choice(["debug", "info", "warning", "error"])
    return several_options(
        click.option(
            "--log",
            "style",
            type=click.Choice(["console", "json"]),
            help="Log format. [default: console at a terminal]",
        ),
        click.option("--log-level", type=level_choice, default=usual, show_default=True, help=help_text),
    )


BOUND_OPTIONS: Final = (
    click.option(
        "--calls-per-minute",
        type=click.IntRange(0),
        default=limits.CALLS_PER_MINUTE,
        show_default=True,
        help="Limit per user or device (0 = unlimited).",
    ),
    click.option(
        "--wrong-credentials-per-minute",
        type=click.IntRange(0),
        default=limits.WRONG_CREDENTIALS_PER_MINUTE,
        show_default=True,
        help="Limit per client address (0 = unlimited); behind a proxy, all callers share its address.",
    ),
)
REACH_OPTIONS: Final = (
    click.option("--node-url", metavar="URL", help="Address of this server for clients, listed in its database."),
    click.option(
        "--allow-host",
        "names",
        multiple=True,
        metavar="NAME",
        envvar="ELYTRON_ALLOW_HOST",
        help="Host name that the server accepts.",
    ),
    click.option(
        "--trusted-proxy",
        "proxies",
        multiple=True,
        metavar="ADDRESS",
        envvar="ELYTRON_TRUSTED_PROXY",
        help="Proxy or network whose X-Forwarded-For and -Proto headers are trusted.",
    ),
    click.option(
        "--public-openapi", "is_public", is_flag=True, help="Show /openapi.json and /v1/operations without a key."
    ),
)


@contextmanager
def private_file(path: Path, /) -> Generator[TextIO]:
    """Yield a file for appending that only its owner may read; if it stays empty, it is removed. Raises
    InvalidInput."""
    try:
        handle = private_opener(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | getattr(os, "O_NOFOLLOW", 0))
    except OSError as error:
        problem = f"cannot be written: {error.strerror}; name another file"
        raise InvalidInput(field="--operator-key-file", problem=problem) from error
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            if hasattr(os, "fchmod"):
                os.fchmod(handle, 0o600)
            yield file
    finally:
        if path.stat().st_size == 0:
            path.unlink()


@contextmanager
def address_kept(store: str, address: str, /) -> Generator[None]:
    """Record the address of a server next to its store while it runs; not for a remote or in-memory store."""
    path = _address_file(store)
    with suppress(OSError):
        if path is not None:
            replace_file(path, address.encode())
    try:
        yield
    finally:
        with suppress(OSError):
            if path is not None and path.read_text("utf-8") == address:
                path.unlink()


def address_kept_for(store: str, /) -> str | None:
    """Return the address of the server that runs over a store; None if none is known.

    A key goes to that address, so that a file which others can write names none.
    """
    path = _address_file(store)
    try:
        data = read_own_file(path, size=_ADDRESS_BYTES) if path is not None else None
        return data.decode() if data is not None else None
    except (OSError, UnicodeDecodeError):
        return None


_ADDRESS_BYTES: Final = 2048


def _address_file(store: str) -> Path | None:
    path = parse_url(store).path
    return path.with_name(f"{path.name}.server") if path is not None else None


AGENT_LIMITS: Final = ("steps", "calls", "tokens", "seconds", "tool-seconds")
_QUOTAS: Final = ("user-rows", "user-bytes", "project-rows", "project-bytes", "inserts-per-hour")
_CACHE: Final = {
    "cache-users": "users",
    "cache-bytes": "size_bytes",
    "cache-user-bytes": "user_bytes",
    "cache-seconds": "ttl_ms",
    "cache-wait-seconds": "wait_s",
}
_ALERTS: Final = {
    "alert-search-seconds": "cached_search_s",
    "alert-load-seconds": "load_s",
    "alert-cache-share": "cache_share",
}
RAG_LIMITS: Final = (*_QUOTAS, *_CACHE, *_ALERTS)
_FRACTIONS: Final = frozenset({"seconds", "tool-seconds", "cache-seconds", "cache-wait-seconds", *_ALERTS})
"""Names whose numbers may have a fraction."""
_MOST: Final = 10**18


class NamedLimits:
    """Parses limits by their names, as the callback of an option."""

    def __init__(self, names: Sequence[str], /) -> None:
        self._names = tuple(names)

    def __call__(
        self, _context: click.Context, _parameter: click.Parameter, values: Sequence[str], /
    ) -> tuple[tuple[str, Any], ...]:
        return tuple(map(self.read, values))

    def read(self, text: str, /) -> tuple[str, Any]:
        """Return a name and its number. Raises BadParameter for an unknown name, or an invalid number."""
        name, _, value = text.partition("=")
        if name not in self._names:
            raise click.BadParameter(f"{name!r} is not a limit; choose from {', '.join(self._names)}")
        try:
            number = float(value) if name in _FRACTIONS else int(value)
        except ValueError:
            number = 0
        if not 0 < number < _MOST:
            raise click.BadParameter(f"{name} must be a number above 0, as in {name}=100")
        return name, number


def run_budget(pairs: Sequence[tuple[str, Any]], /) -> "RunBudget":
    """Return the budget of a turn."""
    from elytron_agent.runs.settings import RunBudget

    return RunBudget(**{_field_name(name): number for name, number in pairs})


def rag_settings(pairs: Sequence[tuple[str, Any]], /, *, is_off: bool) -> "RagSettings":
    """Return the settings of embeddings."""
    from elytron_agent.rag.rag_surfaces import RagSettings

    default_settings = RagSettings(is_off=is_off)
    values = dict(pairs)
    if "cache-seconds" in values:
        values["cache-seconds"] = round(values["cache-seconds"] * 1000)
    return replace(
        default_settings,
        quotas=replace(
            default_settings.quotas, **{_field_name(name): values[name] for name in _QUOTAS if name in values}
        ),
        cache=replace(default_settings.cache, **_renamed_limits(_CACHE, values)),
        alerts=replace(default_settings.alerts, **_renamed_limits(_ALERTS, values)),
    )


def _renamed_limits(names: Mapping[str, str], values: Mapping[str, Any]) -> dict[str, Any]:
    return {field: values[name] for name, field in names.items() if name in values}


def _field_name(name: str) -> str:
    return name.replace("-", "_")
