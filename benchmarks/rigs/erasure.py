"""Plant a word in every plane in every possible way, erase it, and search for it in every remaining byte.

    python -m benchmarks.rigs.erasure [--engine memory file sqlite sealed sealed-file all] [--short]

Each plane gets its own word. Before the erasure, every word must be found, or the search proves nothing. After an
erasure by id, and after one of the whole space, none may remain in any of nine encodings: in the store's files, in an
index or its checkpoint, in the process's memory, in the responses to repeated calls, in a new archive, or in the log.
Exits 1 if one does.
"""

import argparse
import asyncio
import base64
import io
import logging
import secrets
import tempfile
import zipfile
import zlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

import elytron
from benchmarks.rigs import tables
from benchmarks.rigs.live_words import live_bytes
from elytron.indexing.checkpoints import CHECKPOINT
from elytron_adapter.dispatch import OperationDispatcher
from elytron_adapter.envelope import (
    AcceptedAnswer,
    AuthKind,
    CallAuth,
    CallSource,
    CallTransport,
    DuplicatedAnswer,
    Envelope,
    SourceKind,
)
from elytron_core import limits
from elytron_core.clock import Clock, SystemClock
from elytron_core.errors import NotFound
from elytron_core.ids import SpaceId
from elytron_core.planes.space import COLLECTIONS
from elytron_core.ports.store import Store
from elytron_store import open_store
from elytron_store.sealed.providers import LocalKeys

ENGINES = ("memory", "file", "sqlite", "sealed", "sealed-file")
KILLED = ("sqlite", "file", "sealed", "sealed-file", "postgres")
"""Engines that outlive a process."""
SPACE = "rig"
_KEYS = {"rig": bytes(range(32))}
_SKILL = "1. Fetch {word}.\n2. Grind {word}.\n3. Serve {word} warm."


PLANES = ("turn", "fact", "skill", "capsule", "state", "summary", "note", "garden", "subject", "candidate", "record")


def _subject(word: str) -> dict[str, object]:
    return {
        "kind": "subjects",
        "subjects": [
            {
                "name": word,
                "subject_kind": "agent_persona",
                "soul": {"soul": word},
                "mount": {"identity": word},
            },
            {"name": "somebody", "subject_kind": "human_user"},
        ],
        "edges": [{"source": word, "edge_kind": "observes", "target": "somebody"}],
    }


def writes_of(words: Mapping[str, str], /) -> dict[str, dict[str, object]]:
    """Return one write for each plane, with the plane's word in each of its texts."""
    fact = words["candidate"]
    return {
        "turn": {
            "kind": "transcript",
            "title": words["turn"],
            "turns": [
                {
                    "messages": [{"text": f"About {words['turn']}.", "speaker": words["turn"]}],
                    "host_id": words["turn"],
                    "tags": [words["turn"]],
                    "metadata": {"note": words["turn"]},
                }
            ],
        },
        "fact": {
            "kind": "long_term",
            "facts": [{"topic": words["fact"], "content": words["fact"], "keywords": [words["fact"]]}],
        },
        "skill": {
            "kind": "procedural",
            "writes": [
                {
                    "name": words["skill"],
                    "topic": words["skill"],
                    "title": words["skill"],
                    "summary": words["skill"],
                    "content": _SKILL.format(word=words["skill"]),
                }
            ],
        },
        "capsule": {
            "kind": "capsules",
            "capsules": [{"capsule_kind": "handoff", "topic": words["capsule"], "summary": words["capsule"]}],
        },
        "state": {"kind": "execution", "state": {"goal": words["state"], "pending": [words["state"]]}},
        "summary": {"kind": "summary", "summary": {"text": words["summary"], "messages": 40}},
        "note": {"kind": "notes", "notes": [{"period": "2026-01-03", "text": words["note"]}]},
        "garden": {
            "kind": "garden",
            "documents": [{"role": "diary", "name": words["garden"], "text": words["garden"]}],
        },
        "subject": _subject(words["subject"]),
        "candidate": {
            "kind": "candidates",
            "candidates": [
                {
                    "proposal": {"target": "long_term", "topic": fact, "content": fact},
                    "authority": "external_content",
                }
            ],
        },
    }


