"""Measure the processor time of an operation on one node, two nodes and two workers with one Postgres server.

    python -m benchmarks.node_costs [--url postgresql://...] [--rounds 3] [--operations 200] [--spaces 12]

Clients alternately add a note and recall, in spaces of 100 notes each. With two nodes, each space's calls go to one of
them (routed) or to either (not routed). With two workers, calls share a client's persistent connection, or each has its
own. Processor time is that of the nodes, and of the database if its processes are on this machine. It does not depend
on other load on the machine. The number of responses per second does, so it is printed only where control groups can
limit each process to a share of a processor. All figures are medians of interleaved rounds.
"""

import argparse
import asyncio
import contextlib
import os
import random
import statistics
import time
from collections.abc import AsyncGenerator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

from tests.store.postgres_server import ABSENT, PostgresServer, shared_server

import elytron
from benchmarks.cpu_quotas import Hold, cpu_quotas
from benchmarks.nodes import cpu_seconds
from benchmarks.rigs import tables
from benchmarks.rigs.serving import ask
from elytron_cli.server.workers import WorkerGroup
from elytron_http_shell.server import bound_socket

_NOTES = 100
_CLIENTS = 4
_SHARE = 0.25
_QUERY = "ferry to the island"


@dataclass(slots=True)
class Arrangement:
    """Nodes with workers, how calls reach them, and the measurements of each round."""

    name: str
    nodes: int = 1
    workers: int = 1
    is_routed: bool = True
    is_kept: bool = True
    node_ms: list[float] = field(default_factory=list[float])
    database_ms: list[float] = field(default_factory=list[float])
    rates: list[float] = field(default_factory=list[float])


def arrangements() -> list[Arrangement]:
    """Return the arrangements to compare. The first is the reference for the others."""
    return [
        Arrangement("1 node"),
        Arrangement("2 nodes, routed", nodes=2),
        Arrangement("2 nodes, not routed", nodes=2, is_routed=False),
        Arrangement("2 workers, connections kept", workers=2),
        Arrangement("2 workers, a connection for each call", workers=2, is_kept=False),
    ]


def database_seconds(server: PostgresServer) -> float | None:
    """Return the processor seconds of a database server's processes, or None if they are on another machine."""
    if server.files is None:
        return None
    main = int((server.files / "postmaster.pid").read_text().split()[0])
    total = cpu_seconds(main, with_ended=True)
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            if int(stat.read_text().rpartition(")")[2].split()[1]) == main:
                total += cpu_seconds(int(stat.parent.name))
    return total


async def fill_spaces(url: str, spaces: int, /) -> None:
    """Create the spaces with the notes that are recalled."""
    async with elytron.open(url, space=None) as memory:
        for space in range(spaces):
            for number in range(_NOTES):
                text = f"Note {number}: the ferry to island {number % 17} leaves at {number % 24}."
                await memory.add(text, user_id=f"space-{space}")


@asynccontextmanager
async def served_nodes(url: str, how: Arrangement, hold: Hold | None, /) -> AsyncGenerator[tuple[list[int], list[int]]]:
    """Serve the nodes of an arrangement, and yield their ports and the processes that respond."""
    arguments = ["serve", "--store", url, "--development", "--log-level", "error", "--calls-per-minute", "0"]
    ports: list[int] = []
    processes: list[int] = []
    async with AsyncExitStack() as stack:
        for _ in range(how.nodes):
            listening = stack.enter_context(bound_socket("127.0.0.1", 0))
            group = WorkerGroup(arguments, listening, how.workers)
            told: asyncio.Future[Sequence[int]] = asyncio.get_running_loop().create_future()
            running = asyncio.create_task(group.run(lambda _, made, told=told: told.set_result(made)))
            processes += await told
            ports.append(listening.getsockname()[1])

            async def end(group: WorkerGroup = group, running: asyncio.Task[int] = running) -> None:
                group.end()
                await running

            stack.push_async_callback(end)
        if hold is not None:
            for process in processes:
                hold(process)
        yield ports, processes


