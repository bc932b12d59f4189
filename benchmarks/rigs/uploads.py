"""Upload harmful files, and kill the server while it receives a file; memory, disk and stored content must stay intact.

    python -m benchmarks.rigs.uploads [--rounds N] [--short] [--minutes N]

A server on SQLite is killed (SIGKILL) at each of its writes during one upload in turn, before and after the write. It
is restarted, shows the resource as far as it got or not at all, and receives the same upload again, which must then be
present once, complete, and searchable. Then it is sent bombs, round after round: documents that unpack to gigabytes,
nested archives, entities that multiply, and pictures under other names. With --minutes, it is then hammered for that
long (`benchmarks/rigs/hammering.py`). Exits 1 if an upload is lost or doubled, the store is not sound, a bomb is
accepted, or the server's memory or the disk does not return to its previous state.
"""

import argparse
import asyncio
import io
import os
import signal
import sys
import tempfile
import zipfile
import zlib
from collections.abc import AsyncIterable, Callable, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

import httpx

import elytron
from benchmarks.rigs import tables
from benchmarks.rigs.children import READY, Child, Voice
from elytron_core.clock import SystemClock
from elytron_core.ids import SpaceId
from elytron_core.ports.store import Batch, CommitReceipt, Store
from elytron_gateway.routes.surfaces import gateway_surfaces
from elytron_gateway.service import MemoryGateway
from elytron_gateway.users import SPACE
from elytron_http_shell.server import ServingSettings, StartedServer, serve_http
from elytron_store.store_urls import open_store

_TERMS = b"# Terms\n\nPayment is due in thirty days.\n"
_ADDRESS = "address"
_SECRET = "of every server that is started over the store"
_ROUNDS = 20
_SHORT = 2
_BOMB_BYTES = 1024 * 1024 * 1024
_SHORT_BOMB_BYTES = 64 * 1024 * 1024
_GROWTH_BYTES = 96 * 1024 * 1024
_WAIT_S = 120.0
_WRITES_MAX = 64


class Dying:
    """A store whose process is killed at step `at` of its writes to users' spaces, before or after a write."""

    def __init__(self, store: Store, /, *, at: int) -> None:
        self._store = store
        self._left = at

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    async def commit(self, batch: Batch, /) -> CommitReceipt:
        self._step(batch.space)
        committed = await self._store.commit(batch)
        self._step(batch.space)
        return committed

    async def write_blob(self, space: SpaceId, key: str, chunks: AsyncIterable[bytes], /) -> int:
        self._step(space)
        size = await self._store.write_blob(space, key, chunks)
        self._step(space)
        return size

    def _step(self, space: SpaceId) -> None:
        if space != SPACE:
            self._left -= 1
            if self._left == 0:
                os.kill(os.getpid(), signal.SIGKILL)


def served(voice: Voice, folder: Path, dies_at: int) -> None:
    """Serve a gateway for the store in `folder` and report its port; the body of a child process."""

    async def work() -> None:
        store = await open_store(f"sqlite:///{folder}/memory.db", clock=SystemClock())
        # It forwards everything that it does not implement itself.
        dying = cast("Store", Dying(store, at=dies_at))
        async with elytron.open(dying, space=None, credential_secret=_SECRET) as memory:

            def started(told: StartedServer) -> None:
                (folder / _ADDRESS).write_text(told.address)
                voice.say(READY)

            family = gateway_surfaces(MemoryGateway(memory))
            await serve_http(memory, ServingSettings(port=0, development=True), started=started, further=(family,))

    asyncio.run(work())


@dataclass(slots=True)
class Outcome:
    """The results of the rig."""

    kills: int = 0
    shown: dict[str, int] = field(default_factory=dict[str, int])
    wrong: list[str] = field(default_factory=list[str])
    bombs: int = 0
    deaths: int = 0
    answered: int = 0
    before_bytes: int = 0
    after_bytes: int = 0

    @property
    def ok(self) -> bool:
        return not self.wrong and self.kills > 0


