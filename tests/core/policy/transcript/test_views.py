"""What each audience may see, as one table; and no private text crosses a view, whatever a transcript contains."""

import random

import pytest
from benchmarks.rigs.views import leaks, random_story
from hypothesis import given, settings
from hypothesis import strategies as st

from elytron_core.clock import Instant
from elytron_core.contracts.transcript import TranscriptRedactionReason as Reason
from elytron_core.contracts.transcript import TranscriptReplayView as View
from elytron_core.evidence import EvidenceAuthority, EvidenceRole
from elytron_core.ids import TurnId
from elytron_core.planes.transcript import (
    AttributePolicy,
    HostOpaqueRef,
    HostRefVisibility,
    Message,
    TextRedaction,
    Turn,
    TurnAttribute,
    TurnLifecycle,
)
from elytron_core.policy.transcript import attribute_redaction, message_redaction, ref_redaction

NOW = Instant(1_770_000_000_000)
VIEWS = (View.RAW_OWNER_ONLY, View.OPERATOR_AUDIT, View.HOST_UI, View.EXPORT, View.MODEL_CONTEXT)
SHOWN = "shown"


def turn(message: Message, lifecycle: TurnLifecycle = TurnLifecycle.ACTIVE, *, forgotten: bool = False) -> Turn:
    redaction = {
        TurnLifecycle.ACTIVE: TextRedaction.RAW_AVAILABLE,
        TurnLifecycle.ARCHIVED: TextRedaction.RAW_AVAILABLE,
        TurnLifecycle.MASKED: TextRedaction.MASKED,
        TurnLifecycle.RAW_DELETED: TextRedaction.RAW_DELETED,
    }[lifecycle]
    return Turn(
        sequence=1,
        channel="c",
        conversation="c",
        messages=(message,),
        recorded_at=NOW,
        lifecycle=lifecycle,
        redaction=redaction,
        forgotten={0: NOW} if forgotten else {},
    )


def said(role: EvidenceRole = EvidenceRole.USER, authority: EvidenceAuthority | None = None) -> Message:
    return Message(role=role, text="words", authority=authority)


def told(found: Turn) -> tuple[str, ...]:
    return tuple(reason.value if (reason := message_redaction(found, 0, view)) else SHOWN for view in VIEWS)


OPERATORS = "operator_only"
PRIVATELY = "private_authority"
POLICY = "model_context_policy"

GOLDEN = [
    (turn(said()), (SHOWN, SHOWN, SHOWN, SHOWN, SHOWN)),
    (turn(said(EvidenceRole.ASSISTANT)), (SHOWN, SHOWN, SHOWN, SHOWN, SHOWN)),
    (turn(said(EvidenceRole.SYSTEM)), (SHOWN, SHOWN, OPERATORS, OPERATORS, OPERATORS)),
    (turn(said(EvidenceRole.TOOL)), (SHOWN, SHOWN, OPERATORS, OPERATORS, OPERATORS)),
    (turn(said(), TurnLifecycle.ARCHIVED), (SHOWN, SHOWN, SHOWN, SHOWN, POLICY)),
    (turn(said(), forgotten=True), (SHOWN, SHOWN, SHOWN, SHOWN, POLICY)),
    (turn(said(), TurnLifecycle.MASKED), ("lifecycle_masked",) * 5),
    (turn(said(), TurnLifecycle.RAW_DELETED), ("raw_deleted",) * 5),
    (turn(said()).model_copy(update={"erased": (0,)}), ("raw_deleted",) * 5),
    (
        turn(said(authority=EvidenceAuthority.PRIVATE_GARDEN_INTERNAL)),
        (SHOWN, PRIVATELY, PRIVATELY, PRIVATELY, PRIVATELY),
    ),
    (turn(said(authority=EvidenceAuthority.SOUL_GOVERNANCE)), (SHOWN, PRIVATELY, PRIVATELY, PRIVATELY, PRIVATELY)),
    (turn(said(authority=EvidenceAuthority.OPERATOR_DIAGNOSTIC)), (SHOWN, SHOWN, OPERATORS, OPERATORS, OPERATORS)),
    (turn(said(authority=EvidenceAuthority.EXTERNAL_CONTENT)), (SHOWN, SHOWN, SHOWN, SHOWN, POLICY)),
    (turn(said(EvidenceRole.ASSISTANT, EvidenceAuthority.ASSISTANT_SELF_CLAIM)), (SHOWN, SHOWN, SHOWN, SHOWN, SHOWN)),
]


