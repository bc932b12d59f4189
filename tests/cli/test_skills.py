"""`elytron skills`: what was learned, viewed, and governed."""

import json
from pathlib import Path

import pytest
from tests.cli.conftest import CommandLine

BREW = """---
name: brew
topic: tea
title: Brew tea
summary: How to brew tea
citations: t1 t2
---
1. Boil the water.
2. Add the leaves.
"""
NAME = "runtime_skill__brew"


@pytest.fixture
def brew(elytron: CommandLine) -> CommandLine:
    elytron("skills", "import", elytron.write("brew.md", BREW.encode()))
    return elytron


def test_markdown_is_imported_listed_and_shown(brew: CommandLine) -> None:
    [skill] = brew.json("skills", "list")["runtime_skills"]
    assert (skill["name"], skill["source"], skill["citations"]) == (NAME, "manual", 2)
    shown = brew.json("skills", "show", "brew")
    assert shown["procedure"] == "1. Boil the water.\n2. Add the leaves."
    assert NAME in brew("skills", "list", "tea", "--no-json").stdout
    assert "1 in total, 1 active" in brew("skills", "list", "boat", "--no-json").stdout


def test_raw_output_can_be_imported_again(brew: CommandLine) -> None:
    raw = brew("skills", "show", "brew", "--raw").stdout
    report = brew.json("skills", "import", brew.write("again.md", raw.encode()))
    assert [decision["outcome"] for decision in report["decisions"]] == ["confirmed"]


@pytest.mark.parametrize("as_lines", [False, True])
def test_json_is_imported_too(elytron: CommandLine, *, as_lines: bool) -> None:
    texts = {"topic": "tea", "title": "T", "summary": "s", "content": "1. a\n2. b"}
    skills = [{"name": "a", **texts}, {"name": "b", **texts, "topic": "war", "title": "Drums", "content": "1. c\n2. d"}]
    data = "\n".join(map(json.dumps, skills)) if as_lines else json.dumps(skills)
    report = elytron.json("skills", "import", elytron.write("s.json", data.encode()), "--dry-run")
    assert [decision["outcome"] for decision in report["decisions"]] == ["stored", "stored"]
    assert elytron.error("skills", "list", expect=3)["key"] == "store_missing"
    told = elytron("skills", "import", elytron.write("one.json", json.dumps(skills[0]).encode()), "--no-json")
    assert told.stdout == "stored  runtime_skill__a\n"


@pytest.mark.parametrize(
    ("data", "problem", "code"),
    [
        (b"just text", "is neither Markdown with front matter", 6),
        (b"---\nname: x\ndescription: y\n---\n", "a SKILL.md file is read in place", 6),
        (b"\xff", "is not UTF-8", 6),
        (b"[1]", "is not a list of objects", 6),
        (b'{"name": "x"', "the JSON", 2),
        (b'{"name": "x"}', "topic", 2),
    ],
)
def test_a_file_without_a_skill_is_rejected(elytron: CommandLine, data: bytes, problem: str, code: int) -> None:
    assert problem in elytron.error("skills", "import", elytron.write("x.md", data), expect=code)["reason"]


def test_a_missing_or_huge_file_is_refused(elytron: CommandLine, tmp_path: Path) -> None:
    assert "does not exist" in elytron.error("skills", "import", "gone.md", expect=6)["reason"]
    huge = tmp_path / "huge.md"
    with huge.open("wb") as file:
        file.truncate(16 * 1024 * 1024 + 1)
    assert "is larger than" in elytron.error("skills", "import", str(huge), expect=6)["reason"]


