"""Import of transcripts: read completely first, compared with stored turns, then committed in batches."""

import asyncio
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from functools import partial
from os import PathLike
from pathlib import Path
from typing import NamedTuple, Protocol

from elytron.flows.import_comparison import ComparedFile, sample_messages
from elytron.importers import message_shape
from elytron.importers.detection import FoundTranscript, FoundTranscripts, TranscriptFormat, open_transcripts
from elytron.importers.message_shape import DateChoice, DateOrder, ImportedMessage, OmissionReason
from elytron_core import limits, strict_json
from elytron_core.clock import Instant
from elytron_core.contracts.transcript import (
    ComparedConversation,
    ImportComparison,
    MemoryWriteReport,
    MemoryWriteRequest,
    TranscriptWrite,
    TurnDraft,
    WriteDecision,
    WriteOutcome,
)
from elytron_core.errors import InvalidInput, ScopeMissing, TurnConflict, UnreadableFile
from elytron_core.evidence import EvidenceRole
from elytron_core.model import Value
from elytron_core.planes.transcript import EDIT_OF, TurnOrigin
from elytron_core.policy.imported_messages import ERASED, MINUTE_MS, OWNERS_VERSION, REDATED
from elytron_core.scope import ConversationKey, FutureClaims, Scope

_OTHER_ORDER = {DateOrder.DMY: DateOrder.MDY, DateOrder.MDY: DateOrder.DMY}
PLACE_DIGITS = 12
STEM_CHARS = 80
ALL_OWNERS = "*"
OWNERS_NAMED = 5
BATCH_TURNS = 400
BATCH_CHARS = 4_000_000
HELD_TURNS = 4_000
HELD_CHARS = 16_000_000
"""Maximum turns in incomplete batches, if many conversations are mixed in one file."""

Progress = Callable[[int, int], None]
"""Called with the committed bytes of the file, and its size."""


class ImportWrites(Protocol):
    """Runtime of an import."""

    @property
    def scope(self) -> Scope | None:
        """Return the default scope of writes."""
        ...

    async def write(self, request: MemoryWriteRequest, /) -> MemoryWriteReport:
        """Commit the request."""
        ...


class ImportNoteKind(StrEnum):
    """Kind of note on one message of a file."""

    SKIPPED = "skipped"
    """It cannot be read."""
    UPDATED = "updated"
    """Its text has changed, or its date was misread: the new version is shown."""
    UNCHANGED = "unchanged"
    """It has changed, but what the owner did to the stored message takes precedence."""
    TIME = "time"
    """Its time cannot be read, so it gets the time of the import."""


class ImportNote(Value):
    """One message of a file that was not simply stored, by its file and position; never its text."""

    kind: ImportNoteKind
    file: str
    place: str
    problem: str


class FileDates(Value):
    """How the dates of a file were read, and why."""

    file: str
    order: DateOrder
    reason: str
    is_ambiguous: bool = False


class ResumedConversation(Value):
    """A stored conversation that a file continues, and the difference between the file's clock and its own."""

    file: str
    channel: str
    conversation: str
    title: str | None = None
    offset_minutes: int = 0


class TranscriptImportReport(Value):
    """Result of an import: new, known and omitted messages. `changed` is false if nothing is new.

    `left_out` counts by reason what is deliberately not stored; `deleted` is the part of it that its writers had
    deleted. `skipped` counts unreadable records, `erased` messages that were erased here before and stay so.
    `naive_times` counts times without a zone, which were read as UTC, `undated` messages without a time that could be
    read, which get the time of the import, and `unknown_keys` keys of another memory's
    records that its published form does not have. `owners` are the users of a store of several. `notes` names the first
    messages that were skipped or have changed. In a dry run, `stored` is 0.
    """

    space: str
    file: str
    formats: tuple[TranscriptFormat, ...]
    files: int = 1
    conversations: int
    messages: int
    stored: int
    duplicates: int
    updated: int = 0
    unchanged: int = 0
    erased: int = 0
    skipped: int = 0
    left_out: dict[OmissionReason, int] = {}
    deleted: int = 0
    naive_times: int = 0
    undated: int = 0
    unknown_keys: int = 0
    owners: tuple[str, ...] = ()
    notes: tuple[ImportNote, ...] = ()
    dates: tuple[FileDates, ...] = ()
    resumed: tuple[ResumedConversation, ...] = ()
    first_at: Instant | None = None
    last_at: Instant | None = None
    future_claims: FutureClaims = ()
    """Times in the future, by the conversation's name and their position in the batch."""
    changed: bool
    dry_run: bool = False
    sequence: int = 0


