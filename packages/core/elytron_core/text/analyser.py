"""The text analyser: one pipeline that turns stored texts and queries into terms.

One expression cuts a text into tokens. Each distinct token is analysed once and cached: normalised (NFKC, case folding,
Latin accents folded), split if it is an identifier, address, number or date, and stemmed if it looks English, with
irregular forms mapped to their base word. Scripts without spaces become pairs of characters.
"""

import re
import unicodedata
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import chain, islice, pairwise
from typing import Any

from elytron_core import limits

_VERBS = """
awake awoke awoken|bear bore borne|beat beaten|become became|begin began begun|bend bent|bind bound|bite bit bitten
bleed bled|blow blew blown|break broke broken|breed bred|bring brought|build built|buy bought|catch caught
choose chose chosen|come came|creep crept|deal dealt|dig dug|draw drew drawn|dream dreamt|drink drank drunk
drive drove driven|eat ate eaten|fall fell fallen|feed fed|feel felt|fight fought|find found|flee fled|fly flew flown
forbid forbade forbidden|forget forgot forgotten|forgive forgave forgiven|freeze froze frozen|get got gotten
give gave given|go went gone|grow grew grown|hang hung|hear heard|hide hid hidden|hold held|keep kept|kneel knelt
know knew known|lay laid|lead led|lean leant|learn learnt|leave left|lend lent|lie lay lain|light lit|lose lost
make made|mean meant|meet met|mistake mistook mistaken|pay paid|ride rode ridden|ring rang rung|rise rose risen
run ran|say said|see saw seen|seek sought|sell sold|send sent|sew sewn|shake shook shaken|shine shone|shoot shot
show shown|shrink shrank shrunk|sing sang sung|sink sank sunk|sit sat|sleep slept|slide slid|speak spoke spoken
spend spent|spill spilt|spin spun|spring sprang sprung|stand stood|steal stole stolen|stick stuck|sting stung
strike struck|swear swore sworn|sweep swept|swim swam swum|swing swung|take took taken|teach taught|tear tore torn
tell told|think thought|throw threw thrown|understand understood|wake woke woken|wear wore worn|weave wove woven
weep wept|win won|wind wound|write wrote written
"""
_PLURALS = """
child children|foot feet|goose geese|knife knives|leaf leaves|life lives|loaf loaves|man men|mouse mice|person people
shelf shelves|thief thieves|tooth teeth|wife wives|wolf wolves|woman women
"""
_TWO_WORDS = frozenset(("bore", "bound", "found", "lay", "leaves", "left", "lives", "rose", "saw", "wound"))
"""Forms that are also words of their own, and so are not stemmed."""


def _irregular_forms() -> dict[str, str]:
    form_groups = (related_forms.split() for related_forms in (_VERBS + "|" + _PLURALS).replace("\n", "|").split("|"))
    return {
        irregular_form: related_forms[0]
        for related_forms in form_groups
        for irregular_form in related_forms[1:]
        if irregular_form not in _TWO_WORDS
    }


BASES = _irregular_forms()
"""From a form to the word whose stem it gets."""


_ENGLISH = """
a about after all also am an and any are as at be because been before being between both but by can could d did do does
doing don during each few for from had has have having he her hers him his how i if in into is it its itself just ll m
me more most my myself no nor not now o of on only or other our ours over own re s same she should so some such t than
that the their theirs them then there these they this those to too us ve was we were what when where which while who
whom whose why will with would y you your yours
"""
_ASKING = """
amount ask big certain chat convers current date day decid describ differ discuss earlier exampl far feel get go
happen kind know long make mani mention name number often old part person place previous purpos reason recal recent
rememb remind say share someon sort specif take talk tell thing think time type use various way
"""
_FORMS = "end everyth gener kind list moment order outlin overview recap sequenc step summari summaris term timelin"
_CHINESE = "什么 怎么 怎样 哪里 哪个 哪些 为什 多少 是谁 是否 是不 不是 我的 你的 他的 她的 了吗 的吗 是什 谁是"

