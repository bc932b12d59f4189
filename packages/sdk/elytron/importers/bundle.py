"""Folders and ZIP files of transcripts, read alike: an export's conversations as one file, or each file by itself."""

import os
import re
import tempfile
import zipfile
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import IO

from elytron.importers import message_shape
from elytron_core import limits
from elytron_core.errors import InvalidInput, LimitExceeded, PayloadTooLarge, UnreadableFile
from elytron_core.strict_json import Json, parse_json

MAGIC = b"PK\x03\x04"
_PART = re.compile(r"conversations(-\d+)?\.json")
_TELEGRAM = "result.json"
_SUFFIXES = frozenset({".jsonl", ".json", ".txt", ".text", ".md", ".markdown"})
_OF_AN_ARCHIVE = frozenset({"manifest.json", "documents.jsonl", "journal.jsonl"})
_BROKEN = (zipfile.BadZipFile, zlib.error, EOFError, OSError, RuntimeError, ValueError)
"""Exceptions of `zipfile` for a file that is damaged, locked, or packed in an unknown way."""
_IN_MEMORY = 8 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class BundleMember:
    """A file of a folder or ZIP file: its name there, and what holds it."""

    name: str
    holder: Path | zipfile.ZipFile

    def open(self) -> tuple[IO[bytes], int]:
        """Return the file, to be closed by the caller, and its size; of a ZIP, a copy that can be read again."""
        if isinstance(self.holder, Path):
            file = (self.holder / self.name).open("rb")
            return file, os.fstat(file.fileno()).st_size
        data = self._unpacked(self.holder, most=limits.TRANSCRIPT_JSON_BYTES)
        copy: IO[bytes] = tempfile.SpooledTemporaryFile(_IN_MEMORY)  # noqa: SIM115 - the caller closes it
        copy.write(data)
        copy.seek(0)
        return copy, len(data)

    def data(self, *, most: int) -> bytes:
        """Return the file's content, read up to its bound, independent of the size in its header."""
        if not isinstance(self.holder, Path):
            return self._unpacked(self.holder, most=most)
        with (self.holder / self.name).open("rb") as file:
            return self._bounded(file, most=most)

    def _unpacked(self, archive: zipfile.ZipFile, *, most: int) -> bytes:
        with archive.open(self.name) as opened:
            return self._bounded(opened, most=most)

    def _bounded(self, file: IO[bytes], *, most: int) -> bytes:
        data = file.read(most + 1)
        if len(data) > most:
            raise PayloadTooLarge(
                limit=limits.TRANSCRIPT_JSON_BYTES, what="a part of it", way_out="unpack and split it"
            )
        return data


def is_export(path: Path, /) -> bool:
    """Return whether the ZIP file at `path` holds transcripts, and is no archive of a space."""
    try:
        with zipfile.ZipFile(path) as archive:
            return not _OF_AN_ARCHIVE & {*archive.namelist()} and bool(transcript_members(_of_zip(archive)))
    except _BROKEN:
        return False


def bundle_members(source: Path | zipfile.ZipFile, /) -> list[BundleMember]:
    """Return the files of a folder, hidden ones and links left out, or of a ZIP file, by their names."""
    found = _of_folder(source) if isinstance(source, Path) else _of_zip(source)
    kept = sorted(found, key=lambda member: member.name)
    return [member for member in kept if not any(part.startswith((".", "__")) for part in Path(member.name).parts)]


def export_parts(found: list[BundleMember], /) -> list[BundleMember]:
    """Return the files in which ChatGPT and Claude hand out conversations."""
    return [member for member in found if _PART.fullmatch(PurePosixPath(member.name).name)]


def transcript_members(found: list[BundleMember], /) -> list[BundleMember]:
    """Return the files that may be transcripts: an export's own if there are any, else those with a known suffix."""
    exported = export_parts(found) or [member for member in found if PurePosixPath(member.name).name == _TELEGRAM]
    return exported or [member for member in found if PurePosixPath(member.name).suffix.lower() in _SUFFIXES]


def export_conversations(found: list[BundleMember], /, *, name: str) -> Json:
    """Return the conversations of an export, those of its parts joined in order. Raises UnreadableFile."""
    joined: list[Json] = []
    left = limits.TRANSCRIPT_JSON_BYTES
    try:
        for part in found:
            data = part.data(most=left)
            left -= len(data)
            whole = parse_json(message_shape.strip_mark(data), limit=limits.TRANSCRIPT_JSON_BYTES)
            joined += message_shape.list_items(whole, what="conversations.json")
    except (InvalidInput, PayloadTooLarge) as error:
        raise UnreadableFile(name=name, problem=error.message) from None
    except _BROKEN:
        raise UnreadableFile(name=name, problem="cannot be unpacked") from None
    return joined


def opened_zip(file: IO[bytes], /, *, name: str) -> zipfile.ZipFile:
    """Return the ZIP file in `file`. Raises UnreadableFile."""
    try:
        return zipfile.ZipFile(file)
    except _BROKEN:
        raise UnreadableFile(name=name, problem="is a ZIP file that cannot be unpacked") from None


def open_member(member: BundleMember, /) -> tuple[IO[bytes], int]:
    """Return a member's file and its size. Raises UnreadableFile."""
    try:
        return member.open()
    except PayloadTooLarge as error:
        raise UnreadableFile(name=member.name, problem=error.message) from None
    except _BROKEN:
        raise UnreadableFile(name=member.name, problem="cannot be unpacked") from None


def _of_zip(archive: zipfile.ZipFile) -> list[BundleMember]:
    return _bound_members([BundleMember(info.filename, archive) for info in archive.infolist() if not info.is_dir()])


def _of_folder(folder: Path) -> list[BundleMember]:
    return _bound_members([BundleMember(name, folder) for name in _walk_folder(folder)])


def _walk_folder(folder: Path) -> Iterator[str]:
    for place, folders, files in os.walk(folder):
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        for name in files:
            path = Path(place, name)
            if path.is_file() and not path.is_symlink():
                yield path.relative_to(folder).as_posix()


def _bound_members(found: list[BundleMember]) -> list[BundleMember]:
    if len(found) > limits.IMPORT_FILES:
        raise LimitExceeded(what="files in a folder that is imported", limit=limits.IMPORT_FILES, found=len(found))
    return found
