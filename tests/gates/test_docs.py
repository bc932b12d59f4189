"""Pages are accurate: their Python runs, their commands exist, and their tables match the code."""

import ast
import asyncio
import inspect
import re
import shlex
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple

import click
import pytest
from tests.gates.tree import ROOT, pages, shown

import elytron
from elytron_adapter.envelope import FAILURES
from elytron_cli.app import elytron_group
from elytron_cli.help_pages import every_text
from elytron_core import errors
from elytron_core.planes.space import COLLECTIONS
from elytron_integrations.integration_table import INTEGRATIONS

PAGES = {shown(page): page for page in pages()}
OF_FRAMEWORKS = frozenset(f"docs/{row.page}" for row in INTEGRATIONS)
"""Pages whose Python needs an agent framework: `tests/frameworks` runs it."""
_FENCE = re.compile(r"^```([^\n]*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
GOES_ON = "# goes on from the code above\n"
IN_A_CHECKOUT = "# in a checkout\n"
_OTHER_COMMAND = frozenset({"|", ">", ">>", "&", "&&", ";", "<"})


class Block(NamedTuple):
    """A fenced block: its info string, its first line, and its text."""

    info: str
    line: int
    text: str


class DocProgram(NamedTuple):
    """Blocks of a page that are run in sequence, of which the last one is reported."""

    page: str
    blocks: tuple[Block, ...]

    def __str__(self) -> str:
        return f"{self.page}:{self.blocks[-1].line}"


def blocks(page: Path) -> list[Block]:
    """Return the fenced blocks of a page."""
    text = page.read_text(encoding="utf-8")
    return [
        Block(found[1].strip(), text.count("\n", 0, found.start(2)) + 1, found[2]) for found in _FENCE.finditer(text)
    ]


def programs(*, of_frameworks: bool) -> Iterator[DocProgram]:
    """Yield what readers run: each Python block by itself, or after the page above it if it says so."""
    for name, page in PAGES.items():
        if (name in OF_FRAMEWORKS) is not of_frameworks:
            continue
        python = [block for block in blocks(page) if block.info == "python"]
        ends = [place for place, block in enumerate(python) if block.text.startswith(GOES_ON)]
        if ends:  # the last one's run includes the others, and the first block of the page
            yield DocProgram(name, tuple(python[: ends[-1] + 1]))
        for place, block in enumerate(python):
            if place not in ends and not (ends and place == 0):
                yield DocProgram(name, (block,))


_UNPUBLISHED = re.compile(r"\b(?:(?:install|add|--with)\b[^\n`&]*|uvx) ['\"]?elytron(?![\w./-])")
"""A command that would download Elytron from a package index, which does not have it yet."""
PROGRAMS = list(programs(of_frameworks=False))
WITH_COMMANDS = {name: page for name, page in PAGES.items() if any(block.info == "console" for block in blocks(page))}


@pytest.mark.parametrize("page", [*PAGES.values(), ROOT / "clients/typescript/README.md"], ids=shown)
def test_an_install_line_names_a_checkout(page: Path) -> None:
    assert _UNPUBLISHED.findall(page.read_text("utf-8")) == []


@pytest.mark.parametrize("name", PAGES)
def test_a_python_fence_has_no_other_info(name: str) -> None:
    told = {block.info for block in blocks(PAGES[name]) if block.info.startswith("py")}
    assert told <= {"python"}


@pytest.mark.parametrize("program", PROGRAMS, ids=str)
def test_each_python_block_of_a_page_runs_on_its_own(
    program: DocProgram, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In an empty folder, without a name of another block, and with `await` as in a notebook."""
    monkeypatch.chdir(tmp_path)
    if any(block.text.startswith(IN_A_CHECKOUT) for block in program.blocks):
        (tmp_path / "fixtures").symlink_to(ROOT / "fixtures")
    run_program(program)


def run_program(program: DocProgram) -> None:
    """Run the blocks of a program in the working directory."""
    namespace: dict[str, Any] = {"__name__": "__main__"}
    with asyncio.Runner() as runner:
        for block in program.blocks:
            # Lines are counted as on the page, so that a failure names the place to look at.
            code = compile("\n" * (block.line - 1) + block.text, program.page, "exec", ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
            if (awaited := eval(code, namespace)) is not None:
                runner.run(awaited)


@pytest.mark.parametrize("name", WITH_COMMANDS)
def test_every_command_of_a_page_exists_with_its_options(name: str) -> None:
    wrong = [f"{name}:{line}: {problem}" for line, words in commands(WITH_COMMANDS[name]) for problem in check(words)]
    assert wrong == []


def commands(page: Path) -> Iterator[tuple[int, list[str]]]:
    """Yield the commands that a page shows at a prompt, with their line numbers."""
    for block in blocks(page):
        if block.info != "console":
            continue
        text = block.text.replace("\\\n", " ")
        for number, line in enumerate(text.splitlines(), block.line):
            if line.startswith("$ "):
                for words in _split(line[2:]):
                    yield number, words


def _split(line: str) -> Iterator[list[str]]:
    lexer = shlex.shlex(line, posix=True, punctuation_chars="|&;<>")
    lexer.whitespace_split = True
    words: list[str] = []
    for word in lexer:
        if word in _OTHER_COMMAND:
            yield words
            words = []
        else:
            words.append(word)
    yield words


def check(words: list[str]) -> list[str]:
    """Return what is wrong with one of our commands; others are not checked."""
    if "elytron" in words and not words[0].startswith("pip"):
        return _check_elytron(words[words.index("elytron") + 1 :])
    if "python" in words and words[-1] != "python":
        target = words[words.index("python") + 1 :]
        if target[0] == "-m" and target[1].startswith("benchmarks"):
            return [] if find_spec(target[1]) else [f"there is no module {target[1]}"]
        if target[0].endswith(".py"):
            return [] if (ROOT / target[0]).exists() else [f"there is no file {target[0]}"]
    return []


def _check_elytron(arguments: list[str]) -> list[str]:
    command: click.Command = elytron_group
    try:
        while True:
            context = click.Context(command, info_name=command.name)
            given, rest, _ = command.make_parser(context).parse_args(list(arguments))
            for parameter in command.params:
                value = given.get(parameter.name or "")
                if not parameter.value_is_missing(value):
                    parameter.type_cast_value(context, value)
                elif parameter.required:
                    return [f"{command.name} lacks {parameter.name}"]
            if not isinstance(command, click.Group) or not rest:
                return [] if not rest else [f"{command.name} takes no {rest[0]!r}"]
            _, found, arguments = command.resolve_command(context, rest)
            if found is None:
                return [f"there is no command {rest[0]!r}"]
            command = found
    except click.ClickException as error:
        return [error.format_message()]


def test_the_stored_help_pages_match_the_commands() -> None:
    folder = ROOT / "packages" / "cli" / "elytron_cli" / "help"
    kept = {path.name: path.read_text(encoding="utf-8") for path in folder.iterdir()}
    made = every_text()
    stale = sorted(name for name in kept.keys() | made.keys() if kept.get(name) != made.get(name))
    assert stale == [], "make them anew: uv run python -m elytron_cli.help_pages"


def test_the_table_of_errors_matches_the_error_tree() -> None:
    text = (ROOT / "docs" / "reference" / "errors.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| `(\w+)` \| `(\w+)` \| (yes|no) \| (\d+) \| (\d+) \|", text, re.MULTILINE)
    classes = [kind for _, kind in inspect.getmembers(errors, inspect.isclass) if issubclass(kind, errors.ElytronError)]
    assert {row[0]: row[1:] for row in rows} == {
        kind.key: (
            kind.__name__,
            "yes" if kind.retryable else "no",
            str(FAILURES[kind.key].status),
            str(FAILURES[kind.key].exit),
        )
        for kind in classes
    }


def test_every_argument_of_open_is_documented() -> None:
    opening = PAGES["docs/reference/python.md"].read_text().partition("## Opening")[2].partition("\n## ")[0]
    assert [name for name in inspect.signature(elytron.open).parameters if f"`{name}`" not in opening] == []


def test_every_collection_of_a_space_is_in_the_architecture_page() -> None:
    stored = PAGES["ARCHITECTURE.md"].read_text().partition("## What is stored")[2].partition("\n## ")[0]
    assert [name for name in COLLECTIONS if f"`{name}`" not in stored] == []


@pytest.mark.parametrize("folder", ["tutorials", "how-to", "explanation", "reference"])
def test_every_written_page_is_in_the_navigation(folder: str) -> None:
    navigation = (ROOT / "website" / "navigation.toml").read_text("utf-8")
    written = {str(page.relative_to(ROOT / "docs")) for page in (ROOT / "docs" / folder).glob("*.md")}
    assert {page for page in written if f'"{page}"' not in navigation} == set()