@pytest.mark.parametrize(("found", "expected"), GOLDEN)
def test_each_view_matches_the_table(found: Turn, expected: tuple[str, ...]) -> None:
    assert told(found) == expected


@pytest.mark.parametrize(
    ("visibility", "seen_by"),
    [
        (HostRefVisibility.INTERNAL, {View.RAW_OWNER_ONLY}),
        (HostRefVisibility.HOST_UI, {View.RAW_OWNER_ONLY, View.OPERATOR_AUDIT, View.HOST_UI}),
        (HostRefVisibility.MODEL_CONTEXT, {View.RAW_OWNER_ONLY, View.MODEL_CONTEXT}),
        (HostRefVisibility.OPERATOR_AUDIT, {View.RAW_OWNER_ONLY, View.OPERATOR_AUDIT}),
        (HostRefVisibility.EXPORT, {View.RAW_OWNER_ONLY, View.OPERATOR_AUDIT, View.EXPORT}),
    ],
)
def test_a_reference_is_visible_as_declared(visibility: HostRefVisibility, seen_by: set[View]) -> None:
    ref = HostOpaqueRef(host_kind="h", business_ref_type="t", business_ref_id="1", visibility=visibility)
    assert {view for view in View if ref_redaction(ref, view) is None} == seen_by


def attribute(**said_of_it: object) -> TurnAttribute:
    about = {"turn": TurnId("t"), "channel": "c", "conversation": "c", "written_at": NOW}
    return TurnAttribute.model_validate({"key": "host.a", "value": "v", "visibility": "host_ui"} | about | said_of_it)


def attribute_told(found: TurnAttribute, of: Turn, view: View, value_bytes: int = 100) -> Reason | None:
    return attribute_redaction(found, of, view, value_bytes=value_bytes)


def test_an_attribute_is_exported_only_where_allowed() -> None:
    plain = turn(said())
    assert attribute_told(attribute(visibility="export"), plain, View.EXPORT) is Reason.ATTR_VISIBILITY
    assert attribute_told(attribute(visibility="export", export_allowed=True), plain, View.EXPORT) is None
    assert attribute_told(attribute(), plain, View.MODEL_CONTEXT) is Reason.ATTR_VISIBILITY


def test_a_value_beyond_the_budget_is_withheld() -> None:
    assert attribute_told(attribute(value="long"), turn(said()), View.HOST_UI, 3) is Reason.ATTR_VALUE_BUDGET
    assert attribute_told(attribute(value=7), turn(said()), View.HOST_UI, 3) is None


@pytest.mark.parametrize(
    ("policy", "views"),
    [
        (AttributePolicy.FOLLOW_TRANSCRIPT, set[View]()),
        (AttributePolicy.METADATA_SURVIVES_MASK, {View.RAW_OWNER_ONLY, View.OPERATOR_AUDIT, View.HOST_UI}),
        (AttributePolicy.OPERATOR_AUDIT_ONLY_AFTER_MASK, {View.RAW_OWNER_ONLY, View.OPERATOR_AUDIT}),
    ],
)
def test_an_attribute_of_masked_text_follows_its_policy(policy: AttributePolicy, views: set[View]) -> None:
    masked = turn(said(), TurnLifecycle.MASKED)
    assert {view for view in View if attribute_told(attribute(policy=policy), masked, view) is None} == views


def test_an_attribute_of_a_private_message_is_as_private() -> None:
    secret = turn(said(authority=EvidenceAuthority.PRIVATE_GARDEN_INTERNAL))
    diagnosis = turn(said(authority=EvidenceAuthority.OPERATOR_DIAGNOSTIC))
    assert attribute_told(attribute(part=0), secret, View.HOST_UI) is Reason.PRIVATE_AUTHORITY
    assert attribute_told(attribute(part=0), diagnosis, View.HOST_UI) is Reason.PRIVATE_AUTHORITY
    assert attribute_told(attribute(part=0), diagnosis, View.OPERATOR_AUDIT) is None
    gone = turn(said()).model_copy(update={"erased": (0,)})
    assert attribute_told(attribute(part=0), gone, View.RAW_OWNER_ONLY) is Reason.RAW_DELETED
    assert attribute_told(attribute(part=9), turn(said()), View.HOST_UI) is None


@settings(max_examples=60)
@given(st.integers(0, 2**32))
def test_no_private_word_crosses_a_view(seed: int) -> None:
    assert leaks(random_story(random.Random(seed))) == []