@dataclass(slots=True)
class _FileContents:
    """Contents of the files."""

    messages: int = 0
    conversations: set[ConversationKey] = field(default_factory=set[ConversationKey])
    first_at: Instant | None = None
    last_at: Instant | None = None
    left_out: Counter[OmissionReason] = field(default_factory=Counter[OmissionReason])
    skipped: int = 0
    naive_times: int = 0
    undated: int = 0
    unknown_keys: int = 0
    owners: set[str] = field(default_factory=set[str])

    def count(self, messages: Iterable[ImportedMessage]) -> None:
        """Count `messages`."""
        for message in messages:
            self.messages += 1
            self.conversations.add(message.conversation)
            message_at = message.turn.messages[0].at
            if message_at is not None:
                self.first_at = message_at if self.first_at is None else min(self.first_at, message_at)
                self.last_at = message_at if self.last_at is None else max(self.last_at, message_at)
            else:
                self.undated += 1


@dataclass(frozen=True, slots=True)
class _TurnBatch:
    """Turns of one conversation to be committed together."""

    conversation: ConversationKey
    turns: tuple[ImportedMessage, ...]


class _BatchPlan(NamedTuple):
    """Result of comparing one batch: which of its turns to write, and how far its times are shifted."""

    to_write: bytes
    offset_ms: int
    after: int
    earlier_ids: Mapping[int, str]
    """By a turn's position, the stored message that it replaces because its date was misread."""


async def import_transcript(
    memory: ImportWrites,
    path: str | PathLike[str],
    /,
    *,
    scope: Scope | None = None,
    progress: Progress | None = None,
    dry_run: bool = False,
    include: Collection[EvidenceRole] = (),
    place: str | None = None,
    date_order: DateOrder | str | None = None,
    strict: bool = False,
    restore_erased: bool = False,
    owners: Collection[str] = (),
) -> TranscriptImportReport:
    """Commit the messages of the file, folder or ZIP file at `path` as evidence, in order and with their own times.

    Only what is new is stored: a conversation is recognised by its ids, else by speakers, times and texts, so a longer,
    Only what is new is stored: a conversation is recognised by its ids, else by speakers, times and texts, so a longer,
    shorter or renamed export of it can be imported again. A changed message becomes a new version; an erased one stays
    so without `restore_erased`. An unreadable record is skipped and named; with `strict`, nothing is stored then, nor
    if a message has changed. `date_order` (dmy, mdy, ymd) settles ambiguous dates, and corrects those read in another
    order before. Messages that name no conversation go to the scope's, else to one named after the file. Messages of a
    system or tool need `include`. `place` replaces the path. A store of several users needs `owners`: the ones whose
    memories are imported, or "*" for all. Raises UnreadableFile, ScopeMissing, InvalidInput.

    >>> _ = Path("chat.jsonl").write_text('{"role": "user", "content": "The kiln fires at nine."}')
    >>> memory.run(elytron.import_transcript(memory.runtime, "chat.jsonl")).stored
    1
    """
    scope = scope or memory.scope
    if scope is None:
        raise ScopeMissing(operation="import_transcript", way_out="pass scope=, or open the runtime with space=")
    named_order = _named_order(date_order)
    with await asyncio.to_thread(partial(open_transcripts, Path(path), place=place, date_order=named_order)) as source:
        import_run = _ImportRun(memory, scope, source, frozenset(include), strict, restore_erased, frozenset(owners))
        await asyncio.to_thread(import_run.read_through)
        for transcript in source.transcripts:
            await import_run.compare_home(transcript)
            plans = await import_run.compare(transcript)
            if not dry_run:
                await import_run.write(transcript, plans, progress)
            import_run.read_bytes += transcript.size_bytes
        return import_run.report(dry_run=dry_run)


def _named_order(name: DateOrder | str | None) -> DateOrder | None:
    if name is None or name == "auto":
        return None
    try:
        return DateOrder(name)
    except ValueError:
        raise InvalidInput(field="date_order", problem="must be one of auto, dmy, mdy, ymd") from None


