"""Writing a space's log: the next frames behind the acknowledged ones, or a whole new generation."""

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from io import FileIO
from itertools import chain
from pathlib import Path
from typing import NamedTuple

from elytron_core.errors import Conflict, StoreCorrupt
from elytron_core.ids import SpaceId
from elytron_core.ports.store import (
    Batch,
    CommitReceipt,
    CompactedRun,
    DocumentRef,
    ErasureTarget,
    JournalEntry,
    erasure_entries,
)
from elytron_store import engine
from elytron_store.commit_queue import Outcome
from elytron_store.file import disk
from elytron_store.file.disk import move_durably, sync_file, write_all
from elytron_store.file.frame import (
    ACKNOWLEDGED_AT,
    CHECKSUM_BYTES,
    HEADER_BYTES,
    SALT_BYTES,
    FrameBlock,
    FrameRecord,
    LoggedAnswer,
    LoggedDocument,
    LoggedEntry,
    encode_acknowledged,
    encode_frame,
    encode_header,
    seal_answer,
    seal_document,
)
from elytron_store.file.log import (
    BodySpan,
    GenerationLog,
    LogContents,
    LogHole,
    LogView,
    entries_of,
    read_answer,
    read_sealed,
)
from elytron_store.ledger import LedgerStage

_FRAME_BODIES_BYTES = 1024 * 1024
_READ_BYTES = 4 * _FRAME_BODIES_BYTES
_FRAME_ITEMS = 1_000
"""Limits of a frame in a rewritten log, which is in memory as a whole."""

Rewrite = Callable[[Iterator[JournalEntry]], Iterable[JournalEntry]]
"""Transforms a journal for a new generation."""


class NewFrame(NamedTuple):
    """A frame about to be written: its record and its sealed bodies, documents first."""

    record: FrameRecord
    bodies: Sequence[bytes]


def encode_frames(frames: Iterable[NewFrame], /, *, salt: bytes, offset: int) -> bytes:
    """Return the bytes of `frames` placed from `offset` on."""
    data = bytearray()
    for new_frame in frames:
        data += encode_frame(new_frame.record, new_frame.bodies, salt=salt, offset=offset + len(data))
    return bytes(data)


def append_frames(path: Path, data: bytes, /, *, salt: bytes, start: int) -> None:
    """Append `data` at offset `start` of the log at `path`, durable and acknowledged, or not at all.

    Raises OSError; the log is then cut back to `start`, unless even that failed.
    """
    with FileIO(path, "r+") as file:
        try:
            file.seek(start)
            write_all(file, data)
            sync_file(file)
            # After the sync: a mark may never name frames that a power cut can still remove.
            acknowledge_end(file, salt, start + len(data))
        except OSError:
            file.truncate(start)
            raise


def acknowledge_end(file: FileIO, salt: bytes, end: int, /) -> None:
    """Mark everything before `end` as durable in the header; the mark itself becomes durable with the next sync."""
    file.seek(ACKNOWLEDGED_AT)
    write_all(file, encode_acknowledged(salt, end))


def recover_log(path: Path, /) -> None:
    """Settle the bytes after the acknowledged end of the log at `path`; the caller holds the space's lock.

    A writer that died left whole frames or a torn one. Whole frames are acknowledged, since their caller may have been
    answered before a power cut lost the header's update; the first torn one and everything after it is cut off.
    """
    try:
        log = GenerationLog.open(path)
    except StoreCorrupt:
        return  # nothing can be settled after a lost header; readers will report it
    if log is None:
        return
    with log:
        acknowledged_end, size, salt = log.acknowledged, log.size(), log.header.salt
        if size <= acknowledged_end:
            return
        sound_end = acknowledged_end
        for block in log.frames(acknowledged_end, size):
            if isinstance(block, LogHole) or not log.is_whole(block):
                break
            sound_end = block.end
        if sound_end < size and any(isinstance(block, LogHole) for block in log.frames(HEADER_BYTES, acknowledged_end)):
            return  # bytes inserted into a damaged log moved its last frames beyond that end: a repair finds them there
        unacknowledged_bytes = log.read(acknowledged_end, sound_end - acknowledged_end)
    with FileIO(path, "r+") as file:
        file.truncate(sound_end)
        file.seek(acknowledged_end)
        # Written again: after a failed sync the system may consider these bytes clean although they are not.
        write_all(file, unacknowledged_bytes)
        sync_file(file)
        acknowledge_end(file, salt, sound_end)


def is_unsettled(path: Path, /) -> bool:
    """Return whether there are bytes after the acknowledged end of the log at `path`."""
    log = GenerationLog.open(path)
    if log is None:
        return False
    with log:
        return log.size() > log.acknowledged


