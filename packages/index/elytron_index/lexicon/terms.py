"""The numbered terms of a space, and terms near a given one: spelling variants and words of similar meaning.

Terms from a checkpoint stay as they were read: bytes in the order of their numbers, with sorted checksums to find them,
so opening creates no object per term. Newer or recently requested terms are in a dictionary.

Related words come from a table of English stems with their nearest neighbours, read at first use. It was built once
from a sentence encoder's vectors of single words (see kin.txt) and does the small part of a model's work that needs no
model: "pet" reaches "dog", "injured" reaches "ankle". Weights determine how much related words count.
"""

from array import array
from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cache
from importlib.resources import files
from itertools import accumulate, pairwise
from string import ascii_lowercase
from typing import Final, NamedTuple, overload
from zlib import crc32

import numpy as np
from numpy.typing import NDArray

from elytron_core.lru_cache import remember_answers

TERM_BYTES = 160
"""Approximate memory of a term in the dictionary."""
_FEW = 64
"""Number of terms that are looked up one by one: missing ones are remembered."""
_MISSED_MOST = 1_024
"""Maximum number of missing terms that are remembered."""
# Terms may contain lone surrogates, which plain UTF-8 rejects.
_CODEC = ("utf-8", "surrogatepass")


class StoredTerms(NamedTuple):
    """Terms as stored in a checkpoint: number `n` is `text` from `bounds[n]` to `bounds[n + 1]`.

    `checks` are the terms' checksums, ascending, and `order` the number of each one's term.
    """

    text: NDArray[np.uint8]
    bounds: NDArray[np.uint32]
    checks: NDArray[np.uint32]
    order: NDArray[np.int32]

    @property
    def size(self) -> int:
        """Number of terms."""
        return len(self.bounds) - 1

    def terms(self) -> list[str]:
        """Return the terms in the order of their numbers."""
        text, bounds = self.text.tobytes(), self.bounds.tolist()
        return [text[start:end].decode(*_CODEC) for start, end in pairwise(bounds)]

    def term(self, number: int, /) -> str:
        """Return the term of a number."""
        return self.text[self.bounds[number] : self.bounds[number + 1]].tobytes().decode(*_CODEC)

    def purged(self, unused_numbers: Sequence[int], /) -> "StoredTerms":
        """Return a copy with zeros in place of the terms whose numbers are `unused_numbers`, and without their
        checksums."""
        purged_text, is_used = self.text.copy(), np.ones(self.size, np.bool_)
        for number in unused_numbers:
            purged_text[self.bounds[number] : self.bounds[number + 1]] = 0
            is_used[number] = False
        used_order = is_used[self.order]
        return StoredTerms(purged_text, self.bounds.copy(), self.checks[used_order], self.order[used_order])

    @property
    def size_bytes(self) -> int:
        return self.text.nbytes + self.bounds.nbytes + self.checks.nbytes + self.order.nbytes


KEPT_DTYPES = ("|u1", "<u4", "<u4", "<i4")


def pack_terms(terms: Sequence[str], /) -> StoredTerms:
    """Return the distinct `terms` packed in the order of their numbers."""
    encoded_terms = [term.encode(*_CODEC) for term in terms]
    bounds = np.fromiter(accumulate(map(len, encoded_terms), initial=0), np.uint32, len(terms) + 1)
    checks = np.fromiter(map(crc32, encoded_terms), np.uint32, len(terms))
    order = checks.argsort(kind="stable").astype(np.int32)
    return StoredTerms(np.frombuffer(b"".join(encoded_terms), np.uint8), bounds, checks[order], order)


