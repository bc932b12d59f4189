"""Replay: stories told to every store, step by step and fingerprint by fingerprint the same. See docs/fixtures.md."""

from elytron_replay.fixture import Fixture, load
from elytron_replay.gate import GateReport, gate
from elytron_replay.matrix import MatrixReport, record, run_matrix
from elytron_replay.rendering import render, render_gate
from elytron_replay.running import Outcome, run_fixture

__all__ = [
    "Fixture",
    "GateReport",
    "MatrixReport",
    "Outcome",
    "gate",
    "load",
    "record",
    "render",
    "render_gate",
    "run_fixture",
    "run_matrix",
]
