"""Imported turns: compared with stored ones, replaced if their text has changed, skipped if it was erased."""

import re
from collections import Counter
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from elytron.context import OperationContext
from elytron.documents.stored_values import ChangeSet, documents_at, values_at
from elytron.state.stored_messages import StoredMessages, align_keys, longest_run, message_key, read_messages
from elytron_core import limits
from elytron_core.clock import Instant
from elytron_core.contracts.transcript import (
    ComparedConversation,
    ImportComparison,
    MemoryWriteReport,
    TranscriptWrite,
    TurnDraft,
    WriteOutcome,
)
from elytron_core.ids import SpaceId, TurnId
from elytron_core.planes import transcript
from elytron_core.planes.space import ERASED_IMPORTS, ErasedImport, SpaceRecord
from elytron_core.planes.transcript import EDIT_OF, Message, Turn, TurnName, TurnOrigin
from elytron_core.policy.imported_messages import (
    ERASED,
    OWNERS_VERSION,
    REDATED,
    ended_parts,
    erased_names,
    minute_of,
    swapped_time,
)
from elytron_core.ports.store import Document, DocumentRef, JournalAction, scan_documents
from elytron_core.scope import ConversationKey, Scope

IMPORT_CANDIDATES: Final = 20


CHANGED: Final = "its text has changed: the new version is shown, and the earlier one stays in history"
STORED: Final = "this turn is already stored"
_COPY: Final = re.compile(r"[\s_-]*(\(\d{1,3}\)|\b\d{1,2}|copy)\s*$")
_ALWAYS_NAMED: Final = frozenset({"", "chat", "_chat", "conversations", "messages", "result"})
_WINDOW_MS: Final = 14 * 3600 * 1000
_SHARE = 0.3
_SWAPPED_SHARE = 0.1
"""Short answers are repeated by chance at the same minute of another day, but far less often."""
_RUN = 3


class NamedTurn(NamedTuple):
    """The turn stored under a host id."""

    document: Document
    value: TurnName


class ReplacedTurn(NamedTuple):
    """A stored turn that another one replaces, and the revision of the latter's host id, 0 if it is new."""

    document: Document
    turn: Turn
    name_revision: int


@dataclass(frozen=True, slots=True)
class ImportedChanges:
    """Analysis of an import's turns: those that are not stored and why, and those that replace another."""

    refused: Mapping[str, str] = field(default_factory=dict[str, str])
    replaced: dict[str, ReplacedTurn] = field(default_factory=dict[str, ReplacedTurn])


async def read_changes(
    ctx: OperationContext,
    scope: Scope,
    write: TranscriptWrite,
    record: SpaceRecord,
    known_names: Mapping[str, NamedTurn],
    /,
) -> ImportedChanges:
    """Return which turns of an import were erased or have changed; `known_names` has what their host ids name."""
    drafts = {draft.host_id: draft for draft in write.turns if draft.host_id is not None}
    new_drafts = (
        [] if write.restore_erased else [draft for host_id, draft in drafts.items() if host_id not in known_names]
    )
    refusal_reasons = dict.fromkeys(await _erased_ids(ctx, scope, record, new_drafts), ERASED)
    turn_refs = {
        host_id: DocumentRef(transcript.TURNS, turn_name.value.turn)
        for host_id, turn_name in known_names.items()
        if record.digest(drafts[host_id].to_bytes()) != turn_name.value.digest or _has_ended(ctx, drafts[host_id])
    }
    tag = record.conversation_tag(scope.conversation_key)
    edit_names = {host_id: str(draft.metadata.get(EDIT_OF)) for host_id, draft in drafts.items()}
    edited_refs = {
        host_id: DocumentRef(transcript.TURNS, earlier_id)
        for host_id, earlier_id in edit_names.items()
        if transcript.is_turn_of(earlier_id, tag)
    }
    turn_refs |= edited_refs
    stored_turns = await documents_at(ctx.store, scope.space, turn_refs.values())
    replaced_turns: dict[str, ReplacedTurn] = {}
    for host_id, ref in turn_refs.items():
        if (document := stored_turns.get(ref)) is None:
            continue
        turn = Turn.from_bytes(document.body)
        texts = [message.text for message in turn.messages]
        has_same_texts = host_id not in edited_refs and texts == [message.text for message in drafts[host_id].messages]
        if has_same_texts and not (_has_ended(ctx, drafts[host_id]) and turn.is_kept(0)):
            continue
        if host_id in edited_refs or all(turn.is_kept(part) for part in range(len(turn.messages))):
            revision = known_names[host_id].document.revision if host_id in known_names else 0
            replaced_turns[host_id] = ReplacedTurn(document, turn, revision)
        else:
            refusal_reasons[host_id] = OWNERS_VERSION
    return ImportedChanges(refusal_reasons, replaced_turns)


