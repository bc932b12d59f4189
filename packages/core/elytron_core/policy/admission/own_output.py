"""Recognition of this memory's own output in messages, so that memory never feeds on itself.

A projected block is known by its policy text and by its fence, whose mark is fresh each time. The text between the
two belongs to memory, not to its sender. A note that rules drew of a day is known by its heading; a person
may write such a line too, so it is kept as evidence, and only not read as the person's own word.

What is recalled for a run of the gateway is known by its heading and the lines of JSON below it, what is listed over
MCP by lines that begin with a day and end with a memory's id.
"""

import re
from bisect import bisect_left, bisect_right
from functools import cached_property
from itertools import accumulate, islice
from typing import Any, Final, NamedTuple, cast

from elytron_core.policy.projection import fence
from elytron_core.policy.projection.builder import POLICY

REPEATED: Final = "(what memory showed, repeated)"
NOTE_HEADING: Final = "From the transcript of"
"""Heading of a note that is drawn from a day of the transcript; the day, a colon and the speaker follow."""

_NOTE: Final = re.compile(NOTE_HEADING + r" \d{4}-\d{2}-\d{2}: [^\n]*(?:\n> [^\n]*)*")
REFERENCE_HEADING: Final = "Recalled memory:"
"""Heading of the reference that the gateway's client makes of hits; one line of JSON a memory follows."""
_REFERENCE: Final = re.compile(
    rf"^[ \t]*{REFERENCE_HEADING}[ \t]*(?:\r?\n[ \t]*\{{\"[^\n]*\}}[ \t]*(?=\r?$))+", re.MULTILINE
)
_ID: Final = (
    r"\((?:[0-9a-f]{24}\.[0-9a-f]{12}(?:#[0-9]{1,3})?|[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[0-9a-f]{4}-[0-9a-f]{12}"
    r"|[a-z_]{4,20}:[0-9a-f.]{16,128}|runtime_skill__[^\s()]{1,200})\)[ \t]*(?=\r?$)"
)
_LISTED_ID: Final = re.compile(_ID, re.MULTILINE)
_LISTED: Final = re.compile(rf"^(?:[-*] )?\[[0-9]{{4}}-[0-9]{{2}}-[0-9]{{2}}[^\]\n]*\] [^\n]*{_ID}", re.MULTILINE)
_POLICY: Final = re.compile(re.escape(POLICY))
_LISTS: Final = (list, tuple)
_BLANKS: Final = re.compile(r"\s*+")


class StrippedText(NamedTuple):
    """A text without this memory's own output, and how many blocks of it there were."""

    text: str
    blocks: int


def is_own_output(text: str, /) -> bool:
    """Return whether `text` has a block of this memory in it, whole or in part."""
    # A plain search comes first: few texts have a mark, and a pattern takes longer.
    if (fence.TAG in text and fence.OPENING.search(text) is not None) or POLICY in text:
        return True
    if REFERENCE_HEADING in text and _REFERENCE.search(text) is not None:
        return True
    # The id alone is searched for first, because the whole form is tried at each line.
    return _LISTED_ID.search(text) is not None and _LISTED.search(text) is not None


def strip_own_output(text: str, /) -> StrippedText:
    """Return `text` without the blocks of memory that it repeats; other text stays as it is.

    A block begins with the policy text, or if that is missing with the fence, and ends with the fence's closing tag;
    without one, with the last line of memory.
    """
    if not is_own_output(text):
        return StrippedText(text, 0)
    text, blocks = _without_references(text)
    marks = _BlockMarks(text)
    end = 0
    kept: list[str] = []
    while (begun := marks.beginning(end)) is not None:
        kept.append(text[end:begun])
        end = marks.ending(begun)
        blocks += 1
    return StrippedText("".join((*kept, text[end:])).strip(), blocks)


def own_words(text: str, /) -> str:
    """Return what of `text` is its sender's own: without blocks of memory and notes drawn from a transcript."""
    told = strip_own_output(text).text
    return _NOTE.sub("", told).strip() if NOTE_HEADING in told else told


