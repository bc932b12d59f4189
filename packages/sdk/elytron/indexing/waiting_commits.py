"""Commits of this runtime waiting to be folded into indexes, and the terms of long texts, counted in steps."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import TYPE_CHECKING

from elytron.indexing.units import embedded_of_value, source_of, subject_names, value_change
from elytron_core.model import Value
from elytron_core.planes.embedding import EmbeddingChoice, VectorSet
from elytron_core.planes.subjects import Subject
from elytron_core.ports.store import DocumentRef, JournalEntry, WorkSteps
from elytron_core.text.analyser import TextAnalyser
from elytron_index import DocumentChange, EmbeddedDocument, SearchUnit

if TYPE_CHECKING:
    from elytron_index.lexicon.terms import LearntTerms
    from elytron_index.space_index import SpaceIndex


LONG_CHARS = 1 << 16
"""A longer text is analysed in steps, between which other tasks run."""
MANY_CHARS = 1 << 18
"""So are texts longer than this together; bulk writes bring less at a time, and keep their pace."""
_TERMS_AT_ONCE = 1_024


@dataclass(frozen=True, slots=True)
class FedCommit:
    """A commit of this runtime, queued until it is folded: its first sequence, last entry, documents for the index, and
    the collections of everything its entries name."""

    first: int
    mark: JournalEntry
    documents: Mapping[DocumentRef, Value]
    touched: frozenset[str]


def fed_commit(entries: Sequence[JournalEntry], documents: Mapping[DocumentRef, Value], /) -> FedCommit:
    """Return a commit by its journal entries, with its documents for the index."""
    touched_collections = frozenset(entry.ref.collection for entry in entries)
    return FedCommit(entries[0].sequence, entries[-1], documents, touched_collections)


@dataclass(slots=True)
class ParsedCommit:
    """A commit's part for an index. `embedding` is the model that it chose, if any."""

    first: int
    mark: JournalEntry
    changes: list[DocumentChange]
    embedded: list[EmbeddedDocument]
    embedding: EmbeddingChoice | None
    touched: frozenset[str]
    is_counted: bool = False


@dataclass(slots=True)
class WaitingCommits:
    """Queued commits of a space that are not folded yet, in order."""

    fed: list[FedCommit] = field(default_factory=list[FedCommit])
    """The latest commits, unparsed, so that their writers need not wait for parsing."""
    parsed: list[ParsedCommit] = field(default_factory=list[ParsedCommit])
    documents: int = 0
    chars: int = 0
    """Number of its characters whose terms are not counted yet."""
    longest: int = 0
    """Length of the longest of those texts."""

    @property
    def newest(self) -> JournalEntry:
        """The last queued entry."""
        return (self.fed or self.parsed)[-1].mark

    def add(self, commit: FedCommit, /) -> None:
        """Append the next commit."""
        self.fed.append(commit)
        self.documents += len(commit.documents)

    def take(self) -> Sequence[ParsedCommit]:
        """Return the index changes of everything queued."""
        for commit in self.fed:
            parsed_commit = _take_commit(commit)
            self.parsed.append(parsed_commit)
            text_sizes = _change_sizes(parsed_commit.changes)
            self.chars += sum(text_sizes)
            self.longest = max(self.longest, *text_sizes, 0)
        self.fed.clear()
        return self.parsed

    def takes_long(self) -> bool:
        """Return whether folding it at once would delay other tasks."""
        self.take()
        return self.chars > MANY_CHARS or self.longest > LONG_CHARS

    async def count(self, analyser: TextAnalyser, index: "SpaceIndex", /) -> None:
        """Count the terms of the queue, and of later commits, if that is more than `index` handles at once."""
        while self.takes_long():
            self.chars = self.longest = 0
            for part in self.parsed:
                if not part.is_counted:
                    part.changes = await count_terms(analyser, part.changes, index)
                    part.is_counted = True


def _take_commit(fed: FedCommit) -> ParsedCommit:
    """Return the index changes of `fed`."""
    parsed_commit = ParsedCommit(fed.first, fed.mark, [], [], None, fed.touched)
    # The journal names the documents in the order in which they were written.
    for sequence, (ref, value) in enumerate(fed.documents.items(), fed.first):
        if isinstance(value, VectorSet):
            parsed_commit.embedded.append(embedded_of_value(*source_of(ref), value))
        elif isinstance(value, EmbeddingChoice):
            parsed_commit.embedding = value
        elif isinstance(value, Subject):
            parsed_commit.changes.append(DocumentChange(ref, called=subject_names(value)))
        else:
            parsed_commit.changes.append(value_change(ref, value, sequence, fed.documents))
    return parsed_commit


def take_long(changes: Sequence[DocumentChange], /) -> bool:
    """Return whether folding `changes` at once would delay other tasks."""
    text_sizes = _change_sizes(changes)
    return sum(text_sizes) > MANY_CHARS or max(text_sizes, default=0) > LONG_CHARS


def _change_sizes(changes: Sequence[DocumentChange]) -> list[int]:
    return [len(unit.text) for change in changes for unit in change.units]


async def count_terms(
    analyser: TextAnalyser, changes: Sequence[DocumentChange], index: "SpaceIndex", /
) -> list[DocumentChange]:
    """Return `changes` with the terms of their texts counted, in steps between which other tasks run.

    The index then has the terms of long texts.
    """
    counted_changes: list[DocumentChange] = []
    work_steps = WorkSteps()
    for change in changes:
        units: list[SearchUnit] = []
        for unit in change.units:
            counts: Counter[str] = Counter()
            for terms in analyser.steps(unit.text) if unit.counts is None else ():
                counts.update(terms)
                await work_steps.step()
            has_counts = unit.counts is not None
            units.append(unit if has_counts else unit._replace(counts=counts, learnt=await _learn_terms(counts, index)))
        counted_changes.append(replace(change, units=tuple(units)))
    return counted_changes


async def _learn_terms(terms: Mapping[str, int], index: "SpaceIndex") -> "LearntTerms | None":
    """Return `terms` as `index` learnt them, in such steps too; None for few."""
    if len(terms) <= _TERMS_AT_ONCE:
        return None
    learnt_terms, remaining_terms, work_steps = index.learnt(), iter(terms), WorkSteps()
    while next_terms := list(islice(remaining_terms, _TERMS_AT_ONCE)):
        learnt_terms.add(next_terms)
        await work_steps.step()
    return learnt_terms
