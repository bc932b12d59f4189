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
    ctx: OperationContext, scope: Scope, write: TranscriptWrite, record: SpaceRecord, there: Mapping[str, NamedTurn], /
) -> ImportedChanges:
    """Return which turns of an import were erased or have changed; `there` has what is stored under their host ids."""
    drafts = {draft.host_id: draft for draft in write.turns if draft.host_id is not None}
    fresh = [] if write.restore_erased else [draft for host_id, draft in drafts.items() if host_id not in there]
    refused = dict.fromkeys(await _erased_ids(ctx, scope, record, fresh), ERASED)
    places = {
        host_id: DocumentRef(transcript.TURNS, turn_name.value.turn)
        for host_id, turn_name in there.items()
        if record.digest(drafts[host_id].to_bytes()) != turn_name.value.digest or _has_ended(ctx, drafts[host_id])
    }
    tag = record.conversation_tag(scope.conversation_key)
    edit_names = {host_id: str(draft.metadata.get(EDIT_OF)) for host_id, draft in drafts.items()}
    edits = {
        host_id: DocumentRef(transcript.TURNS, earlier_id)
        for host_id, earlier_id in edit_names.items()
        if transcript.is_turn_of(earlier_id, tag)
    }
    places |= edits
    stored = await documents_at(ctx.store, scope.space, places.values())
    replaced: dict[str, ReplacedTurn] = {}
    for host_id, ref in places.items():
        if (document := stored.get(ref)) is None:
            continue
        turn = Turn.from_bytes(document.body)
        texts = [message.text for message in turn.messages]
        is_same = host_id not in edits and texts == [message.text for message in drafts[host_id].messages]
        if is_same and not (_has_ended(ctx, drafts[host_id]) and turn.is_kept(0)):
            continue
        if host_id in edits or all(turn.is_kept(part) for part in range(len(turn.messages))):
            revision = there[host_id].document.revision if host_id in there else 0
            replaced[host_id] = ReplacedTurn(document, turn, revision)
        else:
            refused[host_id] = OWNERS_VERSION
    return ImportedChanges(refused, replaced)


def _has_ended(ctx: OperationContext, draft: TurnDraft) -> bool:
    return bool(ended_parts(draft.metadata, TurnOrigin.IMPORTED, draft.messages, now=ctx.clock.now()))


async def _erased_ids(
    ctx: OperationContext, scope: Scope, record: SpaceRecord, drafts: Sequence[TurnDraft]
) -> list[str]:
    """Return the host ids of drafts that were erased."""
    if not drafts or not await ctx.store.scan(scope.space, ERASED_IMPORTS, limit=1):
        return []
    own: dict[str, DocumentRef] = {}
    for draft in drafts:
        name = erased_names(draft.messages[0], scope.conversation_key, draft.host_id)[-1]
        own[draft.host_id or ""] = DocumentRef(ERASED_IMPORTS, record.erased_tag(name))
    there = await documents_at(ctx.store, scope.space, own.values())
    return [host_id for host_id, ref in own.items() if ref in there]


def hide_earlier(changes: ChangeSet, stored: ReplacedTurn, /, *, at: Instant) -> None:
    """Add to a batch that a turn is hidden because another one replaces it."""
    hidden = dict.fromkeys(range(len(stored.turn.messages)), at) | stored.turn.forgotten
    earlier = stored.turn.model_copy(update={"forgotten": hidden})
    changes.put(stored.document.ref, earlier, expects=stored.document.revision, action=JournalAction.MERGE)


