"""Folders and ZIP files as bundles of files, each read within limits. Unsafe names and links are left out."""

import os
import stat
import tempfile
import zipfile
import zlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import IO, Final
from zipfile import ZipFile, ZipInfo

from elytron.importers import message_shape
from elytron_core import limits
from elytron_core.errors import InvalidJson, LimitExceeded, PayloadTooLarge, UnreadableFile
from elytron_core.strict_json import Json

MAGIC: Final = b"PK\x03\x04"
BROKEN_ZIP: Final = (zipfile.BadZipFile, zlib.error, EOFError, OSError, RuntimeError, ValueError)
"""Exceptions that `zipfile` raises for damaged or encrypted files and unknown compression methods."""
BUNDLE_FILES: Final = 50_000
"""Maximum number of files in a single export, which may have a file per day."""
_IN_MEMORY: Final = 8 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class BundleMember:
    """A file in a folder or ZIP file: its name, and the folder or archive that contains it."""

    name: str
    holder: Path | ZipFile
    entry: ZipInfo | None = None
    """The entry in a ZIP file, which may contain several files with the same name."""

    @property
    def path(self) -> Path | None:
        """Return the path of a file in a folder, or None for a file in a ZIP file."""
        return self.holder / self.name if isinstance(self.holder, Path) else None

    def open(self) -> tuple[IO[bytes], int]:
        """Open the file and return it with its size; the caller closes it. From a ZIP file, it is a seekable copy.

        Raises UnreadableFile.
        """
        try:
            if isinstance(self.holder, Path):
                file = (self.holder / self.name).open("rb")
                return file, os.fstat(file.fileno()).st_size
            # Read up to the limit, whatever size the header declares.
            with self.holder.open(self.entry or self.name) as packed:
                data = packed.read(limits.TRANSCRIPT_JSON_BYTES + 1)
        except BROKEN_ZIP:
            raise UnreadableFile(name=self.name, problem="cannot be unpacked") from None
        if len(data) > limits.TRANSCRIPT_JSON_BYTES:
            raise too_large(self.name)
        copy: IO[bytes] = tempfile.SpooledTemporaryFile(_IN_MEMORY)  # noqa: SIM115 - the caller closes it
        copy.write(data)
        copy.seek(0)
        return copy, len(data)

    def json(self) -> Json:
        """Return the file's JSON document. Raises UnreadableFile."""
        file, size = self.open()
        with file:
            return whole_document(file, name=self.name, size=size)


@dataclass(slots=True)
class FileBundle:
    """The files of a folder or ZIP file, sorted by name. Hidden files are left out, unsafe ones only counted."""

    name: str
    holder: Path | ZipFile
    members: list[BundleMember] = field(default_factory=list[BundleMember])
    unsafe: int = 0
    is_vault: bool = False
    """True if it contains Obsidian's settings."""

    def files_named(self, name: str, /) -> list[BundleMember]:
        """Return the files with this name, in any folder."""
        return [member for member in self.members if PurePosixPath(member.name).name == name]

    def ending(self, *suffixes: str) -> list[BundleMember]:
        """Return the files with one of these suffixes."""
        return [member for member in self.members if member.name.lower().endswith(suffixes)]


def too_large(name: str, /) -> UnreadableFile:
    """Return the error for a file over the size limit of one document."""
    error = PayloadTooLarge(limit=limits.TRANSCRIPT_JSON_BYTES, what="one of its files", way_out="unpack and split it")
    return UnreadableFile(name=name, problem=error.message)


def whole_document(file: IO[bytes], /, *, name: str, size: int) -> Json:
    """Parse the JSON document in `file`. Raises UnreadableFile."""
    file.seek(0)
    try:
        data = file.read(limits.TRANSCRIPT_JSON_BYTES + 1)[:size]
        return message_shape.foreign_json(data, limit=limits.TRANSCRIPT_JSON_BYTES)
    except (InvalidJson, PayloadTooLarge) as error:
        raise UnreadableFile(name=name, problem=error.message) from None


def open_bundle(source: Path | ZipFile, /, *, name: str) -> FileBundle:
    """List the files of a folder, without links, or of a ZIP file. Raises LimitExceeded for too many."""
    bundle = FileBundle(name, source)
    members: list[BundleMember] = []
    if isinstance(source, Path):
        bundle.is_vault = (source / ".obsidian").is_dir()
        for path_name in _walk_folder(source):
            members.append(BundleMember(path_name, source))
            _require_few(len(members))
    else:
        # `ZipInfo.is_dir` fails on an empty name.
        infos = [info for info in source.infolist() if not info.filename.endswith("/")]
        _require_few(len(infos))
        bundle.is_vault = any(".obsidian" in PurePosixPath(info.filename).parts for info in infos)
        members = [BundleMember(info.filename, source, info) for info in infos if not _is_unsafe(info)]
        bundle.unsafe = len(infos) - len(members)
    visible = (each for each in members if not any(part.startswith((".", "__")) for part in Path(each.name).parts))
    bundle.members = sorted(visible, key=lambda member: member.name)
    return bundle


def _require_few(count: int) -> None:
    if count > BUNDLE_FILES:
        raise LimitExceeded(what="files in an imported folder", limit=BUNDLE_FILES, found=count)


def _is_unsafe(info: ZipInfo) -> bool:
    """Return whether a member is a link, or its name is none or points outside the ZIP file. It is not trusted."""
    name = PurePosixPath(info.filename.replace("\\", "/"))
    leads_out = not name.parts or name.is_absolute() or ".." in name.parts or ":" in name.parts[0]
    return leads_out or stat.S_ISLNK(info.external_attr >> 16)


def _walk_folder(folder: Path) -> Iterator[str]:
    for place, folders, files in os.walk(folder):
        # Assign in place, because `os.walk` continues with the contents of this list.
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        for name in files:
            path = Path(place, name)
            if path.is_file() and not path.is_symlink():
                yield path.relative_to(folder).as_posix()