class Server:
    """A server in its own process, and a user's client for it."""

    def __init__(self, folder: Path, /, *, dies_at: int = 0) -> None:
        self.child = Child(served, folder, dies_at)
        assert self.child.listen(_WAIT_S, until=READY), "the server did not start"
        self.http = httpx.Client(base_url=(folder / _ADDRESS).read_text(), timeout=_WAIT_S, trust_env=False)
        self.me: dict[str, str] = self.http.post("/users", json={"user_id": "ada"}).json()

    def upload(self, name: str, data: bytes, mime: str = "") -> httpx.Response:
        """Upload a file."""
        return self.http.post("/resources", data=self.me, files={"file": (name, data, mime)})

    def resources(self) -> list[dict[str, Any]]:
        """Return the resources that the server lists."""
        return self.http.get("/resources", params=self.me).json()["resources"]

    def memory_bytes(self) -> int:
        """Return the memory of its process."""
        lines = Path(f"/proc/{self.child.pid}/status").read_text().splitlines()
        return int(next(line for line in lines if line.startswith("VmRSS")).split()[1]) * 1024

    def end(self) -> None:
        """Kill it. A store must tolerate that at any time."""
        self.http.close()
        self.child.kill()


def killed(folder: Path, outcome: Outcome, /, *, at: Iterable[int] = range(1, _WRITES_MAX)) -> None:
    """Upload a file to servers that die at their writes `at` in turn, until one of them has no such write."""
    for dies_at in at:
        place = folder / f"{dies_at}"
        place.mkdir()
        server = Server(place, dies_at=dies_at)
        try:
            whole = server.upload("terms.md", _TERMS)
            server.end()
            if whole.json()["status"] != "extracted":
                outcome.wrong.append(f"an upload to a sound server: {whole.json()['status']}")
            return
        except httpx.TransportError:
            outcome.kills += 1
        server.end()
        _again(place, dies_at, outcome)


def _again(place: Path, dies_at: int, outcome: Outcome) -> None:
    server = Server(place)
    shown = [resource["status"] for resource in server.resources()]
    status = shown[0] if shown else "nothing"
    outcome.shown[status] = outcome.shown.get(status, 0) + 1
    made = server.upload("terms.md", _TERMS).json()
    asked = server.http.post("/memories/search", json={**server.me, "query": "payment due"}).json()["results"]
    if made.get("status") != "extracted" or [one["resource_id"] for one in asked] != [made["resource_id"]]:
        outcome.wrong.append(f"killed at {dies_at}: {made.get('status')}, found {len(asked)} times")
    if [one["resource_id"] for one in server.resources()] != [made["resource_id"]]:
        outcome.wrong.append(f"killed at {dies_at}: there are {len(server.resources())} resources")
    server.end()
    asyncio.run(_sound(place, dies_at, outcome))


async def _sound(place: Path, dies_at: int, outcome: Outcome) -> None:
    store = await open_store(f"sqlite:///{place}/memory.db", clock=SystemClock())
    report = await store.check()
    if not report.ok:
        outcome.wrong.append(f"killed at {dies_at}: {len(report.problems)} problems in the store")
    ids = [document.ref.key for document in await store.scan(SpaceId("ada"), "gateway_resources", limit=10)]
    for key in ids:
        size = sum([len(chunk) async for chunk in store.read_blob(SpaceId("ada"), key)])
        if size != len(_TERMS):
            outcome.wrong.append(f"killed at {dies_at}: a file of {size} bytes")
    await store.close()


def bombed(folder: Path, outcome: Outcome, /, *, rounds: int, size: int) -> None:
    """Send every bomb, round after round, and check the server's memory before and after."""
    server = Server(folder)
    bombs = [(name, make(size)) for name, make in BOMBS.items()]
    for number in range(rounds + 1):
        for name, data in bombs:
            # Changed each time, so that no file is already known.
            answer = server.upload(name, data + b"\n" * number)
            taken = answer.status_code == 200 and answer.json()["status"] == "extracted"
            outcome.bombs += 1
            if taken or answer.status_code not in {200, 413, 415, 422}:
                outcome.wrong.append(f"{name}: HTTP {answer.status_code}{', taken in' if taken else ''}")
        if number == 0:
            outcome.before_bytes = server.memory_bytes()
    outcome.after_bytes = server.memory_bytes()
    if outcome.after_bytes - outcome.before_bytes > _GROWTH_BYTES:
        outcome.wrong.append(f"memory grew by {(outcome.after_bytes - outcome.before_bytes) >> 20} MiB")
    if server.upload("terms.md", _TERMS).json()["status"] != "extracted":
        outcome.wrong.append("a plain upload behind the bombs is not taken in")
    server.end()


def _docx(document: bytes, *, more: dict[str, bytes] | None = None) -> bytes:
    out = io.BytesIO()
    kinds = (
        b'<Types xmlns="http://schemas.openxmlformats.org/package/2006/content-types"><Override PartName="/word/docu'
        b'ment.xml" ContentType="application/vnd.openxmlformats-officedocument.wordprocessingml.document.main+xml"/>'
        b"</Types>"
    )
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("[Content_Types].xml", kinds)
        archive.writestr("word/document.xml", document)
        for name, data in (more or {}).items():
            archive.writestr(name, data)
    return out.getvalue()