def _has_ended(ctx: OperationContext, draft: TurnDraft) -> bool:
    return bool(ended_parts(draft.metadata, TurnOrigin.IMPORTED, draft.messages, now=ctx.clock.now()))


async def _erased_ids(
    ctx: OperationContext, scope: Scope, record: SpaceRecord, drafts: Sequence[TurnDraft]
) -> list[str]:
    """Return the host ids of drafts that were erased."""
    if not drafts or not await ctx.store.scan(scope.space, ERASED_IMPORTS, limit=1):
        return []
    mark_refs: dict[str, DocumentRef] = {}
    for draft in drafts:
        name = erased_names(draft.messages[0], scope.conversation_key, draft.host_id)[-1]
        mark_refs[draft.host_id or ""] = DocumentRef(ERASED_IMPORTS, record.erased_tag(name))
    marks = await documents_at(ctx.store, scope.space, mark_refs.values())
    return [host_id for host_id, ref in mark_refs.items() if ref in marks]


def hide_earlier(changes: ChangeSet, replaced_turn: ReplacedTurn, /, *, at: Instant) -> None:
    """Add to a batch that a turn is hidden because another one replaces it."""
    hidden_parts = dict.fromkeys(range(len(replaced_turn.turn.messages)), at) | replaced_turn.turn.forgotten
    hidden_turn = replaced_turn.turn.model_copy(update={"forgotten": hidden_parts})
    changes.put(
        replaced_turn.document.ref, hidden_turn, expects=replaced_turn.document.revision, action=JournalAction.MERGE
    )


def with_edit(turn: Turn, replaced_turn: ReplacedTurn | None, /) -> Turn:
    """Return a turn with the message that it replaces, if any, hidden or archived as that one is."""
    if replaced_turn is None:
        return turn
    edited_id = transcript.message_id(TurnId(replaced_turn.document.ref.key), 0)
    inherited_fields = {name: getattr(replaced_turn.turn, name) for name in ("lifecycle", "redaction")}
    inherited_fields["forgotten"] = replaced_turn.turn.forgotten | turn.forgotten
    return turn.model_copy(update={"metadata": turn.metadata | {EDIT_OF: edited_id}, **inherited_fields})


def messages_of(turns: Iterable[Turn], /) -> Iterator[tuple[Turn, int]]:
    """Yield each message of `turns` as its turn and its index there."""
    for turn in turns:
        for part in range(len(turn.messages)):
            yield turn, part


async def erasure_marks(
    ctx: OperationContext, space: SpaceId, record: SpaceRecord, turns: Iterable[tuple[Turn, int]], /
) -> dict[DocumentRef, tuple[ErasedImport, int]]:
    """Return the marks, with their revisions, by which an import recognises messages that are about to be erased.

    Each turn comes with the number of one of its messages; what a host wrote leaves no mark.
    """
    counts: Counter[DocumentRef] = Counter()
    for turn, part in turns:
        if turn.origin is TurnOrigin.IMPORTED and turn.messages[part].text:
            key = ConversationKey(turn.channel, turn.conversation)
            host_id = turn.host_id if len(turn.messages) == 1 else None
            names = erased_names(turn.messages[part], key, host_id)
            counts.update(DocumentRef(ERASED_IMPORTS, record.erased_tag(name)) for name in names)
    mark_documents = await documents_at(ctx.store, space, counts)
    erased_imports: dict[DocumentRef, tuple[ErasedImport, int]] = {}
    for ref, count in counts.items():
        document = mark_documents.get(ref)
        count_before = ErasedImport.from_bytes(document.body).count if document is not None else 0
        erased_imports[ref] = ErasedImport(count=count_before + count), document.revision if document is not None else 0
    return erased_imports


