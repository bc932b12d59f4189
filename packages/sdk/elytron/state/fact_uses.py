"""When facts were last shown, remembered until maintenance or closing stores it: a recall writes nothing for it."""

from collections.abc import Iterable

from elytron_core import limits
from elytron_core.clock import Instant
from elytron_core.ids import FactId, SpaceId


class FactUses:
    """The last use of facts by this runtime since it was stored last, for the newest uses of all spaces."""

    def __init__(self) -> None:
        self._pending: dict[tuple[SpaceId, FactId], Instant] = {}

    def note(self, space: SpaceId, facts: Iterable[str], /, *, at: Instant) -> None:
        """Remember that these facts were shown at `at`."""
        for fact in facts:
            key = space, FactId(fact)
            self._pending.pop(key, None)
            self._pending[key] = at
        while len(self._pending) > limits.FACT_USES_KEPT:
            del self._pending[next(iter(self._pending))]

    def spaces(self) -> tuple[SpaceId, ...]:
        """Return the spaces of which something is remembered."""
        return tuple(dict.fromkeys(space for space, _ in self._pending))

    def of(self, space: SpaceId, /) -> dict[FactId, Instant]:
        """Return what is remembered of a space."""
        return {fact: at for (where, fact), at in self._pending.items() if where == space}

    def drop(self, space: SpaceId, facts: Iterable[FactId], /) -> None:
        """Forget what is stored by now."""
        for fact in facts:
            self._pending.pop((space, fact), None)
