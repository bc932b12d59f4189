"""Standard input, line by line: every message is answered, whatever it is, and a signal ends the reading."""

import asyncio
import json
import os
import signal
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import mcp_types as types
import pytest

from elytron_mcp_shell.stdio import InputLines, at_signals

pytestmark = pytest.mark.anyio

RUN = "from elytron_cli.main import run_command_line; run_command_line()"
PING = b'{"jsonrpc": "2.0", "id": 1, "method": "ping"}'
WAIT_S = 100


@asynccontextmanager
async def lines(sent: bytes, /, *, limit: int = 1_000) -> AsyncGenerator[tuple[InputLines, list[types.JSONRPCError]]]:
    """Yield the lines of a pipe that contains `sent`, and the rejected ones; it is not closed."""
    reading, writing = os.pipe()
    refused: list[types.JSONRPCError] = []

    async def refuse(error: types.JSONRPCError) -> None:
        refused.append(error)

    with os.fdopen(reading, "rb") as source, os.fdopen(writing, "wb", buffering=0) as pipe:
        pipe.write(sent)
        found = InputLines(source, limit=limit)
        found.refuse = refuse
        yield found, refused
        found.end()


@pytest.mark.parametrize(
    ("sent", "answer"),
    [
        (b"garbage", (None, types.PARSE_ERROR)),
        (b'{"jsonrpc": "2.0", "id": 3, "method": 7}', (3, types.INVALID_REQUEST)),
        (b'{"jsonrpc": "2.0", "id": "a", "method": "ping", "method": "ping"}', ("a", types.PARSE_ERROR)),
        (b'{"jsonrpc": "2.0", "id": 4, "method": "ping", "params": {"s3cret": NaN}}', (4, types.PARSE_ERROR)),
        (b'{"jsonrpc": "2.0", "id": true, "method": 7}', (None, types.INVALID_REQUEST)),
        (b'{"jsonrpc": "2.0", "id": 5, "method": "\\ud800"}', (5, types.PARSE_ERROR)),
        (b'{"jsonrpc": "2.0", "id": 6, "method": "' + b"x" * 3_000 + b'"}', (None, types.INVALID_REQUEST)),
        (b"[" * 900, (None, types.PARSE_ERROR)),
        (b"\xff", (None, types.PARSE_ERROR)),
        (b"7", (None, types.INVALID_REQUEST)),
    ],
)
async def test_invalid_messages_are_answered_and_the_next_one_is_read(
    sent: bytes, answer: tuple[str | int | None, int]
) -> None:
    async with lines(b"\n" + sent + b"\r\n\n" + PING + b"\n") as (found, refused):
        assert json.loads(await anext(found)) == json.loads(PING)
    assert [(error.id, error.error.code) for error in refused] == [answer]
    assert "s3cret" not in str(refused)


async def test_after_the_end_no_more_lines_are_read() -> None:
    async with lines(b"") as (found, _):
        waiting = asyncio.ensure_future(anext(found, None))
        await asyncio.sleep(0)
        found.end()
        assert await waiting is None
        assert await anext(found, None) is None


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
async def test_the_first_signal_ends_the_command_and_the_second_acts_as_before(number: signal.Signals) -> None:
    ended = asyncio.Event()
    before = signal.getsignal(number)
    with at_signals(ended.set):
        os.kill(os.getpid(), number)
        async with asyncio.timeout(WAIT_S):
            await ended.wait()
        assert signal.getsignal(number) is before
    await asyncio.to_thread(_signalled, ended.set)


def _signalled(end: Any) -> None:
    """Enter it in a thread, which cannot set signals."""
    with at_signals(end):
        return


async def test_closed_standard_input_ends_the_command(tmp_path: Path) -> None:
    command = [sys.executable, "-c", RUN, "mcp", "--store", str(tmp_path / "m.db"), "--space", "ada"]
    process = await asyncio.create_subprocess_exec("/bin/sh", "-c", 'exec "$@" <&-', "sh", *command)
    async with asyncio.timeout(WAIT_S):
        assert await process.wait() == 0


async def test_a_signal_ends_the_command_although_its_host_stays_connected(tmp_path: Path) -> None:
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-c", RUN, "mcp", "--store", str(tmp_path / "m.db"), "--space", "ada",
        stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE,
    )  # fmt: skip
    assert process.stdin is not None
    assert process.stdout is not None
    assert process.stderr is not None
    process.stdin.write(b"garbage\n")
    async with asyncio.timeout(WAIT_S):
        assert json.loads(await process.stdout.readline())["error"]["code"] == types.PARSE_ERROR
        process.send_signal(signal.SIGTERM)
        assert await process.wait() == 0
        assert await process.stderr.read() == b""
