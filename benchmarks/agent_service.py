"""Measure a turn over HTTP against one in process, 200 concurrent agents against one, and exact search against NumPy.

    python -m benchmarks.agent_service [--turns N] [--agents N] [--rate N] [--seconds S] [--only share|many|search]

A scripted model in its own process answers at once. The share is the time of a turn relative to the same exchange with
that model by plain httpx: alternately through `POST /v1/agent/chat` of an `elytron serve` process on a SQLite file, and
through `Agent.run` in this process on another one. Then the given number of agents, each of another user, make `--rate`
turns a second in total; the 99th percentile is compared with the median of a single agent. Finally, a search over
cached vectors is compared with a brute-force search of the same array. Exits 1 if a ratio exceeds its bound.
"""

import argparse
import asyncio
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import httpx
import numpy as np

import elytron
from benchmarks.agent_overhead import serving_model
from benchmarks.rigs import tables
from elytron_adapter.access_keys import AccessAddRequest, AccessKeys
from elytron_agent import Agent, AgentSettings, RunEnded
from elytron_agent.rag.rows import EmbeddingRow
from elytron_agent.rag.vector_table import RowFilter, VectorKind, VectorTable
from elytron_core.ids import SpaceId
from elytron_core.planes.servers.system_documents import PrincipalKind
from elytron_models import open_model

SHARE_MOST, MANY_MOST, SEARCH_MOST = 3.0, 4.0, 3.0
SIZES: Final = (1_000, 10_000, 40_000)
DIMENSION, RESULTS, SEARCHES = 512, 5, 25
_ASKED = "We moved to the harbour in May, number {number}."
_COMMAND = "from elytron_cli.main import run_command_line; run_command_line()"


@dataclass(frozen=True, slots=True)
class AgentServer:
    """A server of agents, and the keys of its users."""

    url: str
    keys: Sequence[str]


@asynccontextmanager
async def serving_agents(folder: Path, model: str, users: int) -> AsyncGenerator[AgentServer]:
    """Serve agents from a new SQLite file in a separate process."""
    store = folder / "service.db"
    async with elytron.open(str(store), space=None) as memory:
        access = AccessKeys(memory.context)
        asked = [
            AccessAddRequest(kind=PrincipalKind.USER, space=SpaceId(f"user{at}"), label="benchmark")
            for at in range(users)
        ]
        keys = [(await access.add(each)).key for each in asked]
    started = await asyncio.create_subprocess_exec(
        sys.executable, "-c", _COMMAND, "serve", "--port", "0", "--agent-model", f"chat:m@{model}/v1",
        stdout=asyncio.subprocess.PIPE, stderr=subprocess.DEVNULL, env={**os.environ, "ELYTRON_STORE": str(store)},
    )  # fmt: skip
    assert started.stdout is not None
    told = ""
    try:
        while not told.rstrip().endswith("}"):
            line = (await started.stdout.readline()).decode()
            assert line, "it ended before it listened"
            told += line
        yield AgentServer(json.loads(told)["address"], keys)
    finally:
        started.terminate()
        await started.wait()


async def chat(client: httpx.AsyncClient, server: AgentServer, user: int, number: int) -> float:
    """Return the seconds of one turn over HTTP."""
    headers = {"Authorization": f"Bearer {server.keys[user]}"}
    begun = time.perf_counter()
    body = {"input": _ASKED.format(number=number)}
    async with client.stream("POST", f"{server.url}/v1/agent/chat", json=body, headers=headers) as answer:
        said = (await answer.aread()).decode()
    assert "event: agent.done" in said, said[-300:]
    return time.perf_counter() - begun


async def init(client: httpx.AsyncClient, server: AgentServer) -> None:
    """Create the agents of all users."""
    for key in server.keys:
        answer = await client.post(f"{server.url}/v1/agent/init", json={}, headers={"Authorization": f"Bearer {key}"})
        assert answer.status_code == 200, answer.text


async def shares(turns: int) -> tuple[float, float, float]:
    """Return the median ms of a turn over HTTP, of a turn in process, and of its exchange with the model."""
    overs, ins, bares = list[float](), list[float](), list[float]()
    with tempfile.TemporaryDirectory(prefix="elytron-service-") as name:
        folder = Path(name)
        async with (
            serving_model(with_tool=False) as model,
            serving_agents(folder, model, 1) as server,
            httpx.AsyncClient(timeout=60) as client,
            elytron.open(str(folder / "own.db"), space="ada") as memory,
            Agent(memory, open_model(f"chat:m@{model}/v1", key="k"), settings=AgentSettings(enabled=True)) as agent,
        ):
            await init(client, server)

            async def run(number: int) -> float:
                begun = time.perf_counter()
                async for event in agent.run(_ASKED.format(number=number)):
                    assert not isinstance(event, RunEnded) or event.text, event
                return time.perf_counter() - begun

            async def bare(number: int) -> float:
                said = [{"role": "user", "content": _ASKED.format(number=at)} for at in range(min(number, 20) + 1)]
                begun = time.perf_counter()
                body = {"model": "m", "messages": said, "stream": True}
                async with client.stream("POST", f"{model}/v1/chat/completions", json=body) as answer:
                    await answer.aread()
                return time.perf_counter() - begun

            ways: tuple[tuple[list[float], Callable[[int], Awaitable[float]]], ...] = (
                (overs, lambda number: chat(client, server, 0, number)), (ins, run), (bares, bare),
            )  # fmt: skip
            for number in range(turns + 3):
                for taken, way in ways:
                    took = await way(number)
                    if number >= 3:  # the first ones warm up
                        taken.append(took * 1000)
    return statistics.median(overs), statistics.median(ins), statistics.median(bares)