class TermVocabulary:
    """The number of every term, ascending from 0 in order of arrival."""

    def __init__(self, stored_terms: StoredTerms | None = None, /) -> None:
        self._stored = stored_terms
        self._fresh: list[str] = []
        self._first = stored_terms.size if stored_terms is not None else 0
        """The number of the first of the fresh terms."""
        self.numbers: dict[str, int] = {}
        """Some terms with their numbers: recent ones and those that were looked up."""
        self._missed: set[str] = set()
        if stored_terms is not None:
            # Memory views give plain Python numbers, which a bisection compares faster than NumPy's.
            self._text = stored_terms.text.data
            self._bounds = stored_terms.bounds.data
            self._checks = stored_terms.checks.data
            self._order = stored_terms.order.data

    def __len__(self) -> int:
        return self._first + len(self._fresh)

    def __contains__(self, term: str, /) -> bool:
        return term in self.numbers or self.get(term) is not None

    @overload
    def get(self, term: str, /) -> int | None: ...

    @overload
    def get(self, term: str, default: int, /) -> int: ...

    def get(self, term: str, default: int | None = None, /) -> int | None:
        """Return the number of `term`, or `default`."""
        number = self.numbers.get(term)
        if number is None and self._stored is not None and term not in self._missed:
            number = self._look_up(term)
            if number is not None:
                self.numbers[term] = number
            else:
                self._miss(term)
        return default if number is None else number

    def among(self, terms: Iterable[str], /) -> list[str]:
        """Return those of `terms` that have a number, in order."""
        if self._stored is None:
            numbers = self.numbers
            return [term for term in terms if term in numbers]
        candidates = list(terms)
        if len(candidates) <= _FEW:
            return [term for term in candidates if term in self]
        checks = np.fromiter((crc32(term.encode(*_CODEC)) for term in candidates), np.uint32, len(candidates))
        check_places = self._stored.checks.searchsorted(checks)
        # The position may be after the last check, where a 0 is appended. The bytes decide in the end.
        likely_flags = np.append(self._stored.checks, 0).take(check_places) == checks
        return [term for term, is_likely in zip(candidates, likely_flags.tolist(), strict=True)
                if term in self.numbers or (is_likely and term in self)]  # fmt: skip

    def number_of(self, term: str, /) -> int:
        """Return the number of `term`, assigning a new one if it has none."""
        number = self.numbers.get(term) if self._stored is None else self.get(term)
        if number is None:
            number = self.numbers[term] = self._first + len(self._fresh)
            self._fresh.append(term)
        return number

    def terms(self) -> list[str]:
        """Return all terms in the order of their numbers."""
        return [*self._stored.terms(), *self._fresh] if self._stored is not None else self._fresh.copy()

    def to_stored(self) -> StoredTerms:
        """Return all terms as stored in a checkpoint."""
        return self._stored if self._stored is not None and not self._fresh else pack_terms(self.terms())

    def frozen(self) -> "TermVocabulary":
        """Return a snapshot of the terms, without lookup by number."""
        snapshot = TermVocabulary(self._stored)
        snapshot._fresh = self._fresh.copy()
        return snapshot

    def purged(self, is_used: NDArray[np.bool_], /) -> "TermVocabulary":
        """Return the terms marked by `is_used`, under their numbers, without the others; this object must no longer be
        used.

        What was learnt of this one finds by its identity that its numbers no longer hold.
        """
        unused_numbers: list[int] = np.flatnonzero(~is_used).tolist()
        stored_terms, first_number = self._stored, self._first
        for number in unused_numbers:
            if stored_terms is not None and number < first_number:
                self.numbers.pop(stored_terms.term(number), None)
            else:
                self.numbers.pop(self._fresh[number - first_number], None)
                self._fresh[number - first_number] = ""
        purged_vocabulary = TermVocabulary(
            stored_terms.purged([number for number in unused_numbers if number < first_number])
            if stored_terms
            else None
        )
        purged_vocabulary.numbers, purged_vocabulary._fresh = self.numbers, self._fresh
        self.numbers, self._fresh = {}, []
        return purged_vocabulary

    @property
    def size_bytes(self) -> int:
        """Approximate memory."""
        return TERM_BYTES * (len(self.numbers) + len(self._missed)) + (
            self._stored.size_bytes if self._stored is not None else 0
        )

    def _miss(self, term: str) -> None:
        """Remember that `term` is none of the stored terms: the same words are looked up again and again."""
        # Missing words come from queries, so that their number has no other bound.
        if len(self._missed) >= _MISSED_MOST:
            self._missed.clear()
        self._missed.add(term)

    def _look_up(self, term: str) -> int | None:
        """Return the number of one of the stored terms."""
        term_bytes = term.encode(*_CODEC)
        check = crc32(term_bytes)
        bounds, checks, order = self._bounds, self._checks, self._order
        check_place = bisect_left(checks, check)
        # Different terms may share a checksum, so the bytes decide.
        while check_place < len(checks) and checks[check_place] == check:
            number = order[check_place]
            if self._text[bounds[number] : bounds[number + 1]].tobytes() == term_bytes:
                return number
            check_place += 1
        return None


