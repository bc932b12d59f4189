"""What this runtime wrote, on its way into the index of its space: the fold need not read it from the store again."""

import asyncio
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from elytron.embedding.places import source_of
from elytron.units import Recallable, embedded_of_value, units_of_value
from elytron_core.planes.embedding import EmbeddingChoice, VectorSet
from elytron_core.ports.store import JournalEntry, Ref
from elytron_core.text.analyser import Analyser
from elytron_index import Change, Embedded, Unit

AT_ONCE_CHARS = 1 << 16
"""Texts of so many characters together are taken apart at once; more in steps, between which others have their turn."""


@dataclass(frozen=True, slots=True)
class Fed:
    """What a commit of this runtime wrote, kept until it is folded: its first sequence, last entry, and documents."""

    first: int
    mark: JournalEntry
    written: Mapping[Ref, Recallable | VectorSet | EmbeddingChoice]


@dataclass(slots=True)
class Taken:
    """What an index is to be given of a commit; `compare` is the model that it chose, if it chose one."""

    first: int
    mark: JournalEntry
    changes: list[Change]
    embedded: list[Embedded]
    compare: str | None


@dataclass(slots=True)
class Waiting:
    """What was fed of a space and is not folded yet, in its order."""

    taken: list[Taken] = field(default_factory=list[Taken])
    documents: int = 0
    chars: int = 0
    """How many characters of it nobody has counted the terms of."""

    def add(self, fed: Fed, /) -> None:
        """Take in what comes next."""
        changes: list[Change] = []
        embedded: list[Embedded] = []
        compare = None
        for ref, value in fed.written.items():
            if isinstance(value, VectorSet):
                embedded.append(embedded_of_value(*source_of(ref), value))
            elif isinstance(value, EmbeddingChoice):
                compare = value.tag
            else:
                changes.append(Change(ref, units_of_value(ref, value)))
        self.taken.append(Taken(fed.first, fed.mark, changes, embedded, compare))
        self.documents += len(fed.written)
        self.chars += chars_of(changes)

    async def count(self, analyser: Analyser, /) -> None:
        """Count the terms of what waits, and of what comes meanwhile, where that is more than is counted at once."""
        while self.chars > AT_ONCE_CHARS:
            self.chars = 0
            for taken in self.taken:
                taken.changes = await counted(analyser, taken.changes)


def chars_of(changes: Sequence[Change], /) -> int:
    """Return how long the texts of `changes` are together."""
    return sum(len(unit.text) for change in changes for unit in change.units)


async def counted(analyser: Analyser, changes: Sequence[Change], /) -> list[Change]:
    """Return `changes` with the terms of their texts counted, in steps between which everybody else has his turn."""
    return [
        replace(change, units=tuple([await _counted(analyser, unit) for unit in change.units])) for change in changes
    ]


async def _counted(analyser: Analyser, unit: Unit) -> Unit:
    if unit.counts is not None:
        return unit
    counts: Counter[str] = Counter()
    for terms in analyser.steps(unit.text):
        counts.update(terms)
        await asyncio.sleep(0)
    return unit._replace(counts=counts)