@dataclass(slots=True)
class _ImportRun:
    """One import in progress, transcript by transcript: each is compared, then written."""

    memory: ImportWrites
    scope: Scope
    source: FoundTranscripts
    include: frozenset[EvidenceRole]
    strict: bool
    restore_erased: bool
    owners: frozenset[str]
    contents: _FileContents = field(default_factory=_FileContents)
    files: dict[ConversationKey, ComparedFile] = field(default_factory=dict[ConversationKey, ComparedFile])
    outcomes: Counter[WriteOutcome] = field(default_factory=Counter[WriteOutcome])
    erased: int = 0
    unchanged: int = 0
    notes: list[ImportNote] = field(default_factory=list[ImportNote])
    resumed: list[ResumedConversation] = field(default_factory=list[ResumedConversation])
    future_claims: FutureClaims = ()
    sequence: int = 0
    read_bytes: int = 0

    def read_through(self) -> None:
        """Read every transcript once. Raises UnreadableFile if they contain no messages, or as `strict` demands."""
        contents, has_messages = self.contents, False
        contents.left_out[OmissionReason.OTHER_FILE] = self.source.other_files
        contents.left_out[OmissionReason.UNSAFE_NAME] = self.source.unsafe_files
        for transcript in self.source.transcripts:
            transcript.owners = self.owners if self.owners and ALL_OWNERS not in self.owners else None
            has_messages |= sum(1 for _ in self._messages(transcript)) > 0
            contents.left_out.update(transcript.left_out)
            contents.skipped += transcript.skipped_count
            contents.naive_times += transcript.remarks.naive_times
            contents.unknown_keys += transcript.remarks.unknown_keys
            contents.owners |= transcript.met_owners
            for record in transcript.skipped:
                self._note(ImportNoteKind.SKIPPED, transcript, record.place, record.problem)
            for record in transcript.remarks.unread_times:
                self._note(ImportNoteKind.TIME, transcript, record.place, record.problem)
        if not has_messages:
            for transcript in self.source.transcripts:
                for record in transcript.skipped:
                    raise transcript.unreadable(record)
            raise UnreadableFile(name=self.source.name, problem=_nothing_found(_ordered_counts(contents.left_out)))
        if len(contents.owners) > 1 and not self.owners:
            # One space is one user's: another user's memories come in only where the caller says so.
            owner_names = ", ".join(repr(name) for name in sorted(contents.owners)[:OWNERS_NAMED])
            way_out = "name them with owners= (--memories-of), or '*' for all"
            problem = (
                f"are missing: {self.source.name} holds memories of several users, such as {owner_names}; {way_out}"
            )
            raise InvalidInput(field="owners", problem=problem)

    def _messages(self, transcript: FoundTranscript) -> Iterator[ImportedMessage]:
        """Yield the messages of a transcript, with how far the whole source has been read."""
        home_key = _home_conversation(self.scope, transcript)
        for message in transcript.messages(home_key, include=self.include, strict=self.strict):
            title = message.title or (_file_stem(transcript.name) if message.conversation == home_key else None)
            yield replace(message, title=title, done_bytes=self.read_bytes + message.done_bytes)

    async def compare_home(self, transcript: FoundTranscript) -> None:
        """Search for the stored conversation that a transcript without a conversation name continues."""
        home_key = _home_conversation(self.scope, transcript)
        home_messages = (
            message
            for message in self._messages(transcript)
            if message.conversation == home_key and not message.has_own_id
        )
        sample_turns = await asyncio.to_thread(sample_messages, home_messages)
        if not sample_turns:
            return
        date_reading, is_swapped = transcript.dates, False
        comparison_match = await self._search(transcript, home_key, sample_turns)
        is_whole_match = comparison_match is not None and comparison_match.messages == len(sample_turns)
        if date_reading is not None and date_reading.order is not DateOrder.YMD and not is_whole_match:
            swapped_match = await self._search(transcript, home_key, sample_turns, is_swapped=True)
            is_swapped = swapped_match is not None
            comparison_match = swapped_match or comparison_match
        if comparison_match is None:
            return
        key, offset = (
            ConversationKey(comparison_match.channel, comparison_match.conversation),
            comparison_match.offsets_ms[0],
        )
        if is_swapped and date_reading is not None and date_reading.is_ambiguous:
            # A guess does not change stored times; it follows them.
            transcript.date_choice = DateChoice(
                _OTHER_ORDER[date_reading.order], "the stored messages are in this order"
            )
            is_swapped = False
        self.files[home_key] = ComparedFile(key, comparison_match.offsets_ms, is_swapped=is_swapped)
        if key != home_key or offset:
            self.resumed.append(
                ResumedConversation(
                    file=transcript.name,
                    channel=key.channel,
                    conversation=key.conversation,
                    title=comparison_match.title,
                    offset_minutes=offset // MINUTE_MS,
                )
            )

    async def _search(
        self, transcript: FoundTranscript, home: ConversationKey, sample: list[TurnDraft], *, is_swapped: bool = False
    ) -> ComparedConversation | None:
        """Return the stored conversation with most of a sample of the messages that name none."""
        may_search_anywhere = self.scope.conversation is None and self.scope.chat is None
        write = TranscriptWrite(
            turns=tuple(sample),
            origin=TurnOrigin.IMPORTED,
            title=_file_stem(transcript.name),
            comparison=ImportComparison(is_sample=True, anywhere=may_search_anywhere, is_swapped=is_swapped),
        )
        request = MemoryWriteRequest(scope=_scope_at(self.scope, home), write=write, dry_run=True)
        return (await self.memory.write(request)).compared

    async def compare(self, transcript: FoundTranscript) -> list[_BatchPlan]:
        """Return for each batch of a transcript which of its turns to write. Raises TurnConflict if `strict`."""
        plans: list[_BatchPlan] = []
        compared_files: dict[ConversationKey, ComparedFile] = {}
        batches = _message_batches(self._messages(transcript))
        while (batch := await asyncio.to_thread(next, batches, None)) is not None:  # parsing blocks
            self.contents.count(batch.turns)
            compared_file = self._file_of(batch.conversation, compared_files)
            prepared_turns = list(compared_file.prepare(batch.turns, compared_file.offsets_ms[0]))
            comparison = compared_file.comparison(repeat for _, repeat in prepared_turns)
            request = self._request(batch, [draft for draft, _ in prepared_turns], compared_file, comparison)
            report = await self.memory.write(request)
            selection = bytes(
                self._is_wanted(transcript, message, decision)
                for message, decision in zip(batch.turns, report.decisions, strict=True)
            )
            if report.compared is not None:
                compared_file.note(report.compared)
            if any(selection):
                self._note_claims(batch.conversation.conversation, report)
            earlier_ids = {
                turn_index: one.id
                for turn_index, one in enumerate(report.decisions)
                if one.id and one.reason == REDATED
            }
            plans.append(_BatchPlan(selection, compared_file.offsets_ms[0], compared_file.after, earlier_ids))
        return plans

    def _is_wanted(self, transcript: FoundTranscript, message: ImportedMessage, decision: WriteDecision) -> bool:
        """Return whether a turn is to be written; count it if it is not."""
        match decision.outcome:
            case WriteOutcome.DUPLICATE:
                self.outcomes[WriteOutcome.DUPLICATE] += 1
            case WriteOutcome.SKIPPED if decision.reason == ERASED:
                self.erased += 1
            case WriteOutcome.SKIPPED if decision.reason == OWNERS_VERSION:
                self.unchanged += 1
                self._note(ImportNoteKind.UNCHANGED, transcript, message.place, decision.reason)
            case WriteOutcome.UPDATED:
                if self.strict:
                    raise TurnConflict(turn=message.turn.host_id or "")
                self._note(ImportNoteKind.UPDATED, transcript, message.place, decision.reason)
                return True
            case _:
                return True
        return False

    def _note_claims(self, conversation: str, report: MemoryWriteReport) -> None:
        claims = (
            claim.model_copy(update={"field": f"{conversation}: {claim.field}"}) for claim in report.future_claims
        )
        self.future_claims = (*self.future_claims, *claims)[: limits.FUTURE_CLAIMS]

    def _note(self, kind: ImportNoteKind, transcript: FoundTranscript, place: str, problem: str) -> None:
        if len(self.notes) < limits.IMPORT_SKIPPED:
            self.notes.append(ImportNote(kind=kind, file=transcript.name, place=place, problem=problem))

    async def write(self, transcript: FoundTranscript, plans: list[_BatchPlan], progress: Progress | None) -> None:
        """Commit the turns that `plans` name."""
        compared_files: dict[ConversationKey, ComparedFile] = {}
        batches = _message_batches(self._messages(transcript))
        for plan in plans:
            batch = await asyncio.to_thread(next, batches, None)
            if batch is None:
                return
            compared_file = self._file_of(batch.conversation, compared_files)
            prepared_turns = compared_file.prepare(batch.turns, plan.offset_ms, after=plan.after)
            drafts = [
                draft.model_copy(update={"metadata": {EDIT_OF: plan.earlier_ids[turn_index]}})
                if turn_index in plan.earlier_ids
                else draft
                for turn_index, (draft, _) in enumerate(prepared_turns)
                if plan.to_write[turn_index]
            ]
            if drafts:
                report = await self.memory.write(self._request(batch, drafts, compared_file, None))
                self.outcomes.update(decision.outcome for decision in report.decisions)
                self.sequence = max(self.sequence, report.sequence)
            if progress is not None:
                progress(batch.turns[-1].done_bytes, self.source.size_bytes)

    def _file_of(self, key: ConversationKey, files: dict[ConversationKey, ComparedFile]) -> ComparedFile:
        """Return the state of a conversation during one pass over its file."""
        if key not in files:
            files[key] = self.files.get(key, ComparedFile(key)).rewound()
        return files[key]

    def _request(
        self, batch: _TurnBatch, drafts: list[TurnDraft], file: ComparedFile, comparison: ImportComparison | None
    ) -> MemoryWriteRequest:
        return MemoryWriteRequest(
            scope=_scope_at(self.scope, file.key),
            dry_run=comparison is not None,
            write=TranscriptWrite(
                turns=tuple(drafts),
                origin=TurnOrigin.IMPORTED,
                title=batch.turns[-1].title if file.key == batch.conversation else None,
                comparison=comparison,
                restore_erased=self.restore_erased,
            ),
        )

    def report(self, *, dry_run: bool) -> TranscriptImportReport:
        """Return the report of the import."""
        contents = self.contents
        transcripts, omission_counts = self.source.transcripts, _ordered_counts(contents.left_out)
        stored_count, updated_count = self.outcomes[WriteOutcome.STORED], self.outcomes[WriteOutcome.UPDATED]
        return TranscriptImportReport(
            space=self.scope.space,
            file=self.source.name,
            formats=tuple(dict.fromkeys(transcript.format for transcript in transcripts)),
            files=len(transcripts),
            conversations=len(contents.conversations),
            messages=contents.messages,
            stored=stored_count,
            duplicates=self.outcomes[WriteOutcome.DUPLICATE],
            updated=updated_count,
            unchanged=self.unchanged,
            erased=self.erased,
            skipped=contents.skipped,
            left_out=omission_counts,
            deleted=omission_counts.get(OmissionReason.DELETED, 0),
            naive_times=contents.naive_times,
            undated=contents.undated,
            unknown_keys=contents.unknown_keys,
            owners=tuple(sorted(contents.owners)),
            notes=tuple(self.notes),
            dates=tuple(
                FileDates(file=transcript.name, **dict(transcript.dates))
                for transcript in transcripts
                if transcript.dates is not None
            ),
            resumed=tuple(self.resumed),
            first_at=contents.first_at,
            last_at=contents.last_at,
            future_claims=self.future_claims,
            changed=stored_count + updated_count > 0,
            dry_run=dry_run,
            sequence=self.sequence,
        )


