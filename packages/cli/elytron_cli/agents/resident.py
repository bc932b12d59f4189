"""The resident process, which answers the hook events of a user with the memory open, and hooks that run alone."""

import asyncio
import os
import socket
import subprocess
import time
from collections.abc import AsyncGenerator, Callable, Generator, Sequence
from contextlib import asynccontextmanager, contextmanager, suppress
from functools import partial
from io import FileIO
from pathlib import Path

from elytron.runtime import MemoryRuntime
from elytron_assistants.hooks.activity import ActivityFolder
from elytron_assistants.hooks.blocks import CONTEXT_CHARS
from elytron_assistants.hooks.events import HookEvent, HookKind, hook_host
from elytron_assistants.hooks.runner import HookCall, HookMemory, HookOutput, run_hook
from elytron_assistants.hosts import HostName
from elytron_cli.agents.hook_space import HookPlace
from elytron_cli.agents.prompt_client import (
    OWN_PROGRAM,
    READ_BYTES,
    answer_bytes,
    memory_arguments,
    read_call,
    resident_address,
)
from elytron_core.clock import SystemClock
from elytron_store import parse_url
from elytron_store.file.disk import try_lock
from elytron_store.private_files import private_opener

IDLE_S = 30 * 60
"""A resident process ends this long after the last event."""
CHECK_S = 1
"""Seconds between checks whether it is still needed, and whether the store is still the one that it opened."""


class HookServer:
    """Handles hook events on one socket with one open store."""

    def __init__(self, runtime: MemoryRuntime, place: HookPlace, records: ActivityFolder, /) -> None:
        self._runtime = runtime
        self._place = place
        self._records = records
        self._store = place.settings.store.value
        self._opened = store_identity(self._store)
        self._program = file_identity(Path(__file__))
        self._called_at = 0.0

    async def serve(self, address: Path, /, *, ready: Callable[[], None]) -> None:
        """Answer at `address` until no event comes for `IDLE_S`, or the store's or the program's file has been
        replaced.

        `ready` is called as soon as events are answered. Nothing is done if another process answers there.
        """
        with _only_process(address) as is_only_server:
            if not is_only_server:
                return
            # Left over by a killed process, because the lock was free.
            _remove_socket(address, file_identity(address))
            self._called_at = asyncio.get_running_loop().time()
            server = await asyncio.start_unix_server(self._answer, address, limit=READ_BYTES)
            address_identity = file_identity(address)
            ready()
            try:
                while self._is_wanted() and file_identity(address) == address_identity:
                    await _next_check()
            finally:
                server.close()
                _remove_socket(address, address_identity)

    def _is_wanted(self) -> bool:
        idle_s = asyncio.get_running_loop().time() - self._called_at
        is_same_program = file_identity(Path(__file__)) == self._program
        return idle_s < IDLE_S and is_same_program and store_identity(self._store) == self._opened

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Send the answer; nothing to an unreadable call, so that the command handles that itself."""
        try:
            self._called_at = asyncio.get_running_loop().time()
            data = await reader.read(-1)
            if data and store_identity(self._store) == self._opened:
                output = await self.answer(data)
                writer.write(answer_bytes(*output))
                await writer.drain()
        except (ValueError, OSError):
            pass
        finally:
            writer.close()

    async def answer(self, data: bytes, /) -> HookOutput:
        """Return the hook's output for a call. Raises ValueError for an unreadable one."""
        event_arguments, environment, caller_cpu_s, event = read_call(data)
        started_s = time.process_time()
        call = HookCall(
            HookKind(event_arguments["event"]),
            hook_host(event_arguments["host"] or HostName.CLAUDE_CODE),
            event,
            environment,
            cpu_s=lambda: caller_cpu_s + time.process_time() - started_s,
            max_chars=int(event_arguments["max_chars"] or CONTEXT_CHARS),
        )

        @asynccontextmanager
        async def open_memory(event: HookEvent, /, *, is_stored: bool) -> AsyncGenerator[HookMemory]:  # noqa: ARG001
            yield await self._place.memory_of(self._runtime, environment, event)

        return await run_hook(call, open_memory, self._records, SystemClock().now())


async def run_alone(call: HookCall, place: HookPlace, records: ActivityFolder, /) -> HookOutput:
    """Handle a hook event in a separate process."""
    return await run_hook(call, partial(place.open_memory, call.environment), records, SystemClock().now())


@contextmanager
def _only_process(address: Path) -> Generator[bool]:
    """Hold the lock of an address during the block, if it is free; yield whether it was. It ends with its process."""
    path = address.with_suffix(".lock")
    with FileIO(path, "w+", opener=private_opener) as file:
        status = os.fstat(file.fileno())
        # A process that ended in between may have removed the file that was opened here.
        has_lock = try_lock(file) and file_identity(path) == (status.st_dev, status.st_ino)
        try:
            yield has_lock
        finally:
            if has_lock:
                path.unlink(missing_ok=True)


def store_identity(store: str, /) -> tuple[int, int] | None:
    """Return an identity of a store's file or folder, which its replacement would not have; None without one."""
    path = parse_url(store).path
    return file_identity(path) if path is not None else None


def file_identity(path: Path, /) -> tuple[int, int] | None:
    """Return an identity of a file, which its replacement would not have; None if there is none."""
    try:
        status = path.stat()
    except OSError:
        return None
    return status.st_dev, status.st_ino


def _remove_socket(address: Path, address_identity: tuple[int, int] | None) -> None:
    """Remove the socket's file, if it is still the same one."""
    if address_identity is not None and file_identity(address) == address_identity:
        address.unlink(missing_ok=True)


async def _next_check() -> None:
    await asyncio.sleep(CHECK_S)


def start_resident(arguments: Sequence[str], /) -> None:
    """Start a process that answers the next events of commands with these arguments, if there is none.

    It outlives this one, says nothing, and ends by itself.
    """
    address = resident_address(arguments)
    if address is None or _is_answered(address):
        return
    start_detached(["hooks", "resident", *memory_arguments(arguments)])


def start_detached(arguments: Sequence[str], /, *, data: bytes = b"") -> None:
    """Start this program with these arguments and `data` on its standard input, detached from this process."""
    process = subprocess.Popen(  # noqa: S603 - this very program
        [*OWN_PROGRAM, *arguments],
        stdin=subprocess.PIPE if data else subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
        env=dict(os.environ),
    )
    if process.stdin is not None:
        with suppress(BrokenPipeError), process.stdin as pipe:
            pipe.write(data)


def _is_answered(address: Path) -> bool:
    """Return whether a process answers at `address`; the file of a killed one does not count."""
    with socket.socket(socket.AF_UNIX) as caller:
        caller.settimeout(1.0)
        try:
            caller.connect(str(address))
        except OSError:
            return False
    return True
