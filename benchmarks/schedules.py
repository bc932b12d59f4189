"""Compare due agent turns per second with one-step workflows of DBOS, on the same model server and SQLite files.

    uv run --group dev --group peers python -m benchmarks.schedules [--count N] [--rounds N]

Each round runs both in turn: schedules of four users that become due at once, each of which is a turn that asks the
model and is stored; and as many workflows of DBOS, four at a time, whose only step asks the same model by plain httpx.
Exits 1 if the best round of Elytron is below half of the best round of DBOS.
"""

import argparse
import asyncio
import tempfile
import time
from collections.abc import Awaitable, Callable, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any, Final

import httpx
from tests.agent.service.served import AT, echo
from tests.models.fake_server import serving
from tests.transports.listener import listening

import elytron
from benchmarks.rigs import tables
from elytron_agent.service.agent_service import SCHEDULES_AT_ONCE
from elytron_agent.service.companion import ServiceSettings, UserAgents
from elytron_agent.service.schedules.schedule_repository import OneOffRule, ScheduleRepository, ScheduleRequest
from elytron_agent.service.surfaces import agent_surfaces
from elytron_agent.service.wire import InitRequest
from elytron_core.clock import FrozenClock, Instant, format_instant
from elytron_core.ids import SpaceId
from elytron_http_shell import create_app

GOAL: Final = 0.5
_MINUTE_MS: Final = 60_000
_WORDS: Final = "Water the plants"


async def ours(folder: Path, url: str, count: int) -> float:
    """Return the due turns per second of a server with a new SQLite file."""
    clock = FrozenClock(AT, step_ms=1)
    settings = ServiceSettings(models=(f"chat:scripted@{url}/v1",), schedule_poll_s=0.01)
    async with elytron.open(str(folder / "memory.db"), space=None, clock=clock) as memory:
        shelves: list[ScheduleRepository] = []
        rule = OneOffRule(at=format_instant(Instant(AT + 60 * _MINUTE_MS)))
        for number in range(SCHEDULES_AT_ONCE):
            user = UserAgents(memory.context, SpaceId(f"user{number}"), settings, caller="benchmark")
            known, shelf = await user.init(InitRequest()), ScheduleRepository(user)
            for _ in range(count // SCHEDULES_AT_ONCE):
                await shelf.create(ScheduleRequest(task=_WORDS, rule=rule), known)
            shelves.append(shelf)
        async with listening(create_app(memory, further=(agent_surfaces(settings),))):
            clock.advance(61 * _MINUTE_MS)
            begun = time.perf_counter()
            for shelf in shelves:
                while any(each.stored.next_due is not None for each in await shelf.list()):
                    await asyncio.sleep(0.05)
            took = time.perf_counter() - begun
        ended = [each.stored.completed for shelf in shelves for each in await shelf.list()]
        assert ended == [1] * (count // SCHEDULES_AT_ONCE * SCHEDULES_AT_ONCE), ended
    return len(ended) / took


async def of_dbos(folder: Path, url: str, count: int) -> float:
    """Return the one-step workflows per second of DBOS with a new SQLite file."""
    peer: Any = import_module("dbos")
    peer.DBOS(config={"name": "beside", "system_database_url": f"sqlite:///{folder / 'dbos.db'}", "log_level": "ERROR"})
    body = {"model": "m", "stream": True, "messages": [{"role": "user", "content": _WORDS}]}
    async with httpx.AsyncClient() as client:

        async def ask() -> str:
            async with client.stream("POST", f"{url}/v1/chat/completions", json=body) as answer:
                return (await answer.aread()).decode()

        step = peer.DBOS.step()(ask)

        async def work() -> str:
            return await step()

        workflow = peer.DBOS.workflow()(work)
        peer.DBOS.launch()
        room = asyncio.Semaphore(SCHEDULES_AT_ONCE)

        async def one() -> None:
            async with room:
                assert _WORDS in await workflow()

        begun = time.perf_counter()
        await asyncio.gather(*(one() for _ in range(count)))
        took = time.perf_counter() - begun
        peer.DBOS.destroy(destroy_registry=True)
    return count / took


async def measured(way: Callable[[Path, str, int], Awaitable[float]], count: int) -> float:
    """Return the turns per second of one side, with a new store and a new model."""
    with tempfile.TemporaryDirectory(prefix="elytron-schedules-") as folder:
        async with serving() as model:
            model.reply = echo
            return await way(Path(folder), model.url, count)


def main(argv: Sequence[str] | None = None) -> int:
    """Run the benchmark and return the exit code."""
    parser = argparse.ArgumentParser(description="due turns a second, beside workflows of DBOS")
    parser.add_argument("--count", type=int, default=200, help="turns of a round")
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args(argv)
    mine, theirs = list[float](), list[float]()
    for _ in range(options.rounds):
        # Each runs in its own event loop, because DBOS closes the loop that it used.
        mine.append(asyncio.run(measured(ours, options.count)))
        theirs.append(asyncio.run(measured(of_dbos, options.count)))
    tables.show(
        [
            {"what": name, "best a second": f"{max(rates):.1f}", "rounds": ", ".join(f"{rate:.1f}" for rate in rates)}
            for name, rates in (("due turns", mine), ("one-step workflows of DBOS", theirs))
        ]
    )
    ratio = max(mine) / max(theirs)
    print(f"ratio {ratio:.2f} (at least {GOAL})")
    return 0 if ratio >= GOAL else 1


if __name__ == "__main__":
    raise SystemExit(main())
