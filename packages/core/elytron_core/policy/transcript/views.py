"""Views of a turn for each audience. Pure: they depend on the view, the turn's state and a text's authority."""

from typing import assert_never

from elytron_core.contracts.conversation.transcript import TranscriptRedactionReason as Reason
from elytron_core.contracts.conversation.transcript import TranscriptReplayView as View
from elytron_core.planes.conversation.attributes import AttributePolicy, TurnAttribute
from elytron_core.planes.conversation.host_refs import HostOpaqueRef, HostRefVisibility
from elytron_core.planes.conversation.transcript import Lifecycle, Redaction, Turn
from elytron_core.planes.evidence import PRIVATE, EvidenceAuthority
from elytron_core.planes.roles import Role

VISIBLE_REFS = {
    View.RAW_OWNER_ONLY: frozenset(HostRefVisibility),
    View.MODEL_CONTEXT: frozenset({HostRefVisibility.MODEL_CONTEXT}),
    View.HOST_UI: frozenset({HostRefVisibility.HOST_UI}),
    View.OPERATOR_AUDIT: frozenset(
        {HostRefVisibility.OPERATOR_AUDIT, HostRefVisibility.HOST_UI, HostRefVisibility.EXPORT}
    ),
    View.EXPORT: frozenset({HostRefVisibility.EXPORT}),
}
"""References and attributes that each view sees."""
LABELLED = frozenset({View.RAW_OWNER_ONLY, View.HOST_UI})
"""Views in which a reference keeps its label: the host's own."""
INWARD = frozenset({View.RAW_OWNER_ONLY, View.OPERATOR_AUDIT})
"""Views that see a turn's provenance: its source, its tools, its actors."""


def message_redaction(turn: Turn, part: int, view: View, /) -> Reason | None:
    """Return why `view` does not see a message's text, or None if it does."""
    gone = _gone(turn, part)
    if gone is not None:
        return gone
    authority = turn.messages[part].stands_on
    match view:
        case View.RAW_OWNER_ONLY:
            return None
        case View.OPERATOR_AUDIT:
            return Reason.PRIVATE_AUTHORITY if authority in PRIVATE else None
        case View.HOST_UI | View.EXPORT:
            return _outward(turn, part, authority)
        case View.MODEL_CONTEXT:
            return _outward(turn, part, authority) or _modelled(turn, part, authority)
        case _:
            assert_never(view)


def ref_redaction(ref: HostOpaqueRef, view: View, /) -> Reason | None:
    """Return why `view` does not see a reference, or None if it does."""
    return None if ref.visibility in VISIBLE_REFS[view] else Reason.HOST_REF_VISIBILITY


def attribute_redaction(attribute: TurnAttribute, turn: Turn, view: View, /, *, value_bytes: int) -> Reason | None:
    """Return why `view` does not see an attribute, or None if it does. An erased message's are gone with it."""
    if attribute.part is not None and attribute.part in turn.erased:
        return Reason.RAW_DELETED
    if attribute.visibility not in VISIBLE_REFS[view]:
        return Reason.ATTR_VISIBILITY
    if view is View.EXPORT and not attribute.export_allowed:
        return Reason.ATTR_VISIBILITY
    if attribute.part is not None and _is_private(turn, attribute.part, view):
        return Reason.PRIVATE_AUTHORITY
    if turn.redaction is not Redaction.RAW_AVAILABLE and not _survives(attribute.policy, view):
        return Reason.ATTR_LIFECYCLE_POLICY
    return Reason.ATTR_VALUE_BUDGET if attribute.value_bytes > value_bytes else None


def _gone(turn: Turn, part: int) -> Reason | None:
    if part in turn.erased or turn.redaction is Redaction.RAW_DELETED:
        return Reason.RAW_DELETED
    return Reason.LIFECYCLE_MASKED if turn.redaction is Redaction.MASKED else None


def _outward(turn: Turn, part: int, authority: EvidenceAuthority) -> Reason | None:
    """Return why a text is for the owner and the operator alone, if it is."""
    if authority in PRIVATE:
        return Reason.PRIVATE_AUTHORITY
    if authority is EvidenceAuthority.OPERATOR_DIAGNOSTIC:
        return Reason.OPERATOR_ONLY
    # Instructions and raw tool results are how the host works, not what was said.
    return Reason.OPERATOR_ONLY if turn.messages[part].role in {Role.SYSTEM, Role.TOOL} else None


def _modelled(turn: Turn, part: int, authority: EvidenceAuthority) -> Reason | None:
    """Return what keeps a text from a model beside that: what was put away, hidden, or is a stranger's word."""
    is_shown = turn.lifecycle is Lifecycle.ACTIVE and part not in turn.forgotten
    return None if is_shown and authority is not EvidenceAuthority.EXTERNAL_CONTENT else Reason.MODEL_CONTEXT_POLICY


def _is_private(turn: Turn, part: int, view: View) -> bool:
    if view is View.RAW_OWNER_ONLY or part >= len(turn.messages):
        return False
    authority = turn.messages[part].stands_on
    return authority in PRIVATE or (authority is EvidenceAuthority.OPERATOR_DIAGNOSTIC and view not in INWARD)


def _survives(policy: AttributePolicy, view: View) -> bool:
    match policy:
        case AttributePolicy.FOLLOW_TRANSCRIPT:
            return False
        case AttributePolicy.METADATA_SURVIVES_MASK:
            return True
        case AttributePolicy.OPERATOR_AUDIT_ONLY_AFTER_MASK:
            return view in INWARD
        case _:
            assert_never(policy)
