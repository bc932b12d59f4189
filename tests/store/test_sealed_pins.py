"""A sealed store that replaces another under the same key file is refused."""

import shutil
from pathlib import Path

import pytest

from elytron_conformance.examples import fact, one, put
from elytron_core.clock import FrozenClock
from elytron_core.errors import InvalidInput, StoreForeign
from elytron_core.ports.store import KeyProvider, Store
from elytron_store import open_store
from elytron_store.sealed.providers import FileKeys

pytestmark = pytest.mark.anyio

CLOCK = FrozenClock()
URLS = {"file": "file://{}", "sqlite": "sqlite:///{}/m.db"}


@pytest.fixture
def key_file(tmp_path: Path) -> Path:
    FileKeys.create(tmp_path / "keys.json")
    return tmp_path / "keys.json"


@pytest.fixture(params=URLS)
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    for name in ("home", "office"):
        (tmp_path / name).mkdir()
    return URLS[request.param]


async def opened(url: str, folder: Path, keys: KeyProvider) -> Store:
    return await open_store(url.format(folder), clock=CLOCK, keys=keys)


async def made(url: str, folder: Path, key_file: Path, text: bytes) -> None:
    store = await opened(url, folder, FileKeys(key_file))
    await put(store, fact(1), text)
    await store.close()


async def test_a_completely_swapped_store_is_refused(url: str, tmp_path: Path, key_file: Path) -> None:
    home, office = tmp_path / "home", tmp_path / "office"
    await made(url, home, key_file, b"of home")
    await made(url, office, key_file, b"of the office")
    shutil.rmtree(home)
    shutil.copytree(office, home)
    with pytest.raises(StoreForeign, match="another sealed store was opened"):
        await opened(url, home, FileKeys(key_file))
    store = await opened(url, office, FileKeys(key_file))
    found = await one(store, fact(1))
    assert found is not None
    assert found.body == b"of the office"
    await store.close()


async def test_older_and_relocated_copies_of_the_same_store_open(url: str, tmp_path: Path, key_file: Path) -> None:
    home = tmp_path / "home"
    await made(url, home, key_file, b"kept")
    shutil.copytree(home, tmp_path / "copy")
    shutil.rmtree(home)
    shutil.copytree(tmp_path / "copy", home)
    for folder in (home, tmp_path / "copy"):
        await (await opened(url, folder, FileKeys(key_file))).close()


async def test_a_recreated_store_replaces_the_pin(url: str, tmp_path: Path, key_file: Path) -> None:
    home = tmp_path / "home"
    await made(url, home, key_file, b"first")
    shutil.rmtree(home)
    home.mkdir()
    await made(url, home, key_file, b"second")
    await (await opened(url, home, FileKeys(key_file))).close()


async def test_pins_are_owner_only_and_damage_to_them_is_reported(tmp_path: Path, key_file: Path) -> None:
    url = URLS["sqlite"]
    (tmp_path / "home").mkdir()
    await made(url, tmp_path / "home", key_file, b"kept")
    pins = tmp_path / "keys.json.stores"
    assert pins.stat().st_mode & 0o077 == 0
    pins.write_text("{", encoding="utf-8")
    with pytest.raises(InvalidInput, match="restore or remove"):
        await opened(url, tmp_path / "home", FileKeys(key_file))


async def test_without_writable_pins_the_store_still_opens(tmp_path: Path, key_file: Path) -> None:
    (tmp_path / "home").mkdir()
    keys = FileKeys(key_file)
    keys.pins = type(keys.pins)(tmp_path / "nowhere" / "keys.json")
    await (await opened(URLS["sqlite"], tmp_path / "home", keys)).close()
    assert not (tmp_path / "nowhere").exists()
