"""Telling this memory's own output from what somebody said, so that memory never feeds on itself.

A projected block is known by its policy text and by its fence, whose mark is fresh each time. What stands between the
two belongs to memory, not to whoever sent it back. A note that rules drew of a day is known by its heading; somebody
may write such a line himself, so it is kept as evidence, and only not read as his own word.
"""

import re
from typing import Final, NamedTuple

from elytron_core.policy.projection import POLICY

NOTE_HEADING: Final = "From the transcript of"
"""How a note begins that is drawn from a day of the transcript; the day, a colon and who spoke follow."""

_NOTE: Final = re.compile(NOTE_HEADING + r" \d{4}-\d{2}-\d{2}: [^\n]*(?:\n> [^\n]*)*")
_OPENING: Final = re.compile(r"<memory-([0-9a-f]{8,64})>")


class Stripped(NamedTuple):
    """A text without this memory's own output, and how many blocks of it there were."""

    text: str
    blocks: int


def is_own_output(text: str, /) -> bool:
    """Tell whether `text` has a block of this memory in it, whole or in part."""
    return ("<memory-" in text and _OPENING.search(text) is not None) or POLICY in text


def strip_own_output(text: str, /) -> Stripped:
    """Return `text` without the blocks of memory that it repeats; other text stays as it is.

    A block begins with the policy text, or where that is missing with the fence, and ends with the fence's closing tag;
    without one, with the last line of memory.
    """
    blocks = 0
    kept: list[str] = []
    rest = text
    while (begun := _beginning(rest)) is not None:
        kept.append(rest[:begun])
        rest = rest[_ending(rest, begun) :]
        blocks += 1
    if not blocks:
        return Stripped(text, 0)
    return Stripped("".join((*kept, rest)).strip(), blocks)


def own_words(text: str, /) -> str:
    """Return what of `text` is its sender's own: without blocks of memory and notes drawn from a transcript."""
    told = strip_own_output(text).text
    return _NOTE.sub("", told).strip() if NOTE_HEADING in told else told


def is_drawn(note: str, /) -> bool:
    """Tell whether a note's text is one that rules drew from the transcript."""
    return _NOTE.fullmatch(note) is not None


def _beginning(text: str) -> int | None:
    opening = _OPENING.search(text)
    places = [place for place in (text.find(POLICY), opening.start() if opening else -1) if place >= 0]
    return min(places, default=None)


def _ending(text: str, begun: int) -> int:
    opening = _OPENING.search(text, begun)
    if opening is not None:
        closing = f"</memory-{opening[1]}>"
        place = text.find(closing, opening.end())
        if place >= 0:
            return place + len(closing)
    end = begun + len(POLICY) if text.startswith(POLICY, begun) else begun
    # Memory's lines are headings, which end with a colon, and items, which begin with a dash.
    for number, line in enumerate(text[end:].splitlines(keepends=True)):
        told = line.strip()
        is_memory = told.startswith(("- ", "<memory-")) or told.endswith(":")
        if not is_memory and (told or number):  # the first one is only the end of the policy text's line
            break
        end += len(line)
    return end
