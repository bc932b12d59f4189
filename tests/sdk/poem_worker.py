"""A process that uses the plane of poems through the calls of every plane, and prints their results as JSON.

poem_worker <folder>: archives are written into it.
"""

import asyncio
import json
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

import elytron
from elytron.documents.planes import HOMES
from elytron.documents.stored_values import ChangeSet
from elytron.writes.commit import SettledChanges, settle_changes
from elytron_core.clock import FrozenClock, Instant
from elytron_core.contracts.archive import ImportMode, MemoryImportRequest
from elytron_core.contracts.memories import MemoryListRequest
from elytron_core.errors import NotFound
from elytron_core.ids import SeededIds, SpaceId
from elytron_core.planes.space import SpaceRecord
from elytron_core.ports.store import DocumentRef, JournalAction

HOME = HOMES["poems"]
ADA = SpaceId("ada")


@asynccontextmanager
async def opened() -> AsyncGenerator[elytron.MemoryRuntime]:
    """Yield a runtime with its own store."""
    async with elytron.open("memory:", space=ADA, clock=FrozenClock(step_ms=1), ids=SeededIds()) as memory:
        yield memory


async def write(memory: elytron.MemoryRuntime, title: str, text: str, privacy: str) -> str:
    """Store a poem and return its id."""
    at = Instant(1_750_000_000_000)
    told = {"title": title, "text": text, "privacy": privacy, "channel": "mail", "conversation": "c", "updated_at": at}
    poem = HOME.kind.model_validate(told)

    async def plan(space: SpaceRecord) -> SettledChanges[str]:
        assert HOME.key is not None
        ref, changes = DocumentRef(HOME.collection, HOME.key(space, poem)), ChangeSet(space)
        changes.put(ref, poem, expects=0, action=JournalAction.WRITE)
        return SettledChanges(f"{HOME.word}:{ref.key}", changes)

    stored, _ = await settle_changes(memory.context, ADA, plan)
    return stored


async def listed(memory: elytron.MemoryRuntime, *, include_private: bool = False) -> list[str | None]:
    report = await memory.list(MemoryListRequest(include_private=include_private))
    return [item.title for item in report.items]


async def recalled(memory: elytron.MemoryRuntime) -> list[str | None]:
    return [hit.title for hit in (await memory.recall("What of the quince?")).hits]


async def brought(archive: Path, mode: ImportMode) -> list[object]:
    """Return what an empty space imports from an archive, and then lists and recalls."""
    async with opened() as memory:
        report = await memory.import_archive(MemoryImportRequest(path=str(archive), mode=mode))
        return [report.imported.get("poems"), await listed(memory, include_private=True), await recalled(memory)]


async def main(folder: Path) -> None:
    told: dict[str, object] = {}
    async with opened() as memory:
        shown = await write(memory, "Quince", "The quince is ripe in the north.", "public")
        await write(memory, "Secret", "The quince is hidden.", "private")
        hit = await memory.get(shown)
        told["got"] = [hit.plane, hit.title, hit.text, hit.channel, hit.conversation, hit.privacy]
        told["listed"] = await listed(memory), await listed(memory, include_private=True)
        told["recalled"] = await recalled(memory)
        told["history"] = [item.event for item in (await memory.history(shown)).items]
        for name, is_whole in (("public", False), ("whole", True)):
            report = await memory.export(folder / name, include_private=is_whole)
            told[f"exported {name}"] = [report.documents.get("poems"), report.redacted.get("poems")]
        await memory.forget(shown)
        told["forgotten"] = await listed(memory), await recalled(memory)
        await memory.erase(shown)
        told["erased"] = await listed(memory, include_private=True), (await memory.inspect()).documents["poems"]
        try:
            await memory.get(shown)
        except NotFound:
            told["got again"] = None
    told["brought"] = await brought(folder / "public", ImportMode.BOOTSTRAP)
    told["restored"] = await brought(folder / "whole", ImportMode.FULL_RESTORE)
    sys.stdout.write(json.dumps(told))


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1])))
