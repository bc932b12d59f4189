"""A finished run as evidence: what was said, what tools were used, and what of it came from outside."""

from typing import Final

from elytron_agent.context.guard import clipped
from elytron_agent.runs import limits
from elytron_agent.runs.events import ANSWERS, StopReason
from elytron_agent.runs.journal import CallResult, RunRecord
from elytron_core import limits as core_limits
from elytron_core.contracts.admin.maintenance import MemoryFinalizeTurnRequest
from elytron_core.contracts.conversation.transcript import CanonicalTurnDelta
from elytron_core.planes.conversation import transcript
from elytron_core.planes.roles import Role
from elytron_core.scope import Scope

READ_RESULT: Final = "read_result"
"""Tool that repeats results of the run, which are evidence once."""
_DELIVERIES: Final = {
    StopReason.CANCELLED: transcript.Delivery.CANCELLED,
    StopReason.FAILED: transcript.Delivery.UPSTREAM_FAILED,
    StopReason.MALFORMED: transcript.Delivery.UPSTREAM_FAILED,
}


def delivery_of(reason: StopReason, text: str, /) -> transcript.Delivery:
    """Return how a run's turn was delivered: an answer counts only if there is one, and the run came to its end."""
    if reason in ANSWERS or reason is StopReason.REFUSED:
        return transcript.Delivery.DELIVERED if text else transcript.Delivery.USER_ONLY
    return _DELIVERIES[reason]


def turn_of(record: RunRecord, reason: StopReason, scope: Scope | None, /) -> MemoryFinalizeTurnRequest:
    """Return the request that has memory keep the turn; a repeat of it stores nothing.

    Text that tools brought from outside is stored beside the messages as a tool's, which vouches for nothing.
    """
    delivery = delivery_of(reason, record.text)
    new = (result for result in record.results if result.tool != READ_RESULT)
    outside = [result for result in new if result.is_outside and not result.is_error]
    said = transcript.Message(role=Role.USER, text=record.input.text, at=record.input.at)
    heard = (
        transcript.Message(role=Role.TOOL, text=clipped(result.text, limits.OUTSIDE_CHARS), speaker=result.tool)
        for result in outside[: core_limits.TOOL_OBSERVATIONS]
        if result.text.strip()
    )
    answer = transcript.Message(role=Role.ASSISTANT, text=record.text)
    return MemoryFinalizeTurnRequest(
        scope=scope,
        delta=CanonicalTurnDelta(
            turn_id=record.input.run,
            delivery=delivery,
            input_messages=(said, *heard),
            assistant_message=answer if delivery is transcript.Delivery.DELIVERED else None,
            tool_observations=tuple(_observed(result) for result in record.results[: core_limits.TOOL_OBSERVATIONS]),
            external_content_used=bool(outside),
        ),
    )


def _observed(result: CallResult) -> transcript.ToolObservation:
    told = "failed" if result.is_error else "answered"
    return transcript.ToolObservation(
        observation_id=f"{result.step}.{result.place}",
        tool_name=result.tool,
        summary="outcome unknown" if result.is_unknown else told,
        external_content=result.is_outside,
    )
