"""Kill servers of agents while a thousand schedules are due, and check that each runs once, with its events.

    python -m benchmarks.rigs.schedules [--schedules N] [--kills N] [--drops N] [--seed S] [--short]

Two server processes on one SQLite file run the schedules of two users with a scripted model. Their clock advances by an
hour, wave after wave, so that all schedules of a wave are due at once; some are late by then, and some fail. Meanwhile,
servers are killed and restarted, and clients of the event streams disconnect and reconnect after the last event that
they saw. Exits 1 if a schedule did not end in exactly one of completed, failed and expired, if a run is missing or
doubled, or if a client missed an event or received another user's. It also exits 1 if fewer than half were completed,
because a run in which most expire shows little.
"""

import argparse
import asyncio
import mmap
import os
import random
import signal
import struct
import tempfile
import time
from collections import Counter
from collections.abc import AsyncGenerator, Sequence
from contextlib import AsyncExitStack, suppress
from dataclasses import dataclass, field
from multiprocessing import get_context
from pathlib import Path
from typing import Any, Final

import httpx
from tests.agent.service.served import Event, ServedUser, events_of, said
from tests.models.fake_server import Asked, Sent, serving
from tests.models.streams import data
from tests.transports.listener import listening

import elytron
from benchmarks.rigs import tables
from elytron_adapter.access_keys import AccessAddRequest, AccessKeys
from elytron_agent import limits
from elytron_agent.limits import LEASE_SECONDS
from elytron_agent.service.companion import ServiceSettings
from elytron_agent.service.schedules import schedule_repository
from elytron_agent.service.surfaces import agent_surfaces
from elytron_core.clock import Instant, SystemClock, format_instant
from elytron_core.ids import SpaceId
from elytron_core.planes.servers.system_documents import PrincipalKind
from elytron_http_shell import create_app

_CONTEXT = get_context("forkserver")
_CONTEXT.set_forkserver_preload(["elytron_agent.loop.agent", "elytron_http_shell", "tests.agent.service.served"])
USERS: Final = ("ada", "bob")
SERVERS, SUBSCRIBERS = 2, 2
_HOUR_MS, _MINUTE_MS = 3_600_000, 60_000
_ASKED = "write to the user:\n"
_EVENTS_S = 20.0
"""How long clients must receive no event before their last events count as final."""
_STILL_S, _LONG_STILL_S = 2.0, 20.0
"""Time without progress after which the clock passes the leases of a killed server, and those of any server."""
_LATE, _FAILS = 20, 20
"""One in this many schedules is late when the clock advances, and one in this many fails."""
_WANTED = ("servers killed", "clients dropped", "completed", "failed", "expired")
"""Events that must have occurred for a run to be meaningful."""
_KEPT = 100_000
"""Number of finished schedules that are kept."""
_WORDS = struct.Struct("<q")


class SteppedClock(SystemClock):
    """The machine's clock plus an offset from a file, which all processes share."""

    def __init__(self, path: Path) -> None:
        with path.open("r+b") as file:
            self._step = mmap.mmap(file.fileno(), _WORDS.size)

    def now(self, /) -> Instant:
        return Instant(super().now() + _WORDS.unpack(self._step[:])[0])

    def advance(self, by_ms: int) -> None:
        """Advance the clock of all processes."""
        self._step[:] = _WORDS.pack(_WORDS.unpack(self._step[:])[0] + by_ms)


@dataclass(frozen=True, slots=True)
class RigSize:
    """The amount of work of a rig."""

    schedules: int = 1_000
    kills: int = 30
    drops: int = 100
    waves: int = 10
    """Number of waves, each with its step of the clock.

    Kills pass leases, and what does not start within 15 minutes expires.
    """


SHORT: Final = RigSize(schedules=24, kills=2, drops=6, waves=2)


@dataclass(slots=True)
class RigBook:
    """The problems that were found, and the amount of work done."""

    failures: list[str] = field(default_factory=list[str])
    counts: Counter[str] = field(default_factory=Counter[str])


async def _serve(folder: Path, model: str) -> None:
    schedule_repository.SCHEDULES_OVER = _KEPT  # all of them are compared in the end
    settings = ServiceSettings(
        models=(f"chat:scripted@{model}/v1",), context_tokens=6_000, schedule_poll_s=0.05, heartbeat_s=1.0
    )
    async with (
        elytron.open(str(folder / "m.db"), space=None, clock=SteppedClock(folder / "clock")) as memory,
        listening(create_app(memory, further=(agent_surfaces(settings),))) as url,
    ):
        part = folder / f"part.{os.getpid()}"
        part.write_text(url)
        part.rename(folder / f"address.{os.getpid()}")
        await asyncio.Event().wait()


