"""A file's type: decided by its bytes; its name only chooses between kinds of text."""

import re
from pathlib import PurePosixPath

from elytron_core.errors import UnsupportedMedia
from elytron_gateway.extraction.encodings import text_of

DOCX = "application/vnd.openxmlformats-officedocument.wordprocessingml.document"
_TEXTS = {
    ".md": "text/markdown",
    ".markdown": "text/markdown",
    ".txt": "text/plain",
    ".log": "text/plain",
    ".html": "text/html",
    ".htm": "text/html",
    ".json": "application/json",
    ".csv": "text/csv",
}
ALLOWED = frozenset({*_TEXTS.values(), "application/pdf", DOCX})
"""The kinds of files whose text is taken in."""
MEDIA = {
    "image/png": "png",
    "image/jpeg": "jpg",
    "image/gif": "gif",
    "image/webp": "webp",
    "audio/mpeg": "mp3",
    "audio/mp4": "m4a",
    "audio/wav": "wav",
    "audio/ogg": "ogg",
    "audio/flac": "flac",
}
"""The kinds of pictures and sounds that an upstream may read, with the ending of their names."""
_MEDIA_SIGNATURES = {
    b"\x89PNG\r\n\x1a\n": "image/png",
    b"\xff\xd8\xff": "image/jpeg",
    b"GIF87a": "image/gif",
    b"GIF89a": "image/gif",
    b"ID3": "audio/mpeg",
    b"\xff\xfb": "audio/mpeg",
    b"\xff\xf3": "audio/mpeg",
    b"\xff\xf2": "audio/mpeg",
    b"OggS": "audio/ogg",
    b"fLaC": "audio/flac",
}
_RIFF = {b"WAVE": "audio/wav", b"WEBP": "image/webp"}
_BOXES = frozenset({b"M4A ", b"M4B "})
_TEXTLESS = frozenset({"image", "audio", "video", "font"})
_PDF = b"%PDF-"
_ZIP = b"PK\x03\x04"
_SIGNATURES = (_PDF, _ZIP)
_HEAD = 64 * 1024
_SVG = re.compile(
    rb"(?:\xef\xbb\xbf)?+(?>\s++|<\?.*?\?>|<!--.*?-->|<!DOCTYPE[^>\[]*+(?:\[.*?\]\s*+)?+>)*+<(?:[\w.-]++:)?+svg[\s/>]",
    re.DOTALL | re.IGNORECASE,
)
"""The beginning of an SVG: its element after declarations and comments, perhaps with a prefix."""


def readable_types(*, reads_media: bool) -> frozenset[str]:
    """Return the media types of files that can be read, here or by an upstream of that kind."""
    return ALLOWED.union(MEDIA) if reads_media else ALLOWED


def media_type(data: bytes, /, *, name: str = "", declared: str = "", allowed: frozenset[str] = ALLOWED) -> str:
    """Return the media type of a file. Raises UnsupportedMedia for one that is not in `allowed`.

    The bytes decide. A text has the type of its name's ending, else the declared one, if that is a kind of text; an
    SVG, and what was declared to be a picture or a sound, is none.
    """
    # Its beginning decides the type; the rest is decoded when it is read, in a child process.
    text = text_of(data[:_HEAD], is_whole=len(data) <= _HEAD)
    is_text = text is not None and not data.startswith(_SIGNATURES)
    found = _kind_of_text(text or "", name, declared) if is_text else _signature(data)
    if found not in allowed:
        raise UnsupportedMedia(allowed=tuple(sorted(allowed)))
    return found


def _kind_of_text(text: str, name: str, declared: str) -> str:
    """Return the kind of text, empty if it is a picture or a sound."""
    ending = _TEXTS.get(PurePosixPath(name.lower()).suffix)
    said = declared.partition(";")[0].strip().lower()
    if said.partition("/")[0] in _TEXTLESS or _SVG.match(text[:_HEAD].encode()):
        return ""
    return ending or (said if said in _TEXTS.values() else "text/plain")


def _signature(data: bytes) -> str:
    if data.startswith(_PDF):
        return "application/pdf"
    if data.startswith(_ZIP):
        return DOCX if b"word/" in data else "application/zip"
    if data.startswith(b"RIFF"):
        return _RIFF.get(data[8:12], "")
    if data[4:8] == b"ftyp":
        return "audio/mp4" if data[8:12] in _BOXES else ""
    return next((kind for begins, kind in _MEDIA_SIGNATURES.items() if data.startswith(begins)), "")
