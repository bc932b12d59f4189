"""Replay fixtures on every store and compare the results step by step. See docs/reference/fixtures.md.

Names are imported on first use, because most of them load a complete runtime.
"""

from elytron_core.lazy import lazy_exports

__getattr__, __dir__ = lazy_exports(
    __name__,
    {
        "elytron_replay.fixture": "Fixture load_fixture",
        "elytron_replay.gates": "GateReport WallReport operation_gate render_wall run_wall",
        "elytron_replay.matrix": "MatrixReport record_fingerprints render_gate render_matrix run_matrix",
        "elytron_replay.runner": "FixtureOutcome run_fixture",
    },
)
