"""The archive file of a space: a zip of JSON lines with a manifest that says what each member must be.

Members: `manifest.json`, `documents.jsonl` (one document a line: collection, key, body), `journal.jsonl` (one entry a
line), and `blobs/<key>` for the bytes beside a document. Bodies of documents stand as JSON where that gives the same
bytes back, else as `body_text`.
"""

import hashlib
import io
import json
import lzma
import os
import tempfile
import zipfile
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import IO, Any, Self, cast

from pydantic import ValidationError

from elytron_core import limits
from elytron_core.clock import Instant
from elytron_core.contracts.archive import (
    ARCHIVE_FORMAT,
    ARCHIVE_VERSION,
    PLAIN_VERSION,
    ArchiveBlob,
    ArchiveManifest,
    ArchiveMember,
)
from elytron_core.errors import ElytronError, InvalidInput, LimitExceeded, StoreUnavailable, UnreadableFile
from elytron_core.ports.store import Document, DocumentRef, JournalAction, JournalEntry, require_ref

MANIFEST = "manifest.json"
DOCUMENTS = "documents.jsonl"
JOURNAL = "journal.jsonl"
BLOBS = "blobs/"
_ENCRYPTED = 0x1
"""Bit of a member's flags in a zip."""
_EPOCH = (1980, 1, 1, 0, 0, 0)
_SPOOL_BYTES = 16 * 1024 * 1024


@dataclass(slots=True)
class _MemberWriter:
    """A member being written: its lines are spooled, because a zip takes one member at a time."""

    name: str
    spool: IO[bytes]
    lines: int = 0

    def add(self, line: bytes) -> None:
        self.spool.write(line + b"\n")
        self.lines += 1


class ArchiveBlobWriter:
    """A blob being written: behind the others in one spool, since a zip takes one member at a time."""

    def __init__(self, key: str, spool: IO[bytes], /) -> None:
        self._key = key
        self._spool = spool
        self._digest = hashlib.sha256()
        self._size = 0

    def add(self, chunk: bytes, /) -> None:
        """Add bytes. Raises LimitExceeded if no archive could hold them."""
        self._spool.write(chunk)
        self._digest.update(chunk)
        self._size += len(chunk)
        if self._spool.tell() > limits.ARCHIVE_BYTES:
            raise LimitExceeded(what="bytes of files in an archive", limit=limits.ARCHIVE_BYTES)

    def told(self) -> ArchiveBlob:
        """Return what the manifest says of it."""
        return ArchiveBlob(key=self._key, size=self._size, sha256=self._digest.hexdigest())


