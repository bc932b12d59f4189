"""A backup contains everything in its store, including blobs; without a store nothing is left."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

import elytron
from elytron_core.clock import FrozenClock
from elytron_core.errors import InvalidInput, StoreForeign, StoreMissing
from elytron_core.ids import SpaceId
from elytron_store.backup import back_up
from elytron_store.file.store import FileStore

pytestmark = pytest.mark.anyio

SPACES = ("ada", "bob")
PICTURE = bytes(range(256)) * 600


async def chunks() -> AsyncIterator[bytes]:
    yield PICTURE[:100_000]
    yield PICTURE[100_000:]


async def fill(url: str) -> None:
    async with elytron.open(url, space=None) as memory:
        for space in SPACES:
            await memory.add(f"A note of {space}.", user_id=space)
            await memory.context.store.write_blob(SpaceId(space), "b10b", chunks())


@pytest.mark.parametrize("engine", ["file", "sqlite"])
async def test_a_backup_opens_with_documents_and_blobs_of_every_space(engine: str, tmp_path: Path) -> None:
    source, target = f"{engine}://{tmp_path.as_posix()}/source", tmp_path / "copy"
    await fill(source)
    made = await back_up(source, target, clock=FrozenClock())
    assert made.check.ok
    assert made.size_bytes > len(SPACES) * len(PICTURE)
    async with elytron.open(f"{engine}://{target.as_posix()}", space=None) as memory:
        for space in SPACES:
            assert [item.text for item in (await memory.list(user_id=space)).items] == [f"A note of {space}."]
            blob = memory.context.store.read_blob(SpaceId(space), "b10b")
            assert b"".join([part async for part in blob]) == PICTURE
        found = (await memory.inspect(user_id="ada", check=True)).store_check
        assert found is not None
        assert found.ok
        await memory.add("The copy lives on.", user_id="ada")


async def test_a_store_in_use_is_copied_with_all_acknowledged_data(tmp_path: Path) -> None:
    source, target = f"file://{tmp_path.as_posix()}/source", tmp_path / "copy"
    async with elytron.open(source, space="ada") as memory:
        await memory.add("Said before.")
        await back_up(source, target, clock=FrozenClock())
        await memory.add("Said behind.")
    async with elytron.open(f"file://{target.as_posix()}", space="ada") as copy:
        assert [item.text for item in (await copy.list()).items] == ["Said before."]


async def test_a_folder_without_a_store_is_rejected_and_leaves_nothing(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    with pytest.raises(StoreForeign, match="contains no store yet"):
        await back_up(f"file://{tmp_path.as_posix()}/empty", tmp_path / "copy", clock=FrozenClock())
    with pytest.raises(StoreMissing):
        await back_up(f"file://{tmp_path.as_posix()}/absent", tmp_path / "copy", clock=FrozenClock())
    assert sorted(path.name for path in tmp_path.iterdir()) == ["empty"]


async def test_existing_files_at_the_target_are_kept(tmp_path: Path) -> None:
    source = f"file://{tmp_path.as_posix()}/source"
    await (await FileStore.open(tmp_path / "source", clock=FrozenClock())).close()
    (tmp_path / "copy").write_bytes(b"mine")
    with pytest.raises(InvalidInput, match="already exists"):
        await back_up(source, tmp_path / "copy", clock=FrozenClock())
    assert (tmp_path / "copy").read_bytes() == b"mine"
