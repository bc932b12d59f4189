"""Imported turns: compared with what is stored, replaced where their text has changed, skipped where it was erased."""

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
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
from elytron_core.policy.imports import ERASED, OWNERS_VERSION, erased_names, minute_of
from elytron_core.ports.store import Document, DocumentRef, JournalAction, scan_documents
from elytron_core.scope import ConversationKey, Scope

CHANGED: Final = "its text has changed: the new version is shown, and the earlier one stays in history"
STORED: Final = "this turn is already stored"
_COPY: Final = re.compile(r"[\s_-]*(\(\d{1,3}\)|\b\d{1,2}|copy)\s*$")
_ALWAYS_NAMED: Final = frozenset({"", "chat", "_chat", "conversations", "messages", "result"})
_WINDOW_MS: Final = 14 * 3600 * 1000
_SHARE = 0.3
_RUN = 3


class NamedTurn(NamedTuple):
    """The turn stored under a host id."""

    document: Document
    value: TurnName


class ReplacedTurn(NamedTuple):
    """A stored turn, and where its host id stands, that a changed one replaces."""

    document: Document
    turn: Turn
    name: Document


@dataclass(frozen=True, slots=True)
class ImportedChanges:
    """What is known of the turns of an import: those that are not stored and why, and those that replace another."""

    refused: Mapping[str, str] = field(default_factory=dict[str, str])
    replaced: dict[str, ReplacedTurn] = field(default_factory=dict[str, ReplacedTurn])


async def read_changes(
    ctx: OperationContext, scope: Scope, write: TranscriptWrite, record: SpaceRecord, there: Mapping[str, NamedTurn], /
) -> ImportedChanges:
    """Return which turns of an import were erased or have changed; `there` has what is stored under their host ids."""
    names = {host_id: named.document for host_id, named in there.items()}
    drafts = {draft.host_id: draft for draft in write.turns if draft.host_id is not None}
    fresh = [] if write.restore_erased else [draft for host_id, draft in drafts.items() if host_id not in names]
    erased = await _erased_drafts(ctx, scope, record, fresh)
    refused = {draft.host_id: ERASED for draft in erased if draft.host_id is not None}
    changed = {
        host_id: document
        for host_id, document in names.items()
        if record.digest(drafts[host_id].to_bytes()) != TurnName.from_bytes(document.body).digest
    }
    places = {host_id: _turn_ref(document) for host_id, document in changed.items()}
    stored = await documents_at(ctx.store, scope.space, places.values())
    replaced: dict[str, ReplacedTurn] = {}
    for host_id, ref in places.items():
        document = stored.get(ref)
        turn = Turn.from_bytes(document.body) if document is not None else None
        if (
            document is None
            or turn is None
            or _message_texts(turn.messages) == _message_texts(drafts[host_id].messages)
        ):
            continue
        if all(turn.is_kept(part) for part in range(len(turn.messages))):
            replaced[host_id] = ReplacedTurn(document, turn, changed[host_id])
        else:
            refused[host_id] = OWNERS_VERSION
    return ImportedChanges(refused, replaced)


def _turn_ref(name: Document) -> DocumentRef:
    return DocumentRef(transcript.TURNS, TurnName.from_bytes(name.body).turn)


def _message_texts(messages: Iterable[Message]) -> list[str]:
    return [message.text for message in messages]


async def _erased_drafts(
    ctx: OperationContext, scope: Scope, record: SpaceRecord, drafts: Sequence[TurnDraft]
) -> list[TurnDraft]:
    if not drafts or not await ctx.store.scan(scope.space, ERASED_IMPORTS, limit=1):
        return []
    own = {draft.host_id: DocumentRef(ERASED_IMPORTS, record.erased_tag(_id_name(scope, draft))) for draft in drafts}
    there = await documents_at(ctx.store, scope.space, own.values())
    return [draft for draft in drafts if own[draft.host_id] in there]


