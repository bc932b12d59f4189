"""Maintenance decisions without a model."""

import pytest

from elytron_core import limits
from elytron_core.clock import DAY_MS, Instant
from elytron_core.contracts.maintenance.jobs import WorkHealth
from elytron_core.contracts.maintenance.maintenance import MaintenanceRefusal
from elytron_core.evidence import EvidenceRole
from elytron_core.ids import ConversationTag
from elytron_core.planes import continuity, transcript
from elytron_core.planes.candidates import SkillProposal
from elytron_core.planes.continuity import CapsuleKind, CapsuleState
from elytron_core.planes.facts import Fact, FactKind
from elytron_core.planes.jobs import JobId, JobQueue, JobState, QueuedJob
from elytron_core.policy import job_states
from elytron_core.policy import maintenance as maintenance_due
from elytron_core.policy.extraction.model_facts import state_data, summary_data
from elytron_core.profiles import MemoryPressure, ModeInput

NOW = Instant(1_767_225_600_000)


def summary(messages: int) -> continuity.SessionSummary:
    return continuity.SessionSummary(
        id=continuity.SummaryId("summary:1"), text="x", messages=messages, channel="c", conversation="d", updated_at=NOW
    )


def state(**changes: object) -> continuity.ExecutionState:
    made = continuity.ExecutionState(
        id=continuity.ExecutionId("state:1"), goal="Ship the release", channel="c", conversation="d", updated_at=NOW
    )
    return made.model_copy(update=changes)


def fact(kind: FactKind, *, days: int, name: str = "f") -> Fact:
    at = Instant(NOW - days * DAY_MS)
    return Fact.model_validate(
        {
            "id": name,
            "kind": kind,
            "topic": name,
            "content": "x",
            "observed_at": at,
            "recorded_at": at,
            "confirmed_at": at,
        }
    )


@pytest.mark.parametrize(
    ("mode", "refusal"),
    [
        (ModeInput(), None),
        (ModeInput(safe_mode=True, booting=True), MaintenanceRefusal.SAFE_MODE),
        (ModeInput(booting=True), MaintenanceRefusal.BOOTING),
        (ModeInput(pairing_required=True, pairing_known=False), MaintenanceRefusal.PAIRING_REQUIRED),
        (ModeInput(pairing_required=True), None),
        (ModeInput(config_active=True), MaintenanceRefusal.CONFIG_ACTIVE),
        (ModeInput(maintenance_active=True), MaintenanceRefusal.MAINTENANCE_ACTIVE),
        (ModeInput(voice_exclusive=True), MaintenanceRefusal.VOICE_EXCLUSIVE),
        (ModeInput(foreground_overlay=True, post_reply_deferral_elapsed=False), MaintenanceRefusal.FOREGROUND),
        (ModeInput(foreground_overlay=True), None),
        (ModeInput(pressure=MemoryPressure.CRITICAL), MaintenanceRefusal.CRITICAL_PRESSURE),
        (ModeInput(pressure=MemoryPressure.CAUTIOUS), None),
    ],
)
def test_the_devices_mode_decides_whether_maintenance_runs(mode: ModeInput, refusal: MaintenanceRefusal | None) -> None:
    assert maintenance_due.maintenance_refusal(mode) is refusal


@pytest.mark.parametrize(
    ("messages", "covered", "due"), [(39, None, False), (40, None, True), (59, 40, False), (60, 40, True)]
)
def test_a_summary_is_due_at_forty_messages_and_after_every_twenty(
    messages: int, covered: int | None, due: bool
) -> None:
    assert maintenance_due.is_summary_due(messages, summary(covered) if covered is not None else None) is due


def test_state_is_due_after_tool_use_or_during_work() -> None:
    said = transcript.Turn(
        sequence=1,
        channel="c",
        conversation="d",
        messages=(transcript.Message(text="a"), transcript.Message(role=EvidenceRole.ASSISTANT, text="b")),
        recorded_at=NOW,
    )
    used = said.model_copy(
        update={"tool_observations": (transcript.ToolObservation(observation_id="1", tool_name="build"),)}
    )
    assert not maintenance_due.is_state_due([said], None)
    assert maintenance_due.is_state_due([used], None)
    assert maintenance_due.is_state_due([said], state())
    assert not maintenance_due.is_state_due([said], state(status=continuity.ExecutionStatus.DONE))


def test_tasks_last_45_days_projects_180_and_identity_forever() -> None:
    facts = [
        fact(FactKind.TASK, days=45, name="a"),
        fact(FactKind.TASK, days=46, name="b"),
        fact(FactKind.PROJECT, days=181, name="c"),
        fact(FactKind.PROFILE, days=4_000, name="d"),
    ]
    assert maintenance_due.outlived_facts(facts, NOW) == ("b", "c")


def test_facts_beyond_a_kinds_soft_budget_are_counted() -> None:
    facts = [fact(FactKind.RELATIONSHIP, days=1, name=f"f{number}") for number in range(10)]
    assert maintenance_due.over_budget(facts) == {"over_relationship": 2}


