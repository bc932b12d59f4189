"""Language vectors: translations are close, results are reproducible, the English table ignores other languages."""

import subprocess
import sys
from importlib.resources import files
from itertools import permutations

import numpy as np
import pytest

from elytron_core.ports.store import DocumentRef
from elytron_core.text.analyser import TextAnalyser
from elytron_index import DocumentChange, IndexQuery, SearchUnit
from elytron_index.lexicon.text_vectors import (
    FILE,
    LANGUAGE_FILE,
    LanguageVectors,
    LanguageVocabulary,
    TextVectors,
    encode_vectors,
    encoded_cosines,
    table_version,
    text_codes,
)
from elytron_index.space_index import SpaceIndex

MEMORIES = (
    "The bakery opens at six in the morning.",
    "Mein Bruder arbeitet als Arzt im Krankenhaus.",
    "El perro se escapó durante los fuegos artificiales.",
    "Nous avons peint la chambre en jaune.",
    "我对花生过敏。",
    "電車は毎朝七時に出ます。",
    "Мы переехали в новую квартиру в мае.",
    "Il nonno suona il violino ogni sera.",
    "O carro está na oficina até sexta-feira.",
    "Zgubiłam klucze do piwnicy.",
)
QUESTIONS = (
    "Wann macht die Bäckerei auf?",
    "What is my brother's job in the hospital?",
    "Quand le chien s'est-il enfui ?",
    "De qué color es la habitación?",
    "Which food am I allergic to?",
    "When does the train leave?",
    "When did we move to the new flat?",
    "Which instrument does grandfather play?",
    "Where is the car?",
    "What about the keys of the cellar?",
)


@pytest.fixture(scope="module")
def table() -> LanguageVectors:
    return LanguageVectors.load()


def codes(*texts: str) -> np.ndarray:
    return text_codes(texts)[1]


def test_a_question_in_another_language_is_nearest_to_its_answer() -> None:
    kept = codes(*MEMORIES)
    nearest = [int(encoded_cosines(codes(question)[0], kept).argmax()) for question in QUESTIONS]
    assert sum(map(int.__eq__, nearest, range(len(MEMORIES)))) >= len(MEMORIES) - 2


def test_word_order_does_not_change_a_vector(table: LanguageVectors) -> None:
    words = ("meine", "Schwester", "malt", "Boote")
    assert len({table.vector(" ".join(order)).tobytes() for order in permutations(words)}) == 1


@pytest.mark.parametrize("text", ["", "  \n", "2024-05-01 17:30 +49", "🙂"])
def test_a_text_without_known_words_has_the_zero_vector(table: LanguageVectors, text: str) -> None:
    assert not table.vector(text).any()
    assert table.is_english(text)
    assert [code.any() for code in text_codes((text,))] == [False, False]


@pytest.mark.parametrize(
    "text", ["我們下個月搬家", "Переезд в мае", "Wir ziehen im Mai um", "Nos mudamos en mayo", "5月に引っ越します"]
)
def test_the_english_table_yields_nothing_for_another_language(table: LanguageVectors, text: str) -> None:
    english, languages = text_codes((text,))
    assert not table.is_english(text)
    assert not english.any()
    assert languages.any()


def test_both_tables_know_an_english_text() -> None:
    text = "We move house in May."
    english, languages = text_codes((text,))
    assert np.array_equal(english[0], encode_vectors(TextVectors.load().vector(text)))
    assert languages.any()


def test_an_unknown_word_is_split_into_its_longest_pieces() -> None:
    known = LanguageVocabulary.of(["haus", "##boot", "##tür", "家", "電車", "電"])
    tokens = known.tokens()
    assert [tokens[row] for row in known.rows("Hausboot, HAUSTÜR; 電車家")] == [
        "haus",
        "##boot",
        "haus",
        "##tür",
        "電車",
        "家",
    ]


def test_a_letter_that_starts_no_piece_is_ignored() -> None:
    known = LanguageVocabulary.of(["haus", "##boot"])
    tokens = known.tokens()
    assert [tokens[row] for row in known.rows("hausxboot")] == ["haus", "##boot"]
    assert known.share("hausxboot") == 8 / 9


def test_the_version_names_both_tables(table: LanguageVectors) -> None:
    assert LanguageVectors.load() is table
    assert LanguageVectors(files("elytron_index").joinpath(LANGUAGE_FILE).read_bytes()).version == table.version
    assert table_version() == f"{TextVectors.load().version} {table.version}"


def test_both_files_are_at_most_16_megabytes() -> None:
    names = (LANGUAGE_FILE, FILE)
    assert sum(len(files("elytron_index").joinpath(name).read_bytes()) for name in names) <= 16_000_000


def test_importing_elytron_does_not_read_the_table() -> None:
    asked = (
        "import elytron, sys; module = sys.modules.get('elytron_index.lexicon.text_vectors');"
        "print(module.LanguageVectors.load.cache_info().currsize if module else 0)"
    )
    done = subprocess.run([sys.executable, "-c", asked], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "0"


def test_memories_of_several_languages_are_found_in_any_of_them() -> None:
    index = SpaceIndex(TextAnalyser())
    refs = [DocumentRef("turn", f"t{place}") for place in range(len(MEMORIES))]
    units = zip(refs, MEMORIES, strict=True)
    index.apply([DocumentChange(ref, (SearchUnit(ref, 0, "transcript", text),)) for ref, text in units], watermark=1)
    found = index.search(IndexQuery(text="Which food am I allergic to?", limit=1)).candidates
    assert [each.unit.ref for each in found] == [refs[4]]
    assert found[0].signals.text_vectors > 0.3
