"""Text scores of a query in a space, read once for all planes with the same query."""

from dataclasses import dataclass

from elytron_core.policy.ranking.best_sentence import Sought
from elytron_index.query import IndexQuery
from elytron_index.search import bm25, max_score
from elytron_index.search.bm25 import Terms, Texts
from elytron_index.search.max_score import Skipping
from elytron_index.structures.state import State


@dataclass(frozen=True, slots=True)
class Read:
    """The terms of a query, and their scores of every row without filters."""

    asked: tuple[object, ...]
    terms: Terms
    said: Texts | Skipping

    def sought(self) -> Sought:
        """Return what the query's words, names apart, are in single sentences."""
        stands_for: dict[str, list[tuple[int, float]]] = {}
        for place, (word, others) in enumerate(zip(self.terms.words, self.said.related, strict=True)):
            for term, share in ((word, 1.0), *others.items()):
                stands_for.setdefault(term, []).append((place, share))
        return Sought(stands_for, self.worths())

    def worths(self) -> list[float]:
        """Return what each of the words is worth by its rarity here."""
        said = self.said
        worths = [word.idf for word in said.body] if isinstance(said, Skipping) else said.held.idf.tolist()
        return worths[: len(self.terms.words)]


class Reading:
    """Scores of the last query's words, kept for the next, since a recall asks for one plane after the other.

    It is stored beside its state and not in it, so that a state is freed with its last holder.
    """

    def __init__(self) -> None:
        self._kept: Read | None = None

    def of(self, state: State, query: IndexQuery, /) -> Read:
        """Return the scores of the words of `query` in `state`, which is unchanged since this was made or cleared."""
        is_large = max_score.serves(state, query)
        asked = (is_large, query.text, query.weights, query.bm25)
        kept = self._kept
        if kept is None or kept.asked != asked:
            terms = bm25.terms_of(state, query.text)
            said = max_score.read(state, query, terms) if is_large else bm25.read(state, query, terms)
            kept = self._kept = Read(asked, terms, said)
        return kept

    def forget(self) -> None:
        """Keep nothing."""
        self._kept = None
