"""When a call is sent again, and after how long. Pure: nothing here waits."""

from elytron_core import limits
from elytron_core.errors import ElytronError, RateLimited

WAITED_FOR = frozenset(
    {
        "unreachable",
        "rate_limited",
        "overloaded",
        "still_running",
        "store_unavailable",
        "store_busy",
        "model_unavailable",
    }
)
"""Errors that pass by themselves. A conflict does not: its caller must read again."""


def pause_s(
    error: ElytronError, /, *, attempt: int, may_repeat: bool, jitter: float, attempts: int = limits.REMOTE_ATTEMPTS
) -> float | None:
    """Return how long to wait before attempt `attempt + 1`, or None where `error` is the answer.

    `attempt` counts from 1, up to `attempts`; `jitter` (0 to 1) spreads callers that failed together. A server that
    names a time is given it, up to the bound.
    """
    if not may_repeat or attempt >= attempts or error.key not in WAITED_FOR:
        return None
    if isinstance(error, RateLimited):
        return min(float(error.retry_after_s), limits.REMOTE_BACKOFF_MAX_S)
    backoff = min(limits.REMOTE_BACKOFF_S * 2 ** (attempt - 1), limits.REMOTE_BACKOFF_MAX_S)
    return min(error.retry_after_s + backoff * (0.5 + jitter / 2), limits.REMOTE_BACKOFF_MAX_S)
