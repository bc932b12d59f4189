"""Lines for a terminal that break between words; what is printed elsewhere stays in one line."""

import re
import shutil
import textwrap
from dataclasses import dataclass
from typing import Any

from rich.console import Console

_PIECES = re.compile(r"\n|[^\S\n]+|\S+")


def wrap_words(text: str, /) -> str:
    """Return `text` in lines of at most the terminal's width; a longer word, such as a path, stays whole."""
    width = shutil.get_terminal_size().columns
    lines: list[str] = []
    for line in text.split("\n"):
        indent = line[: len(line) - len(line.lstrip())]
        wrapped_lines = textwrap.wrap(
            line.lstrip(), width, initial_indent=indent, subsequent_indent=indent, break_long_words=False,
            break_on_hyphens=False, replace_whitespace=False,
        )  # fmt: skip
        lines += wrapped_lines if len(line) > width else [line]
    return "\n".join(lines)


class WordConsole(Console):
    """A console that wraps long lines between words at a terminal, and never elsewhere."""

    def print(self, *objects: Any, **options: Any) -> None:
        """Print `objects`, wrapping those that the terminal would break."""
        if options.get("soft_wrap") and self.is_terminal:
            options |= {"soft_wrap": False, "overflow": "ignore", "crop": False}
        super().print(*objects, **options)


@dataclass(slots=True)
class StreamWrap:
    """Wraps text that comes in pieces. The last word is withheld until its end has come."""

    column: int = 0
    word: str = ""

    def feed(self, text: str, /) -> str:
        """Return the part of the text that can be written now."""
        pieces = _PIECES.findall(self.word + text)
        self.word = pieces.pop() if pieces and not pieces[-1].isspace() else ""
        return "".join(map(self._placed, pieces))

    def end(self) -> str:
        """Return the withheld word; the text is complete."""
        withheld_text, self.word = self._placed(self.word), ""
        self.column = 0
        return withheld_text

    def _placed(self, piece: str) -> str:
        if piece == "\n":
            self.column = 0
            return piece
        exceeds_width = self.column > 0 and self.column + len(piece) > shutil.get_terminal_size().columns
        if exceeds_width and piece.isspace():
            self.column = 0
            return "\n"
        self.column = len(piece) if exceeds_width else self.column + len(piece)
        return f"\n{piece}" if exceeds_width else piece
