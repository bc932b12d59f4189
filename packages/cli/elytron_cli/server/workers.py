"""Worker processes of one server. They share its port and are supervised by the process that started them."""

import asyncio
import json
import os
import signal
import socket
import sys
import time
from asyncio.subprocess import PIPE, Process
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from elytron_cli.agents.prompt_client import OWN_PROGRAM
from elytron_core import limits
from elytron_core.errors import InvalidInput, Unsupported
from elytron_store import parse_url

_SHARED = frozenset({"sqlite", "file", "postgres"})
"""Engines whose stores several processes may open."""
KEY_BYTES = 32
_ENDING_S = 5.0
_STEADY_S = 5.0
"""Minimum run time of a worker for it to be replaced; one that ends sooner ends the server."""

Ready = Callable[[Mapping[str, Any], Sequence[int]], None]


def require_workers(store: str, /) -> None:
    """Raise InvalidInput for a store that several processes cannot open, Unsupported on a system without shared
    ports."""
    if parse_url(store).engine not in _SHARED:
        raise InvalidInput(
            field="--workers", problem="requires a store that processes can share: a database, a folder, or Postgres"
        )
    if sys.platform == "win32":
        raise Unsupported("--workers requires a system on which processes can share a port: remove it on Windows")


def worker_arguments(arguments: Sequence[str], descriptor: int, /, *, is_first: bool) -> list[str]:
    """Return a worker's arguments from those of the server; only the first creates the operator's key."""
    options: list[str] = []
    argument_iterator = iter(arguments)
    for argument in argument_iterator:
        if argument == "--workers":
            next(argument_iterator, None)
        elif not argument.startswith("--workers=") and (is_first or argument != "--operator-key"):
            options.append(argument)
    return [*options, "--listen-fd", str(descriptor), "--json"]


class WorkerGroup:
    """The workers of one server. A failed one is replaced; one that was ended ends them all."""

    def __init__(self, arguments: Sequence[str], listening_socket: socket.socket, count: int, /) -> None:
        self._arguments = arguments
        self._descriptor = listening_socket.fileno()
        self._count = count
        self._ending = asyncio.Event()
        self._running: dict[asyncio.Task[int], Process] = {}
        self._key = os.urandom(KEY_BYTES)
        """The key under which the workers share unlocked spaces; it is in no argument, environment or file."""

    @property
    def processes(self) -> Sequence[int]:
        """Return the ids of the processes that answer now."""
        return [worker.pid for worker in self._running.values()]

    def end(self) -> None:
        """End all workers as a signal does."""
        self._ending.set()

    async def run(self, ready: Ready, /) -> int:
        """Run the workers until they end; return the exit code. `ready` is called once all of them listen."""
        try:
            # The first creates the store, and the operator's key, if necessary.
            first_worker, report = await self._start(is_first=True)
            if report is None:
                # It ended before it listened, so even an exit code of 0 is no success.
                return await first_worker.wait() or 1
            other_workers = await asyncio.gather(*(self._start(is_first=False) for _ in range(self._count - 1)))
            for worker, worker_report in other_workers:
                if worker_report is None:
                    return await worker.wait() or 1
            ready(report, self.processes)
            return await self._watch()
        finally:
            await self._end_all()

    async def _start(self, *, is_first: bool) -> tuple[Process, Mapping[str, Any] | None]:
        """Start a worker; return it and its report once it listens, None if it ended before."""
        command = [*OWN_PROGRAM, *worker_arguments(self._arguments, self._descriptor, is_first=is_first)]
        # The worker ends when its input does, because this process is then gone.
        worker = await asyncio.create_subprocess_exec(*command, stdin=PIPE, stdout=PIPE, pass_fds=[self._descriptor])
        self._running[asyncio.create_task(worker.wait())] = worker
        assert worker.stdin is not None
        worker.stdin.write(self._key)
        return worker, await _first_report(worker)

    async def _watch(self) -> int:
        start_times = dict.fromkeys(self._running, time.monotonic())
        ending_task = asyncio.create_task(self._ending.wait())
        try:
            while True:
                finished_tasks, _ = await asyncio.wait(
                    {ending_task, *self._running}, return_when=asyncio.FIRST_COMPLETED
                )
                if ending_task in finished_tasks:
                    return 0
                for task in [running_task for running_task in self._running if running_task in finished_tasks]:
                    del self._running[task]
                    code = task.result()
                    if code == 0 or time.monotonic() - start_times.pop(task, 0.0) < _STEADY_S:
                        # A negative code is the number of a signal.
                        return max(code, 0) or int(code < 0)
                    _, report = await self._start(is_first=False)
                    if report is None:
                        return 1
                    start_times |= {
                        running_task: time.monotonic()
                        for running_task in self._running
                        if running_task not in start_times
                    }
        finally:
            ending_task.cancel()

    async def _end_all(self) -> None:
        """End every worker as a signal does, and forcibly those that do not end."""
        for worker in self._running.values():
            if worker.returncode is None:
                worker.terminate()
        if not self._running:
            return
        _, running_tasks = await asyncio.wait(self._running, timeout=limits.SHUTDOWN_S + _ENDING_S)
        for task in running_tasks:
            self._running[task].kill()
        await asyncio.gather(*self._running)


async def _first_report(worker: Process) -> Mapping[str, Any] | None:
    """Return the report that a worker prints when it listens."""
    assert worker.stdout is not None
    text = b""
    while line := await worker.stdout.readline():
        text += line
        # The report may have several lines.
        try:
            report: Mapping[str, Any] = json.loads(text)
        except ValueError:
            continue
        return report
    return None


async def run_workers(arguments: Sequence[str], listening_socket: socket.socket, count: int, ready: Ready, /) -> int:
    """Serve `listening_socket` with `count` workers until a signal ends them; return the exit code."""
    group = WorkerGroup(arguments, listening_socket, count)
    event_loop = asyncio.get_running_loop()
    for signal_number in (signal.SIGINT, signal.SIGTERM):
        event_loop.add_signal_handler(signal_number, group.end)
    return await group.run(ready)


def read_server_key() -> bytes | None:
    """Return the key shared by all workers of this server, sent by the parent process; None without one."""
    key = os.read(sys.stdin.fileno(), KEY_BYTES)
    return key if len(key) == KEY_BYTES else None


def end_with_input(end: Callable[[], None], /) -> None:
    """Call `end` when the input of this process ends, because its parent is gone."""
    event_loop = asyncio.get_running_loop()
    source = sys.stdin.fileno()

    def read() -> None:
        if not os.read(source, 1):
            event_loop.remove_reader(source)
            end()

    event_loop.add_reader(source, read)
