"""Finding what is damaged in a space of a file store, and moving it aside."""

import os
import shutil
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from elytron_core import limits
from elytron_core.errors import StoreCorrupt
from elytron_core.ids import SpaceId
from elytron_core.ports.store import CheckReport, Damage, Problem, Ref
from elytron_store.file import blobs, disk, frame, generation
from elytron_store.file.disk import Places, locked, move, sync_folder, while_writing
from elytron_store.file.generation import Frame
from elytron_store.file.log import Contents, Hole, Log, Span, entries_of, read_sealed
from elytron_store.ledger import Answered
from elytron_store.manifest import is_folder

_STRETCH = "log."


def keep(where: Places, name: str, label: str, data: bytes, /) -> None:
    """Leave `data` aside under `label`. Raises OSError."""
    disk.write_file(folder_of(where, name) / label, data)


def keep_file(where: Places, name: str, label: str, path: Path, /) -> None:
    """Move the file at `path` aside under `label`. Raises OSError."""
    move(path, folder_of(where, name) / label)


def document_label(ref: Ref, revision: int, /) -> str:
    return f"document.{ref.collection}.{ref.key}.{revision}"


def stretch_label(offset: int, salt: bytes, /) -> str:
    return f"{_STRETCH}{offset}.{salt.hex()}"


def blob_label(key: str, /) -> str:
    return f"blob.{key}"


def forget(where: Places, name: str, /, *, refs: Collection[Ref], blobs: Collection[str]) -> None:
    """Remove what an erasure names, and every stretch that could hold some of it. Raises OSError."""
    folder = where.quarantine / name
    if not is_folder(folder):
        return
    for path in folder.iterdir():
        if is_named(path.name, refs=refs, blobs=blobs):
            path.unlink(missing_ok=True)
    sync_folder(folder)


def is_named(label: str, /, *, refs: Collection[Ref], blobs: Collection[str]) -> bool:
    """Return whether an erasure of `refs` and `blobs` concerns the piece under `label`; each stretch may have some."""
    # A document's label ends in its revision; keys may hold dots, so the rest must be that number alone.
    stem = label.rpartition(".")[0]
    is_document = any(stem == f"document.{ref.collection}.{ref.key}" for ref in refs)
    return is_document or label.startswith(_STRETCH) or any(label == blob_label(key) for key in blobs)


def clear(where: Places, name: str, /) -> None:
    """Remove everything of a space. Raises OSError."""
    folder = where.quarantine / name
    if is_folder(folder):
        shutil.rmtree(folder)
        sync_folder(where.quarantine)


def folder_of(where: Places, name: str, /) -> Path:
    """Return the folder for the damaged pieces of a space, which is there afterwards. Raises OSError."""
    disk.make_folder(where.quarantine)
    folder = where.quarantine / name
    disk.make_folder(folder)
    return folder


class Trouble(NamedTuple):
    """One piece of damage; `content` says whether something is lost by it, or only a spare copy."""

    damage: Damage
    what: str
    content: bool = True


class Broken(NamedTuple):
    """A document whose body is damaged."""

    ref: Ref
    revision: int
    sealed: bytes


@dataclass(slots=True)
class Findings:
    """Contents of one space folder and their damage. Without a `space` its name is lost."""

    space: SpaceId | None = None
    documents: int = 0
    entries: int = 0
    blobs: int = 0
    troubles: list[Trouble] = field(default_factory=list[Trouble])

    def problems(self, *, repaired: bool) -> Iterator[Problem]:
        """Yield the troubles as a report names them."""
        for damage, what, content in self.troubles:
            yield Problem(damage=damage, space=self.space, what=what, quarantined=repaired and content)


def report(found: Sequence[Findings], problems: Sequence[Problem], /) -> CheckReport:
    """Return the report over the findings of all spaces."""
    return CheckReport(
        spaces=len(found),
        documents=sum(each.documents for each in found),
        entries=sum(each.entries for each in found),
        blobs=sum(each.blobs for each in found),
        problems=tuple(problems[: limits.PROBLEMS_MAX]),
        clipped=len(problems) > limits.PROBLEMS_MAX,
    )


def examine(where: Places, name: str, /) -> Findings | None:
    """Read every byte of the space folder `name`; return what was found, None if there is no space any more."""
    findings = Findings()
    try:
        log = Log.open(where.log_of(name))
    except StoreCorrupt as lost:
        findings.troubles.append(Trouble(Damage.ENGINE, lost.what))
    else:
        if log is None:
            return None
        with log:
            findings.space = log.header.space
            examine_log(log, findings)
    for key in blobs.keys(where, name):
        file = blobs.open_blob(where, name, key)
        if file is None:
            continue  # removed since it was listed
        with file:
            findings.blobs += 1
            if not blobs.is_whole(file, name, key):
                findings.troubles.append(Trouble(Damage.BLOB, f"blob {key}"))
    return findings


