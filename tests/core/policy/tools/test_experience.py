"""Which feedback becomes experience, and which experience a hint."""

import pytest

from elytron_core import limits
from elytron_core.clock import Instant, instant
from elytron_core.contracts.tools import (
    AgentToolObservation,
    AgentToolUsageFeedback,
    ExperienceDecision,
    ExperienceReason,
    HintRejection,
    RegistryRefusal,
    ToolOutcome,
)
from elytron_core.planes.skills import ReuseOutcome
from elytron_core.planes.tools import (
    AgentToolDescriptor,
    AgentToolRegistrySnapshot,
    ExperienceConfidence,
    ExperienceStatus,
    ToolExperience,
)
from elytron_core.policy import tools as tools_experience
from elytron_core.policy.tools import TOOL_HINTS, FeedbackJudgement, judge_feedback, select_hints, with_fingerprints

NOW = instant("2026-03-01T12:00:00Z")
READ = AgentToolDescriptor(tool_id="read", schema_fingerprint="s1", permission_tags=("files",), risk_tags=("low",))
SEND = AgentToolDescriptor(tool_id="send", schema_fingerprint="s2", display_name="Send")


def registry(*tools: AgentToolDescriptor, **fields: object) -> AgentToolRegistrySnapshot:
    named = {"registry_id": "host", "namespace": "desk", "tools": tools or (READ, SEND)}
    return with_fingerprints(AgentToolRegistrySnapshot.model_validate({**named, **fields}))


HOST = registry()


def seen(tool: str = "read", schema: str = "s1", **fields: object) -> AgentToolObservation:
    return AgentToolObservation.model_validate(
        {"tool_id": tool, "schema_fingerprint": schema, "outcome": ToolOutcome.SUCCEEDED, **fields}
    )


def feedback(*observations: AgentToolObservation, **fields: object) -> AgentToolUsageFeedback:
    named = {"registry_ref": HOST.ref, "observations": observations, "user_visible_result_summary": "found the file"}
    return AgentToolUsageFeedback.model_validate({**named, **fields})


def judge(given: AgentToolUsageFeedback, *, known: ToolExperience | None = None) -> FeedbackJudgement:
    return judge_feedback(given, HOST, known, at=NOW)


def known(**fields: object) -> ToolExperience:
    named = {"registry_id": "host", "tool_id": "read", "schema_fingerprint": "s1", "created_at": NOW, "updated_at": NOW}
    counts = {"success_count": 2, "confidence": "medium", "status": "active", "reason": "found the file"}
    return ToolExperience.model_validate({**named, **counts, **fields})


LOW, DRIFT = ExperienceDecision.REJECTED_BY_LOW_CONFIDENCE, ExperienceDecision.REJECTED_BY_SCHEMA_DRIFT
FAILED = seen(outcome=ToolOutcome.FAILED)
PRIVATE = seen(private_content_used=True)


@pytest.mark.parametrize(
    ("given", "decision", "reason"),
    [
        (feedback(seen(), seen(), reuse_outcome=ReuseOutcome.MISMATCH), LOW, tools_experience.MISMATCH),
        (feedback(seen(), registry_ref=registry(registry_id="x").ref), DRIFT, tools_experience.UNKNOWN_REGISTRY),
        (feedback(seen(), registry_ref=registry(scope="owner").ref), DRIFT, tools_experience.UNKNOWN_REGISTRY),
        (feedback(PRIVATE, registry_ref=registry(READ).ref), DRIFT, tools_experience.OTHER_FINGERPRINT),
        (feedback(seen(), seen("send", "s2")), DRIFT, tools_experience.MIXED),
        (feedback(seen(), seen("read", "s0")), DRIFT, tools_experience.MIXED),
        (feedback(seen("gone")), DRIFT, tools_experience.UNKNOWN_TOOL),
        (feedback(seen("read", "s0")), DRIFT, tools_experience.OTHER_SCHEMA),
        (feedback(FAILED, PRIVATE), ExperienceDecision.REJECTED_BY_PRIVACY, tools_experience.PRIVATE),
        (feedback(), LOW, tools_experience.NO_SUCCESS),
        (feedback(FAILED, seen(outcome=ToolOutcome.PARTIAL), operator_note="fine"), LOW, tools_experience.NO_SUCCESS),
        (feedback(FAILED, seen()), ExperienceDecision.DEFERRED_UNTIL_REPEATED, tools_experience.ONCE),
        (feedback(seen(), operator_note="  "), ExperienceDecision.DEFERRED_UNTIL_REPEATED, tools_experience.ONCE),
        (feedback(seen(), operator_note="do"), ExperienceDecision.ACCEPTED_AS_EVIDENCE, tools_experience.ACCEPTED),
        (feedback(seen(), seen()), ExperienceDecision.ACCEPTED_AS_EVIDENCE, tools_experience.ACCEPTED),
    ],
)
def test_the_first_matching_rule_decides(
    given: AgentToolUsageFeedback, decision: ExperienceDecision, reason: str
) -> None:
    made = judge(given)
    assert (made.decision, made.reason) == (decision, reason)