ENGLISH = frozenset(_ENGLISH.split())
CHINESE = frozenset(_CHINESE.split())
"""Character pairs that ask or join; only queries omit them, because a pair may straddle two real words."""
CHINESE_ASKING = re.compile(
    "什么时候|为什么|[叫是]?什么|怎么样?|怎样|在?哪[里儿]|哪[个些]|多少|[是叫]谁|谁是?|是否|是不是|[我你他她]的|[吗呢吧]$"
)
"""Cuts in a Chinese question, so that no pair joins the topic and a word that asks."""
ASKING = frozenset(_ASKING.split())
"""Stems with which a query names the kind of thing it wants ("the name of", "how long", "mention")."""
FORMS = frozenset(_FORMS.split())
"""Stems with which it names the form of the answer ("summarise", "in order", "at the moment")."""


VERSION = 5
"""Increases with every change of what `terms` returns: an index built by another version is rebuilt."""

_TERM_CHARS = 64
_CACHED_CHARS = 40
_CACHE_WORDS = 1 << 16
_STEP_TERMS = 1_024
_NAME_CHARS = 3

# Letters and marks of one word; `\w` alone would break words at the vowel signs of Indic and Semitic scripts.
_MARKS = (
    "\u0300-\u036f\u0483-\u0487\u0591-\u05bd\u05bf\u05c1\u05c2\u05c4\u05c5\u0610-\u061a\u064b-\u065f\u0670\u06d6-\u06dc"
)
_INDIC = "\u0900-\u0963\u0966-\u0dff\u200c\u200d"
_PAIRED = (  # Han, Kana, Hangul: single characters are indexed in addition to the pairs
    "\u3005-\u3007\u3040-\u309f\u30a1-\u30fa\u30fc-\u30ff\u31f0-\u31ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7af"
    "\u1100-\u11ff\uf900-\ufaff\U00020000-\U0003ffff"
)
_UNSPACED = "\u0e01-\u0e3a\u0e40-\u0e4e\u0e80-\u0eff\u1000-\u109f\u1780-\u17d3"  # Thai, Lao, Burmese, Khmer

_NUMERIC = (
    r"\d{1,4}[-/.]\d{1,2}[-/.]\d{1,4}(?![\w/-])"
    r"|\d{1,2}:\d\d(?::\d\d)?(?:\ ?[aApP]\.?[mM]\b)?"
    r"|\d{1,3}(?:,\d{3})+(?:\.\d+)?(?!\w)"
)
_ADDRESS = r"(?i:https?|ftp|wss?)://[^\s<>\"]+|(?<![\w.+-])[\w.+-]{1,64}@[\w-]+(?:\.[\w-]+)+"
_ASCII_TOKEN = re.compile(rf"{_NUMERIC}|\w+(?:[.']\w+)*", re.ASCII)
_ASCII_RICH = re.compile(rf"{_ADDRESS}|{_NUMERIC}|\w+(?:[.']\w+)*", re.ASCII)
_WORD = rf"(?:(?![{_PAIRED}{_UNSPACED}])[\w{_MARKS}{_INDIC}])+"
_PICTURES = (  # emoji, without modifiers of their presentation; two letters are a flag
    "[\u2600-\u27bf\u2b50\u2b55\U0001f300-\U0001f3fa\U0001f400-\U0001faff]|[\U0001f1e6-\U0001f1ff]{2}"
)
_TOKEN = re.compile(rf"{_ADDRESS}|{_NUMERIC}|[{_PAIRED}]+|[{_UNSPACED}]+|{_WORD}(?:[.'’]{_WORD})*|{_PICTURES}")

