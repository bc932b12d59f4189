"""Import of transcripts: checked as a whole first, then committed in batches, each message only once."""

import asyncio
from collections import Counter
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass, field, replace
from os import PathLike
from pathlib import Path
from typing import Protocol

from elytron.importers import message_shape
from elytron.importers.detection import FoundTranscript, FoundTranscripts, TranscriptFormat, open_transcripts
from elytron.importers.message_shape import OmissionReason, SaidMessage
from elytron_core import limits, strict_json
from elytron_core.clock import Instant
from elytron_core.contracts.transcript import MemoryWriteReport, MemoryWriteRequest, TranscriptWrite, WriteOutcome
from elytron_core.errors import ScopeMissing, UnreadableFile
from elytron_core.evidence import EvidenceRole
from elytron_core.model import Value
from elytron_core.planes.transcript import TurnOrigin
from elytron_core.scope import ConversationKey, FutureClaims, Scope

PLACE_DIGITS = 12
STEM_CHARS = 80
BATCH_TURNS = 400
BATCH_CHARS = 4_000_000
HELD_TURNS = 4_000
HELD_CHARS = 16_000_000
"""Bound of turns in batches that are not full yet, if many conversations are mixed in one file."""

Progress = Callable[[int, int], None]
"""Called with the bytes of the file that are committed, and how many it has."""


class ImportWrites(Protocol):
    """Runtime of an import."""

    @property
    def scope(self) -> Scope | None:
        """Return the scope of writes that name none."""
        ...

    async def write(self, request: MemoryWriteRequest, /) -> MemoryWriteReport:
        """Commit the request."""
        ...


class TranscriptImportReport(Value):
    """Result of an import at a place, and its new part. `changed` is false if all was there before.

    `left_out` counts by reason what is not stored; `deleted` is the part of it that its writers had deleted.
    """

    space: str
    file: str
    formats: tuple[TranscriptFormat, ...]
    files: int = 1
    conversations: int
    messages: int
    stored: int
    duplicates: int
    left_out: dict[OmissionReason, int] = {}
    deleted: int = 0
    first_at: Instant | None = None
    last_at: Instant | None = None
    changed: bool
    dry_run: bool = False
    sequence: int = 0
    future_claims: FutureClaims = ()


@dataclass(slots=True)
class _FirstPass:
    """Result of the first pass, which checks the whole file."""

    messages: int = 0
    conversations: set[ConversationKey] = field(default_factory=set[ConversationKey])
    first_at: Instant | None = None
    last_at: Instant | None = None
    future_claims: FutureClaims = ()

    def note_claims(self, batch: "_TurnBatch", report: MemoryWriteReport, /) -> None:
        """Take note of the times of a batch's messages that lie in the future."""
        place = batch.conversation.conversation
        named = (claim.model_copy(update={"field": f"{place}: {claim.field}"}) for claim in report.future_claims)
        self.future_claims = (*self.future_claims, *named)[: limits.FUTURE_CLAIMS]

    def count(self, messages: Iterator[SaidMessage]) -> Iterator[SaidMessage]:
        """Yield `messages`, each counted in."""
        for said in messages:
            self._add(said)
            yield said

    def _add(self, said: SaidMessage) -> None:
        self.messages += 1
        self.conversations.add(said.conversation)
        at = said.turn.messages[0].at
        if at is not None:
            self.first_at = at if self.first_at is None else min(self.first_at, at)
            self.last_at = at if self.last_at is None else max(self.last_at, at)


