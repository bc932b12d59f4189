"""Texts in fifteen languages to which the table of `benchmarks.language_vectors` is fitted, from packages in a folder.

    apt-get download wordnet-base wesnoth-1.16-data widelands-data freeciv-data gnome-user-docs
    apt-get download evolution-common gnome-control-center-data libglib2.0-data gimp-data nautilus-data brasero-common
    pip download --no-deps chatterbot-corpus wordfreq pythainlp
    apt-get indextargets, with Acquire::Languages as in `LANGUAGES`, for the files Translation-* of package descriptions

Sentences are translated texts that these packages show to people; word strings are made from frequency lists. A text is
used only for the encoder's vector of it, and none is part of the table.
"""

import gzip
import random
import re
import struct
import subprocess
import tarfile
import zipfile
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from importlib import import_module
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final, Literal, NamedTuple

from benchmarks.text_vectors import OWN, glosses

LANGUAGES: Final = MappingProxyType(
    {
        "ar": "ar", "de": "de", "en": "en", "en_GB": "en", "C": "en", "es": "es", "fr": "fr", "it": "it", "ja": "ja",
        "ko": "ko", "nl": "nl", "pl": "pl", "pt": "pt", "pt_BR": "pt", "ru": "ru", "th": "th", "tr": "tr",
        "zh_CN": "zh", "zh_TW": "zh",
    }
)  # fmt: skip
"""Name of a translation in the packages, and its language."""
DIALOGUES: Final = MappingProxyType(
    {
        "english": "en", "korean": "ko", "japanese": "ja", "italian": "it", "traditionalchinese": "zh", "chinese": "zh",
        "dutch": "nl", "portuguese": "pt", "spanish": "es", "turkish": "tr", "german": "de", "french": "fr",
        "russian": "ru",
    }
)  # fmt: skip
"""Folders of chatterbot-corpus, and their languages."""
PROGRAMS: Final = (
    "evolution-common",
    "gnome-control-center-data",
    "libglib2.0-data",
    "gimp-data",
    "nautilus-data",
    "brasero-common",
)
"""Packages of programs whose messages provide Thai texts, which the others lack."""
MOST: Final = MappingProxyType(
    {
        "descriptions": 4_000,
        "programs": 9_999,
        "wesnoth": 6_000,
        "widelands": 5_000,
        "freeciv": 4_000,
        "gnome": 4_000,
        "chatterbot": 9_999,
    }
)
"""Maximum number of sentences per source and language; for English 4,000, and 45,000 from WordNet."""
ENGLISH: Final = 4_000
GLOSSES: Final = 45_000
CHARS: Final = (8, 400)
"""Minimum and maximum number of characters of a sentence."""
USED_CHARS: Final = 220
"""Maximum number of characters of a sentence that are read."""
WORDS: Final = 10_000
"""Number of a language's most frequent words that are texts by themselves."""
DRAWN: Final = 14_000
"""Number of most frequent words from which strings are made."""
STRINGS: Final = 8_000
STRING_WORDS: Final = (2, 7)
FLATTENED: Final = 0.4
"""A word is drawn in proportion to this power of its frequency."""
UNSPACED: Final = ("ja", "th", "zh")
ADDED: Final = ("th",)
"""Languages whose texts are drawn and fitted after those of the others, which therefore stay unchanged."""
SEED: Final = 35

TextKind = Literal["sentence", "own", "string", "word"]

_MARKUP: Final = re.compile(r"<[^<>]{1,200}>")
_PROGRAM: Final = re.compile(r"[%{}_\\|=<>]|https?:|\.\w\w?\w?/")
_SENTENCE: Final = re.compile(r"(?<=[.!?…])\s+(?=\S)|(?<=[。！？])")
_PARAGRAPH: Final = re.compile(r"\n\s*\n")
_PAGE: Final = re.compile(r"<(?:p|title)[^>]*>(.*?)</(?:p|title)>", re.DOTALL)
_THAI: Final = re.compile("[\u0e01-\u0e3a\u0e40-\u0e4e]{2,}")
_WORD: Final = re.compile(r"[^\W\d_'’]+(?:[^\W\d_]|['’\-])*")


