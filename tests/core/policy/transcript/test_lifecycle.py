"""Raw text can be put away, brought back while it is there, and emptied for good."""

import pytest

from elytron_core.clock import Instant
from elytron_core.contracts.transcript import TranscriptLifecycleTransition as Transition
from elytron_core.planes.transcript import HostOpaqueRef, Lifecycle, Message, Redaction, ToolObservation, Turn
from elytron_core.policy.transcript import turned

TURN = Turn(
    sequence=1,
    channel="c",
    conversation="c",
    messages=(Message(text="words", speaker="Ada"),),
    recorded_at=Instant(1),
    metadata={"note": "words"},
    tool_observations=(ToolObservation(observation_id="o", tool_name="t", summary="words"),),
    host_refs=(HostOpaqueRef(host_kind="h", business_ref_type="t", business_ref_id="1", label="words"),),
)
STEPS = (Transition.ARCHIVE, Transition.MASK, Transition.DELETE_RAW)
ARCHIVED, MASKED, DELETED = (turned(TURN, step) for step in STEPS)


@pytest.mark.parametrize(
    ("turn", "transition", "after"),
    [
        (TURN, Transition.REVIEW, (Lifecycle.ACTIVE, Redaction.RAW_AVAILABLE)),
        (TURN, Transition.RESTORE, (Lifecycle.ACTIVE, Redaction.RAW_AVAILABLE)),
        (TURN, Transition.ARCHIVE, (Lifecycle.ARCHIVED, Redaction.RAW_AVAILABLE)),
        (TURN, Transition.MASK, (Lifecycle.MASKED, Redaction.MASKED)),
        (TURN, Transition.DELETE_RAW, (Lifecycle.RAW_DELETED, Redaction.RAW_DELETED)),
        (ARCHIVED, Transition.ARCHIVE, (Lifecycle.ARCHIVED, Redaction.RAW_AVAILABLE)),
        (ARCHIVED, Transition.RESTORE, (Lifecycle.ACTIVE, Redaction.RAW_AVAILABLE)),
        (ARCHIVED, Transition.MASK, (Lifecycle.MASKED, Redaction.MASKED)),
        (MASKED, Transition.ARCHIVE, (Lifecycle.MASKED, Redaction.MASKED)),
        (MASKED, Transition.RESTORE, (Lifecycle.ACTIVE, Redaction.RAW_AVAILABLE)),
        (MASKED, Transition.DELETE_RAW, (Lifecycle.RAW_DELETED, Redaction.RAW_DELETED)),
        (DELETED, Transition.RESTORE, (Lifecycle.RAW_DELETED, Redaction.RAW_DELETED)),
        (DELETED, Transition.MASK, (Lifecycle.RAW_DELETED, Redaction.RAW_DELETED)),
        (DELETED, Transition.DELETE_RAW, (Lifecycle.RAW_DELETED, Redaction.RAW_DELETED)),
    ],
)
def test_a_transition_leads_where_it_says(
    turn: Turn, transition: Transition, after: tuple[Lifecycle, Redaction]
) -> None:
    found = turned(turn, transition)
    assert (found.lifecycle, found.redaction) == after


def test_deleted_text_leaves_no_word_and_keeps_who_and_when() -> None:
    assert b"words" not in DELETED.to_bytes()
    assert [message.speaker for message in DELETED.messages] == ["Ada"]
    assert DELETED.host_refs[0].business_ref_id == "1"


def test_restored_text_is_what_it_was() -> None:
    assert turned(MASKED, Transition.RESTORE) == turned(ARCHIVED, Transition.RESTORE) == TURN
