"""A damaged store is checked and repaired whatever the damage: a report, then a store with the intact content."""

import shutil
from collections.abc import Callable
from pathlib import Path
from random import Random

import pytest
from click.testing import CliRunner, Result
from hypothesis import given, settings
from hypothesis import strategies as st

import elytron
from elytron_cli.app import elytron_group
from elytron_core.clock import SystemClock
from elytron_core.errors import StoreForeign, Unsupported
from elytron_store import rescue_store

pytestmark = pytest.mark.anyio
SAID = [f"The boat {number} lies at berth {number * 7}." for number in range(30)]
BOTH = ("ada", "bob")
Damage = Callable[[bytearray, Random], bytes]


def zeroed(data: bytearray, random: Random) -> bytes:
    start = random.randrange(len(data))
    end = min(start + random.choice((1, 60, 2_000, 9_000)), len(data))
    return bytes(data[:start]) + bytes(end - start) + bytes(data[end:])


def overwritten(data: bytearray, random: Random) -> bytes:
    start = random.randrange(len(data))
    foreign = random.randbytes(random.choice((4, 100, 3_000)))[: len(data) - start]
    return bytes(data[:start]) + foreign + bytes(data[start + len(foreign) :])


def flipped(data: bytearray, random: Random) -> bytes:
    data[random.randrange(len(data))] ^= 1 << random.randrange(8)
    return bytes(data)


def cut(data: bytearray, random: Random) -> bytes:
    return bytes(data[: random.randrange(100, len(data))])


DAMAGE: tuple[Damage, ...] = (zeroed, overwritten, flipped, cut)


