"""Measure nodes with one Postgres server: commits, many spaces, a second node, quotas and workers.

    python -m benchmarks.nodes [--url postgresql://...] [--rounds 5] [--seconds 1.5] [--spaces 10000]

The server is that of the tests, unless `--url` names the database of a running one, where a schema is created for each
part. All figures are medians of interleaved rounds of one run. A commit is one document of 400 bytes. `raw` is the same
in one statement through psycopg, without checks or group commits.
"""

import argparse
import asyncio
import hashlib
import os
import secrets
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AsyncExitStack, ExitStack
from importlib import import_module
from pathlib import Path
from typing import Any

import httpx
import psycopg
from tests.store.postgres_server import ABSENT, shared_server

import elytron
from benchmarks.cpu_quotas import Hold, cpu_quotas
from elytron_cli.server.workers import WorkerGroup
from elytron_core.clock import SystemClock
from elytron_core.contracts.recall import MemoryRecallRequest
from elytron_core.ids import SpaceId
from elytron_core.ports.store import Batch, DocumentRef, EntryDraft, JournalAction, PutChange, Store
from elytron_http_shell.server import bound_socket, listening_address
from elytron_store.store_urls import open_store

BODY = os.urandom(400)
NODE_COUNTS = (1, 2, 4, 8)
NODE_SHARE, WORKER_SHARE = 0.1, 0.25
RAW_TABLES = b"""
CREATE SCHEMA raw;
CREATE TABLE raw.heads (space text PRIMARY KEY, sequence bigint NOT NULL);
CREATE TABLE raw.documents (space text, key text, body bytea NOT NULL, PRIMARY KEY (space, key));
CREATE TABLE raw.journal (space text, sequence bigint, key text, digest text, PRIMARY KEY (space, sequence))
"""
RAW_COMMIT = b"""
WITH head AS (
  INSERT INTO raw.heads AS h VALUES (%(space)s, 1)
  ON CONFLICT (space) DO UPDATE SET sequence = h.sequence + 1 RETURNING sequence
), document AS (INSERT INTO raw.documents VALUES (%(space)s, %(key)s, %(body)s)
), entry AS (INSERT INTO raw.journal SELECT %(space)s, sequence, %(key)s, %(key)s FROM head)
SELECT sequence FROM head
"""
Commit = Callable[[str], Awaitable[object]]


def batch_of(space: str, /) -> Batch:
    """Return a batch of one new document."""
    ref = DocumentRef("turns", secrets.token_hex(16))
    entry = EntryDraft(JournalAction.WRITE, ref, ref.key)
    return Batch(space=SpaceId(space), at=SystemClock().now(), entries=(entry,), puts=(PutChange(ref, BODY, 0),))


async def rate_of(commit: Commit, /, *, writers: int, spaces: int, seconds: float) -> float:
    """Return the commits per second of `writers`, each using one space after the other."""
    until = time.perf_counter() + seconds
    count = 0

    async def write(number: int) -> None:
        nonlocal count
        while time.perf_counter() < until:
            await commit(f"space {number % spaces}")
            count += 1
            number += 7

    began = time.perf_counter()
    await asyncio.gather(*(write(number) for number in range(writers)))
    return count / (time.perf_counter() - began)


