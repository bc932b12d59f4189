"""Text comparison for policies: one normal form, its terms, and similarity by character trigrams."""

import re
import unicodedata
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator
from functools import lru_cache
from types import MappingProxyType
from typing import Final, NamedTuple

_ACCENTS = re.compile("[\u0300-\u036f]+")
_BREAKS = re.compile(r"[\W_]+")
_UNSPACED = re.compile(
    "[\u0e00-\u0eff\u1000-\u109f\u1100-\u11ff\u1780-\u17ff\u3005-\u30ff\u3400-\u9fff\uac00-\ud7af\uf900-\ufaff]"
)
_MARKS: Final = 1024
_INVISIBLE = frozenset({"Cc", "Cf", "Cs", "Zs", "Zl", "Zp"})
_FILLERS: Final = "\u115f\u1160\u3164\uffa0"
"""Invisible Hangul letters."""
IGNORABLE: Final = (
    f"[{_FILLERS}\u00ad\u034f\u061c\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u202a-\u202e\u2060-\u206f\ufe00-\ufe0f\ufeff"
    "\ufff0-\ufff8\U0001bca0-\U0001bca3\U0001d173-\U0001d17a\U000e0000-\U000e0fff]"
)
"""Pattern of Unicode's ignorable characters: zero-width characters, direction marks, variant selectors."""
_IGNORABLE = re.compile(IGNORABLE)
LOOKALIKES: Final = MappingProxyType(
    {
        "<": "\u226e\ufe64\uff1c\u02c2\u1438\u16b2\u276e\U0001d236",
        ">": "\u226f\ufe65\uff1e\u02c3\u1433\u203a\u276f\U0001d237",
        "/": "\uff0f\u2044\u2215\u29f8\u2571\u27cb\u1735\u2cc6",
        "|": "\uff5c\u2223\u2224\u2758\u01c0\u2502\u2503\u23d0\uffe8\u05c0\u00a6\uffe4",
        "[": "\uff3b\ufe47\u2772\u3010\u3014\ufe39\ufe3b\u27e6",
        "]": "\uff3d\ufe48\u2773\u3011\u3015\ufe3a\ufe3c\u27e7",
    }
)
"""Characters of tags and marks, and the characters they are read as. U+2039 is none: escaping writes it for "<"."""
_NOT_ASCII = re.compile("[^\\x00-\\x7f]+")
_SIGNS: Final = {char: sign for sign, chars in LOOKALIKES.items() for char in chars}


def is_blank(text: str, /) -> bool:
    """Return whether `text` shows nothing: only white space, controls and invisible characters."""
    if text[:1].isalnum() and text[0] not in _FILLERS:
        return False  # nearly always
    return all(char.isspace() or unicodedata.category(char) in _INVISIBLE for char in visible_text(text))


def visible_text(text: str, /, *, instead: str = "") -> str:
    """Return `text` with `instead` for each invisible zero-width character."""
    return text if text.isascii() else _IGNORABLE.sub(instead, text)


def bare_text(text: str, /) -> str:
    """Return `text` with characters as they are read: compatible characters and lookalikes become plain ones.

    Invisible characters, accents and other marks on a character are removed.
    """
    return _NOT_ASCII.sub(lambda run_match: "".join(map(_bare_character, run_match[0])), text)


def bare_places(text: str, /) -> list[int]:
    """Return each character's position in `text` for the bare text."""
    return [position for position, char in enumerate(text) for _ in (char if char.isascii() else _bare_character(char))]


@lru_cache(maxsize=4096)
def _bare_character(char: str) -> str:
    if char in _SIGNS:
        return _SIGNS[char]
    decomposed_chars = visible_text(unicodedata.normalize("NFKD", visible_text(char)))
    return "".join(
        decomposed_char
        for decomposed_char in decomposed_chars
        if decomposed_char.isspace() or unicodedata.category(decomposed_char)[0] not in "MC"
    )


def plain_text(text: str, /) -> str:
    """Return `text` without differences of case, width, white space and invisible characters; signs and accents
    stay."""
    if not text.isascii():
        # Case folding can undo a normal form, so the text is normalised again.
        text = unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", visible_text(text)).casefold())
    return " ".join(text.casefold().split())


def normalise_text(text: str, /) -> str:
    """Return the form for comparing texts: case, accents, width, punctuation and spacing do not count.

    What is not seen does not count either, but the non-joiner parts words, as a hyphen does.
    """
    if not text.isascii():
        decomposed_text = unicodedata.normalize("NFKD", visible_text(text.replace("\u200c", " "))).casefold()
        text = unicodedata.normalize("NFC", _ACCENTS.sub("", decomposed_text))
    return " ".join(_BREAKS.sub(" ", text.casefold()).split())


def has_term(text: str, term: str, /) -> bool:
    """Return whether normalised `text` contains the normalised `term` as a word or the beginning of one.

    A beginning counts from four characters on, so that stems match ("walk": "walking"; "happi": "happy"); shorter terms
    match whole words and their plural. Scripts written without spaces match anywhere.
    """
    return has_any(pad_words(text), signs_of(term))


def pad_words(text: str, /) -> str:
    """Return a normalised text in the form for `has_any`: each word between spaces."""
    return f" {text} "


