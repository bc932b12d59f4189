"""The file engine keeps the port's guarantees."""

import errno
import os
import resource
import stat
from collections.abc import AsyncIterator, Generator
from functools import partial
from pathlib import Path

import pytest
from tests.store.handles import Handles, Opener

from elytron_conformance import ReopenSuite, SecondHandleSuite, StoreSuite
from elytron_conformance.examples import ADA, AT, batch, documents, fact, journal, one, put, write_blob
from elytron_core.clock import FrozenClock, Instant
from elytron_core.errors import (
    PermissionRefused,
    StoreError,
    StoreFailed,
    StoreForeign,
    StoreFull,
    StoreNewer,
    StoreUnavailable,
)
from elytron_core.ids import SpaceId
from elytron_core.ports.store import (
    BatchKey,
    CommitReceipt,
    DeleteChange,
    Document,
    EntryDraft,
    ErasureTarget,
    JournalAction,
    PutChange,
)
from elytron_store import manifest
from elytron_store.file import FileStore
from elytron_store.file.disk import StorePaths, folder_name
from elytron_store.file.folder import prepare_folder
from elytron_store.file.frame import HEADER_BYTES
from elytron_store.manifest import DEFAULT_PROFILE, StoreManifest


class TestFileStore(Handles, StoreSuite, ReopenSuite, SecondHandleSuite):
    @pytest.fixture
    def opener(self, tmp_path: Path) -> Opener:
        return partial(FileStore.open, tmp_path / "store", clock=FrozenClock())


def files(root: Path) -> list[Path]:
    return [path for path in root.rglob("*") if path.is_file()]


def holds(root: Path, secret: bytes) -> list[str]:
    """Return the files that contain `secret`."""
    return [str(path) for path in files(root) if secret in path.read_bytes()]