def test_feedback_for_an_unknown_registry_is_drift() -> None:
    made = judge_feedback(feedback(seen(), seen()), None, None, at=NOW)
    assert (made.decision, made.reason, made.experience) == (DRIFT, tools_experience.UNKNOWN_REGISTRY, None)


@pytest.mark.parametrize(
    ("given", "confidence"),
    [
        (feedback(seen()), ExperienceConfidence.LOW),
        (feedback(seen(), seen()), ExperienceConfidence.MEDIUM),
        (feedback(seen(), seen(), seen()), ExperienceConfidence.HIGH),
        (feedback(seen(), operator_note="use it"), ExperienceConfidence.HIGH),
    ],
)
def test_successes_or_an_operators_word_make_an_experience_certain(
    given: AgentToolUsageFeedback, confidence: ExperienceConfidence
) -> None:
    made = judge(given).experience
    assert made is not None
    assert made.confidence is confidence


def test_a_deferred_success_counts_when_repeated() -> None:
    first = judge(feedback(seen(), FAILED)).experience
    assert first is not None
    assert (first.status, first.success_count, first.failure_count) == (ExperienceStatus.CANDIDATE, 1, 1)
    again = judge(feedback(seen()), known=first)
    assert again.decision is ExperienceDecision.ACCEPTED_AS_EVIDENCE
    assert again.experience is not None
    assert (again.experience.status, again.experience.success_count) == (ExperienceStatus.ACTIVE, 2)


def test_a_mismatch_makes_a_known_experience_uncertain_but_creates_none() -> None:
    given = feedback(seen(), reuse_outcome=ReuseOutcome.MISMATCH)
    doubted = judge(given, known=known()).experience
    assert doubted == known(mismatch_count=1, confidence="low")
    assert judge(given).experience is None
    other = feedback(seen(), reuse_outcome=ReuseOutcome.MISMATCH, registry_ref=registry(READ).ref)
    assert judge(other, known=known()).experience is None


def test_forgotten_experiences_stay_forgotten() -> None:
    made = judge(feedback(seen(), seen()), known=known(forgotten_at=NOW)).experience
    assert made is not None
    assert made.success_count == 4
    assert not made.is_governed


@pytest.mark.parametrize(
    ("text", "kept"),
    [
        ("found\n the  file", "found the file"),
        ('{"rows": [1, 2]}', ""),
        ("2026-01-01T10:00:00 GET /x 200\n2026-01-01T10:00:01 GET /y 200", ""),
        ("", ""),
        ("x" * 999, "x" * limits.TOOL_REASON_CHARS),
    ],
)
def test_a_summary_keeps_words_but_no_payload(text: str, kept: str) -> None:
    assert tools_experience.kept_words(text) == kept


def test_an_experience_prefers_the_users_words_to_the_hosts() -> None:
    made = judge(feedback(seen(summary="one"), seen(summary="two"), user_visible_result_summary='{"a": 1}')).experience
    assert made is not None
    assert made.reason == "one"
    kept = judge(feedback(seen(), seen(), user_visible_result_summary=None), known=known()).experience
    assert kept is not None
    assert (kept.reason, kept.text) == ("found the file", "found the file")
    assert known(reason="").text == "read"


@pytest.mark.parametrize(
    ("snapshot", "refusal"),
    [
        (HOST, None),
        (HOST.model_copy(update={"fingerprint": "0"}), RegistryRefusal.FINGERPRINT_MISMATCH),
        (registry(READ, READ), RegistryRefusal.DUPLICATE_TOOL),
        (HOST.model_copy(update={"tools": (READ, SEND)}), None),
        (
            HOST.model_copy(update={"tools": (READ.model_copy(update={"descriptor_fingerprint": "0"}), SEND)}),
            RegistryRefusal.DESCRIPTOR_MISMATCH,
        ),
    ],
)
def test_a_snapshot_must_match_its_fingerprints(
    snapshot: AgentToolRegistrySnapshot, refusal: RegistryRefusal | None
) -> None:
    assert tools_experience.registry_refusal(snapshot) is refusal