def _id_name(scope: Scope, draft: TurnDraft) -> tuple[str, ...]:
    return erased_names(draft.messages[0], scope.conversation_key, draft.host_id)[-1]


def hide_earlier(changes: ChangeSet, stored: ReplacedTurn, /, *, at: Instant) -> None:
    """Add to a batch that a turn is hidden because another one replaces it."""
    hidden = dict.fromkeys(range(len(stored.turn.messages)), at)
    earlier = stored.turn.model_copy(update={"forgotten": hidden})
    changes.put(stored.document.ref, earlier, expects=stored.document.revision, action=JournalAction.MERGE)


def with_edit(turn: Turn, stored: ReplacedTurn | None, /) -> Turn:
    """Return a turn that says which message it replaces, if it replaces one."""
    if stored is None:
        return turn
    earlier = transcript.message_id(TurnId(stored.document.ref.key), 0)
    return turn.model_copy(update={"metadata": turn.metadata | {EDIT_OF: earlier}})


def messages_of(turns: Iterable[Turn], /) -> Iterator[tuple[Turn, int]]:
    """Yield each message of `turns` as its turn and its number there."""
    for turn in turns:
        for part in range(len(turn.messages)):
            yield turn, part


async def erasure_marks(
    ctx: OperationContext, space: SpaceId, record: SpaceRecord, turns: Iterable[tuple[Turn, int]], /
) -> dict[DocumentRef, tuple[ErasedImport, int]]:
    """Return the marks, with their revisions, by which an import recognises messages that are about to be erased.

    Each turn comes with the number of one of its messages; what a host wrote leaves no mark.
    """
    wanted: Counter[DocumentRef] = Counter()
    for turn, part in turns:
        if turn.origin is TurnOrigin.IMPORTED and turn.messages[part].text:
            key = ConversationKey(turn.channel, turn.conversation)
            host_id = turn.host_id if len(turn.messages) == 1 else None
            names = erased_names(turn.messages[part], key, host_id)
            wanted.update(DocumentRef(ERASED_IMPORTS, record.erased_tag(name)) for name in names)
    there = await documents_at(ctx.store, space, wanted)
    marks: dict[DocumentRef, tuple[ErasedImport, int]] = {}
    for ref, count in wanted.items():
        document = there.get(ref)
        before = ErasedImport.from_bytes(document.body).count if document is not None else 0
        marks[ref] = ErasedImport(count=before + count), document.revision if document is not None else 0
    return marks


async def compare_import(
    ctx: OperationContext, scope: Scope, write: TranscriptWrite, report: MemoryWriteReport, /
) -> MemoryWriteReport:
    """Return the report of a judged import with the turns as duplicates that are stored under another id."""
    comparison, record = write.comparison, await ctx.spaces.find(scope.space)
    assert comparison is not None
    if record is None:
        return report
    if comparison.is_sample:
        return report.model_copy(update={"compared": await _search_conversation(ctx, scope, write, record)})
    messages = await _messages_of(ctx, scope, record, scope.conversation_key)
    found = _stored_sequences(messages, write.turns, comparison)
    found |= await _earlier_sequences(ctx, scope, record, comparison)
    tag = record.conversation_tag(scope.conversation_key)
    erased = await _erased_places(ctx, scope, record, write, messages)
    decisions = list(report.decisions)
    for place, decision in enumerate(decisions):
        if decision.outcome is not WriteOutcome.STORED:
            continue
        if place in found:
            stored = transcript.turn_id(tag, found[place][0])
            decisions[place] = decision.model_copy(
                update={"outcome": WriteOutcome.DUPLICATE, "id": stored, "reason": STORED}
            )
        elif place in erased:
            decisions[place] = decision.model_copy(
                update={"outcome": WriteOutcome.SKIPPED, "id": None, "reason": ERASED}
            )
    known = [transcript.sequence_of(TurnId(each.id)) for each in decisions if each.id is not None]
    offsets = [offset for _, offset in found.values() if offset is not None]
    latest = offsets[-1] if offsets else comparison.offsets_ms[0]
    compared = ComparedConversation(
        channel=scope.channel,
        conversation=scope.conversation_key.conversation,
        messages=len(known),
        offsets_ms=(latest, *(offset for offset in comparison.offsets_ms if offset != latest)),
        last=max(known, default=comparison.after),
    )
    return report.model_copy(update={"decisions": tuple(decisions), "compared": compared})


