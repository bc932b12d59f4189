"""Cutting a page of turns for one audience: what is shown, what was left out and why, and how many of each."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from elytron_core.contracts.conversation.transcript import (
    RedactedTranscriptMessage,
    RedactedTranscriptSlice,
    RedactedTranscriptTurn,
    TranscriptRedactionReason,
    TranscriptRedactionReportItem,
    TranscriptReplayAudit,
    TranscriptReplayView,
)
from elytron_core.contracts.scope_fields import Clip, ClipReason
from elytron_core.ids import TurnId
from elytron_core.planes.conversation.actors import ActorAttribution
from elytron_core.planes.conversation.attributes import Attribute, TurnAttribute
from elytron_core.planes.conversation.host_refs import HostOpaqueRef
from elytron_core.planes.conversation.transcript import Redaction, ToolObservation, Turn, message_id, said_at
from elytron_core.planes.evidence import EvidenceAuthority
from elytron_core.planes.knowledge.profiles import TranscriptGovernanceBudget
from elytron_core.policy.transcript.views import INWARD, LABELLED, attribute_redaction, message_redaction, ref_redaction
from elytron_core.scope import ConversationKey

Reason = TranscriptRedactionReason


@dataclass(frozen=True, slots=True)
class Cut:
    """A slice, and what the budget cut of it."""

    slice: RedactedTranscriptSlice
    clipped: tuple[Clip, ...] = ()


def cut(
    space: str,
    key: ConversationKey,
    turns: Sequence[tuple[TurnId, Turn]],
    attributes: Mapping[TurnId, Sequence[TurnAttribute]],
    /,
    *,
    view: TranscriptReplayView,
    budget: TranscriptGovernanceBudget,
) -> Cut:
    """Return `turns` as `view` may see them. Every text that is left out is counted, and named within the budget."""
    cutter = _Cutter(view, budget)
    shown = tuple(cutter.turn(turn_id, turn, attributes.get(turn_id, ())) for turn_id, turn in turns)
    items = cutter.items[: budget.redaction_items]
    if len(items) < len(cutter.items):
        cutter.clip("redactions", budget.redaction_items, len(cutter.items) - len(items))
    audit = TranscriptReplayAudit(
        view=view,
        source_turns=len(turns),
        returned_turns=len(shown),
        redacted_messages=sum(1 for item in cutter.items if _is_message(item)),
        redacted_host_refs=sum(
            1 for item in cutter.items if item.host_ref_index is not None and item.reason is not Reason.HOST_REF_LABEL
        ),
        redacted_attributes=sum(1 for item in cutter.items if item.attr_key is not None),
        redacted_tool_observations=sum(1 for item in cutter.items if item.observation_index is not None),
        redaction_reasons=tuple(reason for reason in Reason if any(item.reason is reason for item in cutter.items)),
    )
    return Cut(
        RedactedTranscriptSlice(
            space=space,
            channel=key.channel,
            conversation=key.conversation,
            view=view,
            turns=shown,
            redactions=tuple(items),
            audit=audit,
        ),
        tuple(cutter.clips.values()),
    )


def cut_refs(
    turn_id: TurnId, turn: Turn, /, *, view: TranscriptReplayView, budget: TranscriptGovernanceBudget
) -> tuple[tuple[HostOpaqueRef, ...], tuple[TranscriptRedactionReportItem, ...]]:
    """Return a turn's host references as `view` may see them, and what was left out of them."""
    cutter = _Cutter(view, budget)
    return cutter.refs(turn_id, turn), tuple(cutter.items)


def _is_message(item: TranscriptRedactionReportItem) -> bool:
    return item.message_id is not None and item.attr_key is None


