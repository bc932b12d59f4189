"""The framework examples and the Python on their pages run."""

import subprocess
import sys
from pathlib import Path

import pytest
from tests.gates.test_docs import DocProgram, programs, run_program
from tests.gates.tree import files

from elytron_integrations.integration_table import INTEGRATIONS

HELPER = "scripted_model.py"
"""Replaces a model in examples."""
ROWS = [row for row in INTEGRATIONS if row.installed_version is not None]
"""The adapters whose frameworks this environment has; each is in an environment of `.ci/long`."""
EXAMPLES = {
    path.name: path
    for path in files("examples/frameworks", suffix=".py")
    if path.name != HELPER and any(row.module in path.read_text("utf-8") for row in ROWS)
}
PAGES = {f"docs/{row.page}" for row in ROWS}
PROGRAMS = [program for program in programs(of_frameworks=True) if program.page in PAGES]
EXAMPLE_LINES = 25


@pytest.mark.parametrize("name", EXAMPLES)
def test_an_example_runs_and_leaves_nothing_behind(name: str, tmp_path: Path) -> None:
    process = subprocess.run(
        [sys.executable, EXAMPLES[name]], cwd=tmp_path, capture_output=True, text=True, timeout=60, check=False
    )
    assert (process.returncode, process.stderr) == (0, "")
    assert len(process.stdout.splitlines()) >= 2
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("name", EXAMPLES)
def test_an_example_has_at_most_25_lines(name: str) -> None:
    assert len([line for line in EXAMPLES[name].read_text("utf-8").splitlines() if line]) <= EXAMPLE_LINES


@pytest.mark.parametrize("program", PROGRAMS, ids=str)
def test_each_python_block_of_a_page_runs_on_its_own(
    program: DocProgram, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    run_program(program)
