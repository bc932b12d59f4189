"""Compaction as a plan: which turns leave the window for a summary. Pure; who carries it out commits it."""

import math
from collections.abc import Sequence

from elytron_agent.context import limits
from elytron_core.model import Value


class TurnSize(Value):
    """A turn of the window by its size."""

    run: str
    tokens: int
    is_pending: bool = False


class CompactionPlan(Value):
    """Turns that leave the window, oldest first, and turns that stay. A cut is between turns, never in one."""

    evicted: tuple[str, ...]
    kept: tuple[str, ...]
    tokens_before: int
    tokens_after: int
    """With room for a summary."""


def plan(
    turns: Sequence[TurnSize],
    /,
    *,
    fixed_tokens: int,
    max_tokens: int,
    threshold: float = limits.COMPACTION_THRESHOLD,
    is_forced: bool = False,
) -> CompactionPlan | None:
    """Return what leaves a window of `max_tokens`, or None if it is not filled to `threshold`, or nothing may leave.

    `fixed_tokens` are those of all that is no turn. The smallest cut is taken after which a part of the threshold is
    free again; a turn that is pending stays, and so do the latest turns, unless there is no room for them.
    `is_forced`: also where the window is not full.
    """
    before = fixed_tokens + sum(turn.tokens for turn in turns)
    if before <= max_tokens * threshold and not is_forced:
        return None
    movable = next((place for place, turn in enumerate(turns) if turn.is_pending), len(turns))
    if movable == 0:
        return None
    wanted = max_tokens * threshold * limits.KEPT_SHARE

    def after(cut: int) -> int:
        return fixed_tokens + limits.SUMMARY_TOKENS + sum(turn.tokens for turn in turns[cut:])

    cuts = _cuts(len(turns), movable)
    spared = [cut for cut in cuts if cut <= len(turns) - limits.RECENT_TURNS_KEPT]
    cut = next((cut for cut in spared if after(cut) <= wanted), None)
    if cut is None and spared and (after(spared[-1]) <= max_tokens * threshold):
        # Not as much as is wanted, but enough, and the latest turns stay.
        cut = spared[-1]
    if cut is None:
        cut = next((cut for cut in cuts if after(cut) <= wanted), cuts[-1])
    return CompactionPlan(
        evicted=tuple(turn.run for turn in turns[:cut]),
        kept=tuple(turn.run for turn in turns[cut:]),
        tokens_before=before,
        tokens_after=after(cut),
    )


def _cuts(count: int, movable: int) -> list[int]:
    """Return the cuts that are tried, smallest first, ending with all that may leave."""
    shares = [limits.EVICTED_SHARE + limits.EVICTED_STEP * step for step in range(8)]
    return sorted({min(max(math.ceil(count * share), 1), movable) for share in shares} | {movable})
