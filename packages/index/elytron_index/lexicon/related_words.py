"""Words that are alike in meaning: a table of English stems, each with its likest others, read at first use.

It was made once from a sentence encoder's vectors of single words (see kin.txt) and does the small part of a model's
work that needs none: "pet" reaches "dog", "injured" reaches "ankle". Weights decide what related words count.
"""

from collections.abc import Mapping
from functools import cache, lru_cache
from importlib.resources import files
from typing import Final

import numpy as np

FLOOR: Final = 0.35
"""Words less alike than this are not in the table."""
_LEAST: Final = 255 * FLOOR
"""Some are at the floor to the last byte; they count for nothing."""


@lru_cache(maxsize=4_096)
def related_stems(term: str, /) -> Mapping[str, float]:
    """Return the stems like `term`, likest first, each with its likeness above `FLOOR` on a scale from 0 to 1."""
    table = _load_table()
    place = table.places.get(term)
    if place is None:
        return {}
    start, end = table.starts[place], table.starts[place + 1]
    return {
        table.words[other]: (likeness / 255 - FLOOR) / (1 - FLOOR)
        for other, likeness in zip(table.others[start:end].tolist(), table.likeness[start:end].tolist(), strict=True)
        if likeness > _LEAST
    }


def is_known_stem(term: str, /) -> bool:
    """Return whether `term` is a stem of the table."""
    return term in _load_table().places


class _RelatedTable:
    """The arrays of the file, and the place of each word in them."""

    def __init__(self) -> None:
        with files("elytron_index").joinpath("kin.npz").open("rb") as file, np.load(file) as arrays:
            self.words = arrays["words"].tobytes().decode("ascii").split("\n")
            self.starts: list[int] = arrays["starts"].tolist()
            self.others = arrays["others"]
            self.likeness = arrays["likeness"]
        assert len(self.words) == len(self.starts) - 1
        self.places = {word: place for place, word in enumerate(self.words)}


@cache
def _load_table() -> _RelatedTable:
    return _RelatedTable()
