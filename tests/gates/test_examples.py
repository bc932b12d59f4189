"""Every example runs, prints something, and leaves nothing behind."""

import runpy
from pathlib import Path

import pytest
from tests.gates.tree import files

EXAMPLES = {path.name: path for path in files("examples", suffix=".py") if path.parent.name == "examples"}


@pytest.mark.parametrize("name", EXAMPLES)
def test_an_example_runs_and_leaves_nothing_behind(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    runpy.run_path(str(EXAMPLES[name]), run_name="__main__")
    assert len(capsys.readouterr().out.splitlines()) >= 2
    assert list(tmp_path.iterdir()) == []


def test_examples_are_numbered_consecutively() -> None:
    assert sorted(name[:2] for name in EXAMPLES) == [f"{number:02}" for number in range(1, len(EXAMPLES) + 1)]


@pytest.mark.parametrize(
    ("number", "last"),
    [("01", "and when nothing is known: nothing"), ("09", "in its order: ['Ada', 'Noor', 'Ada']")],
)
def test_an_example_prints_its_documented_output(
    number: str, last: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    (path,) = (path for name, path in EXAMPLES.items() if name.startswith(number))
    runpy.run_path(str(path), run_name="__main__")
    assert capsys.readouterr().out.splitlines()[-1] == last