_PICTURE = re.compile(_PICTURES)
_PAIRED_RUN = re.compile(f"[{_PAIRED}]+")
_UNSPACED_RUN = re.compile(f"[{_UNSPACED}]+")
_SIGNS_ON = (  # combining marks of Thai, Lao, Burmese and Khmer
    "\u0e31\u0e34-\u0e3a\u0e47-\u0e4e\u0eb1\u0eb4-\u0ebc\u0ec8-\u0ece\u102b-\u103e\u17b4-\u17d3"
)
_VOWELS_BEFORE = "\u0e40-\u0e44\u0ec0-\u0ec4"
_SIGNED_LETTER = re.compile(rf"[{_VOWELS_BEFORE}]?[^{_VOWELS_BEFORE}{_SIGNS_ON}](?:[\u1039\u17d2].|[{_SIGNS_ON}])*|.")
_PIECE = re.compile(rf"[\w{_MARKS}{_INDIC}]+")
_CAMEL = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+|[^A-Za-z\d]+")
_HUMP = re.compile(r"[a-z][A-Z]|[A-Z]{2}[a-z]")
_DATE = re.compile(r"(\d{1,4})([-/.])(\d{1,2})\2(\d{1,4})")
_CLOCK = re.compile(r"\d{1,2}:\d\d(?::\d\d)?(?: ?[ap]\.?m)?")
_GROUPED = re.compile(r"\d{1,3}(?:,\d{3})+(?:\.\d+)?")
_DECIMAL = re.compile(r"\d+\.\d+")
_ORDINAL = re.compile(r"(\d+)(?:st|nd|rd|th)")
_INITIALS = re.compile(r"[^\W\d_](?:\.[^\W\d_])+")
_PLAIN = re.compile(r"[a-z]{3,}")

_LETTERS = str.maketrans({"ø": "o", "ł": "l", "đ": "d", "æ": "ae", "œ": "oe", "ı": "i", "ð": "d", "þ": "th"})
# NFKC would join these to the word before them as letters.
_SIGNS = "™℠®©"
_WITHOUT_SIGNS = str.maketrans(dict.fromkeys(_SIGNS, " "))


