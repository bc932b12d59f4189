"""What a repair saves, and what it reports of the rest: counted by space, stored, until acknowledged."""

import shutil
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
from tests.store.sealing import KEYS
from tests.store.test_secret_store import WORDS

import elytron
from elytron_conformance.examples import ADA, AT, BOB, blob, documents, fact, put, write_blob
from elytron_core.clock import FrozenClock, Instant, SystemClock
from elytron_core.errors import StoreCorrupt, StoreFailed
from elytron_core.ids import RandomIds, SpaceId
from elytron_core.ports.store import ErasureTarget, LossRecord, Store, find_losses
from elytron_core.ports.store_checks import CheckReport, StoreLoss
from elytron_store import open_store, rescue_store
from elytron_store.file.disk import StorePaths, folder_name
from elytron_store.file.folder import copy_folder
from elytron_store.secret.keeper import PlainContents, SecretKeeper
from elytron_store.secret.store import SecretStore
from elytron_store.sqlite.setup import copy_database

pytestmark = pytest.mark.anyio
NUMBER = 40
LATE = Instant(AT * 10)
ENGINES = ("sqlite", "file")


def url_of(folder: Path, engine: str) -> str:
    return f"sqlite:{folder}/m.db" if engine == "sqlite" else f"file:{folder}/m"


def bytes_of(folder: Path, engine: str) -> Path:
    """Return the file with Ada's memories."""
    return folder / "m.db" if engine == "sqlite" else StorePaths(folder / "m").log_of(folder_name(ADA))


def remember(url: str, *, space: str = "ada", keys: object = None) -> None:
    with elytron.open(url, space=space, keys=keys) as memory:  # pyright: ignore[reportArgumentType]
        for number in range(NUMBER):
            memory.add(f"The boat {number} lies at berth {number * 7}.", speaker="Ada")


def count_memories(url: str, *, space: str = "ada") -> int:
    with elytron.open(url, space=space) as memory:
        return len({hit.text for hit in memory.list(limit=200).items})


async def rescued(url: str) -> CheckReport:
    return await rescue_store(url, clock=SystemClock(), repair=True)


async def opened(url: str) -> Store:
    return await open_store(url, clock=SystemClock())


async def losses_in(url: str) -> list[StoreLoss]:
    store = await opened(url)
    try:
        return list(await find_losses(store))
    finally:
        await store.close()


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("part", [0.001, 0.3, 0.66, 0.95])
async def test_inserted_bytes_destroy_only_what_they_touch(tmp_path: Path, engine: str, part: float) -> None:
    url, file = url_of(tmp_path, engine), bytes_of(tmp_path, engine)
    remember(url)
    data = file.read_bytes()
    at = int(len(data) * part)
    file.write_bytes(data[:at] + data[at : at + 64] + data[at:])
    await rescued(url)
    assert count_memories(url) >= NUMBER - 2
    report = await rescued(url)
    assert [loss for loss in report.losses if loss.documents or loss.entries] == []


@pytest.mark.parametrize("engine", ENGINES)
async def test_removed_bytes_destroy_only_what_they_touch(tmp_path: Path, engine: str) -> None:
    url, file = url_of(tmp_path, engine), bytes_of(tmp_path, engine)
    remember(url)
    data = file.read_bytes()
    at = len(data) // 2
    file.write_bytes(data[:at] + data[at + 100 :])
    report = await rescued(url)
    assert count_memories(url) >= NUMBER - 2
    assert report.problems
    assert all(loss.space in {"ada", None} for loss in report.losses)


