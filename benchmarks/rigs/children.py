"""Processes that use a store until they finish or are killed, and what they report."""

import asyncio
import select
import socket
import time
from collections.abc import Callable
from multiprocessing import get_context
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Concatenate, ParamSpec

from benchmarks.rigs import traffic
from benchmarks.rigs.engines import Engine, Weakness, open_memory, stop_syncing
from benchmarks.rigs.traffic import Plan

P = ParamSpec("P")

READY = "ready"
_SIGNS = {READY, "closing", "rest"}
_CONTEXT = get_context("forkserver")
_CONTEXT.set_forkserver_preload(["benchmarks.rigs.children", "benchmarks.rigs.warm"])


class Voice:
    """A child's side of the connection: it sends lines and receives a signal to continue.

    It never writes files, because writes may be made to fail.
    """

    def __init__(self, pipe: Connection, /) -> None:
        self._socket = socket.socket(fileno=pipe.fileno())

    def say(self, line: str, /) -> None:
        self._socket.sendall(f"{line}\n".encode())

    def rest(self, sign: str, /) -> None:
        """Send `sign` and wait for the signal to continue."""
        self.say(sign)
        self._socket.recv(1)


def work(voice: Voice, engine: Engine, folder: Path, plan: Plan, weakness: Weakness) -> None:
    """Carry out `plan`; the body of a child process."""

    async def use() -> None:
        for round_ in range(plan.rounds):
            memory = await open_memory(engine, folder, weakness=weakness)
            if round_ == 0:
                voice.say(READY)
            await traffic.run(memory, plan, voice.say, round_=round_)
            await memory.close()

    if weakness is Weakness.OFF:
        stop_syncing()
    asyncio.run(use())


def _begin(pipe: Connection, body: Callable[Concatenate[Voice, P], None], *args: P.args, **kwargs: P.kwargs) -> None:
    body(Voice(pipe), *args, **kwargs)


class Child:
    """A running child process. Read its output to the end before using its lines."""

    def __init__(self, body: Callable[Concatenate[Voice, P], None], /, *args: P.args, **kwargs: P.kwargs) -> None:
        self._pipe, theirs = _CONTEXT.Pipe()
        self._heard = b""
        self._process = _CONTEXT.Process(target=_begin, args=(theirs, body, *args), kwargs=kwargs, daemon=True)
        self._process.start()
        theirs.close()
        self._socket = socket.socket(fileno=self._pipe.fileno())

    @property
    def pid(self) -> int:
        assert self._process.pid is not None
        return self._process.pid

    def listen(self, seconds: float, /, *, until: str | None = None) -> bool:
        """Read its output for `seconds`, until it has sent the line `until`, or until it has ended.

        Returns whether it is still running and has sent what was waited for.
        """
        if until is not None:
            return self.hear(seconds, until) is not None
        deadline = time.monotonic() + seconds
        while (left := deadline - time.monotonic()) > 0:
            if select.select([self._pipe], [], [], left)[0] and not self._take():
                return False
        return True

    def hear(self, seconds: float, /, *signs: str) -> str | None:
        """Return the first of the lines `signs` that it sends within `seconds`, or None."""
        deadline = time.monotonic() + seconds
        while True:
            said = self._heard.decode().split("\n")[:-1]
            found = [sign for sign in signs if sign in said]
            if found:
                return found[0]
            left = deadline - time.monotonic()
            if left <= 0 or (select.select([self._pipe], [], [], left)[0] and not self._take()):
                return None

    def go_on(self) -> None:
        """Let it continue where it waits."""
        self._socket.sendall(b"!")

    def kill(self) -> list[str]:
        """Kill it now and return all of its lines."""
        self._process.kill()
        return self.wait()

    def wait(self) -> list[str]:
        """Wait for its end and return all of its lines."""
        while self._take():
            pass
        self._process.join()
        self._socket.detach()
        self._pipe.close()
        whole = self._heard[: self._heard.rfind(b"\n") + 1].decode().splitlines()
        return [line for line in whole if line not in _SIGNS]

    @property
    def exit_code(self) -> int | None:
        """Return its exit code, which is negative if a signal ended it."""
        return self._process.exitcode

    def _take(self) -> bool:
        try:
            said = self._socket.recv(1 << 16)
        except ConnectionResetError:
            return False
        self._heard += said
        return bool(said)
