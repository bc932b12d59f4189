"""Imported once by the process from which all children are forked, so that no child has to load or run this again.

A fresh interpreter would spend most of its short life on imports and first calls. Only the memory engine is used, which
has no threads, because a process with threads must not fork.
"""

import asyncio

import elytron
from benchmarks.rigs import traffic
from elytron_store.file import store as file_store
from elytron_store.sqlite import store as sqlite_store

PRELOADED = (file_store, sqlite_store)


async def _rehearse() -> None:
    async with elytron.open("memory:", space=None) as memory:
        await traffic.run(memory, traffic.Plan(name="warm", seed=1, tasks=2, calls=60), lambda _: None)


asyncio.run(_rehearse())