def write_new(path: Path, space: SpaceId, frames: Iterable[NewFrame], /, *, instead_of: GenerationLog | None) -> None:
    """Replace the log at `path` by a new generation of `frames`, atomically and durably.

    `instead_of`, which the frames may be read from, is closed before it is replaced: Windows cannot replace an open
    file.
    """
    new_path = path.with_name(f"{path.name}.new")
    salt = os.urandom(SALT_BYTES)
    try:
        with disk.create_file(new_path) as file:
            end = HEADER_BYTES
            write_all(file, encode_header(salt, space, acknowledged=end))
            for new_frame in frames:
                data = encode_frames((new_frame,), salt=salt, offset=end)
                write_all(file, data)
                end += len(data)
            # One sync is enough here: without its final name the file has no reader.
            acknowledge_end(file, salt, end)
            sync_file(file)
        if instead_of is not None:
            instead_of.close()
        move_durably(new_path, path)
    except BaseException:
        new_path.unlink(missing_ok=True)
        raise


def snapshot_frames(
    log: GenerationLog, log_contents: LogContents, /, *, without: frozenset[DocumentRef], rewrite: Rewrite
) -> Iterator[NewFrame]:
    """Yield frames with all of `log_contents` except the documents `without`, and with a rewritten journal.

    Bodies are copied with their checksums, so damage is preserved. Lost entries leave placeholders.
    """
    yield from _journal_frames(log, log_contents, rewrite)
    yield from _body_frames(log, log_contents, without)
    answers = [
        (
            LoggedAnswer(record.key, record.digest, record.first, record.last, record.at, record.answer.size),
            record.answer,
        )
        for record in log_contents.ledger.answered()
    ]
    for start in range(0, len(answers), _FRAME_ITEMS):
        answer_slice = answers[start : start + _FRAME_ITEMS]
        yield NewFrame(
            FrameRecord(answers=tuple(record for record, _ in answer_slice)),
            _sealed_bodies(log, [span for _, span in answer_slice]),
        )


def entries_frame(first: int, entries: Iterable[JournalEntry], /) -> NewFrame:
    """Return a frame with only journal entries."""
    frame_entries = tuple(
        LoggedEntry(entry.at, entry.action, *entry.ref, entry.digest, entry.covers) for entry in entries
    )
    return NewFrame(FrameRecord(first=first, entries=frame_entries), ())


def _journal_frames(log: GenerationLog, contents: LogContents, rewrite: Rewrite) -> Iterator[NewFrame]:
    frame_entries: list[JournalEntry] = []
    for entry in rewrite(_gapless_entries(log.frames(HEADER_BYTES, contents.end))):
        frame_entries.append(entry)
        if len(frame_entries) == _FRAME_ITEMS:
            yield entries_frame(frame_entries[0].first, frame_entries)
            frame_entries.clear()
    if frame_entries:
        yield entries_frame(frame_entries[0].first, frame_entries)


def _gapless_entries(blocks: Iterable[FrameBlock | LogHole]) -> Iterator[JournalEntry]:
    next_sequence = 1
    for block in blocks:
        if isinstance(block, LogHole):
            # The sequence of the next entry shows how many were lost.
            continue
        for entry in entries_of(block):
            for lost_sequence in range(next_sequence, entry.first):
                yield engine.lost_entry(lost_sequence, entry.at)
            yield entry
            next_sequence = entry.sequence + 1


def _body_frames(log: GenerationLog, contents: LogContents, without: frozenset[DocumentRef]) -> Iterator[NewFrame]:
    # In file order, so that the old generation is read from front to back.
    order = sorted(contents.ledger.items(), key=lambda item: item[1].body.at)
    documents: list[LoggedDocument] = []
    spans: list[BodySpan] = []
    body_bytes = 0
    for ref, document in order:
        if ref in without:
            continue
        documents.append(LoggedDocument(*ref, document.revision, document.body.size))
        spans.append(document.body)
        body_bytes += document.body.size
        if len(documents) == _FRAME_ITEMS or body_bytes >= _FRAME_BODIES_BYTES:
            yield _documents_frame(log, documents, spans)
            documents, spans, body_bytes = [], [], 0
    if documents:
        yield _documents_frame(log, documents, spans)


def _documents_frame(log: GenerationLog, documents: Sequence[LoggedDocument], spans: Sequence[BodySpan]) -> NewFrame:
    return NewFrame(FrameRecord(documents=tuple(documents)), _sealed_bodies(log, spans))