class FitText(NamedTuple):
    """A text of the fit with its kind and its language."""

    text: str
    kind: TextKind
    language: str


def fit_texts(packages: Path, lists: Path, wordnet: Path, /) -> list[FitText]:
    """Return every text of the fit once, in an order that depends only on the packages."""
    chance = random.Random(SEED)
    found: dict[str, FitText] = {}

    def add(text: str, kind: TextKind, language: str) -> None:
        found.setdefault(text, FitText(text, kind, language))

    for text in OWN.read_text("utf-8").splitlines():
        if text:
            add(text, "own", "en")
    for (source, language), sentences in sorted(_sentences(packages, lists).items()):
        most = min(MOST[source], ENGLISH) if language == "en" else MOST[source]
        for text in _drawn(chance, sentences, most):
            add(text, "sentence", language)
    for text in _drawn(chance, glosses(wordnet), GLOSSES):
        add(text, "sentence", "en")
    frequencies = word_frequencies(packages)
    for language, words in sorted(frequencies.items(), key=lambda each: (each[0] in ADDED, each[0])):
        for word, _ in words[:WORDS]:
            add(word, "word", language)
        names, shares = [word for word, _ in words[:DRAWN]], [share**FLATTENED for _, share in words[:DRAWN]]
        between = "" if language in UNSPACED else " "
        for _ in range(STRINGS):
            add(between.join(chance.choices(names, shares, k=chance.randint(*STRING_WORDS))), "string", language)
    return list(found.values())


def word_frequencies(packages: Path, /) -> dict[str, list[tuple[str, float]]]:
    """Return the most frequent words of each language with their shares of its texts, most frequent first."""
    msgpack: Any = import_module("msgpack")
    found: dict[str, list[tuple[str, float]]] = {}
    with zipfile.ZipFile(_package(packages, "wordfreq")) as wheel:
        names = set(wheel.namelist())
        for language in sorted(set(LANGUAGES.values()) - {"th"}):
            large, small = (f"wordfreq/data/{size}_{language}.msgpack.gz" for size in ("large", "small"))
            packed = gzip.decompress(wheel.read(large if large in names else small))
            buckets: list[list[str]] = msgpack.unpackb(packed, raw=False)[1:]
            shares = ((word, 10 ** (-place / 100)) for place, bucket in enumerate(buckets) for word in bucket)
            found[language] = [(word, share) for word, share in shares if _WORD.fullmatch(word)]
    with zipfile.ZipFile(_package(packages, "pythainlp")) as wheel:
        lines = wheel.read("pythainlp/corpus/tnc_freq.txt").decode("utf-8").splitlines()
    counts = [(word, int(count)) for word, count in (line.split("\t") for line in lines) if _THAI.fullmatch(word)]
    total = sum(count for _, count in counts)
    found["th"] = [(word, count / total) for word, count in sorted(counts, key=lambda each: -each[1])]
    return found


def _sentences(packages: Path, lists: Path) -> dict[tuple[str, str], list[str]]:
    """Return the sentences of each source in each language, without duplicates."""
    found: defaultdict[tuple[str, str], dict[str, None]] = defaultdict(dict)
    for source, language, text in _passages(packages, lists):
        for paragraph in _PARAGRAPH.split(text):
            for sentence in _SENTENCE.split(_plain(paragraph)):
                if CHARS[0] <= len(sentence) <= CHARS[1] and not _PROGRAM.search(sentence):
                    found[source, language][sentence[:USED_CHARS]] = None
    return {group: list(sentences) for group, sentences in found.items()}