async def _messages_of(
    ctx: OperationContext, scope: Scope, record: SpaceRecord, key: ConversationKey
) -> StoredMessages:
    tag = record.conversation_tag(key)
    (head,) = await ctx.store.get(scope.space, (DocumentRef(transcript.CONVERSATIONS, tag),))
    return await ctx.imported.read(ctx.store, scope.space, tag, head.revision) if head is not None else StoredMessages()


def _stored_sequences(
    messages: StoredMessages, drafts: Sequence[TurnDraft], comparison: ImportComparison
) -> dict[int, tuple[int, int | None]]:
    """Return by place the sequence of each draft's equal, and with which difference of time it was recognised.

    The drafts have the first difference in their times already.
    """
    found: dict[int, tuple[int, int | None]] = {}
    untimed: list[int] = []
    first, *_ = offsets = list(comparison.offsets_ms)
    for place, draft in enumerate(drafts):
        message = draft.messages[0]
        if message.at is None:
            untimed.append(place)
            continue
        repeat = comparison.repeats[place] if place < len(comparison.repeats) else 0
        for offset in offsets:
            equal = messages.at_minute(message_key(message), minute_of(Instant(message.at + offset - first)))
            if repeat < len(equal):
                found[place] = equal[repeat], offset
                # Neighbours have the same difference, in summer or in winter.
                offsets.sort(key=lambda each, usual=offset: each != usual)
                break
    keys = [message_key(drafts[place].messages[0]) for place in untimed]
    stored = [each for each in messages.untimed if each[1] > comparison.after]
    for place, sequence in zip(untimed, align_keys(keys, stored), strict=True):
        if sequence is not None:
            found[place] = sequence, None
    return found


async def _earlier_sequences(
    ctx: OperationContext, scope: Scope, record: SpaceRecord, comparison: ImportComparison
) -> dict[int, tuple[int, int | None]]:
    """Return by place the sequences of turns that an earlier version stored under another host id."""
    key = scope.conversation_key
    places = {
        place: DocumentRef(transcript.TURN_NAMES, record.turn_name_tag(key, host_id))
        for place, host_id in enumerate(comparison.earlier_ids)
        if host_id is not None
    }
    names = await values_at(ctx.store, scope.space, places.values(), TurnName)
    return {place: (transcript.sequence_of(names[ref].turn), None) for place, ref in places.items() if ref in names}


async def _erased_places(
    ctx: OperationContext, scope: Scope, record: SpaceRecord, write: TranscriptWrite, messages: StoredMessages
) -> set[int]:
    """Return the places of drafts that are neither among the stored messages nor more than were erased of them."""
    if write.restore_erased or not await ctx.store.scan(scope.space, ERASED_IMPORTS, limit=1):
        return set()
    key, comparison = scope.conversation_key, write.comparison or ImportComparison()
    refs = [
        DocumentRef(ERASED_IMPORTS, record.erased_tag(erased_names(draft.messages[0], key, None)[0]))
        for draft in write.turns
    ]
    marks = await values_at(ctx.store, scope.space, refs, ErasedImport)
    erased: set[int] = set()
    for place, draft in enumerate(write.turns):
        mark, message = marks.get(refs[place]), draft.messages[0]
        repeat = comparison.repeats[place] if place < len(comparison.repeats) else 0
        left = len(messages.at_minute(message_key(message), minute_of(message.at))) if message.at is not None else 0
        if mark is not None and repeat < left + mark.count:
            erased.add(place)
    return erased


