"""Views of a transcript for each audience, their pages, and the retention of a turn's raw text."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import assert_never

from elytron_core.contracts.transcript import (
    RedactedTranscriptMessage,
    RedactedTranscriptSlice,
    RedactedTranscriptTurn,
    TranscriptRedactionReason,
    TranscriptRedactionReportItem,
    TranscriptReplayAudit,
    TranscriptReplayView,
)
from elytron_core.contracts.transcript import TranscriptLifecycleTransition as Transition
from elytron_core.contracts.transcript import TranscriptRedactionReason as Reason
from elytron_core.contracts.transcript import TranscriptReplayView as View
from elytron_core.evidence import PRIVATE, EvidenceAuthority, EvidenceRole
from elytron_core.ids import TurnId
from elytron_core.planes.transcript import (
    ActorAttribution,
    AttributePolicy,
    HostOpaqueRef,
    HostRefVisibility,
    MessageAttribute,
    TextRedaction,
    ToolObservation,
    Turn,
    TurnAttribute,
    TurnLifecycle,
    message_id,
    said_at,
)
from elytron_core.profiles import TranscriptGovernanceBudget
from elytron_core.scope import ClipReason, ConversationKey, ReportClip

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
"""Views in which a reference shows its label: the host's own."""
INWARD = frozenset({View.RAW_OWNER_ONLY, View.OPERATOR_AUDIT})
"""Views that see a turn's provenance: its source, its tools, its actors."""


def message_redaction(turn: Turn, part: int, view: View, /) -> Reason | None:
    """Return why `view` hides a message's text, or None if it shows it."""
    # Erased text is hidden from every view, including the owner's.
    removal_reason = _gone_reason(turn, part)
    if removal_reason is not None:
        return removal_reason
    authority = turn.messages[part].stands_on
    match view:
        case View.RAW_OWNER_ONLY:
            return None
        case View.OPERATOR_AUDIT:
            return Reason.PRIVATE_AUTHORITY if authority in PRIVATE else None
        case View.HOST_UI | View.EXPORT:
            return _outward_reason(turn, part, authority)
        case View.MODEL_CONTEXT:
            return _outward_reason(turn, part, authority) or _model_reason(turn, part, authority)
        case _:
            assert_never(view)


def ref_redaction(ref: HostOpaqueRef, view: View, /) -> Reason | None:
    """Return why `view` hides a reference, or None if it shows it."""
    return None if ref.visibility in VISIBLE_REFS[view] else Reason.HOST_REF_VISIBILITY


def attribute_redaction(attribute: TurnAttribute, turn: Turn, view: View, /, *, value_bytes: int) -> Reason | None:
    """Return why `view` hides an attribute, or None if it shows it. An erased message's are gone with it."""
    # An erased message's attributes go with it, whatever their policy.
    if attribute.part is not None and attribute.part in turn.erased:
        return Reason.RAW_DELETED
    if attribute.visibility not in VISIBLE_REFS[view]:
        return Reason.ATTR_VISIBILITY
    if view is View.EXPORT and not attribute.export_allowed:
        return Reason.ATTR_VISIBILITY
    if attribute.part is not None and _is_private(turn, attribute.part, view):
        return Reason.PRIVATE_AUTHORITY
    if turn.redaction is not TextRedaction.RAW_AVAILABLE and not _view_keeps(attribute.policy, view):
        return Reason.ATTR_LIFECYCLE_POLICY
    return Reason.ATTR_VALUE_BUDGET if attribute.value_bytes > value_bytes else None


def _gone_reason(turn: Turn, part: int) -> Reason | None:
    if part in turn.erased or turn.redaction is TextRedaction.RAW_DELETED:
        return Reason.RAW_DELETED
    return Reason.LIFECYCLE_MASKED if turn.redaction is TextRedaction.MASKED else None


def _outward_reason(turn: Turn, part: int, authority: EvidenceAuthority) -> Reason | None:
    """Return why a text is only for the owner and the operator, if it is."""
    if authority in PRIVATE:
        return Reason.PRIVATE_AUTHORITY
    if authority is EvidenceAuthority.OPERATOR_DIAGNOSTIC:
        return Reason.OPERATOR_ONLY
    # Instructions and raw tool results are how the host works, not what was said.
    return Reason.OPERATOR_ONLY if turn.messages[part].role in {EvidenceRole.SYSTEM, EvidenceRole.TOOL} else None


