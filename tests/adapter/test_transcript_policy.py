"""Which transcript views members may request, and which are for operators."""

import pytest

from elytron.registry import by_name
from elytron_adapter.dispatch import by_role
from elytron_adapter.envelope import CallAuth, CallTransport, Envelope
from elytron_core.contracts.transcript import (
    MemoryTranscriptLifecycleRequest,
    MemoryTranscriptReplayRequest,
    TranscriptLifecycleTransition,
    TranscriptReplayView,
)
from elytron_core.model import Request
from elytron_core.planes.servers.system_documents import PrincipalKind


def refusal(operation: str, request: Request, role: PrincipalKind) -> str | None:
    envelope = Envelope(
        request_id="r",
        transport=CallTransport.HTTP,
        operation=operation,
        auth=CallAuth(authenticated=True, principal="ada", role=role),
    )
    return by_role(envelope, by_name(operation), request)


@pytest.mark.parametrize("view", TranscriptReplayView)
@pytest.mark.parametrize("role", [PrincipalKind.USER, PrincipalKind.DEVICE, PrincipalKind.OPERATOR])
def test_an_operators_audit_is_visible_only_to_operators(view: TranscriptReplayView, role: PrincipalKind) -> None:
    found = refusal("replay_transcript", MemoryTranscriptReplayRequest(view=view), role)
    is_refused = view is TranscriptReplayView.OPERATOR_AUDIT and role is not PrincipalKind.OPERATOR
    assert (found is not None) is is_refused
    assert not is_refused or "view operator_audit" in str(found)


def test_a_lifecycle_report_names_references_only_for_its_caller() -> None:
    request = MemoryTranscriptLifecycleRequest(
        transition=TranscriptLifecycleTransition.REVIEW, view=TranscriptReplayView.OPERATOR_AUDIT
    )
    assert refusal("request_transcript_lifecycle", request, PrincipalKind.USER) is not None
