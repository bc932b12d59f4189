"""Finding what is damaged in a space of a file store, and moving it aside."""

import os
import shutil
from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import NamedTuple

from elytron_core.clock import Instant
from elytron_core.errors import StoreCorrupt, StoreForeign
from elytron_core.ids import SpaceId
from elytron_core.ports.store import DocumentRef, JournalAction
from elytron_core.ports.store_checks import CheckReport, CheckTally, DamageKind, StoreLoss, StoreProblem
from elytron_store import engine
from elytron_store.file import blobs, disk, generation, records
from elytron_store.file.disk import (
    ENGINE,
    StorePaths,
    folder_name,
    locked_file,
    make_folder,
    move_durably,
    while_reading,
    while_writing,
)
from elytron_store.file.frame import HEADER_BYTES, open_answer, open_document
from elytron_store.file.generation import NewFrame
from elytron_store.file.log import BodySpan, GenerationLog, LogContents, LogHole, entries_of, read_sealed
from elytron_store.ledger import AnsweredRequest
from elytron_store.limits import BUSY_WAIT_S
from elytron_store.manifest import StoreManifest, is_folder, is_there, known_manifest
from elytron_store.private_files import sync_path
from elytron_store.sealed.records import KEYRING, SEALED_LOST, shows_seal

_STRETCH = "log."
_NAMED_PIECES = 5
"""Number of damaged pieces that a loss names; the report lists all of them."""


def keep_file(paths: StorePaths, name: str, label: str, path: Path, /) -> None:
    """Quarantine the file at `path` under `label`. Raises OSError."""
    move_durably(path, folder_of(paths, name) / label)


def document_label(ref: DocumentRef, revision: int, /) -> str:
    return f"document.{ref.collection}.{ref.key}.{revision}"


def stretch_label(offset: int, salt: bytes, /) -> str:
    return f"{_STRETCH}{offset}.{salt.hex()}"


def blob_label(key: str, /) -> str:
    return f"blob.{key}"


def forget_pieces(paths: StorePaths, name: str, /, *, refs: Collection[DocumentRef], blobs: Collection[str]) -> None:
    """Remove the pieces that an erasure names, and every part of a log that could contain some of it. Raises
    OSError."""
    folder = paths.quarantine / name
    if not is_folder(folder):
        return
    for path in folder.iterdir():
        if is_named(path.name, refs=refs, blobs=blobs):
            path.unlink(missing_ok=True)
    sync_path(folder)


def is_named(label: str, /, *, refs: Collection[DocumentRef], blobs: Collection[str]) -> bool:
    """Return whether an erasure of `refs` and `blobs` concerns the piece under `label`; unidentified parts always
    match."""
    # A document's label ends in its revision; keys may contain dots, so the rest must be that number only.
    stem = label.rpartition(".")[0]
    is_document = any(stem == f"document.{ref.collection}.{ref.key}" for ref in refs)
    return is_document or label.startswith(_STRETCH) or any(label == blob_label(key) for key in blobs)


def clear_pieces(paths: StorePaths, name: str, /) -> None:
    """Remove everything of a space. Raises OSError."""
    folder = paths.quarantine / name
    if is_folder(folder):
        shutil.rmtree(folder)
        sync_path(paths.quarantine)


def folder_of(paths: StorePaths, name: str, /) -> Path:
    """Return the folder for the damaged pieces of a space, created if missing. Raises OSError."""
    disk.make_folder(paths.quarantine)
    folder = paths.quarantine / name
    disk.make_folder(folder)
    return folder


class SpaceDamage(NamedTuple):
    """One piece of damage; `content` says whether content is quarantined, or only a spare copy is damaged.

    A stored answer, which is no `memory`, is quarantined but does not count as a loss.
    """

    damage: DamageKind
    what: str
    content: bool = True
    memory: bool = True


class BrokenDocument(NamedTuple):
    """A document whose body is damaged."""

    ref: DocumentRef
    revision: int
    sealed: bytes


