"""Nodes on one Postgres server that can be killed, paused, disconnected and restarted."""

import asyncio
import contextlib
import json
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from tests.store.postgres_proxy import CuttingProxy, proxied
from tests.store.postgres_rig import open_tables
from tests.store.postgres_server import start_server

import elytron
from benchmarks.rigs.serving import ask
from elytron.context import Beat
from elytron.flows.worker import JobWorker
from elytron_core.contracts.transcript import MemoryWriteRequest
from elytron_core.scope import Scope

SPACES = ("alpha", "beta", "gamma")
TALLY = "tally"
"""Kind of the jobs. Each adds one turn, whose host id is the job's payload."""
WAIT_S = 2.0
"""Time that a client waits for a response before it tries another node."""
_SERVE = "from elytron_cli.main import run_command_line; run_command_line()"
_WORK = "import sys; from benchmarks.rigs.node_cluster import work; work(sys.argv[1])"
_AGAIN_S = 0.2
_START_TRIES = 100


@dataclass(slots=True)
class Node:
    """A server or worker process. `port` is set for servers."""

    process: asyncio.subprocess.Process
    port: int = 0


@dataclass(slots=True)
class DatabaseServer:
    """The Postgres server of a rig, which may be killed as a whole and restarts with its data."""

    folder: Path
    programs: Path
    process: "subprocess.Popen[bytes]"
    port: int

    @classmethod
    def begin(cls, folder: Path, programs: Path, /) -> "DatabaseServer":
        """Create a cluster in `folder` and start its server."""
        process, port = start_server(folder, programs)
        return cls(folder, programs, process, port)

    def kill(self) -> None:
        """Kill every process of the server at once."""
        number = str(self.process.pid)
        sessions = [
            int(stat.parent.name)
            for stat in Path("/proc").glob("[0-9]*/stat")
            if (words := _read_words(stat)) and words[1] == number
        ]
        self.process.kill()
        for session in sessions:
            with contextlib.suppress(ProcessLookupError):
                os.kill(session, signal.SIGKILL)
        self.process.wait()

    def restart(self) -> None:
        """Restart the server with its data."""
        for _ in range(_START_TRIES):
            try:
                self.process, self.port = start_server(self.folder, self.programs)
            except RuntimeError:  # the killed server still holds its memory
                time.sleep(_AGAIN_S)
            else:
                return
        raise RuntimeError("the server of the rig did not come back")


def _read_words(stat: Path) -> list[str]:
    """Return the fields of a process after its name, or None if it has ended."""
    with contextlib.suppress(OSError):
        return stat.read_text().rpartition(")")[2].split()
    return []


@dataclass(slots=True)
class NodeCluster:
    """Servers and workers with one database, reached through a proxy that can cut connections."""

    database: DatabaseServer
    proxy: CuttingProxy
    url: str
    folder: Path
    nodes: list[Node] = field(default_factory=list[Node])
    workers: list[Node] = field(default_factory=list[Node])
    starting: set[asyncio.Task[None]] = field(default_factory=set[asyncio.Task[None]])
    """Running replacements of killed processes."""

    @property
    def running(self) -> list[Node]:
        """Return the servers that were not killed. Some may be paused."""
        return [node for node in self.nodes if node.process.returncode is None]

    async def start_node(self) -> Node:
        """Start a server and return it once it listens. It is retried while the database is away."""
        while True:
            with (self.folder / "errors").open("ab") as errors:
                process = await asyncio.create_subprocess_exec(
                    sys.executable, "-c", _SERVE, "serve", "--port", "0", "--development", "--json",
                    "--log-level", "error", "--calls-per-minute", "0", "--store", self.url,
                    stdout=asyncio.subprocess.PIPE, stderr=errors, cwd=self.folder,
                )  # fmt: skip
            assert process.stdout is not None
            text = ""
            while line := (await process.stdout.readline()).decode():
                text += line
                if text.rstrip().endswith("}"):
                    return Node(process, int(json.loads(text)["address"].rpartition(":")[2]))
            await process.wait()

    async def start_worker(self) -> Node:
        """Start a process that runs jobs."""
        with (self.folder / "errors").open("ab") as errors:
            return Node(
                await asyncio.create_subprocess_exec(
                    sys.executable, "-c", _WORK, self.url, stdout=errors, stderr=errors
                )
            )

    async def call(
        self, node: Node, operation: str, body: object, /, *, key: str = "", wait_s: float = WAIT_S
    ) -> tuple[int, dict[str, Any]] | None:
        """Call a node on a new connection, and return None if no response arrives in time."""
        try:
            async with asyncio.timeout(wait_s):
                reader, writer = await asyncio.open_connection("127.0.0.1", node.port)
                with contextlib.closing(writer):
                    status, told = await ask(reader, writer, operation, body, key=key)
        except (OSError, TimeoutError, asyncio.IncompleteReadError):
            return None
        return status, json.loads(told)

    async def replace(self, group: list[Node], place: int, start: Callable[[], Awaitable[Node]]) -> None:
        """Kill one of `group`. A new one takes its place as soon as it has started."""
        group[place].process.kill()
        await group[place].process.wait()

        async def fill() -> None:
            group[place] = await start()

        task = asyncio.create_task(fill())
        self.starting.add(task)
        task.add_done_callback(self.starting.discard)


