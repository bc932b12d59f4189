"""Recovery words are found in any layout, and ordinary words are not a key."""

import json
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from elytron_core.policy.redaction import is_suspect, scrub_secrets
from elytron_core.text.recovery_words import english_words, recovery_spans, words_of

KEY = words_of(bytes(range(100, 116)))
WORDS = KEY.split()
KEYS = st.binary(min_size=16, max_size=16).map(words_of).filter(lambda key: len(set(key.split())) > 8)
SEPARATORS = st.sampled_from(
    (
        *(" ", "\n", "\t", ", ", " | ", "|", "/", "·", " → ", "_", "-", "\u200b", " \u200d ", "\u2063", "\u00ad", "和"),
        *(" and ", " AND ", ", and ", "\n- ", "</li>\n<li>", "<br/>", "&nbsp;", '", "', "\\n", "\\t", "\\u0020"),
        *(" " * 90, " |\n|------|------|\n| ", '</td><td class="word">', "#", "…", "🙂"),
    )
)
ENDS = ("st", "nd", "rd", *["th"] * 9)
LAYOUTS = {
    "numbers": " ".join(f"#{number} {word}" for number, word in enumerate(WORDS, 1)),
    "a numbered list": "".join(f"\n{number}. {word}" for number, word in enumerate(WORDS, 1)),
    "numbers in words' order": "".join(f"第{number}個：{word}\n" for number, word in enumerate(WORDS, 1)),
    "a table": "| nr | word |\n|---|---|\n" + "".join(f"| {at} | {word:12} |\n" for at, word in enumerate(WORDS, 1)),
    "one line of a table": "|" + "|".join(WORDS) + "|",
    "JSON": json.dumps({"words": WORDS}),
    "JSON in JSON": json.dumps(json.dumps({"words": "\n".join(WORDS)})),
    "HTML": "<ol>" + "".join(f"<li><b>{word}</b></li>" for word in WORDS) + "</ol>",
    "XML with listed names": "".join(f"<item><word>{word}</word></item>" for word in WORDS),
    "ordinals": "\n".join(
        f"{number}{end} {word}" for number, (word, end) in enumerate(zip(WORDS, ENDS, strict=True), 1)
    ),
    "colours of a terminal": " ".join(f"\x1b[1;32m{word}\x1b[0m" for word in WORDS),
    "within words": " ".join(f"{word[:2]}\u200b{word[2:]}" for word in WORDS),
    "between words only": "\u200b".join(WORDS),
    "wide letters": " ".join("".join(chr(ord(char) + 0xFEE0) for char in word) for word in WORDS),
    "capitals": KEY.upper(),
    "each twice apart": "".join(f"\n{word}\n\n\n" for word in WORDS),
}


def require_redacted(text: str, words: Sequence[str]) -> None:
    shown = scrub_secrets(text)
    assert shown.counts == {"recovery_words": 1}
    assert is_suspect(text)
    assert not [word for word in words if word in shown.text.lower()]
    assert scrub_secrets(shown.text).counts == {}


@pytest.mark.parametrize("layout", LAYOUTS)
def test_the_words_of_a_key_are_found_in_any_layout(layout: str) -> None:
    require_redacted(LAYOUTS[layout], WORDS)


@given(key=KEYS, data=st.data())
def test_text_between_the_words_of_a_key_does_not_hide_them(key: str, data: st.DataObject) -> None:
    words = key.split()
    between = data.draw(st.lists(SEPARATORS, min_size=len(words), max_size=len(words)))
    text = "It says: " + "".join(f"{word}{gap}" for word, gap in zip(words, between, strict=True)) + "thanks!"
    ((start, end),) = recovery_spans(text)
    assert text[start : start + len(words[0])] == words[0]
    assert text[:end].endswith(words[-1])


def test_an_escape_is_not_part_of_the_following_word() -> None:
    key = "film swarm arrow soldier anger visit inch wrist retreat smart green spray"
    require_redacted(key.replace(" ", "\\n"), key.split())


@pytest.mark.parametrize(
    "text",
    [
        KEY.replace(WORDS[5], f"then {WORDS[5]}"),
        " ".join(WORDS[:11]),
        " ".join((*WORDS[1:], WORDS[0])),
        " ".join((WORDS[0], WORDS[1]) * 12),
        "and " * 40,
        "|".join(str(number) for number in range(200)),
    ],
)
def test_ordinary_words_are_not_a_key(text: str) -> None:
    assert recovery_spans(text) == []


def test_keys_are_found_in_a_long_list_of_words() -> None:
    listed = english_words()
    before, after = " | ".join(listed[::-7]), " | ".join(listed[::-5])
    text = f"{before} stop {KEY} stop {after}"
    spans = recovery_spans(text)
    assert any(text[start:end] == KEY for start, end in spans)
