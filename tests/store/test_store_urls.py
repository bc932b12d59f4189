"""Store URLs: what they name, what is rejected, and that the store behind them is the requested one."""

import json
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest

from elytron_conformance.examples import delete, fact, one, put
from elytron_core.clock import FrozenClock, Instant
from elytron_core.errors import (
    KeyMissing,
    StoreForeign,
    StoreMissing,
    StoreNewer,
    StoreUnavailable,
    StoreUrlInvalid,
)
from elytron_core.ids import SeededIds
from elytron_core.ports.store import Document, ErasureTarget, KeyProvider
from elytron_core.profiles import ProfileName
from elytron_store import StoreAddress, WhenMissing, open_store, parse_url
from elytron_store.file.store import FileStore
from elytron_store.sealed.keyring import mark_shared
from elytron_store.sealed.providers import LocalKeys
from elytron_store.sealed.records import KEYRING, NAMES, RECORDS, KeyringCoverage
from elytron_store.sealed.store import SealedStore
from elytron_store.sqlite import SqliteStore
from elytron_store.sqlite.driver import sqlite_library

pytestmark = pytest.mark.anyio

CLOCK = FrozenClock()


def no_folder(_: Path) -> bool:
    return False


@pytest.mark.parametrize(
    ("url", "address"),
    [
        ("memory:", StoreAddress("memory")),
        ("memory://", StoreAddress("memory")),
        ("mcp+https://a.example/mcp/", StoreAddress("mcp", url="https://a.example/mcp", project="elytron")),
        ("mcp+https://a.example:9/m?project=b", StoreAddress("mcp", url="https://a.example:9/m", project="b")),
        ("MCP+HTTP://[::1]:9", StoreAddress("mcp", url="http://[::1]:9", project="elytron")),
        ("memory:name", StoreAddress("memory")),
        ("MEMORY:", StoreAddress("memory")),
        ("file:///srv/store", StoreAddress("file", Path("/srv/store"))),
        ("file://localhost/srv/store", StoreAddress("file", Path("/srv/store"))),
        ("file:/srv/store", StoreAddress("file", Path("/srv/store"))),
        ("file:rel/store", StoreAddress("file", Path("rel/store"))),
        ("sqlite:///srv/m.db", StoreAddress("sqlite", Path("/srv/m.db"))),
        ("sqlite:////srv/m.db", StoreAddress("sqlite", Path("/srv/m.db"))),
        ("sqlite:rel/m.db", StoreAddress("sqlite", Path("rel/m.db"))),
        ("sqlite:m", StoreAddress("sqlite", Path("m"))),
        ("sqlite:///a%20b/%C3%A9%3F.db", StoreAddress("sqlite", Path("/a b/é?.db"))),
        ("m.db", StoreAddress("sqlite", Path("m.db"))),
        ("./a%20b.SQLite3", StoreAddress("sqlite", Path("a%20b.SQLite3"))),
        ("/srv/m.sqlite", StoreAddress("sqlite", Path("/srv/m.sqlite"))),
        ("store/", StoreAddress("file", Path("store"))),
        ("store.db/", StoreAddress("file", Path("store.db"))),
        ("C:\\m.db", StoreAddress("sqlite", Path("C:\\m.db"))),
        ("~/m.db", StoreAddress("sqlite", Path.home() / "m.db")),
    ],
)
def test_a_url_names_an_engine_and_a_place(url: str, address: StoreAddress) -> None:
    assert parse_url(url, is_folder=no_folder) == address