@dataclass(slots=True)
class SpaceFindings:
    """Contents of one space folder and their damage. Without a `space` its name is lost."""

    space: SpaceId | None = None
    documents: int = 0
    entries: int = 0
    blobs: int = 0
    troubles: list[SpaceDamage] = field(default_factory=list[SpaceDamage])
    lost_entries: int = 0
    missing: int = 0
    """Number of documents that the journal names and the log lacks, if frames of it are lost."""
    has_log: bool = True
    has_end: bool = True
    """Whether the last frame of the log is readable, so that no entry after it is lost."""
    loss: StoreLoss | None = None
    """Losses that earlier repairs recorded."""

    def lost_at(self, at: Instant, /, *, missing_before: int) -> StoreLoss | None:
        """Return what a repair at `at` cannot save; `missing_before` documents were counted by an earlier one."""
        lost_troubles = [trouble for trouble in self.troubles if trouble.content and trouble.memory]
        if not lost_troubles:
            return None
        counts = Counter(trouble.damage for trouble in lost_troubles)
        documents = counts[DamageKind.DOCUMENT] + max(0, self.missing - missing_before)
        is_log_intact = (
            self.has_log and self.has_end and not (documents or self.lost_entries or counts[DamageKind.BLOB])
        )
        if is_log_intact:  # bytes inserted between two frames, which are all there
            return None
        descriptions = [trouble.what for trouble in lost_troubles if trouble.damage is DamageKind.ENGINE]
        descriptions += [
            f"damaged {damage.value}s" for damage in (DamageKind.DOCUMENT, DamageKind.BLOB) if counts[damage]
        ]
        description = "; ".join(descriptions[:_NAMED_PIECES])
        return StoreLoss(self.space, documents, self.lost_entries, counts[DamageKind.BLOB], at, description)

    def problems(self, *, repaired: bool) -> Iterator[StoreProblem]:
        """Yield the damage as a report names it."""
        for damage, what, content, _ in self.troubles:
            yield StoreProblem(damage=damage, space=self.space, what=what, quarantined=repaired and content)


def findings_report(
    findings: Sequence[SpaceFindings], problems: Sequence[StoreProblem], /, *, losses: Sequence[StoreLoss] = ()
) -> CheckReport:
    """Return the combined report on all spaces."""
    return CheckTally(
        spaces=len(findings),
        documents=sum(each.documents for each in findings),
        entries=sum(each.entries for each in findings),
        blobs=sum(each.blobs for each in findings),
    ).report(problems, losses=losses)


def examine_space(paths: StorePaths, name: str, /) -> SpaceFindings | None:
    """Read every byte of the space folder `name`; return the findings, None if the space no longer exists."""
    findings = SpaceFindings()
    with while_reading("the record of a space"):
        is_recorded = records.is_recorded(paths, name)
        try:
            findings.space = records.recorded_space(paths, name)
        except StoreCorrupt as damage_error:
            findings.troubles.append(SpaceDamage(DamageKind.ENGINE, damage_error.what, content=False))
    log = None
    try:
        log = GenerationLog.open(paths.log_of(name), realigns=True)
    except StoreCorrupt as damage:
        findings.troubles.append(SpaceDamage(DamageKind.ENGINE, damage.what))
    else:
        if log is None and not is_recorded:
            return None
        if log is None:
            findings.troubles.append(SpaceDamage(DamageKind.ENGINE, "the log of a space that has begun"))
    findings.has_log = log is not None
    if log is not None:
        with log:
            findings.space = log.header.space
            examine_log(log, findings)
    for key in blobs.blob_keys(paths, name):
        file = blobs.open_blob(paths, name, key)
        if file is None:
            continue  # removed since it was listed
        with file:
            findings.blobs += 1
            if not blobs.is_whole(file, name, key):
                findings.troubles.append(SpaceDamage(DamageKind.BLOB, f"blob {key}"))
    return findings


def repair_space(paths: StorePaths, name: str, /, *, at: Instant, busy_wait_s: float) -> SpaceFindings | None:
    """Quarantine damaged pieces in the space folder `name` and rewrite the rest; return the findings.

    A lost journal entry leaves a placeholder, so that sequences stay gapless. Readable content is preserved, and losses
    are recorded.
    """
    with locked_file(paths.lock_of(name), wait_s=busy_wait_s), while_writing("repairing"):
        # First, since the torn frame of a dead writer is no damage.
        generation.recover_log(paths.log_of(name))
        findings = examine_space(paths, name)
        if findings is None or not findings.troubles:
            return findings
        missing_count = records.read_note(paths, name).missing
        findings.loss = findings.lost_at(at, missing_before=missing_count)
        # First: if interrupted after this, a repair counts losses twice rather than never.
        if findings.loss is not None:
            records.record_loss(paths, name, findings.loss, missing=findings.loss.documents)
        if not findings.has_log:
            _replace_log(paths, name, findings.space)
            return findings
        _mend_blobs(paths, name)
        log = GenerationLog.open(paths.log_of(name), realigns=True)
        if log is not None:
            with log:
                _mend_log(paths, name, log)
        if findings.space is not None:
            records.drop_record(paths, name)
            records.record_space(paths, findings.space)
        return findings


