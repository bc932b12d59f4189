"""Processes that use a store until they are done or killed, and what they say through a pipe."""

import asyncio
import os
import select
import time
from multiprocessing import get_context
from multiprocessing.connection import Connection
from pathlib import Path

from benchmarks.rigs import traffic
from benchmarks.rigs.engines import Engine, Weakness, open_memory, stop_syncing
from benchmarks.rigs.traffic import Plan

READY = "ready"
_CONTEXT = get_context("forkserver")
_CONTEXT.set_forkserver_preload(["benchmarks.rigs.children", "benchmarks.rigs.warm"])


def work(engine: Engine, folder: Path, plan: Plan, weakness: Weakness, pipe: Connection) -> None:
    """Do what `plan` says; the body of a child. Each line is told in one call, so a kill cuts none."""
    handle = pipe.fileno()

    def say(line: str) -> None:
        os.write(handle, f"{line}\n".encode())

    async def use() -> None:
        for round_ in range(plan.rounds):
            memory = await open_memory(engine, folder, weakness=weakness)
            if round_ == 0:
                say(READY)
            await traffic.run(memory, plan, say, round_=round_)
            await memory.close()

    if weakness is Weakness.OFF:
        stop_syncing()
    asyncio.run(use())


class Child:
    """A process under way. Read it to the end before its lines are used."""

    def __init__(self, engine: Engine, folder: Path, plan: Plan, /, *, weakness: Weakness = Weakness.NONE) -> None:
        self._pipe, theirs = _CONTEXT.Pipe(duplex=False)
        self._heard = b""
        self._process = _CONTEXT.Process(target=work, args=(engine, folder, plan, weakness, theirs), daemon=True)
        self._process.start()
        theirs.close()

    def listen(self, seconds: float, /, *, until_ready: bool = False) -> bool:
        """Take in what it says for `seconds`, or until it is ready or gone; return whether it is still there."""
        deadline = time.monotonic() + seconds
        while (left := deadline - time.monotonic()) > 0:
            if until_ready and self._heard:
                return True
            if select.select([self._pipe], [], [], left)[0] and not self._take():
                return False
        return True

    def kill(self) -> list[str]:
        """Kill it now and return all it said."""
        self._process.kill()
        return self.wait()

    def wait(self) -> list[str]:
        """Return all it said, once it is gone."""
        while self._take():
            pass
        self._process.join()
        self._pipe.close()
        whole = self._heard[: self._heard.rfind(b"\n") + 1].decode().splitlines()
        return [line for line in whole if line != READY]

    @property
    def exit_code(self) -> int | None:
        """Return how it ended."""
        return self._process.exitcode

    def _take(self) -> bool:
        said = os.read(self._pipe.fileno(), 1 << 16)
        self._heard += said
        return bool(said)
