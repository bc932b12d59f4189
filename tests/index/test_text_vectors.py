"""Text vectors: paraphrases are close, results are reproducible, and unknown words count nothing."""

import subprocess
import sys
from importlib.resources import files
from itertools import permutations

import numpy as np
import pytest

from elytron_index.lexicon.text_vectors import DIMENSIONS, FILE, TextVectors, encode_vectors, encoded_cosines

PAIRS = (
    ("The bakery opens at six in the morning.", "When can I buy fresh bread early in the day?"),
    ("Our engine failed in the middle of the lake.", "What happened to the motor of the boat?"),
    ("I take two pills for my heart every evening.", "Which medication does she need at night?"),
    ("Marta teaches biology to teenagers.", "What subject does the teacher give at school?"),
    ("We painted the nursery yellow.", "What colour is the baby's room?"),
    ("The invoice was never paid by the customer.", "Who still owes us money for the bill?"),
    ("Rain ruined the wedding in the garden.", "How was the weather at the marriage ceremony?"),
    ("Their puppy ran away during the fireworks.", "Why did the young dog escape?"),
    ("He learned to play the violin as a child.", "Which musical instrument did the boy practise?"),
    ("The server ran out of disk space last night.", "Why did the computer's storage fill up?"),
)


@pytest.fixture(scope="module")
def table() -> TextVectors:
    return TextVectors.load()


def test_a_paraphrase_is_nearer_than_every_unrelated_text(table: TextVectors) -> None:
    kept = encode_vectors(table.vectors([text for text, _ in PAIRS]))
    nearest = [int(encoded_cosines(encode_vectors(table.vector(asked)), kept).argmax()) for _, asked in PAIRS]
    assert nearest == list(range(len(PAIRS)))


def test_word_order_does_not_change_a_vector(table: TextVectors) -> None:
    words = ("my", "sister", "paints", "boats")
    found = {table.vector(" ".join(order)).tobytes() for order in permutations(words)}
    assert len(found) == 1


def test_batched_texts_have_the_same_vectors_as_single_ones(table: TextVectors) -> None:
    texts = ["", *(text for pair in PAIRS for text in pair), "我們搬家了", "Straße, café & naïveté!"]
    together = table.vectors(texts)
    assert together.dtype == np.int32
    assert np.array_equal(together, [table.vector(text) for text in texts])
    assert np.array_equal(encode_vectors(together), [encode_vectors(table.vector(text)) for text in texts])


@pytest.mark.parametrize(
    "text", ["", "  \n", "2024-05-01 17:30 +49", "我們下個月搬家", "Переезд в мае", "x" * 400, "🙂"]
)
def test_a_text_without_known_words_has_the_zero_vector(table: TextVectors, text: str) -> None:
    assert not table.tokens(text)
    assert not table.vector(text).any()
    kept = encode_vectors(table.vectors(["We move house in May.", text]))
    assert encoded_cosines(encode_vectors(table.vector(text)), kept).tolist() == [0.0, 0.0]


def test_figures_and_other_scripts_add_nothing(table: TextVectors) -> None:
    assert np.array_equal(table.vector("we move to 東京 in 2031"), table.vector("we move to in"))


def test_accents_and_case_make_no_difference(table: TextVectors) -> None:
    assert np.array_equal(table.vector("The CAFÉ"), table.vector("the cafe"))


def test_an_unknown_word_is_split_into_pieces(table: TextVectors) -> None:
    (first, *others) = table.tokens("unbicyclelike")
    assert others
    assert first + "".join(other.removeprefix("##") for other in others) == "unbicyclelike"
    assert all(other.startswith("##") for other in others)


def test_stop_words_are_included_and_no_word_is_stemmed(table: TextVectors) -> None:
    assert table.tokens("Do not tell my sisters?") == ["do", "not", "tell", "my", "sisters", "?"]


def test_the_cosine_of_encoded_vectors_equals_that_of_the_sums(table: TextVectors) -> None:
    sums = table.vectors([text for text, _ in PAIRS]).astype(np.float64)
    exact = sums @ sums[0] / (np.linalg.norm(sums, axis=1) * np.linalg.norm(sums[0]))
    codes = encode_vectors(sums.astype(np.int32))
    assert np.abs(encoded_cosines(codes[0], codes) - exact).max() < 0.01


def test_the_version_names_the_content_of_the_file(table: TextVectors) -> None:
    assert table.version.startswith("en-")
    assert TextVectors.load() is table
    assert TextVectors(files("elytron_index").joinpath(FILE).read_bytes()).version == table.version


def test_the_file_is_at_most_6_megabytes() -> None:
    size = len(files("elytron_index").joinpath(FILE).read_bytes())
    assert DIMENSIONS * 20_000 < size <= 6_000_000


def test_importing_elytron_does_not_read_the_table() -> None:
    asked = (
        "import elytron, sys; module = sys.modules.get('elytron_index.lexicon.text_vectors');"
        "print(module.TextVectors.load.cache_info().currsize if module else 0)"
    )
    done = subprocess.run([sys.executable, "-c", asked], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "0"
