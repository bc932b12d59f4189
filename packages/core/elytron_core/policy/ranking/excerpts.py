"""The sentences of a long text that say most of what a query asks for."""

import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise
from typing import Final, NamedTuple

from elytron_core.text.traits import TextTrait, read_traits

READ_CHARS: Final = 40_000
"""The part of a text that is searched."""
TERMS_MOST: Final = 24
"""Maximum number of query terms."""
SENTENCE_CHARS: Final = 400
"""A longer sentence is split."""
BESIDE: Final = 0.4
"""Share of its better neighbour's value that a sentence gets: it may explain the one before it."""
FIRST: Final = 0.1
"""Value of the first sentence by itself: it says what the others are about."""
BETWEEN: Final = " … "
"""Replaces sentences that were left out."""

SENTENCE: Final = re.compile(rf"[^.!?。！？\n]{{1,{SENTENCE_CHARS}}}(?:[.!?。！？]+(?=\s|$|[^\x00-\x7f])|\n+|[.!?])?")

PIECE_CHARS: Final = 25
"""A shorter sentence is joined to the next one, because it says nothing by itself."""

Span = tuple[int, int]


def pieces_of(text: str, max_pieces: int, /) -> tuple[str, ...]:
    """Return `text` in up to `max_pieces` pieces of whole sentences; none if it is one piece."""
    pieces: list[str] = []
    piece = ""
    for match in SENTENCE.finditer(text):
        piece = f"{piece} {match[0].strip()}".strip()
        if len(piece) >= PIECE_CHARS:
            pieces.append(piece)
            piece = ""
    if piece and pieces:
        pieces[-1] = f"{pieces[-1]} {piece}"
    if len(pieces) < 2:
        return ()
    piece_count = min(max_pieces, len(pieces))
    piece_bounds = [len(pieces) * piece_number // piece_count for piece_number in range(piece_count + 1)]
    return tuple(" ".join(pieces[start:end]) for start, end in pairwise(piece_bounds))


def passages_of(text: str, terms: Sequence[str], size: int, /) -> tuple[Span, ...]:
    """Return the parts of `text`, in order and up to `size` characters in total, that contain most of `terms`.

    Parts are whole sentences. A term counts where a word begins with it; the less often the text says it, the more.
    """
    read_text = text[:READ_CHARS]
    sentences = [(match.start(), match.end()) for match in SENTENCE.finditer(read_text) if match[0].strip()]
    if len(text) <= size or not sentences:
        return ((0, min(size, len(text))),)
    own_worths = _sentence_worths(read_text, sentences, terms)
    worths = [
        worth
        + BESIDE
        * max(
            own_worths[sentence_number - 1] if sentence_number else 0.0,
            own_worths[sentence_number + 1] if sentence_number + 1 < len(own_worths) else 0.0,
        )
        for sentence_number, worth in enumerate(own_worths)
    ]
    worths[0] += FIRST
    remaining_chars, chosen_places = size, list[int]()
    for sentence_number in sorted(
        range(len(worths)), key=lambda sentence_number: (-worths[sentence_number], sentence_number)
    ):
        length = sentences[sentence_number][1] - sentences[sentence_number][0] + len(BETWEEN)
        if length <= remaining_chars and worths[sentence_number]:
            chosen_places.append(sentence_number)
            remaining_chars -= length
    if not chosen_places:
        return ((0, size),)
    return _join_spans([sentences[sentence_number] for sentence_number in sorted(chosen_places)])


def _sentence_worths(text: str, sentences: Sequence[Span], terms: Sequence[str]) -> list[float]:
    """Return the value of each sentence by its terms."""
    # Longest first, because an alternation takes the first that matches.
    sorted_terms = sorted({term for term in terms[:TERMS_MOST] if len(term) > 1}, key=lambda term: (-len(term), term))
    if not sorted_terms:
        return [0.0] * len(sentences)
    any_term = re.compile(
        "|".join(rf"\b{re.escape(term)}" if term.isascii() else re.escape(term) for term in sorted_terms)
    )
    terms_by_sentence = [frozenset(any_term.findall(text[start:end].lower())) for start, end in sentences]
    counts = Counter(term for terms in terms_by_sentence for term in terms)
    # Sorted, because the order of a set differs between processes and would change the sum.
    return [sum(counts[term] ** -0.5 for term in sorted(terms)) for terms in terms_by_sentence]


def _join_spans(spans: Sequence[Span]) -> tuple[Span, ...]:
    """Return the spans, with touching ones merged."""
    joined_spans = [spans[0]]
    for start, end in spans[1:]:
        if start == joined_spans[-1][1]:
            joined_spans[-1] = joined_spans[-1][0], end
        else:
            joined_spans.append((start, end))
    return tuple(joined_spans)


LONG_CHARS: Final = 260
"""A shorter message, of two or three sentences, is about one thing."""
SENTENCE_READ_CHARS: Final = 8_000
"""The part of a message that is searched."""
FITS: Final = 0.5
"""Share added to a sentence's value if it has what the answer probably has,"""
ASKS: Final = 0.3
"""and share subtracted if it is a question, which states nothing."""
_ASKS: Final = int(TextTrait.ASKS)


class ScoredSentence(NamedTuple):
    """A sentence's terms, its traits, and how informative it is."""

    terms: tuple[str, ...]
    traits: int
    """Sum of its traits: a flag's own operators would take most of the time of a comparison."""
    factuality: float


class SoughtWords(NamedTuple):
    """Query words to look for: for each term the words it matches and how well, and each word's weight."""

    stands_for: Mapping[str, Sequence[tuple[int, float]]]
    worths: Sequence[float]


class NearestSentence(NamedTuple):
    """Comparison of the sentence nearest to a query with the whole message."""

    gain: float
    """Its value minus that of all sentences as one; negative if the words are far apart."""
    share: float
    """Share of the query's words that it contains, by weight."""
    factuality: float
    """The information in the sentence, as `read_traits` counts it."""


def sentences_of(text: str, terms: Callable[[str], Sequence[str]], /) -> tuple[ScoredSentence, ...]:
    """Return the sentences of `text`, whose terms `terms` gives."""
    sentences = (match[0].strip() for match in SENTENCE.finditer(text[:SENTENCE_READ_CHARS]))
    return tuple(_read_sentence(sentence, terms) for sentence in sentences if sentence)


def nearest_sentence(
    sentences: Sequence[ScoredSentence], sought_words: SoughtWords, expected_traits: TextTrait, /
) -> NearestSentence | None:
    """Return how the nearest of a message's `sentences` compares with all of them; None if none matches.

    `expected_traits` is what the answer is likely to have.
    """
    stands_for, worth_by_word = sought_words
    fitting_traits = int(expected_traits)
    message_shares: dict[int, float] = {}
    best_worths: tuple[float, float, float] | None = None
    has_fitting_sentence = False
    for sentence in sentences:
        has_fitting_sentence = has_fitting_sentence or bool(sentence.traits & fitting_traits)
        if stands_for.keys().isdisjoint(sentence.terms):
            continue
        sentence_shares: dict[int, float] = {}
        for term in sentence.terms:
            for word, share in stands_for.get(term, ()):
                if share > sentence_shares.get(word, 0.0):
                    sentence_shares[word] = share
        for word, share in sentence_shares.items():
            if share > message_shares.get(word, 0.0):
                message_shares[word] = share
        covered_worth = sum(worth_by_word[word] * share for word, share in sentence_shares.items())
        sentence_worth = covered_worth * (
            1.0 + FITS * bool(sentence.traits & fitting_traits) - ASKS * bool(sentence.traits & _ASKS)
        )
        if best_worths is None or sentence_worth > best_worths[0]:
            best_worths = sentence_worth, covered_worth, sentence.factuality
    total_worth = sum(worth_by_word)
    if best_worths is None or not total_worth:
        return None
    sentence_worth, covered_worth, statement_worth = best_worths
    message_worth = sum(worth_by_word[word] * share for word, share in message_shares.items()) * (
        1.0 + FITS * has_fitting_sentence
    )
    return NearestSentence((sentence_worth - message_worth) / total_worth, covered_worth / total_worth, statement_worth)


def _read_sentence(text: str, terms: Callable[[str], Sequence[str]]) -> ScoredSentence:
    traits, statement_worth = read_traits(text)
    return ScoredSentence(tuple(dict.fromkeys(terms(text))), int(traits), statement_worth)
