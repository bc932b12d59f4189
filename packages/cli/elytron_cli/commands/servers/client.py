"""Commands that call a server: every operation by name with a JSON request, and shortcuts for the common ones."""

import asyncio
import json
import os
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

import elytron
from elytron import RemoteMemory
from elytron.registry import WIRE_OPERATIONS, AnyOperation, by_request
from elytron_adapter import envelope
from elytron_cli.input.options import PageGroup, common_options, global_options, limit_option, page_command, size_option
from elytron_cli.input.server_options import NamedServer, server_options
from elytron_cli.input.values import spoken_text, standard_input
from elytron_cli.session import run_output
from elytron_cli.tables import hits as tables_hits
from elytron_cli.terminal.output import json_text
from elytron_core import limits
from elytron_core.contracts.projection import MemoryProjectionRequest
from elytron_core.contracts.recall import MemoryRecallRequest
from elytron_core.errors import PayloadTooLarge, Unauthorized, UnreadableFile
from elytron_core.model import OperationRequest, Value

if TYPE_CHECKING:
    from rich.console import Console

ReportT = TypeVar("ReportT", bound=Value)
Show = Callable[["Console", ReportT], None]

_REPEATABLE = click.option("--idempotency-key", metavar="KEY", help="Key with which repeats take effect only once.")
_REQUEST = click.option(
    "--request", "request_json", metavar="JSON", help="JSON of the request; @FILE reads a file, - reads standard input."
)


@click.group("client", cls=PageGroup)
@common_options
def client_group() -> None:
    """Call a memory server; each operation has a command of the same name."""


def _call_server(
    server: NamedServer,
    call: Callable[[RemoteMemory], Awaitable[ReportT]],
    show: "Show[ReportT]",
    *,
    exact: bool = False,
) -> None:
    """Connect to the server, make the call, disconnect, and print the report."""
    output = run_output()
    space = global_options(click.get_current_context()).get("space") or os.environ.get("ELYTRON_SPACE")

    async def whole() -> ReportT:
        async with elytron.connect(server.url, api_key=server.key, space=space, proxy=server.proxy) as memory:
            return await call(memory)

    try:
        report = asyncio.run(whole())
    except Unauthorized:
        raise Unauthorized("pass an access key of that server in ELYTRON_API_KEY") from None
    output.report(report, show, exact=exact)


def _perform_request(
    server: NamedServer,
    request: OperationRequest[ReportT],
    show: "Show[ReportT]",
    *,
    key: str | None = None,
    exact: bool = False,
) -> None:
    """Perform `request` on the server and print its report."""
    _call_server(server, lambda memory: memory.operate(request, idempotency_key=key), show, exact=exact)


def _show_json(console: "Console", report: Value) -> None:
    console.print(json_text(report), soft_wrap=True)


def _generic_command(operation: AnyOperation, /) -> click.Command:
    """Return the command that performs `operation` with a request in JSON."""

    def perform(*, server: NamedServer, request_json: str | None, idempotency_key: str | None = None) -> None:
        request = envelope.decode_request(operation, _read_json(request_json) if request_json is not None else b"{}")
        _perform_request(server, request, _show_json, key=idempotency_key, exact=True)

    perform.__doc__ = operation.summary
    body = _REQUEST(_REPEATABLE(perform) if operation.mutates else perform)
    return page_command(operation.name)(server_options(body))


@page_command("recall")
@click.argument("query", required=False)
@limit_option("Maximum number of memories.", most=limits.RECALL_MAX, usual=limits.RECALL_DEFAULT)
@_REQUEST
@server_options
def _recall_remotely(*, request_json: str | None, server: NamedServer, **plain: Any) -> None:
    """Find the memories that answer QUERY, best first."""
    _perform_request(
        server, _plain_or_json(MemoryRecallRequest(query=""), plain, request_json), tables_hits.show_recall
    )


@page_command("project")
@click.argument("query", required=False)
@size_option(limits.PROJECTION_CHARS_DEFAULT, "Size of the block, in characters.")
@_REQUEST
@server_options
def _project_remotely(*, request_json: str | None, server: NamedServer, **plain: Any) -> None:
    """Show the memory block that a model would see for QUERY."""
    _perform_request(
        server, _plain_or_json(MemoryProjectionRequest(query=""), plain, request_json), tables_hits.show_projection
    )


@page_command("add")
@click.argument("text")
@click.option("--speaker", metavar="NAME", help="Name of the speaker.")
@click.option("--conversation", metavar="NAME", help="Conversation to add the message to; requires --space.")
@_REPEATABLE
@server_options
def _add_remotely(*, text: str, server: NamedServer, **about: Any) -> None:
    """Store TEXT as evidence; "-" reads standard input."""
    message_text = spoken_text(text)
    _call_server(server, lambda memory: memory.add(message_text, **about), tables_hits.show_written)


def _plain_or_json(
    kind: OperationRequest[ReportT], plain_fields: dict[str, Any], request_text: str | None
) -> OperationRequest[ReportT]:
    """Return a request of type `kind` from plain words or from JSON, but not both."""
    if (plain_fields["query"] is None) == (request_text is None):
        raise click.UsageError("pass either QUERY or --request")
    return envelope.decode_request(
        by_request(kind), _read_json(request_text) if request_text is not None else json.dumps(plain_fields).encode()
    )


def _read_json(text: str) -> bytes:
    """Return the JSON in `text`, or in the file that it names. Raises UnreadableFile, PayloadTooLarge."""
    if text == "-":
        return standard_input(limits.JSON_BYTES)
    if not text.startswith("@"):
        return text.encode("utf-8", "surrogateescape")
    path = Path(text[1:])
    try:
        with path.open("rb") as file:
            data = file.read(limits.JSON_BYTES + 1)
    except (OSError, ValueError) as error:
        raise UnreadableFile.unopened(path.name, error) from error
    if len(data) > limits.JSON_BYTES:
        raise PayloadTooLarge(limit=limits.JSON_BYTES, what=f"the file {path.name!r}")
    return data


_PLAIN = (_add_remotely, _recall_remotely, _project_remotely)
for _command in (*_PLAIN, *(_generic_command(one) for one in WIRE_OPERATIONS if one.name not in {"recall", "project"})):
    client_group.add_command(_command)
