"""Skills as Markdown files."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.core.policy.skills.test_quality import skill

from elytron_core.policy.skills import SkillFile, read_skill_file, write_skill_file


@pytest.mark.parametrize(
    ("head", "fields"),
    [
        ("name: pdf", {"name": "pdf"}),
        ("name: pdf # the first", {"name": "pdf"}),
        ("name: 'it''s'", {"name": "it's"}),
        (r'name: "a \"b\"\n\t\\ \/ \x"', {"name": 'a "b"\n\t\\ / \\x'}),
        ("description: one\n  two\n\n  three", {"description": "one two three"}),
        ("description: >\n  one\n  two\n\n  three\nname: x", {"description": "one two\nthree", "name": "x"}),
        ("description: |-\n  one\n    two\n", {"description": "one\n  two"}),
        ("description: 'one\n  two'", {"description": "one two"}),
        ("description:\n  one\n  # no\n  two", {"description": "one two"}),
        ("description: >\n", {"description": ""}),
        ("description:", {"description": ""}),
        ("name: a\nname: b", {"name": "a"}),
        ("allowed-tools:\n  - Read\nname: x", {"name": "x"}),
        ("metadata:\n  author: y\nname: x", {"name": "x"}),
        ("tags: [a, b]\nname: x", {"name": "x"}),
        ("name: 'broken", {}),
        ('name: "broken', {}),
        ("no field\n- list\nname: x", {"name": "x"}),
        ("url: a:b", {"url": "a:b"}),
    ],
)
def test_the_fields_of_front_matter_are_read(head: str, fields: dict[str, str]) -> None:
    document = read_skill_file(f"---\n{head}\n---\n\n# Title\n")
    assert document is not None
    assert (document.fields, document.body) == (fields, "# Title")


@pytest.mark.parametrize("text", ["", "# Title", "---\nname: x", "name: x\n---\n", " ---\nname: x\n---"])
def test_without_front_matter_nothing_is_read(text: str) -> None:
    assert read_skill_file(text) is None


def test_byte_order_marks_and_other_line_endings_are_accepted() -> None:
    document = read_skill_file("\ufeff---\r\nname: x\r\n---\r\nbody\r\n")
    assert document == SkillFile({"name": "x"}, "body")


@given(*[st.text(st.characters(exclude_categories=("Cc", "Cs", "Zl", "Zp")), min_size=1, max_size=20)] * 3)
def test_written_front_matter_reads_back(topic: str, title: str, summary: str) -> None:
    one = skill(topic=topic, title=title, summary=summary, procedure="1. Boil.\n2. Pour.", citations=("a", "b"))
    document = read_skill_file(write_skill_file(one))
    assert document is not None
    assert (document.fields["topic"], document.fields["title"], document.fields["summary"]) == (topic, title, summary)
    assert (document.fields["name"], document.fields["citations"]) == (one.name, "a b")
    assert document.body == one.procedure


@given(st.text(max_size=200))
def test_any_text_can_be_parsed(text: str) -> None:
    read_skill_file(f"---\n{text}\n---\n")