def _replace_log(paths: StorePaths, name: str, space: SpaceId | None) -> None:
    """Quarantine the remains of a log whose header is lost, so that no frame can be recognised.

    Under a known name the space continues, empty except for its blobs, so that it is not mistaken for a new one.
    """
    if space is None:
        if is_folder(paths.spaces / name):
            move_durably(paths.spaces / name, folder_of(paths, name) / f"space.{os.urandom(8).hex()}")
        records.drop_record(paths, name)
        return
    _mend_blobs(paths, name)
    if is_there(paths.log_of(name)):
        keep_file(paths, name, stretch_label(0, os.urandom(8)), paths.log_of(name))
    make_folder(paths.spaces / name)
    generation.write_new(paths.log_of(name), space, (), instead_of=None)


def rescue_folder(path: Path, /, *, at: Instant, repair: bool, sealed: bool = False) -> CheckReport:
    """Return what the store in the folder `path` contains and what is damaged; the store need not open.

    With `repair`, damaged pieces are quarantined, and an unreadable manifest is replaced. Blocks: call it in a worker
    thread. Raises StoreForeign if the folder has no space of a store, or nothing shows that it was `sealed`; StoreBusy.
    """
    paths = StorePaths(path)
    with while_reading("the store"):
        names = records.space_names(paths)
    if not names and not is_folder(paths.losses):
        raise StoreForeign("this folder contains no part of a store: restore it from a backup")
    problems: list[StoreProblem] = []
    with while_reading("the store"):
        manifest_bytes = paths.manifest.read_bytes() if paths.manifest.exists() else b""
    if known_manifest(manifest_bytes, engine=ENGINE) is None:
        problems.append(StoreProblem(DamageKind.ENGINE, None, "the manifest", quarantined=repair))
        if repair:
            # With a wrong manifest, a sealed store would be opened, and written to, unsealed.
            is_sealed = paths.log_of(folder_name(KEYRING)).exists() or shows_seal(_named_spaces(paths, names))
            if sealed and not is_sealed:
                raise StoreForeign(SEALED_LOST)
            with while_writing("repairing"):
                if paths.manifest.exists():
                    make_folder(paths.quarantine)
                    move_durably(paths.manifest, paths.quarantine / f"manifest.{os.urandom(8).hex()}")
                disk.write_file(paths.manifest, StoreManifest.fresh(ENGINE, at=at, sealed=is_sealed).to_bytes())
    findings: list[SpaceFindings] = []
    for name in names:
        space_findings = (
            repair_space(paths, name, at=at, busy_wait_s=BUSY_WAIT_S) if repair else examine_space(paths, name)
        )
        if space_findings is not None:
            findings.append(space_findings)
            problems.extend(space_findings.problems(repaired=repair))
    return findings_report(
        findings,
        problems,
        losses=[space_findings.loss for space_findings in findings if space_findings.loss is not None],
    )


def _named_spaces(paths: StorePaths, names: Sequence[str]) -> Iterator[SpaceId]:
    """Yield the names of the spaces whose log header is intact."""
    for name in names:
        with suppress(StoreCorrupt):
            log = GenerationLog.open(paths.log_of(name))
            if log is not None:
                with log:
                    yield log.header.space