def test_a_month_appends_its_days_in_order() -> None:
    def note(period: str, text: str) -> continuity.DailyNote:
        return continuity.DailyNote(
            id=continuity.NoteId(f"note:{period}"), period=period, text=text, channel="c", conversation="d",
            observed_at=NOW, recorded_at=NOW, updated_at=NOW,
        )  # fmt: skip

    text = maintenance_due.rolled_up(
        [note("2026-08-03", "tests\ngreen"), note("2026-08-01", "began")], note("2026-08", "so far")
    )
    assert text == "so far\n2026-08-01: began\n2026-08-03: tests green"


def test_standing_work_becomes_a_capsule_and_finished_work_a_resolution() -> None:
    going = maintenance_due.capsule_of(state(progress="half", blocker="no key", pending=("tag",)), ("aa.1",))
    assert going is not None
    assert (going.capsule_kind, going.state, going.unresolved) == (
        CapsuleKind.WORK_SESSION, CapsuleState.ACTIVE, ("no key", "tag"),
    )  # fmt: skip
    done = maintenance_due.capsule_of(state(status=continuity.ExecutionStatus.DONE, last_output="v1 is out"), ())
    assert done is not None
    assert (done.capsule_kind, done.outcome) == (CapsuleKind.TASK_RESOLUTION, "v1 is out")
    assert maintenance_due.capsule_of(state(), ()) is None


def test_only_finished_work_of_three_steps_teaches_a_procedure() -> None:
    steps = ("Run the tests", "Tag the commit", "Push the tag")
    done = state(status=continuity.ExecutionStatus.DONE, done=steps, decisions=("never on Fridays",))
    draft = maintenance_due.learned_of(done, ("aa.1",))
    assert draft is not None
    assert isinstance(draft.proposal, SkillProposal)
    assert draft.proposal.content.splitlines() == [
        "1. Run the tests", "2. Tag the commit", "3. Push the tag", "Keep in mind: never on Fridays",
    ]  # fmt: skip
    assert maintenance_due.learned_of(state(done=steps), ("aa.1",)) is None
    assert maintenance_due.learned_of(done.model_copy(update={"done": steps[:2]}), ("aa.1",)) is None
    assert maintenance_due.learned_of(done, ()) is None


def queued(job_state: JobState, *, late: int = 0) -> JobQueue:
    entry = QueuedJob(id=JobId("1"), conversation=ConversationTag("a"), state=job_state, due_at=Instant(NOW - late))
    return JobQueue(active=(entry,))


def test_work_that_waits_too_long_is_blocked_or_was_abandoned_is_degraded() -> None:
    assert job_states.work_health(JobQueue(), (), NOW) is WorkHealth.IDLE
    assert job_states.work_health(queued(JobState.PENDING), (JobState.SUCCEEDED,), NOW) is WorkHealth.WORKING
    assert (
        job_states.work_health(queued(JobState.PENDING, late=limits.JOB_STALL_MS + 1), (), NOW) is WorkHealth.DEGRADED
    )
    assert job_states.work_health(queued(JobState.BLOCKED), (), NOW) is WorkHealth.DEGRADED
    assert job_states.work_health(JobQueue(), (JobState.DEAD_LETTER,), NOW) is WorkHealth.DEGRADED


def test_a_summary_prompt_prefers_the_latest_messages() -> None:
    turns = [
        transcript.Turn(
            sequence=number, channel="c", conversation="d", recorded_at=NOW,
            messages=(
                transcript.Message(text=f"{number} " + "x" * 3_000),
                transcript.Message(role=EvidenceRole.TOOL, text="raw"),
            ),
        )
        for number in range(1, 20)
    ]  # fmt: skip
    data = summary_data("before", turns)
    assert data.startswith("## The summary so far\nbefore")
    assert "[user] 19 x" in data
    assert "[user] 1 x" not in data
    assert "raw" not in data
    assert len(data) <= limits.SUMMARY_INPUT_CHARS + 100


def test_a_state_prompt_includes_tool_actions_but_nothing_from_outside() -> None:
    turn = transcript.Turn(
        sequence=1, channel="c", conversation="d", recorded_at=NOW, messages=(transcript.Message(text="go"),),
        tool_observations=(
            transcript.ToolObservation(observation_id="1", tool_name="build", summary="green"),
            transcript.ToolObservation(observation_id="2", tool_name="web", summary="ads", external_content=True),
        ),
    )  # fmt: skip
    data = state_data(state(progress="half"), [turn])
    assert "Goal: Ship the release" in data
    assert "[tool build] green" in data
    assert "ads" not in data


def test_a_month_includes_the_days_that_it_can_cite() -> None:
    def note(period: str, *citations: str) -> continuity.DailyNote:
        about = {"channel": "c", "conversation": "d", "observed_at": NOW, "recorded_at": NOW, "updated_at": NOW}
        said = {"id": period, "period": period, "text": "x", "citations": citations}
        return continuity.DailyNote.model_validate(about | said)

    month = note("2026-08", *(str(number) for number in range(30)))
    large, small, known = note("2026-08-01", "a", "b", "c"), note("2026-08-02", "a", "b"), note("2026-08-03", "1")
    assert maintenance_due.fitting_days((known, small, large), month) == (small, known)
    assert maintenance_due.fitting_days((small, large), None) == (large, small)