@pytest.mark.parametrize("url", ["m.db", "store/", "embedded:store", "no/such/m.db"])
async def test_a_path_without_a_store_is_refused_where_none_may_be_created(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, url: str
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(StoreMissing, match=str(tmp_path)):
        await open_store(url, clock=CLOCK, when_missing=WhenMissing.REFUSE)
    assert list(tmp_path.iterdir()) == []


async def test_an_empty_file_or_folder_is_not_yet_a_store(tmp_path: Path) -> None:
    (tmp_path / "m.db").touch()
    (tmp_path / "store").mkdir()
    for name in ("m.db", "store"):
        with pytest.raises(StoreMissing):
            await open_store(str(tmp_path / name), clock=CLOCK, when_missing=WhenMissing.REFUSE)
    assert (tmp_path / "m.db").stat().st_size == 0
    assert list((tmp_path / "store").iterdir()) == []


@pytest.mark.parametrize("name", ["m.db", "store/"])
async def test_an_existing_store_is_opened(tmp_path: Path, name: str) -> None:
    for when_missing in (WhenMissing.MAKE, WhenMissing.REFUSE):
        store = await open_store(f"{tmp_path}/{name}", clock=CLOCK, when_missing=when_missing)
        await store.close()


async def test_an_inaccessible_path_is_judged_by_the_engine(tmp_path: Path) -> None:
    with pytest.raises(StoreUnavailable):
        await open_store("sqlite:///" + "x" * 5_000, clock=CLOCK, when_missing=WhenMissing.REFUSE)


def test_a_path_to_a_folder_is_a_file_store(tmp_path: Path) -> None:
    assert parse_url(str(tmp_path)) == StoreAddress("file", tmp_path)


@pytest.mark.parametrize("url", ["\ud800.db", "\ud800/", "sqlite:///\ud800.db", "file:///%ff"])
def test_a_non_utf8_name_is_not_an_address(url: str) -> None:
    with pytest.raises(StoreUrlInvalid):
        parse_url(url)


def test_an_impossible_path_is_not_an_address() -> None:
    with pytest.raises(StoreUrlInvalid, match="is a path that cannot be read"):
        parse_url("x" * 5_000 + ".db")


@pytest.mark.parametrize(
    "url",
    [
        "",
        "store",
        "store.txt",
        "~nobody-of-this-name/m.db",
        "a\0.db",
        "file:",
        "file:///",
        "sqlite:",
        "sqlite:///",
        "sqlite:%00.db",
        "sqlite:///%ff.db",
        "sqlite:///m.db?mode=ro",
        "sqlite:///m.db#1",
        "sqlite::memory:",
        "sqlite://m.db",
        "file://host/share",
        "redis://localhost",
        "postgres:x",
    ],
)
def test_invalid_store_addresses_are_rejected_with_valid_forms(url: str) -> None:
    with pytest.raises(StoreUrlInvalid, match=r"use memory:, file:///folder, sqlite:///path\.db") as refused:
        parse_url(url, is_folder=no_folder)
    assert refused.value.field == "store"


@pytest.mark.parametrize(
    "url",
    [
        "redis://ada:hunter2@host/0",
        "sqlite://ada:hunter2@host/m.db",
        "hunter2:ada@host",
        "file://hunter2@host?x",
        "hunter2",
    ],
)
def test_a_refusal_shows_no_credentials(url: str) -> None:
    with pytest.raises(StoreUrlInvalid) as refused:
        parse_url(url, is_folder=no_folder)
    assert "hunter2" not in str(refused.value)
    assert "ada" not in str(refused.value)


async def test_each_memory_store_is_separate() -> None:
    one_store = await open_store("memory:shared", clock=CLOCK)
    other = await open_store("memory:shared", clock=CLOCK)
    await put(one_store, fact(1))
    assert await one(other, fact(1)) is None


@pytest.mark.parametrize("url", ["file://{}/store", "sqlite://{}/m.db", "{}/m.db", "{}/store/"])
async def test_a_durable_store_can_be_reopened(tmp_path: Path, url: str) -> None:
    store = await open_store(url.format(tmp_path), clock=CLOCK)
    await put(store, fact(1), b"kept")
    await store.close()
    again = await open_store(url.format(tmp_path), clock=CLOCK)
    assert await one(again, fact(1)) == Document(fact(1), 1, b"kept")
    await again.close()


@pytest.mark.parametrize("url", ["file://{}/store", "sqlite://{}/m.db"])
async def test_a_store_opens_for_its_own_profile_only(tmp_path: Path, url: str) -> None:
    store = await open_store(url.format(tmp_path), clock=CLOCK, profile="embedded")
    await store.close()
    with pytest.raises(StoreForeign, match="'embedded': open it with that profile, not 'server-linux-dev-full'"):
        await open_store(url.format(tmp_path), clock=CLOCK, profile=ProfileName.SERVER_DEV_FULL)


@pytest.mark.parametrize("url", ["memory:", "file://{}/store", "sqlite://{}/m.db"])
async def test_with_keys_a_store_is_sealed(tmp_path: Path, url: str) -> None:
    keys = LocalKeys({"k1": bytes(32)}, current="k1")
    store = await open_store(url.format(tmp_path), clock=CLOCK, keys=keys, ids=SeededIds())
    await put(store, fact(1), b"a canary nobody may find")
    assert await one(store, fact(1)) == Document(fact(1), 1, b"a canary nobody may find")
    await store.close()
    for file in tmp_path.rglob("*"):
        assert not file.is_file() or b"canary" not in file.read_bytes()


@pytest.mark.parametrize("url", ["file://{}/store", "sqlite://{}/m.db"])
async def test_seal_and_keys_go_together(tmp_path: Path, url: str) -> None:
    keys = LocalKeys({"k1": bytes(32)}, current="k1")
    sealed, plain = url.format(tmp_path / "sealed"), url.format(tmp_path / "plain")
    (tmp_path / "sealed").mkdir()
    (tmp_path / "plain").mkdir()
    for store in (await open_store(sealed, clock=CLOCK, keys=keys), await open_store(plain, clock=CLOCK)):
        await store.close()
    with pytest.raises(StoreForeign, match="sealed"):
        await open_store(sealed, clock=CLOCK)
    with pytest.raises(StoreForeign, match="not sealed"):
        await open_store(plain, clock=CLOCK, keys=keys)


def everything(folder: Path) -> dict[Path, bytes]:
    """Return every file below `folder` with its bytes, and every folder."""
    return {path: path.read_bytes() if path.is_file() else b"" for path in folder.rglob("*")}


def edit_manifest(folder: Path, **changes: object) -> None:
    """Edit the manifest of the store in `folder` by hand."""
    path = folder / "m.db"
    if path.exists():
        with closing(sqlite_library().connect(str(path), wait_s=1.0)) as raw:
            ((kept,),) = raw.execute("SELECT body FROM manifest").fetchall()
            raw.execute("UPDATE manifest SET body = ?", (json.dumps({**json.loads(kept), **changes}).encode(),))
    else:
        path = folder / "store" / "manifest.json"
        path.write_text(json.dumps({**json.loads(path.read_bytes()), **changes}))


@pytest.mark.parametrize("url", ["file://{}/store", "sqlite://{}/m.db"])
class TestRefused:
    """A refused opening leaves everything unchanged, without a record of it."""

    KEYS = LocalKeys({"k1": bytes(32)}, current="k1")
    LATER = FrozenClock(Instant(CLOCK.now() + 60_000))

    async def made(self, url: str, keys: KeyProvider | None) -> None:
        store = await open_store(url, clock=CLOCK, keys=keys)
        await put(store, fact(1), b"kept")
        await store.close()

    async def test_a_wrong_key_changes_nothing(self, tmp_path: Path, url: str) -> None:
        await self.made(url.format(tmp_path), self.KEYS)
        before = everything(tmp_path)
        for other in (LocalKeys({"k1": bytes(31) + b"1"}, current="k1"), LocalKeys({"k2": bytes(32)}, current="k2")):
            with pytest.raises(KeyMissing):
                await open_store(url.format(tmp_path), clock=self.LATER, keys=other)
        assert everything(tmp_path) == before
        await (await open_store(url.format(tmp_path), clock=self.LATER, keys=self.KEYS)).close()
        assert everything(tmp_path) != before

    async def test_a_seal_edited_out_of_the_manifest_is_detected(self, tmp_path: Path, url: str) -> None:
        await self.made(url.format(tmp_path), self.KEYS)
        edit_manifest(tmp_path, sealed=False)
        before = everything(tmp_path)
        with pytest.raises(StoreForeign, match="its manifest was altered"):
            await open_store(url.format(tmp_path), clock=self.LATER)
        with pytest.raises(StoreForeign, match="not sealed"):
            await open_store(url.format(tmp_path), clock=self.LATER, keys=self.KEYS)
        assert everything(tmp_path) == before
        edit_manifest(tmp_path, sealed=True)
        store = await open_store(url.format(tmp_path), clock=self.LATER, keys=self.KEYS)
        assert await one(store, fact(1)) == Document(fact(1), 1, b"kept")
        await store.close()

    async def test_removing_the_keyring_does_not_make_a_store_plain(self, tmp_path: Path, url: str) -> None:
        await self.made(url.format(tmp_path), self.KEYS)
        edit_manifest(tmp_path, sealed=False)
        address = parse_url(url.format(tmp_path))
        assert address.path is not None
        opened = SqliteStore.open if address.engine == "sqlite" else FileStore.open
        inner = await opened(address.path, clock=CLOCK)
        await inner.erase(ErasureTarget(space=KEYRING, at=CLOCK.now(), whole_space=True))
        await inner.close()
        edit_manifest(tmp_path, sealed=True)
        with pytest.raises(StoreForeign, match="the keyring of this store is lost"):
            await open_store(url.format(tmp_path), clock=self.LATER, keys=self.KEYS)
        with pytest.raises(StoreForeign, match="is sealed"):
            await open_store(url.format(tmp_path), clock=self.LATER)
        edit_manifest(tmp_path, sealed=False)
        before = everything(tmp_path)
        with pytest.raises(StoreForeign, match="its keyring was removed"):
            await open_store(url.format(tmp_path), clock=self.LATER)
        assert everything(tmp_path) == before

    @pytest.mark.parametrize("edit", [*KeyringCoverage, "damaged", "cut", "records", "whole"])
    @pytest.mark.parametrize("is_empty", [False, True])
    async def test_no_edit_of_the_keyring_opens_a_sealed_store_in_plain(
        self, tmp_path: Path, url: str, edit: str, *, is_empty: bool
    ) -> None:
        store = await open_store(url.format(tmp_path), clock=CLOCK, keys=self.KEYS)
        if not is_empty:
            await put(store, fact(1), b"kept")
        await store.close()
        edit_manifest(tmp_path, sealed=False)
        address = parse_url(url.format(tmp_path))
        assert address.path is not None
        opened = SqliteStore.open if address.engine == "sqlite" else FileStore.open
        inner = await opened(address.path, clock=CLOCK)
        (names,) = await inner.get(KEYRING, [NAMES])
        assert names is not None
        match edit:
            case "damaged":
                await put(inner, NAMES, b"{", space=KEYRING, expects=1)
            case "cut":
                await delete(inner, NAMES, expects=1, space=KEYRING)
            case "records":
                for each in await inner.scan(KEYRING, RECORDS, limit=10):
                    if each.ref != NAMES:
                        await put(inner, each.ref, b"{}", space=KEYRING, expects=each.revision)
            case "whole" if not is_empty:
                await inner.erase(ErasureTarget(space=KEYRING, at=CLOCK.now(), whole_space=True))
            case _:
                extent = (
                    json.dumps({**json.loads(names.body), "covers": edit})
                    if edit in {each.value for each in KeyringCoverage}
                    else "{"
                )
                await put(inner, NAMES, extent.encode(), space=KEYRING, expects=1)
        await inner.close()
        before = everything(tmp_path)
        with pytest.raises(StoreForeign, match="is sealed"):
            await open_store(url.format(tmp_path), clock=self.LATER)
        assert everything(tmp_path) == before

    async def test_a_seal_survives_a_new_key_encryption_key(self, tmp_path: Path, url: str) -> None:
        await self.made(url.format(tmp_path), self.KEYS)
        newer = LocalKeys({"k1": bytes(32), "k2": b"2" * 32}, current="k2")
        store = await open_store(url.format(tmp_path), clock=CLOCK, keys=newer)
        assert isinstance(store, SealedStore)
        await store.rotate_key_encryption()
        await store.close()
        edit_manifest(tmp_path, sealed=False)
        with pytest.raises(StoreForeign, match="its manifest was altered"):
            await open_store(url.format(tmp_path), clock=self.LATER)

    async def test_a_seal_edited_into_the_manifest_is_detected(self, tmp_path: Path, url: str) -> None:
        await self.made(url.format(tmp_path), None)
        edit_manifest(tmp_path, sealed=True)
        before = everything(tmp_path)
        with pytest.raises(StoreForeign, match="sealed"):
            await open_store(url.format(tmp_path), clock=self.LATER)
        with pytest.raises(StoreForeign, match="spaces but no keyring"):
            await open_store(url.format(tmp_path), clock=self.LATER, keys=self.KEYS)
        assert everything(tmp_path) == before

    async def test_another_profile_or_version_changes_nothing(self, tmp_path: Path, url: str) -> None:
        await self.made(url.format(tmp_path), None)
        before = everything(tmp_path)
        with pytest.raises(StoreForeign, match="profile"):
            await open_store(url.format(tmp_path), clock=self.LATER, profile="embedded")
        assert everything(tmp_path) == before
        edit_manifest(tmp_path, schema_version=99)
        before = everything(tmp_path)
        with pytest.raises(StoreNewer):
            await open_store(url.format(tmp_path), clock=self.LATER)
        assert everything(tmp_path) == before

    async def test_without_a_working_key_service_no_store_is_created(self, tmp_path: Path, url: str) -> None:
        class Away(LocalKeys):
            """An unresponsive key service."""

            async def wrap(self, data_key: bytes, /, *, key_id: str, context: bytes) -> bytes:
                raise KeyMissing("the key service does not answer: try again")

        with pytest.raises(KeyMissing, match="does not answer"):
            await open_store(url.format(tmp_path), clock=CLOCK, keys=Away({"k1": bytes(32)}, current="k1"))
        assert everything(tmp_path) == {}

    async def test_spaces_sealed_by_others_block_nobody_from_a_shared_store(self, tmp_path: Path, url: str) -> None:
        shared = await open_store(url.format(tmp_path), clock=CLOCK)
        await mark_shared(shared, CLOCK)
        sealing = await SealedStore.open(shared, keys=self.KEYS, ids=SeededIds(), clock=CLOCK)
        await put(sealing, fact(1), b"theirs")
        await sealing.close()
        for damage in (None, b"{"):
            store = await open_store(url.format(tmp_path), clock=self.LATER)
            assert len(await store.spaces(limit=10)) == 3
            if damage is not None:
                await put(store, NAMES, damage, space=KEYRING, expects=1)
            await store.close()


def test_importing_the_package_loads_no_engine() -> None:
    heavy = ("aiosqlite", "sqlite3", "pysqlite3", "numpy", "cryptography", "elytron_store.sqlite", "elytron_store.file")
    code = f"import elytron_store, sys; print([name for name in {heavy!r} if name in sys.modules])"
    told = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert told.stdout.strip() == "[]"