@dataclass(frozen=True, slots=True)
class _TurnBatch:
    """Turns of one conversation, to be committed together."""

    conversation: ConversationKey
    turns: tuple[SaidMessage, ...]


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
) -> TranscriptImportReport:
    """Commit the messages of the file, folder or ZIP file at `path` as evidence, in order and with their own times.

    Everything is read and judged before the first message is stored. A message that is there already is left alone, so
    a file that has grown can be imported again. Messages that name no conversation go to the scope's, else to one named
    after the file. Messages of a system or tool need `include`. `place` replaces its path. Raises UnreadableFile,
    ScopeMissing.

    >>> _ = Path("chat.jsonl").write_text('{"role": "user", "content": "The kiln fires at nine."}')
    >>> memory.run(elytron.import_transcript(memory.runtime, "chat.jsonl")).stored
    1
    """
    scope = scope or memory.scope
    if scope is None:
        raise ScopeMissing(operation="import_transcript", way_out="give scope=, or open the runtime with space=")
    with await asyncio.to_thread(open_transcripts, Path(path), place=place) as source:
        reading, seen = _TranscriptReading(source, scope, frozenset(include)), _FirstPass()
        judged = _message_batches(seen.count(reading.messages()))
        while (batch := await asyncio.to_thread(next, judged, None)) is not None:  # parsing blocks
            seen.note_claims(batch, await memory.write(_batch_request(scope, batch, dry_run=True)))
        left_out = reading.left_out()
        if not seen.messages:
            raise UnreadableFile(name=source.name, problem=_nothing_found(left_out))
        stored = duplicates = sequence = 0
        batches = iter(()) if dry_run else _message_batches(reading.messages())
        while (batch := await asyncio.to_thread(next, batches, None)) is not None:
            report = await memory.write(_batch_request(scope, batch))
            stored += report.count(WriteOutcome.STORED)
            duplicates += report.count(WriteOutcome.DUPLICATE)
            sequence = max(sequence, report.sequence)
            if progress is not None:
                progress(batch.turns[-1].done_bytes, source.size_bytes)
    return TranscriptImportReport(
        space=scope.space,
        file=source.name,
        formats=tuple(dict.fromkeys(transcript.format for transcript in source.found)),
        files=len(source.found),
        conversations=len(seen.conversations),
        messages=seen.messages,
        stored=stored,
        duplicates=duplicates,
        left_out=left_out,
        deleted=left_out.get(OmissionReason.DELETED, 0),
        first_at=seen.first_at,
        last_at=seen.last_at,
        changed=stored > 0,
        dry_run=dry_run,
        sequence=sequence,
        future_claims=seen.future_claims,
    )


@dataclass(frozen=True, slots=True)
class _TranscriptReading:
    """All transcripts of a place, one after the other."""

    source: FoundTranscripts
    scope: Scope
    include: frozenset[EvidenceRole]

    def messages(self) -> Iterator[SaidMessage]:
        """Yield what was said in each, with how far all of them have been read."""
        before = 0
        for transcript in self.source.found:
            home = _home_conversation(self.scope, transcript)
            for said in transcript.messages(home, include=self.include):
                title = said.title or (_file_stem(transcript.name) if said.conversation == home else None)
                yield replace(said, title=title, done_bytes=before + said.done_bytes)
            before += transcript.size_bytes

    def left_out(self) -> dict[OmissionReason, int]:
        """Return what the last reading left out, by reason."""
        counts: Counter[OmissionReason] = Counter({OmissionReason.OTHER_FILE: self.source.other_files})
        for transcript in self.source.found:
            counts.update(transcript.left_out)
        return {reason: counts[reason] for reason in OmissionReason if counts[reason]}


def _nothing_found(left_out: dict[OmissionReason, int]) -> str:
    told = ", ".join(f"{count} {reason.value}" for reason, count in left_out.items())
    return f"holds no messages to store; left out: {told}" if told else "holds no messages"


def _home_conversation(scope: Scope, transcript: FoundTranscript) -> ConversationKey:
    """Return the conversation of messages that name none: the scope's, else one of this very place."""
    if scope.conversation is not None or scope.chat is not None:
        return scope.conversation_key
    place = strict_json.sha256_digest(transcript.place.encode("utf-8", "surrogateescape"))[:PLACE_DIGITS]
    return ConversationKey(scope.channel, f"{_file_stem(transcript.name) or 'file'}-{place}")


def _file_stem(name: str) -> str | None:
    """Return a file's name without its suffix, printable and on one line."""
    return message_shape.optional_title(Path(name).stem[:STEM_CHARS])


def _message_batches(messages: Iterator[SaidMessage]) -> Iterator[_TurnBatch]:
    """Yield the messages in batches of one conversation each, and all that wait when too much does."""
    waiting: dict[ConversationKey, list[SaidMessage]] = {}
    chars: Counter[ConversationKey] = Counter()
    for said in messages:
        key = said.conversation
        waiting.setdefault(key, []).append(said)
        chars[key] += len(said.turn.messages[0].text)
        if sum(map(len, waiting.values())) >= HELD_TURNS or chars.total() >= HELD_CHARS:
            due = tuple(waiting)
        else:
            due = (key,) if len(waiting[key]) >= BATCH_TURNS or chars[key] >= BATCH_CHARS else ()
        for full in due:
            chars.pop(full)
            yield _TurnBatch(full, tuple(waiting.pop(full)))
    for key, turns in waiting.items():
        yield _TurnBatch(key, tuple(turns))


def _batch_request(scope: Scope, batch: _TurnBatch, *, dry_run: bool = False) -> MemoryWriteRequest:
    where = {"channel": batch.conversation.channel, "conversation": batch.conversation.conversation, "chat": None}
    return MemoryWriteRequest(
        scope=scope.model_copy(update=where),
        dry_run=dry_run,
        write=TranscriptWrite(
            turns=tuple(said.turn for said in batch.turns),
            origin=TurnOrigin.IMPORTED,
            title=batch.turns[-1].title,
        ),
    )