async def compare_import(
    ctx: OperationContext, scope: Scope, write: TranscriptWrite, report: MemoryWriteReport, /
) -> MemoryWriteReport:
    """Return the report of a judged import, with turns that are stored under another id as duplicates."""
    comparison, record = write.comparison, await ctx.spaces.find(scope.space)
    assert comparison is not None
    if record is None:
        return report
    if comparison.is_sample:
        return report.model_copy(update={"compared": await _search_conversation(ctx, scope, write, record)})
    tag = record.conversation_tag(scope.conversation_key)
    (head,) = await ctx.store.get(scope.space, (DocumentRef(transcript.CONVERSATIONS, tag),))
    messages = StoredMessages()
    if head is not None:
        messages = await ctx.imported.read(ctx.store, scope.space, tag, head.revision)
    sequences = _stored_sequences(messages, write.turns, comparison)
    erased_positions = await _erased_places(ctx, scope, record, write, messages)
    found_outcomes: dict[int, tuple[WriteOutcome, str | None, str]] = {}
    found_outcomes |= dict.fromkeys(erased_positions, (WriteOutcome.SKIPPED, None, ERASED))
    for position, draft in enumerate(write.turns if comparison.is_swapped else ()):
        stored_sequence = _swapped_sequence(messages, draft.messages[0], _repeat_of(comparison, position))
        if stored_sequence is not None:
            found_outcomes[position] = WriteOutcome.UPDATED, transcript.turn_id(tag, stored_sequence), REDATED
    for position, (stored_sequence, _) in sequences.items():
        found_outcomes[position] = WriteOutcome.DUPLICATE, transcript.turn_id(tag, stored_sequence), STORED
    decisions = list(report.decisions)
    for position, (outcome, stored_id, reason) in found_outcomes.items():
        # The id of a message whose date was corrected may be known from before.
        planned_outcome = decisions[position].outcome
        if planned_outcome is WriteOutcome.STORED or (
            planned_outcome is WriteOutcome.DUPLICATE and outcome is WriteOutcome.UPDATED
        ):
            update = {"outcome": outcome, "id": stored_id, "reason": reason}
            decisions[position] = decisions[position].model_copy(update=update)
    turn_sequences = [transcript.sequence_of(TurnId(each.id)) for each in decisions if each.id is not None]
    offsets = [offset for _, offset in sequences.values() if offset is not None]
    latest_offset = offsets[-1] if offsets else comparison.offsets_ms[0]
    compared_conversation = ComparedConversation(
        channel=scope.channel,
        conversation=scope.conversation_key.conversation,
        messages=len(turn_sequences),
        offsets_ms=(latest_offset, *(offset for offset in comparison.offsets_ms if offset != latest_offset)),
        last=max(turn_sequences, default=comparison.after),
    )
    return report.model_copy(update={"decisions": tuple(decisions), "compared": compared_conversation})


def _repeat_of(comparison: ImportComparison, position: int) -> int:
    return comparison.repeats[position] if position < len(comparison.repeats) else 0


def _swapped_sequence(messages: StoredMessages, message: Message, repeat: int) -> int | None:
    """Return the sequence of the equal imported message whose time has day and month swapped."""
    swapped_at = swapped_time(message.at) if message.at is not None else None
    if swapped_at is None or swapped_at == message.at:
        return None
    stored_sequences = messages.at_minute(message_key(message), minute_of(swapped_at))
    dead_sequences = [sequence for sequence in stored_sequences if sequence not in messages.live]
    return dead_sequences[repeat] if repeat < len(dead_sequences) else None


