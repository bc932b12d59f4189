"""Replay: fixtures run on every store, compared step by step. See docs/reference/fixtures.md.

Names are loaded when they are first used: most of them need a whole runtime.
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