@pytest.fixture(scope="module")
def stores(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with a database and a file store of two spaces each, plain and sealed."""
    folder = tmp_path_factory.mktemp("stores")
    keys = elytron.FileKeys.create(folder / "keys.json")
    for name, held in (("m", None), ("sealed", keys)):
        for url in (f"sqlite:{folder}/{name}.db", f"file:{folder}/{name}"):
            for space in BOTH:
                with elytron.open(url, space=space, keys=held) as memory:
                    for first in range(0, len(SAID), 10):
                        memory.add(SAID[first : first + 10], speaker="Ada")
    return folder


def damaged_copy(stores: Path, engine: str, random: Random, *, name: str = "m") -> str:
    """Return the URL of a copy with one file damaged in one place."""
    place = stores / "copy"
    shutil.rmtree(place, ignore_errors=True)
    place.mkdir()
    if engine == "sqlite":
        file = Path(shutil.copy(stores / f"{name}.db", place / "m.db"))
        url = f"sqlite:{place}/m.db"
    else:
        shutil.copytree(stores / name, place / "m")
        file, url = random.choice([*sorted((place / "m").rglob("log")), place / "m/manifest.json"]), f"file:{place}/m"
    file.write_bytes(random.choice(DAMAGE)(bytearray(file.read_bytes()), random))
    return url


def run_words(url: str, *words: str, space: str = "ada") -> int:
    return ended(url, *words, space=space).exit_code


def ended(url: str, *words: str, space: str) -> Result:
    done = CliRunner().invoke(elytron_group, ["--store", url, "--space", space, *words])
    assert done.exception is None or isinstance(done.exception, SystemExit), done.exception
    return done


@pytest.mark.parametrize("engine", ["sqlite", "file"])
@settings(max_examples=10)  # each runs six commands
@given(seed=st.integers(0, 10**9))
def test_a_repaired_store_can_be_read_and_written(stores: Path, engine: str, seed: int) -> None:
    url = damaged_copy(stores, engine, Random(seed))
    assert run_words(url, "inspect", "--check") in {0, 13}
    # 13 if something was lost, which is reported until acknowledged.
    assert run_words(url, "inspect", "--repair") in {0, 13}
    for space in BOTH:
        assert run_words(url, "recall", "which berth has boat 7?", space=space) == 0
        assert run_words(url, "add", "It was repaired.", space=space) == 0


@pytest.mark.parametrize("engine", ["sqlite", "file"])
@settings(max_examples=10)
@given(seed=st.integers(0, 10**9))
def test_a_sealed_store_is_repaired_or_its_keys_reported_lost(stores: Path, engine: str, seed: int) -> None:
    url = damaged_copy(stores, engine, Random(seed), name="sealed")
    key = ("--key-file", str(stores / "keys.json"))
    assert run_words(url, *key, "inspect", "--check") in {0, 13}
    repaired = ended(url, *key, "inspect", "--repair", space="ada")
    if repaired.exit_code not in {0, 13}:  # nothing opens without the keyring, and a second repair reports the same
        for _ in range(2):
            assert repaired.exit_code == 12
            assert "restore it from a backup" in repaired.stderr
            repaired = ended(url, *key, "inspect", "--repair", space="ada")
        return
    for space in BOTH:
        assert run_words(url, *key, "recall", "which berth has boat 7?", space=space) == 0
        assert run_words(url, *key, "add", "It was repaired.", space=space) == 0


@pytest.mark.parametrize("name", ["m", "sealed"])
def test_a_damaged_name_of_the_engine_is_repaired(stores: Path, tmp_path: Path, name: str) -> None:
    shutil.copytree(stores / name, tmp_path / "m")
    manifest = tmp_path / "m/manifest.json"
    manifest.write_bytes(manifest.read_bytes().replace(b'"engine":"file"', b'"engine":"fiLe"'))
    url, key = f"file:{tmp_path}/m", ("--key-file", str(stores / "keys.json")) if name == "sealed" else ()
    assert run_words(url, *key, "inspect", "--check") == 13
    assert run_words(url, *key, "inspect", "--repair") in {0, 13}
    for space in BOTH:
        assert run_words(url, *key, "recall", "which berth has boat 7?", space=space) == 0


def test_intact_content_is_served_again_and_the_damaged_file_preserved(stores: Path, tmp_path: Path) -> None:
    data = (stores / "m.db").read_bytes()
    (tmp_path / "m.db").write_bytes(bytes(4_096) + data[4_096:])  # the header and the schema are gone
    assert run_words(f"sqlite:{tmp_path}/m.db", "inspect", "--repair") == 0
    with elytron.open(tmp_path / "m.db", space="ada") as memory:
        assert {hit.text for hit in memory.list(limit=100).items} == set(SAID)
    assert (tmp_path / "m.db.damaged-1").read_bytes()[4_096:] == data[4_096:]


def test_a_store_with_a_removed_profile_is_repaired_too(stores: Path, tmp_path: Path) -> None:
    for engine in ("sqlite", "file"):
        shutil.copy(stores / "m.db", tmp_path / "m.db")
        shutil.copytree(stores / "m", tmp_path / "m")
        url, file = (
            (f"sqlite:{tmp_path}/m.db", "m.db") if engine == "sqlite" else (f"file:{tmp_path}/m", "m/manifest.json")
        )
        place = tmp_path / file
        place.write_bytes(place.read_bytes().replace(b"server-linux-dev-full", b"server-linux-dev-fulm"))
        assert run_words(url, "inspect", "--check") == 13
        assert run_words(url, "inspect", "--repair") == 0
        assert run_words(url, "recall", "which berth has boat 7?") == 0
        shutil.rmtree(tmp_path / "m")


async def test_content_of_the_wal_is_saved_too(tmp_path: Path) -> None:
    (tmp_path / "open").mkdir()
    async with elytron.open(tmp_path / "open/m.db", space="ada") as memory:
        for text in SAID:
            await memory.add(text)
        shutil.copytree(tmp_path / "open", tmp_path / "as-it-was")
    place = tmp_path / "as-it-was/m.db"
    with place.open("r+b") as file:
        file.write(bytes(200))
    report = await rescue_store(f"sqlite:{place}", clock=SystemClock(), repair=True)
    assert [problem.what for problem in report.problems] == ["the sqlite file"]
    async with elytron.open(place, space="ada") as memory:
        assert {hit.text for hit in (await memory.list(limit=100)).items} == set(SAID)


async def test_a_file_of_another_program_is_left_unchanged(tmp_path: Path) -> None:
    (tmp_path / "m.db").write_bytes(b"SQLite format 3\0" + bytes(8_000))
    with pytest.raises(StoreForeign):
        await rescue_store(f"sqlite:{tmp_path}/m.db", clock=SystemClock(), repair=True)
    assert [path.name for path in tmp_path.iterdir()] == ["m.db"]
    with pytest.raises(Unsupported):
        await rescue_store("memory:", clock=SystemClock(), repair=True)
