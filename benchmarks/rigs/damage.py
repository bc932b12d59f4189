"""Damage stores in every way, check and repair each, and compare what remains with what is recorded as lost.

    python -m benchmarks.rigs.damage [--stores 60] [--seed N]

Each store has two spaces with 35 memories each. One of its files is damaged in one place; then the command checks and
repairs it, and what remains is read. Prints a line for each store: the exit codes of the check and the repair, how many
of the 70 memories remain, and what the store has recorded as lost. Exits 1 if a command ended with a traceback, if a
text appeared that was never stored or belongs to another space, or if memories are missing from a store that the check
calls sound and that records no loss.
"""

import argparse
import asyncio
import random
import shutil
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from click.testing import CliRunner

import elytron
from benchmarks.rigs import tables
from elytron_cli.app import elytron_group
from elytron_core.clock import SystemClock
from elytron_core.errors import ElytronError
from elytron_core.ports.store import find_losses
from elytron_core.ports.store_checks import StoreLoss
from elytron_store import open_store

_SPACES = ("ada", "bob")
_EACH = 35
_BATCH = 5
_KINDS = ("sqlite", "file", "sealed sqlite", "sealed file")
Damage = Callable[[bytearray, random.Random], bytes | None]


def _bits(number: int) -> Damage:
    def flip(data: bytearray, chance: random.Random) -> bytes:
        for _ in range(number):
            data[chance.randrange(len(data))] ^= 1 << chance.randrange(8)
        return bytes(data)

    return flip


def _filled(value: int) -> Damage:
    def fill(data: bytearray, chance: random.Random) -> bytes:
        start = chance.randrange(len(data))
        end = min(len(data), start + chance.choice((100, 4_096, 9_000)))
        return bytes(data[:start]) + bytes([value]) * (end - start) + bytes(data[end:])

    return fill