@dataclass(slots=True)
class _Cutter:
    """One cut under way: what has been left out so far."""

    view: TranscriptReplayView
    budget: TranscriptGovernanceBudget
    items: list[TranscriptRedactionReportItem] = field(default_factory=list[TranscriptRedactionReportItem])
    clips: dict[str, Clip] = field(default_factory=dict[str, Clip])

    def turn(self, turn_id: TurnId, turn: Turn, attributes: Sequence[TurnAttribute]) -> RedactedTranscriptTurn:
        is_inward = self.view in INWARD
        actor = turn.actor or ActorAttribution()
        kept = self._attributes(turn_id, turn, attributes)
        is_cut = turn.redaction is not Redaction.RAW_AVAILABLE
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
            messages=tuple(self._message(turn_id, turn, part, actor, kept) for part in range(len(turn.messages))),
            tool_observations=self._observations(turn_id, turn),
            host_refs=self.refs(turn_id, turn),
            items=turn.items if self.view is TranscriptReplayView.RAW_OWNER_ONLY and not is_cut else (),
            attributes=tuple(_plain(item) for item in kept if item.part is None),
            candidate_ids=turn.candidate_ids if is_inward else (),
            tags=turn.tags if is_inward else (),
            metadata=turn.metadata if self._sees_metadata(turn) else {},
        )

    def refs(self, turn_id: TurnId, turn: Turn) -> tuple[HostOpaqueRef, ...]:
        """Return the references that the view sees; labels only where the host itself looks."""
        shown: list[HostOpaqueRef] = []
        is_cut = turn.redaction is not Redaction.RAW_AVAILABLE
        for index, ref in enumerate(turn.host_refs):
            reason = ref_redaction(ref, self.view)
            if reason is None and len(shown) >= self.budget.host_refs_per_turn:
                reason = Reason.PROFILE_BUDGET
                self.clip("host_refs", self.budget.host_refs_per_turn, 1)
            if reason is not None:
                self._leave(turn_id, reason, host_ref_index=index)
                continue
            if ref.label is not None and (self.view not in LABELLED or is_cut):
                self._leave(turn_id, Reason.HOST_REF_LABEL, host_ref_index=index)
                ref = ref.model_copy(update={"label": None})  # noqa: PLW2901 - the reference as this view has it
            shown.append(ref)
        return tuple(shown)

    def clip(self, what: str, limit: int, dropped: int) -> None:
        """Note that the budget cut something."""
        known = self.clips.get(what)
        already = known.dropped if known is not None else 0
        self.clips[what] = Clip(what=what, reason=ClipReason.PROFILE, limit=limit, dropped=already + dropped)

    def _sees_metadata(self, turn: Turn) -> bool:
        return self.view is TranscriptReplayView.RAW_OWNER_ONLY and turn.redaction is Redaction.RAW_AVAILABLE

    def _message(
        self, turn_id: TurnId, turn: Turn, part: int, actor: ActorAttribution, kept: Sequence[TurnAttribute]
    ) -> RedactedTranscriptMessage:
        message = turn.messages[part]
        place = message_id(turn_id, part)
        reason = message_redaction(turn, part, self.view)
        if reason is not None:
            self._leave(turn_id, reason, message=place, authority=message.stands_on)
        speaking = actor.speaking(message.speaker)
        return RedactedTranscriptMessage(
            id=place,
            role=message.role,
            authority=message.stands_on,
            redacted=reason is not None,
            text=message.text if reason is None else None,
            at=said_at(turn, message),
            actor=speaking if self.view in INWARD else speaking.outward,
            attributes=tuple(_plain(item) for item in kept if item.part == part),
        )

    def _observations(self, turn_id: TurnId, turn: Turn) -> tuple[ToolObservation, ...]:
        if self.view in INWARD and turn.redaction is Redaction.RAW_AVAILABLE:
            return turn.tool_observations
        reason = Reason.OPERATOR_ONLY
        if self.view in INWARD:
            reason = Reason.RAW_DELETED if turn.redaction is Redaction.RAW_DELETED else Reason.LIFECYCLE_MASKED
        for index in range(len(turn.tool_observations)):
            self._leave(turn_id, reason, observation=index)
        return ()

    def _attributes(self, turn_id: TurnId, turn: Turn, attributes: Sequence[TurnAttribute]) -> list[TurnAttribute]:
        shown: list[TurnAttribute] = []
        for item in attributes:
            reason = attribute_redaction(item, turn, self.view, value_bytes=self.budget.attribute_value_bytes)
            if reason is None and len(shown) >= self.budget.attributes_per_turn:
                reason = Reason.PROFILE_BUDGET
                self.clip("attributes", self.budget.attributes_per_turn, 1)
            if reason is Reason.ATTR_VALUE_BUDGET:
                self.clip("attribute_values", self.budget.attribute_value_bytes, 1)
            if reason is None:
                shown.append(item)
                continue
            place = message_id(turn_id, item.part) if item.part is not None else None
            self._leave(turn_id, reason, message=place, attr_key=item.key)
        return shown

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


def _plain(item: TurnAttribute) -> Attribute:
    return Attribute(**item.model_dump(include=set(Attribute.model_fields)))
