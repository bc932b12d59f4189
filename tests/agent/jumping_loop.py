"""An event loop whose time jumps to its next timer when idle, and a clock that shows it."""

import asyncio
import selectors
from typing import Any

from elytron_core.clock import Instant


class _Jumping(selectors.DefaultSelector):
    """A selector that does not wait but advances the loop's time by the waiting time."""

    def __init__(self) -> None:
        super().__init__()
        self.skipped_s = 0.0

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        if timeout is None or timeout <= 0:
            return super().select(timeout)
        self.skipped_s += timeout
        return super().select(0)


class JumpingLoop(asyncio.SelectorEventLoop):
    """A loop for tests of deadlines. Nothing may run in threads, because the time would not wait for them."""

    def __init__(self) -> None:
        self._jumping = _Jumping()
        super().__init__(self._jumping)

    def time(self) -> float:
        return self._jumping.skipped_s


class LoopClock:
    """The running loop's time as a clock."""

    def now(self, /) -> Instant:
        return Instant(1_780_000_000_000 + round(asyncio.get_running_loop().time() * 1000))


JUMPING: tuple[str, dict[str, Any]] = ("asyncio", {"loop_factory": JumpingLoop})
