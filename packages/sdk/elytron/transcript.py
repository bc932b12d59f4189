"""Reads of a transcript: pages, cited evidence, recent messages, and the check of its links."""

import re
from collections.abc import Iterable, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from typing import Final, TypeVar

from elytron.context import OperationContext
from elytron.documents.hits import CursorForm
from elytron.documents.stored_values import SoundDocuments, sound_documents, values_at
from elytron.memories.chat_aliases import meant_conversation
from elytron.memories.links import target_of
from elytron_core import limits
from elytron_core.contracts.continuity import CapsuleDraft, CapsulesWrite, NotesWrite
from elytron_core.contracts.facts import FactDraft
from elytron_core.contracts.recall import RecallPlane
from elytron_core.contracts.transcript import (
    LongTermExtraction,
    MemoryTranscriptExportRequest,
    MemoryTranscriptRepairReport,
    MemoryTranscriptReplayReport,
    MemoryTranscriptReplayRequest,
    MemoryWrite,
    ProcedureSource,
    TranscriptReplayView,
    WriteDecision,
    WriteOutcome,
)
from elytron_core.errors import SealBroken, StoreCorrupt
from elytron_core.evidence import EvidenceRole
from elytron_core.ids import ConversationTag, SpaceId, TurnId
from elytron_core.model import Value
from elytron_core.planes import facts, transcript
from elytron_core.planes.candidates import AdmissionVerdict
from elytron_core.planes.space import SpaceRecord
from elytron_core.planes.transcript import (
    DERIVED_REFS,
    TURN_ATTRIBUTES,
    TURNS,
    TurnAttribute,
    cited_turn,
    cites_transcript,
)
from elytron_core.policy.admission import candidates, rules
from elytron_core.policy.integrity import ConversationLinks
from elytron_core.policy.transcript import cut_transcript
from elytron_core.ports import store
from elytron_core.ports.store import DocumentRef
from elytron_core.scope import ClipReason, ConversationKey, ReportClip, Scope

ReportT = TypeVar("ReportT", bound=MemoryTranscriptReplayReport)
_CURSOR = CursorForm(re.compile(r"([0-9]{1,15}):(.+)", re.DOTALL), "a report of this conversation")


async def read_page(
    ctx: OperationContext,
    request: MemoryTranscriptReplayRequest | MemoryTranscriptExportRequest,
    view: TranscriptReplayView,
    report: type[ReportT],
    /,
) -> ReportT:
    """Return the page after the cursor; nothing if the scope's chat cannot be trusted. Raises InvalidInput."""
    scope, limit, cursor = ctx.scope_of(request), request.limit, request.cursor
    conversation = await meant_conversation(ctx, scope)
    record = await ctx.spaces.find(scope.space)
    transcript_budget = ctx.profile.budget.transcript
    if record is None or not conversation.is_trusted:
        if cursor is not None:
            raise _CURSOR.refusal()
        return report(
            slice=cut_transcript(scope.space, conversation.key, (), {}, view=view, budget=transcript_budget).slice,
            alias=conversation.trust,
        )
    tag = record.conversation_tag(conversation.key)
    start_after = await _cursor_turn(ctx, scope.space, tag, cursor)
    page_size = min(limit, transcript_budget.page_turns)
    documents = await ctx.store.scan(
        scope.space, transcript.TURNS, prefix=f"{tag}.", after=start_after, limit=page_size + 1
    )
    turns = [
        (TurnId(document.ref.key), transcript.Turn.from_bytes(document.body)) for document in documents[:page_size]
    ]
    attributes = await _page_attributes(ctx, scope.space, tag, turns)
    page = cut_transcript(scope.space, conversation.key, turns, attributes, view=view, budget=transcript_budget)
    has_more = len(documents) > page_size
    clips = list(page.clipped)
    if has_more and page_size < limit:
        further_turns = store.scan_documents(
            ctx.store, scope.space, transcript.TURNS, prefix=f"{tag}.", after=documents[page_size - 1].ref.key
        )
        dropped_count = 0
        async for _ in further_turns:
            dropped_count += 1
            if dropped_count == limit - page_size:
                break
        clips.append(ReportClip(what="turns", reason=ClipReason.PROFILE, limit=page_size, dropped=dropped_count))
    return report(
        slice=page.slice,
        alias=conversation.trust,
        next_cursor=cursor_of(turns[-1][0]) if has_more else None,
        has_more=has_more,
        profile_budget_applied=bool(clips),
        clipped=tuple(clips),
    )