def with_edit(turn: Turn, stored: ReplacedTurn | None, /) -> Turn:
    """Return a turn with the message that it replaces, if any, hidden or archived as that one is."""
    if stored is None:
        return turn
    earlier = transcript.message_id(TurnId(stored.document.ref.key), 0)
    inherited = {name: getattr(stored.turn, name) for name in ("lifecycle", "redaction")}
    inherited["forgotten"] = stored.turn.forgotten | turn.forgotten
    return turn.model_copy(update={"metadata": turn.metadata | {EDIT_OF: earlier}, **inherited})


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
    there = await documents_at(ctx.store, space, counts)
    marks: dict[DocumentRef, tuple[ErasedImport, int]] = {}
    for ref, count in counts.items():
        document = there.get(ref)
        before = ErasedImport.from_bytes(document.body).count if document is not None else 0
        marks[ref] = ErasedImport(count=before + count), document.revision if document is not None else 0
    return marks


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
    erased = await _erased_places(ctx, scope, record, write, messages)
    outcomes: dict[int, tuple[WriteOutcome, str | None, str]] = {}
    outcomes |= dict.fromkeys(erased, (WriteOutcome.SKIPPED, None, ERASED))
    for place, draft in enumerate(write.turns if comparison.is_swapped else ()):
        at = _swapped_sequence(messages, draft.messages[0], _repeat_of(comparison, place))
        if at is not None:
            outcomes[place] = WriteOutcome.UPDATED, transcript.turn_id(tag, at), REDATED
    for place, (at, _) in sequences.items():
        outcomes[place] = WriteOutcome.DUPLICATE, transcript.turn_id(tag, at), STORED
    decisions = list(report.decisions)
    for place, (outcome, stored, reason) in outcomes.items():
        # The id of a message whose date was corrected may be known from before.
        before = decisions[place].outcome
        if before is WriteOutcome.STORED or (before is WriteOutcome.DUPLICATE and outcome is WriteOutcome.UPDATED):
            update = {"outcome": outcome, "id": stored, "reason": reason}
            decisions[place] = decisions[place].model_copy(update=update)
    turn_sequences = [transcript.sequence_of(TurnId(each.id)) for each in decisions if each.id is not None]
    offsets = [offset for _, offset in sequences.values() if offset is not None]
    latest = offsets[-1] if offsets else comparison.offsets_ms[0]
    compared = ComparedConversation(
        channel=scope.channel,
        conversation=scope.conversation_key.conversation,
        messages=len(turn_sequences),
        offsets_ms=(latest, *(offset for offset in comparison.offsets_ms if offset != latest)),
        last=max(turn_sequences, default=comparison.after),
    )
    return report.model_copy(update={"decisions": tuple(decisions), "compared": compared})


def _repeat_of(comparison: ImportComparison, place: int) -> int:
    return comparison.repeats[place] if place < len(comparison.repeats) else 0


def _swapped_sequence(messages: StoredMessages, message: Message, repeat: int) -> int | None:
    """Return the sequence of the equal imported message whose time has day and month swapped."""
    at = swapped_time(message.at) if message.at is not None else None
    if at is None or at == message.at:
        return None
    stored = messages.at_minute(message_key(message), minute_of(at))
    equal = [sequence for sequence in stored if sequence not in messages.live]
    return equal[repeat] if repeat < len(equal) else None


def _stored_sequences(
    messages: StoredMessages, drafts: Sequence[TurnDraft], comparison: ImportComparison
) -> dict[int, tuple[int, int | None]]:
    """Return by position the sequence of each draft's equal, and the time difference that matched.

    The drafts have the first difference in their times already.
    """
    matches: dict[int, tuple[int, int | None]] = {}
    untimed: list[int] = []
    first, *_ = offsets = list(comparison.offsets_ms)
    for place, draft in enumerate(drafts):
        message = draft.messages[0]
        if message.at is None:
            untimed.append(place)
            continue
        repeat = _repeat_of(comparison, place)
        for offset in offsets:
            equal = messages.at_minute(message_key(message), minute_of(Instant(message.at + offset - first)))
            if repeat < len(equal):
                matches[place] = equal[repeat], offset
                # Neighbours have the same difference, in summer or in winter.
                offsets.sort(key=lambda each, usual=offset: each != usual)
                break
    keys = [message_key(drafts[place].messages[0]) for place in untimed]
    stored = [each for each in messages.untimed if each[1] > comparison.after]
    for place, sequence in zip(untimed, align_keys(keys, stored), strict=True):
        if sequence is not None:
            matches[place] = sequence, None
    return matches


