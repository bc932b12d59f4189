"""A truncated page reports its omissions, stays within its budget, and counts everything."""

import pytest

from elytron_core.clock import Instant
from elytron_core.contracts.transcript import TranscriptRedactionReason as Reason
from elytron_core.contracts.transcript import TranscriptReplayView as View
from elytron_core.evidence import EvidenceRole
from elytron_core.ids import ConversationTag
from elytron_core.planes.transcript import (
    HostOpaqueRef,
    HostRefVisibility,
    Message,
    OpaqueItem,
    TextRedaction,
    ToolObservation,
    Turn,
    TurnAttribute,
    message_id,
    turn_id,
)
from elytron_core.policy.transcript import TranscriptCut, cut_refs, cut_transcript
from elytron_core.profiles import TranscriptGovernanceBudget
from elytron_core.scope import ClipReason, ConversationKey, ReportClip

NOW = Instant(1_770_000_000_000)
KEY = ConversationKey("c", "c")
PLACE = turn_id(ConversationTag("a" * 24), 1)
SMALL = TranscriptGovernanceBudget(
    page_turns=1,
    host_refs_per_turn=1,
    attributes_per_turn=1,
    attribute_value_bytes=4,
    redaction_items=2,
    derived_refs=1,
    repair_issues=1,
)
ROOMY = SMALL.model_copy(
    update={"host_refs_per_turn": 9, "attributes_per_turn": 9, "attribute_value_bytes": 99, "redaction_items": 99}
)


def ref(number: int, visibility: HostRefVisibility = HostRefVisibility.HOST_UI) -> HostOpaqueRef:
    return HostOpaqueRef(
        host_kind="h", business_ref_type="t", business_ref_id=str(number), visibility=visibility, label="words"
    )


def attribute(key: str, value: str, part: int | None = None) -> TurnAttribute:
    return TurnAttribute(
        key=key,
        value=value,
        part=part,
        visibility=HostRefVisibility.HOST_UI,
        turn=PLACE,
        channel="c",
        conversation="c",
        written_at=NOW,
    )


TURN = Turn(
    sequence=1,
    channel="c",
    conversation="c",
    messages=(Message(role=EvidenceRole.SYSTEM, text="rules"), Message(text="hello", speaker="Ada")),
    recorded_at=NOW,
    host_refs=(ref(1), ref(2), ref(3, HostRefVisibility.INTERNAL)),
    tool_observations=(ToolObservation(observation_id="o", tool_name="t", summary="s"),),
)
ATTRIBUTES = {PLACE: (attribute("host.a", "1"), attribute("host.b", "2"), attribute("host.c", "longer"))}


def made(view: View, budget: TranscriptGovernanceBudget) -> TranscriptCut:
    return cut_transcript("s", KEY, [(PLACE, TURN)], ATTRIBUTES, view=view, budget=budget)


def test_omissions_are_named_and_counted() -> None:
    found = made(View.HOST_UI, ROOMY)
    audit = found.slice.audit
    assert found.clipped == ()
    assert (audit.redacted_messages, audit.redacted_host_refs, audit.redacted_tool_observations) == (1, 1, 1)
    assert audit.redaction_reasons == (Reason.HOST_REF_VISIBILITY, Reason.OPERATOR_ONLY)
    assert [(item.message_id, item.host_ref_index, item.observation_index) for item in found.slice.redactions] == [
        (PLACE, None, None),
        (None, None, 0),
        (None, 2, None),
    ]
    (turn,) = found.slice.turns
    assert [message.text for message in turn.messages] == [None, "hello"]
    assert [message.actor.speaker_id for message in turn.messages] == [None, "Ada"]
    assert [item.key for item in turn.attributes] == ["host.a", "host.b", "host.c"]


def test_a_label_stays_with_the_host() -> None:
    shown, items = cut_refs(PLACE, TURN, view=View.OPERATOR_AUDIT, budget=ROOMY)
    assert [found.label for found in shown] == [None, None]
    assert [item.reason for item in items] == [Reason.HOST_REF_LABEL, Reason.HOST_REF_LABEL, Reason.HOST_REF_VISIBILITY]
    assert [found.label for found in cut_refs(PLACE, TURN, view=View.HOST_UI, budget=ROOMY)[0]] == ["words", "words"]


def test_a_budget_truncates_lists_reports_it_and_counts_everything() -> None:
    found = made(View.HOST_UI, SMALL)
    (turn,) = found.slice.turns
    assert ([ref.business_ref_id for ref in turn.host_refs], [item.key for item in turn.attributes]) == (
        ["1"],
        ["host.a"],
    )
    assert found.clipped == (
        ReportClip(what="attributes", reason=ClipReason.PROFILE, limit=1, dropped=1),
        ReportClip(what="attribute_values", reason=ClipReason.PROFILE, limit=4, dropped=1),
        ReportClip(what="host_refs", reason=ClipReason.PROFILE, limit=1, dropped=1),
        ReportClip(what="redactions", reason=ClipReason.PROFILE, limit=2, dropped=4),
    )
    assert len(found.slice.redactions) == 2
    assert (found.slice.audit.redacted_host_refs, found.slice.audit.redacted_attributes) == (2, 2)
    assert Reason.PROFILE_BUDGET in found.slice.audit.redaction_reasons


def test_an_omitted_attribute_is_reported_with_its_message() -> None:
    known = {PLACE: (attribute("host.a", "longer"), attribute("host.b", "longer", part=1))}
    found = cut_transcript(
        "s",
        KEY,
        [(PLACE, TURN)],
        known,
        view=View.HOST_UI,
        budget=ROOMY.model_copy(update={"attribute_value_bytes": 4}),
    )
    told = [(item.attr_key, item.message_id) for item in found.slice.redactions if item.attr_key is not None]
    assert told == [("host.a", None), ("host.b", message_id(PLACE, 1))]


@pytest.mark.parametrize(
    ("view", "redaction", "is_shown"),
    [
        (View.RAW_OWNER_ONLY, TextRedaction.RAW_AVAILABLE, True),
        (View.RAW_OWNER_ONLY, TextRedaction.MASKED, False),
        (View.RAW_OWNER_ONLY, TextRedaction.RAW_DELETED, False),
        (View.HOST_UI, TextRedaction.RAW_AVAILABLE, False),
    ],
)
def test_verbatim_items_are_for_the_owner_while_raw_text_exists(
    view: View, redaction: TextRedaction, is_shown: bool
) -> None:
    item = OpaqueItem(kind="call", issuer="host", body='{"id": 1}')
    turn = TURN.model_copy(update={"items": (item,), "redaction": redaction})
    found = cut_transcript("s", KEY, [(PLACE, turn)], {}, view=view, budget=ROOMY)
    assert found.slice.turns[0].items == ((item,) if is_shown else ())
