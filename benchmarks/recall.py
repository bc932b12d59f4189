"""Measure recall through the public API against the floor and installed peers, in one run (SQLite at FULL).

    python -m benchmarks.recall [sizes...] [--rounds 7] [--peers FOLDER] [--profile]

`FOLDER` holds an environment per peer, created by

    python -m benchmarks.peers install FOLDER

Each side has the same texts and the same precomputed vectors, in its own space (user, collection). Rounds are
interleaved in a changing order. A cell is the median of the rounds' medians. The output also shows the loading time of
the table of text vectors, the bytes per text in the store's files including its vector, and the cost of a block
relative to a recall, in a space with standing wishes and without vectors. `--profile` prints where the time of a recall
is spent instead, `--profile project` that of a block.
"""

import argparse
import asyncio
import cProfile
import pstats
import random
import statistics
import tempfile
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from pathlib import Path

import elytron
from benchmarks.corpora import QUERIES, Corpus, Looked, corpus
from benchmarks.floor import Floor
from benchmarks.peers import Peer, peers_in
from elytron_core.contracts.maintenance.embedding import EmbeddingOutcome
from elytron_core.ids import SpaceId
from elytron_index.lexicon.text_vectors import TextVectors

ASKED = 40
CONVERSATION = 30
WISHES = 64
STATEMENTS = Path(__file__).parent / "sentences" / "statements.tsv"
PROJECT_GOAL = 1.5
"""Maximum cost of a block in recalls."""
GOALS = {1_000: 2.5, 10_000: 1.5, 100_000: 1.0}
"""Maximum cost of a recall in units of the floor."""

Side = Callable[[int], Awaitable[object]]


async def filled(path: Path | str, data: Corpus, embedder: Looked | None, /) -> elytron.MemoryRuntime:
    """Return a memory of the corpus: committed, embedded and indexed."""
    memory = await elytron.open(path, space="bench", embedder=embedder, index_bytes=1 << 31)
    for start in range(0, len(data.texts), CONVERSATION):
        said = data.texts[start : start + CONVERSATION]
        turns = tuple(elytron.TurnDraft(messages=(elytron.Message(text=text),)) for text in said)
        scope = elytron.Scope(space=SpaceId("bench"), conversation=f"c{start}")
        await memory.write(elytron.MemoryWriteRequest(scope=scope, write=elytron.TranscriptWrite(turns=turns)))
    while embedder is not None and (await memory.embed()).outcome is EmbeddingOutcome.MORE:
        pass
    return memory


def ours(memory: elytron.MemoryRuntime, data: Corpus, /) -> Side:
    """Return a question for the memory."""

    async def ask(number: int) -> object:
        return await memory.recall(data.questions[number], limit=10)

    return ask


def projected(memory: elytron.MemoryRuntime, data: Corpus, /) -> Side:
    """Return a block that is built for a question in a conversation with recent messages."""

    async def ask(number: int) -> object:
        return await memory.project(data.questions[number], conversation="wishes")

    return ask


async def wished(path: Path, data: Corpus, /) -> elytron.MemoryRuntime:
    """Return a memory of the corpus without vectors, plus statements of standing wishes."""
    memory = await filled(path, data, None)
    rows = (line.split("\t") for line in STATEMENTS.read_text(encoding="utf-8").splitlines())
    wishes = [text for label, language, text in (row for row in rows if len(row) == 3)
              if (label, language) == ("standing", "en")]  # fmt: skip
    for text in wishes[:WISHES]:
        await memory.add(text, conversation="wishes")
    return memory


def bound(floor: Floor, /) -> Side:
    """Return a question for the floor."""

    async def ask(number: int) -> object:
        return floor.recall(number)

    return ask


@dataclass(slots=True)
class Spent:
    """Seconds per question: wall-clock time as each round's median, and this process's processor time as the mean."""

    walls: list[float] = field(default_factory=list[float])
    cpus: list[float] = field(default_factory=list[float])


async def medians(sides: dict[str, Side], rounds: int, /) -> dict[str, Spent]:
    """Return the times of each side's questions by round. Sides alternate."""
    found = {name: Spent() for name in sides}
    asked = 0
    for _ in range(rounds):
        for name in random.sample(list(sides), len(sides)):
            spent: list[float] = []
            cpu = time.process_time()
            for number in range(asked, asked + ASKED):
                began = time.perf_counter()
                await sides[name](number % QUERIES)
                spent.append(time.perf_counter() - began)
            found[name].cpus.append((time.process_time() - cpu) / ASKED)
            found[name].walls.append(statistics.median(spent))
        asked += ASKED
    return found


