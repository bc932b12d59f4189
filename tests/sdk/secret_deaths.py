"""Processes that die within a call of a secret: `python -m tests.sdk.secret_deaths FOLDER seal|change|rotate|erase`.

Before each call of the inner store in turn, a fork of this process ends immediately. The remaining store is reopened
as soon as the process counts as dead, and described: its state, whether everything is there, and whether a word is in
the files. After a sealing or an erasure, the space is then erased, and its remains are printed.
"""

import asyncio
import json
import os
import shutil
import sys
from pathlib import Path
from unittest.mock import patch

import elytron
from elytron.secrets.forms import SecretState
from elytron_core.clock import FrozenClock, Instant
from elytron_core.errors import ElytronError, SecretRefused
from elytron_core.ports.store import Batch, CommitReceipt, ErasureReceipt, ErasureTarget
from elytron_store import limits
from elytron_store.engine import PassingStore
from elytron_store.secret.derivation import user_key
from elytron_store.sqlite import SqliteStore

WORDS = "legal winner thank year wave sausage worth useful legal winner thank yellow"
PASSPHRASE = "the tide table hangs in the kitchen"
CANARY = "heronsnest"
SOON = FrozenClock(Instant(FrozenClock().now() + limits.SECRET_MAKING_MS - 1))
LATER = FrozenClock(Instant(FrozenClock().now() + limits.SECRET_MAKING_MS))


class DyingStore(PassingStore):
    """Ends the process before or after its call number `left`."""

    left = -1

    async def commit(self, batch: Batch, /) -> CommitReceipt:
        self._count()
        return await self._inner.commit(batch)

    async def erase(self, erasure: ErasureTarget, /) -> ErasureReceipt:
        self._count()
        return await self._inner.erase(erasure)

    def _count(self) -> None:
        if self.left == 0:
            os._exit(9)
        self.left -= 1


async def prepare(place: Path, act: str) -> None:
    store = await SqliteStore.open(place, clock=FrozenClock())
    async with elytron.open(store, space="ada", clock=FrozenClock()) as memory:
        for number in range(3):
            await memory.add(f"{CANARY} {number}")
        if act != "seal":
            await memory.secrets.seal("ada", words=WORDS)


async def act_until_death(place: Path, act: str, calls: int) -> None:
    store = DyingStore(await SqliteStore.open(place, clock=FrozenClock()))
    async with elytron.open(store, space="ada", clock=FrozenClock()) as memory:
        store.left = calls
        if act == "seal":
            await memory.secrets.seal("ada", words=WORDS)
        elif act == "erase":
            await memory.erase(whole_space="ada")
        elif act == "rotate":
            await memory.secrets.rotate("ada", words=WORDS)
        else:
            await memory.secrets.change("ada", words=WORDS, new_passphrase=PASSPHRASE)
        store.left = -1


async def look(place: Path) -> dict[str, object]:
    store = await SqliteStore.open(place, clock=LATER)
    async with elytron.open(store, space="ada", clock=LATER) as memory:
        before = (await memory.secrets.status("ada")).state
        opened = ""
        if before is SecretState.LOCKED:
            try:
                opened = (await memory.secrets.unlock("ada", words=WORDS)).kind
            except SecretRefused:
                opened = (await memory.secrets.unlock("ada", passphrase=PASSPHRASE)).kind
        hits = len({hit.text for hit in (await memory.search(CANARY)).hits})
        spaces = len(list(await memory.store.spaces(limit=10)))
    files = b"".join(path.read_bytes() for path in place.parent.iterdir() if path.name.startswith(place.name))
    return {
        "state": before.value,
        "opened": opened,
        "hits": hits,
        "spaces": spaces,
        "words_left": CANARY.encode() in files,
    }


async def erase_remains(place: Path) -> dict[str, object]:
    """Return the endpoints' answers for a space while its process may live, and what an erasure then leaves."""
    said: set[str] = set()
    store = await SqliteStore.open(place, clock=SOON)
    async with elytron.open(store, space="ada", clock=SOON) as memory:
        doors = (memory.search(CANARY), memory.add(CANARY), memory.secrets.lock("ada"), memory.secrets.revoke("ada"))
        for door in doors:
            try:
                await door
            except ElytronError as error:
                said.add(error.key)
        await memory.erase(whole_space="ada")
        state = (await memory.secrets.status("ada")).state
        hits = len((await memory.search(CANARY)).hits)
        left = len(list(await memory.store.spaces(limit=10)))
    files = b"".join(path.read_bytes() for path in place.parent.iterdir() if path.name.startswith(place.name))
    return {
        "said": sorted(said),
        "state": state.value,
        "hits": hits,
        "spaces": left,
        "words_left": CANARY.encode() in files,
    }


def main(folder: Path, act: str) -> None:
    for calls in range(60):
        place = folder / f"{act}{calls}.db"
        asyncio.run(prepare(place, act))
        child = os.fork()
        if child == 0:
            asyncio.run(act_until_death(place, act, calls))
            os._exit(0)
        _, status = os.waitpid(child, 0)
        copy = folder / f"copy-{place.name}"
        for path in list(folder.iterdir()):
            if path.name.startswith(place.name):
                shutil.copy(path, folder / f"copy-{path.name}")
        seen = asyncio.run(look(place)) if act != "erase" else {}
        erased = asyncio.run(erase_remains(copy))
        print(json.dumps({"died": status != 0, **seen, "erased": erased}), flush=True)
        if status == 0:
            return


if __name__ == "__main__":
    # The minimum with which a store accepts a passphrase.
    with patch.object(user_key, "MEMORY_KIB", 8 * 1024):
        main(Path(sys.argv[1]), sys.argv[2])