def _model_reason(turn: Turn, part: int, authority: EvidenceAuthority) -> Reason | None:
    """Return what else hides a text from a model: archived, hidden, or a stranger's words."""
    is_shown = turn.lifecycle is TurnLifecycle.ACTIVE and part not in turn.forgotten
    return None if is_shown and authority is not EvidenceAuthority.EXTERNAL_CONTENT else Reason.MODEL_CONTEXT_POLICY


def _is_private(turn: Turn, part: int, view: View) -> bool:
    if view is View.RAW_OWNER_ONLY or part >= len(turn.messages):
        return False
    authority = turn.messages[part].stands_on
    return authority in PRIVATE or (authority is EvidenceAuthority.OPERATOR_DIAGNOSTIC and view not in INWARD)


def _view_keeps(policy: AttributePolicy, view: View) -> bool:
    match policy:
        case AttributePolicy.FOLLOW_TRANSCRIPT:
            return False
        case AttributePolicy.METADATA_SURVIVES_MASK:
            return True
        case AttributePolicy.OPERATOR_AUDIT_ONLY_AFTER_MASK:
            return view in INWARD
        case _:
            assert_never(policy)


OmissionReason = TranscriptRedactionReason


@dataclass(frozen=True, slots=True)
class TranscriptCut:
    """A slice, and what the budget cut from it."""

    slice: RedactedTranscriptSlice
    clipped: tuple[ReportClip, ...] = ()


def cut_transcript(
    space: str,
    key: ConversationKey,
    turns: Sequence[tuple[TurnId, Turn]],
    attributes: Mapping[TurnId, Sequence[TurnAttribute]],
    /,
    *,
    view: TranscriptReplayView,
    budget: TranscriptGovernanceBudget,
) -> TranscriptCut:
    """Return `turns` as `view` may see them. Every omitted text is counted, and named within the budget."""
    cutter = _TranscriptCutter(view, budget)
    visible_turns = tuple(cutter.turn(turn_id, turn, attributes.get(turn_id, ())) for turn_id, turn in turns)
    items = cutter.items[: budget.redaction_items]
    if len(items) < len(cutter.items):
        cutter.clip("redactions", budget.redaction_items, len(cutter.items) - len(items))
    audit = TranscriptReplayAudit(
        view=view,
        source_turns=len(turns),
        returned_turns=len(visible_turns),
        redacted_messages=sum(1 for item in cutter.items if item.message_id is not None and item.attr_key is None),
        redacted_host_refs=sum(
            1
            for item in cutter.items
            if item.host_ref_index is not None and item.reason is not OmissionReason.HOST_REF_LABEL
        ),
        redacted_attributes=sum(1 for item in cutter.items if item.attr_key is not None),
        redacted_tool_observations=sum(1 for item in cutter.items if item.observation_index is not None),
        redaction_reasons=tuple(
            reason for reason in OmissionReason if any(item.reason is reason for item in cutter.items)
        ),
    )
    return TranscriptCut(
        RedactedTranscriptSlice(
            space=space,
            channel=key.channel,
            conversation=key.conversation,
            view=view,
            turns=visible_turns,
            redactions=tuple(items),
            audit=audit,
        ),
        tuple(cutter.clips.values()),
    )


def cut_refs(
    turn_id: TurnId, turn: Turn, /, *, view: TranscriptReplayView, budget: TranscriptGovernanceBudget
) -> tuple[tuple[HostOpaqueRef, ...], tuple[TranscriptRedactionReportItem, ...]]:
    """Return a turn's host references as `view` may see them, and what was omitted."""
    cutter = _TranscriptCutter(view, budget)
    return cutter.refs(turn_id, turn), tuple(cutter.items)


