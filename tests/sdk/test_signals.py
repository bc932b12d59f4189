"""Each signal of a hit has an explanation, including future ones."""

from typing import get_args

from elytron_core.policy.ranking.facts import FACT_SIGNALS
from elytron_core.policy.ranking.signals import SIGNAL_MEANINGS
from elytron_core.policy.ranking.skills import SkillSignal
from elytron_index.query import UnitSignals


def test_exactly_the_signals_of_messages_facts_and_skills_are_explained() -> None:
    assert set(SIGNAL_MEANINGS) == {*UnitSignals._fields, *FACT_SIGNALS, *get_args(SkillSignal)}


def test_each_explanation_is_one_sentence() -> None:
    assert [name for name, meaning in SIGNAL_MEANINGS.items() if not meaning.endswith(".") or len(meaning) > 100] == []
