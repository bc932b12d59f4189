"""A process that uses a file store together with others. Run by `test_file_processes.py`, with a task and a folder.

count <folder> <times>      increment one counter that many times
append <folder>             commit consecutive documents and report each, until killed
hold <folder>               take the lock of ADA's space and hold it, until killed
blob <folder>               write an endless blob, until killed
"""

import asyncio
import sys
from collections.abc import AsyncIterator
from pathlib import Path

from elytron_conformance.examples import ADA, batch, fact, one, put
from elytron_core.clock import SystemClock
from elytron_core.errors import Conflict
from elytron_core.ports.store import DocumentRef, PutChange
from elytron_store.file import FileStore
from elytron_store.file.disk import StorePaths, folder_name, locked_file

COUNTER = DocumentRef("counters", "00")


def say(word: str) -> None:
    sys.stdout.write(f"{word}\n")
    sys.stdout.flush()


async def count(store: FileStore, times: int) -> None:
    for _ in range(times):
        while True:
            found = await one(store, COUNTER)
            revision, value = (found.revision, int(found.body)) if found else (0, 0)
            try:
                await store.commit(batch(PutChange(COUNTER, b"%d" % (value + 1), revision)))
            except Conflict:
                continue
            break


async def append(store: FileStore) -> None:
    number = 0
    while True:
        await put(store, fact(number), b"%d" % number)
        say(str(number))
        number += 1


async def endless() -> AsyncIterator[bytes]:
    while True:
        yield b"secret" * 100_000
        say("going on")


async def main(task: str, folder: Path) -> None:
    store = await FileStore.open(folder, clock=SystemClock())
    match task:
        case "count":
            await count(store, int(sys.argv[3]))
        case "append":
            await append(store)
        case "blob":
            await store.write_blob(ADA, "aa", endless())
        case _:
            with locked_file(StorePaths(folder).lock_of(folder_name(ADA)), wait_s=1.0):
                say("held")
                sys.stdin.read()
    await store.close()


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], Path(sys.argv[2])))
