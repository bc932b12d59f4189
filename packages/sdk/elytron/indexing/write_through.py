"""Write-through queue: documents committed by this runtime, folded into the index without reading them back."""

import asyncio
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import TYPE_CHECKING

from elytron.indexing.units import called, embedded_of_value, source_of, units_of_value
from elytron_core.model import Value
from elytron_core.planes.embedding import EmbeddingChoice, VectorSet
from elytron_core.planes.subjects import Subject
from elytron_core.ports.store import JournalEntry, Ref
from elytron_core.text.analyser import Analyser
from elytron_index import Change, Embedded, Unit

if TYPE_CHECKING:
    from elytron_index.lexicon.terms import Learnt
    from elytron_index.space_index import SpaceIndex

LONG_CHARS = 1 << 16
"""A longer text is taken apart in steps, between which others have their turn."""
MANY_CHARS = 1 << 18
"""So are texts that are longer than this together: what bulk writes bring at a time is not, and keeps their pace."""
_TERMS_AT_ONCE = 1_024


@dataclass(frozen=True, slots=True)
class Fed:
    """A commit of this runtime, kept until it is folded: its first sequence, last entry, and documents."""

    first: int
    mark: JournalEntry
    written: Mapping[Ref, Value]


@dataclass(slots=True)
class Taken:
    """A commit's part for an index; `compare` is the model that it chose, if any."""

    first: int
    mark: JournalEntry
    changes: list[Change]
    embedded: list[Embedded]
    compare: str | None
    is_counted: bool = False


@dataclass(slots=True)
class Waiting:
    """Queued commits of a space that are not folded yet, in order."""

    fed: list[Fed] = field(default_factory=list[Fed])
    """The latest commits, unparsed: their writers need not wait for it."""
    taken: list[Taken] = field(default_factory=list[Taken])
    documents: int = 0
    chars: int = 0
    """Number of its characters whose terms are not counted yet."""
    longest: int = 0
    """Length of the longest of those texts."""

    @property
    def newest(self) -> JournalEntry:
        """The last entry of all that waits."""
        return (self.fed or self.taken)[-1].mark

    def add(self, fed: Fed, /) -> None:
        """Take note of what comes next."""
        self.fed.append(fed)
        self.documents += len(fed.written)

    def take(self) -> Sequence[Taken]:
        """Return what an index is to be given of all that was fed."""
        for fed in self.fed:
            taken = _taken(fed)
            self.taken.append(taken)
            sizes = _sizes(taken.changes)
            self.chars += sum(sizes)
            self.longest = max(self.longest, *sizes, 0)
        self.fed.clear()
        return self.taken

    def takes_long(self) -> bool:
        """Return whether folding it at once would keep others waiting."""
        self.take()
        return self.chars > MANY_CHARS or self.longest > LONG_CHARS

    async def count(self, analyser: Analyser, index: "SpaceIndex", /) -> None:
        """Count the terms of the queue, and of later commits, if that is more than `index` takes at once."""
        while self.takes_long():
            self.chars = self.longest = 0
            for taken in self.taken:
                if not taken.is_counted:
                    taken.changes = await counted(analyser, taken.changes, index)
                    taken.is_counted = True


def _taken(fed: Fed) -> Taken:
    """Return what an index is to be given of `fed`."""
    taken = Taken(fed.first, fed.mark, [], [], None)
    for ref, value in fed.written.items():
        if isinstance(value, VectorSet):
            taken.embedded.append(embedded_of_value(*source_of(ref), value))
        elif isinstance(value, EmbeddingChoice):
            taken.compare = value.tag
        elif isinstance(value, Subject):
            taken.changes.append(Change(ref, called=called(value)))
        else:
            taken.changes.append(Change(ref, units_of_value(ref, value)))
    return taken


def take_long(changes: Sequence[Change], /) -> bool:
    """Return whether folding `changes` at once would keep others waiting."""
    sizes = _sizes(changes)
    return sum(sizes) > MANY_CHARS or max(sizes, default=0) > LONG_CHARS


def _sizes(changes: Sequence[Change]) -> list[int]:
    return [len(unit.text) for change in changes for unit in change.units]


async def counted(analyser: Analyser, changes: Sequence[Change], index: "SpaceIndex", /) -> list[Change]:
    """Return `changes` with the terms of their texts counted, in steps between which other tasks have their turn.

    The index then has the terms of long texts.
    """
    found: list[Change] = []
    done = 0
    for change in changes:
        units: list[Unit] = []
        for unit in change.units:
            counts: Counter[str] = Counter()
            for terms in analyser.steps(unit.text) if unit.counts is None else ():
                counts.update(terms)
                done += len(terms)
                if done >= _TERMS_AT_ONCE:
                    done = 0
                    await asyncio.sleep(0)
            is_counted = unit.counts is not None
            units.append(unit if is_counted else unit._replace(counts=counts, learnt=await _learnt(counts, index)))
        found.append(replace(change, units=tuple(units)))
    return found


async def _learnt(terms: Mapping[str, int], index: "SpaceIndex") -> "Learnt | None":
    """Return `terms` as `index` learnt them, in such steps too; None for few."""
    if len(terms) <= _TERMS_AT_ONCE:
        return None
    learnt, coming = index.learnt(), iter(terms)
    while some := list(islice(coming, _TERMS_AT_ONCE)):
        learnt.add(some)
        await asyncio.sleep(0)
    return learnt