class TestFolder:
    """What the file engine does to its folder."""

    pytestmark = pytest.mark.anyio

    @pytest.fixture
    def root(self, tmp_path: Path) -> Path:
        return tmp_path / "deep" / "store"

    @pytest.fixture
    async def store(self, root: Path) -> AsyncIterator[FileStore]:
        store = await FileStore.open(root, clock=FrozenClock())
        yield store
        await store.close()

    async def test_everything_is_accessible_only_to_its_owner(self, store: FileStore, root: Path) -> None:
        await put(store, fact(1))
        await write_blob(store, "aa", b"blob")
        await store.erase(ErasureTarget(space=ADA, at=AT, refs=(fact(1),)))
        assert {stat.S_IMODE(path.stat().st_mode) for path in files(root)} == {0o600}
        folders = [root, *(path for path in root.rglob("*") if path.is_dir())]
        assert {stat.S_IMODE(path.stat().st_mode) for path in folders} == {0o700}

    async def test_the_manifest_identifies_the_store_and_its_last_opening(self, store: FileStore, root: Path) -> None:
        await store.close()
        later = FrozenClock(Instant(AT + 5_000))
        again = await FileStore.open(root, clock=later, profile=DEFAULT_PROFILE)
        await again.close()
        kept = manifest.read_manifest((root / "manifest.json").read_bytes())
        assert kept == StoreManifest(engine="file", created_at=AT, opened_at=Instant(AT + 5_000))

    @pytest.mark.parametrize(
        ("kept", "refusal"),
        [
            (b"", StoreForeign),
            (b"{", StoreForeign),
            (b'{"schema_name":"other"}', StoreForeign),
            (StoreManifest(engine="sqlite", created_at=AT, opened_at=AT).to_bytes(), StoreForeign),
            (StoreManifest(engine="file", profile="tiny", created_at=AT, opened_at=AT).to_bytes(), StoreForeign),
            (StoreManifest(engine="file", sealed=True, created_at=AT, opened_at=AT).to_bytes(), StoreForeign),
            (StoreManifest(engine="file", memory_system="x", created_at=AT, opened_at=AT).to_bytes(), StoreForeign),
            (StoreManifest(engine="file", schema_version=99, created_at=AT, opened_at=AT).to_bytes(), StoreNewer),
        ],
        ids=["empty", "cut", "foreign", "engine", "profile", "sealed", "system", "newer"],
    )
    async def test_a_mismatching_folder_is_refused_and_left_unchanged(
        self, tmp_path: Path, kept: bytes, refusal: type[StoreError]
    ) -> None:
        root = tmp_path / "kept"
        root.mkdir()
        (root / "manifest.json").write_bytes(kept)
        with pytest.raises(refusal):
            await FileStore.open(root, clock=FrozenClock(), profile=DEFAULT_PROFILE)
        assert [path.name for path in root.iterdir()] == ["manifest.json"]
        assert (root / "manifest.json").read_bytes() == kept

    async def test_a_folder_with_other_content_is_refused_and_left_unchanged(self, tmp_path: Path) -> None:
        (tmp_path / "thesis.txt").write_text("years of work")
        with pytest.raises(StoreForeign):
            await FileStore.open(tmp_path, clock=FrozenClock())
        assert [path.name for path in tmp_path.iterdir()] == ["thesis.txt"]

    async def test_an_empty_or_half_created_folder_is_accepted(self, tmp_path: Path) -> None:
        (tmp_path / "locks").mkdir()
        (tmp_path / "manifest.json.new").write_bytes(b"{")
        store = await FileStore.open(tmp_path, clock=FrozenClock())
        await store.close()
        assert manifest.read_manifest((tmp_path / "manifest.json").read_bytes()).engine == "file"

    async def test_a_path_that_is_not_a_folder_is_unavailable(self, tmp_path: Path) -> None:
        (tmp_path / "file").write_bytes(b"")
        for root in (tmp_path / "file", tmp_path / "file" / "below"):
            with pytest.raises(StoreUnavailable):
                await FileStore.open(root, clock=FrozenClock())

    async def test_a_foreign_folder_is_refused_with_a_hint(self, root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        def refuse(*_: object, **__: object) -> None:
            raise PermissionError(errno.EACCES, "Permission denied")

        monkeypatch.setattr(os, "mkdir", refuse)
        with pytest.raises(PermissionRefused, match="choose another or change its owner"):
            await FileStore.open(root, clock=FrozenClock())

    async def test_a_read_only_medium_is_reported_with_a_hint(
        self, root: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        await (await FileStore.open(root, clock=FrozenClock())).close()

        def refuse(*_: object, **__: object) -> None:
            raise OSError(errno.EROFS, "Read-only file system")

        monkeypatch.setattr(os, "open", refuse)
        with pytest.raises(StoreUnavailable, match="copy it"):
            await FileStore.open(root, clock=FrozenClock())

    async def test_erased_bytes_are_in_no_file(self, store: FileStore, root: Path) -> None:
        await store.commit(batch(PutChange(fact(1), b"SECRET one", 0), PutChange(fact(2), b"kept", 0)))
        await put(store, fact(1), b"SECRET two", expects=1)
        await put(store, fact(3), b"SECRET three")
        await store.commit(
            batch(DeleteChange(fact(3), 1), entries=(EntryDraft(JournalAction.DELETE, fact(3), "D1GEST"),))
        )
        await write_blob(store, "aa", b"SECRET blob")
        assert len(holds(root, b"SECRET")) == 2
        await store.erase(ErasureTarget(space=ADA, at=AT, refs=(fact(1), fact(3)), blobs=("aa",)))
        assert holds(root, b"SECRET") == holds(root, b"D1GEST") == []
        assert len(holds(root, b"kept")) == 1

    async def test_an_erased_space_leaves_no_trace_of_its_name(self, store: FileStore, root: Path) -> None:
        space = SpaceId("Ada Lovelace")
        await put(store, fact(1), b"SECRET", space=space)
        await write_blob(store, "aa", b"SECRET", space=space)
        assert list(await store.spaces(limit=5)) == [space]
        await store.erase(ErasureTarget(space=space, at=AT, whole_space=True))
        assert holds(root, b"SECRET") == holds(root, b"Lovelace") == []
        assert list((root / "spaces").iterdir()) == list((root / "trash").iterdir()) == []

    async def test_remains_of_an_interrupted_erasure_are_removed_at_the_next_opening(
        self, store: FileStore, root: Path
    ) -> None:
        (root / "trash" / "space").mkdir(parents=True)
        (root / "trash" / "space" / "log").write_bytes(b"SECRET")
        again = await FileStore.open(root, clock=FrozenClock())
        await again.close()
        assert holds(root, b"SECRET") == []

    async def test_unreachable_bodies_are_compacted_away(self, store: FileStore, root: Path) -> None:
        once = BatchKey(key="k", digest="d", answer=b"answer")
        first = batch(PutChange(fact(1), b"stays", 0), idempotency=once)
        await store.commit(first)
        body = bytes(200_000)
        other = await FileStore.open(root, clock=FrozenClock())
        for revision in range(40):
            await put(store, fact(2), body + b"%d" % revision, expects=revision)
            assert await one(other, fact(1)) == Document(fact(1), 1, b"stays")
        before = await documents(store), await journal(store)
        await store.close()
        assert sum(path.stat().st_size for path in files(root)) < 15 * len(body)
        assert (await documents(other), await journal(other)) == before
        assert await other.commit(first) == CommitReceipt(1, 1, replayed=True, answer=b"answer")
        assert (await other.check()).ok
        await other.close()

    async def test_long_unused_spaces_are_reloaded_when_needed(
        self, store: FileStore, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr("elytron_store.file.store._SPACES_HELD", 2)
        names = [SpaceId(f"space {number}") for number in range(6)]
        for turn in range(2):
            for name in names:
                await put(store, fact(turn), space=name)
        assert [len(await documents(store, space=name)) for name in names] == [2] * 6


class TestFailures:
    """How writes refused by the device are handled."""

    pytestmark = pytest.mark.anyio

    @pytest.fixture
    async def store(self, tmp_path: Path) -> AsyncIterator[FileStore]:
        store = await FileStore.open(tmp_path / "store", clock=FrozenClock())
        await put(store, fact(1), b"before")
        yield store
        await store.close()

    async def test_without_room_nothing_is_stored_and_later_writes_succeed(
        self, store: FileStore, tmp_path: Path
    ) -> None:
        soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
        resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, hard))
        try:
            with pytest.raises(StoreFull):
                await put(store, fact(2), bytes(200_000))
            with pytest.raises(StoreFull):
                await put(store, fact(1), bytes(200_000), space=SpaceId("new"))
            with pytest.raises(StoreFull):
                await write_blob(store, "aa", bytes(200_000))
            assert await put(store, fact(3), b"small") == CommitReceipt(2, 2)
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
        assert await put(store, fact(2), bytes(200_000)) == CommitReceipt(3, 3)
        assert [document.ref for document in await documents(store)] == [fact(1), fact(2), fact(3)]
        assert await store.spaces(limit=5) == [ADA]
        assert (await store.check()).ok

    async def test_after_a_failed_sync_a_handle_writes_no_more(
        self, store: FileStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def fail(_: int) -> None:
            raise OSError(errno.EIO, "Input/output error")

        with monkeypatch.context() as broken:
            broken.setattr(os, "fdatasync", fail)
            with pytest.raises(StoreFailed):
                await put(store, fact(2))
        for _ in range(2):
            with pytest.raises(StoreFailed):
                await put(store, fact(3))
        with pytest.raises(StoreFailed):
            await store.erase(ErasureTarget(space=ADA, at=AT, refs=(fact(1),)))
        assert await documents(store) == [Document(fact(1), 1, b"before")]
        assert await put(store, fact(1), space=SpaceId("other")) == CommitReceipt(1, 1)
        again = await FileStore.open(tmp_path / "store", clock=FrozenClock())
        assert await put(again, fact(2)) == CommitReceipt(2, 2)
        assert (await again.check()).ok
        await again.close()

    async def test_a_failed_erasure_leaves_everything_readable(
        self, store: FileStore, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def fail(_: int) -> None:
            raise OSError(errno.ENOSPC, "No space left on device")

        with monkeypatch.context() as broken:
            broken.setattr(os, "fdatasync", fail)
            with pytest.raises(StoreFull):
                await store.erase(ErasureTarget(space=ADA, at=AT, refs=(fact(1),)))
        assert await documents(store) == [Document(fact(1), 1, b"before")]
        assert (await store.erase(ErasureTarget(space=ADA, at=AT, refs=(fact(1),)))).documents == 1

    async def test_a_blob_without_durable_removal_is_not_reported_as_erased(
        self, store: FileStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        await write_blob(store, "aa", b"secret")
        blobs = StorePaths(tmp_path / "store").blobs_of(folder_name(ADA))
        fsync = os.fsync

        def fail(handle: int) -> None:
            if os.path.samestat(os.fstat(handle), blobs.stat()):
                raise OSError(errno.EIO, "Input/output error")
            fsync(handle)

        with monkeypatch.context() as broken:
            broken.setattr(os, "fsync", fail)
            with pytest.raises(StoreFailed):
                await store.erase(ErasureTarget(space=ADA, at=AT, blobs=("aa",)))

    async def test_a_space_without_durable_removal_is_not_reported_as_erased(
        self, store: FileStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        spaces = StorePaths(tmp_path / "store").spaces
        fsync = os.fsync

        def fail(handle: int) -> None:
            if os.path.samestat(os.fstat(handle), spaces.stat()):
                raise OSError(errno.EIO, "Input/output error")
            fsync(handle)

        with monkeypatch.context() as broken:
            broken.setattr(os, "fsync", fail)
            with pytest.raises(StoreFailed):
                await store.erase(ErasureTarget(space=ADA, at=AT, whole_space=True))

    async def test_a_dead_writers_data_is_acknowledged_only_once_durable(
        self, store: FileStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        log = StorePaths(tmp_path / "store").log_of(folder_name(ADA))
        header = log.read_bytes()[:HEADER_BYTES]
        await put(store, fact(2))
        with log.open("r+b") as file:
            file.write(header)  # as if the writer had died before its last acknowledgement became durable
        died = log.read_bytes()

        def fail(_: int) -> None:
            raise OSError(errno.EIO, "Input/output error")

        again = await FileStore.open(tmp_path / "store", clock=FrozenClock())
        with monkeypatch.context() as broken:
            broken.setattr(os, "fdatasync", fail)
            with pytest.raises(StoreFailed):
                await documents(again)
        assert log.read_bytes() == died
        await again.close()
        third = await FileStore.open(tmp_path / "store", clock=FrozenClock())
        assert [document.ref for document in await documents(third)] == [fact(1), fact(2)]
        await third.close()

    async def test_an_unreadable_device_is_unavailable(self, store: FileStore, tmp_path: Path) -> None:
        log = StorePaths(tmp_path / "store").log_of(folder_name(ADA))
        log.unlink()
        log.mkdir()
        with pytest.raises(StoreUnavailable):
            await one(store, fact(1))


class _Arriving(type(Path())):
    """A folder in which another process creates a store just before it is inspected."""

    def iterdir(self) -> Generator[Path]:
        prepare_folder(StorePaths(Path(self)), at=AT, profile=None, sealed=False, busy_wait_s=1.0)
        yield from Path(self).iterdir()


def test_a_store_being_created_by_another_process_is_not_foreign(tmp_path: Path) -> None:
    prepare_folder(StorePaths(_Arriving(tmp_path)), at=AT, profile=None, sealed=False, busy_wait_s=1.0)
    assert {path.name for path in tmp_path.iterdir()} >= {"manifest.json", "spaces"}


@pytest.mark.anyio
async def test_a_removed_folder_is_not_an_empty_store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    store = await FileStore.open(Path("store"), clock=FrozenClock())
    monkeypatch.chdir("/")
    await put(store, fact(1))
    (tmp_path / "store").rename(tmp_path / "moved")
    with pytest.raises(StoreUnavailable, match="moved or removed"):
        await store.get(SpaceId("bob"), (fact(1),))
    with pytest.raises(StoreError):
        await put(store, fact(2))
    (tmp_path / "moved").rename(tmp_path / "store")
    assert await one(store, fact(1)) is not None
    await store.close()