async def compare(size: int, rounds: int, peers: list[Peer], folder: Path, /) -> None:
    """Print one size's table."""
    data = corpus(size)
    memory = await filled(folder / f"{size}.db", data, Looked(data))
    kept = sum(path.stat().st_size for path in folder.glob(f"{size}.db*"))
    floor = Floor(folder / f"floor-{size}.db", data)
    sides = {"floor": bound(floor), "elytron": ours(memory, data)}
    for peer in peers:
        if await peer.start(size, folder):
            sides[peer.name] = peer.recall
    found = await medians(sides, rounds)
    show(size, rounds, found, of_peers={peer.name for peer in peers})
    print(f"store: {kept / size:.0f} bytes a text")
    await compare_blocks(folder / f"{size}-wishes.db", data, rounds)
    for peer in peers:
        await peer.stop()
    floor.close()
    await memory.close()


async def compare_blocks(path: Path, data: Corpus, rounds: int, /) -> None:
    """Print the times of a block and of a recall in the same space."""
    memory = await wished(path, data)
    sides = {"recall": ours(memory, data), "project": projected(memory, data)}
    # Long enough for the space's caches to fill.
    await medians(sides, 1)
    spent = await medians(sides, rounds)
    cpus = {name: statistics.median(each.cpus) for name, each in spent.items()}
    walls = {name: statistics.median(each.walls) for name, each in spent.items()}
    print(
        f"block: p50 {walls['project'] * 1e3:.2f} ms, {walls['project'] / walls['recall']:.2f} x recall; "
        f"cpu {cpus['project'] * 1e3:.2f} ms, {cpus['project'] / cpus['recall']:.2f} x (goal: {PROJECT_GOAL})"
    )
    await memory.close()


def show(size: int, rounds: int, found: dict[str, Spent], /, *, of_peers: set[str]) -> None:
    """Print a size's table. The processor time of a peer's process cannot be seen from here."""
    base, mine = found["floor"], found["elytron"]
    print(f"\n{size} texts in the space, median of {rounds} rounds of {ASKED} questions")
    print(f"{'':<20}{'p50 ms':>9}{'x floor':>9}{'x elytron':>11}{'cpu ms':>9}{'x floor':>9}")
    for name, spent in found.items():
        p50, cpu = statistics.median(spent.walls), statistics.median(spent.cpus)
        ratios = f"{p50 / statistics.median(base.walls):>9.1f}{p50 / statistics.median(mine.walls):>11.1f}"
        own = "" if name in of_peers else f"{cpu * 1e3:>9.3f}{cpu / statistics.median(base.cpus):>9.1f}"
        print(f"{name:<20}{p50 * 1e3:>9.3f}{ratios}{own}")
    print(f"goal: at most {GOALS.get(size, 1.0)} x floor")


async def profile(size: int, folder: Path, call: str, /) -> None:
    """Print where the time of a recall or a block is spent."""
    data = corpus(size)
    if call == "project":
        memory = await wished(folder / f"{size}.db", data)
        ask = projected(memory, data)
    else:
        memory = await filled(folder / f"{size}.db", data, Looked(data))
        ask = ours(memory, data)
    for number in range(ASKED):
        await ask(number)
    profiler = cProfile.Profile()
    profiler.enable()
    for number in range(QUERIES):
        await ask(number)
    profiler.disable()
    pstats.Stats(profiler).sort_stats("cumulative").print_stats(60)
    await memory.close()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("sizes", nargs="*", type=int, default=[1_000, 10_000])
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--peers", type=Path)
    parser.add_argument("--profile", nargs="?", const="recall", choices=("recall", "project"))
    told = parser.parse_args()
    began = time.process_time()
    TextVectors.load()
    print(f"table of text vectors: loaded in {(time.process_time() - began) * 1e3:.0f} ms of the processor")
    with tempfile.TemporaryDirectory() as folder:
        for size in told.sizes:
            if told.profile:
                asyncio.run(profile(size, Path(folder), told.profile))
            else:
                asyncio.run(compare(size, told.rounds, peers_in(told.peers), Path(folder)))


if __name__ == "__main__":
    main()
