"""A store of an earlier build opens with all its content, or is refused and left unchanged."""

import gzip
import hashlib
import sqlite3
import tarfile
from contextlib import closing
from pathlib import Path

import pytest
from tests.store.sealing import KEYS

import elytron
from elytron_core.errors import StoreCorrupt
from elytron_store.sqlite import schema

pytestmark = pytest.mark.anyio

SAMPLES = Path(__file__).parent / "old"
LAYOUTS = sorted(path.name.removesuffix(".db.gz") for path in SAMPLES.glob("*.db.gz"))
"""Every layout of earlier schemas; a sample has two turns, a fact (in most), and an erased turn."""
SCHEMAS = {2: "33da3eb0e11e04c1", 3: "54a99428f91a2a70"}
"""The schema of each version when it was written: a changed table requires a new version with a step to it."""


@pytest.fixture(params=LAYOUTS)
def old_store(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    path = tmp_path / "m.db"
    path.write_bytes(gzip.decompress((SAMPLES / f"{request.param}.db.gz").read_bytes()))
    return path


async def test_a_store_of_an_earlier_build_opens_with_all_its_content(
    old_store: Path, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    async with elytron.open(old_store, space="ada") as memory:
        texts = {item.text for item in (await memory.list()).items}
        assert {"I work as a nurse at the city hospital.", "Our cat hates the new stairs."} <= texts
        assert "cat" in (await memory.recall("what does the cat hate?")).hits[0].text
        found = (await memory.inspect(check=True)).store_check
        assert found is not None
        assert found.ok
        await memory.add("The stairs are gone.")
        await memory.export(tmp_path / "a.elytron", include_private=True)
    async with elytron.open(old_store, space="ada") as memory:
        assert len((await memory.list()).items) == len(texts) + 1
    version = 2 if "unlisted" in request.node.name else 1
    assert sorted(path.name for path in tmp_path.glob("m.db*")) == ["m.db", f"m.db.schema-{version}.bak"]
    assert all(b"to be erased soon" not in path.read_bytes() for path in tmp_path.glob("m.db*"))


FRAMES = {
    "file-frames": ("file", False),
    "sealed-file": ("file", True),
    "sealed-rows": ("sqlite", True),
}
"""Samples of another engine and of sealing, as written by a current build: a changed format requires a step."""


@pytest.mark.parametrize("name", FRAMES)
async def test_a_folder_and_a_sealed_store_of_an_earlier_build_open(name: str, tmp_path: Path) -> None:
    engine, is_sealed = FRAMES[name]
    with tarfile.open(SAMPLES / f"{name}.tar.xz") as sample:
        sample.extractall(tmp_path, filter="data")
    keys = KEYS if is_sealed else None
    for _ in range(2):
        async with elytron.open(f"{engine}://{tmp_path.as_posix()}/store", space="ada", keys=keys) as memory:
            texts = {item.text for item in (await memory.list()).items}
            assert {"I work as a nurse at the city hospital.", "Our cat hates the new stairs.", "nurse"} <= texts
            assert "cat" in (await memory.recall("what does the cat hate?")).hits[0].text
            found = (await memory.inspect(check=True)).store_check
            assert found is not None
            assert found.ok
            await memory.add("The stairs are gone.")


def change(path: Path, statement: str) -> bytes:
    """Run a statement on a store's file and return its bytes."""
    with closing(sqlite3.connect(path)) as raw:
        raw.execute(statement)
        raw.commit()
        raw.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    return path.read_bytes()


@pytest.mark.parametrize(
    "statement",
    ["ALTER TABLE heads ADD COLUMN colour TEXT", "UPDATE journal SET digest = 'x' WHERE sequence = 1"],
    ids=["a table that no build wrote", "a damaged journal entry"],
)
async def test_a_failing_migration_leaves_the_old_store_unchanged(tmp_path: Path, statement: str) -> None:
    path = tmp_path / "m.db"
    path.write_bytes(gzip.decompress((SAMPLES / "rows-as-they-came.db.gz").read_bytes()))
    change(path, statement)
    with pytest.raises(StoreCorrupt):
        async with elytron.open(path, space="ada") as memory:
            await memory.list()
    with closing(sqlite3.connect(path)) as raw:
        assert raw.execute("PRAGMA user_version").fetchone() == (1,)
        assert not raw.execute("SELECT name FROM sqlite_schema WHERE name LIKE 'old_%'").fetchall()


def test_a_changed_table_is_a_new_version() -> None:
    tables = [schema.create_table(name, name=name) for name in schema.TABLES]
    statements = "\n".join([*tables, schema.QUEUE_INDEX])
    found = hashlib.sha256(" ".join(statements.split()).encode()).hexdigest()[:16]
    assert SCHEMAS.get(len(schema.STEPS)) == found, "add a step behind the others, and what it leads to here"
