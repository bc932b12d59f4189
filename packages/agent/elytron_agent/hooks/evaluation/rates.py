"""Rates of an evaluation, each with the bar that it is held to."""

from collections.abc import Mapping
from typing import Final

from elytron_core.model import Value

CEILINGS: Final[Mapping[str, float]] = {
    "prompt_duplicate_rate": 0.0,
    "persisted_history_echo_rate": 0.0,
    "duplicate_growth": 1.05,
    "session_isolation_leak": 0.0,
}
"""Rates that are at most their bar, with it."""
FLOORS: Final[Mapping[str, float]] = {
    "history_equivalence": 1.0,
    "fact_recall_precision": 1.0,
    "fact_recall_recall": 1.0,
    "durable_fact_survival": 1.0,
    "expired_fact_suppression": 1.0,
    "idempotency": 1.0,
    "compaction_triggers": 1.0,
}
"""Rates that are at least their bar, with it."""


class HookRate(Value):
    """One rate, and the bar: at least that, or at most where `is_ceiling`."""

    name: str
    value: float
    bar: float
    is_ceiling: bool = False

    @property
    def holds(self) -> bool:
        return self.value <= self.bar if self.is_ceiling else self.value >= self.bar


class HookRates(Value):
    """The rates of one run; precision and recall of facts are one of the ten."""

    rates: tuple[HookRate, ...]
    unmeasured: tuple[str, ...] = ()
    """Rates that the turns give nothing to measure for."""

    @property
    def hold(self) -> bool:
        return all(rate.holds for rate in self.rates)

    def of(self, name: str, /) -> float:
        """Return the rate of that name."""
        return next(rate.value for rate in self.rates if rate.name == name)


def rate_of(name: str, part: float, whole: float, /, *, bar: float | None = None) -> HookRate:
    """Return the rate `part` of `whole` beside its own bar, or beside `bar`."""
    own = CEILINGS[name] if name in CEILINGS else FLOORS[name]
    value = part / whole if whole else 0.0
    return HookRate(name=name, value=value, bar=own if bar is None else bar, is_ceiling=name in CEILINGS)