class ArchiveWriter:
    """Writes an archive beside its path and puts it in place, whole and durable, when `finish` is called.

    Raises InvalidInput if something is at the path, before and after the work, unless `overwrite` is true.
    """

    def __init__(self, path: Path, /, *, overwrite: bool = False) -> None:
        self._path = path
        self._overwrite = overwrite
        self._require_free()
        try:
            handle, name = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
        except OSError as error:
            raise StoreUnavailable(f"cannot write {path.name!r} into its folder: {error.strerror}") from error
        os.close(handle)
        self._partial = Path(name)
        self._documents = _MemberWriter(DOCUMENTS, tempfile.SpooledTemporaryFile(_SPOOL_BYTES, dir=str(path.parent)))  # noqa: SIM115
        self._journal = _MemberWriter(JOURNAL, tempfile.SpooledTemporaryFile(_SPOOL_BYTES, dir=str(path.parent)))  # noqa: SIM115
        self._bytes: IO[bytes] = tempfile.SpooledTemporaryFile(_SPOOL_BYTES, dir=str(path.parent))  # noqa: SIM115
        self._blobs: list[ArchiveBlobWriter] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._documents.spool.close()
        self._journal.spool.close()
        self._bytes.close()
        self._partial.unlink(missing_ok=True)

    def document(self, document: Document, /) -> None:
        """Add a document."""
        line: dict[str, Any] = {"collection": document.ref.collection, "key": document.ref.key}
        text = document.body.decode("utf-8")
        parsed = json.loads(text)
        line |= {"body": parsed} if _dump_line(parsed) == document.body else {"body_text": text}
        self._documents.add(_dump_line(line))

    def entry(self, entry: JournalEntry, /) -> None:
        """Add a journal entry; they come in order."""
        line = {
            "sequence": entry.sequence,
            "at": entry.at,
            "action": entry.action.value,
            "collection": entry.ref.collection,
            "key": entry.ref.key,
            "digest": entry.digest,
        } | ({"covers": entry.covers} if entry.covers > 1 else {})
        self._journal.add(_dump_line(line))

    def blob(self, key: str, /) -> ArchiveBlobWriter:
        """Begin the bytes beside the document of `key`; they are complete when the next one begins."""
        self._blobs.append(ArchiveBlobWriter(key, self._bytes))
        return self._blobs[-1]

    def finish(
        self,
        *,
        space: str,
        sequence: int,
        state_fingerprint: str,
        event_fingerprint: str,
        include_private: bool = True,
    ) -> int:
        """Put the archive in place; return its size in bytes."""
        made = ArchiveManifest(
            version=ARCHIVE_VERSION if self._blobs else PLAIN_VERSION,
            space=space,
            sequence=sequence,
            members=(),
            state_fingerprint=state_fingerprint,
            event_fingerprint=event_fingerprint,
            blobs=tuple(blob.told() for blob in self._blobs),
            include_private=include_private,
        )
        try:
            self._pack(made)
            size = self._partial.stat().st_size
            self._require_free()
            self._partial.replace(self._path)
            _sync_folder(self._path.parent)
        except OSError as error:
            raise StoreUnavailable(f"cannot write {self._path.name!r}: {error.strerror}") from error
        return size

    def _require_free(self) -> None:
        if not self._overwrite and os.path.lexists(self._path):
            problem = f"names {self._path.name!r}, which is there already: name a new file, or say that it is replaced"
            raise InvalidInput(field="path", problem=problem)

    def _pack(self, made: ArchiveManifest) -> None:
        written: list[ArchiveMember] = []
        with self._partial.open("wb") as file:
            with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
                for member in (self._documents, self._journal):
                    member.spool.seek(0)
                    digest = hashlib.sha256()
                    with archive.open(zipfile.ZipInfo(member.name, _EPOCH), "w", force_zip64=True) as target:
                        while chunk := member.spool.read(limits.BLOB_CHUNK_BYTES):
                            digest.update(chunk)
                            target.write(chunk)
                    written.append(ArchiveMember(name=member.name, lines=member.lines, sha256=digest.hexdigest()))
                self._bytes.seek(0)
                for blob in made.blobs:
                    self._pack_blob(archive, blob)
                manifest = made.model_copy(update={"members": tuple(written)})
                left_out = None if made.blobs else {"blobs"}
                told = manifest.model_dump_json(indent=1, exclude=left_out)
                archive.writestr(zipfile.ZipInfo(MANIFEST, _EPOCH), told)
            file.flush()
            os.fsync(file.fileno())

    def _pack_blob(self, archive: zipfile.ZipFile, blob: ArchiveBlob) -> None:
        left = blob.size
        with archive.open(zipfile.ZipInfo(BLOBS + blob.key, _EPOCH), "w", force_zip64=True) as target:
            while left:
                chunk = self._bytes.read(min(left, limits.BLOB_CHUNK_BYTES))
                target.write(chunk)
                left -= len(chunk)


