"""The fence `<memory-MARK>` around recalled text, and surface tags. Only this module writes and reads them."""

import hashlib
import json
import re
from collections.abc import Mapping
from enum import StrEnum
from typing import Final

TAG: Final = "<memory-"
"""Beginning of every opening; a plain search for it comes before a pattern, because few texts have one."""
OPENING: Final = re.compile(r"<memory-([0-9a-f]{8,64})>")
CLOSING: Final = re.compile(r"</memory-([0-9a-f]{8,64})>")
FENCED: Final = re.compile(r"<memory-([0-9a-f]{8,64})>\n(.*?)\n</memory-\1>", re.DOTALL)
"""A whole fence with its mark and body."""
FENCE_NAME: Final = "<memory-...>"
"""The fence as texts for a model describe it."""


class FenceTag(StrEnum):
    """Tags that surfaces put around recalled text, in addition to the fence itself.

    A surface takes its tag from here, so that no text inside can close it.
    """

    PROXY = "elytron-memory"
    BLOCKS = "memory_blocks"
    BLOCK = "block"


_WRAPPED: Final = re.compile(rf"<{FenceTag.PROXY}\b[^>\n]{{0,40}}>.*?</{FenceTag.PROXY}>", re.DOTALL)
_WRAPPED_END: Final = re.compile(rf"\A.*</{FenceTag.PROXY}>", re.DOTALL)
_WRAPPED_BEGINNING: Final = re.compile(rf"<{FenceTag.PROXY}\b.*\Z", re.DOTALL)
_MARK_CHARS: Final = 24
_ESCAPES: Final = str.maketrans(
    {"<": "\\u003c", ">": "\\u003e", "&": "\\u0026", "\u2028": "\\u2028", "\u2029": "\\u2029"}
)
"""Escapes of what could close a fence around JSON."""


def opening_of(mark: str, /) -> str:
    """Return the line that opens the fence of `mark`."""
    return f"{TAG}{mark}>"


def closing_of(mark: str, /) -> str:
    """Return the line that closes the fence of `mark`."""
    return f"</{TAG[1:]}{mark}>"


def fence_text(body: str, mark: str, /) -> str:
    """Return `body`, which has to be escaped, between the lines that open and close the fence of `mark`."""
    return f"{opening_of(mark)}\n{body}\n{closing_of(mark)}"


def fence_lines(text: str, /) -> list[str]:
    """Return the lines of `text` that begin like an opening or a closing."""
    beginnings = TAG, closing_of("")[:-1]
    return [line for line in text.split("\n") if line.startswith(beginnings)]


def fence_data(data: Mapping[str, object], /) -> str:
    """Return `data` in a fence as one line of JSON in which no character can close it.

    The mark follows from the data, so that equal data gives equal bytes.
    """
    body = json.dumps(data, ensure_ascii=False, separators=(",", ":")).translate(_ESCAPES)
    return fence_text(body, _data_mark(body))


def is_fenced_data(text: str, /) -> bool:
    """Return whether `text` is exactly fenced data as `fence_data` makes it."""
    match = FENCED.fullmatch(text)
    return match is not None and match[1] == _data_mark(match[2])


def _data_mark(body: str) -> str:
    return hashlib.sha256(body.encode("utf-8", "surrogatepass")).hexdigest()[:_MARK_CHARS]


def wrap_block(block: str, /) -> str:
    """Return a whole block in the proxy's tag, whose version defines its contents."""
    return f'<{FenceTag.PROXY} version="1">\n{block.strip()}\n</{FenceTag.PROXY}>'


def without_wrapped(text: str, /, *, is_answer: bool = False) -> str:
    """Return `text` without blocks in the proxy's tag; for an answer, also without an unfinished one.

    If an end is left over, the text before it is part of a block that a stored text closed too early: it goes as well.
    """
    if FenceTag.PROXY not in text:
        return text
    remaining_text = _WRAPPED_END.sub("", _WRAPPED.sub("", text)).strip()
    return _WRAPPED_BEGINNING.sub("", remaining_text).strip() if is_answer else remaining_text