async def beside_raw(url: str, /, *, rounds: int, seconds: float) -> None:
    """Print commits of the engine next to those of the raw statement."""
    async with AsyncExitStack() as stack:
        connections = [await psycopg.AsyncConnection.connect(url, autocommit=True) for _ in range(16)]
        for connection in connections:
            stack.push_async_callback(connection.close)
        await connections[0].execute(RAW_TABLES)
        store = await open_store(f"{url}?sealed=no&schema=beside", clock=SystemClock())
        stack.push_async_callback(store.close)
        free = asyncio.Queue[psycopg.AsyncConnection[tuple[object, ...]]]()
        for connection in connections:
            free.put_nowait(connection)

        async def raw(space: str) -> None:
            connection = await free.get()
            try:
                await connection.execute(RAW_COMMIT, {"space": space, "key": secrets.token_hex(16), "body": BODY})
            finally:
                free.put_nowait(connection)

        async def engine(space: str) -> None:
            await store.commit(batch_of(space))

        for writers, spaces in ((1, 1), (16, 1), (16, 64)):
            found: dict[str, list[float]] = {"raw": [], "engine": []}
            used: dict[str, list[float]] = {"raw": [], "engine": []}
            for number in range(rounds + 1):
                for name, commit in (("raw", raw), ("engine", engine)):
                    before = time.process_time()
                    rate = await rate_of(commit, writers=writers, spaces=spaces, seconds=seconds)
                    if number:  # in the first round, each server session creates its plans
                        found[name].append(rate)
                        used[name].append((time.process_time() - before) / rate / seconds * 1e6)
            left, right = (statistics.median(rates) for rates in found.values())
            raw_us, engine_us = (statistics.median(times) for times in used.values())
            print(
                f"{writers:2} writers, {spaces:2} spaces: raw {left:6.0f}/s ({raw_us:.0f} us of this process)  "
                f"engine {right:6.0f}/s ({engine_us:.0f} us)  {right / left:.2f}"
            )


async def _fill_spaces(store: Store, count: int) -> None:
    for start in range(0, count, 256):
        await asyncio.gather(*(store.commit(batch_of(f"space {one}")) for one in range(start, min(start + 256, count))))


async def many_spaces(url: str, /, *, spaces: int, rounds: int) -> None:
    """Print the median of a commit among few spaces and among many."""
    async with AsyncExitStack() as stack:
        stores: list[tuple[int, Store]] = []
        for count in (100, spaces):
            store = await open_store(f"{url}?sealed=no&schema=of_{count}", clock=SystemClock())
            stack.push_async_callback(store.close)
            await _fill_spaces(store, count)
            stores.append((count, store))
        times: dict[int, list[float]] = {count: [] for count, _ in stores}
        for number in range(200 * rounds):
            for count, store in stores:
                began = time.perf_counter()
                await store.commit(batch_of(f"space {number * 7919 % count}"))
                times[count].append(time.perf_counter() - began)
        few, many = (statistics.median(times[count]) for count, _ in stores)
        print(f"a commit among 100 spaces {few * 1e3:.2f} ms, among {spaces} {many * 1e3:.2f} ms: {many / few:.2f}")


async def second_node(url: str, /, *, rounds: int) -> None:
    """Print the median of a recall after a commit, on the node that made it and on another."""
    address = f"{url}?sealed=no&schema=second"
    async with elytron.open(address, space="ada") as one, elytron.open(address, space="ada") as other:
        for number in range(200):
            await one.add(f"Note {number}: the ferry to island {number % 17} leaves at {number % 24}.")
        times: dict[str, list[float]] = {"own": [], "other's": []}
        for number in range(40 * rounds):
            for name, node in (("own", one), ("other's", other)):
                written = await one.add(f"Late note {number} of the {name} harbour.")
                began = time.perf_counter()
                await node.recall(MemoryRecallRequest(query="harbour ferry", min_sequence=written.sequence))
                times[name].append(time.perf_counter() - began)
        own, others = (statistics.median(each) * 1e3 for each in times.values())
        print(f"recall after a commit of its own {own:.2f} ms, of another node {others:.2f} ms: {others - own:+.2f} ms")


class QuotaNode:
    """A process that commits for a given time on request, in its own spaces."""

    def __init__(self, url: str, name: str, /) -> None:
        command = [sys.executable, "-c", "from benchmarks.nodes import serve_commits; serve_commits()", url, name]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self._asking, self._answers = self.process.stdin, self.process.stdout
        self._answers.readline()

    def begin(self, seconds: float, /) -> None:
        """Let it commit for `seconds`."""
        self._asking.write(f"{seconds}\n")
        self._asking.flush()

    def commits(self) -> float:
        """Return the commits per second that it made."""
        return float(self._answers.readline())

    def end(self) -> None:
        """End the process."""
        self._asking.close()
        self.process.wait()
        self._answers.close()


