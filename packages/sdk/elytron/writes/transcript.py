"""Turns become evidence: numbered in their conversation, with each host id used once."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Protocol

from elytron.context import OperationContext
from elytron.documents.stored_values import ChangeSet, documents_at
from elytron.memories.chat_aliases import put_alias, read_alias
from elytron.state.conversation_heads import GrownHead
from elytron.writes.commit import Plan, PlannedWrite
from elytron.writes.imported_messages import (
    CHANGED,
    ImportedChanges,
    NamedTurn,
    ReplacedTurn,
    hide_earlier,
    read_changes,
    with_edit,
)
from elytron_core.clock import Instant
from elytron_core.contracts.recall import RecallPlane
from elytron_core.contracts.transcript import (
    TranscriptWrite,
    TurnDraft,
    WriteDecision,
    WriteOutcome,
)
from elytron_core.errors import Conflict, InvalidInput, TurnConflict
from elytron_core.ids import SpaceId, TurnId
from elytron_core.model import VouchedMaker
from elytron_core.planes import transcript
from elytron_core.planes.candidates import AdmissionVerdict
from elytron_core.planes.space import SpaceRecord
from elytron_core.planes.transcript import (
    TURN_ATTRIBUTES,
    TurnAttribute,
    attribute_key,
)
from elytron_core.policy.imported_messages import ended_parts
from elytron_core.ports.store import Document, DocumentRef, JournalAction
from elytron_core.scope import ConversationKey, Scope
from elytron_core.tags import tag_forms
from elytron_core.text import similarity

# Made by the hundred, from the drafts' own values.
_TURNS = VouchedMaker(
    transcript.Turn, "sequence", "channel", "conversation", "messages", "recorded_at", "host_id", "delivery", "origin",
    "agent", "app", "project", "tags", "metadata", "forgotten", "source", "actor", "tool_observations", "host_refs",
    "items", "external_content_used", "candidate_ids", "chat", "title",
)  # fmt: skip
NO_WORDS = "a turn without words creates no evidence"
_DELIVERY_FIELDS = (
    "tags",
    "metadata",
    "source",
    "actor",
    "tool_observations",
    "host_refs",
    "items",
    "external_content_used",
    "candidate_ids",
)
"""Fields that a turn gets from its delivery."""
_DECISIONS = VouchedMaker(WriteDecision, "plane", "id", "outcome", "verdict", "reason", "name")


class ChangedTurn(StrEnum):
    """Treatment of a turn whose host id is known with other content."""

    REFUSE = "refuse"
    KEEP_FIRST = "keep_first"
    REPLACE = "replace"
    """Another text replaces the stored one, which stays in history; other differences are ignored."""


@dataclass(frozen=True, slots=True)
class TurnRules:
    """Options of a write of turns. With `sequence`, its first new turn must get that one in its conversation."""

    changed: ChangedTurn = ChangedTurn.REFUSE
    sequence: int | None = None

    @property
    def replaces(self) -> bool:
        """True if a turn with another text replaces the stored one."""
        return self.changed is ChangedTurn.REPLACE


@dataclass(frozen=True, slots=True)
class _RetriedTurn:
    """A stored turn that was first undelivered, and its state after its delivery."""

    name: NamedTurn
    turn_id: TurnId
    turn: transcript.Turn
    revision: int
    attributes: frozenset[str]
    """The keys of its existing attributes."""


async def plan_turns(
    ctx: OperationContext, scope: Scope, write: TranscriptWrite, rules: TurnRules, record: SpaceRecord, /
) -> PlannedWrite:
    """Return the batch that appends the turns of `write` to their conversation.

    A known host id with the same content is a duplicate. With other content, it completes a turn that was not delivered
    at first, or is a TurnConflict, or is left out, as `rules` say.
    """
    key = scope.conversation_key
    tag = record.conversation_tag(key)
    name_refs = _host_names(record, key, write)
    known_names = await _known_names(ctx, scope, name_refs)
    turn_names = {host_id: one.value for host_id, one in known_names.items()}
    import_changes = await read_changes(ctx, scope, write, record, known_names) if rules.replaces else ImportedChanges()
    retried_turns = await _retried_turns(ctx, scope, record, write, known_names)
    chat_alias = await read_alias(ctx, scope, record)
    head, revision, head_line, requires = await ctx.heads.of(scope.space, tag, key)
    # No waiting from here on: what is planned on this head goes to the store before another writer plans.
    plan = _TurnPlan(
        scope, write, rules, record, tag, name_refs, turn_names, import_changes, retried_turns, head, ctx.clock.now()
    )
    decisions = tuple([plan.decide(draft) for draft in write.turns])
    head_ref, changes = DocumentRef(transcript.CONVERSATIONS, tag), plan.changes
    if not plan.stored:
        return PlannedWrite(_with_head(changes, head_ref, plan.head, revision), decisions, head_ref, requires)
    grown_head = transcript.append_turns(plan.head, plan.stored)
    changes.put(head_ref, grown_head, expects=revision, action=None)
    if chat_alias is not None:
        put_alias(changes, record, *chat_alias)
    return PlannedWrite(
        changes, decisions, head_ref, requires, GrownHead(tag, grown_head, revision + 1, head.next_sequence, head_line)
    )


@dataclass(slots=True)
class _TurnPlan:
    """The turns of a write, decided one after another, with the changes of each decision."""

    scope: Scope
    write: TranscriptWrite
    rules: TurnRules
    record: SpaceRecord
    tag: transcript.ConversationTag
    names: Mapping[str, DocumentRef]
    turn_names: dict[str, transcript.TurnName]
    """What is stored under host ids, including those of this write."""
    imported: ImportedChanges
    retried: Mapping[str, _RetriedTurn]
    head: transcript.Conversation
    now: Instant
    stored: list[transcript.Turn] = field(default_factory=list[transcript.Turn])
    changes: ChangeSet = field(init=False)

    def __post_init__(self) -> None:
        self.changes = ChangeSet(self.record)

    def decide(self, draft: TurnDraft, /) -> WriteDecision:
        """Return the decision on the next turn, which is then in `changes`. Raises TurnConflict, Conflict."""
        messages = transcript.evidence_of(draft.messages, draft.delivery)
        host_id = draft.host_id or ""
        if reason := _no_evidence(draft, messages) or self.imported.refused.get(host_id, ""):
            return _turn_decision(WriteOutcome.SKIPPED, None, draft, reason, AdmissionVerdict.REJECT)
        digest = self.record.digest(draft.to_bytes()) if draft.host_id is not None else ""
        replaced_turn = self.imported.replaced.pop(host_id, None)
        turn_name = self.turn_names.get(host_id) if replaced_turn is None else None
        if turn_name is None:
            return self._store(draft, messages, digest, replaced_turn)
        if (retried_turn := self.retried.get(host_id)) is None or turn_name.digest == digest:
            return _known_turn(turn_name, digest, draft, self.rules.changed)
        turn = _complete_turn(self.changes, self.record, draft, retried_turn, digest)
        self.head = transcript.note_turns(self.head, [turn])
        return _turn_decision(WriteOutcome.UPDATED, turn_name.turn, draft)

    def _store(
        self, draft: TurnDraft, messages: tuple[transcript.Message, ...], digest: str, earlier: ReplacedTurn | None
    ) -> WriteDecision:
        """Append a new turn, replacing `earlier` if given."""
        sequence = self.head.next_sequence + len(self.stored)
        if not self.stored and self.rules.sequence not in {None, sequence}:
            raise Conflict(what="the conversation's next turn", expected=self.rules.sequence or 0, found=sequence)
        turn_id = transcript.turn_id(self.tag, sequence)
        turn = self._drafted(draft, messages, sequence)
        changes = self.changes
        changes.put(
            DocumentRef(transcript.TURNS, turn_id), with_edit(turn, earlier), expects=0, action=JournalAction.WRITE
        )
        _put_attributes(changes, self.record, turn_id, turn, draft)
        if draft.host_id is not None:
            # Known from here on, so that the same id later in this write is a duplicate.
            name = self.turn_names[draft.host_id] = transcript.TurnName(turn=turn_id, digest=digest)
            revision = earlier.name_revision if earlier is not None else 0
            changes.put(self.names[draft.host_id], name, expects=revision, action=None)
            if earlier is not None:
                hide_earlier(changes, earlier, at=self.now)
        self.stored.append(turn)
        if earlier is None:
            return _turn_decision(WriteOutcome.STORED, turn_id, draft)
        return _turn_decision(WriteOutcome.UPDATED, turn_id, draft, CHANGED)

    def _drafted(self, draft: TurnDraft, messages: tuple[transcript.Message, ...], sequence: int) -> transcript.Turn:
        """Return a new turn; the first of a write has the chat and the title that its conversation lacks."""
        scope, write, head, is_first = self.scope, self.write, self.head, not self.stored
        channel, conversation = scope.conversation_key
        return _TURNS.make(
            sequence=sequence,
            channel=channel,
            conversation=conversation,
            messages=messages,
            recorded_at=self.now,
            host_id=draft.host_id,
            delivery=draft.delivery,
            origin=write.origin,
            agent=scope.agent,
            app=scope.app,
            project=scope.project,
            tags=tag_forms(draft.tags),
            metadata=dict(draft.metadata),
            forgotten=ended_parts(draft.metadata, write.origin, messages, now=self.now),
            source=draft.source,
            actor=draft.actor,
            tool_observations=draft.tool_observations,
            host_refs=draft.host_refs,
            items=draft.items,
            external_content_used=draft.external_content_used,
            candidate_ids=draft.candidate_ids,
            chat=scope.chat if is_first and scope.chat != head.chat else None,
            title=write.title if is_first and write.title != head.title else None,
        )


class TurnCompanion(Protocol):
    """Part of a batch that commits a turn."""

    def refs(self, record: SpaceRecord, /) -> Sequence[DocumentRef]:
        """Return the refs of the documents on which its changes build."""
        ...

    def changes(
        self,
        record: SpaceRecord,
        stored_documents: Mapping[DocumentRef, Document],
        turn_id: TurnId | None,
        turn: transcript.Turn | None,
        /,
    ) -> ChangeSet:
        """Return the further changes, given what is stored at those refs.

        `turn` is None unless it is new; without an id, there is no evidence.
        """
        ...


async def plan_beside(
    ctx: OperationContext, space: SpaceId, plan: Plan, companions: Sequence[TurnCompanion], record: SpaceRecord, /
) -> PlannedWrite:
    """Return the planned write of one turn, with what `companions` commit with it."""
    refs = [ref for companion in companions for ref in companion.refs(record)]
    companion_documents = await documents_at(ctx.store, space, refs)
    planned_write = await plan(record)
    # No waiting from here on: the turn is planned on a head that others build on.
    (decision,) = planned_write.decisions
    turn_id = TurnId(decision.id) if decision.id is not None else None
    is_new = turn_id is not None and decision.outcome is WriteOutcome.STORED
    turn = (
        planned_write.changes.folded[DocumentRef(transcript.TURNS, turn_id)] if turn_id is not None and is_new else None
    )
    assert turn is None or isinstance(turn, transcript.Turn)
    companion_changes = ChangeSet(record)
    for companion in companions:
        companion_changes.join(companion.changes(record, companion_documents, turn_id, turn))
    return replace(planned_write, beside=companion_changes)


def _host_names(record: SpaceRecord, key: ConversationKey, write: TranscriptWrite) -> dict[str, DocumentRef]:
    """Return the refs of a write's host ids."""
    return {
        turn.host_id: DocumentRef(transcript.TURN_NAMES, record.turn_name_tag(key, turn.host_id))
        for turn in write.turns
        if turn.host_id is not None
    }


