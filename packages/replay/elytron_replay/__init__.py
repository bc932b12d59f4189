"""Replay: stories told to every store, step by step and fingerprint by fingerprint the same. See docs/fixtures.md.

Names are loaded when they are first used: most of them need a whole runtime.
"""

from typing import TYPE_CHECKING

from elytron_core.lazy import loading as _loading

if TYPE_CHECKING:
    from elytron_replay.fixture import Fixture, load
    from elytron_replay.gates.coverage_gate import GateReport, gate
    from elytron_replay.gates.quality_gate import WallReport, render_wall, run_wall
    from elytron_replay.matrix import MatrixReport, record, run_matrix
    from elytron_replay.report_text import render, render_gate
    from elytron_replay.runner import Outcome, run_fixture

_HOMES = {
    "elytron_replay.fixture": "Fixture load",
    "elytron_replay.gates.coverage_gate": "GateReport gate",
    "elytron_replay.matrix": "MatrixReport record run_matrix",
    "elytron_replay.report_text": "render render_gate",
    "elytron_replay.runner": "Outcome run_fixture",
    "elytron_replay.gates.quality_gate": "WallReport render_wall run_wall",
}

__all__ = [
    "Fixture",
    "GateReport",
    "MatrixReport",
    "Outcome",
    "WallReport",
    "gate",
    "load",
    "record",
    "render",
    "render_gate",
    "render_wall",
    "run_fixture",
    "run_matrix",
    "run_wall",
]


if not TYPE_CHECKING:  # type checkers read the imports above, and find misspelt names
    __getattr__ = _loading(__name__, _HOMES)