def serve(folder: Path, model: str) -> None:
    """Serve agents until this process is killed; the body of a child process."""
    asyncio.run(_serve(folder, model))


def answer_of(asked: Asked) -> Sent:
    """Report that a schedule's task is done, or call a tool with invalid JSON."""
    for message in reversed(asked.body["messages"]):
        words = str(message.get("content"))
        if message["role"] == "user" and _ASKED in words:
            task = words.rpartition(_ASKED)[2]
            return _broken_call() if "fails" in task else said(f"Done: {task}")
    return said("nothing to add")


def _broken_call() -> Sent:
    call = {"index": 0, "id": "t0", "type": "function", "function": {"name": "list_schedules", "arguments": "no JSON"}}
    choices = [{"index": 0, "delta": {"tool_calls": [call]}, "finish_reason": "tool_calls"}]
    return Sent(
        (
            data(
                {"id": "c", "object": "chat.completion.chunk", "created": 1, "model": "m", "choices": choices}, "[DONE]"
            ),
        )
    )


class RigServer:
    """One server process, which is restarted whenever it is killed."""

    def __init__(self, folder: Path, model: str) -> None:
        self._arguments = (folder, model)
        self._folder = folder
        self.url = ""

    async def start(self) -> None:
        """Start the server, and return once it listens."""
        self._process = _CONTEXT.Process(target=serve, args=self._arguments, daemon=True)
        self._process.start()
        place = self._folder / f"address.{self._process.pid}"
        while not place.exists():
            assert self._process.is_alive(), "a server ended before it listened"
            await asyncio.sleep(0.02)
        self.url = place.read_text()

    @property
    def is_alive(self) -> bool:
        return self._process.is_alive()

    async def kill(self) -> None:
        """Kill it."""
        assert self._process.pid is not None
        os.kill(self._process.pid, signal.SIGKILL)
        await asyncio.to_thread(self._process.join)


@dataclass(slots=True)
class Subscriber:
    """A client of a user's events that disconnects now and then, and what it saw."""

    rig: "ScheduleRig"
    key: str
    after: str
    seen: dict[str, Event] = field(default_factory=dict[str, Event])

    async def follow(self) -> None:
        """Read events forever, starting after the last one that was seen."""
        while True:
            server = self.rig.chance.choice(self.rig.servers)
            with suppress(httpx.HTTPError):
                async with self.rig.stream(server.url, self.key, self.after) as response:
                    async for event in events_of(response):
                        if event.kind == "agent.gap":
                            self.rig.book.failures.append(f"a client was told of a gap: {event.data}")
                        self.seen[event.id] = event
                        self.after = event.id
                        if self.rig.may_drop():
                            break
            await asyncio.sleep(0.01)