def _with_head(changes: ChangeSet, about: DocumentRef, head: transcript.Conversation, revision: int) -> ChangeSet:
    """Return the batch of completed turns, with their changes to their conversation's head."""
    if changes:
        changes.put(about, head, expects=revision, action=None)
    return changes


def _complete_turn(
    changes: ChangeSet, record: SpaceRecord, draft: TurnDraft, retry: _RetriedTurn, digest: str
) -> transcript.Turn:
    """Add the delivery of a stored turn to the batch, with its new fields, and return the turn."""
    draft_fields = {name: getattr(draft, name) for name in _DELIVERY_FIELDS} | {"tags": tag_forms(draft.tags)}
    turn = retry.turn.model_copy(update=draft_fields)
    changes.put(DocumentRef(transcript.TURNS, retry.turn_id), turn, expects=retry.revision, action=JournalAction.MERGE)
    _put_attributes(changes, record, retry.turn_id, turn, draft, stored_keys=retry.attributes)
    new_name = transcript.TurnName(turn=retry.turn_id, digest=digest)
    changes.put(retry.name.document.ref, new_name, expects=retry.name.document.revision, action=None)
    return turn


def _no_evidence(draft: TurnDraft, messages: tuple[transcript.Message, ...]) -> str:
    """Return why a turn that would keep `messages` is no evidence; empty if it is."""
    if not messages:
        return f"delivery {draft.delivery.value} creates no evidence"
    if not all(similarity.is_blank(message.text) for message in messages):
        return ""
    # A host may report what was done in a turn without words.
    further_evidence = (
        draft.tool_observations or draft.host_refs or draft.items or draft.candidate_ids or draft.attributes
    )
    return "" if further_evidence else NO_WORDS