def signs_of(term: str, /) -> tuple[str, ...]:
    """Return the strings of which a padded text contains one if it has the normalised `term`."""
    if not term:
        return ()
    if _UNSPACED.search(term):
        return (term,)
    return (f" {term} ", f" {term}s ") if len(term) < 4 else (f" {term.removesuffix('i')}",)


def has_any(text: str, signs: tuple[str, ...], /) -> bool:
    """Return whether a padded text contains one of `signs`."""
    return any(sign in text for sign in signs) if len(signs) != 1 else signs[0] in text


def phrase_of(words: str, /) -> tuple[str, ...]:
    """Return the strings for normalised `words` as one phrase; in spaced scripts, of whole words."""
    if not words:
        return ()
    return (words,) if _UNSPACED.search(words) else (pad_words(words),)


def has_phrase(text: str, words: str, /) -> bool:
    """Return whether normalised `text` contains the normalised `words` as one phrase; by whole words in spaced
    scripts."""
    return has_any(pad_words(text), phrase_of(words))


def text_trigrams(text: str, /) -> frozenset[str]:
    """Return the character trigrams of a normalised text, its ends marked; none for an empty one."""
    if not text:
        return frozenset()
    padded_text = f" {text} "
    return frozenset(map("".join, zip(padded_text, padded_text[1:], padded_text[2:], strict=False)))


def trigram_likeness(grams: frozenset[str], other_grams: frozenset[str], /) -> float:
    """Return the similarity of two sets of trigrams, 0 to 1 (Dice's coefficient)."""
    total_count = len(grams) + len(other_grams)
    return 2 * len(grams & other_grams) / total_count if total_count else 0.0


class TrigramDigest(NamedTuple):
    """Digest of a text's trigrams, which themselves would take many times the text's memory."""

    size: int
    """The number of trigrams."""
    marks: int
    """A bit for each trigram; several may share one."""
    hidden: int
    """Number of trigrams that share another's bit."""


def grams_of(grams: Collection[str], /) -> TrigramDigest:
    """Return the digest of `grams`."""
    bit_marks = 0
    for gram in grams:
        # The hash differs between processes, so a digest must not be stored.
        bit_marks |= 1 << hash(gram) % _MARKS
    return TrigramDigest(len(grams), bit_marks, len(grams) - bit_marks.bit_count())


def likeness_at_most(digest: TrigramDigest, other_digest: TrigramDigest, /) -> float:
    """Return an upper bound of the similarity of two sets of trigrams."""
    total_count = digest.size + other_digest.size
    # Each trigram that shares a bit may be shared too, so the bound includes it.
    most_shared = (digest.marks & other_digest.marks).bit_count() + digest.hidden
    return 2 * most_shared / total_count if total_count else 0.0


def likeness_to(grams: frozenset[str], text: str, count: int, /) -> float:
    """Return the similarity of trigrams to those of a padded text, which has `count`, without computing them."""
    total_count = len(grams) + count
    return 2 * sum(map(text.__contains__, grams)) / total_count if total_count else 0.0


SAME_TEXT: Final = 0.9
"""Two texts of this similarity that name the same numbers say the same."""
_NUMBERS: Final = re.compile(r"\d+")


def distinct_places(texts: Iterable[str], /) -> Iterator[int]:
    """Yield the positions of those of `texts` that do not repeat an earlier one."""
    grams_by_numbers: defaultdict[tuple[str, ...], list[frozenset[str]]] = defaultdict(list)
    for position, text in enumerate(map(normalise_text, texts)):
        grams, grams_of_same_numbers = text_trigrams(text), grams_by_numbers[tuple(_NUMBERS.findall(text))]
        # Sets of very different size cannot be that similar, so they are not compared.
        comparable_grams = (
            other_grams
            for other_grams in grams_of_same_numbers
            if 2 * min(len(grams), len(other_grams)) >= SAME_TEXT * (len(grams) + len(other_grams))
        )
        if not any(trigram_likeness(grams, other_grams) >= SAME_TEXT for other_grams in comparable_grams):
            grams_of_same_numbers.append(grams)
            yield position


def words_of(text: str, /, *, limit: int) -> tuple[str, ...]:
    """Return up to `limit` distinct terms of a normalised text: words of four and more characters, else pairs."""
    terms: list[str] = []
    for word in text.split():
        if _UNSPACED.search(word):
            terms += [word[start : start + 2] for start in range(len(word) - 1)]
        elif len(word) >= 4:
            terms.append(word)
    return tuple(dict.fromkeys(terms))[:limit]


_WIDE = re.compile(
    r"[\u1100-\u11ff\u2e80-\ua4cf\uac00-\ud7a3\uf900-\ufaff\ufe30-\ufe4f\uff00-\uffef]|[\U00010000-\U0010ffff]"
)
CHARS_PER_TOKEN = 4


def estimate_tokens(text: str, /) -> int:
    """Return the estimate: one token per wide character (Chinese, Japanese, Korean, emoji), one per four others."""
    wide_count = len(_WIDE.findall(text))
    return wide_count + -(-(len(text) - wide_count) // CHARS_PER_TOKEN)
