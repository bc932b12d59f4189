"""An index at one moment, to be compacted or stored by another thread while the index itself goes on.

It shares what never changes below its size (columns, postings, refs) and what is copied before it is written over
(vectors). The rest is copied, which takes a few milliseconds for a hundred thousand units.
"""

from dataclasses import dataclass, replace

import numpy as np

from elytron_index.lexicon.terms import Vocabulary, kept_terms
from elytron_index.structures.columns import Columns, Rows
from elytron_index.structures.filter_masks import NAMED, Names
from elytron_index.structures.postings import Segment, merged, renumbered
from elytron_index.structures.row_map import Refs
from elytron_index.structures.vectors import ModelVectors


@dataclass(frozen=True, slots=True)
class Frozen:
    """The parts of an index at one moment."""

    columns: Columns
    names: Names
    refs: Refs
    threaded: Rows
    """The living rows of the threads, thread after thread, each in order."""
    vocabulary: Vocabulary
    segments: list[Segment]
    models: dict[str, ModelVectors]
    compared: str
    called: dict[str, tuple[str, ...]]

    def compacted(self) -> "Frozen":
        """Return the same without what is gone, terms and names included, and each thread's units side by side."""
        old = self.columns
        if not old.dead:
            return self
        loose = np.flatnonzero(old.alive[: old.size] & (old.thread[: old.size] == 0)).astype(np.int32)
        rows = np.concatenate((loose, self.threaded))
        numbers = np.zeros(old.size, np.int32)
        numbers[rows] = np.arange(1, len(rows) + 1, dtype=np.int32)
        columns, names = old.take(rows), self.names.copy()
        for name in NAMED:
            column = getattr(columns, name)
            column[:] = getattr(names, name).shrink(column)
        terms, segment = renumbered(self.vocabulary.terms(), self.segments, numbers)
        moved = {model: vectors.renumbered(numbers) for model, vectors in self.models.items()}
        models = {model: vectors for model, vectors in moved.items() if vectors.count}
        refs = self.refs.taken(rows)
        vocabulary = Vocabulary(kept_terms(terms))
        threaded = numbers[self.threaded]
        return Frozen(columns, names, refs, threaded, vocabulary, [segment], models, self.compared, self.called)

    def settled(self) -> "Frozen":
        """Return the same with small segments of postings joined."""
        return replace(self, segments=merged(self.segments, self.columns.alive))