def _put_attributes(
    changes: ChangeSet,
    record: SpaceRecord,
    turn_id: TurnId,
    turn: transcript.Turn,
    draft: TurnDraft,
    *,
    stored_keys: frozenset[str] = frozenset(),
) -> None:
    """Add the turn's attributes to the batch. Raises InvalidInput for one that is not the turn's."""
    keys: set[str] = set()
    for attribute in draft.attributes:
        if attribute.part is not None and attribute.part >= len(turn.messages):
            raise InvalidInput(field="attributes", problem="name a message that is not in the turn")
        if attribute.value_bytes > attribute.max_value_bytes:
            raise InvalidInput(field="attributes", problem="have a value that exceeds their own size limit")
        key = attribute_key(turn_id, record.attribute_tag(attribute.key, attribute.part))
        if key in keys:
            raise InvalidInput(field="attributes", problem="have a duplicate key")
        keys.add(key)
        if key in stored_keys:
            continue
        stored_attribute = TurnAttribute(
            **attribute.model_dump(),
            turn=turn_id,
            channel=turn.channel,
            conversation=turn.conversation,
            written_at=turn.recorded_at,
        )
        changes.put(DocumentRef(TURN_ATTRIBUTES, key), stored_attribute, expects=0, action=None)


def _known_turn(name: transcript.TurnName, digest: str, draft: TurnDraft, changed: ChangedTurn) -> WriteDecision:
    """Return the decision on a turn whose host id exists. Raises TurnConflict as `changed` says."""
    if name.digest == digest or changed is ChangedTurn.REPLACE:
        return _turn_decision(WriteOutcome.DUPLICATE, name.turn, draft, "this turn is already stored")
    if changed is ChangedTurn.KEEP_FIRST:
        return _turn_decision(
            WriteOutcome.DUPLICATE, name.turn, draft, "a turn with this id is already stored, and was left unchanged"
        )
    raise TurnConflict(turn=draft.host_id or "")


