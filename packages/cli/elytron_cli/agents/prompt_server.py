"""A process that stays between the prompts of a coding agent, with the memory open, and answers their hooks."""

import asyncio
import os
import socket
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

from elytron_cli.agents.hooks import context_of, projection_of, read_event, scope_of
from elytron_cli.agents.prompt_client import RESIDENT, answer_bytes, resident_address
from elytron_cli.refusal import OperationRefused
from elytron_cli.session import CommandSession
from elytron_core import limits
from elytron_core.errors import ElytronError, InvalidInput
from elytron_store import parse_url

IDLE_S = 30 * 60
"""A resident process ends this long after the last prompt."""
_RUN = "from elytron_cli.main import run_command_line; run_command_line()"
CHECK_S = 1
"""Seconds between two looks whether it is still wanted, and whether the store is still the one that it opened."""


class PromptServer:
    """Answers prompts on one socket with one open session."""

    def __init__(self, session: CommandSession, space: str, store: str, /, *, max_chars: int) -> None:
        self._session = session
        self._space = space
        self._store = store
        self._max_chars = max_chars
        self._opened = store_identity(store)
        self._asked_at = 0.0

    async def serve(self, address: Path, /, *, ready: Callable[[], None]) -> None:
        """Answer at `address` until no prompt comes for `IDLE_S`, or the store's file is another one.

        `ready` is called as soon as prompts are answered. Nothing is done if another process answers there.
        """
        if await _is_answered(address):
            return
        _remove_socket(address, file_identity(address))
        self._asked_at = asyncio.get_running_loop().time()
        server = await asyncio.start_unix_server(self._answer, address)
        own = file_identity(address)
        ready()
        try:
            while self._is_wanted():
                await _next_check()
        finally:
            server.close()
            _remove_socket(address, own)

    def _is_wanted(self) -> bool:
        idle = asyncio.get_running_loop().time() - self._asked_at
        return idle < IDLE_S and store_identity(self._store) == self._opened

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Send the answer; nothing if there is an error, so that the command meets it, and says so, by itself."""
        try:
            self._asked_at = asyncio.get_running_loop().time()
            event = await reader.read(-1)
            if event and store_identity(self._store) == self._opened:
                writer.write(answer_bytes(await self.answer(event)))
                await writer.drain()
        except (ElytronError, OperationRefused, OSError):
            pass
        finally:
            writer.close()

    async def answer(self, event: bytes, /) -> str | None:
        """Return what the hook prints for an event. Raises InvalidJson, InvalidInput, OperationRefused."""
        if len(event) > limits.JSON_BYTES:
            raise InvalidInput(field="standard input", problem="is too long")
        found = read_event(event)
        request = projection_of(found, scope_of(found, self._space), max_chars=self._max_chars)
        return context_of(await self._session.call(request)) if request is not None else None


async def _is_answered(address: Path) -> bool:
    try:
        _, writer = await asyncio.open_unix_connection(address)
    except OSError:
        return False
    writer.close()
    return True


def store_identity(store: str, /) -> tuple[int, int] | None:
    """Return the identity of a store's file or folder, which another one there does not have; None without one."""
    path = parse_url(store).path
    return file_identity(path) if path is not None else None


def file_identity(path: Path, /) -> tuple[int, int] | None:
    """Return the identity of a file, which another one at its path does not have; None if there is none."""
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_dev, found.st_ino


def _remove_socket(address: Path, own: tuple[int, int] | None) -> None:
    """Remove the socket's file, if it is still the one that is meant."""
    if own is not None and file_identity(address) == own:
        address.unlink(missing_ok=True)


async def _next_check() -> None:
    await asyncio.sleep(CHECK_S)


def start_resident(arguments: Sequence[str], /) -> None:
    """Start a process that answers the next prompts of a command with these arguments, if none is there.

    It outlives this one, says nothing, and ends by itself.
    """
    address = resident_address(arguments)
    if address is None or _is_held(address):
        return
    verbs = ["resident" if item == "recall" else item for item in arguments if item != RESIDENT]
    subprocess.Popen(  # noqa: S603 - this very command, with its own arguments
        [sys.executable, "-c", _RUN, *verbs],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
        env=dict(os.environ),
    )


def _is_held(address: Path) -> bool:
    """Return whether a process answers at `address`; the file that a killed one left behind is no process."""
    with socket.socket(socket.AF_UNIX) as caller:
        caller.settimeout(1.0)
        try:
            caller.connect(str(address))
        except OSError:
            return False
    return True
