"""Processes that use a store until they are done or killed, and what they say."""

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
    """A child's end of the talk: lines out, a word to go on in. It never writes: writes may be made to fail."""

    def __init__(self, pipe: Connection, /) -> None:
        self._socket = socket.socket(fileno=pipe.fileno())

    def say(self, line: str, /) -> None:
        self._socket.sendall(f"{line}\n".encode())

    def rest(self, sign: str, /) -> None:
        """Say `sign` and go on when told to."""
        self.say(sign)
        self._socket.recv(1)


def work(voice: Voice, engine: Engine, folder: Path, plan: Plan, weakness: Weakness) -> None:
    """Do what `plan` says; the body of a child."""

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
    """A process under way. Read it to the end before its lines are used."""

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
        """Take in what it says for `seconds`, until it has said the line `until`, or until it is gone.

        Return whether it is still there and said what was waited for.
        """
        if until is not None:
            return self.hear(seconds, until) is not None
        deadline = time.monotonic() + seconds
        while (left := deadline - time.monotonic()) > 0:
            if select.select([self._pipe], [], [], left)[0] and not self._take():
                return False
        return True

    def hear(self, seconds: float, /, *signs: str) -> str | None:
        """Return the first of the lines `signs` that it has said within `seconds`; None where it says none of them."""
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
        """Let it go on where it rests."""
        self._socket.sendall(b"!")

    def kill(self) -> list[str]:
        """Kill it now and return all it said."""
        self._process.kill()
        return self.wait()

    def wait(self) -> list[str]:
        """Return all it said, once it is gone."""
        while self._take():
            pass
        self._process.join()
        self._socket.detach()
        self._pipe.close()
        whole = self._heard[: self._heard.rfind(b"\n") + 1].decode().splitlines()
        return [line for line in whole if line not in _SIGNS]

    @property
    def exit_code(self) -> int | None:
        """Return how it ended; negative where a signal ended it."""
        return self._process.exitcode

    def _take(self) -> bool:
        try:
            said = self._socket.recv(1 << 16)
        except ConnectionResetError:
            return False
        self._heard += said
        return bool(said)