def test_hints_are_ordered_by_certainty_successes_and_recency() -> None:
    later = Instant(NOW + 1)
    experiences = {
        "a": known(),
        "b": known(updated_at=later),
        "c": known(success_count=5),
        "d": known(confidence="high"),
        "e": known(confidence="low", success_count=99),
    }
    made = select_hints({"host": HOST}, experiences, (HOST.ref,))
    assert [hint.experience_id for hint in made.hints] == ["d", "c", "b", "a", "e"]
    assert all(hint.host_execution_required for hint in made.hints)
    assert (made.hints[0].permission_tags, made.hints[0].risk_tags) == (("files",), ("low",))
    assert made.status.reason is ExperienceReason.GOVERNED_TOOL_EXPERIENCE_AVAILABLE
    assert (made.status.available, made.status.host_fallback_required) == (True, False)


def test_hints_are_bounded() -> None:
    experiences = {str(at): known(task_signature=str(at)) for at in range(TOOL_HINTS + 1)}
    made = select_hints({"host": HOST}, experiences, ())
    assert len(made.hints) == TOOL_HINTS
    assert made.status.budget_limited
    assert made.status.governed_experience_candidates == TOOL_HINTS + 1


def test_an_experience_without_text_shows_its_success_count() -> None:
    [hint] = select_hints({"host": HOST}, {"a": known(reason="")}, ()).hints
    assert hint.reason == "succeeded 2 times"


@pytest.mark.parametrize("experience", [known(status="candidate"), known(forgotten_at=NOW), known(registry_id="other")])
def test_without_governed_experience_the_host_decides(experience: ToolExperience) -> None:
    made = select_hints({"host": HOST}, {"a": experience}, (HOST.ref,))
    assert made.hints == made.status.rejected == ()
    assert made.status.reason is ExperienceReason.NO_GOVERNED_TOOL_EXPERIENCE
    assert (made.status.available, made.status.host_fallback_required) == (False, True)
    assert made.status.registry_refs_checked == 1


@pytest.mark.parametrize(
    ("current", "asked", "reason", "tool"),
    [
        (HOST, registry(registry_id="gone"), HintRejection.REGISTRY_NOT_FOUND, None),
        (HOST, registry(scope="owner"), HintRejection.REGISTRY_NOT_FOUND, None),
        (HOST, registry(READ), HintRejection.REGISTRY_FINGERPRINT_MISMATCH, None),
        (registry(SEND), registry(SEND), HintRejection.TOOL_NOT_IN_REGISTRY, "read"),
        (
            registry(READ.model_copy(update={"disabled": True})),
            registry(READ.model_copy(update={"disabled": True})),
            HintRejection.DISABLED,
            "read",
        ),
        (
            registry(READ.model_copy(update={"schema_fingerprint": "s9"})),
            registry(READ.model_copy(update={"schema_fingerprint": "s9"})),
            HintRejection.STALE_SCHEMA,
            "read",
        ),
    ],
)
def test_drift_is_reported_and_yields_no_hint(
    current: AgentToolRegistrySnapshot, asked: AgentToolRegistrySnapshot, reason: HintRejection, tool: str | None
) -> None:
    made = select_hints({"host": current}, {"a": known()}, (asked.ref,))
    assert made.hints == ()
    [rejected] = made.status.rejected
    assert (rejected.reason, rejected.tool_id) == (reason, tool)
    assert made.status.reason is ExperienceReason.NO_GOVERNED_TOOL_EXPERIENCE


def test_registries_tools_and_experiences_are_counted() -> None:
    tools = registry(READ, SEND.model_copy(update={"disabled": True}))
    experiences = {
        "a": known(),
        "b": known(schema_fingerprint="s0"),
        "c": known(registry_id="x"),
        "d": known(status="candidate"),
    }
    found = tools_experience.count_tools({"host": tools}, experiences, forbidden=True)
    assert (found.registries, found.tools, found.disabled_tools) == (1, 2, 1)
    assert (found.governed_experiences, found.stale_experiences, found.candidate_experiences) == (3, 2, 1)
    assert found.forbidden_by_profile
