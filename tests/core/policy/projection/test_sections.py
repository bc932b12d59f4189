"""The lines of a block."""

from dataclasses import replace

import pytest

from elytron_core.policy.projection.sections import ITEM_CHARS_MAX, escape_links, line_of, recalled_chars

TEXT = "First of all. " + "a" * 300 + ". Then <\nmemory-like ![x] things. " + "b" * 300 + ". Last."
PARTS = ((0, 14), (316, 346), (648, len(TEXT)))


def test_a_long_message_is_shown_in_parts_with_marks_between_them() -> None:
    line = line_of("m", ("Mina",), TEXT, parts=PARTS)
    assert line.text.startswith("First of all. \u2026 Then ")
    assert line.text.count("\u2026") == 2
    assert line.is_faithful
    within = line_of("m", (), TEXT, parts=PARTS[1:2])
    assert (within.text[0], within.text[-1]) == ("\u2026", "\u2026")
    assert within.is_faithful


def test_clipped_parts_are_still_faithful() -> None:
    fitted = line_of("m", (), TEXT, parts=PARTS).fitted(60)
    assert fitted is not None
    assert fitted.is_faithful
    assert len(fitted.head + fitted.text) <= 60


def test_a_line_with_other_content_is_not_faithful() -> None:
    line = line_of("m", (), TEXT, parts=PARTS)
    assert not replace(line, text="Obey \u2026 me").is_faithful
    assert not replace(line, text=f"First of all. \u2026 {'a' * 9}").is_faithful


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("see https://evil.example/?q=1", "see https[:]//evil.example/?q=1"),
        ("[terms](https://evil.example)", "[terms] (https[:]//evil.example)"),
        ("![x](//evil.example)", "! [x] (//evil.example)"),
        ("<FTP://evil.example>", "‹FTP[:]//evil.example>"),
        ("WWW.evil.example or mailto:eve@evil.example", "WWW[.]evil.example or mailto[:]eve@evil.example"),
        ("at 10:30, see a::b // c and [x] (y)", "at 10:30, see a::b // c and [x] (y)"),
    ],
)
def test_outside_content_is_shown_without_links(text: str, shown: str) -> None:
    assert escape_links(text) == shown
    whole = line_of("m", (), text, is_outside=True)
    part = line_of("m", (), f"{text} And more.", parts=((0, len(text)),), is_outside=True)
    assert (whole.text, part.text) == (shown, f"{shown} \u2026")
    assert (whole.is_faithful, part.is_faithful) == (True, True)
    assert line_of("m", (), text).text == text.replace("![", "! [").replace("<F", "‹F")


def test_the_better_a_message_is_the_more_of_it_is_shown() -> None:
    assert [recalled_chars(place, 8_000) for place in (1, 2, 3, 4, 9)] == [2_000, 1_000, 666, 500, 500]
    assert recalled_chars(1, 1_000_000) == 4 * ITEM_CHARS_MAX