def _stored_sequences(
    messages: StoredMessages, drafts: Sequence[TurnDraft], comparison: ImportComparison
) -> dict[int, tuple[int, int | None]]:
    """Return by position the sequence of each draft's equal, and the time difference that matched.

    The drafts have the first difference in their times already.
    """
    matches: dict[int, tuple[int, int | None]] = {}
    untimed_positions: list[int] = []
    first_offset, *_ = offsets = list(comparison.offsets_ms)
    for position, draft in enumerate(drafts):
        message = draft.messages[0]
        if message.at is None:
            untimed_positions.append(position)
            continue
        repeat_number = _repeat_of(comparison, position)
        for offset in offsets:
            equal_sequences = messages.at_minute(
                message_key(message), minute_of(Instant(message.at + offset - first_offset))
            )
            if repeat_number < len(equal_sequences):
                matches[position] = equal_sequences[repeat_number], offset
                # Neighbours have the same difference, in summer or in winter.
                offsets.sort(key=lambda each, usual=offset: each != usual)
                break
    keys = [message_key(drafts[position].messages[0]) for position in untimed_positions]
    stored_keys = [each for each in messages.untimed if each[1] > comparison.after]
    for position, sequence in zip(untimed_positions, align_keys(keys, stored_keys), strict=True):
        if sequence is not None:
            matches[position] = sequence, None
    return matches


async def _erased_places(
    ctx: OperationContext, scope: Scope, record: SpaceRecord, write: TranscriptWrite, messages: StoredMessages
) -> set[int]:
    """Return the positions of drafts that are not stored, and not more than were erased of them."""
    if write.restore_erased or not await ctx.store.scan(scope.space, ERASED_IMPORTS, limit=1):
        return set()
    key, comparison = scope.conversation_key, write.comparison or ImportComparison()
    erased_positions: set[int] = set()
    # It may have been erased before the order of its date was corrected.
    for drafts in (write.turns, _swapped_drafts(write.turns)):
        names = (erased_names(draft.messages[0], key, None)[0] for draft in drafts)
        refs = [DocumentRef(ERASED_IMPORTS, record.erased_tag(name)) for name in names]
        marks = await values_at(ctx.store, scope.space, refs, ErasedImport)
        for position, draft in enumerate(drafts):
            erasure_mark, message = marks.get(refs[position]), draft.messages[0]
            stored_count = (
                len(messages.at_minute(message_key(message), minute_of(message.at))) if message.at is not None else 0
            )
            if erasure_mark is not None and _repeat_of(comparison, position) < stored_count + erasure_mark.count:
                erased_positions.add(position)
    return erased_positions


async def _search_conversation(
    ctx: OperationContext, scope: Scope, write: TranscriptWrite, record: SpaceRecord
) -> ComparedConversation | None:
    """Return the conversation of the channel with most of the drafts, a sample of a file; None if none matches."""
    is_swapped = write.comparison is not None and write.comparison.is_swapped
    sample_messages = [draft.messages[0] for draft in (_swapped_drafts(write.turns) if is_swapped else write.turns)]
    best_match: ComparedConversation | None = None
    for head in await _candidate_heads(ctx, scope, write, sample_messages):
        messages = await read_messages(ctx.store, scope.space, record.conversation_tag(head.key))
        offsets = messages.offsets([draft.messages[0] for draft in write.turns])[: limits.IMPORT_OFFSETS]
        moved_drafts = [_moved_draft(each, lambda at: Instant(at + offsets[0])) for each in write.turns]  # noqa: B023
        sequences = _stored_sequences(messages, moved_drafts, ImportComparison(offsets_ms=offsets))
        match_count = len(sequences)
        if is_swapped:
            offsets, match_count = (0,), _swapped_count(head, messages, write.turns, sequences)
        elif head.key != scope.conversation_key:
            sample_matches = [sequences.get(position) for position in range(len(sample_messages))]
            match_count = match_count if _is_same(head, write, sample_messages, offsets[0], sample_matches) else 0
        is_own_conversation = head.key == scope.conversation_key and not is_swapped
        if (match_count or is_own_conversation) and (best_match is None or match_count > best_match.messages):
            best_match = ComparedConversation(
                channel=head.channel, conversation=head.conversation, title=head.title, messages=match_count,
                offsets_ms=offsets,
            )  # fmt: skip
    return best_match