def repair(where: Places, name: str, /, *, busy_wait_s: float) -> Findings | None:
    """Move damaged pieces in the space folder `name` aside and rewrite the rest; return what was found.

    A lost journal entry leaves a placeholder, so that sequences stay gapless. What can be read is kept.
    """
    with locked(where.lock_of(name), wait_s=busy_wait_s), while_writing("repairing"):
        generation.recover(where.log_of(name))
        findings = examine(where, name)
        if findings is None or not findings.troubles:
            return findings
        if findings.space is None:
            # Behind a lost header no frame can be recognised, so all of the space is moved aside.
            aside = folder_of(where, name) / f"space.{os.urandom(8).hex()}"
            move(where.log_of(name).parent, aside)
            return findings
        _mend_blobs(where, name)
        log = Log.open(where.log_of(name))
        if log is not None:
            with log:
                _mend_log(where, name, log)
        return findings


def examine_log(log: Log, findings: Findings, /) -> None:
    """Read all of `log`, and add what it holds and what is damaged in it to `findings`."""
    troubles = findings.troubles
    if not log.header.sound:
        troubles.append(Trouble(Damage.ENGINE, "one copy of a log's header", content=False))
    contents = Contents(log.header.salt)
    wanted = 1
    for found in log.frames(frame.HEADER_BYTES, log.acknowledged):
        if isinstance(found, Hole):
            troubles.append(Trouble(Damage.ENGINE, f"{found.end - found.start} bytes of a log at {found.start}"))
            continue
        contents.apply(found)
        if not log.has_both_copies(found):
            troubles.append(Trouble(Damage.JOURNAL_ENTRY, f"one copy of the record at {found.offset}", content=False))
        for entry in entries_of(found):
            if entry.first != wanted:
                lost = f"journal entries {wanted} to {entry.first - 1}"
                troubles.append(Trouble(Damage.JOURNAL_GAP, lost, content=False))
            wanted = entry.sequence + 1
            findings.entries += 1
    findings.documents = len(contents.ledger)
    for broken in _broken_documents(log, contents):
        troubles.append(Trouble(Damage.DOCUMENT, f"document {broken.ref.collection}/{broken.ref.key}"))
    for answered in _broken_answers(log, contents):
        request = f"the answer kept for the request of entries {answered.first} to {answered.last}"
        troubles.append(Trouble(Damage.ENGINE, request))


def _mend_blobs(where: Places, name: str) -> None:
    for key in blobs.keys(where, name):
        file = blobs.open_blob(where, name, key)
        if file is None:
            continue
        with file:
            whole = blobs.is_whole(file, name, key)
        if not whole:
            keep_file(where, name, blob_label(key), where.blob_of(name, key))


def _mend_log(where: Places, name: str, log: Log) -> None:
    pieces, kept = mended(log)
    for label, piece in pieces:
        keep(where, name, label, piece)
    generation.write_new(where.log_of(name), log.header.space, kept, instead_of=log)


def mended(log: Log, /) -> tuple[Sequence[tuple[str, bytes]], Iterator[Frame]]:
    """Return the damaged pieces of `log` under the labels to keep them by, and the frames of all that is left."""
    contents = Contents(log.header.salt)
    contents.catch_up(log)
    pieces = [
        (stretch_label(hole.start, log.header.salt), log.read(hole.start, hole.end - hole.start))
        for hole in contents.holes
    ]
    for ref, revision, sealed in list(_broken_documents(log, contents)):
        pieces.append((document_label(ref, revision), sealed))
        contents.ledger.remove(ref)
    for answered in list(_broken_answers(log, contents)):
        # Without its answer the record is of no use; a repeat meets the revisions of its own documents instead.
        label = stretch_label(answered.answer.at, log.header.salt)
        pieces.append((label, read_sealed(log, answered.answer)))
        contents.ledger.drop(answered.key)
    return pieces, generation.snapshot(log, contents, without=frozenset(), rewrite=iter)


def _broken_documents(log: Log, contents: Contents) -> Iterator[Broken]:
    for ref, held in sorted(contents.ledger.items(), key=lambda item: item[1].body.at):
        sealed = read_sealed(log, held.body)
        if frame.open_document(ref, held.revision, sealed) is None:
            yield Broken(ref, held.revision, sealed)


def _broken_answers(log: Log, contents: Contents) -> Iterator[Answered[Span]]:
    for answered in contents.ledger.answered():
        if frame.open_answer(answered.key, read_sealed(log, answered.answer)) is None:
            yield answered
