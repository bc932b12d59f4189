"""A search of a space's messages, and what it found."""

from dataclasses import dataclass

from elytron_core.ids import SpaceId
from elytron_index import FoundCandidates, IndexQuery
from elytron_index.space_index import SpaceIndex


@dataclass(frozen=True, slots=True)
class SearchedSpace:
    """A search in a space, and its result."""

    space: SpaceId
    index: SpaceIndex
    query: IndexQuery
    found: FoundCandidates
    has_passages: bool
    """True if the query's vector is to be compared with those of passages too."""

    @property
    def is_assisted(self) -> bool:
        """True if messages of assistants and of their users were found together."""
        return self.found.highs.owner > 0.0
