"""A change that is read and planned anew while others commit before it: how often, and how quickly."""

import asyncio

from elytron_core.errors import Conflict

RACES = 64
_STEP_ASIDE_S = 0.001
_STEPS_MAX = 16


class Race:
    """The races that one change has lost."""

    def __init__(self) -> None:
        self._lost = 0

    async def lost(self, conflict: Conflict, /) -> None:
        """Return when it is time to read and plan anew. Raises `conflict` after `RACES`, and where that is no use."""
        self._lost += 1
        if not conflict.retryable or self._lost >= RACES:
            raise conflict
        if self._lost > 1:
            # Whoever reads anew at once may do so behind each group that others have under way, and lose again.
            await asyncio.sleep(_STEP_ASIDE_S * min(self._lost, _STEPS_MAX))
