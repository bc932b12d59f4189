"""Calling a server: every operation by its name, its request as JSON; the everyday ones in plain words too."""

import asyncio
import json
import os
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import click

import elytron
from elytron import RemoteMemory
from elytron.registry import WIRE_OPERATIONS, AnyOperation, by_request
from elytron_adapter import codec
from elytron_cli.commands.conversation.write import receipt
from elytron_cli.input.options import Group, command, common, limited, told
from elytron_cli.input.server_address import Server, addressed
from elytron_cli.runner import output
from elytron_cli.tables import common as tables_common
from elytron_cli.tables import recall
from elytron_cli.terminal.output import Output, json_text
from elytron_core import limits
from elytron_core.contracts.conversation.projection import MemoryProjectionReport, MemoryProjectionRequest
from elytron_core.contracts.conversation.write import MemoryWriteReport
from elytron_core.contracts.knowledge.recall import MemoryRecallReport, MemoryRecallRequest
from elytron_core.errors import InvalidInput, PayloadTooLarge, Unauthorized, UnreadableFile
from elytron_core.model import Value

_REPEATABLE = click.option("--idempotency-key", metavar="KEY", help="Do it once, however often this is run.")
_REQUEST = click.option(
    "--request", "given", metavar="JSON", help="The request as JSON; @FILE reads a file, - standard input."
)


@click.group("client", cls=Group)
@common
def client() -> None:
    """Call a memory on a server. Every operation has a command of its name."""


def _reached(server: Server, work: Callable[[RemoteMemory, Output], Awaitable[None]]) -> None:
    """Connect to the server, do `work`, let go of it."""
    out = output()
    space = told(click.get_current_context()).get("space") or os.environ.get("ELYTRON_SPACE")

    async def whole() -> None:
        async with elytron.connect(server.url, api_key=server.key, space=space, proxy=server.proxy) as memory:
            await work(memory, out)

    try:
        asyncio.run(whole())
    except Unauthorized:
        raise Unauthorized("give a key of that server in ELYTRON_API_KEY") from None


def _show(out: Output, report: Value) -> None:
    out.report(report, lambda console: console.print(json_text(report), soft_wrap=True), exact=True)


def _generic(operation: AnyOperation, /) -> click.Command:
    """Return the command that performs `operation` with a request in JSON."""

    def perform(*, server: Server, given: str | None, idempotency_key: str | None = None) -> None:
        request = codec.decode(operation, _read(given) if given is not None else b"{}")
        _perform(request, server=server, idempotency_key=idempotency_key)

    perform.__doc__ = operation.summary
    body = _REQUEST(_REPEATABLE(perform) if operation.mutates else perform)
    return command(operation.name)(addressed(body))


def _perform(request: Value, *, server: Server, idempotency_key: str | None) -> None:
    async def work(memory: RemoteMemory, out: Output) -> None:
        report = by_request(request).report
        _show(out, await memory.operate(request, report, idempotency_key=idempotency_key))

    _reached(server, work)


@command("recall")
@click.argument("query", required=False)
@limited("How many memories at most.", most=limits.RECALL_MAX, usual=limits.RECALL_DEFAULT)
@_REQUEST
@addressed
def _recall(*, query: str | None, limit: int, given: str | None, server: Server) -> None:
    """Find what answers QUERY, best first."""
    plain = {"query": query, "limit": limit}
    request = codec.decode(by_request(MemoryRecallRequest(query="")), _either(query, plain, given))

    async def work(memory: RemoteMemory, out: Output) -> None:
        report = await memory.operate(request, MemoryRecallReport)
        out.report(report, lambda console: recall.recalled(console, report))

    _reached(server, work)


@command("project")
@click.argument("query", required=False)
@click.option(
    "--max-chars",
    "--max-len",
    "max_chars",
    type=click.IntRange(0, limits.PROJECTION_CHARS_MAX),
    default=limits.PROJECTION_CHARS_DEFAULT,
    show_default=True,
    help="Its size.",
)
@_REQUEST
@addressed
def _project(*, query: str | None, max_chars: int, given: str | None, server: Server) -> None:
    """Show the block that a model would see for QUERY."""
    plain = {"query": query, "max_chars": max_chars}
    request = codec.decode(by_request(MemoryProjectionRequest(query="")), _either(query, plain, given))

    async def work(memory: RemoteMemory, out: Output) -> None:
        report = await memory.operate(request, MemoryProjectionReport)
        out.report(report, lambda console: tables_common.projected(console, report))

    _reached(server, work)


@command("add")
@click.argument("text")
@click.option("--speaker", metavar="NAME", help="Who said it.")
@click.option("--conversation", metavar="NAME", help="The conversation it belongs to; needs --space.")
@_REPEATABLE
@addressed
def _add(
    *,
    text: str,
    speaker: str | None,
    conversation: str | None,
    idempotency_key: str | None,
    server: Server,
) -> None:
    """Store TEXT as evidence ("-" reads standard input)."""
    words = _text(_standard_input(limits.MESSAGE_CHARS * 4)) if text == "-" else text

    async def work(memory: RemoteMemory, out: Output) -> None:
        report: MemoryWriteReport = await memory.add(
            words, speaker=speaker, conversation=conversation, idempotency_key=idempotency_key
        )
        out.report(report, lambda console: console.print(receipt(report)))

    _reached(server, work)


def _either(query: str | None, plain: dict[str, Any], given: str | None) -> bytes:
    """Return the request: in plain words or in JSON, and not both."""
    if (query is None) == (given is None):
        raise click.UsageError("give either QUERY or --request")
    return _read(given) if given is not None else json.dumps(plain).encode()


def _read(given: str) -> bytes:
    """Return the JSON that `given` is, or names. Raises UnreadableFile, PayloadTooLarge."""
    if given == "-":
        return _standard_input(limits.JSON_BYTES)
    if not given.startswith("@"):
        return given.encode("utf-8", "surrogateescape")
    path = Path(given[1:])
    try:
        with path.open("rb") as file:
            data = file.read(limits.JSON_BYTES + 1)
    except (OSError, ValueError) as error:
        raise UnreadableFile(name=path.name, problem="cannot be read") from error
    if len(data) > limits.JSON_BYTES:
        raise PayloadTooLarge(limit=limits.JSON_BYTES, what=f"the file {path.name!r}")
    return data


def _text(data: bytes) -> str:
    try:
        return data.decode("utf-8").strip()
    except UnicodeDecodeError:
        raise InvalidInput(field="standard input", problem="is not UTF-8") from None


def _standard_input(limit: int) -> bytes:
    data = sys.stdin.buffer.read(limit + 1)
    if len(data) > limit:
        raise PayloadTooLarge(limit=limit, what="standard input")
    return data


_PLAIN = (_add, _recall, _project)
for _command in (*_PLAIN, *(_generic(one) for one in WIRE_OPERATIONS if one.name not in {"recall", "project"})):
    client.add_command(_command)