def _cut(data: bytearray, chance: random.Random) -> bytes:
    return bytes(data[: chance.randrange(len(data) // 10, len(data))])


def _cut_tail(data: bytearray, chance: random.Random) -> bytes:
    return bytes(data[: -chance.randrange(1, 300)])


def _doubled(data: bytearray, chance: random.Random) -> bytes:
    at = chance.randrange(len(data) - 64)
    return bytes(data[: at + 64]) + bytes(data[at:])


def _inserted(data: bytearray, chance: random.Random) -> bytes:
    at = chance.randrange(len(data))
    return bytes(data[:at]) + chance.randbytes(64) + bytes(data[at:])


_DAMAGES: Mapping[str, Damage] = {
    "one bit": _bits(1),
    "20 bits": _bits(20),
    "cut": _cut,
    "tail cut": _cut_tail,
    "zeros": _filled(0),
    "0xff": _filled(255),
    "emptied": lambda _data, _chance: b"",
    "deleted": lambda _data, _chance: None,
    "64 bytes doubled": _doubled,
    "64 bytes put in": _inserted,
}


@dataclass(slots=True)
class DamagedStore:
    """One store and its results."""

    kind: str
    damage: str
    file: str = ""
    check: int = 0
    repair: int = 0
    left: int = 0
    losses: Sequence[StoreLoss] = ()
    faults: list[str] = field(default_factory=list[str])


@dataclass(frozen=True, slots=True)
class Sample:
    """A sound store of one kind, copies of which are damaged."""

    kind: str
    folder: Path
    keys: elytron.FileKeys | None

    @property
    def scheme(self) -> str:
        return self.kind.split()[-1]

    def url_at(self, folder: Path, /) -> str:
        return f"sqlite:{folder}/m.db" if self.scheme == "sqlite" else f"file:{folder}/m"


def _texts(space: str) -> list[str]:
    return [f"The boat {space} {number} lies at berth {number * 7}." for number in range(_EACH)]


def make_sample(kind: str, folder: Path, /) -> Sample:
    """Create a store of `kind` in `folder`, with some memories stored one by one and others in batches."""
    folder.mkdir()
    keys = elytron.FileKeys.create(folder / "keys.json") if kind.startswith("sealed") else None
    sample = Sample(kind, folder, keys)
    for space in _SPACES:
        texts = _texts(space)
        with elytron.open(sample.url_at(folder), space=space, keys=keys) as memory:
            for text in texts[:20]:
                memory.add(text, speaker="Ada")
            for start in range(20, _EACH, _BATCH):
                memory.add(texts[start : start + _BATCH], speaker="Ada")
    return sample


def try_damage(sample: Sample, damage: str, folder: Path, chance: random.Random, /) -> DamagedStore:
    """Damage a copy of `sample` in `folder`, check and repair it, and read what remains."""
    shutil.copytree(sample.folder, folder)
    url = sample.url_at(folder)
    key = ("--key-file", str(folder / "keys.json")) if sample.keys else ()
    tried = DamagedStore(sample.kind, damage)
    files = [folder / "m.db"] if sample.scheme == "sqlite" else sorted((folder / "m/spaces").rglob("log"))
    file = chance.choice(files)
    tried.file = file.name
    data = _DAMAGES[damage](bytearray(file.read_bytes()), chance)
    if data is None:
        file.unlink()
    else:
        file.write_bytes(data)
    tried.check = _run(tried, url, *key, "inspect", "--check")
    tried.repair = _run(tried, url, *key, "inspect", "--check", "--repair")
    if not file.exists() and sample.scheme == "sqlite":
        return tried
    keys = elytron.FileKeys(folder / "keys.json") if sample.keys else None
    for space in _SPACES:
        tried.left += _count_left(tried, url, space, keys)
    tried.losses = asyncio.run(_find_losses(url, keys))
    is_told = bool(tried.losses) or _run(tried, url, *key, "inspect", "--check") != 0 or tried.repair != 0
    if tried.left < len(_SPACES) * _EACH and not is_told:
        tried.faults.append("sound, though memories are gone")
    return tried


def _run(tried: DamagedStore, url: str, *words: str) -> int:
    done = CliRunner().invoke(elytron_group, ["--store", url, "--space", _SPACES[0], *words])
    if done.exception is not None and not isinstance(done.exception, SystemExit):
        tried.faults.append(f"a traceback: {done.exception!r}"[:200])
    return done.exit_code


def _count_left(tried: DamagedStore, url: str, space: str, keys: elytron.FileKeys | None) -> int:
    try:
        with elytron.open(url, space=space, keys=keys) as memory:
            texts = {hit.text for hit in memory.list(limit=500).items}
    except ElytronError:
        return 0
    for text in texts - set(_texts(space)):
        is_others = any(text in _texts(other) for other in _SPACES)
        tried.faults.append(f"{'of another space' if is_others else 'never stored'}: {text!r}")
    return len(texts & set(_texts(space)))


async def _find_losses(url: str, keys: elytron.FileKeys | None) -> Sequence[StoreLoss]:
    try:
        store = await open_store(url, clock=SystemClock(), keys=keys)
    except ElytronError:
        return ()
    try:
        return await find_losses(store)
    finally:
        await store.close()


def run(stores: int, seed: int, folder: Path, /) -> list[DamagedStore]:
    """Damage `stores` stores of each kind in turn and in each way."""
    chance = random.Random(seed)
    samples = [make_sample(kind, folder / f"sample{number}") for number, kind in enumerate(_KINDS)]
    ways = list(_DAMAGES)
    tried: list[DamagedStore] = []
    for number in range(stores):
        # Within 40 stores, every way of damage meets every kind of store.
        way = ways[(number // len(samples) + 3 * number) % len(ways)]
        place = folder / f"damaged{number}"
        tried.append(try_damage(samples[number % len(samples)], way, place, chance))
        shutil.rmtree(place)
    return tried


def main(argv: Sequence[str] | None = None) -> int:
    """Run the rig and return the exit code."""
    parser = argparse.ArgumentParser(description="damage stores, repair them, and compare what they serve and say")
    parser.add_argument("--stores", type=int, default=60)
    parser.add_argument("--seed", type=int, default=None, help="repeat the choices of an earlier run")
    options = parser.parse_args(argv)
    seed = tables.seed_of(options.seed)
    folder = Path(tempfile.mkdtemp(prefix="elytron-damage-", dir=tables.memory_folder()))
    try:
        tried = run(options.stores, seed, folder)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    tables.show([_row(each) for each in tried])
    for each in tried:
        for fault in each.faults:
            print(f"{each.kind}, {each.damage}: {fault}")
    whole = len(_SPACES) * _EACH
    print(
        f"{sum(each.left == whole for each in tried)} of {len(tried)} stores lost nothing, "
        f"{sum(bool(each.faults) for each in tried)} are at fault"
    )
    return 1 if any(each.faults for each in tried) else 0


def _row(tried: DamagedStore) -> dict[str, str]:
    return {
        "store": tried.kind,
        "damage": tried.damage,
        "check": str(tried.check),
        "repair": str(tried.repair),
        "left": f"{tried.left} of {len(_SPACES) * _EACH}",
        "recorded as lost": "; ".join(
            f"{loss.space or 'unknown'}: {loss.documents} documents, {loss.entries} entries" for loss in tried.losses
        ),
        "fault": "fault" if tried.faults else "",
    }


if __name__ == "__main__":
    raise SystemExit(main())
