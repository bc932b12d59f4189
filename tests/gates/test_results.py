"""Figures that the docs quote next to a command are in the recorded output of that command."""

import re

from benchmarks.recorded import COMMANDS, FOLDER, command_line
from tests.gates.tree import ROOT

PAGES = ("README.md", "docs/contributors/results.md")
_FIGURE = re.compile(r"(?<![\w.])\d+\.\d+(?![\w.])")


def test_quoted_figures_are_recorded() -> None:
    missing: list[str] = []
    for page in PAGES:
        for line in (ROOT / page).read_text(encoding="utf-8").splitlines():
            names = [name for name in COMMANDS if f"`{command_line(name)}`" in line and line.startswith("|")]
            if "by others" in line or not names:
                continue
            recorded = (FOLDER / f"{names[0]}.txt").read_text(encoding="utf-8")
            missing += [f"{page}: {figure}" for figure in _FIGURE.findall(line) if figure not in recorded]
    assert missing == []


def test_every_record_states_its_date_place_and_commit() -> None:
    for path in FOLDER.glob("*.txt"):
        heads = [line.partition(":")[0] for line in path.read_text(encoding="utf-8").splitlines()[:5]]
        assert heads == ["command", "date", "commit", "machine", "data"], path.name