class TextAnalyser:
    """Splits texts into terms; the same text gives the same terms in every process. Never raises on a str.

    Holds a cache of tokens seen, bounded in number and in length. Not for several threads at once.
    """

    def __init__(self) -> None:
        import Stemmer

        make_stemmer: Callable[[str, int], Any] = getattr(Stemmer, "Stemmer")  # noqa: B009 - the module has no types
        # The stemmer's own cache would hold every word a second time.
        self._stem: Callable[[str], str] = make_stemmer("english", 0).stemWord
        self._cache: dict[str, tuple[str, ...]] = {}

    def terms(self, text: str, /) -> list[str]:
        """Return the terms of a text to store, in order, with repeats; stop words only if it has nothing else."""
        all_terms: list[str] = []
        cache = self._cache
        for token in _text_tokens(text):
            terms = cache.get(token)
            all_terms += self._learn(token) if terms is None else terms
        return all_terms or self._bare(text)

    def forget(self) -> None:
        """Clear the cache of tokens."""
        self._cache.clear()

    def steps(self, text: str, /) -> Iterator[list[str]]:
        """Yield what `terms` returns in batches, so that other tasks can run between them."""
        terms = chain.from_iterable(map(self._each, _tokens_of(text)))
        if (first_term := next(terms, None)) is None:
            terms = chain.from_iterable(map(_token_pieces, _tokens_of(text)))
        else:
            terms = chain((first_term,), terms)
        while next_terms := list(islice(terms, _STEP_TERMS)):
            yield next_terms

    def query_terms(self, text: str, /) -> list[str]:
        """Return the distinct terms to search for, at most `limits.QUERY_TERMS`, in order of appearance.

        As `terms`, but a run of Chinese, Japanese or Korean is asked by its pairs; a character alone, or between words
        that ask, by itself. Emoji are looked for only if there is nothing else.
        """
        all_terms: list[str] = []
        unspaced_runs: list[str] = []
        cache, is_plain = self._cache, text.isascii()
        for token in _text_tokens(text):
            if is_plain or not _PAIRED_RUN.fullmatch(token):
                terms = cache.get(token)
                all_terms += self._learn(token) if terms is None else terms
            else:
                unspaced_runs.append(token)
                all_terms += chain.from_iterable(map(_character_pairs, filter(None, CHINESE_ASKING.split(token))))
        if is_plain and all_terms:
            return list(dict.fromkeys(all_terms))[: limits.QUERY_TERMS]
        content_terms = [term for term in all_terms if term not in CHINESE and not _PICTURE.fullmatch(term)]
        content_terms = (
            content_terms
            or all_terms
            or list(chain.from_iterable(map(_character_pairs, unspaced_runs)))
            or self._bare(text)
        )
        return list(dict.fromkeys(content_terms))[: limits.QUERY_TERMS]

    def _bare(self, text: str) -> list[str]:
        return list(chain.from_iterable(map(_token_pieces, _text_tokens(text))))

    def _each(self, token: str) -> Iterable[str]:
        """Return the terms of a token, those of a very long one lazily."""
        # A very long token is rare and would fill the cache, so its terms are made one by one.
        if len(token) > _CACHED_CHARS:
            return (term[:_TERM_CHARS] for term in self._take_apart(token))
        terms = self._cache.get(token)
        return self._learn(token) if terms is None else terms

    def _learn(self, token: str) -> tuple[str, ...]:
        if token.isascii() and token.isalpha() and (token.islower() or token.istitle()):
            # Most words are plain and have no parts.
            uncut_terms: Iterable[str] = self._simple(token.lower())
        else:
            uncut_terms = self._take_apart(token)
        terms = tuple(term[:_TERM_CHARS] for term in uncut_terms)
        if len(token) <= _CACHED_CHARS:
            # Cleared whole: tracking the order of use would slow every lookup.
            if len(self._cache) >= _CACHE_WORDS:
                self._cache.clear()
            self._cache[token] = terms
        return terms

    def _take_apart(self, token: str) -> Iterator[str]:
        if token.isalnum() and token.isascii() and not token[0].isdigit():
            yield from self._part(token)
        elif _PAIRED_RUN.fullmatch(token):
            yield from _character_pairs(token)
            if len(token) > 1:
                yield from token
        elif _UNSPACED_RUN.fullmatch(token):
            letters = _SIGNED_LETTER.findall(token)
            yield from map("".join, pairwise(letters))
            yield from letters
        elif "@" in token or "://" in token:
            yield from self._address(token)
        elif token[0].isdigit() and (number_terms := _number_terms(_fold_token(token))):
            yield from number_terms
        else:
            yield from self._word(token)

    def _address(self, token: str) -> Iterator[str]:
        _, _, address = token.lower().rpartition("://")
        if "@" in address and "/" not in address:
            yield address
        host = address.partition("/")[0].rpartition("@")[2].partition(":")[0]
        if "." in host:
            yield host
        for word in _PIECE.findall(address):
            yield from self._word(word)

    def _word(self, token: str) -> Iterator[str]:
        """Yield a word's stem; for an identifier the whole and its parts; nothing for stop words."""
        folded_token = _fold_token(token)
        if _INITIALS.fullmatch(folded_token):
            yield from self._simple(folded_token.replace(".", ""))
            return
        names = re.split(r"['’]", token)
        if len(names) > 1:
            for name in names:
                yield from self._word(name)
            if joined_name := _join_name(names):
                yield from self._simple(joined_name)
            return
        parts = [part for part in re.split(r"[._]", token) if part]
        if len(parts) > 1:
            yield folded_token.strip("._")
        for part in parts:
            yield from self._part(part)

    def _part(self, part: str) -> Iterator[str]:
        """Yield the stem of a word, and of the words joined in it by capitals."""
        yield from self._simple(_fold_token(part))
        if _HUMP.search(part):
            for hump_match in _CAMEL.finditer(part):
                yield from self._simple(_fold_token(hump_match[0]))

    def _simple(self, folded_word: str) -> Iterator[str]:
        if not folded_word or folded_word in ENGLISH:
            return
        ordinal_match = _ORDINAL.fullmatch(folded_word)
        if ordinal_match is not None:
            yield ordinal_match[1]
        elif _PLAIN.fullmatch(folded_word):
            yield self._stem(BASES.get(folded_word, folded_word))
        else:
            yield folded_word


def is_unspaced(text: str, /) -> bool:
    """Return whether all of `text` is in scripts written without spaces between words."""
    return bool(_PAIRED_RUN.fullmatch(text) or _UNSPACED_RUN.fullmatch(text))


def _text_tokens(text: str) -> list[str]:
    # Most texts are plain and contain no address.
    if text.isascii() and "@" not in text and ":" not in text:
        return _ASCII_TOKEN.findall(text)
    token_pattern, text = _cutting_pattern(text)
    return token_pattern.findall(text)


def _tokens_of(text: str) -> Iterator[str]:
    token_pattern, text = _cutting_pattern(text)
    return (match[0] for match in token_pattern.finditer(text))


