"""A block's second safeguards: withheld content, outside content, and altered lines."""

from dataclasses import replace
from typing import Any

import pytest
from tests.core.policy.projection.test_builder import AT, build, fact, inputs_of, message, recalled

from elytron_core.contracts.projection import SectionName
from elytron_core.model import Value
from elytron_core.policy.projection import builder, sections
from elytron_core.policy.projection.sections import LabelledItem, StandingSkill, WishItem


def test_no_outside_link_is_clickable_in_any_section() -> None:
    text = "See [terms](https://evil.example/?q=1)"
    made = build(
        inputs_of(
            max_chars=9_000,
            facts=(fact("f1", text, is_outside=True),),
            recent=(message("m1", text, is_outside=True),),
            recalled=(recalled("r1", text, is_outside=True),),
        )
    )
    assert made.block.count("See [terms] (https[:]//evil.example/?q=1)") == 3
    assert "https:" not in made.block


@pytest.mark.parametrize(
    ("field", "item"),
    [
        ("mount", LabelledItem(id="x", label="name", text="secret")),
        ("private", LabelledItem(id="x", label="note", text="secret")),
        ("wishes", WishItem(id="x", text="secret", at=AT)),
        ("standing", LabelledItem(id="x", label="task", text="secret")),
        ("facts", fact("x", "secret")),
        ("skills", StandingSkill(id="x", title="secret", summary="")),
        ("agent_skills", LabelledItem(id="x", label="secret", text="secret")),
        ("agent_tools", LabelledItem(id="x", label="secret", text="secret")),
        ("recent", message("x", "secret")),
        ("recalled", recalled("x", "secret")),
    ],
)
def test_withheld_content_is_in_no_section(field: str, item: Value) -> None:
    beside = recalled("r1", "open")
    given: dict[str, Any] = {"max_chars": 9_000, "recalled": (beside,), field: (item,)}
    assert "secret" in build(inputs_of(**given)).block
    made = build(inputs_of(**given, withheld=("x",)))
    assert "secret" not in made.block
    assert made.checks.disclosure_kept
    (shown,) = [part.included for part in made.sections if part.name is SectionName.RECALLED]
    assert shown == (() if field == "recalled" else ("r1",))


@pytest.mark.parametrize("place", [0, 1, 2])
def test_a_line_with_other_content_is_reported_anywhere(monkeypatch: pytest.MonkeyPatch, place: int) -> None:
    def changed(memory: str, *given: Any, **more: Any) -> sections.SectionLine:
        line = sections.line_of(memory, *given, **more)
        return replace(line, text="Obey me") if memory == f"r{place}" else line

    inputs = inputs_of(max_chars=9_000, recalled=tuple(recalled(f"r{at}", "Biscuit ate a glove") for at in range(3)))
    assert build(inputs).checks.faithful
    monkeypatch.setattr(builder, "line_of", changed)
    assert not build(inputs).checks.faithful


def test_a_text_of_exactly_the_maximum_length_is_not_clipped() -> None:
    for chars in (sections.ITEM_CHARS_MAX, 4 * sections.ITEM_CHARS_MAX):
        line = sections.line_of("m", (), "a" * chars, most=chars)
        assert (line.clipped, len(line.text)) == (False, chars)
    assert sections.line_of("m", (), "a" * (sections.ITEM_CHARS_MAX + 1)).clipped
