"""The clock and the ids of a fixture: fixed at each step, independent of earlier calls."""

from elytron_core.clock import FrozenClock, Instant
from elytron_core.ids import SeededIds, uuid7
from elytron_replay.fixture import Fixture, Step

_IDS_PER_STEP = 1 << 20


class StoryIds:
    """Ids and secrets that follow from the seed and the step alone, so that steps cannot push each other out of line.

    Ids of later steps sort after those of earlier ones. Names and secrets are counted apart.
    """

    def __init__(self, seed: str, /) -> None:
        self._seed = seed
        self.begin(0)

    def begin(self, step: int, /) -> None:
        """Start the ids of `step` from its beginning."""
        self._step = step
        self._count = 0
        self._tails = SeededIds(f"{self._seed}|{step}|names")
        self._secrets = SeededIds(f"{self._seed}|{step}|secrets")

    def new(self, /) -> str:
        self._count += 1
        return uuid7(self._step * _IDS_PER_STEP + self._count, 0, self._tails.secret(8))

    def secret(self, size: int, /) -> bytes:
        return self._secrets.secret(size)


class Telling:
    """Position in a fixture: the current step and its time."""

    def __init__(self, fixture: Fixture, /) -> None:
        self.clock = FrozenClock(fixture.clock.start)
        self.ids = StoryIds(fixture.seed or fixture.id)
        self._step_ms = fixture.clock.step * 1000
        self._next = fixture.clock.start

    def begin(self, number: int, step: Step | None, /) -> None:
        """Come to step `number`: at the time it names, else one tick after the step before."""
        at = step.at if step is not None and step.at is not None else self._next
        self.clock.advance(at - self.clock.now())
        self._next = Instant(at + self._step_ms)
        self.ids.begin(number)
