"""Blobs in an object store: the shared suite over a folder of objects, and cases specific to such a store."""

from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import psycopg
import pytest
from tests.store.handles import Handles, Opener
from tests.store.postgres_server import PostgresServer

from elytron_conformance import SecondHandleSuite, StoreSuite
from elytron_conformance.blobs import BIG
from elytron_conformance.examples import ADA, AT, BOB, blob, source, write_blob
from elytron_core import limits
from elytron_core.clock import FrozenClock
from elytron_core.errors import NotFound, StoreCorrupt, StoreForeign, StoreRefused
from elytron_core.ports.store import ErasureTarget, Store
from elytron_store.memory import MemoryStore
from elytron_store.sealed.providers import LocalKeys
from elytron_store.store_urls import open_store
from elytron_store.wrappers.object_blobs import ObjectBlobStore

pytestmark = pytest.mark.anyio
CLOCK = FrozenClock()
SECRET = b"a secret in a blob; " * 20_000
KEYS = LocalKeys({"one": bytes(range(32))}, current="one")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "objects"


class TestObjectBlobStore(Handles, StoreSuite, SecondHandleSuite):
    """Every claim of the suite."""

    @pytest.fixture
    def opener(self, tmp_path: Path, folder: Path) -> Opener:
        async def opened() -> Store:
            inner = await open_store(f"sqlite:///{tmp_path}/m.db", clock=CLOCK)
            return await ObjectBlobStore.open(inner, f"file://{folder}")

        return opened


@pytest.fixture
async def store(folder: Path) -> ObjectBlobStore:
    return await ObjectBlobStore.open(MemoryStore(), f"file://{folder}")


def objects(folder: Path) -> list[Path]:
    return [path for path in folder.rglob("*") if path.is_file()]


async def test_a_large_blob_is_an_object_and_a_small_one_stays_in_the_store(
    store: ObjectBlobStore, folder: Path
) -> None:
    await write_blob(store, "aa", b"small")
    assert objects(folder) == []
    await write_blob(store, "ab", BIG)
    assert [path.read_bytes() for path in objects(folder)] == [BIG]
    assert len(await blob(store.inner, "ab")) < 100
    await write_blob(store, "ab", b"small")
    assert objects(folder) == []


async def test_an_interrupted_upload_leaves_no_object_and_keeps_the_earlier_blob(
    store: ObjectBlobStore, folder: Path
) -> None:
    await write_blob(store, "aa", BIG)

    async def breaking() -> AsyncIterator[bytes]:
        yield BIG
        raise KeyError

    with pytest.raises(KeyError):
        await store.write_blob(ADA, "aa", breaking())
    assert len(objects(folder)) == 1
    assert await blob(store, "aa") == BIG


async def test_a_damaged_or_missing_object_is_never_served(store: ObjectBlobStore, folder: Path) -> None:
    await write_blob(store, "aa", BIG)
    (path,) = objects(folder)
    for damaged in (BIG[:-1], BIG + b"x", b"y" + BIG[1:], BIG[: limits.BLOB_CHUNK_BYTES], b""):
        path.write_bytes(damaged)
        with pytest.raises(StoreCorrupt):
            await blob(store, "aa")
    path.unlink()
    with pytest.raises(StoreCorrupt):
        await blob(store, "aa")


async def test_an_erasure_removes_every_object_of_a_blob_including_orphans(
    store: ObjectBlobStore, folder: Path
) -> None:
    await write_blob(store, "aa", BIG)
    (named,) = objects(folder)
    named.with_name("of a process that died").write_bytes(SECRET)
    await store.erase(ErasureTarget(space=ADA, at=AT, blobs=("aa",)))
    assert objects(folder) == []
    await write_blob(store, "ab", BIG)
    await store.write_blob(BOB, "ab", source([BIG]))
    await store.erase(ErasureTarget(space=ADA, at=AT, whole_space=True))
    assert len(objects(folder)) == 1
    with pytest.raises(NotFound):
        await blob(store, "ab")


async def test_orphans_are_swept_when_they_are_old(store: ObjectBlobStore, folder: Path) -> None:
    await write_blob(store, "aa", BIG)
    (named,) = objects(folder)
    named.with_name("of a process that died").write_bytes(SECRET)
    (folder / "of-no-space" / "aa").mkdir(parents=True)
    (folder / "of-no-space" / "aa" / "one").write_bytes(SECRET)
    now = datetime.now(UTC)
    assert await store.sweep_orphans(now - timedelta(days=1)) == 0
    assert await store.sweep_orphans(now + timedelta(days=1)) == 2
    assert objects(folder) == [named]
    assert await blob(store, "aa") == BIG


async def test_an_invalid_object_store_is_rejected(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    with pytest.raises(StoreRefused):
        await ObjectBlobStore.open(MemoryStore(), f"file://{tmp_path}/file/below")


async def test_nodes_of_one_database_share_the_objects_and_the_sealed_ones_are_ciphertext(
    postgres: PostgresServer, folder: Path
) -> None:
    url = f"{postgres.make_database()}?blobs=file://{folder}"
    one, other = [await open_store(url, clock=CLOCK, keys=KEYS) for _ in range(2)]
    await write_blob(one, "aa", SECRET)
    assert await blob(other, "aa") == SECRET
    assert objects(folder)
    assert not any(SECRET[:20] in path.read_bytes() for path in objects(folder))
    await one.close()
    await other.close()


async def test_a_node_with_another_or_no_object_store_is_refused(postgres: PostgresServer, folder: Path) -> None:
    url = postgres.make_database()
    plain = await open_store(f"{url}?sealed=no", clock=CLOCK)
    await write_blob(plain, "aa", BIG)
    await plain.close()
    store = await open_store(f"{url}?sealed=no&blobs=file://{folder}", clock=CLOCK)
    assert await blob(store, "aa") == BIG
    await store.close()
    for wrong in ("", f"&blobs=file://{folder}-other"):
        with pytest.raises(StoreForeign, match="objects at file"):
            await open_store(f"{url}?sealed=no{wrong}", clock=CLOCK)
    with psycopg.connect(url) as connection:
        assert connection.execute(
            "SELECT count(*) FROM pg_stat_activity"
            " WHERE datname = current_database() AND backend_type = 'client backend'"
        ).fetchone() == (1,)
