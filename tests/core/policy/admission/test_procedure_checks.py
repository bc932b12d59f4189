"""What counts as a procedure."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from elytron_core.policy.admission.rules import EMPTY, RAW, WEAK, procedure_flaw

TRACEBACK = 'Traceback (most recent call last):\n  File "tide.py", line 3, in low\n    return table[day]\nKeyError: 8'
JAVA = (
    "java.lang.IllegalStateException: no oars\n\tat harbour.Boat.row(Boat.java:12)\n\tat harbour.Main.main(Main.java:4)"
)


@pytest.mark.parametrize(
    "text",
    [
        "Run the tests, then commit.",
        "boil vinegar; rinse twice",
        "Before the ferry: call Tomas",
        "- oars\n- rope",
        "1. oars",
        "1、准备船桨",
        "[1] oars",
        "Step 1 oars",
        "第一步：准备船桨",
        "先烧水，再放茶叶",
        "まずお湯を沸かす",
        "The user must be asked twice",
        "`git rebase -i`",
        "$ make harbour",
        "pytest --quiet",
        "Oars in the shed.\nRope beside them.",
        f"When the tide table fails:\n1. Read the last line of the error\n2. Rebuild the table\n3. Retry\n{TRACEBACK}",
        "[oars, rope] to be packed",
        "{name} goes into the first line, then the date",
        "```\nmake harbour\n```",
    ],
)
def test_steps_and_instructions_are_a_procedure(text: str) -> None:
    assert procedure_flaw(text) is None


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", EMPTY),
        (" \n\t\u200b", EMPTY),
        ("Mina likes green tea.", WEAK),
        ("今天天气很好", WEAK),
        ("It was foggy on Sunday, and cold", WEAK),
        ('{"oars": 2, "rope": [1, 2]}', RAW),
        ('[{"oars": 2}]', RAW),
        ('```json\n{\n  "oars": 2\n}\n```', RAW),
        ("[" * 60_000, RAW),
        ("<?xml version='1.0'?>\n<oars/>", RAW),
        ("  <!DOCTYPE html><p>oars", RAW),
        ('{"a": 1}\n{"a": 2}\n', RAW),
        ('"oars": 2,\n"rope": 1,\n}', RAW),
        (TRACEBACK, RAW),
        (JAVA, RAW),
        ("2025-03-02 14:05:01 INFO started\n2025-03-02 14:05:02 INFO stopped\nok", RAW),
        ("Mar  2 14:05:01 harbour sshd[4]: closed", RAW),
        ("[14:05:01] started", RAW),
        ("ERROR no oars", RAW),
    ],
)
def test_an_empty_raw_or_weak_text_is_not_a_procedure(text: str, reason: str) -> None:
    assert procedure_flaw(text) == reason


@given(st.text(max_size=200))
def test_every_text_has_at_most_one_flaw_and_none_raises(text: str) -> None:
    assert procedure_flaw(text) in {None, EMPTY, RAW, WEAK}


@given(st.text(st.characters(exclude_categories=["C", "Z"]), min_size=1, max_size=40))
def test_a_numbered_list_of_words_is_always_a_procedure(word: str) -> None:
    assert procedure_flaw(f"1. Take {word}\n2. Put {word} away") is None