def _ordered_counts(left_out: Counter[OmissionReason]) -> dict[OmissionReason, int]:
    return {reason: left_out[reason] for reason in OmissionReason if left_out[reason]}


def _nothing_found(left_out: dict[OmissionReason, int]) -> str:
    omissions = ", ".join(f"{count} {reason.value}" for reason, count in left_out.items())
    return f"contains no messages to store; skipped: {omissions}" if omissions else "contains no messages"


def _home_conversation(scope: Scope, transcript: FoundTranscript) -> ConversationKey:
    """Return the conversation for messages that name none: the scope's, else one for this path."""
    if scope.conversation is not None or scope.chat is not None:
        return scope.conversation_key
    place_digest = strict_json.sha256_digest(transcript.place.encode("utf-8", "surrogateescape"))[:PLACE_DIGITS]
    return ConversationKey(scope.channel, f"{_file_stem(transcript.name) or 'file'}-{place_digest}")


def _file_stem(name: str) -> str | None:
    """Return a file's name without its suffix, printable and on one line."""
    return message_shape.optional_title(Path(name).stem[:STEM_CHARS])


def _message_batches(messages: Iterator[ImportedMessage]) -> Iterator[_TurnBatch]:
    """Yield the messages in batches of one conversation each; all pending ones when there are too many."""
    waiting_messages: dict[ConversationKey, list[ImportedMessage]] = {}
    waiting_chars: Counter[ConversationKey] = Counter()
    for message in messages:
        key = message.conversation
        waiting_messages.setdefault(key, []).append(message)
        waiting_chars[key] += len(message.turn.messages[0].text)
        if sum(map(len, waiting_messages.values())) >= HELD_TURNS or waiting_chars.total() >= HELD_CHARS:
            ready_keys = tuple(waiting_messages)
        else:
            ready_keys = (
                (key,) if len(waiting_messages[key]) >= BATCH_TURNS or waiting_chars[key] >= BATCH_CHARS else ()
            )
        for ready_key in ready_keys:
            waiting_chars.pop(ready_key)
            yield _TurnBatch(ready_key, tuple(waiting_messages.pop(ready_key)))
    for key, turns in waiting_messages.items():
        yield _TurnBatch(key, tuple(turns))


def _scope_at(scope: Scope, key: ConversationKey) -> Scope:
    conversation_fields = {"channel": key.channel, "conversation": key.conversation, "chat": None}
    return scope.model_copy(update=conversation_fields)
