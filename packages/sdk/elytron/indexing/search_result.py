"""A search of a space's messages, and what it found."""

from dataclasses import dataclass

from elytron_core.ids import SpaceId
from elytron_index import Candidates, IndexQuery
from elytron_index.space_index import SpaceIndex


@dataclass(frozen=True, slots=True)
class Searched:
    """What was looked for in which space, and what was found there."""

    space: SpaceId
    index: SpaceIndex
    query: IndexQuery
    found: Candidates
    has_passages: bool
    """Whether the query's vector is to be compared with those of passages too."""

    @property
    def is_assisted(self) -> bool:
        """Whether assistants and those who talk with them were found among each other."""
        return self.found.highs.owner > 0.0
