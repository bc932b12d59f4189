"""The harness gate: a set of fixtures proves little where an operation never appears in it."""

from collections.abc import Sequence
from pathlib import Path

from elytron_core.errors import InvalidInput
from elytron_core.model import Value
from elytron_replay import operations
from elytron_replay.fixture import load


class GateReport(Value):
    """Coverage of operations by fixtures, and the required operations that are missing."""

    exercised: dict[str, tuple[str, ...]]
    """Each registered operation and the fixtures in which it succeeds; a step that is refused exercises nothing."""
    demanded: tuple[str, ...]
    """Operations without which the gate stays shut."""
    missing: tuple[str, ...]
    """Demanded operations that no fixture exercises, mandatory ones first."""

    @property
    def ok(self) -> bool:
        """Return whether nothing is missing."""
        return not self.missing


def gate(fixtures: Sequence[Path], /, *, demanded: Sequence[str] = ()) -> GateReport:
    """Return which operations `fixtures` exercise; nothing is run.

    The mandatory operations are demanded of every set, and with them `demanded`: what a host uses beyond them. Raises
    UnreadableFile, InvalidInput for a name that is no operation.
    """
    known = operations.names()
    if not set(demanded) <= {*known}:
        raise InvalidInput(field="demanded", problem=f"has a name that is no operation; there are {', '.join(known)}")
    loaded = [load(path) for path in fixtures]
    names = tuple(dict.fromkeys((*operations.MANDATORY, *known)))
    exercised = {
        name: tuple(
            fixture.id for fixture in loaded if any(step.op == name and step.error is None for step in fixture.steps)
        )
        for name in names
    }
    wanted = tuple(name for name in names if name in {*operations.MANDATORY, *demanded})
    return GateReport(
        exercised=exercised, demanded=wanted, missing=tuple(name for name in wanted if not exercised[name])
    )