class NodeClients:
    """Clients of the nodes of one arrangement, each with its own spaces."""

    def __init__(self, ports: Sequence[int], how: Arrangement, spaces: int, /) -> None:
        self._ports = ports
        self._how = how
        self._spaces = spaces
        self._kept: dict[tuple[int, int], tuple[asyncio.StreamReader, asyncio.StreamWriter]] = {}

    async def run(self, operations: int, /, *, chance: random.Random) -> None:
        """Alternately add a note and recall, `operations` times in total."""
        await asyncio.gather(*(self._work(client, operations // _CLIENTS, chance) for client in range(_CLIENTS)))

    def close(self) -> None:
        """Close the connections."""
        for _, writer in self._kept.values():
            writer.close()

    async def _work(self, client: int, count: int, chance: random.Random) -> None:
        for number in range(count):
            space = (client + _CLIENTS * chance.randrange(self._spaces // _CLIENTS)) % self._spaces
            node = (space if self._how.is_routed else chance.randrange(1_000)) % len(self._ports)
            scope = {"space": f"space-{space}"}
            if number % 2:
                await self._call(client, node, "recall", {"query": _QUERY, "scope": scope})
            else:
                turn = {"messages": [{"text": f"Late note {number} of client {client} at the harbour."}]}
                body = {"write": {"kind": "transcript", "turns": [turn]}, "scope": scope}
                await self._call(client, node, "write", body)

    async def _call(self, client: int, node: int, operation: str, body: object) -> None:
        connection = self._kept.get((client, node)) or await asyncio.open_connection("127.0.0.1", self._ports[node])
        status, answer = await ask(*connection, operation, body)
        assert status == 200, answer
        if self._how.is_kept:
            self._kept[client, node] = connection
        else:
            connection[1].close()


async def measure_round(
    server: PostgresServer, url: str, how: Arrangement, /, *, asked: argparse.Namespace, hold: Hold | None, seed: int
) -> None:
    """Measure one arrangement once, after a run in which its nodes read the spaces."""
    async with served_nodes(url, how, hold) as (ports, processes):
        clients = NodeClients(ports, how, asked.spaces)
        await clients.run(asked.operations, chance=random.Random(seed))
        idle, database = sum(map(cpu_seconds, processes)), database_seconds(server)
        began = time.perf_counter()
        await clients.run(asked.operations, chance=random.Random(seed + 1))
        how.rates.append(asked.operations / (time.perf_counter() - began))
        how.node_ms.append((sum(map(cpu_seconds, processes)) - idle) / asked.operations * 1e3)
        if database is not None:
            how.database_ms.append(((database_seconds(server) or 0.0) - database) / asked.operations * 1e3)
        clients.close()


async def compare_all(server: PostgresServer, asked: argparse.Namespace, /) -> None:
    """Print the costs of all arrangements."""
    url = f"{server.make_database()}?sealed=no"
    await fill_spaces(url, asked.spaces)
    found = arrangements()
    with cpu_quotas(_SHARE) as hold:
        for number in range(asked.rounds):
            for how in found:
                await measure_round(server, url, how, asked=asked, hold=hold, seed=number)
    first = found[0]

    def show(values: Sequence[float], base: Sequence[float]) -> str:
        if not values:
            return "not measured"
        middle = statistics.median(values)
        return f"{middle:.2f} ({middle / statistics.median(base):.2f})"

    tables.show(
        [
            {
                "arrangement": how.name,
                "node ms an operation": show(how.node_ms, first.node_ms),
                "database ms": show(how.database_ms, first.database_ms),
                "operations a second": show(how.rates if hold is not None else (), first.rates),
            }
            for how in found
        ]
    )
    quota = f"each process held to {_SHARE:.0%} of a processor" if hold is not None else "no control group here"
    print(f"in brackets: as a multiple of one node; {quota}; {os.cpu_count()} processors")


def main() -> None:
    """Run the benchmark."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--url", help="a database of a superuser on a server that runs")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--operations", type=int, default=200)
    parser.add_argument("--spaces", type=int, default=12)
    asked = parser.parse_args()
    if asked.url is not None:
        asyncio.run(compare_all(PostgresServer(asked.url), asked))
        return
    with shared_server() as server:
        if server is None:
            parser.error(ABSENT)
        asyncio.run(compare_all(server, asked))


if __name__ == "__main__":
    main()
