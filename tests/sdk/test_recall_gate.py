"""A model gets memories automatically only if the prompt needs them, everywhere; a search always answers."""

from collections.abc import Iterator
from typing import cast

import pytest
from tests.gates.tree import ROOT, calls_of

import elytron
from elytron import (
    FactDraft,
    LongTermExtraction,
    MemoryProjectionReport,
    MemoryRecallRequest,
    MemoryWriteRequest,
    SyncMemoryRuntime,
)
from elytron_core.clock import FrozenClock
from elytron_core.contracts.projection import SectionName
from elytron_core.contracts.recall import AbsenceReason, NothingReason, RecallGate, RecallOutcome
from elytron_core.errors import InvalidInput
from elytron_core.ids import SeededIds
from elytron_core.planes.facts import FactKind, FactPrivacy
from elytron_core.policy.ranking.recall_gate import FIRST_LINES

PACKAGES = ROOT / "packages"
ASKED = {
    "cli/elytron_cli/commands/agents/tools.py",
    "cli/elytron_cli/commands/memories.py",
    "cli/elytron_cli/commands/servers/client.py",
    "evaluation/elytron_evaluation/recall_demo.py",
    "evaluation/elytron_evaluation/recall_questions.py",
    "gateway/elytron_gateway/upstream/port.py",
    "replay/elytron_replay/evolve.py",
    "sdk/elytron/api/faces/everyday.py",
    "sdk/elytron/api/flat_calls.py",
}
"""Modules whose recalls were requested: by a caller, an operator, a model's tool, or a recall test."""
SAID = (
    "The roofer comes on the 12th and wants 900 for it.",
    "My sister's dog is called Biscuit and hates thunder.",
    "The spare key of the boat house hangs behind the blue barometer.",
    "We pay the rent on the third of each month.",
    "The kettle was 17 euros, and we need two of them.",
)
UNRELATED = ("thanks!", "what is 17 times 23?", "write a haiku about the sea", "reverse a linked list in Rust")


def shown(report: MemoryProjectionReport) -> tuple[str, ...]:
    return next((part.included for part in report.sections if part.name is SectionName.RECALLED), ())


@pytest.fixture
def memory() -> Iterator[SyncMemoryRuntime]:
    with elytron.open() as opened:
        opened.add(list(SAID), speaker="Ada", conversation="past")
        yield opened


def test_every_recall_for_a_model_uses_the_gate() -> None:
    without = {
        path.relative_to(PACKAGES).as_posix()
        for path, call in calls_of("MemoryRecallRequest")
        if not any(keyword.arg == "recall_gate" for keyword in call.keywords)
    }
    assert without == ASKED


@pytest.mark.parametrize("prompt", UNRELATED)
def test_a_prompt_unrelated_to_memory_gets_no_memories(memory: SyncMemoryRuntime, prompt: str) -> None:
    report = memory.project(prompt)
    assert shown(report) == ()
    assert report.gate is not None
    assert not report.gate.is_open
    assert memory.recall(prompt).hits


def test_a_question_gets_its_answer_and_the_deciding_numbers(memory: SyncMemoryRuntime) -> None:
    report = memory.project("Where does the spare key hang?")
    assert "behind the blue barometer" in report.system_memory_block
    assert report.gate is not None
    (numbers,) = report.gate.planes
    assert numbers.is_open
    assert (numbers.searched, numbers.asks > 0, numbers.chance > 0.5) == (len(SAID), True, True)
    assert 0 < report.gate.left_out < len(SAID)


def test_without_the_gate_a_similar_memory_is_shown(memory: SyncMemoryRuntime) -> None:
    prompt = "translate boat house into French"
    assert shown(memory.project(prompt)) == ()
    report = memory.project(prompt, recall_gate=RecallGate.OFF)
    assert report.gate is None
    assert shown(report)


@pytest.mark.parametrize("prompt", ["How many euros is a dollar?", "How much is the sister paying for the lawyer?"])
def test_a_strict_gate_omits_doubtful_memories(memory: SyncMemoryRuntime, prompt: str) -> None:
    assert shown(memory.project(prompt))
    report = memory.project(prompt, recall_gate=RecallGate.STRICT)
    assert (shown(report), report.gate is not None and report.gate.is_open) == ((), False)
    asked = memory.operate(MemoryRecallRequest(query=prompt, recall_gate=RecallGate.STRICT))
    assert (asked.outcome, asked.reason, asked.hits) == (RecallOutcome.NOTHING, NothingReason.HELD_BACK, ())


def test_a_strict_gate_shows_an_answer_and_a_detail_of_a_known_matter(memory: SyncMemoryRuntime) -> None:
    for prompt in ("Where does the spare key hang?", "What colour is the kettle?"):
        strict = memory.project(prompt, recall_gate=RecallGate.STRICT)
        assert shown(strict) == shown(memory.project(prompt)) != ()


