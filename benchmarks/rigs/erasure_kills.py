"""Kill processes during an erasure. The next process must find all or nothing of it, and nothing else may be lost.

    python -m benchmarks.rigs.erasure_kills [--engine sqlite file sealed sealed-file postgres] [--kills 40] [--short]

Each round plants a word in a turn of a conversation and as the name of a speaker, in a fact and in a procedure, and a
child erases them. The child is killed at a random moment of the erasure. After that, either all planes still contain
the word, or no byte that the store returns or has in a file does. Everything else is still recalled, and the store is
sound. Every third round is checked by a runtime that was open the whole time. Exits 1 if anything is wrong.
"""

import argparse
import asyncio
import random
import secrets
import signal
import tempfile
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path

import psycopg
from tests.store.postgres_server import PostgresServer, shared_server

import elytron
from benchmarks.rigs import tables
from benchmarks.rigs.children import READY, Child, Voice
from benchmarks.rigs.erasure import KILLED, found_in, held, open_engine
from benchmarks.rigs.live_words import live_bytes
from elytron.erasure.erasure_mark import erasing_places
from elytron_core import limits
from elytron_core.clock import FrozenClock, SystemClock
from elytron_core.ids import SpaceId
from elytron_core.planes.facts import FACTS
from elytron_core.ports.store import scan_documents

SPACE = SpaceId("rig")
SHORT = 6
ERASING_S = 0.15
"""Approximate duration of an erasure."""
PLANES = ("transcript", "long_term", "procedural")
_SKILL = "1. Fetch {word}.\n2. Grind {word}.\n3. Serve {word} warm."
_OPENING_S = 60.0


@dataclass(slots=True)
class EngineOutcome:
    """The results of one engine's kills."""

    kills: int = 0
    before: int = 0
    """Kills before the first commit: nothing was erased."""
    within: int = 0
    """Kills that left a mark, or bytes, for the next process."""
    faults: list[str] = field(default_factory=list[str])


def erase_planted(voice: Voice, engine: str, place: str, ids: Sequence[str]) -> None:
    """Erase memories; the body of a child process."""

    async def use() -> None:
        store = await open_engine(engine, place, clock=SystemClock())
        async with await elytron.open(store, space=SPACE) as memory:
            await memory.recall("ferry")
            voice.say(READY)
            await memory.erase(elytron.MemoryEraseRequest(ids=tuple(ids)))

    asyncio.run(use())


async def plant(memory: elytron.MemoryRuntime, word: str, /) -> tuple[str, ...]:
    """Write `word` into every plane and return the ids."""
    message = elytron.Message(text=f"About {word}.", speaker=word)
    turns = elytron.TranscriptWrite(turns=(elytron.TurnDraft(messages=(message,), host_id=word),), title=word)
    facts = elytron.LongTermExtraction(facts=(elytron.FactDraft(topic=word, content=f"{word} is a spice"),))
    skill = {"name": word, "topic": word, "title": word, "summary": word, "content": _SKILL.format(word=word)}
    scope = elytron.Scope(space=SPACE, conversation=word)
    ids: list[str] = []
    for write in (turns, facts, {"kind": "procedural", "writes": [skill]}):
        ids += (await memory.write(elytron.MemoryWriteRequest.model_validate({"scope": scope, "write": write}))).ids
    await memory.recall(word)
    return tuple(ids)


async def look(
    memory: elytron.MemoryRuntime, word: str, others: Sequence[str], files: Sequence[Path], outcome: EngineOutcome
) -> None:
    """Record problems after a kill during an erasure of `word`, and erase it if the kill came before."""
    ctx = memory.context
    await memory.recall("ferry")  # the first request completes the erasure
    if any([word in document.body.decode() async for document in scan_documents(ctx.store, SPACE, FACTS)]):
        outcome.before += 1
        hits = [hit for hit in (await memory.recall(word, limit=20)).hits if word in hit.text]
        if {hit.plane.value for hit in hits} != set(PLANES):
            outcome.faults.append(f"half an erasure is seen: {hits}")
        await memory.erase(elytron.MemoryEraseRequest(ids=tuple(hit.id for hit in hits)))
    if await erasing_places(ctx.store, SPACE):
        outcome.faults.append("the mark is left")
    stored = [pair for folder in files for pair in await held(ctx.store, folder, SPACE)]
    live = [("memory", data) for data in live_bytes(ctx.folds)]
    outcome.faults += [f"the word is in {name}" for name, data in (*live, *stored) if found_in(data, {"word": word})]
    for other in others:
        if other not in [hit.text for hit in (await memory.recall(other)).hits]:
            outcome.faults.append(f"lost: {other!r}")
    report = await memory.inspect(check=True)
    is_sound = report.store_check is not None and report.store_check.ok
    if not is_sound or report.journal_account is None or not report.journal_account.ok:
        outcome.faults.append(f"unsound: {report.store_check} {report.journal_account}")


