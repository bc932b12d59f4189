"""Likeness of each unit's text to a query by the text vectors that ship: one scan of whole numbers.

All sums are of whole numbers, so that a likeness depends on the two texts alone.
"""

import numpy as np
from numpy.typing import NDArray

from elytron_index.dot_product import dots_type, scan
from elytron_index.lexicon.text_vectors import DIMENSIONS, TextVectors, encode, length
from elytron_index.search.top_k import highest
from elytron_index.structures.columns import Columns, Mask
from elytron_index.structures.visibility import Lines

Floats = NDArray[np.float64]
Rows = NDArray[np.int64]


class TextLikeness:
    """The likeness of one query to every row: a cosine, 0 if either text has no known word."""

    __slots__ = ("_cosines", "share")

    def __init__(self, columns: Columns, text: str, /) -> None:
        table = TextVectors.load()
        asked = encode(table.vector(text)[None])[0]
        asked_length = length(asked)
        self.share = table.vocabulary.share(text) if asked_length else 0.0
        """Share of the query that the table knows."""
        self._cosines = np.zeros(columns.size, np.float32)
        if asked_length:
            found = np.zeros(columns.size, dots_type(DIMENSIONS))
            scan(asked, columns.text_vector[: columns.size].view(np.int8).reshape(-1, DIMENSIONS), found)
            lengths = columns.text_length[: columns.size] * np.float32(asked_length)
            np.divide(found, lengths, out=self._cosines, where=lengths > 0.0)

    def nearest(self, asked: Mask, wanted: int, /) -> Rows:
        """Return the `wanted` most alike of the rows `asked`, with all that equal the last of them."""
        rows: Rows = (asked & (self._cosines > 0.0)).nonzero()[0]
        return rows[highest(self.at(rows), wanted)] if len(rows) > wanted else rows

    def at(self, rows: Lines | Rows, /) -> Floats:
        """Return the likeness of each of `rows`; row 0 has none."""
        return self._cosines.take(rows).astype(np.float64)