def _passages(packages: Path, lists: Path) -> Iterator[tuple[str, str, str]]:
    """Yield source, language and text of everything in the packages."""
    for source in ("wesnoth", "widelands", "freeciv"):
        for name, data in _deb_files(_package(packages, source), ".mo"):
            parts = name.removesuffix(".mo").split("/")
            language = LANGUAGES.get(parts[parts.index("LC_MESSAGES") - 1] if "LC_MESSAGES" in parts else parts[-1])
            if language is not None:
                for original, translated in catalogue_entries(data):
                    yield source, "en", original
                    yield source, language, translated
    yield from _messages(packages)
    for name, data in _deb_files(_package(packages, "gnome-user-docs"), ".page"):
        language = LANGUAGES.get(name.split("/help/")[-1].split("/")[0])
        if language is not None:
            for page in _PAGE.findall(data.decode("utf-8", "replace")):
                yield "gnome", language, page
    yield from _dialogues(_package(packages, "chatterbot"))
    for path in sorted(lists.glob("*_main_i18n_Translation-*")):
        yield from _descriptions(path)


def _messages(packages: Path) -> Iterator[tuple[str, str, str]]:
    for package in PROGRAMS:
        for name, data in _deb_files(_package(packages, package), ".mo"):
            if "/th/LC_MESSAGES/" in name:
                for _, translated in catalogue_entries(data):
                    yield "programs", "th", translated


def _dialogues(path: Path) -> Iterator[tuple[str, str, str]]:
    yaml: Any = import_module("yaml")
    with zipfile.ZipFile(path) as wheel:
        for name in sorted(wheel.namelist()):
            language = DIALOGUES.get(name.split("/")[2]) if name.endswith(".yml") else None
            if language is None:
                continue
            told = yaml.safe_load(wheel.read(name))
            for conversation in told.get("conversations", ()):
                for said in conversation:
                    if isinstance(said, str):
                        yield "chatterbot", language, said


def _descriptions(path: Path) -> Iterator[tuple[str, str, str]]:
    name = path.name.split("Translation-")[1].split(".")[0].replace("%5f", "_")
    language = LANGUAGES.get(name)
    if language is None:
        return
    command = ["/usr/lib/apt/apt-helper", "cat-file", str(path)]
    listed = subprocess.run(command, capture_output=True, check=True).stdout.decode("utf-8")
    for block in listed.split("\n\n"):
        _, mark, told = block.partition(f"Description-{name}:")
        if mark:
            head, *lines = told.split("\n")
            yield "descriptions", language, head
            body = (("" if line.strip() == "." else line.strip()) for line in lines if not line.startswith("  "))
            yield "descriptions", language, "\n".join(body)


def catalogue_entries(data: bytes, /) -> Iterator[tuple[str, str]]:
    """Yield the originals and translations of a gettext catalogue, with plural forms one by one."""
    order = "<" if struct.unpack("<I", data[:4])[0] == 0x950412DE else ">"
    count, originals, translations = struct.unpack(f"{order}3I", data[8:20])

    def text(table: int, place: int) -> str:
        size, start = struct.unpack_from(f"{order}2I", data, table + 8 * place)
        return data[start : start + size].decode("utf-8", "replace")

    for place in range(count):
        original, translated = text(originals, place).split("\x04")[-1], text(translations, place)
        if original and translated:
            yield original.split("\0")[0], translated.split("\0")[0]


def _deb_files(path: Path, suffix: str) -> Iterator[tuple[str, bytes]]:
    command = ["dpkg-deb", "--fsys-tarfile", str(path)]
    with (
        subprocess.Popen(command, stdout=subprocess.PIPE) as opened,
        tarfile.open(fileobj=opened.stdout, mode="r|") as files,
    ):
        for item in files:
            content = files.extractfile(item) if item.isfile() and item.name.endswith(suffix) else None
            if content is not None:
                yield item.name, content.read()


def _package(folder: Path, name: str) -> Path:
    found = sorted((*folder.glob(f"{name}*.deb"), *folder.glob(f"{name.replace('-', '_')}*.whl")))
    if not found:
        raise SystemExit(f"no package {name!r} in {folder}")
    return found[-1]


def _drawn(chance: random.Random, texts: Sequence[str], most: int) -> Iterable[str]:
    return texts if len(texts) <= most else chance.sample(texts, most)


def _plain(text: str) -> str:
    return " ".join(_MARKUP.sub("", text).split())