@pytest.mark.parametrize("engine", ENGINES)
async def test_a_truncated_file_yields_what_precedes_the_cut_and_reports_the_rest(tmp_path: Path, engine: str) -> None:
    url, file = url_of(tmp_path, engine), bytes_of(tmp_path, engine)
    remember(url)
    data = file.read_bytes()
    file.write_bytes(data[: len(data) * 3 // 4])
    report = await rescued(url)
    assert 0 < count_memories(url) < NUMBER
    assert "ada" in {loss.space for loss in report.losses}
    assert [loss.space for loss in await losses_in(url)] == sorted(
        (loss.space for loss in report.losses), key=lambda space: space or ""
    )


@pytest.mark.parametrize("engine", ENGINES)
async def test_a_loss_is_reported_until_it_is_acknowledged(tmp_path: Path, engine: str) -> None:
    url, file = url_of(tmp_path, engine), bytes_of(tmp_path, engine)
    remember(url)
    remember(url, space="bob")
    data = bytearray(file.read_bytes())
    for place in (data.index(b"berth 70."), data.index(b"berth 140.")):
        data[place] ^= 1
    file.write_bytes(data)
    report = await rescued(url)
    (loss,) = report.losses
    assert (loss.space, loss.documents, loss.blobs) == ("ada", 2, 0)
    assert await losses_in(url) == [loss]
    assert (await rescued(url)).losses == ()
    store = await opened(url)
    assert isinstance(store, LossRecord)
    assert await store.losses(BOB) == []
    assert await store.acknowledge_losses(ADA, at=Instant(loss.at - 1)) == 0
    assert await store.acknowledge_losses(BOB, at=loss.at) == 0
    assert await store.losses(ADA) == [loss]
    assert await store.acknowledge_losses(ADA, at=loss.at) == 1
    await store.close()
    assert await losses_in(url) == []
    # The journal still names both: they were counted, and are not lost again.
    assert (await rescued(url)).losses == ()


@pytest.mark.parametrize("engine", ENGINES)
async def test_a_later_loss_is_added_to_the_first(tmp_path: Path, engine: str) -> None:
    url, file = url_of(tmp_path, engine), bytes_of(tmp_path, engine)
    remember(url)
    for word in (b"berth 70.", b"berth 140."):
        data = bytearray(file.read_bytes())
        data[data.index(word)] ^= 1
        file.write_bytes(data)
        await rescued(url)
    assert [(loss.space, loss.documents) for loss in await losses_in(url)] == [("ada", 2)]


@pytest.mark.parametrize("engine", ENGINES)
async def test_a_repair_of_an_open_store_records_what_it_quarantined(tmp_path: Path, engine: str) -> None:
    url = url_of(tmp_path, engine)
    store = await opened(url)
    await put(store, fact(1), b"one body that is damaged")
    await put(store, fact(2), b"another body")
    await write_blob(store, "aa", b"a blob that is damaged")
    await store.close()
    for path in [path for path in tmp_path.rglob("*") if path.is_file()]:
        path.write_bytes(path.read_bytes().replace(b"is damaged", b"is demaged"))
    store = await opened(url)
    report = await store.repair()
    assert [(loss.space, loss.documents, loss.entries, loss.blobs) for loss in report.losses] == [(ADA, 1, 0, 1)]
    assert await find_losses(store) == list(report.losses)
    assert (await store.check()).ok
    assert (await store.repair()).losses == ()
    await store.erase(ErasureTarget(space=ADA, at=AT, whole_space=True))
    assert await find_losses(store) == []
    await store.close()


async def test_the_blobs_of_a_rescued_file_are_restored(tmp_path: Path) -> None:
    url = url_of(tmp_path, "sqlite")
    store = await opened(url)
    await put(store, fact(1))
    for key, size in (("aa", 3_000_000), ("bb", 10), ("cc", 300_000)):
        await write_blob(store, key, key.encode() * size)
    await store.close()
    data = bytearray((tmp_path / "m.db").read_bytes())
    data[:100] = bytes(100)
    at = data.rindex(b"cc" * 1_000)
    data[at : at + 10] = bytes(10)
    (tmp_path / "m.db").write_bytes(data)
    report = await rescued(url)
    assert [(loss.space, loss.documents, loss.entries, loss.blobs) for loss in report.losses] == [(ADA, 0, 0, 1)]
    assert "blob cc" in [problem.what for problem in report.problems]
    store = await opened(url)
    assert (await blob(store, "aa"), await blob(store, "bb")) == (b"aa" * 3_000_000, b"bb" * 10)
    assert (await store.check()).blobs == 2
    await store.close()


async def test_the_missing_log_of_a_registered_space_is_damage(tmp_path: Path) -> None:
    url = url_of(tmp_path, "file")
    remember(url)
    remember(url, space="bob")
    bytes_of(tmp_path, "file").unlink()
    store = await opened(url)
    for refused in (documents(store), put(store, fact(1)), write_blob(store, "aa", b"blob")):
        with pytest.raises(StoreCorrupt, match="log of space folder"):
            await refused
    (problem,) = (await store.check()).problems
    assert (problem.space, problem.what) == (ADA, "the log of a space that has begun")
    assert [loss.space for loss in (await store.repair()).losses] == [ADA]
    assert (await store.check()).ok
    assert await documents(store) == []
    await put(store, fact(1))
    assert [(loss.space, loss.what) for loss in await find_losses(store)] == [(ADA, problem.what)]
    await store.close()
    assert count_memories(url, space="bob") == NUMBER


async def test_a_space_without_its_folder_is_reported_and_can_be_erased(tmp_path: Path) -> None:
    url, paths = url_of(tmp_path, "file"), StorePaths(tmp_path / "m")
    remember(url)
    shutil.rmtree(paths.spaces / folder_name(ADA))
    assert [problem.space for problem in (await rescue_store(url, clock=SystemClock(), repair=False)).problems] == [ADA]
    store = await opened(url)
    await store.erase(ErasureTarget(space=ADA, at=AT, whole_space=True))
    assert (await store.check()).ok
    assert await documents(store) == []
    await store.close()


async def test_an_erased_space_leaves_no_trace_of_its_name(tmp_path: Path) -> None:
    url, file = url_of(tmp_path, "file"), bytes_of(tmp_path, "file")
    remember(url)
    remember(url, space="bob")
    data = file.read_bytes()
    file.write_bytes(data[:-200])
    await rescued(url)
    store = await opened(url)
    assert [loss.space for loss in await find_losses(store)] == [ADA]
    await store.erase(ErasureTarget(space=ADA, at=AT, whole_space=True))
    await store.close()
    left = [path for path in (tmp_path / "m").rglob("*") if folder_name(ADA) in str(path)]
    assert left == []
    assert not any(b'"ada"' in path.read_bytes() for path in (tmp_path / "m").rglob("*") if path.is_file())


async def test_a_file_store_of_an_earlier_build_records_its_spaces_when_it_is_opened(tmp_path: Path) -> None:
    url, paths = url_of(tmp_path, "file"), StorePaths(tmp_path / "m")
    remember(url)
    shutil.rmtree(paths.records)
    await (await opened(url)).close()
    paths.log_of(folder_name(ADA)).unlink()
    report = await rescue_store(url, clock=SystemClock(), repair=False)
    assert [problem.space for problem in report.problems] == [ADA]


async def test_a_space_without_its_record_is_recorded_by_the_next_commit(tmp_path: Path) -> None:
    store = await opened(url_of(tmp_path, "file"))
    await put(store, fact(1))
    await store.close()
    paths = StorePaths(tmp_path / "m")
    store = await opened(url_of(tmp_path, "file"))
    paths.record_of(folder_name(ADA)).unlink()
    await put(store, fact(2))
    assert paths.record_of(folder_name(ADA)).exists()
    await store.close()


async def test_a_first_commit_that_cannot_be_recorded_is_refused_as_a_whole(tmp_path: Path) -> None:
    store = await opened(url_of(tmp_path, "file"))
    paths = StorePaths(tmp_path / "m")
    paths.records.write_bytes(b"in the way")
    with pytest.raises(StoreFailed):
        await put(store, fact(1))
    await store.close()
    paths.records.unlink()
    store = await opened(url_of(tmp_path, "file"))
    assert await documents(store) == []
    assert (await store.check()).ok
    await store.close()


async def test_a_record_emptied_by_a_power_cut_still_shows_that_the_space_exists(tmp_path: Path) -> None:
    url, paths = url_of(tmp_path, "file"), StorePaths(tmp_path / "m")
    remember(url)
    paths.record_of(folder_name(ADA)).write_bytes(b"")
    assert (await rescue_store(url, clock=SystemClock(), repair=False)).ok
    bytes_of(tmp_path, "file").unlink()
    report = await rescued(url)
    assert [(loss.space, loss.what) for loss in report.losses] == [(None, "the log of a space that has begun")]
    assert (await rescue_store(url, clock=SystemClock(), repair=False)).ok
    assert [loss.space for loss in await losses_in(url)] == [None]


@pytest.mark.parametrize("engine", ENGINES)
async def test_a_copy_of_a_store_includes_its_losses_and_records(tmp_path: Path, engine: str) -> None:
    url, file = url_of(tmp_path, engine), bytes_of(tmp_path, engine)
    remember(url)
    data = bytearray(file.read_bytes())
    data[data.index(b"berth 70.")] ^= 1
    file.write_bytes(data)
    (loss,) = (await rescued(url)).losses
    (tmp_path / "copy").mkdir()
    if engine == "sqlite":
        copy_database(tmp_path / "m.db", tmp_path / "copy/m.db")
    else:
        copy_folder(tmp_path / "m", tmp_path / "copy/m")
        StorePaths(tmp_path / "copy/m").log_of(folder_name(ADA)).unlink()
        report = await rescue_store(url_of(tmp_path / "copy", engine), clock=SystemClock(), repair=False)
        assert [problem.space for problem in report.problems] == [ADA]
    assert await losses_in(url_of(tmp_path / "copy", engine)) == [loss]


async def test_a_damaged_record_of_a_space_is_written_again(tmp_path: Path) -> None:
    url, paths = url_of(tmp_path, "file"), StorePaths(tmp_path / "m")
    remember(url)
    paths.record_of(folder_name(ADA)).write_bytes(b"else")
    report = await rescued(url)
    assert ([problem.what for problem in report.problems], report.losses) == (["the record of a space"], ())
    assert b"ada" in paths.record_of(folder_name(ADA)).read_bytes()
    assert (await rescue_store(url, clock=SystemClock(), repair=False)).ok
    assert count_memories(url) == NUMBER


@pytest.mark.parametrize("engine", ENGINES)
async def test_a_sealed_store_reports_losses_under_its_callers_names(tmp_path: Path, engine: str) -> None:
    url = url_of(tmp_path, engine)
    store = await open_store(url, clock=SystemClock(), keys=KEYS)
    for number in range(20):
        await put(store, fact(number), bytes(2_000))
    await put(store, fact(1), space=BOB)
    await store.close()
    file = tmp_path / "m.db"
    if engine == "file":
        file = max((tmp_path / "m/spaces").rglob("log"), key=lambda path: path.stat().st_size)
    data = bytearray(file.read_bytes())
    at = data.rindex(b"\x00" * 0 + b"facts") if engine == "sqlite" else len(data) - 500
    data[at + 60] ^= 0xFF
    file.write_bytes(data)
    await rescue_store(url, clock=SystemClock(), repair=True, sealed=True)
    store = await open_store(url, clock=SystemClock(), keys=KEYS)
    await store.repair()
    losses = await find_losses(store)
    assert {loss.space for loss in losses} == {ADA}
    assert (await find_losses(store, ADA), await find_losses(store, BOB)) == (losses, [])
    assert isinstance(store, LossRecord)
    assert await store.acknowledge_losses(ADA, at=LATE) == 1
    assert await find_losses(store) == []
    await store.close()


async def test_a_damaged_loss_record_is_a_loss(tmp_path: Path) -> None:
    store = await opened(url_of(tmp_path, "file"))
    await put(store, fact(1))
    paths = StorePaths(tmp_path / "m")
    paths.losses.mkdir()
    paths.loss_of(folder_name(ADA)).write_bytes(b"{")
    assert await find_losses(store) == [StoreLoss(None, 0, 0, 0, Instant(0), "the record of earlier losses")]
    assert isinstance(store, LossRecord)
    assert await store.acknowledge_losses(None, at=AT) == 1
    assert await find_losses(store) == []
    await store.close()


async def test_a_loss_in_a_space_under_a_secret_is_reported_by_space_name(tmp_path: Path) -> None:
    inner = await opened(url_of(tmp_path, "sqlite"))
    store = SecretStore(inner, clock=FrozenClock())
    keeper = SecretKeeper(store, ids=RandomIds(store.clock), contents=PlainContents((), (), frozenset()))
    await put(store, fact(1), space=BOB)
    key = await keeper.fresh_key(WORDS)
    await keeper.seal(ADA, key, until=Instant(1 << 50), copy=_copy_nothing)
    await put(store, fact(1), bytes(5_000))
    await store.close()
    change(tmp_path / "m.db", "UPDATE documents SET revision = 9 WHERE collection = 'facts' AND space <> 'bob'")
    store = SecretStore(await opened(url_of(tmp_path, "sqlite")), clock=FrozenClock())
    (loss,) = (await store.repair()).losses
    assert (loss.space, loss.documents) == (ADA, 1)
    assert (await store.losses(), await store.losses(ADA), await store.losses(BOB)) == ([loss], [loss], [])
    assert await store.acknowledge_losses(BOB, at=loss.at) == 0
    assert await store.acknowledge_losses(ADA, at=loss.at) == 1
    assert await store.losses() == []
    await store.close()


async def _copy_nothing(_source: Store, _target: Store, _space: SpaceId) -> None:
    raise AssertionError


def change(path: Path, statement: str) -> None:
    with closing(sqlite3.connect(path)) as raw:
        raw.execute(statement)
        raw.commit()