def test_a_gated_recall_reports_withheld_memories(memory: SyncMemoryRuntime) -> None:
    prompt = "translate boat house into French"
    (nearest,) = memory.recall(prompt, limit=1).hits
    asked = MemoryRecallRequest(query=prompt, recall_gate=RecallGate.AUTO, why_not=(nearest.id,))
    report = memory.operate(asked)
    assert (report.outcome, report.reason) == (RecallOutcome.NOTHING, NothingReason.HELD_BACK)
    assert [reason.absence for reason in report.why_not] == [AbsenceReason.HELD_BACK]
    assert report.next_cursor is None


class Always:
    """A custom classifier that treats every prompt as a question, or none."""

    version = "mine-1"

    def __init__(self, margin: float) -> None:
        self.prompts: list[str] = []
        self._margin = margin

    def margin(self, prompt: str, /) -> float:
        self.prompts.append(prompt)
        return self._margin


@pytest.mark.parametrize(("margin", "is_shown"), [(-50.0, False), (50.0, True)])
def test_a_hosts_own_classifier_is_not_called_by_searches(margin: float, *, is_shown: bool) -> None:
    asks = Always(margin)
    with elytron.open(asks=asks) as memory:
        memory.add(
            [*SAID, *(f"Crate {number} stands in the hall." for number in range(40))],
            speaker="Ada",
            conversation="past",
        )
        question = "What does somebody in my family have as a pet?"
        assert memory.recall(question)
        assert asks.prompts == []
        assert bool(shown(memory.project(question))) is is_shown
        assert asks.prompts == [question]


def test_a_fact_named_by_its_slot_is_always_shown() -> None:
    with elytron.open(asks=Always(-50.0)) as memory:
        memory.add_fact("tea", "Ada drinks green tea.", kind=FactKind.PREFERENCE)
        assert "green tea" in memory.project("preference:tea").system_memory_block


def test_a_slot_that_no_fact_has_opens_nothing() -> None:
    with elytron.open(asks=Always(-50.0)) as memory:
        for number in range(30):
            memory.add_fact(f"crate {number}", f"Crate {number} stands in the hall.")
        report = memory.project("Task: translate this sentence into French")
        assert report.gate is not None
        assert not report.gate.is_open


def test_no_gate_number_depends_on_a_withheld_fact() -> None:
    reports: list[MemoryProjectionReport] = []
    for secret in ((), (FactDraft(topic="safe", content="The safe code is 7351.", privacy=FactPrivacy.PRIVATE),)):
        with elytron.open(clock=FrozenClock(), ids=SeededIds("gate")) as memory:
            for number in range(20):
                memory.add_fact(f"place {number}", f"Ada visited place number {number}.")
            if secret:
                memory.operate(MemoryWriteRequest(write=LongTermExtraction(facts=secret)))
            reports.append(memory.project("Is 7351 the code of the safe?"))
    without, beside = reports
    assert beside.gate == without.gate
    assert (without.private_gate.withheld, beside.private_gate.withheld) == (0, 1)


class Failing:
    """A custom classifier that fails."""

    version = "mine-2"

    def margin(self, prompt: str, /) -> float:
        raise RuntimeError(prompt)


def test_a_failing_classifier_withholds_memories_and_fails_no_prompt(caplog: pytest.LogCaptureFixture) -> None:
    with elytron.open(asks=Failing()) as memory:
        memory.add([*SAID], speaker="Ada", conversation="past")
        assert shown(memory.project("Which pet does my sister own, again?")) == ()
    assert "RuntimeError" in caplog.text
    assert "my sister" not in caplog.text


def test_invalid_classifiers_are_rejected_at_opening() -> None:
    with pytest.raises(InvalidInput, match="margin"), elytron.open(asks=cast("Failing", object())):
        pass


def test_a_repeated_question_hides_no_answer(memory: SyncMemoryRuntime) -> None:
    question = "What is my sister's dog called?"
    for day in range(3):
        memory.add(question, speaker="Ada", conversation=f"day {day}")
    assert "Biscuit" in memory.project(question).system_memory_block


def test_the_first_of_many_similar_memories_and_those_near_the_best_are_shown(memory: SyncMemoryRuntime) -> None:
    memory.add(
        [f"The roofer called on day {number} about the gutter." for number in range(30)],
        speaker="Noor",
        conversation="past",
    )
    report = memory.project("What did the roofer call about?", max_chars=8_000)
    assert len(shown(report)) > FIRST_LINES
    assert report.gate is not None
    assert report.gate.left_out >= len(SAID) - 1
