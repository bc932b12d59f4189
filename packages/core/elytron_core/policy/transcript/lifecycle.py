"""Transitions of a turn whose raw text is archived, masked, restored or deleted."""

from typing import assert_never

from elytron_core.contracts.conversation.transcript import TranscriptLifecycleTransition as Transition
from elytron_core.planes.conversation.transcript import Lifecycle, Redaction, Turn


def turned(turn: Turn, transition: Transition, /) -> Turn:
    """Return `turn` after `transition`: the same if there is nothing to do, or no text left to restore."""
    match transition:
        case Transition.REVIEW:
            return turn
        case Transition.ARCHIVE:
            return _with(turn, Lifecycle.ARCHIVED) if turn.lifecycle is Lifecycle.ACTIVE else turn
        case Transition.RESTORE:
            is_left = turn.redaction is not Redaction.RAW_DELETED and turn.lifecycle is not Lifecycle.ACTIVE
            return _with(turn, Lifecycle.ACTIVE, Redaction.RAW_AVAILABLE) if is_left else turn
        case Transition.MASK:
            is_shown = turn.redaction is Redaction.RAW_AVAILABLE
            return _with(turn, Lifecycle.MASKED, Redaction.MASKED) if is_shown else turn
        case Transition.DELETE_RAW:
            return turn if turn.redaction is Redaction.RAW_DELETED else _emptied(turn)
        case _:
            assert_never(transition)


def _with(turn: Turn, lifecycle: Lifecycle, redaction: Redaction | None = None) -> Turn:
    return turn.model_copy(update={"lifecycle": lifecycle, "redaction": redaction or turn.redaction})


def _emptied(turn: Turn) -> Turn:
    """Return the turn without a word of what was said, done or labelled; who, when and what it refers to stay."""
    return _with(turn, Lifecycle.RAW_DELETED, Redaction.RAW_DELETED).model_copy(
        update={
            "messages": tuple(message.model_copy(update={"text": ""}) for message in turn.messages),
            "tool_observations": tuple(item.model_copy(update={"summary": ""}) for item in turn.tool_observations),
            "host_refs": tuple(ref.model_copy(update={"label": None}) for ref in turn.host_refs),
            "items": (),
            "metadata": {},
        }
    )
