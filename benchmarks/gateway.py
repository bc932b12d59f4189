"""Measure what the Memory Gateway adds: a search over HTTP against a recall in this process and one round trip.

    python -m benchmarks.gateway [--users N] [--memories N] [--searches N]

Users are filled in this process, each with one bulk write of a chat. Then a separate server takes over the store, with
the same event loop as `elytron serve`. The same questions of the same users go alternately to the server and to a
runtime in this process. Medians of warm searches are compared: each user asks one question beforehand, so that the
index is built.
"""

import argparse
import asyncio
import random
import statistics
import tempfile
import time
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path

import httpx
import uvloop

import elytron
from benchmarks.rigs import tables
from benchmarks.rigs.children import READY, Child, Voice
from elytron_core import limits
from elytron_core.clock import Instant
from elytron_core.contracts.recall import MemoryRecallRequest
from elytron_core.contracts.transcript import MemoryWriteRequest, TranscriptWrite, TurnDraft
from elytron_core.ids import SpaceId
from elytron_core.planes.transcript import Message
from elytron_core.scope import Scope
from elytron_gateway import wire
from elytron_gateway.routes.surfaces import gateway_surfaces
from elytron_gateway.service import MemoryGateway
from elytron_http_shell.server import ServingSettings, StartedServer, serve_http

GOAL = 1.5
_USERS = 200
_MEMORIES = 1_000
_SEARCHES = 1_000
_TOGETHER = 32
"""Number of users that are filled concurrently, so that they share commits."""
_WAIT_S = 60.0
_SESSION = "chat:c"
_TOP_K = 8
_ADDRESS = "address"
_TEXT = """
harbour ferry boiler ladder garden winter invoice salary tea kettle piano violin glacier desert market fountain bridge
tunnel station ticket passport museum gallery library novel chapter verse melody drum rhythm recipe saffron pepper oven
bakery bicycle helmet trail summit valley river canyon forest meadow orchard cellar attic chimney
"""
_WORDS = _TEXT.split()

User = dict[str, str]


def served(voice: Voice, folder: Path) -> None:
    """Serve a gateway for the store in `folder` and report its address; the body of a child process."""

    async def work() -> None:
        async with elytron.open(folder / "memory.db", space=None) as memory:

            def started(told: StartedServer) -> None:
                (folder / _ADDRESS).write_text(told.address)
                voice.say(READY)

            family = gateway_surfaces(MemoryGateway(memory))
            await serve_http(memory, ServingSettings(port=0, development=True), started=started, further=(family,))

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(work())


async def fill(folder: Path, /, *, users: int, memories: int) -> list[User]:
    """Create the users with the given number of memories, and return their credentials."""
    async with elytron.open(folder / "memory.db", space=None) as memory:
        gateway = MemoryGateway(memory)
        made: list[User] = []
        for first in range(0, users, _TOGETHER):
            numbers = range(first, min(first + _TOGETHER, users))
            made += await asyncio.gather(*(_filled(gateway, memory, number, memories) for number in numbers))
        return made


async def _filled(gateway: MemoryGateway, memory: elytron.MemoryRuntime, number: int, memories: int) -> User:
    chance = random.Random(number)
    user = (await gateway.create_user(wire.UserRequest(user_id=f"user{number}"))).model_dump()
    # The first message makes the user's space and session known to the gateway; the others are the same kind of turns.
    said = {"sender_id": "u", "role": "user", "timestamp": 1, "content": _sentence(chance, 0)}
    add = {**user, "session_id": _SESSION, "messages": [said]}
    await gateway.add(wire.GatewayAddRequest.model_validate(add))
    space = SpaceId(user["user_id"])
    turns = [
        TurnDraft(messages=(Message(text=_sentence(chance, place), speaker="u", at=Instant(place + 1)),))
        for place in range(1, memories)
    ]
    for start in range(0, len(turns), limits.TURNS_PER_COMMIT):
        write = TranscriptWrite(turns=tuple(turns[start : start + limits.TURNS_PER_COMMIT]))
        scope = Scope(space=space, app="default", project="default", conversation=_SESSION)
        await memory.write(MemoryWriteRequest(scope=scope, write=write))
    return user


def _sentence(chance: random.Random, place: int) -> str:
    return f"Note {place}: {' '.join(chance.sample(_WORDS, 10))}."


async def measure(folder: Path, users: Sequence[User], chance: random.Random, /, *, searches: int) -> dict[str, float]:
    """Return the median milliseconds of a round trip, of a recall here, and of a search there."""
    child = Child(served, folder)
    assert child.listen(_WAIT_S, until=READY), "the server did not start"
    took: dict[str, list[float]] = {"round trip": [], "recall": [], "search": []}
    address = (folder / _ADDRESS).read_text()
    try:
        async with (
            httpx.AsyncClient(base_url=address, timeout=_WAIT_S) as http,
            elytron.open(folder / "memory.db", space=None) as memory,
        ):
            asked = [chance.choice(users) for _ in range(searches)]
            first = len(dict.fromkeys(user["user_id"] for user in asked))
            warm = {user["user_id"]: user for user in asked}.values()
            for number, user in enumerate([*warm, *asked]):
                query = " ".join(chance.sample(_WORDS, 2))
                scope = Scope(space=SpaceId(user["user_id"]))
                recall = MemoryRecallRequest(scope=scope, query=query, limit=_TOP_K)
                search = {**user, "query": query, "scope": ["all_user_memory"], "top_k": _TOP_K}
                times = {
                    "round trip": await _timed(lambda: http.get("/livez")),
                    "recall": await _timed(lambda recall=recall: memory.recall(recall)),
                    "search": await _timed(lambda search=search: http.post("/memories/search", json=search)),
                }
                for name, seconds in times.items():
                    if number >= first:
                        took[name].append(seconds)
    finally:
        child.kill()
    return {name: statistics.median(seconds) * 1_000 for name, seconds in took.items()}


async def _timed(call: Callable[[], Awaitable[object]]) -> float:
    began = time.perf_counter()
    answer = await call()
    took = time.perf_counter() - began
    assert not isinstance(answer, httpx.Response) or answer.status_code == 200, "a call was refused"
    return took


def main(argv: Sequence[str] | None = None) -> int:
    """Run the benchmark and return 1 if the goal is missed."""
    parser = argparse.ArgumentParser(description="searches of the Memory Gateway beside recall in this process")
    parser.add_argument("--users", type=int, default=_USERS)
    parser.add_argument("--memories", type=int, default=_MEMORIES, help="of each user")
    parser.add_argument("--searches", type=int, default=_SEARCHES)
    options = parser.parse_args(argv)
    chance = random.Random(7)
    with tempfile.TemporaryDirectory(prefix="elytron-gateway-") as name:
        folder = Path(name)
        began = time.perf_counter()
        users = asyncio.run(fill(folder, users=options.users, memories=options.memories))
        filled = time.perf_counter() - began
        found = asyncio.run(measure(folder, users, chance, searches=options.searches))
    ratio = found["search"] / (found["recall"] + found["round trip"])
    row = {"users": str(options.users), "memories": str(options.memories), "filled in s": f"{filled:.0f}"}
    row |= {f"{part}, p50 ms": f"{took:.2f}" for part, took in found.items()}
    tables.show([row | {"ratio": f"{ratio:.2f}", "goal": f"{GOAL}"}])
    return 0 if ratio <= GOAL else 1


if __name__ == "__main__":
    raise SystemExit(main())