def _zip_bomb(size: int) -> bytes:
    return _docx(b"<w:document>" + b"a" * size)


def _nested(size: int) -> bytes:
    inner = _docx(b"a" * (size // 4))
    return _docx(b"<w:document/>", more={f"word/embeddings/{number}.docx": inner for number in range(8)})


def _entities(_size: int) -> bytes:
    lines = [b'<!ENTITY e0 "lol">', *(f'<!ENTITY e{n} "{f"&e{n - 1};" * 10}">'.encode() for n in range(1, 12))]
    return _docx(b"<?xml version='1.0'?><!DOCTYPE w [" + b"".join(lines) + b"]><w>&e11;</w>")


def _pdf(size: int) -> bytes:
    packed = zlib.compress(zlib.compress(b"BT (a) Tj ET " * (size // 13), 9), 9)
    parts = [
        b"<< /Type /Catalog /Pages 2 0 R >>",
        b"<< /Type /Pages /Kids [3 0 R] /Count 1 >>",
        b"<< /Type /Page /Parent 2 0 R /MediaBox [0 0 9 9] /Contents 4 0 R >>",
        b"<< /Filter [/FlateDecode /FlateDecode] /Length %d >>\nstream\n%s\nendstream" % (len(packed), packed),
    ]
    out = bytearray(b"%PDF-1.5\n")
    places: list[int] = []
    for number, part in enumerate(parts, start=1):
        places.append(len(out))
        out += b"%d 0 obj\n%s\nendobj\n" % (number, part)
    start = len(out)
    out += b"xref\n0 5\n0000000000 65535 f \n" + b"".join(b"%010d 00000 n \n" % place for place in places)
    return bytes(out) + b"trailer << /Size 5 /Root 1 0 R >>\nstartxref\n%d\n%%%%EOF\n" % start


def _picture(size: int) -> bytes:
    return b"\x89PNG\r\n\x1a\n" + zlib.compress(bytes(size), 9)


BOMBS: dict[str, Callable[[int], bytes]] = {
    "unpacks.docx": _zip_bomb,
    "nested.docx": _nested,
    "entities.docx": _entities,
    "unpacks.pdf": _pdf,
    "picture.png": _picture,
    "picture.txt": _picture,
    "../../program.txt": lambda _: b"\x7fELF" + bytes(4_096),
}


def run(folder: Path, /, *, rounds: int, size: int, minutes: float = 0.0) -> Outcome:
    """Kill servers during uploads, send one the bombs, and hammer one for `minutes`."""
    from benchmarks.rigs.hammering import hammered

    outcome = Outcome()
    killed(folder, outcome)
    for name in ("bombs", "hammered"):
        (folder / name).mkdir()
    bombed(folder / "bombs", outcome, rounds=rounds, size=size)
    if minutes:
        hammered(folder / "hammered", outcome, minutes=minutes)
    return outcome


def main(argv: Sequence[str] | None = None) -> int:
    """Run the rig and return the exit code."""
    parser = argparse.ArgumentParser(description="uploads that hurt, and kills in the middle of them")
    parser.add_argument("--rounds", type=int, default=_ROUNDS, help="how often every bomb is sent")
    parser.add_argument("--short", action="store_true", help=f"{_SHORT} rounds of smaller bombs")
    parser.add_argument("--minutes", type=float, default=0.0, help="how long a server is hammered behind it")
    options = parser.parse_args(argv)
    rounds, size = (_SHORT, _SHORT_BOMB_BYTES) if options.short else (options.rounds, _BOMB_BYTES)
    with tempfile.TemporaryDirectory(prefix="elytron-uploads-") as folder:
        outcome = run(Path(folder), rounds=rounds, size=size, minutes=options.minutes)
    shown = ", ".join(f"{count} {status}" for status, count in sorted(outcome.shown.items()))
    tables.show(
        [
            {
                "kills": str(outcome.kills),
                "shown after": shown,
                "bombs": str(outcome.bombs),
                "hammered": f"{outcome.deaths} deaths, {outcome.answered} answers",
                "MiB before": str(outcome.before_bytes >> 20),
                "MiB behind": str(outcome.after_bytes >> 20),
            }
        ]
    )
    for line in outcome.wrong:
        print(f"wrong: {line}", file=sys.stderr)
    return 0 if outcome.ok else 1


if __name__ == "__main__":
    raise SystemExit(main())