def serve_commits() -> None:
    """For each input line, a number of seconds, print the commits per second; the body of a node."""
    url, name = sys.argv[1:]

    async def serve() -> None:
        store = await open_store(url, clock=SystemClock())
        await store.commit(batch_of(f"{name} 0"))
        print("ready", flush=True)
        while line := await asyncio.to_thread(sys.stdin.readline):

            async def commit(space: str) -> None:
                hashlib.scrypt(b"what an application does", salt=b"salt", n=256, r=1, p=1)
                await store.commit(batch_of(f"{name} {space}"))

            print(await rate_of(commit, writers=4, spaces=8, seconds=float(line)), flush=True)
        await store.close()

    asyncio.run(serve())


def by_quota_nodes(url: str, /, *, rounds: int, seconds: float) -> None:
    """Print how much more several nodes commit than one, each with a tenth of a processor."""
    with cpu_quotas(NODE_SHARE) as hold, ExitStack() as stack:
        if hold is None:
            print("no control group can be made here: the efficiency of nodes with quotas was not measured")
            return
        nodes = [QuotaNode(f"{url}?sealed=no&schema=quota", f"node {number}") for number in range(max(NODE_COUNTS))]
        for node in nodes:
            stack.callback(node.end)
            hold(node.process.pid)
        found: dict[int, list[float]] = {count: [] for count in NODE_COUNTS}
        for number in range(rounds + 1):
            for count, rates in found.items():
                for node in nodes[:count]:
                    node.begin(seconds)
                rate = sum(node.commits() for node in nodes[:count])
                rates.extend([rate] if number else [])
    medians = {count: statistics.median(rates) for count, rates in found.items()}
    print(f"nodes with {NODE_SHARE:.0%} of a processor each, commits a second, and beside as many times one:")
    for count, rate in medians.items():
        print(f"  {count} nodes {rate:6.0f}/s  {rate / count / medians[1]:.2f}")


async def beside_langgraph(url: str, /, *, rounds: int, seconds: float) -> None:
    """Print puts of LangGraph's store on the same server next to commits of the engine, if it is installed."""
    try:
        peers: Any = import_module("langgraph.store.postgres.aio")
    except ImportError:
        print("LangGraph's AsyncPostgresStore is not installed: pip install langgraph-checkpoint-postgres psycopg-pool")
        return
    pool: Any = {"min_size": 16, "max_size": 16}
    async with peers.AsyncPostgresStore.from_conn_string(url, pool_config=pool) as peer:
        await peer.setup()
        store = await open_store(f"{url}?sealed=no&schema=peer", clock=SystemClock())

        async def put(space: str) -> None:
            await peer.aput((space,), secrets.token_hex(16), {"body": BODY.hex()[:400]})

        async def commit(space: str) -> None:
            await store.commit(batch_of(space))

        found: dict[str, list[float]] = {"LangGraph": [], "engine": []}
        for number in range(rounds + 1):
            for name, work in (("LangGraph", put), ("engine", commit)):
                rate = await rate_of(work, writers=16, spaces=64, seconds=seconds)
                found[name].extend([rate] if number else [])
        await store.close()
    theirs, ours = (statistics.median(rates) for rates in found.values())
    print(f"16 writers, 64 spaces: LangGraph's AsyncPostgresStore {theirs:.0f} puts/s, engine {ours:.0f} commits/s")