def test_an_edit_is_shown_with_its_lineage(brew: CommandLine) -> None:
    steps = brew.write("steps.txt", b"1. Boil the water.\n2. Wait.")
    options = ("--title", "Brew better tea", "--procedure-file", steps, "--reason", "too bitter")
    assert brew("skills", "edit", "brew", *options, "--no-json").stdout.startswith(f"changed {NAME}: revision 2")
    told = brew("skills", "show", "brew", "--no-json").stdout
    for part in ("superseded", "procedure_refinement: too bitter", "  - 2. Add the leaves.", "  + 2. Wait."):
        assert part in told
    assert "nothing was changed" in brew("skills", "edit", "brew", *options, "--no-json").stdout
    weak = brew("skills", "edit", "brew", "--procedure-file", brew.write("w.txt", b"Nice."), "--no-json", expect=2)
    assert weak.stdout.startswith("refused: ")
    assert "name what to change" in brew.error("skills", "edit", "brew", expect=2)["reason"]


def test_a_skill_is_switched_off_and_on_and_deleted(brew: CommandLine) -> None:
    assert "disabled" in brew("skills", "disable", "brew", "--no-json").stdout
    assert brew.json("recall", "brew tea")["hits"] == []
    assert [skill["enabled"] for skill in brew.json("skills", "list", "--disabled")["runtime_skills"]] == [False]
    assert brew.json("skills", "enable", NAME)["changed"]
    assert brew.json("recall", "brew tea")["hits"][0]["id"] == NAME
    assert brew("skills", "delete", "brew", "--no-json").stdout == f"deleted {NAME}\n"
    assert brew.error("skills", "show", "brew", expect=3)["key"] == "not_found"


def test_outcomes_and_governance_are_reported(brew: CommandLine) -> None:
    told = brew("skills", "outcome", "brew", "gone", "--outcome", "mismatch", "--note", "no kettle", "--no-json")
    assert told.stdout == f"recorded  {NAME}\nno such skill  runtime_skill__gone\n"
    assert "revision pending" in brew("skills", "show", "brew", "--no-json").stdout
    assert brew("skills", "govern", "--no-json").stdout == "1 skills checked; nothing was changed\n"
    other = BREW.replace("name: brew", "name: brewing")
    texts = {"name": "b", "topic": "tea", "title": "Brewing", "summary": "x", "content": "1. Sit.\n2. Wait."}
    brew("skills", "import", brew.write("b.json", json.dumps(texts).encode()))
    brew("skills", "edit", "b", "--title", "Brew tea", "--procedure-file", brew.write("p", other.encode()[-40:]))
    assert "merged" in brew("skills", "govern", "--dry-run", "--no-json").stdout


def test_agent_skill_directories_are_shown_without_a_store(elytron: CommandLine, tmp_path: Path) -> None:
    folder = tmp_path / "agent" / "pdf"
    folder.mkdir(parents=True)
    (folder / "SKILL.md").write_text("---\nname: pdf\ndescription: Fill PDF forms\n---\n")
    (tmp_path / "agent" / "none").symlink_to("/")
    told = elytron("skills", "dirs", "--agent-skill-dirs", str(tmp_path / "agent"), "--no-json").stdout
    assert "Fill PDF forms" in told
    assert "skipped  agent/none: symlink" in told
    assert elytron.json("skills", "dirs") == {"directories": 0, "resources": 0, "skills": [], "skipped": [],
                                              "skipped_total": 0, "read_only": True}  # fmt: skip
    assert list(elytron.folder.glob("*.db")) == []


@pytest.mark.parametrize("variable", ["ELYTRON_AGENT_SKILL_DIRS", "BM_AGENT_SKILL_DIRS"])
def test_agent_skill_directories_come_from_the_environment(
    elytron: CommandLine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, variable: str
) -> None:
    elytron.make()
    for name in ("one", "two"):
        folder = tmp_path / name / name
        folder.mkdir(parents=True)
        (folder / "SKILL.md").write_text(f"---\nname: {name}\ndescription: Handle it\n---\n")
    monkeypatch.setenv(variable, f"{tmp_path / 'one'}:{tmp_path / 'two'}:")
    assert [skill["name"] for skill in elytron.json("skills", "dirs")["skills"]] == ["one", "two"]
    assert elytron.json("recall", "handle two")["agent_skill_hits"][0]["name"] == "two"
