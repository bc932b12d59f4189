"""Times in the words of languages other than English."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from elytron_core.clock import instant
from elytron_core.policy.ranking.question import read_question
from elytron_core.policy.ranking.time_ranges import YEARS_BACK, TimeSpan, TimeWords, spans_in, without_relative

NOW = instant("2026-03-10T12:00:00Z")  # a Tuesday
LANGUAGES = ("ar", "de", "es", "fr", "it", "ja", "ko", "nl", "pl", "pt", "ru", "th", "tr", "zh")


@pytest.mark.parametrize(
    ("language", "text", "start", "end"),
    [
        ("de", "Was habe ich gestern gegessen?", "2026-03-09", "2026-03-10"),
        ("de", "Wen traf ich letzten Freitag?", "2026-03-06", "2026-03-07"),
        ("de", "Was geschah vor drei Wochen?", "2026-02-14", "2026-02-21"),
        ("de", "Wo waren wir im März 2025?", "2025-03-01", "2025-04-01"),
        ("es", "¿Qué hice la semana pasada?", "2026-03-02", "2026-03-09"),
        ("es", "¿Quién vino el 4 de mayo de 2025?", "2025-05-04", "2025-05-05"),
        ("fr", "Où étais-je hier ?", "2026-03-09", "2026-03-10"),
        ("fr", "Que lisais-je il y a deux jours ?", "2026-03-08", "2026-03-09"),
        ("fr", "Le mois dernier, qui est venu ?", "2026-02-01", "2026-03-01"),
        ("it", "Cosa ho fatto due giorni fa?", "2026-03-08", "2026-03-09"),
        ("pt", "O que fiz no ano passado?", "2025-01-01", "2026-01-01"),
        ("nl", "Wat deed ik vorige maand?", "2026-02-01", "2026-03-01"),
        ("pl", "Co robiłem w zeszłym tygodniu?", "2026-03-02", "2026-03-09"),
        ("ru", "Что было 5 марта 2025 года?", "2025-03-05", "2025-03-06"),
        ("tr", "Dün ne yaptım?", "2026-03-09", "2026-03-10"),
        ("ar", "ماذا فعلت قبل 3 أيام؟", "2026-03-07", "2026-03-08"),
        ("ja", "昨日何を食べましたか？", "2026-03-09", "2026-03-10"),
        ("ja", "先週の月曜日どこに行きましたか？", "2026-03-02", "2026-03-03"),
        ("ja", "先々週は？", "2026-02-23", "2026-03-02"),
        ("ko", "지난주에 뭐 했어?", "2026-03-02", "2026-03-09"),
        ("ko", "2025년 3월에 어디 있었어?", "2025-03-01", "2025-04-01"),
        ("th", "เมื่อวานกินอะไร", "2026-03-09", "2026-03-10"),
        ("zh", "我上周一吃了什么？", "2026-03-02", "2026-03-03"),
        ("zh", "本周五谁来？", "2026-03-13", "2026-03-14"),
        ("zh", "2025年3月2日", "2025-03-02", "2025-03-03"),
    ],
)
def test_a_time_in_words_of_a_language_is_a_span(language: str, text: str, start: str, end: str) -> None:
    assert spans_in(text, NOW, language) == (TimeSpan(instant(start), instant(end)),)


@pytest.mark.parametrize(
    ("language", "text"), [("de", "am 4. Mai"), ("fr", "le 1er mars"), ("ja", "3月5日に"), ("ko", "3월 4일")]
)
def test_without_a_year_any_near_year_is_meant(language: str, text: str) -> None:
    assert len(spans_in(text, NOW, language)) == YEARS_BACK + 2


@pytest.mark.parametrize(
    ("language", "text"),
    [
        ("de", "Wohnt hier jemand?"),
        ("en", "Où étais-je hier ?"),
        ("es", "¿Te gusta el mar?"),
        ("pl", "Gdzie mieszka Maja?"),
        ("xx", "gestern"),
    ],
)
def test_words_with_another_meaning_are_not_times(language: str, text: str) -> None:
    assert spans_in(text, NOW, language) == ()


def test_relative_times_are_not_searched_for() -> None:
    assert without_relative("Was war vor drei Wochen kaputt?", "de").split() == ["Was", "war", "kaputt?"]
    assert read_question("我昨天丢了什么？", NOW, (), "zh").text == "我 丢了什么？"
    assert read_question("gestern", NOW, (), "de").text == "gestern"


def test_english_has_words_of_its_own() -> None:
    assert TimeWords.load("en") is None
    assert all(TimeWords.load(language) is not None for language in LANGUAGES)


@given(text=st.text(max_size=60), language=st.sampled_from(LANGUAGES))
def test_any_text_is_read(text: str, language: str) -> None:
    assert all(span.start < span.end for span in spans_in(text, NOW, language))
    without_relative(text, language)
