"""The ZIP file in which ChatGPT and Claude hand out an export: its conversations, in one file or in numbered ones."""

import re
import zipfile
import zlib
from pathlib import Path, PurePosixPath
from typing import BinaryIO

from elytron.transcripts import shape
from elytron_core import limits
from elytron_core.errors import InvalidInput, PayloadTooLarge, UnreadableFile
from elytron_core.strict_json import Json, parse

MAGIC = b"PK\x03\x04"
_PART = re.compile(r"conversations(-\d+)?\.json")
_BROKEN = (zipfile.BadZipFile, zlib.error, EOFError, OSError, RuntimeError, ValueError)
"""What `zipfile` raises for a file that is damaged, locked, or packed in a way that it does not know."""


def is_export(path: Path, /) -> bool:
    """Return whether the file at `path` is an export's ZIP file."""
    try:
        with zipfile.ZipFile(path) as archive:
            return bool(_parts(archive))
    except _BROKEN:
        return False


def conversations(file: BinaryIO, /, *, name: str) -> Json:
    """Return the conversations of the export in `file`, those of its parts joined in order. Raises UnreadableFile."""
    joined: list[Json] = []
    left = limits.TRANSCRIPT_JSON_BYTES
    try:
        with zipfile.ZipFile(file) as archive:
            for part in _parts(archive):
                data = _unpacked(archive, part, most=left)
                left -= len(data)
                whole = parse(shape.unmarked(data), limit=limits.TRANSCRIPT_JSON_BYTES)
                joined += shape.items(whole, what="conversations.json")
    except (InvalidInput, PayloadTooLarge) as error:
        raise UnreadableFile(name=name, problem=error.message) from None
    except _BROKEN:
        raise UnreadableFile(name=name, problem="is a ZIP file that cannot be unpacked") from None
    if not joined:
        problem = "is packed, and holds no conversations.json: unpack it and give the JSON file inside"
        raise UnreadableFile(name=name, problem=problem)
    return joined


def _unpacked(archive: zipfile.ZipFile, part: zipfile.ZipInfo, *, most: int) -> bytes:
    """Return what `part` holds, read no further than its bound, whatever the file says of its size."""
    with archive.open(part) as opened:
        data = opened.read(most + 1)
    if len(data) > most:
        raise PayloadTooLarge(limit=limits.TRANSCRIPT_JSON_BYTES, what="a part of it", way_out="unpack and split it")
    return data


def _parts(archive: zipfile.ZipFile) -> list[zipfile.ZipInfo]:
    found = (member for member in archive.infolist() if _PART.fullmatch(PurePosixPath(member.filename).name))
    return sorted(found, key=lambda member: member.filename)
