"""Ask pairs of questions that must not be distinguishable, many times each, and compare the response times.

    python -m benchmarks.rigs.timing [--samples N] [--over process http] [--seed S] [--short]

One question of each pair is about something that exists: the valid beginning of a key, an id of another user's memory,
a word that only that user said. The other is about something that does not. They are asked in random order, with a key
that may see neither. In process, the call is the one that all transports make; over HTTP, a server on this machine
answers on one connection. The slowest tenth of each pair is excluded as noise of the machine. A pair is distinguishable
if Welch's t is at least 4.5 and the medians differ by at least a microsecond; the rig then exits 1.
"""

import argparse
import asyncio
import json
import random
import statistics
import sys
import tempfile
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Literal

import elytron
from benchmarks.http import answer, elytron_server, request
from benchmarks.rigs import tables
from elytron_adapter.access_keys import ACCESS_CACHE_MS, AccessAddRequest, AccessKeyRequest, AccessKeys
from elytron_adapter.dispatch import CallerAdmission, OperationDispatcher
from elytron_adapter.envelope import CallOrigin, CallTransport
from elytron_core.clock import Instant, SystemClock
from elytron_core.errors import Unauthorized
from elytron_core.scope import Scope

TURNS = 500
SURE = 4.5
SEEN_US = 1.0
_CROPPED = 0.9
_WARMING = 50
Over = Literal["process", "http"]


@dataclass(frozen=True, slots=True)
class Question:
    """What is asked: an operation with a request, or, without one, only whose key it is."""

    key: str
    operation: str = "get"
    body: str = '{"id": "00"}'
    is_looked_up_anew: bool = False
    """True if the server gets time to forget whose key it has seen before it is asked."""


@dataclass(frozen=True, slots=True)
class Pair:
    """Two questions, about something that exists and something that does not, each time about a different one."""

    name: str
    there: Callable[[random.Random], Question]
    absent: Callable[[random.Random], Question]
    over: tuple[Over, ...] = ("process", "http")
    share: int = 1
    """One in this many samples is taken, so that slow questions are asked less often."""


@dataclass(frozen=True, slots=True)
class World:
    """Content of the store: ada's key, bob's keys and memories."""

    ada: str
    bob: str
    revoked: str
    turns: tuple[str, ...]
    facts: tuple[str, ...]


class Ahead(SystemClock):
    """The system's clock, which can be advanced so that cached entries expire."""

    ahead_ms = 0

    def now(self, /) -> Instant:
        return Instant(super().now() + self.ahead_ms)


def word(chance: random.Random, /, *, said: bool) -> str:
    """Return one of the words that bob said, or one that nobody said."""
    return f"{'harbour' if said else 'meadows'}{chance.randrange(TURNS):04}"


async def settle(folder: Path) -> World:
    """Fill a store and return what the questions are about."""
    async with elytron.open(folder / "m.db", space="ada") as memory:
        keys = AccessKeys(memory.context)
        made = [
            await keys.add(AccessAddRequest.model_validate({"kind": "user", "space": space, "label": "rig"}))
            for space in ("ada", "bob", "bob")
        ]
        await keys.revoke(AccessKeyRequest(id=made[2].access.id))
        found: dict[str, tuple[str, ...]] = {}
        for space in ("ada", "bob"):
            chance = random.Random(space)
            scope = Scope.model_validate({"space": space})
            texts = [f"{space} saw {word(chance, said=True) if space == 'bob' else 'it'} {n}" for n in range(TURNS)]
            turns = tuple(elytron.TurnDraft.model_validate({"messages": [{"text": text}]}) for text in texts)
            facts = tuple(elytron.FactDraft(topic=f"topic {n}", content=text) for n, text in enumerate(texts))
            told = [
                await memory.write(elytron.MemoryWriteRequest(scope=scope, write=write))
                for write in (elytron.TranscriptWrite(turns=turns), elytron.LongTermExtraction(facts=facts))
            ]
            found[f"turns of {space}"], found[f"facts of {space}"] = told[0].ids, told[1].ids
        ada, bob, revoked = (each.key for each in made)
        return World(ada, bob, revoked, found["turns of bob"], found["facts of bob"])


