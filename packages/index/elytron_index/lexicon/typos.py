"""Words one slip of the keys away: a letter too many, missing, wrong, or two exchanged."""

from collections.abc import Callable, Iterable, Iterator
from string import ascii_lowercase
from typing import Final

LEAST_CHARS: Final = 5
"""Shorter words have too many neighbours that mean something else."""
MOST_CHARS: Final = 20


def near(term: str, among: Callable[[Iterable[str]], Iterable[str]], /) -> tuple[str, ...]:
    """Return the known terms one slip away from `term`, a word of plain letters, in order; `among` selects."""
    if not LEAST_CHARS <= len(term) <= MOST_CHARS or not (term.isascii() and term.isalpha()):
        return ()
    return tuple(sorted({*among(_slips(term))} - {term}))


def _slips(term: str) -> Iterator[str]:
    # The first letter is nearly always right.
    for at in range(1, len(term) + 1):
        head, tail = term[:at], term[at:]
        for letter in ascii_lowercase:
            yield head + letter + tail
            if tail:
                yield head + letter + tail[1:]
        if tail:
            yield head + tail[1:]
        if len(tail) > 1:
            yield head + tail[1] + tail[0] + tail[2:]