async def run_round(
    engine: str, place: str, server: PostgresServer | None, outcome: EngineOutcome, chance: random.Random
) -> None:
    """Plant, kill within `ERASING_S` after the child is ready, and check."""
    word, other = f"canary{secrets.token_hex(8)}", f"the ferry number {outcome.kills} leaves at six"
    clock = FrozenClock(SystemClock().now(), step_ms=1)
    store = await open_engine(engine, place, clock=clock)
    memory = await elytron.open(store, space=SPACE, clock=clock)
    await memory.add(other)
    ids = await plant(memory, word)
    stays_open = outcome.kills % 3 == 2
    if not stays_open:
        await memory.close()
    child = Child(erase_planted, engine, place, ids)
    child.listen(_OPENING_S, until=READY)
    child.listen(chance.uniform(0, ERASING_S))
    child.kill()
    outcome.kills += 1
    if stays_open:
        # It finds the mark, and checks it again when the other process should have ended.
        await memory.recall("ferry")
        clock.advance(limits.ERASING_MS)
    else:
        store = await open_engine(engine, place, clock=clock)
        outcome.within += child.exit_code == -signal.SIGKILL and bool(await erasing_places(store, SPACE))
        memory = await elytron.open(store, space=SPACE, clock=clock)
    files = [Path(place)]
    if server is not None:
        with psycopg.connect(place, autocommit=True) as connection:
            await memory.recall("ferry")
            connection.execute("VACUUM")
            connection.execute("CHECKPOINT")
        files = [server.tables_of(place)]
    try:
        await look(memory, word, [other], files, outcome)
    finally:
        await memory.close()


def run(engine: str, kills: int, chance: random.Random) -> EngineOutcome:
    """Kill `kills` children that erase from a store of `engine`."""
    outcome = EngineOutcome()
    with ExitStack() as stack:
        server = stack.enter_context(shared_server()) if engine == "postgres" else None
        if engine == "postgres" and server is None:
            print("postgres: skipped, no server")
            return outcome
        place = server.make_database() if server else stack.enter_context(tempfile.TemporaryDirectory(prefix="kills-"))
        while outcome.kills < kills and not outcome.faults:
            asyncio.run(run_round(engine, place, server, outcome, chance))
    return outcome


def main() -> int:
    parser = argparse.ArgumentParser(description="Kill processes while they erase, and look for what they erased.")
    parser.add_argument("--engine", nargs="+", choices=[*KILLED, "all"], default=["all"], help="which stores")
    parser.add_argument("--kills", type=int, default=40, help="per engine")
    parser.add_argument("--seed", type=int, default=None, help="repeat the choices of an earlier run")
    parser.add_argument("--short", action="store_true", help=f"{SHORT} kills per engine")
    options = parser.parse_args()
    chance = random.Random(tables.seed_of(options.seed))
    rows: list[dict[str, str]] = []
    is_sound = True
    for engine in KILLED if "all" in options.engine else dict.fromkeys(options.engine):
        outcome = run(engine, SHORT if options.short else options.kills, chance)
        for fault in outcome.faults:
            print(f"{engine}: {fault}")
        is_sound = is_sound and not outcome.faults
        counts = {"kills": outcome.kills, "ahead of it": outcome.before, "mark left": outcome.within}
        rows.append(
            {
                "engine": engine,
                **{name: str(count) for name, count in counts.items()},
                "wrong": f"{len(outcome.faults)}",
            }
        )
        tables.show(rows[-1:])
    tables.show(rows)
    return 0 if is_sound else 1


if __name__ == "__main__":
    raise SystemExit(main())