def pairs(world: World, /) -> list[Pair]:
    """Return all pairs of questions."""

    def changed(key: str, at: int) -> str:
        return key[:at] + ("0" if key[at] != "0" else "1") + key[at + 1 or len(key) :]

    first, last = changed(world.bob, world.bob.rindex("_") + 1), changed(world.bob, -1)
    apart = random.Random(0)

    def unknown(chance: random.Random) -> str:
        _, kind, key_id, secret = first.split("_")
        return f"ely_{kind}_{chance.randbytes(len(key_id) // 2).hex()}_{secret}"

    # As many made-up ids as real ones, so that both repeat equally often.
    turns = [f"{apart.randbytes(12).hex()}.{one.partition('.')[2]}" for one in world.turns]
    facts = [f"{one[:-12]}{apart.randbytes(6).hex()}" for one in world.facts]

    def about(operation: str, ids: Sequence[str]) -> Callable[[random.Random], Question]:
        def asked(chance: random.Random) -> Question:
            one = chance.choice(ids)
            body = {"id": one} if operation in {"get", "history"} else {"ids": [one], "dry_run": True}
            return Question(world.ada, operation, json.dumps(body))

        return asked

    def recalling(*, said: bool) -> Callable[[random.Random], Question]:
        return lambda chance: Question(
            world.ada, "recall", json.dumps({"query": f"who saw {word(chance, said=said)}?"})
        )

    def of_space(name: str) -> Callable[[random.Random], Question]:
        return lambda _: Question(world.ada, "list", json.dumps({"scope": {"space": name}}))

    def with_key(key: str) -> Callable[[random.Random], Question]:
        return lambda _: Question(key)

    strange = unknown(apart)
    found = [
        Pair("a secret right but for its end, or wrong from the start", with_key(last), with_key(first)),
        Pair("a wrong secret of a known key, or of none", with_key(first), with_key(strange)),
        Pair("a revoked key, or none", with_key(world.revoked), with_key(strange)),
        Pair(
            "a wrong secret of a known key, or of none, looked up anew",
            lambda _: Question(first, is_looked_up_anew=True),
            lambda _: Question(strange, is_looked_up_anew=True),
            over=("process",),
        ),
        Pair("another's space, or none", of_space("bob"), of_space("eve")),
        Pair("a word that only another said, or nobody", recalling(said=True), recalling(said=False), share=10),
    ]
    kinds = {"turn": (world.turns, turns), "fact": (world.facts, facts)}
    for operation, (kind, (there, absent)) in product(("get", "history", "forget", "erase"), kinds.items()):
        found.append(Pair(f"{operation} another's {kind}, or none", about(operation, there), about(operation, absent)))
    return found


Ask = Callable[[Question], Awaitable[int]]
"""Asks a question, and returns how many nanoseconds the response took."""


@asynccontextmanager
async def in_process(folder: Path) -> AsyncGenerator[Ask]:
    """Ask an entry point in this process."""
    clock = Ahead()
    async with elytron.open(folder / "m.db", space="ada", clock=clock) as memory:
        admission = CallerAdmission(OperationDispatcher(memory), authenticator=AccessKeys(memory.context))

        async def ask(question: Question) -> int:
            payload = question.body.encode()
            if question.is_looked_up_anew:
                clock.ahead_ms += ACCESS_CACHE_MS + 1
            began = time.perf_counter_ns()
            try:
                principal = await admission.authenticate(f"Bearer {question.key}")
            except Unauthorized:
                return time.perf_counter_ns() - began
            await admission.call(
                principal,
                origin=CallOrigin(CallTransport.HTTP),
                operation=question.operation,
                request_id="rig",
                payload=payload,
            )
            return time.perf_counter_ns() - began

        yield ask