async def _erased_places(
    ctx: OperationContext, scope: Scope, record: SpaceRecord, write: TranscriptWrite, messages: StoredMessages
) -> set[int]:
    """Return the positions of drafts that are not stored, and not more than were erased of them."""
    if write.restore_erased or not await ctx.store.scan(scope.space, ERASED_IMPORTS, limit=1):
        return set()
    key, comparison = scope.conversation_key, write.comparison or ImportComparison()
    erased: set[int] = set()
    # It may have been erased before the order of its date was corrected.
    for drafts in (write.turns, _swapped_drafts(write.turns)):
        names = (erased_names(draft.messages[0], key, None)[0] for draft in drafts)
        refs = [DocumentRef(ERASED_IMPORTS, record.erased_tag(name)) for name in names]
        marks = await values_at(ctx.store, scope.space, refs, ErasedImport)
        for place, draft in enumerate(drafts):
            mark, message = marks.get(refs[place]), draft.messages[0]
            stored_count = (
                len(messages.at_minute(message_key(message), minute_of(message.at))) if message.at is not None else 0
            )
            if mark is not None and _repeat_of(comparison, place) < stored_count + mark.count:
                erased.add(place)
    return erased


async def _search_conversation(
    ctx: OperationContext, scope: Scope, write: TranscriptWrite, record: SpaceRecord
) -> ComparedConversation | None:
    """Return the conversation of the channel with most of the drafts, a sample of a file; None if none matches."""
    is_swapped = write.comparison is not None and write.comparison.is_swapped
    sample = [draft.messages[0] for draft in (_swapped_drafts(write.turns) if is_swapped else write.turns)]
    best: ComparedConversation | None = None
    for head in await _candidate_heads(ctx, scope, write, sample):
        messages = await read_messages(ctx.store, scope.space, record.conversation_tag(head.key))
        offsets = messages.offsets([draft.messages[0] for draft in write.turns])[: limits.IMPORT_OFFSETS]
        moved = [_moved_draft(each, lambda at: Instant(at + offsets[0])) for each in write.turns]  # noqa: B023
        sequences = _stored_sequences(messages, moved, ImportComparison(offsets_ms=offsets))
        count = len(sequences)
        if is_swapped:
            offsets, count = (0,), _swapped_count(head, messages, write.turns, sequences)
        elif head.key != scope.conversation_key:
            places = [sequences.get(place) for place in range(len(sample))]
            count = count if _is_same(head, write, sample, offsets[0], places) else 0
        is_own = head.key == scope.conversation_key and not is_swapped
        if (count or is_own) and (best is None or count > best.messages):
            best = ComparedConversation(
                channel=head.channel, conversation=head.conversation, title=head.title, messages=count,
                offsets_ms=offsets,
            )  # fmt: skip
    return best


def _swapped_count(
    head: transcript.Conversation, messages: StoredMessages, drafts: Sequence[TurnDraft], matches: Container[int]
) -> int:
    """Return how many drafts are stored with day and month swapped; 0 if that may be chance."""
    places = [place for place, draft in enumerate(drafts) if _moved_draft(draft, swapped_time) is not draft]
    rest = [drafts[place].messages[0] for place in places if place not in matches]
    # Frequent messages, perhaps daily at one time, say nothing about an order.
    rare = [message for message in rest if len(messages.timed.get(message_key(message), ())) == 1]
    count = sum(_swapped_sequence(messages, message, 0) is not None for message in rare)
    return count if count >= max(min(_RUN, len(places), head.turns), _SWAPPED_SHARE * len(rest)) else 0


def _moved_draft(draft: TurnDraft, move: Callable[[Instant], Instant]) -> TurnDraft:
    message = draft.messages[0]
    if message.at is None or (at := move(message.at)) == message.at:
        return draft
    return draft.model_copy(update={"messages": (message.model_copy(update={"at": at}),)})


def _swapped_drafts(drafts: Iterable[TurnDraft]) -> tuple[TurnDraft, ...]:
    return tuple(_moved_draft(draft, swapped_time) for draft in drafts)


async def _candidate_heads(
    ctx: OperationContext, scope: Scope, write: TranscriptWrite, sample: Sequence[Message]
) -> list[transcript.Conversation]:
    """Return the conversations that may match a sample, the likeliest first: by time, speakers and title."""
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
    count = sum(each is not None for each in matches)
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
    run = longest_run(each[0] if each is not None else None for each in matches)
    is_whole = count == len(sample) == head.turns
    return count > 0 and ((is_whole and is_titled) or (run >= _RUN and 2 * count >= min(len(sample), head.turns)))
