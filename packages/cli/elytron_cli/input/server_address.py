"""Options of a command that calls a server: its address, the caller's key, and the proxy in between."""

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import wraps
from typing import Any

import click

from elytron_cli.input.options import common

DEFAULT_URL = "http://127.0.0.1:8010"
_ADDRESS = (
    click.option("--url", envvar="ELYTRON_URL", default=DEFAULT_URL, show_default=True, help="http(s):// or ws(s)://"),
    click.option("--key", envvar="ELYTRON_API_KEY", metavar="KEY", help="An access key; better in ELYTRON_API_KEY."),
    click.option("--proxy", envvar="ELYTRON_PROXY", metavar="URL", help="The HTTP proxy to go by, and no other."),
)


@dataclass(frozen=True, slots=True)
class Server:
    """The address of a server, the caller's key, and the proxy in between."""

    url: str
    key: str | None = field(repr=False)
    proxy: str | None = field(repr=False)


def addressed(body: Callable[..., Any]) -> Callable[..., Any]:
    """Give a command the options that say which server, and `body` that server."""

    @wraps(body)
    def given(*, url: str, key: str | None, proxy: str | None, **rest: Any) -> Any:
        return body(server=Server(url, key, proxy), **rest)

    decorated: Callable[..., Any] = given
    for option in reversed(_ADDRESS):
        decorated = option(decorated)
    return common(decorated)
