"""A pattern is compiled once, when first used."""

import re

import pytest

from elytron_core.text.traits import PhrasePattern


def test_a_pattern_is_compiled_on_first_use_and_then_cached(monkeypatch: pytest.MonkeyPatch) -> None:
    compiled: list[str] = []
    compile_ = re.compile

    def counting(expression: str, flags: re.RegexFlag) -> re.Pattern[str]:
        compiled.append(expression)
        return compile_(expression, flags)

    monkeypatch.setattr(re, "compile", counting)
    pattern = PhrasePattern("tea", re.IGNORECASE)
    assert compiled == []
    assert pattern.compiled.fullmatch("TEA")
    assert not pattern.compiled.fullmatch("coffee")
    assert compiled == ["tea"]