async def many(agents: int, rate: float, seconds: float, turns: int) -> tuple[float, float, float]:
    """Return the median ms of a single agent, and the median and 99th percentile of many."""
    limits = httpx.Limits(max_connections=None, max_keepalive_connections=agents)
    with tempfile.TemporaryDirectory(prefix="elytron-service-") as name:
        async with (
            serving_model(with_tool=False) as model,
            serving_agents(Path(name), model, agents + 1) as server,
            httpx.AsyncClient(timeout=120, limits=limits) as client,
        ):
            await init(client, server)
            alone = [await chat(client, server, agents, number) for number in range(turns)]
            begun, running = time.perf_counter(), list[asyncio.Task[float]]()
            for number in range(round(rate * seconds)):
                await asyncio.sleep(max(0.0, begun + number / rate - time.perf_counter()))
                running.append(asyncio.create_task(chat(client, server, number % agents, number)))
            taken = await asyncio.gather(*running)
    return (
        statistics.median(alone) * 1000,
        statistics.median(taken) * 1000,
        float(np.percentile(taken, 99)) * 1000,
    )


def searched(size: int) -> tuple[float, float]:
    """Return the median ms of a search in a table of `size` rows, and of a brute-force search of its array."""
    dice = np.random.default_rng(size)
    matrix = dice.standard_normal((size, DIMENSION)).astype(np.float16).astype(np.float32)
    rows = [EmbeddingRow(f"{at:012}#0", f"{at:012}", "document", "c", (), 10, 40, ()) for at in range(size)]
    table = VectorTable(VectorKind("m", DIMENSION), rows, matrix)
    lengths = np.sqrt(np.einsum("ij,ij->i", matrix, matrix))
    own, theirs = list[float](), list[float]()
    for _ in range(SEARCHES):
        query = dice.standard_normal(DIMENSION).astype(np.float32)
        begun = time.perf_counter()
        found = table.search(query.tobytes(), RowFilter(), limit=RESULTS)
        between = time.perf_counter()
        cosines = (matrix @ query) / (lengths * np.linalg.norm(query))
        best = np.argpartition(-cosines, RESULTS)[:RESULTS]
        best = best[np.argsort(-cosines[best])]
        own.append(between - begun)
        theirs.append(time.perf_counter() - between)
        assert [int(each.row.turn) for each in found.ranked] == best.tolist()
    return statistics.median(own) * 1000, statistics.median(theirs) * 1000


def main(argv: Sequence[str] | None = None) -> int:
    """Run the benchmark and return the exit code."""
    parser = argparse.ArgumentParser(description="ratios of agents as a service")
    parser.add_argument("--turns", type=int, default=40)
    parser.add_argument("--agents", type=int, default=200)
    parser.add_argument("--rate", type=float, default=20, help="turns a second in all")
    parser.add_argument("--seconds", type=float, default=20)
    parser.add_argument("--only", choices=["share", "many", "search"], default=None)
    options = parser.parse_args(argv)
    found: list[tuple[str, str, float, float]] = []
    if options.only in {None, "share"}:
        over, own, bare = asyncio.run(shares(options.turns))
        share, beside = over - bare, own - bare
        told = f"{share:.1f} ms, in process {beside:.1f} ms, the model {bare:.1f} ms"
        found.append(("share of a turn over HTTP", told, share / beside, SHARE_MOST))
    if options.only in {None, "many"}:
        alone, median, late = asyncio.run(many(options.agents, options.rate, options.seconds, options.turns))
        told = f"p99 {late:.0f} ms, median {median:.0f} ms, one alone {alone:.1f} ms"
        found.append((f"{options.agents} agents, {options.rate:g} turns a second", told, late / alone, MANY_MOST))
    if options.only in {None, "search"}:
        for size in SIZES:
            mine, theirs = searched(size)
            told = f"{mine:.2f} ms, NumPy {theirs:.2f} ms"
            found.append((f"search in {size:,} vectors of {DIMENSION}", told, mine / theirs, SEARCH_MOST))
    shown: list[dict[str, Any]] = [
        {"what": what, "measured": told, "ratio": f"{ratio:.2f}", "at most": f"{most:g}"}
        for what, told, ratio, most in found
    ]
    tables.show(shown)
    return 0 if all(ratio <= most for _, _, ratio, most in found) else 1


if __name__ == "__main__":
    raise SystemExit(main())