def of_others(part: object, /) -> Any:
    """Return a JSON value whose texts hold none of this memory's own output; one that held nothing else says so."""
    return _of_others(part) if is_own_output("\n".join(json_texts(part))) else part


def json_texts(part: object, /) -> list[str]:
    """Return all texts of a JSON value, names too. Joined as lines, they have each mark that one of them has."""
    found: list[str] = []
    parts: list[object] = [part]
    for inner in parts:  # grows meanwhile
        if isinstance(inner, str):
            found.append(inner)
        elif isinstance(inner, dict):
            members = cast("dict[str, object]", inner)
            found += members
            parts += members.values()
        elif isinstance(inner, _LISTS):
            parts += cast("list[object]", inner)
    return found


def _of_others(part: object) -> Any:
    if isinstance(part, str):
        return (strip_own_output(part).text or REPEATED) if is_own_output(part) else part
    if isinstance(part, list):
        return [_of_others(inner) for inner in cast("list[object]", part)]
    if isinstance(part, dict):
        return {name: _of_others(inner) for name, inner in cast("dict[str, object]", part).items()}
    return part


def is_drawn(note: str, /) -> bool:
    """Return whether a note's text is one that rules drew from the transcript."""
    return _NOTE.fullmatch(note) is not None


def _without_references(text: str) -> tuple[str, int]:
    """Return `text` without such lines, and how many runs and lines there were."""
    rest, references = _REFERENCE.subn("", text)
    rest, listed = _LISTED.subn("", rest)
    return rest, references + listed


class _BlockMarks:
    """Places at which blocks of memory may begin and end in a text; each is searched once, for any number of blocks."""

    def __init__(self, text: str, /) -> None:
        self._text = text
        self._policies = [found.start() for found in _POLICY.finditer(text)]
        self._openings = [(found.start(), found.end(), found[1]) for found in fence.OPENING.finditer(text)]
        self._closings: dict[str, list[int]] = {}
        for found in fence.CLOSING.finditer(text):
            self._closings.setdefault(found[1], []).append(found.start())

    @cached_property
    def _lines(self) -> list[int]:
        """End of each line."""
        return list(accumulate(len(line) for line in self._text.splitlines(keepends=True)))

    @cached_property
    def _colons(self) -> dict[int, bool]:
        """For each place asked about: true if the line that ends there ends with a colon."""
        return {}

    def beginning(self, start: int, /) -> int | None:
        """Return where the next block begins."""
        policy = bisect_left(self._policies, start)
        opening = bisect_left(self._openings, (start,))
        places = (*self._policies[policy : policy + 1], *(one[0] for one in self._openings[opening : opening + 1]))
        return min(places, default=None)

    def ending(self, begun: int, /) -> int:
        """Return where the block that begins there ends."""
        opening = next(iter(self._openings[(place := bisect_left(self._openings, (begun,))) : place + 1]), None)
        # Only a tag of the same mark closes the fence: the text inside may contain others.
        if opening is not None:
            closings = self._closings.get(opening[2], [])
            closing = next(iter(closings[(place := bisect_left(closings, opening[1])) : place + 1]), None)
            if closing is not None:
                return closing + len(fence.closing_of(opening[2]))
        end = begun + len(POLICY) if self._text.startswith(POLICY, begun) else begun
        return self._behind_memory(end)

    def _behind_memory(self, end: int) -> int:
        """Return where memory's lines end, which are headings with a colon at the end, and items with a dash before."""
        is_first = True
        for line in islice(self._lines, bisect_right(self._lines, end), None):
            told = _BLANKS.match(self._text, end, line)
            assert told is not None
            is_blank = told.end() == line
            is_item = self._text.startswith(("- ", fence.TAG), told.end(), line)
            is_memory = is_item or (not is_blank and self._is_heading(line))
            if not is_memory and (
                not is_blank or not is_first
            ):  # the first one is only the end of the policy text's line
                break
            is_first, end = False, line
        return end

    def _is_heading(self, line: int) -> bool:
        if line not in self._colons:
            start = self._lines[place - 1] if (place := bisect_left(self._lines, line)) else 0
            self._colons[line] = self._text[start:line].rstrip().endswith(":")
        return self._colons[line]
