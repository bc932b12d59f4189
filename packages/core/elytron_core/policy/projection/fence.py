"""The fence `<memory-MARK>` around recalled text: the only place that writes and reads it."""

import re
from typing import Final

TAG: Final = "<memory-"
"""Beginning of each opening; a plain search for it comes before a pattern, because few texts have one."""
OPENING: Final = re.compile(r"<memory-([0-9a-f]{8,64})>")
CLOSING: Final = re.compile(r"</memory-([0-9a-f]{8,64})>")
FENCED: Final = re.compile(r"<memory-([0-9a-f]{8,64})>\n(.*?)\n</memory-\1>", re.DOTALL)
"""A whole fence with its mark and body."""
SHOWN: Final = "<memory-...>"
"""The fence as texts for a model name it."""


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
    """Return the lines of `text` that begin as an opening or a closing does."""
    return [line for line in text.split("\n") if line.startswith((TAG, closing_of("")[:-1]))]
