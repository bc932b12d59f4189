"""The harness gate: a set of fixtures proves little where an operation never appears in it."""

from collections.abc import Sequence
from pathlib import Path

from elytron_core.model import Value
from elytron_replay import operations
from elytron_replay.fixture import load


class GateReport(Value):
    """Which fixtures exercise which operation, and what is missing."""

    exercised: dict[str, tuple[str, ...]]
    """Each registered operation and the fixtures in which it succeeds; a step that is refused exercises nothing."""
    missing: tuple[str, ...]
    """Registered operations that no fixture exercises, mandatory ones first."""

    @property
    def ok(self) -> bool:
        """Tell whether nothing is missing."""
        return not self.missing


def gate(fixtures: Sequence[Path], /) -> GateReport:
    """Return which operations `fixtures` exercise; nothing is run. Raises UnreadableFile."""
    loaded = [load(path) for path in fixtures]
    names = tuple(dict.fromkeys((*operations.MANDATORY, *operations.names())))
    exercised = {
        name: tuple(
            fixture.id for fixture in loaded if any(step.op == name and step.error is None for step in fixture.steps)
        )
        for name in names
    }
    return GateReport(exercised=exercised, missing=tuple(name for name in names if not exercised[name]))