@dataclass(slots=True)
class _TranscriptCutter:
    """A redaction in progress: what has been omitted so far."""

    view: TranscriptReplayView
    budget: TranscriptGovernanceBudget
    items: list[TranscriptRedactionReportItem] = field(default_factory=list[TranscriptRedactionReportItem])
    clips: dict[str, ReportClip] = field(default_factory=dict[str, ReportClip])

    def turn(self, turn_id: TurnId, turn: Turn, attributes: Sequence[TurnAttribute]) -> RedactedTranscriptTurn:
        is_inward = self.view in INWARD
        actor = turn.actor or ActorAttribution()
        visible_attributes = self._attributes(turn_id, turn, attributes)
        is_cut = turn.redaction is not TextRedaction.RAW_AVAILABLE
        return RedactedTranscriptTurn(
            id=turn_id,
            sequence=turn.sequence,
            recorded_at=turn.recorded_at,
            delivery=turn.delivery,
            lifecycle=turn.lifecycle,
            redaction=turn.redaction,
            host_turn_id=turn.host_id if is_inward or self.view is TranscriptReplayView.HOST_UI else None,
            actor=actor if is_inward else actor.outward,
            source=turn.source if is_inward else None,
            external_content_used=turn.external_content_used,
            messages=tuple(
                self._message(turn_id, turn, part, actor, visible_attributes) for part in range(len(turn.messages))
            ),
            tool_observations=self._observations(turn_id, turn),
            host_refs=self.refs(turn_id, turn),
            items=turn.items if self.view is TranscriptReplayView.RAW_OWNER_ONLY and not is_cut else (),
            attributes=tuple(_plain_attribute(item) for item in visible_attributes if item.part is None),
            candidate_ids=turn.candidate_ids if is_inward else (),
            tags=turn.tags if is_inward else (),
            metadata=turn.metadata if self._sees_metadata(turn) else {},
        )

    def refs(self, turn_id: TurnId, turn: Turn) -> tuple[HostOpaqueRef, ...]:
        """Return the references that the view sees; labels only for the host itself."""
        visible_refs: list[HostOpaqueRef] = []
        is_cut = turn.redaction is not TextRedaction.RAW_AVAILABLE
        for index, ref in enumerate(turn.host_refs):
            reason = ref_redaction(ref, self.view)
            if reason is None and len(visible_refs) >= self.budget.host_refs_per_turn:
                reason = OmissionReason.PROFILE_BUDGET
                self.clip("host_refs", self.budget.host_refs_per_turn, 1)
            if reason is not None:
                self._leave(turn_id, reason, host_ref_index=index)
                continue
            if ref.label is not None and (self.view not in LABELLED or is_cut):
                self._leave(turn_id, OmissionReason.HOST_REF_LABEL, host_ref_index=index)
                ref = ref.model_copy(update={"label": None})  # noqa: PLW2901 - the reference as this view has it
            visible_refs.append(ref)
        return tuple(visible_refs)

    def clip(self, what: str, limit: int, dropped: int) -> None:
        """Record that the budget cut something."""
        earlier_clip = self.clips.get(what)
        dropped_before = earlier_clip.dropped if earlier_clip is not None else 0
        self.clips[what] = ReportClip(
            what=what, reason=ClipReason.PROFILE, limit=limit, dropped=dropped_before + dropped
        )

    def _sees_metadata(self, turn: Turn) -> bool:
        return self.view is TranscriptReplayView.RAW_OWNER_ONLY and turn.redaction is TextRedaction.RAW_AVAILABLE

    def _message(
        self, turn_id: TurnId, turn: Turn, part: int, actor: ActorAttribution, attributes: Sequence[TurnAttribute]
    ) -> RedactedTranscriptMessage:
        message = turn.messages[part]
        memory_id = message_id(turn_id, part)
        reason = message_redaction(turn, part, self.view)
        if reason is not None:
            self._leave(turn_id, reason, message=memory_id, authority=message.stands_on)
        speaker_attribution = actor.speaking(message.speaker)
        return RedactedTranscriptMessage(
            id=memory_id,
            role=message.role,
            authority=message.stands_on,
            redacted=reason is not None,
            text=message.text if reason is None else None,
            at=said_at(turn, message),
            actor=speaker_attribution if self.view in INWARD else speaker_attribution.outward,
            attributes=tuple(_plain_attribute(item) for item in attributes if item.part == part),
        )

    def _observations(self, turn_id: TurnId, turn: Turn) -> tuple[ToolObservation, ...]:
        if self.view in INWARD and turn.redaction is TextRedaction.RAW_AVAILABLE:
            return turn.tool_observations
        reason = OmissionReason.OPERATOR_ONLY
        if self.view in INWARD:
            reason = (
                OmissionReason.RAW_DELETED
                if turn.redaction is TextRedaction.RAW_DELETED
                else OmissionReason.LIFECYCLE_MASKED
            )
        for index in range(len(turn.tool_observations)):
            self._leave(turn_id, reason, observation=index)
        return ()

    def _attributes(self, turn_id: TurnId, turn: Turn, attributes: Sequence[TurnAttribute]) -> list[TurnAttribute]:
        visible_attributes: list[TurnAttribute] = []
        for item in attributes:
            # Visibility is decided before the budget, which only cuts what may be seen.
            reason = attribute_redaction(item, turn, self.view, value_bytes=self.budget.attribute_value_bytes)
            if reason is None and len(visible_attributes) >= self.budget.attributes_per_turn:
                reason = OmissionReason.PROFILE_BUDGET
                self.clip("attributes", self.budget.attributes_per_turn, 1)
            if reason is OmissionReason.ATTR_VALUE_BUDGET:
                self.clip("attribute_values", self.budget.attribute_value_bytes, 1)
            if reason is None:
                visible_attributes.append(item)
                continue
            memory_id = message_id(turn_id, item.part) if item.part is not None else None
            self._leave(turn_id, reason, message=memory_id, attr_key=item.key)
        return visible_attributes

    def _leave(
        self,
        turn_id: TurnId,
        reason: TranscriptRedactionReason,
        *,
        message: str | None = None,
        authority: EvidenceAuthority | None = None,
        host_ref_index: int | None = None,
        attr_key: str | None = None,
        observation: int | None = None,
    ) -> None:
        self.items.append(
            TranscriptRedactionReportItem(
                turn_id=turn_id,
                view=self.view,
                reason=reason,
                message_id=message,
                host_ref_index=host_ref_index,
                attr_key=attr_key,
                observation_index=observation,
                source_authority=authority,
            )
        )


