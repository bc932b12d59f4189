"""Options of a command that calls a server: its address, the caller's key, and the proxy in between."""

from collections.abc import Callable, Generator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import wraps
from pathlib import Path
from typing import Any

import click

from elytron_cli.input.options import common_options
from elytron_store import parse_url

DEFAULT_URL = "http://127.0.0.1:8010"
_ADDRESS = (
    click.option("--url", envvar="ELYTRON_URL", default=DEFAULT_URL, show_default=True, help="http(s):// or ws(s)://"),
    click.option("--key", envvar="ELYTRON_API_KEY", metavar="KEY", help="An access key; better in ELYTRON_API_KEY."),
    click.option("--proxy", envvar="ELYTRON_PROXY", metavar="URL", help="The HTTP proxy to go by, and no other."),
)


@dataclass(frozen=True, slots=True)
class NamedServer:
    """The address of a server, the caller's key, and the proxy in between."""

    url: str
    key: str | None = field(repr=False)
    proxy: str | None = field(repr=False)


def server_options(body: Callable[..., Any]) -> Callable[..., Any]:
    """Give a command the options that say which server, and `body` that server."""

    @wraps(body)
    def given(*, url: str, key: str | None, proxy: str | None, **rest: Any) -> Any:
        return body(server=NamedServer(url, key, proxy), **rest)

    decorated: Callable[..., Any] = given
    for option in reversed(_ADDRESS):
        decorated = option(decorated)
    return common_options(decorated)


@contextmanager
def address_kept(store: str, address: str, /) -> Generator[None]:
    """Keep the address of a server beside its store while it runs; not for a store that is no file or folder here."""
    path = _address_file(store)
    with suppress(OSError):
        if path is not None:
            path.write_text(address, "utf-8")
    try:
        yield
    finally:
        with suppress(OSError):
            if path is not None and path.read_text("utf-8") == address:
                path.unlink()


def address_kept_for(store: str, /) -> str | None:
    """Return the address of the server that runs over a store; None if none is known."""
    path = _address_file(store)
    try:
        return path.read_text("utf-8") if path is not None else None
    except (OSError, UnicodeDecodeError):
        return None


def _address_file(store: str) -> Path | None:
    path = parse_url(store).path
    return path.with_name(f"{path.name}.server") if path is not None else None