def cursor_of(turn: TurnId, /) -> str:
    """Return the cursor that continues after a turn."""
    return f"{transcript.sequence_of(turn)}:{turn}"


async def _cursor_turn(ctx: OperationContext, space: SpaceId, tag: ConversationTag, cursor: str | None) -> TurnId:
    """Return the turn after which a page begins. Raises InvalidInput if it is not one of this conversation."""
    if cursor is None:
        return TurnId("")
    sequence, key = _CURSOR.parts(cursor)
    turn = transcript.turn_id(tag, int(sequence))
    if turn != key or (await ctx.store.get(space, (DocumentRef(transcript.TURNS, turn),)))[0] is None:
        raise _CURSOR.refusal()
    return turn


async def _page_attributes(
    ctx: OperationContext, space: SpaceId, tag: ConversationTag, turns: list[tuple[TurnId, transcript.Turn]]
) -> dict[TurnId, list[TurnAttribute]]:
    """Return the attributes of a page's turns."""
    attributes: dict[TurnId, list[TurnAttribute]] = {}
    if not turns:
        return attributes
    # After the first turn's id come its attributes, then those of the turns after it.
    first_id, last_id = str(turns[0][0]), turns[-1][0]
    async for document in store.scan_documents(ctx.store, space, TURN_ATTRIBUTES, prefix=f"{tag}.", after=first_id):
        turn_id = TurnId(document.ref.key.rpartition(".")[0])
        if turn_id > last_id:
            return attributes
        attributes.setdefault(turn_id, []).append(TurnAttribute.from_bytes(document.body))
    return attributes


T = TypeVar("T")


@dataclass(slots=True)
class ReportClipper:
    """Cuts by the limits of one report so far."""

    clips: list[ReportClip] = field(default_factory=list[ReportClip])

    def limit(self, what: str, items: Sequence[T], items_max: int, /) -> tuple[T, ...]:
        """Return as many of `items` as the product's own limit allows."""
        return self._cut(what, items, items_max, ClipReason.LIMIT)

    def profile(self, what: str, items: Sequence[T], items_max: int, /) -> tuple[T, ...]:
        """Return as many of `items` as the profile's budget allows."""
        return self._cut(what, items, items_max, ClipReason.PROFILE)

    @property
    def is_by_profile(self) -> bool:
        return any(clip.reason is ClipReason.PROFILE for clip in self.clips)

    def _cut(self, what: str, items: Sequence[T], items_max: int, reason: ClipReason) -> tuple[T, ...]:
        if len(items) > items_max:
            self.clips.append(ReportClip(what=what, reason=reason, limit=items_max, dropped=len(items) - items_max))
        return tuple(items[:items_max])


NOT_THERE: Final = "it cites a message that does not exist"
_PLACES: Final = {
    "long_term": ("facts", RecallPlane.LONG_TERM),
    "procedural": ("writes", RecallPlane.PROCEDURAL),
    "notes": ("notes", RecallPlane.ARCHIVE),
    "capsules": ("capsules", RecallPlane.CONTINUITY),
}
"""By the kind of a write, the field of its items and their plane."""
_MACHINES: Final = rules.VOUCHED - {facts.FactAuthority.USER_ASSERTED}
Citing = LongTermExtraction | ProcedureSource | NotesWrite | CapsulesWrite
"""Writes whose items cite messages. Candidates are judged by what they cite."""
CitingT = TypeVar("CitingT", bound=Citing)


