"""The sentences of a long text that say most of what a query asks for."""

import re
from collections import Counter
from collections.abc import Sequence
from itertools import pairwise
from typing import Final

READ_CHARS: Final = 40_000
"""The part of a text that is looked through."""
TERMS_MOST: Final = 24
"""The most terms of a query that are looked for."""
SENTENCE_CHARS: Final = 400
"""A longer sentence is taken as several."""
BESIDE: Final = 0.4
"""The share that a sentence gets of its better neighbour's worth: it may explain the one before it."""
FIRST: Final = 0.1
"""The worth of the first sentence by itself: it says what the others are about."""
BETWEEN: Final = " … "
"""Replaces sentences that were left out."""

SENTENCE: Final = re.compile(rf"[^.!?。！？\n]{{1,{SENTENCE_CHARS}}}(?:[.!?。！？]+(?=\s|$|[^\x00-\x7f])|\n+|[.!?])?")

PIECE_CHARS: Final = 25
"""A shorter sentence is part of the next one: it says nothing by itself."""

Span = tuple[int, int]


def pieces_of(text: str, most: int, /) -> tuple[str, ...]:
    """Return `text` in up to `most` pieces of whole sentences; none if it is one piece."""
    pieces: list[str] = []
    begun = ""
    for found in SENTENCE.finditer(text):
        begun = f"{begun} {found[0].strip()}".strip()
        if len(begun) >= PIECE_CHARS:
            pieces.append(begun)
            begun = ""
    if begun and pieces:
        pieces[-1] = f"{pieces[-1]} {begun}"
    if len(pieces) < 2:
        return ()
    count = min(most, len(pieces))
    ends = [len(pieces) * place // count for place in range(count + 1)]
    return tuple(" ".join(pieces[start:end]) for start, end in pairwise(ends))


def passages_of(text: str, terms: Sequence[str], size: int, /) -> tuple[Span, ...]:
    """Return the parts of `text`, in order and up to `size` characters together, that hold most of `terms`.

    Parts are whole sentences. A term counts where a word begins with it; the less often the text says it, the more.
    """
    head = text[:READ_CHARS]
    sentences = [(found.start(), found.end()) for found in SENTENCE.finditer(head) if found[0].strip()]
    if len(text) <= size or not sentences:
        return ((0, min(size, len(text))),)
    own = _worths(head, sentences, terms)
    worths = [
        worth + BESIDE * max(own[place - 1] if place else 0.0, own[place + 1] if place + 1 < len(own) else 0.0)
        for place, worth in enumerate(own)
    ]
    worths[0] += FIRST
    left, chosen = size, list[int]()
    for place in sorted(range(len(worths)), key=lambda place: (-worths[place], place)):
        length = sentences[place][1] - sentences[place][0] + len(BETWEEN)
        if length <= left and worths[place]:
            chosen.append(place)
            left -= length
    if not chosen:
        return ((0, size),)
    return _joined([sentences[place] for place in sorted(chosen)])


def _worths(text: str, sentences: Sequence[Span], terms: Sequence[str]) -> list[float]:
    """Return what each sentence holds of the terms."""
    wanted = sorted({term for term in terms[:TERMS_MOST] if len(term) > 1}, key=lambda term: (-len(term), term))
    if not wanted:
        return [0.0] * len(sentences)
    either = re.compile("|".join(rf"\b{re.escape(term)}" if term.isascii() else re.escape(term) for term in wanted))
    held = [frozenset(either.findall(text[start:end].lower())) for start, end in sentences]
    counts = Counter(term for terms in held for term in terms)
    return [sum(counts[term] ** -0.5 for term in sorted(terms)) for terms in held]


def _joined(spans: Sequence[Span]) -> tuple[Span, ...]:
    """Return the spans, those that meet as one."""
    joined = [spans[0]]
    for start, end in spans[1:]:
        if start == joined[-1][1]:
            joined[-1] = joined[-1][0], end
        else:
            joined.append((start, end))
    return tuple(joined)
