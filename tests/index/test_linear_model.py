from pathlib import Path

import pytest
from benchmarks.linear_fit import Labelled, Settings, labelled, model_of

from elytron_index.lexicon.linear_model import TOKENS_MAX, LinearModel, tokens_of

TEXTS = (
    ("I love tea", True), ("Always use metric units.", True), ("我不吃香菜", True),
    ("Where is the train?", False), ("We went home.", False), ("今天下雨了", False),
)  # fmt: skip


@pytest.fixture(scope="module")
def data() -> bytes:
    texts = [Labelled(text, frozenset(("holds",)) if holds else frozenset(), "en") for text, holds in TEXTS * 4]
    return model_of("trial", texts, ("holds",), settings=Settings(hashed=0.1, vectors=0.1, buckets=1 << 10))


def test_a_text_is_split_into_words_digits_marks_and_chinese_characters() -> None:
    assert tokens_of("Don’t use 1,000 words： 我爱茶！") == [
        "don't",
        "use",
        "0",
        ",",
        "0",
        "words",
        ":",
        *"我爱茶",
        "!",
    ]


def test_a_text_is_read_up_to_the_limit() -> None:
    assert len(tokens_of("tea " * (TOKENS_MAX + 1))) == TOKENS_MAX


def test_a_model_recognises_its_training_texts_and_similar_ones(data: bytes) -> None:
    model = LinearModel(data)
    assert [model.holding(text) == {"holds"} for text, _ in TEXTS] == [holds for _, holds in TEXTS]
    assert model.scores("I love coffee") > model.scores("We went to the train.")


def test_a_text_without_tokens_has_no_label(data: bytes) -> None:
    assert LinearModel(data).holding(" …") == frozenset()


def test_the_version_of_a_model_depends_on_its_weights(data: bytes) -> None:
    texts = [Labelled(text, frozenset(("holds",)) if holds else frozenset()) for text, holds in TEXTS[:5] * 4]
    other = model_of("trial", texts, ("holds",), settings=Settings(buckets=1 << 10))
    assert LinearModel(data).version == LinearModel(data).version
    assert LinearModel(data).version != LinearModel(other).version


def test_labelled_texts_are_read_from_a_tab_separated_file(tmp_path: Path) -> None:
    path = tmp_path / "texts.tsv"
    path.write_text("# labels, language, text\none,two\ten\tTea.\\nNo milk.\n-\tzh\t茶\n", encoding="utf-8")
    assert labelled(path) == [
        Labelled("Tea.\nNo milk.", frozenset(("one", "two")), "en"), Labelled("茶", frozenset(), "zh"),
    ]  # fmt: skip
