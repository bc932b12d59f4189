"""In which encoding a text is written, where its bytes tell; none is guessed that could be another."""

import codecs
import re

_MARKS = (
    (codecs.BOM_UTF8, "utf-8-sig"),
    (codecs.BOM_UTF32_LE, "utf-32"),
    (codecs.BOM_UTF32_BE, "utf-32"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)
"""Those of four bytes stand before those of two, which begin as they do."""
_SAID = re.compile(rb"<meta[^>]{0,200}charset\s*=\s*[\"']?([A-Za-z0-9_:.-]{1,40})", re.IGNORECASE)
"""Where a page of HTML says its encoding; standards have it among the first kilobyte."""
_SAID_WITHIN = 4 * 1024
_SEEN = 64 * 1024
_COMMON = 0.9
_LATE = 0.15


def text_of(data: bytes, /) -> str | None:
    """Return the text that `data` is; None where it is none, or does not tell in which encoding."""
    for mark, encoding in _MARKS:
        if data.startswith(mark):
            return _decoded(data, encoding)
    text = _decoded(data, "utf-8")
    if text is not None:
        return text
    said = _SAID.search(data[:_SAID_WITHIN])
    if said is not None:
        return _decoded(data, said[1].decode())
    return _decoded(data, "gb18030") if _is_chinese(data[:_SEEN]) else None


def _decoded(data: bytes, encoding: str) -> str | None:
    """Return the text without a mark before it; a text holds no NUL."""
    try:
        text = data.decode(encoding)
    except (LookupError, ValueError):
        return None
    return text if "\0" not in text else None


def _is_chinese(data: bytes) -> bool:
    """Tell whether nearly all that is not ASCII are common characters of GB 2312, as in files of Chinese systems.

    Other encodings of the same bytes fail: those of Western letters have single high bytes, Cyrillic ones the rarer
    characters' bytes, Korean ones none of the later half of the common ones.
    """
    wide = [char.encode("gb18030") for char in data.decode("gb18030", errors="ignore") if not char.isascii()]
    common = [code for code in wide if len(code) == 2 and 0xB0 <= code[0] <= 0xD7 and code[1] >= 0xA1]
    marks = sum(len(code) == 2 and 0xA1 <= code[0] <= 0xA3 and code[1] >= 0xA1 for code in wide)
    late = sum(code[0] >= 0xC9 for code in common)
    return bool(common) and len(common) + marks >= _COMMON * len(wide) and late >= _LATE * len(common)