def encodings(word: str, /) -> tuple[bytes, ...]:
    """Return the forms in which a file might contain `word`."""
    plain = word.encode()
    shifted = [base64.b64encode(b"\0" * shift + plain)[-(-shift * 8 // 6) :] for shift in range(3)]
    # The last letters of a base64 text depend on what follows the word.
    return (
        plain,
        plain.upper(),
        word.encode("utf-16-le"),
        word.encode("utf-16-be"),
        plain.hex().encode(),
        "".join(f"%{byte:02x}" for byte in plain).encode(),
        *(text[: -(-len(plain) * 8 // 6) - 3] for text in shifted),
    )


def found_in(data: bytes, words: Mapping[str, str], /) -> list[str]:
    """Return the planes whose word is in `data`, plain or compressed."""
    parts = [data, *_unpacked(data)]
    return [plane for plane, word in words.items() if any(form in part for part in parts for form in encodings(word))]


def _unpacked(data: bytes) -> Iterator[bytes]:
    if data[:2] == b"PK":
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            for name in archive.namelist():
                yield archive.read(name)
    start = data.find(b"\x78\x9c")
    while start >= 0:
        with suppress(zlib.error):
            yield zlib.decompressobj().decompress(data[start:], 1 << 24)
        start = data.find(b"\x78\x9c", start + 1)


async def held(store: Store, folder: Path, space: SpaceId, /) -> list[tuple[str, bytes]]:
    """Return every byte that `store` returns from a space, and every file in `folder`, by name."""
    kept = [(str(path), path.read_bytes()) for path in sorted(folder.rglob("*")) if path.is_file()]
    for collection in COLLECTIONS:
        documents = await store.scan(space, collection, limit=limits.SCAN_MAX)
        kept += [(f"{collection} {document.ref.key}", document.body) for document in documents]
    entries = await store.journal(space, after=0, limit=limits.JOURNAL_MAX)
    kept += [(f"entry {entry.sequence}", repr(entry).encode()) for entry in entries]
    with suppress(NotFound):
        kept.append(("checkpoint", b"".join([chunk async for chunk in store.read_blob(space, CHECKPOINT)])))
    return kept


async def open_engine(engine: str, place: str, /, *, clock: Clock) -> Store:
    """Open the store of `engine` in the folder `place`, or in the database with that URL."""
    keys = LocalKeys(_KEYS, current="rig") if engine.startswith("sealed") else None
    match engine:
        case "memory":
            url = "memory:"
        case "postgres":
            url = f"{place}?sealed=no"
        case "file" | "sealed-file":
            url = f"file://{place}/files"
        case _:
            url = f"sqlite://{place}/store.db"
    return await open_store(url, clock=clock, keys=keys)


async def _put(memory: elytron.MemoryRuntime, word: str) -> str:
    """Store a record twice, so that an earlier version is in the store, and return its id."""
    await memory.put_record((word,), word, {word: [word]}, text=word)
    return (await memory.put_record((word,), word, word, text=f"{word} anew")).record.id


async def _edit(memory: elytron.MemoryRuntime, word: str) -> None:
    """Revise the skill twice under one key, so that the receipt of a change is in the store."""
    request = elytron.RuntimeSkillEditRequest(name=f"runtime_skill__{word}", summary=f"{word} anew", edit_reason=word)
    for number in range(2):
        envelope = Envelope(
            request_id=str(number),
            transport=CallTransport.CLI,
            operation="edit_runtime_skill",
            source=CallSource(kind=SourceKind.OPERATOR),
            auth=CallAuth(authenticated=True, kind=AuthKind.LOCAL),
            payload=request,
            idempotency_key="rig.edit",
        )
        answer = await OperationDispatcher(memory).dispatch(envelope)
        assert isinstance(answer, DuplicatedAnswer if number else AcceptedAnswer)


async def run(engine: str, folder: Path, /, *, whole_space: bool) -> dict[str, list[str]]:
    """Plant, erase and search on one engine. Return what was missing before, and what remained afterwards."""
    words = {plane: f"canary{plane}{secrets.token_hex(8)}" for plane in PLANES}
    log = io.StringIO()
    handler = logging.StreamHandler(log)
    logging.getLogger().addHandler(handler)
    store = await open_engine(engine, str(folder), clock=SystemClock())
    space = SpaceId(SPACE)
    try:
        async with await elytron.open(store, space=SPACE) as memory:
            ids: list[str] = []
            for plane, write in writes_of(words).items():
                once = {"write": write, "idempotency_key": f"rig.{plane}"}
                report = await memory.write(elytron.MemoryWriteRequest.model_validate(once))
                # The response to a repeat is stored, and may name what was stored.
                assert (await memory.write(elytron.MemoryWriteRequest.model_validate(once))).duplicated
                ids.extend(report.ids)
                await memory.recall(words[plane])
            ids.append(await _put(memory, words["record"]))
            await _edit(memory, words["skill"])
            await memory.project(" ".join(words.values()))
            await memory.recover()
            before = {plane for _, data in await held(store, folder, space) for plane in found_in(data, words)}
            request = {"whole_space": SPACE} if whole_space else {"ids": tuple(dict.fromkeys(ids))}
            await memory.erase(elytron.MemoryEraseRequest.model_validate(request))
            # Before anyone asks for the words again.
            live = [("memory", data) for data in live_bytes(memory.context.folds)]
            hits = [plane for plane, word in words.items() if (await memory.recall(word)).hits]
            await memory.recover()
            archive = folder / "after.zip"
            if not whole_space:
                await memory.export(archive, include_private=True)
            kept = [*live, *await held(store, folder, space)]
    finally:
        logging.getLogger().removeHandler(handler)
    kept += [(str(path), path.read_bytes()) for path in sorted(folder.rglob("*")) if path.is_file()]
    kept.append(("log", log.getvalue().encode()))
    left = [f"{plane} in {Path(name).name}" for name, data in kept for plane in found_in(data, words)]
    return {"missing": sorted(set(PLANES) - before), "left": sorted({*left, *(f"{plane} recalled" for plane in hits)})}


async def run_all(engines: Sequence[str], /) -> int:
    """Run every engine in both ways, print the results, and return the exit code."""
    rows: list[dict[str, str]] = []
    for engine in engines:
        for way in ("ids", "space"):
            with tempfile.TemporaryDirectory(prefix="erasure-") as folder:
                found = await run(engine, Path(folder), whole_space=way == "space")
            for kind, told in found.items():
                for line in told:
                    print(f"{engine}: {kind}: {line}")
            rows.append({"engine": engine, "erased by": way, **{kind: str(len(told)) for kind, told in found.items()}})
    tables.show(rows)
    return int(any(row[kind] != "0" for row in rows for kind in ("missing", "left")))


def main() -> int:
    parser = argparse.ArgumentParser(description="Erase, and look for what was erased in every byte.")
    parser.add_argument("--engine", nargs="+", choices=[*ENGINES, "all"], default=["all"], help="which stores")
    parser.add_argument("--short", action="store_true", help="in memory and on SQLite alone")
    given = parser.parse_args()
    engines = ENGINES if "all" in given.engine else tuple(dict.fromkeys(given.engine))
    return asyncio.run(run_all(("memory", "sqlite") if given.short else engines))


if __name__ == "__main__":
    raise SystemExit(main())
