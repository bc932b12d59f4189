"""Kill, pause and disconnect nodes and their Postgres server: nothing may be lost, doubled or out of order.

    python -m benchmarks.rigs.nodes [--nodes 3] [--seconds 120] [--seed S] [--short]

Clients write with and without idempotency keys, each time through another node, read their writes through a second one,
and replace records at the version that they read. Workers run jobs. Meanwhile, nodes and workers are killed or paused,
connections are cut, including between a commit and its response, and the whole database server is killed. Exits 1 if
anything acknowledged is missing, anything is doubled, a record's history does not fit a single record, a job did not
run exactly once, a journal has a gap, or two nodes show different content.
"""

import argparse
import asyncio
import json
import random
import sys
import tempfile
import time
from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import Any

from tests.store.postgres_server import ABSENT, binaries

import elytron
from benchmarks.rigs import tables
from benchmarks.rigs.node_cluster import DISTURBANCES, SPACES, TALLY, Node, NodeCluster, opened_cluster, run_disturbance
from benchmarks.rigs.node_history import CallKind, RecordCall, find_anomalies
from benchmarks.rigs.serving import turn
from elytron.jobs.queue import schedule_job
from elytron_core.clock import Instant
from elytron_core.errors import ElytronError
from elytron_core.ids import SpaceId
from elytron_core.planes.jobs import JobTerms
from elytron_core.scope import Scope

_KEYED, _UNKEYED, _RECORDS = 4, 2, 2
_CLIENTS_OF_A_RECORD = 2
_TERMS = JobTerms(lease_ms=2_000, wait_max_ms=500)
_SETTLE_S = 120.0
_SERVED_S = 2.0
_PAGE = 200
_TRIES = 20
_AGAIN_S = 0.2
_OPEN_STATES = ["pending", "leased", "retry_waiting", "blocked"]
_SHED = frozenset({503, 409, 429, 504})
"""Responses that postpone a request. Any other response than 200 is a failure."""


@dataclass(slots=True)
class ChaosBook:
    """What was sent and acknowledged, by text, and the problems that were found."""

    sent: dict[str, str] = field(default_factory=dict[str, str])
    """The space of each text."""
    acknowledged: dict[str, str] = field(default_factory=dict[str, str])
    """The id of each text whose write was acknowledged."""
    calls: defaultdict[str, list[RecordCall]] = field(default_factory=lambda: defaultdict[str, list[RecordCall]](list))
    jobs: list[str] = field(default_factory=list[str])
    disturbances: dict[str, int] = field(default_factory=dict[str, int])
    served_s: list[float] = field(default_factory=list[float])
    reads: int = 0
    failures: list[str] = field(default_factory=list[str])


class ChaosClients:
    """The clients of a cluster, which run until they are stopped."""

    def __init__(self, cluster: NodeCluster, book: ChaosBook, chance: random.Random, /) -> None:
        self._cluster = cluster
        self._book = book
        self._chance = chance
        self.is_stopped = False

    async def run_keyed(self, name: str) -> None:
        """Write text after text, each under a key until it is acknowledged, and read it through another node."""
        for number in count():
            if self.is_stopped:
                return
            key, space = f"{name}-{number}", self._chance.choice(SPACES)
            text = f"note {key}"
            self._book.sent[text] = space
            while True:
                node = self._node()
                answer = await self._cluster.call(node, "write", _write_of(text, space), key=key)
                if answer is not None and answer[0] == 200:
                    break
                self._require_shed(f"a write under the key {key}", answer)
            self._book.acknowledged[text] = _id_of(answer[1])
            await self._read_back(answer[1], text, space, besides=node)

    async def run_unkeyed(self, name: str) -> None:
        """Write text after text, each once. One without a response may exist or not."""
        for number in count():
            if self.is_stopped:
                return
            text, space = f"note {name}-{number}", self._chance.choice(SPACES)
            self._book.sent[text] = space
            answer = await self._cluster.call(self._node(), "write", _write_of(text, space))
            if answer is not None and answer[0] == 200:
                self._book.acknowledged[text] = _id_of(answer[1])
            else:
                self._require_shed("a write", answer)

    async def run_record(self, record: str, name: str) -> None:
        """Repeatedly read the record, and replace the version that was read."""
        scope, calls = {"scope": {"space": SPACES[0]}, "namespace": ["rig"], "key": record}, self._book.calls[record]
        for number in count():
            if self.is_stopped:
                return
            began = time.monotonic()
            answer = await self._cluster.call(self._node(), "get_record", scope)
            if answer is None or answer[0] not in {200, 404}:
                self._require_shed("a read of a record", answer)
                continue
            found: dict[str, Any] = answer[1]["record"] if answer[0] == 200 else {"version": 0, "value": {"is": ""}}
            version = int(found["version"])
            calls.append(RecordCall(CallKind.READ, began, time.monotonic(), version, found["value"]["is"]))
            value = f"{name}-{number}"
            put = {**scope, "value": {"is": value}, "expected_version": version}
            began = time.monotonic()
            answer = await self._cluster.call(self._node(), "put_record", put)
            kind = CallKind.UNKNOWN
            if answer is not None and answer[0] in {200, 409, 412}:
                kind = CallKind.PUT if answer[0] == 200 else CallKind.REFUSED
            else:
                self._require_shed("a put of a record", answer)
            calls.append(RecordCall(kind, began, time.monotonic(), version + 1, value))

    async def run_jobs(self) -> None:
        """Schedule jobs, each repeatedly under its name until it is known to be stored."""
        for number in count():
            if self.is_stopped:
                return
            name, space = f"j{number}", SpaceId(SPACES[number % len(SPACES)])
            scope = Scope(space=space, conversation="tallies")
            while True:
                try:
                    async with elytron.open(self._cluster.url, space=space) as memory:
                        due_at = Instant(memory.context.clock.now())
                        await schedule_job(memory.context, scope, TALLY, name, name, due_at=due_at, terms=_TERMS)
                    break
                except ElytronError:  # the database is away, or the connection was cut
                    await asyncio.sleep(0.05)
            self._book.jobs.append(name)
            await asyncio.sleep(0.2)

    async def _read_back(self, written: dict[str, Any], text: str, space: str, /, *, besides: Node) -> None:
        """Read a written text through another node, which must not answer from an earlier state."""
        others = [node for node in self._cluster.running if node is not besides]
        if not others:
            return
        asked = {"scope": {"space": space}, "id": _id_of(written), "min_sequence": written["sequence"]}
        answer = await self._cluster.call(self._chance.choice(others), "get", asked)
        if answer is None or answer[0] != 200:
            self._require_shed("a read of a text", answer)
            return
        self._book.reads += 1
        if answer[1]["text"] != text:
            self._book.failures.append(f"{text} was read as {answer[1]['text']}")

    def _node(self) -> Node:
        return self._chance.choice(self._cluster.running)

    def _require_shed(self, what: str, answer: tuple[int, dict[str, Any]] | None) -> None:
        if answer is not None and answer[0] not in _SHED:
            self._book.failures.append(f"{what} was answered {answer[0]}: {answer[1]}")