def _swapped_count(
    head: transcript.Conversation, messages: StoredMessages, drafts: Sequence[TurnDraft], matches: Container[int]
) -> int:
    """Return how many drafts are stored with day and month swapped; 0 if that may be chance."""
    swapped_positions = [
        position for position, draft in enumerate(drafts) if _moved_draft(draft, swapped_time) is not draft
    ]
    unmatched_messages = [drafts[position].messages[0] for position in swapped_positions if position not in matches]
    # Frequent messages, perhaps daily at one time, say nothing about an order.
    rare_messages = [
        message for message in unmatched_messages if len(messages.timed.get(message_key(message), ())) == 1
    ]
    correct_count = sum(_swapped_sequence(messages, message, 0) is not None for message in rare_messages)
    return (
        correct_count
        if correct_count >= max(min(_RUN, len(swapped_positions), head.turns), _SWAPPED_SHARE * len(unmatched_messages))
        else 0
    )


def _moved_draft(draft: TurnDraft, move: Callable[[Instant], Instant]) -> TurnDraft:
    message = draft.messages[0]
    if message.at is None or (moved_at := move(message.at)) == message.at:
        return draft
    return draft.model_copy(update={"messages": (message.model_copy(update={"at": moved_at}),)})


def _swapped_drafts(drafts: Iterable[TurnDraft]) -> tuple[TurnDraft, ...]:
    return tuple(_moved_draft(draft, swapped_time) for draft in drafts)


async def _candidate_heads(
    ctx: OperationContext, scope: Scope, write: TranscriptWrite, sample: Sequence[Message]
) -> list[transcript.Conversation]:
    """Return the conversations that may match a sample, the likeliest first: by time, speakers and title."""
    message_times = [message.at for message in sample if message.at is not None]
    sample_speakers = {message.speaker for message in sample if message.speaker is not None}
    heads: list[tuple[bool, bool, int, transcript.Conversation]] = []
    async for document in scan_documents(ctx.store, scope.space, transcript.CONVERSATIONS):
        head = transcript.Conversation.from_bytes(document.body)
        is_own_conversation = head.key == scope.conversation_key
        if head.channel != scope.channel or head.first_at is None or head.last_at is None:
            continue
        if not is_own_conversation and (write.comparison is None or not write.comparison.anywhere):
            continue
        is_far_in_time = bool(message_times) and (
            min(message_times) > head.last_at + _WINDOW_MS or max(message_times) < head.first_at - _WINDOW_MS
        )
        shared_speakers = len(sample_speakers & {*head.speakers})
        if is_own_conversation or not (is_far_in_time or (sample_speakers and head.speakers and not shared_speakers)):
            heads.append(
                (not is_own_conversation, _title_stem(head.title) != _title_stem(write.title), -shared_speakers, head)
            )
    heads.sort(key=lambda each: each[:3])
    return [head for *_, head in heads[:IMPORT_CANDIDATES]]


def _title_stem(title: str | None) -> str:
    """Return a title without what a phone or browser appends to a second file's name."""
    stem = _COPY.sub("", (title or "").casefold())
    return "" if stem in _ALWAYS_NAMED else stem


def _is_same(
    head: transcript.Conversation,
    write: TranscriptWrite,
    sample: Sequence[Message],
    offset: int,
    matches: Sequence[tuple[int, int | None] | None],
) -> bool:
    """Return whether a stored conversation matches a sample, by their overlap in the same period."""
    match_count = sum(each is not None for each in matches)
    has_same_title = _title_stem(head.title) == _title_stem(write.title) != ""
    assert head.first_at is not None
    assert head.last_at is not None
    messages_within = [
        message
        for message in sample
        if message.at is not None
        and minute_of(head.first_at) <= minute_of(Instant(message.at + offset)) <= minute_of(head.last_at)
    ]
    if messages_within:
        return match_count >= (1 if has_same_title and not offset else 2) and match_count >= _SHARE * len(
            messages_within
        )
    run_length = longest_run(each[0] if each is not None else None for each in matches)
    is_complete = match_count == len(sample) == head.turns
    return match_count > 0 and (
        (is_complete and has_same_title) or (run_length >= _RUN and 2 * match_count >= min(len(sample), head.turns))
    )
