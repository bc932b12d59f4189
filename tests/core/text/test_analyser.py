"""Terms that the analyser extracts from texts."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from elytron_core import limits
from elytron_core.text.analyser import CHINESE, ENGLISH, TextAnalyser

ANY_TEXT = st.text(st.characters(exclude_categories=()), max_size=80) | st.text(
    st.sampled_from("aZ'’.-_@:/,1 90\x00我カ한ก়é😀\ud800\u0301İßŉ™²½"), max_size=40
)


@pytest.fixture(scope="module")
def analyser() -> TextAnalyser:
    return TextAnalyser()


@given(text=ANY_TEXT)
def test_any_text_yields_short_and_deterministic_terms(text: str) -> None:
    terms = TextAnalyser().terms(text)

    assert terms == TextAnalyser().terms(text)
    assert all(0 < len(term) <= 64 and not any(char.isspace() for char in term) for term in terms)


@given(text=ANY_TEXT | st.lists(ANY_TEXT, max_size=9).map(" the ".join))
def test_a_text_analysed_in_steps_yields_the_same_terms(text: str) -> None:
    assert [term for step in TextAnalyser().steps(text) for term in step] == TextAnalyser().terms(text)


@pytest.mark.parametrize("piece", ["w{}x ", "汉字{}", "汉", "the ", "https://a.b/{} "])
def test_a_long_text_is_analysed_in_many_steps(piece: str) -> None:
    text = "".join(piece.format(number) for number in range(6_000))
    steps = list(TextAnalyser().steps(text))
    assert [term for step in steps for term in step] == TextAnalyser().terms(text)
    assert len(steps) >= 5
    assert max(map(len, steps)) <= 1_024


@given(text=ANY_TEXT)
def test_a_text_used_as_its_own_query_matches_itself(text: str) -> None:
    analyser = TextAnalyser()
    asked = analyser.query_terms(text)

    assert set(asked) <= set(analyser.terms(text))
    assert len(set(asked)) == len(asked) <= limits.QUERY_TERMS
    assert bool(asked) == bool(analyser.terms(text))


@pytest.mark.parametrize(
    ("text", "terms"),
    [
        ("Ada's cats were running", ["ada", "cat", "run"]),
        ("D'Angelo met O’Brien's", ["angelo", "dangelo", "meet", "brien", "obrien"]),
        ("y'all, it's ten o'clock", ["ten", "clock", "oclock"]),
        ("don’t we'll o'brien", ["brien", "obrien"]),
        ("Café naïve Straße ﬁne Łódź", ["cafe", "naiv", "strass", "fine", "lodz"]),
        ("1,200 dollars and 3.14 or 1,234,567.5", ["1200", "dollar", "3.14", "1234567.5"]),
        ("$1,299.00 and 1,299", ["1299.00", "1299", "1299"]),
        ("Party 🎉👍🏽 in 🇵🇹❤️", ["parti", "🎉", "👍", "🇵🇹", "❤"]),
        ("on 2025-01-12", ["2025-01-12", "2025", "1", "12"]),
        ("2025/1/2", ["2025-01-02", "2025", "1", "2"]),
        ("12/31/2024", ["12/31/2024", "12", "31", "2024"]),
        ("at 7:30 pm, 7:30PM, 19:30 and 12:05:07", ["7:30pm", "7:30pm", "19:30", "12:05:07"]),
        ("May 7th, 21st", ["may", "7", "21"]),
        ("snake_case_name", ["snake_case_name", "snake", "case", "name"]),
        ("parseHTTPRequest2", ["parsehttprequest2", "pars", "http", "request", "2"]),
        ("os.path.join in file.py", ["os.path.join", "os", "path", "join", "file.py", "file", "py"]),
        ("U.S.A. e.g.", ["usa", "eg"]),
        ("ada.l@mail.example.org", ["ada.l@mail.example.org", "mail.example.org", "ada", "l", "mail", "exampl", "org"]),
        ("https://docs.example.org:80/a/re.html", ["docs.example.org", "doc", "exampl", "org", "80", "html"]),
        ("HTTP://localhost/x", ["localhost", "x"]),
        ("我喜欢茶", ["我喜", "喜欢", "欢茶", "我", "喜", "欢", "茶"]),
        ("茶 tea茶", ["茶", "tea", "茶"]),
        ("東京タワー", ["東京", "京タ", "タワ", "ワー", "東", "京", "タ", "ワ", "ー"]),
        ("한국", ["한국", "한", "국"]),
        ("สวัส", ["สวั", "วัส", "ส", "วั", "ส"]),
        ("แมว", ["แมว", "แม", "ว"]),
        ("ພາສາ", ["ພາ", "າສ", "ສາ", "ພ", "າ", "ສ", "າ"]),
        ("ខ្មែរ", ["ខ្មែរ", "ខ្មែ", "រ"]),
        ("Привет МИР", ["привет", "мир"]),
        ("हिन्दी भाषा", ["हिन्दी", "भाषा"]),
        ("مرحبا Ελληνικά", ["مرحبا", "ελληνικά"]),
        ("😀 👍🏽 ?! …", ["😀", "👍"]),
        ("Elytron™ ①", ["elytron", "1"]),
        ("a\ud800b \x00", ["b"]),
        ("__init__", ["init"]),
        ("", []),
    ],
)
def test_a_text_yields_the_expected_terms(analyser: TextAnalyser, text: str, terms: list[str]) -> None:
    assert analyser.terms(text) == terms


@pytest.mark.parametrize(
    ("query", "terms"),
    [
        ("What did Ada say about tea, tea and Tea?", ["ada", "say", "tea"]),
        ("Who are you?", ["who", "are", "you"]),
        ("茶", ["茶"]),
        ("绿茶", ["绿茶"]),
        ("绿茶在哪里", ["绿茶"]),
        ("猫叫什么", ["猫"]),
        ("我的猫什么时候看医生", ["猫", "看医", "医生"]),
        ("谁养了猫呢", ["养了", "了猫"]),
        ("什么", ["什么"]),
        ("我的什么", ["我的", "的什", "什么"]),
        ("😀", ["😀"]),
        ("how was the party? 🎉", ["parti"]),
    ],
)
def test_a_query_omits_question_words_unless_nothing_else_remains(
    analyser: TextAnalyser, query: str, terms: list[str]
) -> None:
    assert analyser.query_terms(query) == terms


def test_a_text_of_only_stop_words_keeps_them(analyser: TextAnalyser) -> None:
    assert analyser.terms("To be or not to be") == ["to", "be", "or", "not", "to", "be"]


def test_a_long_query_keeps_its_first_terms(analyser: TextAnalyser) -> None:
    words = [f"w{number}" for number in range(limits.QUERY_TERMS + 10)]

    assert analyser.query_terms(" ".join(words)) == words[: limits.QUERY_TERMS]


@pytest.mark.parametrize(
    "pattern", ["a", "a+", "a.", "1-", "1,", "@", "a@b.", "://", "é1:", "我", "x'", "a_", "ก", "\u0301"]
)
def test_a_long_token_yields_short_terms(analyser: TextAnalyser, pattern: str) -> None:
    text = pattern * (2_000 // len(pattern))

    assert all(len(term) <= 64 for term in analyser.terms(text))


def test_a_full_cache_changes_nothing() -> None:
    analyser = TextAnalyser()
    before = analyser.terms("Running cats")
    for start in range(0, 70_000, 1_000):
        analyser.terms(" ".join(f"w{number}" for number in range(start, start + 1_000)))

    assert analyser.terms("Running cats") == before


def test_stop_words_are_written_as_the_analyser_folds_them() -> None:
    assert all(word.isascii() and word == word.casefold() for word in ENGLISH)
    assert all(len(pair) == 2 for pair in CHINESE)