def _id_of(written: dict[str, Any]) -> str:
    return str(written["decisions"][0]["id"])


def _write_of(text: str, space: str) -> dict[str, object]:
    return {**turn(text), "scope": {"space": space}}


async def run(cluster: NodeCluster, /, *, seconds: float, chance: random.Random) -> ChaosBook:
    """Disturb the cluster under load for some time, let it settle, and check its content."""
    book = ChaosBook()
    clients = ChaosClients(cluster, book, chance)
    tasks = [
        *(asyncio.create_task(clients.run_keyed(f"k{number}")) for number in range(_KEYED)),
        *(asyncio.create_task(clients.run_unkeyed(f"u{number}")) for number in range(_UNKEYED)),
        *(
            asyncio.create_task(clients.run_record(f"r{record}", f"c{client}"))
            for record in range(_RECORDS)
            for client in range(_CLIENTS_OF_A_RECORD)
        ),
        asyncio.create_task(clients.run_jobs()),
    ]
    until = time.monotonic() + seconds
    while time.monotonic() < until or not book.disturbances:
        for kind in chance.sample(DISTURBANCES, len(DISTURBANCES)):
            await asyncio.sleep(chance.uniform(0.2, 1.0))
            took = await run_disturbance(cluster, kind, chance, book.disturbances)
            book.served_s += [took] if took is not None else []
    cluster.proxy.cut_answer = False
    await asyncio.gather(*cluster.starting)
    clients.is_stopped = True
    async with asyncio.timeout(_SETTLE_S):
        await asyncio.gather(*tasks)
    for record, calls in book.calls.items():
        book.failures += [f"{record}: {anomaly}" for anomaly in find_anomalies(calls)]
    for space in SPACES:
        await _look_at_space(cluster, book, space)
    errors = (cluster.folder / "errors").read_text("utf-8")
    if "Traceback" in errors:
        book.failures.append(f"a process wrote a traceback: {errors[errors.index('Traceback') :][:2_000]}")
    return book