async def cited_messages(
    ctx: OperationContext, space: SpaceId, citations: Iterable[str], /
) -> dict[str, candidates.CitedSource | None]:
    """Return the message at each citation in the form of one of our messages, None if there is none."""
    transcript_citations = [name for name in citations if cites_transcript(name)]
    cited_places = {name: cited_place for name in transcript_citations if (cited_place := cited_turn(name)) is not None}
    refs = [DocumentRef(transcript.TURNS, turn) for turn, _ in cited_places.values()]
    turns = await values_at(ctx.store, space, refs, transcript.Turn)
    return dict.fromkeys(transcript_citations) | {
        name: _cited_part(turns.get(DocumentRef(transcript.TURNS, turn_id)), part or 0)
        for name, (turn_id, part) in cited_places.items()
    }


def _cited_part(turn: transcript.Turn | None, part: int) -> candidates.CitedSource | None:
    if turn is None or part >= len(turn.messages) or part in turn.erased:
        return None
    return candidates.CitedSource(turn.messages[part].role, turn.is_kept(part), turn.trust_of(part))


async def without_unfounded(
    ctx: OperationContext, space: SpaceId, write: MemoryWrite, /
) -> tuple[MemoryWrite | None, dict[int, WriteDecision]]:
    """Return `write` without the items that their citations do not support (None if none is left), and the reasons by
    position."""
    if not isinstance(write, Citing):
        return write, {}
    field, plane = _PLACES[write.kind]
    items: Sequence[Value] = getattr(write, field)
    cited_sources = await cited_messages(ctx, space, (name for item in items for name in _item_citations(item)))
    refused_decisions = {
        position: WriteDecision(
            plane=plane, outcome=WriteOutcome.REJECTED, verdict=AdmissionVerdict.REJECT, reason=reason
        )
        for position, item in enumerate(items)
        if (reason := _citation_flaw(item, cited_sources))
    }
    if not refused_decisions:
        return write, {}
    remaining_items = tuple(item for position, item in enumerate(items) if position not in refused_decisions)
    return write.model_copy(update={field: remaining_items}) if remaining_items else None, refused_decisions


async def with_founded_citations(ctx: OperationContext, space: SpaceId, write: CitingT, /) -> CitingT:
    """Return `write` without citations of messages that are not in this space, for imports from elsewhere."""
    field, _ = _PLACES[write.kind]
    items: Sequence[Value] = getattr(write, field)
    cited_sources = await cited_messages(ctx, space, (name for item in items for name in _item_citations(item)))
    missing_names = {name for name, message in cited_sources.items() if message is None}
    return (
        write.model_copy(update={field: tuple(_item_without(item, missing_names) for item in items)})
        if missing_names
        else write
    )


def _item_without(item: Value, missing_names: AbstractSet[str]) -> Value:
    name = "provenance" if isinstance(item, CapsuleDraft) else "citations"
    return item.model_copy(update={name: tuple(one for one in _item_citations(item) if one not in missing_names)})


def _item_citations(item: Value) -> tuple[str, ...]:
    return item.provenance if isinstance(item, CapsuleDraft) else getattr(item, "citations", ())


def _citation_flaw(item: Value, sources_by_name: dict[str, candidates.CitedSource | None]) -> str:
    """Return what is wrong with an item's citations; empty if nothing is."""
    cited_sources = [sources_by_name[name] for name in _item_citations(item) if name in sources_by_name]
    if None in cited_sources:
        return NOT_THERE
    if not isinstance(item, FactDraft) or item.authority in _MACHINES or len(cited_sources) < len(item.citations):
        return ""
    readable_sources = [one for one in cited_sources if one is not None and one.is_readable]
    is_self_claim = bool(readable_sources) and all(one.role is EvidenceRole.ASSISTANT for one in readable_sources)
    return rules.SELF_CLAIM if is_self_claim else ""