class ScheduleRig:
    """The servers, their users and the results."""

    def __init__(self, folder: Path, size: RigSize, chance: random.Random) -> None:
        self.book, self.chance, self.size = RigBook(), chance, size
        self._folder = folder
        self._drops, self._kills = size.drops, size.kills
        self._asks = self._made = 0
        self.servers: list[RigServer] = []
        self._users: dict[str, ServedUser] = {}
        self._agents: dict[str, str] = {}
        self._http = httpx.AsyncClient(timeout=60)

    def stream(self, url: str, key: str, after: str) -> Any:
        """Return the request for a user's events."""
        headers = {"Authorization": f"Bearer {key}", "Last-Event-ID": after}
        return self._http.stream("GET", f"{url}/v1/agent/events", headers=headers, timeout=5)

    def may_drop(self) -> bool:
        """Return whether a client disconnects now, which happens a limited number of times."""
        spread = max(1, 3 * SUBSCRIBERS * self.size.schedules // (2 * max(1, self.size.drops)))
        if self._drops == 0 or self.chance.randrange(spread):
            return False
        self._drops -= 1
        self.book.counts["clients dropped"] += 1
        return True

    async def run(self) -> RigBook:
        """Run the rig and return the results."""
        (self._folder / "clock").write_bytes(_WORDS.pack(0))
        clock = SteppedClock(self._folder / "clock")
        keys = await self._make_keys(clock)
        async with AsyncExitStack() as stack:
            model = await stack.enter_async_context(serving())

            def reply(asked: Asked) -> Sent:
                self._asks += 1
                model.asked.clear()
                return answer_of(asked)

            model.reply = reply
            self.servers = [RigServer(self._folder, model.url) for _ in range(SERVERS)]
            await asyncio.gather(*(server.start() for server in self.servers))
            stack.push_async_callback(self._end_servers)
            stack.push_async_callback(self._http.aclose)
            self._users = {space: ServedUser(self._http, key) for space, key in keys.items()}
            for space, user in self._users.items():
                self._agents[space] = (await self._call(user, "POST", "/init"))["id"]
            subscribers = {
                space: [Subscriber(self, key, "0") for _ in range(SUBSCRIBERS)] for space, key in keys.items()
            }
            tasks = [asyncio.create_task(each.follow()) for found in subscribers.values() for each in found]
            try:
                for wave in range(self.size.waves):
                    await self._make_wave(wave, clock)
                    clock.advance(_HOUR_MS)
                    kills_left = self.size.kills - self.size.kills * (wave + 1) // self.size.waves
                    await self._until_over(clock, kills_left=kills_left)
                for space in self._users:
                    await self._check(space, subscribers[space])
                if 2 * self.book.counts["completed"] < self._made:
                    self.book.failures.append("most schedules were not completed: this run shows little")
            finally:
                for task in tasks:
                    task.cancel()
                await asyncio.gather(*tasks, return_exceptions=True)
        return self.book

    async def _make_keys(self, clock: SteppedClock) -> dict[str, str]:
        async with elytron.open(str(self._folder / "m.db"), space=None, clock=clock) as memory:
            access = AccessKeys(memory.context)
            asked = [AccessAddRequest(kind=PrincipalKind.USER, space=SpaceId(each), label="rig") for each in USERS]
            return {each.space or "": (await access.add(each)).key for each in asked}

    async def _call(self, user: ServedUser, method: str, path: str, body: Any = None) -> Any:
        """Return the response of any available server."""
        while True:
            server = self.chance.choice(self.servers)
            headers = {"Authorization": f"Bearer {user.key}"}
            with suppress(httpx.TransportError):
                answer = await self._http.request(method, f"{server.url}/v1/agent{path}", json=body, headers=headers)
                if answer.status_code == 200:
                    return answer.json()
                if answer.status_code != 503:
                    self.book.failures.append(f"{method} {path} was answered {answer.status_code}: {answer.text[:200]}")
            await asyncio.sleep(0.05)

    async def _make_wave(self, wave: int, clock: SteppedClock) -> None:
        """Create a part of the schedules, due after the next step of the clock."""
        now = clock.now()
        each = self.size.schedules // len(USERS) // self.size.waves
        for space, user in self._users.items():
            for number in range(each):
                kind = "is late" if number % _LATE == 3 else "fails" if number % _FAILS == 5 else "is done"
                due = now + (20 * _MINUTE_MS if kind == "is late" else _HOUR_MS)
                rule = {"type": "one_off", "at": format_instant(Instant(due))}
                await self._call(user, "POST", "/schedules", {"task": f"{space} {wave}.{number} {kind}", "rule": rule})
                self._made += 1

    async def _until_over(self, clock: SteppedClock, *, kills_left: int) -> None:
        """Kill servers until `kills_left` are left, and return when all schedules are over."""
        spread = max(1, self.size.schedules // (2 * max(1, self.size.kills)))
        killed_at, still_at, left, still_s = self._asks, time.monotonic(), -1, _LONG_STILL_S
        while True:
            if any(not server.is_alive for server in self.servers):
                self.book.failures.append("a server ended by itself")
                return
            if self._kills > kills_left and self._asks - killed_at >= self.chance.randrange(spread) + 1:
                await self._kill_one(clock)
                killed_at, still_s = self._asks, _STILL_S
            begun = time.monotonic()
            found = await self._left()
            pause = max(0.1, 2 * (time.monotonic() - begun))
            if found == 0 and self._kills <= kills_left:
                return
            if found == 0:
                killed_at = -self.size.schedules  # nothing is due any more: the remaining kills happen at rest
            if found != left:
                left, still_at = found, time.monotonic()
            elif time.monotonic() - still_at > still_s:
                clock.advance(limits.SCHEDULE_LEASE_MS + 1_000)
                self.book.counts["leases passed"] += 1
                still_at, still_s = time.monotonic(), _LONG_STILL_S
            await asyncio.sleep(pause)

    async def _kill_one(self, clock: SteppedClock) -> None:
        self._kills -= 1
        self.book.counts["servers killed"] += 1
        server = self.chance.choice(self.servers)
        await server.kill()
        clock.advance(round(LEASE_SECONDS * 1000) + 1)
        await server.start()

    async def _left(self) -> int:
        """Return the number of unfinished schedules."""
        found = [(await self._call(user, "GET", "/schedules"))["data"] for user in self._users.values()]
        return sum(each["state"] == "active" for schedules in found for each in schedules)

    async def _check(self, space: str, subscribers: Sequence[Subscriber]) -> None:
        """Compare a user's schedules with the thread and with what clients saw."""
        user, wrong = self._users[space], self.book.failures
        schedules = (await self._call(user, "GET", "/schedules"))["data"]
        if len(schedules) != self._made // len(USERS):
            wrong.append(f"{space}: {len(schedules)} schedules are left")
        items = [item async for item in self._items(user)]
        runs = Counter(item["text"].rpartition("\n")[2] for item in items if item["role"] == "schedule")
        answers = Counter(item["text"] for item in items if item["role"] == "assistant")
        for each in schedules:
            ends = {name: each[name] for name in ("completed", "failed", "expired")}
            if sum(ends.values()) != 1 or each["state"] != "over":
                wrong.append(f"{each['task']}: ended as {ends}, and is {each['state']}")
            self.book.counts.update({name: count for name, count in ends.items() if count})
            attempts = sum(run["attempts"] for run in each["runs"])
            if runs[each["task"]] != attempts:
                wrong.append(f"{each['task']}: {runs[each['task']]} turns for {attempts} attempts")
            said_done = answers["Done: " + each["task"]]
            if said_done != each["completed"]:
                wrong.append(f"{each['task']}: answered {said_done} times, ended as {ends}, runs {each['runs']}")
        others = [f"{other} " for other in USERS if other != space]
        if foreign := [text for text in (*runs, *answers) if any(other in text for other in others)]:
            wrong.append(f"{space} has turns of another user: {foreign[:3]}")
        await self._check_events(space, subscribers, {each["id"] for each in schedules if each["completed"]})

    async def _check_events(self, space: str, subscribers: Sequence[Subscriber], completed: set[str]) -> None:
        log, self._drops = Subscriber(self, self._users[space].key, "0"), 0
        reading = asyncio.create_task(log.follow())
        seen, still_at = -1, time.monotonic()
        while time.monotonic() - still_at < _EVENTS_S:
            if (found := len(log.seen) + sum(len(each.seen) for each in subscribers)) != seen:
                seen, still_at = found, time.monotonic()
            done = {event.data.get("schedule_id") for event in log.seen.values() if event.kind == "agent.done"}
            if done >= completed and all(each.seen.keys() >= log.seen.keys() for each in subscribers):
                break
            await asyncio.sleep(0.1)
        reading.cancel()
        await asyncio.gather(reading, return_exceptions=True)
        self.book.counts["events"] += len(log.seen)
        done = {event.data.get("schedule_id") for event in log.seen.values() if event.kind == "agent.done"}
        if missing := completed - done:
            self.book.failures.append(f"{space}: {len(missing)} completed schedules have no end in the log")
        for each in (log, *subscribers):
            if missed := log.seen.keys() - each.seen.keys():
                self.book.failures.append(f"{space}: a client missed {len(missed)} events")
            foreign = [event for event in each.seen.values() if event.data.get("agent_id") != self._agents[space]]
            if foreign:
                self.book.failures.append(f"{space}: a client saw {len(foreign)} events of another user")

    async def _items(self, user: ServedUser) -> AsyncGenerator[dict[str, Any]]:
        after = ""
        while True:
            page = await self._call(user, "GET", f"/items?order=asc&limit=100{after}")
            for item in page["data"]:
                yield item
            if not page["has_more"]:
                return
            after = f"&after={page['last_id']}"

    async def _end_servers(self) -> None:
        for server in self.servers:
            if server.is_alive:
                await server.kill()


async def run_rig(folder: Path, size: RigSize, chance: random.Random) -> RigBook:
    """Run the rig with an empty store in `folder`."""
    return await ScheduleRig(folder, size, chance).run()


def main(argv: Sequence[str] | None = None) -> int:
    """Run the rig and return the exit code."""
    usual = RigSize()
    parser = argparse.ArgumentParser(description="kill servers of agents while schedules are due")
    parser.add_argument("--schedules", type=int, default=usual.schedules, help="of both users")
    parser.add_argument("--kills", type=int, default=usual.kills)
    parser.add_argument("--drops", type=int, default=usual.drops, help="clients that leave")
    parser.add_argument("--seed", type=int, default=None, help="repeat the choices of an earlier run")
    parser.add_argument("--short", action="store_true", help="a few of each")
    options = parser.parse_args(argv)
    size = SHORT if options.short else RigSize(options.schedules, options.kills, options.drops, usual.waves)
    begun = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="elytron-schedules-", dir=tables.memory_folder()) as folder:
        book = asyncio.run(run_rig(Path(folder), size, random.Random(tables.seed_of(options.seed))))
    missing = [name for name in _WANTED if not book.counts[name]]
    book.failures += [f"{name}: none, so this run shows little of it" for name in missing]
    tables.show([{"what": name, "count": str(count)} for name, count in sorted(book.counts.items())])
    for line in book.failures[:20]:
        print(line)
    print(f"wrong: {len(book.failures)}; {time.monotonic() - begun:.0f} s")
    return 1 if book.failures else 0


if __name__ == "__main__":
    raise SystemExit(main())
