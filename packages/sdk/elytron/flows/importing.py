"""Import of a transcript file: read once to be sure of it, then committed in batches, each message once for ever."""

import asyncio
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from os import PathLike
from pathlib import Path
from typing import Protocol

from elytron.transcripts import Format, Said, open_transcript
from elytron_core.clock import Instant
from elytron_core.contracts.writing import MemoryWriteReport, MemoryWriteRequest, Outcome, TranscriptWrite
from elytron_core.errors import ScopeMissing, UnreadableFile
from elytron_core.model import Value
from elytron_core.planes.transcript import Origin
from elytron_core.scope import ConversationKey, Scope

BATCH_TURNS = 400
BATCH_CHARS = 4_000_000
HELD_TURNS = 4_000
HELD_CHARS = 16_000_000
"""What is held for batches that are not full yet, where many conversations are mixed in one file."""

Progress = Callable[[int, int], None]
"""Called with the bytes of the file that are committed, and how many it has."""


class Writes(Protocol):
    """What an import needs of a runtime."""

    @property
    def scope(self) -> Scope | None:
        """Return the scope of writes that name none."""
        ...

    async def write(self, request: MemoryWriteRequest, /) -> MemoryWriteReport:
        """Commit the request."""
        ...


class TranscriptImportReport(Value):
    """What an import found in the file and what of it was new. `changed` is false where all was there before."""

    space: str
    file: str
    format: Format
    conversations: int
    messages: int
    stored: int
    duplicates: int
    first_at: Instant | None = None
    last_at: Instant | None = None
    changed: bool
    dry_run: bool = False
    sequence: int = 0


@dataclass(slots=True)
class _Seen:
    """What the first reading, which judges the whole file, found."""

    messages: int = 0
    conversations: set[ConversationKey] = field(default_factory=set[ConversationKey])
    first_at: Instant | None = None
    last_at: Instant | None = None

    def count(self, messages: Iterator[Said]) -> Iterator[Said]:
        """Yield `messages`, each counted in."""
        for said in messages:
            self._add(said)
            yield said

    def _add(self, said: Said) -> None:
        self.messages += 1
        self.conversations.add(said.conversation)
        at = said.turn.messages[0].at
        if at is not None:
            self.first_at = at if self.first_at is None else min(self.first_at, at)
            self.last_at = at if self.last_at is None else max(self.last_at, at)


@dataclass(frozen=True, slots=True)
class _Batch:
    """Turns of one conversation, to be committed together."""

    conversation: ConversationKey
    turns: tuple[Said, ...]


async def import_transcript(
    memory: Writes,
    path: str | PathLike[str],
    /,
    *,
    scope: Scope | None = None,
    progress: Progress | None = None,
    dry_run: bool = False,
) -> TranscriptImportReport:
    """Commit the messages of the transcript at `path` as evidence, in order and with their own times.

    The whole file is read and judged before its first message is stored. A message that is there already is left
    alone, so a file can be imported again, also when it has grown or an import was broken off. Messages that name no
    conversation go to the scope's, else to one named like the file. Raises UnreadableFile, and ScopeMissing.
    """
    scope = scope or memory.scope
    if scope is None:
        raise ScopeMissing(operation="import_transcript", way_out="give scope=, or open the runtime with space=")
    file = Path(path)
    transcript = await asyncio.to_thread(open_transcript, file)
    with transcript:
        home = _home(scope, file)
        seen = _Seen()
        judged = _batches(seen.count(transcript.messages(home)))
        while (batch := await asyncio.to_thread(next, judged, None)) is not None:
            await memory.write(_request(scope, batch, dry_run=True))
        if not seen.messages:
            raise UnreadableFile(name=transcript.name, problem="holds no messages")
        stored = duplicates = sequence = 0
        batches = _batches(transcript.messages(home)) if not dry_run else iter(())
        while (batch := await asyncio.to_thread(next, batches, None)) is not None:
            report = await memory.write(_request(scope, batch))
            stored += report.count(Outcome.STORED)
            duplicates += report.count(Outcome.DUPLICATE)
            sequence = max(sequence, report.sequence)
            if progress is not None:
                progress(batch.turns[-1].done_bytes, transcript.size_bytes)
    return TranscriptImportReport(
        space=scope.space,
        file=transcript.name,
        format=transcript.format,
        conversations=len(seen.conversations),
        messages=seen.messages,
        stored=stored,
        duplicates=duplicates,
        first_at=seen.first_at,
        last_at=seen.last_at,
        changed=stored > 0,
        dry_run=dry_run,
        sequence=sequence,
    )


def _home(scope: Scope, file: Path) -> ConversationKey:
    if scope.conversation is not None or scope.chat is not None:
        return scope.conversation_key
    stem = " ".join("".join(char if char.isprintable() else " " for char in file.stem).split())
    return ConversationKey(scope.channel, stem[:100] or scope.conversation_key.conversation)


def _batches(messages: Iterator[Said]) -> Iterator[_Batch]:
    """Yield the messages in batches of one conversation each, and all that wait when too much does."""
    waiting: dict[ConversationKey, list[Said]] = {}
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
            yield _Batch(full, tuple(waiting.pop(full)))
    for key, turns in waiting.items():
        yield _Batch(key, tuple(turns))


def _request(scope: Scope, batch: _Batch, *, dry_run: bool = False) -> MemoryWriteRequest:
    where = {"channel": batch.conversation.channel, "conversation": batch.conversation.conversation, "chat": None}
    return MemoryWriteRequest(
        scope=scope.model_copy(update=where),
        dry_run=dry_run,
        write=TranscriptWrite(
            turns=tuple(said.turn for said in batch.turns),
            origin=Origin.IMPORTED,
            title=batch.turns[-1].title,
        ),
    )
