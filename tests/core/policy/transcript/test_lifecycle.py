"""Raw text can be archived, restored while it exists, and deleted permanently."""

import pytest

from elytron_core.clock import Instant
from elytron_core.contracts.transcript import TranscriptLifecycleTransition as Transition
from elytron_core.planes.transcript import HostOpaqueRef, Message, TextRedaction, ToolObservation, Turn, TurnLifecycle
from elytron_core.policy.transcript import apply_transition

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
ARCHIVED, MASKED, DELETED = (apply_transition(TURN, step) for step in STEPS)


@pytest.mark.parametrize(
    ("turn", "transition", "after"),
    [
        (TURN, Transition.REVIEW, (TurnLifecycle.ACTIVE, TextRedaction.RAW_AVAILABLE)),
        (TURN, Transition.RESTORE, (TurnLifecycle.ACTIVE, TextRedaction.RAW_AVAILABLE)),
        (TURN, Transition.ARCHIVE, (TurnLifecycle.ARCHIVED, TextRedaction.RAW_AVAILABLE)),
        (TURN, Transition.MASK, (TurnLifecycle.MASKED, TextRedaction.MASKED)),
        (TURN, Transition.DELETE_RAW, (TurnLifecycle.RAW_DELETED, TextRedaction.RAW_DELETED)),
        (ARCHIVED, Transition.ARCHIVE, (TurnLifecycle.ARCHIVED, TextRedaction.RAW_AVAILABLE)),
        (ARCHIVED, Transition.RESTORE, (TurnLifecycle.ACTIVE, TextRedaction.RAW_AVAILABLE)),
        (ARCHIVED, Transition.MASK, (TurnLifecycle.MASKED, TextRedaction.MASKED)),
        (MASKED, Transition.ARCHIVE, (TurnLifecycle.MASKED, TextRedaction.MASKED)),
        (MASKED, Transition.RESTORE, (TurnLifecycle.ACTIVE, TextRedaction.RAW_AVAILABLE)),
        (MASKED, Transition.DELETE_RAW, (TurnLifecycle.RAW_DELETED, TextRedaction.RAW_DELETED)),
        (DELETED, Transition.RESTORE, (TurnLifecycle.RAW_DELETED, TextRedaction.RAW_DELETED)),
        (DELETED, Transition.MASK, (TurnLifecycle.RAW_DELETED, TextRedaction.RAW_DELETED)),
        (DELETED, Transition.DELETE_RAW, (TurnLifecycle.RAW_DELETED, TextRedaction.RAW_DELETED)),
    ],
)
def test_a_transition_leads_to_its_target_state(
    turn: Turn, transition: Transition, after: tuple[TurnLifecycle, TextRedaction]
) -> None:
    found = apply_transition(turn, transition)
    assert (found.lifecycle, found.redaction) == after


def test_deleting_text_preserves_speaker_and_time() -> None:
    assert b"words" not in DELETED.to_bytes()
    assert [message.speaker for message in DELETED.messages] == ["Ada"]
    assert DELETED.host_refs[0].business_ref_id == "1"


def test_restored_text_is_unchanged() -> None:
    assert apply_transition(MASKED, Transition.RESTORE) == apply_transition(ARCHIVED, Transition.RESTORE) == TURN
