"""Docstrings and comments are plain technical English: eight habits that a reader cannot search for are counted."""

import ast
import io
import re
import shutil
import subprocess
import tokenize
from collections.abc import Iterator
from pathlib import Path

from tests.gates.tree import ROOT, files, nodes, source

HABITS = {
    "headless": re.compile(r"\A(?:What|Which|Who|Whom|Whose|Whether|How|Where)\b(?![^.\n]*\?)"),
    "where for if": re.compile(
        r"\b[Ww]here (?:there (?:is|are|was|were)|none|nothing|no (?:one|\w+)|it (?:is|has|can|may|does|was)|"
        r"they (?:are|have|can|may|do|were)|that is|one is|not)\b"
    ),
    "tells": re.compile(r"\b(?:tells|told|telling)\b|\ATell whether\b"),
    "stands, lies": re.compile(
        r"\b(?:stands|stood|lies|lay|(?<!to )(?<!not )stand(?= (?:in|at|on|there|for|behind|before|beside)\b))\b"
    ),
    "nobody": re.compile(r"\b(?:nobody|somebody|anybody|everybody|whoever|whatever)\b", re.IGNORECASE),
    "he": re.compile(r"\b(?:he|his|him|himself)\b", re.IGNORECASE),
    "anew": re.compile(r"\b(?:anew|so many|so much as|at the most|at the least|as far as)\b", re.IGNORECASE),
}
"""Each habit by the name that a failure shows."""
FOR_MODELS = {
    "analyser.py", "builder.py", "candidates.py", "curated_memory.py", "demonstration.py", "model_facts.py",
    "profile.py", "run.py", "sections.py", "server.py", "wishes.py",
}  # fmt: skip
"""Modules with lists of words, and with texts that models read or stores keep, which are not changed for style."""
_CODE = re.compile(r"^```.*?^```|`[^`\n]*`|\]\([^)]*\)", re.DOTALL | re.MULTILINE)
_BEHIND_A_HASH = re.compile(r"#(?=(.*))")


def passages(path: Path) -> Iterator[tuple[int, str]]:
    """Yield the docstrings and comments of a module with the lines on which they begin."""
    for node in nodes(path):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
            yield node.lineno, node.value.value
    # Taking a module apart into tokens takes long, so it is done only where something behind a `#` has a habit.
    if any(_has_habit(tail) for tail in _BEHIND_A_HASH.findall(source(path))):
        yield from _comments(path)


def _comments(path: Path) -> Iterator[tuple[int, str]]:
    for token in tokenize.generate_tokens(io.StringIO(source(path)).readline):
        if token.type == tokenize.COMMENT:
            yield token.start[0], token.string.lstrip("# ")


def _has_habit(text: str) -> bool:
    text = text.lstrip("# ")
    return any(pattern.search(text) for pattern in HABITS.values())


def found_in(path: Path) -> list[tuple[int, str, str]]:
    """Return line, habit and text of each passage of a module that has a habit."""
    return [
        (line, habit, text)
        for line, text in passages(path)
        for habit, pattern in HABITS.items()
        if pattern.search(text)
    ]


def test_the_words_of_packages_are_plain() -> None:
    found = [
        f"{path.relative_to(ROOT)}:{line}: {habit}"
        for path in files("packages", suffix=".py")
        for line, habit, _ in found_in(path)
    ]
    assert found == []


def test_the_words_of_messages_are_plain() -> None:
    docstrings = {
        id(node.value) for path in files("packages", suffix=".py") for node in nodes(path) if isinstance(node, ast.Expr)
    }
    found = [
        f"{path.relative_to(ROOT)}:{node.lineno}: {habit}"
        for path in files("packages", suffix=".py")
        if path.name not in FOR_MODELS
        for node in nodes(path)
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in docstrings
        for habit, pattern in HABITS.items()
        if habit != "headless" and " " in node.value and pattern.search(node.value)
    ]
    assert found == []


def test_the_words_of_the_docs_are_plain() -> None:
    pages = [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")]
    found = [
        f"{page.relative_to(ROOT)}: {habit}: {match[0]}"
        for page in sorted(pages)
        if page.name != "CHANGELOG.md"
        for habit, pattern in HABITS.items()
        if habit != "headless"
        for match in pattern.finditer(_CODE.sub("", page.read_text(encoding="utf-8")))
    ]
    assert found == []


def test_the_subjects_of_the_last_commits_are_short() -> None:
    git = shutil.which("git")
    if git is None or not (ROOT / ".git").exists():
        return  # an archive of the sources has no history
    log = [git, "-C", str(ROOT), "log", "--no-merges", "-30", "--format=%s"]
    subjects = subprocess.run(log, capture_output=True, text=True, check=True).stdout.splitlines()
    assert [subject for subject in subjects if len(subject) > 72] == []
