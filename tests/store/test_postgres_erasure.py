"""Erasure on Postgres: remains of erased bytes in the server's files, plain and sealed, and who may erase."""

import secrets
from collections.abc import AsyncIterator
from pathlib import Path

import psycopg
import pytest
from tests.store.postgres_rig import CLOCK, empty_tables, open_tables
from tests.store.postgres_server import PostgresServer
from tests.store.sealing import seal

import elytron
from elytron_conformance.examples import ADA, AT, batch, documents, fact, put, write_blob
from elytron_core.errors import StoreBusy, StoreRefused
from elytron_core.ports.store import ErasureTarget, PutChange, Store
from elytron_core.profiles import ErasureLayer, ErasurePlace, ErasureState
from elytron_store import limits as store_limits
from elytron_store.sealed.providers import LocalKeys

pytestmark = pytest.mark.anyio
GONE, PENDING, OUT_OF_REACH = ErasureState.GONE, ErasureState.PENDING, ErasureState.OUT_OF_REACH


@pytest.fixture
def files(postgres: PostgresServer) -> Path:
    """Return the server's data directory."""
    if postgres.files is None:
        pytest.skip("the files of a server elsewhere are not at hand")
    return postgres.files


@pytest.fixture
async def store(database: str) -> AsyncIterator[Store]:
    """Return an empty store whose erasures overwrite the log."""
    empty_tables(database)
    store = await open_tables(database, options="&recycle_log=yes")
    yield store
    await store.close()


def searched(files: Path, canary: bytes) -> set[str]:
    """Return the folders of the server's data directory with `canary` in a file."""
    found = [path for path in files.rglob("*") if path.is_file() and canary in path.read_bytes()]
    return {path.relative_to(files).parts[0] for path in found}


async def with_canaries(store: Store, url: str) -> bytes:
    """Store a canary in documents that stay, are replaced, or are deleted, and in a blob."""
    canary = b"canary-" + secrets.token_hex(8).encode()
    bodies = [b"other" if number % 4 else canary for number in range(40)]
    await store.commit(batch(*(PutChange(fact(number), body, 0) for number, body in enumerate(bodies))))
    await put(store, fact(4), b"other", expects=1)
    await write_blob(store, "aa", canary)
    with psycopg.connect(url, autocommit=True) as beside:
        beside.execute("CHECKPOINT")
        beside.execute("VACUUM")
    return canary


CANARIES = ErasureTarget(space=ADA, at=AT, refs=tuple(fact(number) for number in range(0, 40, 4)), blobs=("aa",))


async def test_erased_content_is_in_no_file_of_the_server(
    store: Store, database: str, files: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Other tests write to the same log.
    monkeypatch.setattr("elytron_store.postgres.erasure.POSTGRES_LOG_ROUNDS", 100)
    canary = await with_canaries(store, database)
    assert searched(files, canary) == {"base", "pg_wal"}
    erased = await store.erase(CANARIES)
    assert searched(files, canary) == set()
    assert {layer.place: layer.state for layer in erased.layers} == {
        ErasurePlace.ROWS: GONE,
        ErasurePlace.TABLES: GONE,
        ErasurePlace.LOG: GONE,
        ErasurePlace.COPIES: OUT_OF_REACH,
    }
    assert len(await documents(store)) == 30


async def test_by_default_the_log_is_left_to_the_server(database: str, files: Path) -> None:
    empty_tables(database)
    store = await open_tables(database)
    canary = await with_canaries(store, database)
    erased = await store.erase(ErasureTarget(space=ADA, at=AT, whole_space=True))
    assert searched(files, canary) == {"pg_wal"}
    assert [layer.place for layer in erased.layers if layer.state is PENDING] == [ErasurePlace.LOG]
    await store.close()


async def test_sealed_content_is_in_no_file_of_the_server(postgres: PostgresServer, files: Path) -> None:
    url = postgres.make_database()
    store = await seal(await open_tables(url, sealed=True))
    canary = await with_canaries(store, url)
    assert searched(files, canary) == set()
    erased = await store.erase(ErasureTarget(space=ADA, at=AT, whole_space=True))
    assert all("can be opened only with a key" in layer.reason for layer in erased.layers if layer.state is not GONE)
    await store.close()


async def test_an_erasure_waits_for_readers_of_an_older_state(
    store: Store, database: str, files: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(store_limits, "BUSY_WAIT_S", 0.1)
    canary = await with_canaries(store, database)
    with psycopg.connect(database) as reader:
        reader.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
        reader.execute("SELECT count(*) FROM elytron.documents")
        with pytest.raises(StoreBusy):
            await store.erase(CANARIES)
        assert len(await documents(store)) == 30
        assert "base" in searched(files, canary)
        reader.rollback()
    monkeypatch.undo()
    await store.erase(CANARIES)
    assert "base" not in searched(files, canary)


async def test_a_user_who_does_not_own_the_tables_is_told_that_bytes_remain(store: Store, database: str) -> None:
    await put(store, fact(1))
    name = f"guest_{secrets.token_hex(4)}"
    with psycopg.connect(database, autocommit=True) as owner:
        owner.execute(f"CREATE ROLE {name} LOGIN".encode())
        owner.execute(f"GRANT USAGE ON SCHEMA elytron TO {name}".encode())
        owner.execute(f"GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA elytron TO {name}".encode())
    other_role = await open_tables(database.replace("postgres@", f"{name}@"))
    with pytest.raises(StoreRefused, match="owner"):
        await other_role.erase(ErasureTarget(space=ADA, at=AT, refs=(fact(1),)))
    assert await documents(store) == []
    await other_role.close()


async def test_an_erasure_reports_what_remains_where(postgres: PostgresServer) -> None:
    url = postgres.make_database()
    await (await open_tables(url, sealed=True)).close()
    keys = LocalKeys({"k": bytes(range(32))}, current="k")
    async with elytron.open(url, keys=keys, space="ada", clock=CLOCK) as memory:
        added = await memory.add("The ferry leaves at six.")
        report = await memory.erase(added.ids)
        assert [layer.place for layer in report.layers] == list(ErasurePlace)
        whole = await memory.erase(whole_space="ada")
        assert whole.layers[0] == ErasureLayer(place=ErasurePlace.ROWS, state=GONE)