class LearntTerms:
    """The terms of a coming text, added to a vocabulary in batches, and their numbers in order."""

    def __init__(self, vocabulary: TermVocabulary, /) -> None:
        self.vocabulary = vocabulary
        self.numbers = array("Q")

    def add(self, terms: Iterable[str], /) -> None:
        """Add `terms`, the next ones of the text."""
        self.numbers.extend(map(self.vocabulary.number_of, terms))


LEAST_CHARS: Final = 5
"""Shorter words have too many unrelated neighbours."""
MOST_CHARS: Final = 20


def terms_near(term: str, among: Callable[[Iterable[str]], Iterable[str]], /) -> tuple[str, ...]:
    """Return the known terms one edit away from `term`, a word of plain letters, in order; `among` selects."""
    if not LEAST_CHARS <= len(term) <= MOST_CHARS or not (term.isascii() and term.isalpha()):
        return ()
    return tuple(sorted({*among(_spelling_slips(term))} - {term}))


def _spelling_slips(term: str) -> Iterator[str]:
    # The first letter is nearly always right.
    for end in range(1, len(term) + 1):
        start_letters, end_letters = term[:end], term[end:]
        for letter in ascii_lowercase:
            yield start_letters + letter + end_letters
            if end_letters:
                yield start_letters + letter + end_letters[1:]
        if end_letters:
            yield start_letters + end_letters[1:]
        if len(end_letters) > 1:
            yield start_letters + end_letters[1] + end_letters[0] + end_letters[2:]


FLOOR: Final = 0.35
"""Words less similar than this are not in the table."""
_LEAST: Final = 255 * FLOOR
"""Some are exactly at the floor and count for nothing."""


@remember_answers(4_096)
def related_stems(term: str, /) -> Mapping[str, float]:
    """Return the stems similar to `term`, most similar first, each with its similarity above `FLOOR` on a scale from 0
    to 1."""
    table = _load_table()
    stem_number = table.places.get(term)
    if stem_number is None:
        return {}
    start, end = table.starts[stem_number], table.starts[stem_number + 1]
    return {
        table.words[other_number]: (likeness / 255 - FLOOR) / (1 - FLOOR)
        for other_number, likeness in zip(
            table.others[start:end].tolist(), table.likeness[start:end].tolist(), strict=True
        )
        if likeness > _LEAST
    }


def is_known_stem(term: str, /) -> bool:
    """Return whether `term` is a stem of the table."""
    return term in _load_table().places


class _RelatedTable:
    """The arrays of the file, and the position of each word in them."""

    def __init__(self) -> None:
        with files("elytron_index").joinpath("kin.npz").open("rb") as file, np.load(file) as arrays:
            self.words = arrays["words"].tobytes().decode("ascii").split("\n")
            self.starts: list[int] = arrays["starts"].tolist()
            self.others = arrays["others"]
            self.likeness = arrays["likeness"]
        assert len(self.words) == len(self.starts) - 1
        self.places = {word: number for number, word in enumerate(self.words)}


@cache
def _load_table() -> _RelatedTable:
    return _RelatedTable()
