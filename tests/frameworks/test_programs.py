"""The examples of frameworks and the Python of their pages run, with a scripted model behind their clients."""

import runpy
from pathlib import Path

import pytest
from tests.gates.test_docs import DocProgram, programs, run_program
from tests.gates.tree import files

EXAMPLES = {path.name: path for path in files("examples/frameworks", suffix=".py")}
EXAMPLE_LINES = 25


@pytest.mark.parametrize("name", EXAMPLES)
def test_an_example_runs_and_leaves_nothing_behind(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    runpy.run_path(str(EXAMPLES[name]), run_name="__main__")
    assert len(capsys.readouterr().out.splitlines()) >= 2
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("name", EXAMPLES)
def test_an_example_has_at_most_25_lines(name: str) -> None:
    assert len([line for line in EXAMPLES[name].read_text("utf-8").splitlines() if line]) <= EXAMPLE_LINES


@pytest.mark.parametrize("program", list(programs(of_frameworks=True)), ids=str)
def test_the_python_of_a_page_runs_alone(program: DocProgram, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    run_program(program)