@asynccontextmanager
async def over_http(folder: Path) -> AsyncGenerator[Ask]:
    """Ask a server on this machine."""
    unbound = ("--calls-per-minute", "0", "--wrong-credentials-per-minute", "0")
    async with elytron_server(folder, *unbound) as (port, _):
        reader, writer = await asyncio.open_connection("127.0.0.1", port)

        async def ask(question: Question) -> int:
            sent = request(f"/v1/{question.operation}", question.body.encode(), key=question.key)
            began = time.perf_counter_ns()
            writer.write(sent)
            await answer(reader)
            return time.perf_counter_ns() - began

        yield ask
        writer.close()


async def measure(ask: Ask, pair: Pair, *, samples: int, chance: random.Random) -> tuple[list[int], list[int]]:
    """Return the times of both questions, asked in random order."""
    for _ in range(_WARMING):
        await ask(pair.there(chance))
        await ask(pair.absent(chance))
    order = [pair.there, pair.absent] * samples
    chance.shuffle(order)
    found: dict[Callable[[random.Random], Question], list[int]] = {pair.there: [], pair.absent: []}
    for question in order:
        found[question].append(await ask(question(chance)))
    return found[pair.there], found[pair.absent]


def compared(there: Sequence[int], absent: Sequence[int], /) -> tuple[float, float, float]:
    """Return both medians in microseconds, and Welch's t without the slowest tenth of all times."""
    bound = sorted([*there, *absent])[int((len(there) + len(absent)) * _CROPPED) - 1]
    kept = [[one for one in times if one <= bound] for times in (there, absent)]
    means, spreads = [statistics.fmean(one) for one in kept], [statistics.variance(one) / len(one) for one in kept]
    t = (means[0] - means[1]) / (sum(spreads) ** 0.5 or 1.0)
    first, second = (statistics.median(one) / 1_000 for one in (there, absent))
    return first, second, t


async def main(arguments: Sequence[str] | None = None) -> int:
    """Ask all pairs and print a row for each. Return 1 if one is distinguishable."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--samples", type=int, default=10_000, help="of each question")
    parser.add_argument("--over", nargs="+", choices=["process", "http"], default=["process", "http"])
    parser.add_argument("--only", default="", metavar="TEXT", help="only pairs whose name holds it")
    parser.add_argument("--seed", type=int, default=None, help="repeat the choices of an earlier run")
    parser.add_argument("--short", action="store_true", help="a few samples: whether it runs, not what it shows")
    asked = parser.parse_args(arguments)
    samples = 200 if asked.short else asked.samples
    chance = random.Random(tables.seed_of(asked.seed))
    rows: list[dict[str, str]] = []
    told_apart = 0
    with tempfile.TemporaryDirectory(prefix="elytron-rig-") as name:
        folder = Path(name)
        world = await settle(folder)
        for over, opener in (("process", in_process), ("http", over_http)):
            if over not in asked.over:
                continue
            async with opener(folder) as ask:
                for pair in pairs(world):
                    if over not in pair.over or asked.only not in pair.name:
                        continue
                    there, absent, t = compared(*await measure(ask, pair, samples=samples // pair.share, chance=chance))
                    is_told = abs(t) >= SURE and abs(there - absent) >= SEEN_US and not asked.short
                    told_apart += is_told
                    rows.append({
                        "over": over, "pair": pair.name, "there": f"{there:.1f} us", "not": f"{absent:.1f} us",
                        "difference": f"{there - absent:+.2f} us", "t": f"{t:+.1f}", "": "TOLD APART" * is_told,
                    })  # fmt: skip
    tables.show(rows)
    return 1 if told_apart else 0


if __name__ == "__main__":
    sys.exit(asyncio.run(main()))
