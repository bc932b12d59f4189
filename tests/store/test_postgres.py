"""The Postgres engine: the shared suite with its function, without it, and sealed."""

from functools import partial
from pathlib import Path

import pytest
from tests.store.handles import Handles, Opener
from tests.store.postgres_rig import empty_tables, open_tables
from tests.store.postgres_server import PostgresServer
from tests.store.sealing import seal

from elytron_conformance import ReopenSuite, SecondHandleSuite, StoreSuite
from elytron_conformance.examples import ADA, AT, batch, fact, write_blob
from elytron_core.ports.store import DeleteChange, ErasureTarget, PutChange, Store
from elytron_core.profiles import ErasurePromise
from elytron_store.postgres.store import PostgresStore

pytestmark = pytest.mark.anyio


@pytest.fixture
def emptied(database: str) -> str:
    """Return the URL of the module's database, with empty tables."""
    empty_tables(database)
    return database


class TestPostgresStore(Handles, StoreSuite, ReopenSuite, SecondHandleSuite):
    """Every claim of the suite, with the function."""

    @pytest.fixture
    def opener(self, emptied: str) -> Opener:
        return partial(open_tables, emptied)

    @pytest.fixture
    def tmp_path(self, postgres: PostgresServer, emptied: str) -> Path:
        """Return the folder with the server's tables of the database."""
        return postgres.tables_of(emptied)

    async def test_no_byte_of_what_was_erased_is_left(self, store: Store, tmp_path: Path) -> None:
        secrets = [f"a {word} that is erased".encode() for word in ("secret", "replaced one", "deleted one", "blob")]
        one, replaced, deleted, blob = secrets
        await store.commit(batch(*(PutChange(fact(n), body, 0) for n, body in enumerate([one, replaced, deleted]))))
        await store.commit(batch(PutChange(fact(1), b"else", 1), DeleteChange(fact(2), 1)))
        await write_blob(store, "aa", blob)
        assert store.capabilities.erasure is ErasurePromise.OF_TABLES
        assert await _found(store, tmp_path, secrets) == secrets
        await store.erase(ErasureTarget(space=ADA, at=AT, refs=(fact(0),), blobs=("aa",)))
        assert await _found(store, tmp_path, secrets) == []


async def _found(store: Store, folder: Path, secrets: list[bytes]) -> list[bytes]:
    """Return which of `secrets` are in a file of `folder` after the server has flushed its memory."""
    assert isinstance(store, PostgresStore)
    async with store.lend_connection() as connection:
        await connection.execute("CHECKPOINT")
    files = [path.read_bytes() for path in folder.iterdir() if path.is_file()]
    return [secret for secret in secrets if any(secret in held for held in files)]


class TestPortableStore(Handles, StoreSuite, SecondHandleSuite):
    """Every claim of the suite, without a server function."""

    @pytest.fixture
    def opener(self, emptied: str) -> Opener:
        return partial(open_tables, emptied, portable=True)


@pytest.fixture(scope="module")
def sealed_database(postgres: PostgresServer) -> str:
    """Return the URL of a database whose tables are a sealed store's."""
    return postgres.make_database()


class TestSealedPostgresStore(Handles, StoreSuite, SecondHandleSuite):
    """Every claim of the suite, sealed."""

    @pytest.fixture
    def opener(self, sealed_database: str) -> Opener:
        empty_tables(sealed_database)

        async def open_store() -> Store:
            return await seal(await open_tables(sealed_database, sealed=True))

        return open_store