def _sealed_bodies(log: GenerationLog, spans: Sequence[BodySpan]) -> Sequence[bytes]:
    start = min((span.at for span in spans), default=0)
    size = max((span.at + CHECKSUM_BYTES + span.size for span in spans), default=0) - start
    # Adjacent bodies are read at once: a rewrite reads every body of the space.
    nearby_bytes = log.read(start, size) if size <= _READ_BYTES else None
    bodies = (
        read_sealed(log, span)
        if nearby_bytes is None
        else nearby_bytes[span.at - start : span.at - start + CHECKSUM_BYTES + span.size]
        for span in spans
    )
    # Bytes lost to damage are filled in, so that the frame has its form; the checksums still reveal them.
    return [body.ljust(CHECKSUM_BYTES + span.size, b"\0") for body, span in zip(bodies, spans, strict=True)]


class DigestScrub:
    """Removes the digest from every entry that names one of `refs`, and counts them."""

    def __init__(self, refs: frozenset[DocumentRef], /) -> None:
        self.count = 0
        self._refs = refs

    def __call__(self, entries: Iterable[JournalEntry], /) -> Iterator[JournalEntry]:
        for entry in entries:
            if entry.ref in self._refs and entry.digest:
                self.count += 1
                yield replace(entry, digest="")
            else:
                yield entry


class CompactedRuns:
    """Replaces each of `runs` with one entry, and counts the remaining entries. Raises Conflict."""

    def __init__(self, runs: Sequence[CompactedRun], /) -> None:
        self.count = 0
        self._runs = runs

    def __call__(self, entries: Iterable[JournalEntry], /) -> Iterator[JournalEntry]:
        for entry in engine.compacted_journal(entries, self._runs):
            self.count += 1
            yield entry


class ErasureRemainder(NamedTuple):
    """Result of an erasure: the frames of a new generation, the number of removed documents, and its journal entry."""

    frames: Iterator[NewFrame]
    documents: int
    sequence: int


def left_by(erasure: ErasureTarget, scrub: DigestScrub, view: LogView, /) -> ErasureRemainder:
    """Return what remains of a log after `erasure` of documents; `scrub` counts entries while the frames are
    consumed."""
    refs, ledger = frozenset(erasure.refs), view.contents.ledger
    frames = snapshot_frames(*view, without=refs, rewrite=scrub)
    entries = erasure_entries(erasure, after=ledger.last)
    last_frames = (
        entries_frame(entries[start].first, entries[start : start + _FRAME_ITEMS])
        for start in range(0, len(entries), _FRAME_ITEMS)
    )
    documents = sum(ledger.find(ref) is not None for ref in refs)
    return ErasureRemainder(chain(frames, last_frames), documents, entries[-1].sequence)


def judge_batches(batches: Sequence[Batch], view: LogView, /) -> tuple[list[Outcome], list[NewFrame]]:
    """Return each batch's outcome, and the frames to append for those that change something."""
    stage = LedgerStage(view.contents.ledger)
    outcomes: list[Outcome] = []
    frames: list[NewFrame] = []
    for batch in batches:
        try:
            repeated_receipt = stage.find_repeated(batch)
            if repeated_receipt is not None:
                answer = repeated_receipt.answer
                if isinstance(answer, BodySpan):
                    answer = read_answer(view.log, repeated_receipt.key, answer)
                outcomes.append(
                    CommitReceipt(repeated_receipt.first, repeated_receipt.last, replayed=True, answer=answer)
                )
                continue
            stage.require_expected(batch)
        # A damaged answer refuses only its own batch; the others of the group continue.
        except (Conflict, StoreCorrupt) as refusal:
            outcomes.append(refusal)
            continue
        receipt = stage.lay(batch)
        outcomes.append(receipt)
        frames.append(_frame_of(batch, receipt))
    return outcomes, frames


def _frame_of(batch: Batch, receipt: CommitReceipt) -> NewFrame:
    documents = tuple(LoggedDocument(*change.ref, change.expects + 1, len(change.body)) for change in batch.puts)
    sealed_documents = [
        seal_document(document, change.body) for document, change in zip(documents, batch.puts, strict=True)
    ]
    answers: tuple[LoggedAnswer, ...] = ()
    if batch.idempotency is not None:
        key, digest, answer = batch.idempotency.key, batch.idempotency.digest, batch.idempotency.answer
        answers = (LoggedAnswer(key, digest, receipt.first, receipt.last, batch.at, len(answer)),)
        sealed_documents.append(seal_answer(key, answer))
    record = FrameRecord(
        documents=documents,
        deletes=tuple(delete.ref for delete in batch.deletes),
        first=receipt.first,
        entries=tuple(
            LoggedEntry(
                batch.at if entry.at is None else entry.at, entry.action, *entry.ref, entry.digest, entry.covers
            )
            for entry in batch.entries
        ),
        answers=answers,
    )
    return NewFrame(record, sealed_documents)