@asynccontextmanager
async def opened_cluster(folder: Path, programs: Path, /, *, nodes: int, workers: int) -> AsyncGenerator[NodeCluster]:
    """Start a Postgres server with an empty store, and servers and workers for it; stop all of them at the end."""
    async with AsyncExitStack() as stack:
        database = await asyncio.to_thread(DatabaseServer.begin, folder, programs)
        stack.callback(database.kill)
        url = f"postgresql://postgres@127.0.0.1:{database.port}/postgres"
        await (await open_tables(url)).close()
        proxy, through = await stack.enter_async_context(proxied(url))
        cluster = NodeCluster(database, proxy, f"{through}?sealed=no", folder)
        try:
            cluster.nodes = list(await asyncio.gather(*(cluster.start_node() for _ in range(nodes))))
            cluster.workers = [await cluster.start_worker() for _ in range(workers)]
            yield cluster
        finally:
            for node in (*cluster.nodes, *cluster.workers):
                with contextlib.suppress(ProcessLookupError):
                    node.process.kill()
                await node.process.wait()


DISTURBANCES = (
    *("kill", "pause", "cut", "cut an answer", "cut an answer"),
    *("kill a worker", "pause a worker", "kill the database"),
)


async def run_disturbance(
    cluster: NodeCluster, kind: str, chance: random.Random, counts: dict[str, int], /
) -> float | None:
    """Disturb the cluster in one way. Return how long the others took to serve after a node was killed."""
    running = cluster.running
    node = chance.choice(running)
    if kind == "kill" and len(running) == 1:
        kind = "cut"
    counts[kind] = counts.get(kind, 0) + 1
    match kind:
        case "kill":
            await cluster.replace(cluster.nodes, cluster.nodes.index(node), cluster.start_node)
            return await _until_served(cluster, others=[other for other in running if other is not node])
        case "pause":
            await _pause(node, chance.uniform(0.2, 2.5))
        case "cut":
            cluster.proxy.cut_all()
        case "cut an answer":
            cluster.proxy.cut_answer = True
        case "kill a worker":
            await cluster.replace(cluster.workers, 0, cluster.start_worker)
        case "pause a worker":
            await _pause(cluster.workers[-1], chance.uniform(0.2, 3.0))
        case _:
            cluster.database.kill()
            cluster.proxy.cut_all()
            await asyncio.to_thread(cluster.database.restart)
            parts = urlsplit(cluster.url)
            assert parts.hostname is not None
            cluster.proxy.lead_to(parts.hostname, cluster.database.port)
    return None


async def _until_served(cluster: NodeCluster, /, *, others: list[Node]) -> float:
    """Return how long it takes until one of `others` has answered a write in each space."""
    began = time.monotonic()
    for space in SPACES:
        for node in others * 1_000:
            body = {"scope": {"space": space}, "namespace": ["rig"], "key": "owner", "value": {"at": time.time()}}
            answer = await cluster.call(node, "put_record", body)
            if answer is not None and answer[0] == 200:
                break
    return time.monotonic() - began


async def _pause(node: Node, seconds: float) -> None:
    node.process.send_signal(signal.SIGSTOP)
    try:
        await asyncio.sleep(seconds)
    finally:
        node.process.send_signal(signal.SIGCONT)


def work(url: str) -> None:
    """Run the jobs of the store at `url` until this process is ended; the body of a worker."""

    async def use() -> None:
        async with elytron.open(url, space=None) as memory:

            async def tally(scope: Scope, payload: str, beat: Beat, /) -> None:
                await beat()
                turn = {"host_id": payload, "messages": [{"text": f"tally {payload}"}]}
                request = {"scope": scope.model_dump(), "write": {"kind": "transcript", "turns": [turn]}}
                await memory.operate(MemoryWriteRequest.model_validate(request))

            memory.context.runners[TALLY] = tally
            worker = JobWorker(memory.context, pause_s=0.1, kinds=(TALLY,))
            worker.start()
            await asyncio.Event().wait()

    while True:
        try:
            asyncio.run(use())
        except elytron.ElytronError:  # the database is away
            time.sleep(_AGAIN_S)