def _plain_attribute(item: TurnAttribute) -> MessageAttribute:
    return MessageAttribute(**item.model_dump(include=set(MessageAttribute.model_fields)))


def apply_transition(turn: Turn, transition: Transition, /) -> Turn:
    """Return `turn` after `transition`; unchanged if there is nothing to do, or no text left to restore."""
    match transition:
        case Transition.REVIEW:
            return turn
        case Transition.ARCHIVE:
            return _with_lifecycle(turn, TurnLifecycle.ARCHIVED) if turn.lifecycle is TurnLifecycle.ACTIVE else turn
        case Transition.RESTORE:
            is_restorable = (
                turn.redaction is not TextRedaction.RAW_DELETED and turn.lifecycle is not TurnLifecycle.ACTIVE
            )
            return _with_lifecycle(turn, TurnLifecycle.ACTIVE, TextRedaction.RAW_AVAILABLE) if is_restorable else turn
        case Transition.MASK:
            has_text = turn.redaction is TextRedaction.RAW_AVAILABLE
            return _with_lifecycle(turn, TurnLifecycle.MASKED, TextRedaction.MASKED) if has_text else turn
        case Transition.DELETE_RAW:
            return turn if turn.redaction is TextRedaction.RAW_DELETED else _empty_turn(turn)
        case _:
            assert_never(transition)


def _with_lifecycle(turn: Turn, lifecycle: TurnLifecycle, redaction: TextRedaction | None = None) -> Turn:
    return turn.model_copy(update={"lifecycle": lifecycle, "redaction": redaction or turn.redaction})


def _empty_turn(turn: Turn) -> Turn:
    """Return the turn without words, actions or labels; speakers, times and references stay."""
    return _with_lifecycle(turn, TurnLifecycle.RAW_DELETED, TextRedaction.RAW_DELETED).model_copy(
        update={
            "messages": tuple(message.model_copy(update={"text": ""}) for message in turn.messages),
            "tool_observations": tuple(item.model_copy(update={"summary": ""}) for item in turn.tool_observations),
            "host_refs": tuple(ref.model_copy(update={"label": None}) for ref in turn.host_refs),
            "items": (),
            "metadata": {},
        }
    )