async def inspect_links(ctx: OperationContext, scope: Scope, /) -> MemoryTranscriptRepairReport:
    """Return the broken links of the scope's conversation. A chat that cannot be trusted is reported alone."""
    conversation = await meant_conversation(ctx, scope)
    record = await ctx.spaces.find(scope.space)
    report = MemoryTranscriptRepairReport(
        space=scope.space,
        channel=conversation.key.channel,
        conversation=conversation.key.conversation,
        alias=conversation.trust,
        fail_closed=not conversation.is_trusted,
    )
    if record is None or not conversation.is_trusted:
        return report
    prefix = f"{record.conversation_tag(conversation.key)}."
    links = ConversationLinks(scope.space, conversation.key)
    turns = await _read_records(ctx, scope.space, TURNS, prefix, links)
    for document in turns.documents:
        links.turn(document.ref.key, document.body)
    derived_documents = await _read_records(ctx, scope.space, DERIVED_REFS, prefix, links)
    for document in derived_documents.documents:
        links.derived_ref(document.ref.key, document.body)
    links.targets(await _standing_links(ctx, scope.space, record, links))
    attribute_documents = await _read_records(ctx, scope.space, TURN_ATTRIBUTES, prefix, links)
    for document in attribute_documents.documents:
        links.attribute(document.ref.key, document.body)
    clipper = ReportClipper()
    issues = clipper.profile("issues", links.issues, ctx.profile.budget.transcript.repair_issues)
    return report.model_copy(
        update={
            "checked_turns": len(turns.documents) + len(turns.damaged),
            "checked_derived_refs": len(derived_documents.documents) + len(derived_documents.damaged),
            "checked_attributes": len(attribute_documents.documents) + len(attribute_documents.damaged),
            "issues": issues,
            "profile_budget_applied": clipper.is_by_profile,
            "clipped": tuple(clipper.clips),
            "fail_closed": bool(links.issues),
        }
    )


async def _read_records(
    ctx: OperationContext, space: SpaceId, collection: str, prefix: str, links: ConversationLinks
) -> SoundDocuments:
    """Return the keys of the links whose memory exists, or is in a plane without documents of that key."""
    scan_result = await sound_documents(ctx.store, space, collection, prefix)
    for key in scan_result.damaged:
        links.damaged(collection, key)
    return scan_result


async def _standing_links(
    ctx: OperationContext, space: SpaceId, record: SpaceRecord, links: ConversationLinks
) -> set[str]:
    """-"""
    targets = {key: target_of(record, ref) for key, ref in links.derived.items()}
    targetless_keys = {key for key, target in targets.items() if target is None}
    unique_targets = list(dict.fromkeys(target for target in targets.values() if target is not None))
    existing_targets: set[tuple[str, str]] = set()
    for start in range(0, len(unique_targets), limits.SCAN_MAX):
        existing_targets |= await _existing_refs(ctx, space, unique_targets[start : start + limits.SCAN_MAX])
    return targetless_keys | {key for key, target in targets.items() if target in existing_targets}


async def _existing_refs(ctx: OperationContext, space: SpaceId, refs: list[DocumentRef]) -> set[tuple[str, str]]:
    """Return which of `refs` contain a document; a damaged one counts."""
    try:
        return {document.ref for document in await ctx.store.get(space, refs) if document is not None}
    except (StoreCorrupt, SealBroken):
        if len(refs) == 1:
            return set(refs)
    # Halved until the damaged document is alone, so that the others are found.
    middle = len(refs) // 2
    return await _existing_refs(ctx, space, refs[:middle]) | await _existing_refs(ctx, space, refs[middle:])


RECENT_TURNS: Final = 4
CHARS: Final = 400
"""Number of characters read at the end of each message."""


async def recent_talk(ctx: OperationContext, scope: Scope, record: SpaceRecord, key: ConversationKey, /) -> str:
    """Return the recallable texts of a conversation's last turns, latest first."""
    prefix = f"{record.conversation_tag(key)}."
    documents = await ctx.store.scan(scope.space, transcript.TURNS, prefix=prefix, limit=RECENT_TURNS, descending=True)
    turns = [ctx.folds.readings.turn(scope.space, document).turn for document in documents]
    return " ".join(
        message.text[-CHARS:]
        for turn in turns
        for part, message in enumerate(turn.messages)
        if turn.is_recallable(part)
    )