class ArchiveReader:
    """Reads an archive whose every member was checked against the manifest first.

    Raises UnreadableFile for anything that is no archive, is cut, altered or larger than `limits.ARCHIVE_BYTES`.
    """

    def __init__(self, path: Path, /) -> None:
        self._name = path.name
        # Opened here: a member that is left in the middle would keep a file of the zip's own open.
        self._file = _open_archive(path)
        try:
            self._zip = self._unpacked()
            self.manifest = self._check()
        except BaseException:
            self._file.close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._zip.close()
        self._file.close()

    def documents(self) -> Iterator[Document]:
        """Yield the documents, in the order of collections and keys, each at the revision it will have: 1."""
        for number, line in self._lines(DOCUMENTS):
            try:
                yield _parse_document(line)
            except (KeyError, TypeError, ValueError, AttributeError, ElytronError):
                raise self._bad(f"holds no document in {DOCUMENTS}", number) from None

    def entries(self) -> Iterator[JournalEntry]:
        """Yield the journal entries in their order."""
        sequence = 0
        for number, line in self._lines(JOURNAL):
            try:
                entry = _parse_entry(line)
            except (KeyError, TypeError, ValueError, ElytronError):
                raise self._bad(f"holds no journal entry in {JOURNAL}", number) from None
            if entry.covers < 1 or entry.first != sequence + 1:
                raise self._bad(f"skips a sequence in {JOURNAL}", number)
            sequence = entry.sequence
            yield entry

    def blob(self, key: str, /) -> Iterator[bytes]:
        """Yield the bytes beside the document of `key`."""
        with self._zip.open(BLOBS + key) as source:
            while chunk := source.read(limits.BLOB_CHUNK_BYTES):
                yield chunk

    def count(self, member: str, /) -> int:
        """Return how many lines a member has."""
        return next(found.lines for found in self.manifest.members if found.name == member)

    def _unpacked(self) -> zipfile.ZipFile:
        try:
            return zipfile.ZipFile(self._file)
        except OSError as error:
            raise self._bad(f"cannot be read: {error.strerror}") from None
        except (zipfile.BadZipFile, RuntimeError):  # a zip may want what this reader has not
            raise self._bad("is not an elytron archive, or is cut off") from None

    def _check(self) -> ArchiveManifest:
        names = sorted(self._zip.namelist())
        if any(info.flag_bits & _ENCRYPTED for info in self._zip.infolist()):
            raise self._bad("has an encrypted member: an archive has none")
        if [name for name in names if not name.startswith(BLOBS)] != sorted((MANIFEST, DOCUMENTS, JOURNAL)):
            raise self._bad("is not an elytron archive: its members are others")
        if sum(info.file_size for info in self._zip.infolist()) > limits.ARCHIVE_BYTES:
            raise self._bad(f"unpacks to more than {limits.ARCHIVE_BYTES} bytes")
        try:
            manifest = ArchiveManifest.model_validate_json(self._zip.read(MANIFEST))
            if manifest.format != ARCHIVE_FORMAT:
                raise self._bad("is not an elytron archive")
            if manifest.version > ARCHIVE_VERSION:
                raise self._bad(f"is an archive of version {manifest.version}: use a newer elytron")
            if sorted(member.name for member in manifest.members) != sorted((DOCUMENTS, JOURNAL)):
                raise self._bad("has a manifest that does not name its members")
            if names != sorted((MANIFEST, DOCUMENTS, JOURNAL, *(BLOBS + blob.key for blob in manifest.blobs))):
                raise self._bad("has a manifest that does not name its files")
            for member in manifest.members:
                self._check_member(member)
            for blob in manifest.blobs:
                self._check_blob(blob)
        except (ValidationError, zipfile.BadZipFile, OSError, EOFError, RuntimeError, zlib.error, lzma.LZMAError):
            raise self._bad("is damaged: a member cannot be read") from None
        return manifest

    def _check_member(self, member: ArchiveMember) -> None:
        digest = hashlib.sha256()
        lines = 0
        with self._zip.open(member.name) as source:
            while chunk := source.read(limits.BLOB_CHUNK_BYTES):
                digest.update(chunk)
                lines += chunk.count(b"\n")
        if digest.hexdigest() != member.sha256 or lines != member.lines:
            raise self._bad(f"is damaged: {member.name} is not what its manifest says")

    def _check_blob(self, blob: ArchiveBlob) -> None:
        digest = hashlib.sha256()
        size = 0
        for chunk in self.blob(blob.key):
            digest.update(chunk)
            size += len(chunk)
        if (digest.hexdigest(), size) != (blob.sha256, blob.size):
            raise self._bad("is damaged: a file in it is not what its manifest says")

    def _lines(self, member: str) -> Iterator[tuple[int, dict[str, Any]]]:
        # Lines of a zip's member are read many times faster through a buffer.
        with io.BufferedReader(cast("io.BufferedIOBase", self._zip.open(member))) as source:
            for number, line in enumerate(source, start=1):
                try:
                    parsed = json.loads(line)
                except (ValueError, RecursionError):
                    raise self._bad(f"has a line that is not JSON in {member}", number) from None
                if not isinstance(parsed, dict):
                    raise self._bad(f"has a line that is not an object in {member}", number)
                yield number, parsed

    def _bad(self, problem: str, line: int | None = None) -> UnreadableFile:
        return UnreadableFile(name=self._name, problem=problem, line=line)


def _open_archive(path: Path) -> IO[bytes]:
    try:
        return path.open("rb")
    except (OSError, ValueError) as error:
        raise UnreadableFile.unopened(path.name, error) from None


def _parse_document(line: dict[str, Any]) -> Document:
    if line.keys() - {"collection", "key", "body", "body_text"}:
        raise ValueError
    ref = DocumentRef(str(line["collection"]), str(line["key"]))
    require_ref(ref)
    body = str(line["body_text"]).encode() if "body_text" in line else _dump_line(line["body"])
    return Document(ref, 1, body)


def _parse_entry(line: dict[str, Any]) -> JournalEntry:
    if line.keys() - {"covers"} != {"sequence", "at", "action", "collection", "key", "digest"}:
        raise ValueError
    ref = DocumentRef(str(line["collection"]), str(line["key"]))
    require_ref(ref)
    at = Instant(int(line["at"]))
    covers = int(line.get("covers", 1))
    return JournalEntry(int(line["sequence"]), at, JournalAction(line["action"]), ref, str(line["digest"]), covers)


def _dump_line(value: Any) -> bytes:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode("utf-8")


def _sync_folder(folder: Path) -> None:
    if os.name == "nt":
        return  # Windows gives no handle to a folder
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