def _cutting_pattern(text: str) -> tuple[re.Pattern[str], str]:
    """Return the pattern that splits a text into tokens, and the text to split."""
    if text.isascii():
        return (_ASCII_RICH if "@" in text or "://" in text else _ASCII_TOKEN), text
    if any(removed_sign in text for removed_sign in _SIGNS):
        text = text.translate(_WITHOUT_SIGNS)
    return _TOKEN, unicodedata.normalize("NFKC", text)


def _token_pieces(token: str) -> list[str]:
    return _PIECE.findall(_fold_token(token))


def _fold_token(token: str) -> str:
    if token.isascii():
        return token.lower()
    base_char = ""
    letters: list[str] = []
    for char in unicodedata.normalize("NFD", token.casefold().translate(_LETTERS)):
        if unicodedata.combining(char):
            # On Latin letters marks are accents and are removed. In other scripts they are part of the word.
            if base_char < "\u0250":
                continue
        else:
            base_char = char
        letters.append(char)
    return unicodedata.normalize("NFC", "".join(letters))


def _join_name(names: list[str]) -> str:
    """Return a name without its apostrophe (O'Brien as obrien); empty if it is no such name."""
    initial, surname, *suffixes = (_fold_token(name) for name in names)
    is_name = len(initial) == 1 and len(surname) >= _NAME_CHARS and surname not in ENGLISH and suffixes in ([], ["s"])
    return initial + surname if is_name else ""


def _character_pairs(run: str) -> list[str]:
    return [run[start : start + 2] for start in range(len(run) - 1)] or [run]


def _number_terms(folded_token: str) -> tuple[str, ...]:
    """Return the terms of a number, clock time, date or version; none for other tokens."""
    if _GROUPED.fullmatch(folded_token):
        integer_digits, _, fraction_digits = folded_token.replace(",", "").partition(".")
        # A fraction of zeros is a matter of style, so the whole number is a term as well.
        return (
            (f"{integer_digits}.{fraction_digits}", integer_digits)
            if fraction_digits and not fraction_digits.strip("0")
            else (f"{integer_digits}.{fraction_digits}".strip("."),)
        )
    if _CLOCK.fullmatch(folded_token):
        return (folded_token.replace(" ", "").replace(".", ""),)
    date_match = _DATE.fullmatch(folded_token)
    if date_match is not None:
        first_number, separator, second_number, third_number = date_match.groups()
        # Only a leading year makes the order of day and month certain.
        if len(first_number) == 4 and len(third_number) <= 2:
            return (
                f"{first_number}-{second_number:0>2}-{third_number:0>2}",
                first_number,
                second_number.lstrip("0") or "0",
                third_number.lstrip("0") or "0",
            )
        return f"{first_number}{separator}{second_number}{separator}{third_number}", *(
            part.lstrip("0") or "0" for part in (first_number, second_number, third_number)
        )
    return (folded_token,) if _DECIMAL.fullmatch(folded_token) else ()


def holds_name(text: str, name: str, /) -> bool:
    """Return whether `text` contains `name` as a separate word, case-sensitively.

    In a script written without spaces any character may adjoin it, so a single character is no name.
    """
    if len(name) < 2:
        return False
    start = text.find(name)
    while start >= 0:
        end = start + len(name)
        if _splits_words(text[start - 1 : start] if start else "", name[0]) and _splits_words(
            text[end : end + 1], name[-1]
        ):
            return True
        start = text.find(name, start + 1)
    return False


def other_names(text: str, names_of_each: Iterable[Sequence[str]], /) -> tuple[str, ...]:
    """Return the other names of everyone whom `text` names; `names_of_each` lists all names of each."""
    unmentioned_names: dict[str, None] = {}
    for names in names_of_each:
        mentioned_names = {name for name in names if holds_name(text, name)}
        if mentioned_names:
            unmentioned_names |= dict.fromkeys(name for name in names if name not in mentioned_names)
    return tuple(unmentioned_names)


def _splits_words(outer_char: str, edge_char: str) -> bool:
    """Return whether a word may begin or end between the two characters."""
    return not outer_char.isalnum() or is_unspaced(edge_char) or is_unspaced(outer_char)