async def by_workers(*, rounds: int, seconds: float, keeps: bool) -> None:
    """Print recalls per second and per server CPU second, for one worker and two with quotas, on a file.

    If a client `keeps` its connection, the worker that accepted it answers all of its calls.
    """
    found: dict[int, list[tuple[float, float]]] = {1: [], 2: []}
    with tempfile.TemporaryDirectory() as folder:
        store = Path(folder) / "m.db"
        async with elytron.open(store, space="default") as memory:
            for number in range(300):
                await memory.add(f"Note {number}: the ferry to island {number % 17} leaves at {number % 24}.")
        with cpu_quotas(WORKER_SHARE) as hold:
            for _ in range(rounds):
                for count, rates in found.items():
                    rates.append(await _recalls_of(str(store), count, hold, seconds=seconds, keeps=keeps))
    (one, one_cpu), (two, two_cpu) = (
        (statistics.median(rate for rate, _ in found[count]), statistics.median(per for _, per in found[count]))
        for count in found
    )
    held = f"each with {WORKER_SHARE:.0%} of a processor" if hold is not None else "without quotas, beside the client"
    kept = "connections kept" if keeps else "a connection for each call"
    print(f"{kept}: recalls a second: 1 worker {one:.0f}, 2 workers {two:.0f}: {two / one:.2f} ({held})")
    print(f"recalls a CPU second of the server: {one_cpu:.0f} and {two_cpu:.0f}: {two_cpu / one_cpu:.2f}")


async def _recalls_of(
    store: str, count: int, hold: Hold | None, /, *, seconds: float, keeps: bool
) -> tuple[float, float]:
    arguments = ["serve", "--store", store, "--development", "--log-level", "error", "--calls-per-minute", "0"]
    with bound_socket("127.0.0.1", 0) as listening:
        group = WorkerGroup(arguments, listening, count)
        told: asyncio.Future[Sequence[int]] = asyncio.get_running_loop().create_future()
        running = asyncio.create_task(group.run(lambda _, processes: told.set_result(processes)))
        processes = await told
        if hold is not None:
            for process in processes:
                hold(process)
        idle = sum(map(cpu_seconds, processes))
        address = listening_address(listening)
        calls = 0
        until = time.perf_counter() + seconds

        async def ask() -> None:
            nonlocal calls
            async with httpx.AsyncClient(timeout=60) as client:
                while time.perf_counter() < until:
                    # With a connection for each call, a free worker accepts it.
                    headers = {} if keeps else {"Connection": "close"}
                    answer = await client.post(
                        f"{address}/v1/recall", json={"query": "ferry to the island"}, headers=headers
                    )
                    answer.raise_for_status()
                    calls += 1

        await asyncio.gather(*(ask() for _ in range(8)))
        used = sum(map(cpu_seconds, processes)) - idle
        group.end()
        await running
    return calls / seconds, calls / used


def cpu_seconds(process: int, *, with_ended: bool = False) -> float:
    """Return the CPU seconds of a process, optionally with its ended children."""
    fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    return sum(map(int, fields[11 : 15 if with_ended else 13])) / os.sysconf("SC_CLK_TCK")


async def run_all(url: str, asked: argparse.Namespace, /) -> None:
    """Print all figures."""
    await beside_raw(url, rounds=asked.rounds, seconds=asked.seconds)
    await many_spaces(url, spaces=asked.spaces, rounds=asked.rounds)
    await second_node(url, rounds=asked.rounds)
    await beside_langgraph(url, rounds=asked.rounds, seconds=asked.seconds)
    await asyncio.to_thread(by_quota_nodes, url, rounds=asked.rounds, seconds=asked.seconds)
    for keeps in (False, True):
        await by_workers(rounds=asked.rounds, seconds=asked.seconds, keeps=keeps)


def main() -> None:
    """Run the benchmark."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--url")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=1.5)
    parser.add_argument("--spaces", type=int, default=10_000)
    asked = parser.parse_args()
    if asked.url is not None:
        asyncio.run(run_all(asked.url, asked))
        return
    with shared_server() as server:
        if server is None:
            parser.error(ABSENT)
        asyncio.run(run_all(server.make_database(), asked))


if __name__ == "__main__":
    main()
