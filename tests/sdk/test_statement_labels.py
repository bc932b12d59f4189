"""The effect of a custom statement classifier on recall and projection."""

from collections.abc import Sequence
from pathlib import Path

import pytest

import elytron
from elytron_core.ports.models import StatementLabel

pytestmark = pytest.mark.anyio


class Naming:
    """Treats texts with a word as standing."""

    def __init__(self, word: str) -> None:
        self.word = word
        self.asked = 0

    @property
    def version(self) -> str:
        return self.word

    def classify(self, texts: Sequence[str], /) -> Sequence[frozenset[StatementLabel]]:
        self.asked += len(texts)
        return [frozenset((StatementLabel.STANDING,)) if self.word in text else frozenset() for text in texts]


async def wished(path: Path, statements: Naming) -> list[bool]:
    """Return whether a block shows each of two statements as a wish."""
    async with elytron.open(path, statements=statements) as memory:
        block = (await memory.project("Plan my day.")).system_memory_block
    section = block.partition("Lasting wishes")[2].partition("Recent messages")[0]
    return ["ferries" in section, "buses" in section]


async def test_an_index_is_rebuilt_for_another_classifier_version(tmp_path: Path) -> None:
    path = tmp_path / "memory.db"
    ferries = Naming("ferries")
    async with elytron.open(path, statements=ferries) as memory:
        await memory.add("No ferries for me.")
        await memory.add("No buses for me.")
    assert await wished(path, ferries) == [True, False]
    assert await wished(path, Naming("buses")) == [False, True]
