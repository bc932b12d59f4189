"""A sealed store that is put in the place of another under the same key file is refused."""

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


async def test_a_store_that_was_swapped_whole_is_refused(url: str, tmp_path: Path, key_file: Path) -> None:
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


async def test_an_older_copy_of_the_same_store_opens_and_so_does_one_elsewhere(
    url: str, tmp_path: Path, key_file: Path
) -> None:
    home = tmp_path / "home"
    await made(url, home, key_file, b"kept")
    shutil.copytree(home, tmp_path / "copy")
    shutil.rmtree(home)
    shutil.copytree(tmp_path / "copy", home)
    for folder in (home, tmp_path / "copy"):
        await (await opened(url, folder, FileKeys(key_file))).close()


async def test_a_store_that_is_made_anew_takes_the_place(url: str, tmp_path: Path, key_file: Path) -> None:
    home = tmp_path / "home"
    await made(url, home, key_file, b"first")
    shutil.rmtree(home)
    home.mkdir()
    await made(url, home, key_file, b"second")
    await (await opened(url, home, FileKeys(key_file))).close()


async def test_pins_are_of_their_owner_alone_and_damage_to_them_is_told(tmp_path: Path, key_file: Path) -> None:
    url = URLS["sqlite"]
    (tmp_path / "home").mkdir()
    await made(url, tmp_path / "home", key_file, b"kept")
    pins = tmp_path / "keys.json.stores"
    assert pins.stat().st_mode & 0o077 == 0
    pins.write_text("{", encoding="utf-8")
    with pytest.raises(InvalidInput, match="restore or remove"):
        await opened(url, tmp_path / "home", FileKeys(key_file))


async def test_where_pins_cannot_be_written_the_store_opens(tmp_path: Path, key_file: Path) -> None:
    (tmp_path / "home").mkdir()
    keys = FileKeys(key_file)
    keys.pins = type(keys.pins)(tmp_path / "nowhere" / "keys.json")
    await (await opened(URLS["sqlite"], tmp_path / "home", keys)).close()
    assert not (tmp_path / "nowhere").exists()
