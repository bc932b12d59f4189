"""The stores that a rig can run on, opened as a host would open them, or deliberately weakened."""

import os
import sqlite3
from enum import StrEnum
from pathlib import Path
from types import ModuleType
from typing import Any, cast

import elytron
from elytron_core.clock import SystemClock
from elytron_core.ids import RandomIds
from elytron_core.ports.store import Store
from elytron_store import WriteDurability, open_store
from elytron_store.sealed.providers import LocalKeys
from elytron_store.sealed.store import SealedStore
from elytron_store.sqlite.driver import SqliteLibrary, sqlite_library
from elytron_store.sqlite.store import SqliteStore


class Engine(StrEnum):
    """A store with its options. `rollback` is SQLite as with an old library, `sealed` is SQLite with ciphertext."""

    FILE = "file"
    SQLITE = "sqlite"
    ROLLBACK = "rollback"
    SEALED = "sealed"


class Weakness(StrEnum):
    """What is deliberately removed to prove that a rig would notice: nothing, the last sync, or every sync."""

    NONE = "none"
    NORMAL = "normal"
    OFF = "off"


_KEYS = {"rig": bytes(range(32))}


async def open_memory(engine: Engine, folder: Path, /, *, weakness: Weakness = Weakness.NONE) -> elytron.MemoryRuntime:
    """Return a runtime for the store of `engine` in `folder`, whose calls name their space."""
    return await elytron.open(await _open(engine, folder, weakness), space=None)


async def _open(engine: Engine, folder: Path, weakness: Weakness) -> Store:
    clock = SystemClock()
    keys = LocalKeys(_KEYS, current="rig") if engine is Engine.SEALED else None
    durability = WriteDurability.NORMAL if weakness is Weakness.NORMAL else WriteDurability.FULL
    match engine, weakness:
        case Engine.FILE, _:
            return await open_store(f"file://{folder}/files", clock=clock)
        case Engine.ROLLBACK, _:
            used = SqliteLibrary(sqlite3, min(sqlite3.sqlite_version_info, (3, 51, 2)))
            if weakness is Weakness.OFF:
                used = _never_syncing(used)
            return await SqliteStore.open(folder / "rollback.db", clock=clock, library=used, durability=durability)
        case ((Engine.SQLITE | Engine.SEALED), Weakness.OFF):
            used = _never_syncing(sqlite_library())
            inner = await SqliteStore.open(folder / "store.db", clock=clock, library=used, sealed=keys is not None)
            if keys is None:
                return inner
            return await SealedStore.open(inner, keys=keys, ids=RandomIds(clock), clock=clock)
        case ((Engine.SQLITE | Engine.SEALED), _):
            return await open_store(f"sqlite://{folder}/store.db", clock=clock, durability=durability, keys=keys)


def stop_syncing() -> None:
    """Make every sync of this process do nothing; for children of rigs only. SQLite also requires `Weakness.OFF`."""
    os.fsync = os.fdatasync = lambda _: None


def _never_syncing(sound: SqliteLibrary) -> SqliteLibrary:
    """Return `sound` with every `PRAGMA synchronous` changed to OFF."""
    base = cast("type[sqlite3.Connection]", sound.module.Connection)

    class Careless(base):
        def execute(self, sql: str, *args: Any) -> sqlite3.Cursor:
            return super().execute("PRAGMA synchronous = OFF" if sql.startswith("PRAGMA synchronous") else sql, *args)

    class CarelessModule(ModuleType):
        def connect(self, path: str, **options: Any) -> sqlite3.Connection:
            return sound.module.connect(path, factory=Careless, **options)

    return SqliteLibrary(CarelessModule(sound.module.__name__), sound.version)
