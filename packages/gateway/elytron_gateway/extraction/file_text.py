"""A file's type, determined from its bytes, and its text, read by a process under limits that the system enforces.

python -m elytron_gateway.extraction.file_text MEDIA_TYPE CHUNK_CHARS MAX_CHUNKS MAX_CHARS CPU_S MEMORY_BYTES

The process reads bytes on stdin and writes chunks as JSON lines. A file's name only distinguishes kinds of text.
"""

import codecs
import io
import json
import re
import sys
from collections.abc import Callable, Iterable, Iterator
from pathlib import PurePosixPath
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

from elytron_core.errors import UnsupportedMedia

if TYPE_CHECKING:
    from elytron_core.strict_json import Json


_MARKS = (
    (codecs.BOM_UTF8, "utf-8-sig"),
    (codecs.BOM_UTF32_LE, "utf-32"),
    (codecs.BOM_UTF32_BE, "utf-32"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)
"""Four-byte marks come before two-byte ones, which share their beginning."""
_META_CHARSET = re.compile(rb"<meta[^>]{0,200}charset\s*=\s*[\"']?([A-Za-z0-9_:.-]{1,40})", re.IGNORECASE)
"""The part of an HTML page that can declare its encoding: by the standard the first kilobyte."""
_ISO: Final = (*range(1, 9), *range(10, 17))
CHARSETS: Final = MappingProxyType(
    {name: name for name in ("utf-8", "us-ascii", "big5", "gb18030", "shift_jis", "euc-jp", "iso-2022-jp", "euc-kr")}
    | {"utf8": "utf-8", "ascii": "us-ascii", "sjis": "shift_jis", "x-sjis": "cp932", "windows-31j": "cp932"}
    | {"gb2312": "gb18030", "gbk": "gb18030", "big5-hkscs": "big5hkscs", "ks_c_5601-1987": "cp949"}
    | {"koi8-r": "koi8-r", "koi8-u": "koi8-u", "macintosh": "mac-roman", "latin1": "cp1252", "iso-8859-9": "cp1254"}
    | {f"iso-8859-{number}": f"iso8859-{number}" for number in _ISO if number != 12}
    | {f"windows-125{number}": f"cp125{number}" for number in range(9)}
    | {f"cp125{number}": f"cp125{number}" for number in range(9)}
    | {"windows-874": "cp874", "tis-620": "cp874", "cp932": "cp932", "ibm866": "cp866", "cp866": "cp866"}
)
"""The charsets that a page may declare, with their decoders: each in linear time, unlike some codecs."""
_SAID_WITHIN = 4 * 1024
_SAMPLE_BYTES = 64 * 1024
_COMMON = 0.9
_LATE = 0.15
_ASCII_LAST = 0x7F
_WESTERN_SHARE = 0.35
"""Maximum non-ASCII bytes in a Western text: a short Finnish one has that many, Cyrillic and Greek ones more."""
_CONTROLS = re.compile(r"[\x00-\x08\x0b\x0e-\x1f\x7f-\x9f\ufffd]")
_WITHIN_WORD = re.compile(
    r"(?<=[^\W\d_])[^\w\s\x21-\x7e\u2018\u2019\u00b7\u00ad](?=[^\W\d_])|[a-z][\u00aa-\u00bf](?=[a-z])|[\u00d7\u00f7](?=[a-z])"
)
"""A symbol between two letters that is no apostrophe, point or hyphen means that those bytes are letters of another
encoding."""


def text_of(data: bytes, /, *, is_whole: bool = True) -> str | None:
    """Return the text in `data`; None if it is not text, or its encoding cannot be determined.

    A part of a file may end within a character.
    """
    for byte_mark, encoding in _MARKS:
        if data.startswith(byte_mark):
            return _decode_text(data, encoding, is_whole=is_whole)
    # UTF-8 first: text of another encoding is hardly ever valid in it.
    text = _decode_text(data, "utf-8", is_whole=is_whole)
    if text is not None:
        return text
    charset_match = _META_CHARSET.search(data[:_SAID_WITHIN])
    if charset_match is not None:
        encoding = CHARSETS.get(charset_match[1].decode().lower())
        return _decode_text(data, encoding, is_whole=is_whole) if encoding is not None else None
    # Before Western, since a few Chinese characters may look like Western letters.
    if _is_chinese(data[:_SAMPLE_BYTES]):
        return _decode_text(data, "gb18030", is_whole=is_whole)
    return _decode_text(data, "cp1252", is_whole=is_whole) if _is_western(data[:_SAMPLE_BYTES]) else None


def _decode_text(data: bytes, encoding: str, *, is_whole: bool) -> str | None:
    """Return the text without a byte order mark; text contains no NUL."""
    try:
        text = codecs.getincrementaldecoder(encoding)().decode(data, is_whole)
    except ValueError:
        return None
    return text if "\0" not in text else None


def _is_chinese(data: bytes) -> bool:
    """Return whether nearly all non-ASCII characters are common in GB 2312, as in files of Chinese systems.

    Other encodings of the same bytes fail: those of Western letters have single high bytes, Cyrillic ones the rarer
    characters' bytes, Korean ones none of the later half of the common ones.
    """
    wide_codes = [char.encode("gb18030") for char in data.decode("gb18030", errors="ignore") if not char.isascii()]
    common_codes = [code for code in wide_codes if len(code) == 2 and 0xB0 <= code[0] <= 0xD7 and code[1] >= 0xA1]
    marks = sum(len(code) == 2 and 0xA1 <= code[0] <= 0xA3 and code[1] >= 0xA1 for code in wide_codes)
    late_count = sum(code[0] >= 0xC9 for code in common_codes)
    return (
        bool(common_codes)
        and len(common_codes) + marks >= _COMMON * len(wide_codes)
        and late_count >= _LATE * len(common_codes)
    )


def _is_western(data: bytes) -> bool:
    """Return whether the non-ASCII bytes are few, and each is a letter or a mark of Western languages.

    In other encodings of one byte a character they are many (Cyrillic, Greek), or signs within words (Polish).
    """
    high_count = sum(byte > _ASCII_LAST for byte in data)
    text = data.decode("cp1252", errors="replace")
    if not 0 < high_count <= _WESTERN_SHARE * len(data) or _CONTROLS.search(text):
        return False
    return _WITHIN_WORD.search(text) is None


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
"""The kinds of files whose text is extracted."""
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
"""The kinds of images and sounds that an upstream may read, with the suffix of their names."""
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
_HIGH_CONTROLS = dict.fromkeys(range(0x7F, 0xA0))
"""Bytes that only one of several encodings treats as controls."""
_UNKNOWN_ENCODING = "the encoding of this text cannot be determined: send it as UTF-8"
_SVG = re.compile(
    rb"(?:\xef\xbb\xbf)?+(?>\s++|<\?.*?\?>|<!--.*?-->|<!DOCTYPE[^>\[]*+(?:\[.*?\]\s*+)?+>)*+<(?:[\w.-]++:)?+svg[\s/>]",
    re.DOTALL | re.IGNORECASE,
)
"""The beginning of an SVG: its element after declarations and comments, perhaps with a prefix."""


def readable_types(*, reads_media: bool) -> frozenset[str]:
    """Return the media types of files that can be read here or by an upstream of that kind."""
    return ALLOWED.union(MEDIA) if reads_media else ALLOWED


def media_type(data: bytes, /, *, name: str = "", declared: str = "", allowed: frozenset[str] = ALLOWED) -> str:
    """Return the media type of a file. Raises UnsupportedMedia for one that is not in `allowed`.

    The bytes decide. A text has the type of its name's ending, else the declared one, if that is a kind of text; an
    SVG, and what was declared to be a picture or a sound, is none.
    """
    # Its beginning decides the type; the rest is decoded when it is read, in a child process.
    text = text_of(data[:_HEAD], is_whole=len(data) <= _HEAD)
    is_text = text is not None and not data.startswith(_SIGNATURES)
    kind = _kind_of_text(text or "", name, declared) if is_text else _file_signature(data)
    if kind not in allowed:
        kinds = tuple(sorted(allowed))
        if not kind and text is None and not _CONTROLS.search(data[:_HEAD].decode("latin-1").translate(_HIGH_CONTROLS)):
            raise UnsupportedMedia(allowed=kinds, problem=_UNKNOWN_ENCODING)
        raise UnsupportedMedia(allowed=kinds)
    return kind


def _kind_of_text(text: str, name: str, declared: str) -> str:
    """Return the kind of text, empty if it is an image or a sound."""
    text_kind = _TEXTS.get(PurePosixPath(name.lower()).suffix)
    declared_type = declared.partition(";")[0].strip().lower()
    if declared_type.partition("/")[0] in _TEXTLESS or _SVG.match(text[:_HEAD].encode()):
        return ""
    return text_kind or (declared_type if declared_type in _TEXTS.values() else "text/plain")


def _file_signature(data: bytes) -> str:
    if data.startswith(_PDF):
        return "application/pdf"
    if data.startswith(_ZIP):
        # A ZIP does not compress the names of its entries.
        return DOCX if b"word/" in data else "application/zip"
    if data.startswith(b"RIFF"):
        return _RIFF.get(data[8:12], "")
    if data[4:8] == b"ftyp":
        return "audio/mp4" if data[8:12] in _BOXES else ""
    return next((kind for magic_bytes, kind in _MEDIA_SIGNATURES.items() if data.startswith(magic_bytes)), "")


HEADING_CHARS = 200
SPLIT_CHARS = 200_000
"""Maximum text split at once, because the splitter's time grows faster than the text."""


def main(arguments: list[str]) -> int:
    """Read the file on stdin within its limits and print its chunks; return the exit code that `print_chunks` gives."""
    media_type, chunk_chars, max_chunks, max_chars, cpu_s, memory = arguments[0], *map(int, arguments[1:6])
    data = sys.stdin.buffer.read()
    _confine_process(cpu_s, memory)
    return print_chunks(data, media_type, chunk_chars=chunk_chars, max_chunks=max_chunks, max_chars=max_chars)


def print_chunks(data: bytes, media_type: str, /, *, chunk_chars: int, max_chunks: int, max_chars: int) -> int:
    """Print the chunks of a file; return 0, 3 where it cannot be read, 4 where it holds too much text."""
    try:
        remaining_chunks = max_chunks
        spent_chars = 0
        for page, text in _file_texts(data, media_type):
            spent_chars += len(text)
            if spent_chars > max_chars:
                return 4
            for chunk, heading in _text_chunks(text, chunk_chars):
                remaining_chunks -= 1
                if remaining_chunks < 0:
                    return 4
                chunk_line = {"text": chunk, "page": page, "heading": heading}
                sys.stdout.write(
                    json.dumps({name: value for name, value in chunk_line.items() if value is not None}) + "\n"
                )
    except Exception:  # noqa: BLE001 - parsers of strangers' files raise anything; all of it means one thing
        return 3
    sys.stdout.flush()
    return 0


def _confine_process(cpu_s: int, memory: int) -> None:
    """Limit this process's time and memory through the system, and forbid it to write files."""
    try:
        import resource
    except ImportError:  # a system without these limits; the parent's timeout still applies
        return
    resource.setrlimit(resource.RLIMIT_CPU, (cpu_s, cpu_s + 1))
    resource.setrlimit(resource.RLIMIT_AS, (memory, memory))
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def _file_texts(data: bytes, media_type: str) -> Iterator[tuple[int | None, str]]:
    """Yield the file's texts, each with its page if it has pages."""
    if media_type == "application/pdf":
        yield from _pdf_texts(data)
        return
    if not media_type.startswith(("text/", "application/json")):
        yield None, _as_markdown(data, media_type)
        return
    text = text_of(data)
    if text is None:
        raise ValueError("no text")
    match media_type:
        case "application/json":
            yield None, "\n".join(_flatten_json(json.loads(text), ""))
        case "text/plain" | "text/markdown":
            yield None, text
        case _:
            yield None, _as_markdown(text.encode(), media_type)


def _pdf_texts(data: bytes) -> Iterator[tuple[int | None, str]]:
    from pypdf import PdfReader

    for number, page in enumerate(PdfReader(io.BytesIO(data)).pages, 1):
        yield number, page.extract_text()


def _as_markdown(data: bytes, media_type: str) -> str:
    """Return the text as Markdown, without the block that describes the file itself."""
    import kreuzberg

    # Without a cache, because this process may write no file.
    config = kreuzberg.ExtractionConfig(output_format="markdown", use_cache=False)
    text = kreuzberg.extract_bytes_sync(data, media_type, config).content
    if text.startswith("---\n"):
        _, _, text_rest = text[4:].partition("\n## ")
        title, _, body = text_rest.partition("\n")
        text = f"# {title.removeprefix('title: ')}\n{body}" if title.startswith("title: ") else text
    return text


def _flatten_json(value: "Json", path: str) -> Iterator[str]:
    """Yield a line per leaf of a JSON value: its path and its value."""
    match value:
        case dict():
            for name, item in value.items():
                yield from _flatten_json(item, f"{path}.{name}" if path else name)
        case list():
            for number, item in enumerate(value):
                yield from _flatten_json(item, f"{path}[{number}]")
        case _:
            yield f"{path}: {value}" if path else str(value)


def _text_chunks(text: str, size: int) -> Iterator[tuple[str, str | None]]:
    """Yield pieces of at most `size` characters, each with the heading above it."""
    headings = [
        (start, line.lstrip("#").strip()[:HEADING_CHARS])
        for start, line in _text_lines(text)
        if line.startswith("#") and line.lstrip("#").startswith(" ")
    ]
    heading_index = -1
    split_text = _chunk_splitter(size)
    for part_start, part in _text_parts(text, SPLIT_CHARS):
        for start, chunk in split_text(part):
            while heading_index + 1 < len(headings) and headings[heading_index + 1][0] <= part_start + start:
                heading_index += 1
            if chunk.strip():
                yield chunk, headings[heading_index][1] if heading_index >= 0 else None


def _chunk_splitter(size: int) -> Callable[[str], Iterable[tuple[int, str]]]:
    """Return what splits a text into pieces of at most `size` characters, by headings if the library is there."""
    try:
        from semantic_text_splitter import MarkdownSplitter
    except ImportError:  # a text needs no extra
        return lambda text: _text_parts(text, size)
    return MarkdownSplitter(size).chunk_indices


def _text_parts(text: str, size: int) -> Iterator[tuple[int, str]]:
    """Yield a text in parts of at most `size` characters, cut between paragraphs, or lines, if it has some."""
    start = 0
    while len(text) - start > size:
        max_end = start + size
        # Not before the middle, so that no part becomes very short.
        possible_ends = (
            text.rfind(between, start + size // 2, max_end) + len(between) for between in ("\n\n", "\n", " ")
        )
        end = next((candidate for candidate in possible_ends if candidate > start + size // 2), max_end)
        yield start, text[start:end]
        start = end
    yield start, text[start:]


def _text_lines(text: str) -> Iterator[tuple[int, str]]:
    start = 0
    for line in text.splitlines(keepends=True):
        yield start, line
        start += len(line)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