async def _known_names(
    ctx: OperationContext, scope: Scope, name_refs: Mapping[str, DocumentRef]
) -> dict[str, NamedTurn]:
    """Return what is stored under the host ids of a write."""
    if not name_refs:
        return {}
    documents = await ctx.store.get(scope.space, tuple(name_refs.values()))
    return {
        host_id: NamedTurn(document, transcript.TurnName.from_bytes(document.body))
        for host_id, document in zip(name_refs, documents, strict=True)
        if document is not None
    }


async def _retried_turns(
    ctx: OperationContext,
    scope: Scope,
    record: SpaceRecord,
    write: TranscriptWrite,
    stored_names: Mapping[str, NamedTurn],
) -> dict[str, _RetriedTurn]:
    """Return the stored turns that a delivered turn of the write completes."""
    drafts = {
        draft.host_id: draft
        for draft in write.turns
        if draft.host_id is not None
        and draft.host_id in stored_names
        and draft.delivery is transcript.TurnDelivery.DELIVERED
    }
    documents = (
        await ctx.store.get(
            scope.space, [DocumentRef(transcript.TURNS, stored_names[name].value.turn) for name in drafts]
        )
        if drafts
        else ()
    )
    retried_turns: dict[str, _RetriedTurn] = {}
    for (host_id, draft), document in zip(drafts.items(), documents, strict=True):
        stored_turn = transcript.Turn.from_bytes(document.body) if document is not None else None
        turn = transcript.delivered_after(stored_turn, draft.messages) if stored_turn is not None else None
        if document is None or turn is None:
            continue
        turn_id = TurnId(document.ref.key)
        keys = [attribute_key(turn_id, record.attribute_tag(one.key, one.part)) for one in draft.attributes]
        attribute_documents = (
            await ctx.store.get(scope.space, [DocumentRef(TURN_ATTRIBUTES, key) for key in keys]) if keys else ()
        )
        attributes = frozenset(one.ref.key for one in attribute_documents if one is not None)
        retried_turns[host_id] = _RetriedTurn(stored_names[host_id], turn_id, turn, document.revision, attributes)
    return retried_turns


def _turn_decision(
    outcome: WriteOutcome,
    turn: TurnId | None,
    draft: TurnDraft,
    reason: str = "",
    verdict: AdmissionVerdict = AdmissionVerdict.ACCEPT,
) -> WriteDecision:
    plane = RecallPlane.TRANSCRIPT.value
    return _DECISIONS.make(plane=plane, id=turn, outcome=outcome, verdict=verdict, reason=reason, name=draft.host_id)
