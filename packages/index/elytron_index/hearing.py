"""Which words of a query nobody says in a space, nor anything alike: what was never spoken of is hardly answered."""

import re
from collections.abc import Sequence
from collections.abc import Set as AbstractSet
from itertools import compress
from typing import Final, NamedTuple

from elytron_core.text import stopwords
from elytron_core.text.analyser import Analyser
from elytron_index import kin

_WORD: Final = re.compile(r"\w+(?:[-.'’]\w+)*")


class Unheard(NamedTuple):
    """Words that no unit holds, in no field, and none of their kin."""

    words: tuple[str, ...]
    known: int
    """So many of them have kin that could have been there: where none of it is, what they mean was not spoken of."""


def unheard(
    words: Sequence[str], every: Sequence[str], /, *, in_text: Sequence[bool], in_title: Sequence[bool]
) -> Unheard:
    """Return the `words` that nobody says, where `in_text` tells of them, and `in_title` of `every` term, who is held.

    Words that only say how an answer is wanted, pairs of characters and numbers are none of them.
    """
    if all(in_text):
        return Unheard((), 0)
    titled = frozenset(compress(every, in_title))
    silent = tuple(
        word
        for word, is_held in zip(words, in_text, strict=True)
        if not is_held and word not in titled and word.isascii() and word.isalpha() and not _is_form(word)
    )
    return Unheard(silent, sum(map(kin.knows, silent)))


def spelt(analyser: Analyser, text: str, terms: AbstractSet[str], /) -> tuple[str, ...]:
    """Return the words of `text` that are, or have in them, one of `terms`, as they are written there."""
    words = dict.fromkeys(_WORD.findall(text))
    return tuple(word for word in words if not terms.isdisjoint(analyser.query_terms(word)))


def _is_form(word: str) -> bool:
    return word in stopwords.ASKING or word in stopwords.FORMS
