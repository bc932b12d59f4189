"""Several callers upload, add and delete on a server that dies repeatedly; its answers must hold.

One store outlives all servers. Each of its servers is killed at one of its writes, or while request bodies are being
sent. The next one is then checked: acknowledged uploads are present, once and complete; acknowledged deletions are
absent; unacknowledged ones may be either; and the counts match. In the end everything is deleted, and the disk space
must be free again.
"""

import asyncio
import random
import socket
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from threading import Lock
from typing import Any
from urllib.parse import urlsplit

import httpx

from benchmarks.rigs.uploads import Outcome, Server
from elytron_core.clock import SystemClock
from elytron_store.store_urls import open_store

_CALLERS = 4
_CALLS = 12
_WRITES = 90
_CHECK_EVERY = 10
_LARGE = 200
_FREE_BYTES = 16 * 1024 * 1024
_CHAT = "chat:hammered"
_WORDS = ("harbour", "ferry", "boiler", "ladder", "garden", "winter", "invoice", "kettle", "piano", "glacier", "market")


@dataclass(slots=True)
class Known:
    """What the servers have acknowledged. Requests that were never answered may have taken effect or not."""

    there: dict[str, str] = field(default_factory=dict[str, str])
    """The resource of each text."""
    unsure: set[str] = field(default_factory=set[str])
    """Texts whose upload or deletion was not answered."""
    said: set[str] = field(default_factory=set[str])
    number: int = 0
    _lock: Lock = field(default_factory=Lock)

    def new(self) -> int:
        """Return a number that no other caller has."""
        with self._lock:
            self.number += 1
            return self.number

    def take(self, chance: random.Random) -> tuple[str, str] | None:
        """Take a present text and its resource away from all other callers. Until it is answered, it is unsure."""
        with self._lock:
            if not self.there:
                return None
            text = chance.choice(sorted(self.there))
            self.unsure.add(text)
            return text, self.there.pop(text)


def hammered(folder: Path, outcome: Outcome, /, *, minutes: float) -> None:
    """Kill servers of one store under load and check what remains after each, until the time is over."""
    chance, known = random.Random(7), Known()
    until = time.monotonic() + minutes * 60
    while time.monotonic() < until and not outcome.wrong:
        server = Server(folder, dies_at=chance.randint(1, _WRITES))
        with ThreadPoolExecutor(_CALLERS) as callers:
            for each in range(_CALLERS):
                callers.submit(_calls, server, known, random.Random(chance.random()), each, outcome)
        server.end()
        outcome.deaths += 1
        _look(folder, known, outcome)
        if outcome.deaths % _CHECK_EVERY == 0:
            asyncio.run(_sound(folder, outcome))
    _cleared(folder, known, outcome)


def _calls(server: Server, known: Known, chance: random.Random, each: int, outcome: Outcome) -> None:
    for _ in range(_CALLS):
        try:
            chance.choice((_upload, _upload, _again, _delete, _add, _half))(server, known, chance, each)
        except httpx.TransportError:
            return
        except Exception as error:  # noqa: BLE001 - whatever it is, the rig has to tell it
            outcome.wrong.append(f"a caller: {type(error).__name__}: {error}")
            return
        outcome.answered += 1


def _upload(server: Server, known: Known, chance: random.Random, each: int) -> None:
    word = f"harbourmaster{each}x{known.new()}"
    _send(server, known, f"# {word}\n\n" + " ".join(chance.choices(_WORDS, k=chance.choice((8, 80, _LARGE * 100)))))


def _again(server: Server, known: Known, chance: random.Random, _each: int) -> None:
    taken = known.take(chance)
    if taken is not None:
        _send(server, known, taken[0])


def _send(server: Server, known: Known, text: str) -> None:
    known.unsure.add(text)
    made = server.upload("t.md", text.encode())
    body = made.json()
    assert (made.status_code, body.get("status")) == (200, "extracted"), f"HTTP {made.status_code}: {body}"
    known.there[text] = body["resource_id"]
    known.unsure.discard(text)


def _delete(server: Server, known: Known, chance: random.Random, _each: int) -> None:
    taken = known.take(chance)
    if taken is not None:
        gone = server.http.request("DELETE", f"/resources/{taken[1]}", json=server.me)
        assert gone.status_code == 200, f"HTTP {gone.status_code}"
        known.unsure.discard(taken[0])