async def _look_at_space(cluster: NodeCluster, book: ChaosBook, space: str) -> None:
    """Wait for the jobs of `space`, and compare what each node shows with the book and the other nodes."""
    until = time.monotonic() + _SETTLE_S
    while (await _asked(cluster, cluster.nodes[0], space, "list_jobs", states=_OPEN_STATES))["jobs"]:
        if time.monotonic() > until:
            book.failures.append(f"jobs of {space} were not done")
            return
        await asyncio.sleep(0.1)
    wanted = Counter({text: 1 for text in book.acknowledged if book.sent[text] == space})
    wanted.update(f"tally {name}" for number, name in enumerate(book.jobs) if SPACES[number % len(SPACES)] == space)
    views: list[object] = []
    for node in cluster.nodes:
        found = Counter(await _texts_of(cluster, node, space))
        book.failures += [f"lost: {text}" for text in sorted(wanted - found)]
        book.failures += [f"twice: {text}" for text, times in sorted(found.items()) if times > 1]
        book.failures += [
            f"never sent: {text}" for text in sorted(found.keys() - wanted.keys()) if book.sent.get(text) != space
        ]
        state = await _asked(cluster, node, space, "inspect", fingerprints=True)
        hits = [
            [hit["id"] for hit in (await _asked(cluster, node, space, "recall", query=query))["hits"]]
            for query in ("note k1", "tally", "note u0 7")
        ]
        views.append((state["state_fingerprint"], state["event_fingerprint"], state["sequence"], hits))
        journal = await _journal_of(node, space, until=state["sequence"])
        if [entry["sequence"] for entry in journal] != [*range(1, state["sequence"] + 1)]:
            book.failures.append(f"the journal of {space} has a gap")
        views[-1] = (views[-1], journal)
    if any(view != views[0] for view in views[1:]):
        book.failures.append(f"two nodes show something else of {space}")
    for job in (await _asked(cluster, cluster.nodes[0], space, "list_jobs", limit=_PAGE))["jobs"]:
        if job["state"] != "succeeded":
            book.failures.append(f"a job of {space} is {job['state']}: {job['error']}")


async def _asked(cluster: NodeCluster, node: Node, space: str, operation: str, /, **request: object) -> dict[str, Any]:
    """Return a report of a node that is no longer disturbed."""
    answer = None
    for _ in range(_TRIES):
        answer = await cluster.call(node, operation, {"scope": {"space": space}, **request}, wait_s=_SETTLE_S)
        if answer is not None and answer[0] == 200:
            return answer[1]
        await asyncio.sleep(_AGAIN_S)
    raise AssertionError(f"{operation} was answered {answer}")


async def _texts_of(cluster: NodeCluster, node: Node, space: str) -> list[str]:
    texts: list[str] = []
    cursor: str | None = None
    while True:
        page = await _asked(cluster, node, space, "list", limit=_PAGE, **({"cursor": cursor} if cursor else {}))
        texts += [item["text"] for item in page["items"] if item["plane"] == "transcript"]
        cursor = page.get("next_cursor")
        if cursor is None:
            return texts


async def _journal_of(node: Node, space: str, /, *, until: int) -> list[dict[str, Any]]:
    """Return the entries of a journal as a node streams them."""
    reader, writer = await asyncio.open_connection("127.0.0.1", node.port)
    entries: list[dict[str, Any]] = []
    async with asyncio.timeout(_SETTLE_S):
        writer.write(f"GET /v1/events?space={space} HTTP/1.1\r\nHost: localhost\r\nLast-Event-ID: 0\r\n\r\n".encode())
        while len(entries) < until and (line := await reader.readline()):
            if line.startswith(b"data: "):
                entries.append(json.loads(line.removeprefix(b"data: ")))
    writer.close()
    return entries


async def run_rig(programs: Path, /, *, nodes: int, seconds: float, seed: int) -> ChaosBook:
    """Run the rig with its own database server, and return its book."""
    with tempfile.TemporaryDirectory(prefix="elytron-nodes-", dir=tables.memory_folder()) as name:
        folder = Path(name)
        folder.chmod(0o755)  # the server runs as another user
        async with opened_cluster(folder, programs, nodes=nodes, workers=2) as cluster:
            return await run(cluster, seconds=seconds, chance=random.Random(seed))


def main(argv: Sequence[str] | None = None) -> int:
    """Run the rig and return the exit code."""
    parser = argparse.ArgumentParser(description="disturb nodes over one Postgres server; nothing is lost or doubled")
    parser.add_argument("--nodes", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=120.0)
    parser.add_argument("--seed", type=int, default=None)
    parser.add_argument("--short", action="store_true", help="3 nodes, each disturbance once")
    options = parser.parse_args(argv)
    programs = binaries()
    if programs is None:
        parser.error(ABSENT)
    seed = tables.seed_of(options.seed)
    nodes, seconds = (3, 0.0) if options.short else (options.nodes, options.seconds)
    book = asyncio.run(run_rig(programs, nodes=nodes, seconds=seconds, seed=seed))
    if not options.short and book.served_s and max(book.served_s) > _SERVED_S:
        book.failures.append(f"{max(book.served_s):.1f} s went by until others served for a node that was killed")
    missing = {"kill", "kill the database"} - book.disturbances.keys()
    if missing or not book.acknowledged or not book.jobs:
        book.failures.append("the run shows nothing: no write was acknowledged, or no job stored, or no server killed")
    for line in book.failures[:20]:
        print(line)
    tables.show(
        [
            {
                "nodes": str(nodes),
                "disturbed": ", ".join(f"{kind} {times}" for kind, times in sorted(book.disturbances.items())),
                "sent": str(len(book.sent)),
                "acknowledged": str(len(book.acknowledged)),
                "read by another": str(book.reads),
                "record calls": str(sum(map(len, book.calls.values()))),
                "jobs": str(len(book.jobs)),
                "served again in (worst)": f"{max(book.served_s, default=0.0):.2f} s",
                "failures": str(len(book.failures)),
            }
        ]
    )
    return 1 if book.failures else 0


if __name__ == "__main__":
    sys.exit(main())