async def _search_conversation(
    ctx: OperationContext, scope: Scope, write: TranscriptWrite, record: SpaceRecord
) -> ComparedConversation | None:
    """Return the conversation of the channel that holds most of the drafts, a sample of a file; None if none does."""
    sample = [draft.messages[0] for draft in write.turns]
    best: ComparedConversation | None = None
    for head in await _candidate_heads(ctx, scope, write, sample):
        messages = await read_messages(ctx.store, scope.space, record.conversation_tag(head.key))
        offsets = messages.offsets(sample)
        found = _stored_sequences(messages, [_moved_draft(each, offsets[0]) for each in write.turns],
                                  ImportComparison(offsets_ms=offsets[: limits.IMPORT_OFFSETS]))  # fmt: skip
        is_own = head.key == scope.conversation_key
        if not is_own and not _is_same(head, write, sample, offsets[0], [found.get(n) for n in range(len(sample))]):
            continue
        if best is None or len(found) > best.messages:
            best = ComparedConversation(
                channel=head.channel, conversation=head.conversation, title=head.title, messages=len(found),
                offsets_ms=offsets[: limits.IMPORT_OFFSETS],
            )  # fmt: skip
    return best


def _moved_draft(draft: TurnDraft, offset: int) -> TurnDraft:
    message = draft.messages[0]
    if message.at is None or not offset:
        return draft
    moved = message.model_copy(update={"at": Instant(message.at + offset)})
    return draft.model_copy(update={"messages": (moved,)})


async def _candidate_heads(
    ctx: OperationContext, scope: Scope, write: TranscriptWrite, sample: Sequence[Message]
) -> list[transcript.Conversation]:
    """Return the conversations that may be the one of a sample, the likeliest first: by time, speakers and title."""
    times = [message.at for message in sample if message.at is not None]
    speakers = {message.speaker for message in sample if message.speaker is not None}
    heads: list[tuple[bool, bool, int, transcript.Conversation]] = []
    async for document in scan_documents(ctx.store, scope.space, transcript.CONVERSATIONS):
        head = transcript.Conversation.from_bytes(document.body)
        is_own = head.key == scope.conversation_key
        if head.channel != scope.channel or head.first_at is None or head.last_at is None:
            continue
        if not is_own and (write.comparison is None or not write.comparison.anywhere):
            continue
        is_apart = bool(times) and (min(times) > head.last_at + _WINDOW_MS or max(times) < head.first_at - _WINDOW_MS)
        shared = len(speakers & {*head.speakers})
        if is_own or not (is_apart or (speakers and head.speakers and not shared)):
            heads.append((not is_own, _title_stem(head.title) != _title_stem(write.title), -shared, head))
    heads.sort(key=lambda each: each[:3])
    return [head for *_, head in heads[: limits.IMPORT_CANDIDATES]]


def _title_stem(title: str | None) -> str:
    """Return a title without what a phone or browser adds to the name of a second file."""
    stem = _COPY.sub("", (title or "").casefold())
    return "" if stem in _ALWAYS_NAMED else stem


def _is_same(
    head: transcript.Conversation,
    write: TranscriptWrite,
    sample: Sequence[Message],
    offset: int,
    found: Sequence[tuple[int, int | None] | None],
) -> bool:
    """Return whether a stored conversation is the one of a sample, by what it holds of it in the same time."""
    count = sum(each is not None for each in found)
    is_titled = _title_stem(head.title) == _title_stem(write.title) != ""
    assert head.first_at is not None
    assert head.last_at is not None
    within = [
        message
        for message in sample
        if message.at is not None
        and minute_of(head.first_at) <= minute_of(Instant(message.at + offset)) <= minute_of(head.last_at)
    ]
    if within:
        return count >= (1 if is_titled and not offset else 2) and count >= _SHARE * len(within)
    run = longest_run(each[0] if each is not None else None for each in found)
    is_whole = count == len(sample) == head.turns
    return count > 0 and ((is_whole and is_titled) or (run >= _RUN and 2 * count >= min(len(sample), head.turns)))