def _add(server: Server, known: Known, _chance: random.Random, each: int) -> None:
    said = f"said{each}x{known.new()} at the harbour"
    message = {"sender_id": "ada", "role": "user", "timestamp": 1, "content": said}
    body = {**server.me, "session_id": _CHAT, "messages": [message]}
    answer = server.http.post("/memories/add", json=body, headers={"Idempotency-Key": said.replace(" ", "-")})
    assert answer.status_code == 200, f"HTTP {answer.status_code}: {answer.text}"
    known.said.add(said)


def _half(server: Server, _known: Known, _chance: random.Random, _each: int) -> None:
    """Send half of a form and disconnect."""
    at = urlsplit(str(server.http.base_url))
    head = b"POST /resources HTTP/1.1\r\nHost: localhost\r\nContent-Type: multipart/form-data; boundary=x\r\n"
    part = b'--x\r\nContent-Disposition: form-data; name="file"; filename="h.txt"\r\n\r\n' + b"h" * 600_000
    try:
        with socket.create_connection((at.hostname or "", at.port or 0), timeout=5) as there:
            there.sendall(head + b"Content-Length: 2000000\r\n\r\n" + part)
    except OSError:
        raise httpx.ConnectError("gone") from None


def _look(folder: Path, known: Known, outcome: Outcome) -> None:
    """Ask a healthy server of the store what it has."""
    server = Server(folder)
    listed = {one["resource_id"]: one for one in server.resources()}
    for text, resource_id in known.there.items():
        shown = listed.get(resource_id)
        if shown is None or shown["status"] != "extracted" or shown["size"] != len(text.encode()):
            outcome.wrong.append(f"an upload that was answered is {shown and shown['status']}")
        elif {one["resource_id"] for one in _found(server, text.split()[1], "resources")} != {resource_id}:
            outcome.wrong.append("an upload that was answered is not found, or in another resource too: " + text[:24])
    for said in list(known.said)[-20:]:
        if [one["text"] for one in _found(server, said.split()[0], "all_user_memory")].count(said) != 1:
            outcome.wrong.append("a message that was answered is not found, or not once")
    held = server.http.get("/users/ada").json()
    sizes = sum(one["size"] for one in listed.values())
    if (held["resources"], held["resource_bytes"]) != (len(listed), sizes):
        outcome.wrong.append(f"counted {held['resources']} resources of {held['resource_bytes']} bytes: {sizes}")
    if held["messages"] < len(known.said):
        outcome.wrong.append(f"counted {held['messages']} of {len(known.said)} messages")
    # Settle what is unknown: sent again, it must be present exactly once.
    for text in sorted(known.unsure):
        _send(server, known, text)
    if len(server.resources()) != len(known.there):
        outcome.wrong.append(f"{len(known.there)} contents are {len(server.resources())} resources")
    server.end()


def _found(server: Server, word: str, scope: str) -> list[dict[str, Any]]:
    asked = {**server.me, "query": word, "scope": [scope], "top_k": 100}
    found = server.http.post("/memories/search", json=asked).json()["results"]
    return [one for one in found if word in one["text"] or word == one.get("heading")]


async def _sound(folder: Path, outcome: Outcome) -> None:
    store = await open_store(f"sqlite:///{folder}/memory.db", clock=SystemClock())
    report = await store.check()
    await store.close()
    if not report.ok:
        outcome.wrong.append(f"{len(report.problems)} problems in the store")


def _cleared(folder: Path, known: Known, outcome: Outcome) -> None:
    """Delete everything. Nothing of it may remain on the disk."""
    server = Server(folder)
    for one in server.resources():
        server.http.request("DELETE", f"/resources/{one['resource_id']}", json=server.me)
    server.http.delete("/users/ada")
    server.end()
    left = sum(file.stat().st_size for file in folder.iterdir() if file.is_file())
    if left > _FREE_BYTES:
        outcome.wrong.append(f"{left >> 20} MiB are left on the disk behind {len(known.there)} deletions")
    asyncio.run(_sound(folder, outcome))
