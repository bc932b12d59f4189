"""The ten rates (row G31): each meets its threshold, and one that does not is reported."""

from pathlib import Path

import pytest

from elytron_evaluation.hook_rates import HookRate, HookRates, evaluate_hooks

pytestmark = pytest.mark.anyio

NAMES = [
    "prompt_duplicate_rate",
    "persisted_history_echo_rate",
    "history_equivalence",
    "fact_recall_precision",
    "fact_recall_recall",
    "durable_fact_survival",
    "expired_fact_suppression",
    "idempotency",
    "duplicate_growth",
    "session_isolation_leak",
    "compaction_triggers",
]


async def test_g31_the_ten_rates_meet_their_thresholds(tmp_path: Path) -> None:
    found = await evaluate_hooks(str(tmp_path / "memory.db"))
    assert [rate.name for rate in found.rates] == NAMES
    assert [rate for rate in found.rates if not rate.holds] == []
    assert (found.hold, found.of("history_equivalence"), found.of("session_isolation_leak")) == (True, 1.0, 0.0)


def test_g31_a_rate_beyond_its_threshold_fails() -> None:
    low, high = HookRate(name="a", value=0.9, bar=1), HookRate(name="b", value=0.1, bar=0, is_ceiling=True)
    assert not low.holds
    assert not high.holds
    assert not HookRates(rates=(low,)).hold