def examine_log(log: GenerationLog, findings: SpaceFindings, /) -> None:
    """Read all of `log`, and add its contents and damage to `findings`."""
    troubles = findings.troubles
    if not log.header.sound:
        troubles.append(SpaceDamage(DamageKind.ENGINE, "one copy of a log's header", content=False))
    log_contents = LogContents(log.header.salt)
    next_sequence = 1
    for block in log.frames(HEADER_BYTES, log.acknowledged):
        findings.has_end = not isinstance(block, LogHole)
        if isinstance(block, LogHole):
            log_contents.holes.append(block)
            description = f"{block.end - block.start} bytes of a log at {block.start}"
            troubles.append(SpaceDamage(DamageKind.ENGINE, description))
            continue
        log_contents.apply(block)
        if not log.has_both_copies(block):
            troubles.append(
                SpaceDamage(DamageKind.JOURNAL_ENTRY, f"one copy of the record at {block.offset}", content=False)
            )
        for entry in entries_of(block):
            if entry.first != next_sequence:
                findings.lost_entries += max(0, entry.first - next_sequence)
                lost_range = f"journal entries {next_sequence} to {entry.first - 1}"
                troubles.append(SpaceDamage(DamageKind.JOURNAL_GAP, lost_range, content=False))
            next_sequence = entry.sequence + 1
            findings.entries += 1
    findings.documents = len(log_contents.ledger)
    for broken_document in _broken_documents(log, log_contents):
        troubles.append(
            SpaceDamage(DamageKind.DOCUMENT, f"document {broken_document.ref.collection}/{broken_document.ref.key}")
        )
    for broken_answer in _broken_answers(log, log_contents):
        request = f"the stored answer to the request of entries {broken_answer.first} to {broken_answer.last}"
        troubles.append(SpaceDamage(DamageKind.ENGINE, request, memory=False))
    if log_contents.holes:
        findings.missing = _count_missing(log, log_contents)


def _count_missing(log: GenerationLog, contents: LogContents) -> int:
    """Return the number of documents that exist by the journal's last entry but are in no frame."""
    is_stored_by_ref: dict[DocumentRef, bool] = {}
    for block in log.frames(HEADER_BYTES, log.acknowledged):
        for entry in () if isinstance(block, LogHole) else entries_of(block):
            is_last_stored = entry.action is not JournalAction.DELETE
            is_stored_by_ref[entry.ref] = is_last_stored and bool(entry.digest) and entry.covers == 1
    return sum(is_there and contents.ledger.find(ref) is None for ref, is_there in is_stored_by_ref.items())


def _mend_blobs(paths: StorePaths, name: str) -> None:
    for key in blobs.blob_keys(paths, name):
        file = blobs.open_blob(paths, name, key)
        if file is None:
            continue
        with file:
            is_blob_whole = blobs.is_whole(file, name, key)
        if not is_blob_whole:
            keep_file(paths, name, blob_label(key), paths.blob_of(name, key))


def _mend_log(paths: StorePaths, name: str, log: GenerationLog) -> None:
    pieces, frames = mended_log(log)
    for label, piece in pieces:
        disk.write_file(folder_of(paths, name) / label, piece)
    generation.write_new(paths.log_of(name), log.header.space, frames, instead_of=log)


def mended_log(log: GenerationLog, /) -> tuple[Sequence[tuple[str, bytes]], Iterator[NewFrame]]:
    """Return the damaged pieces of `log` by quarantine label, and the frames of everything that is left."""
    log_contents = LogContents(log.header.salt)
    log_contents.catch_up(log)
    pieces = [
        (stretch_label(hole_span.start, log.header.salt), log.read(hole_span.start, hole_span.end - hole_span.start))
        for hole_span in log_contents.holes
    ]
    for ref, revision, sealed_bytes in list(_broken_documents(log, log_contents)):
        pieces.append((document_label(ref, revision), sealed_bytes))
        log_contents.ledger.remove(ref)
    # As a list: the records are walked in place, and the loop removes some.
    for broken_answer in list(_broken_answers(log, log_contents)):
        # Without its answer the record is useless; a repeat is checked by the revisions of its documents instead.
        label = stretch_label(broken_answer.answer.at, log.header.salt)
        pieces.append((label, read_sealed(log, broken_answer.answer)))
        log_contents.ledger.drop(broken_answer.key)
    refs = [ref for ref, _ in log_contents.ledger.items()] if log_contents.holes else []
    rewrite_journal = partial(engine.named_journal, refs=refs)
    return pieces, generation.snapshot_frames(log, log_contents, without=frozenset(), rewrite=rewrite_journal)


def _broken_documents(log: GenerationLog, contents: LogContents) -> Iterator[BrokenDocument]:
    for ref, document in sorted(contents.ledger.items(), key=lambda item: item[1].body.at):
        sealed_bytes = read_sealed(log, document.body)
        if open_document(ref, document.revision, sealed_bytes) is None:
            yield BrokenDocument(ref, document.revision, sealed_bytes)


def _broken_answers(log: GenerationLog, contents: LogContents) -> Iterator[AnsweredRequest[BodySpan]]:
    for stored_answer in contents.ledger.answered():
        if open_answer(stored_answer.key, read_sealed(log, stored_answer.answer)) is None:
            yield stored_answer
