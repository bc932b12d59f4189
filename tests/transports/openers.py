"""The transports, each as a way to call an operation by name with a JSON request.

To add a transport, add its opener to OPENERS: a context manager over a server that yields such a call.
"""

import asyncio
import json
from collections.abc import Awaitable, Callable, Generator
from contextlib import AbstractContextManager, contextmanager
from functools import partial
from typing import Any

from anyio.from_thread import start_blocking_portal
from click.testing import CliRunner
from mcp import Client
from tests.transports.live import Live

import elytron
from elytron.registry import by_name
from elytron_adapter import envelope
from elytron_cli.app import elytron_group
from elytron_core.errors.tree import error_of
from elytron_mcp_shell.server import ERROR
from elytron_mcp_shell.tools import CONFIRM, tool_name
from elytron_replay import runner

Json = Any
Call = Callable[[str, Json], Json]
Opener = Callable[[Live], AbstractContextManager[Call]]


@contextmanager
def in_process(live: Live) -> Generator[Call]:
    """Call the runtime in its own loop."""
    yield lambda name, request: live.run(runner.call_operation(live.runtime, name, request))


@contextmanager
def remote(live: Live, *, scheme: str) -> Generator[Call]:
    """Call the server with the Python client."""
    with asyncio.Runner() as runner:
        memory = runner.run(_opened(elytron.connect(live.ws_url if scheme == "ws" else live.url)))

        def call(name: str, request: Json) -> Json:
            operation = by_name(name)
            decoded = envelope.decode_request(operation, json.dumps(request).encode())
            return runner.run(memory.operate(decoded)).model_dump(mode="json")

        yield call
        runner.run(memory.close())


async def _opened(opening: Awaitable[elytron.RemoteMemory]) -> elytron.RemoteMemory:
    return await opening


@contextmanager
def command_line(live: Live) -> Generator[Call]:
    """Call the server with `elytron client`."""

    def call(name: str, request: Json) -> Json:
        arguments = ["client", name, "--url", live.url, "--json", "--request", "-"]
        done = CliRunner().invoke(elytron_group, arguments, input=json.dumps(request))
        if done.exit_code != 0:
            told = json.loads(done.stderr)["error"]
            raise error_of(told["key"], told["reason"], told["details"])
        return json.loads(done.stdout)

    yield call


@contextmanager
def mcp(live: Live) -> Generator[Call]:
    """Call the server's tools with the MCP SDK's client, as an operator with access to all."""
    with (
        start_blocking_portal() as portal,
        portal.wrap_async_context_manager(Client(f"{live.url}/mcp")) as client,
    ):

        def call(name: str, request: Json) -> Json:
            operation = by_name(name)
            confirmed = {CONFIRM: name} if operation.grave is not None else {}
            result = portal.call(client.call_tool, tool_name(operation), request | confirmed)
            if result.is_error:
                told = (result.meta or {})[ERROR]
                raise error_of(told["key"], told["reason"], told["details"])
            return result.structured_content

        yield call


OPENERS: dict[str, Opener] = {
    "in process": in_process,
    "HTTP client": partial(remote, scheme="http"),
    "WebSocket client": partial(remote, scheme="ws"),
    "command line": command_line,
    "MCP": mcp,
}
