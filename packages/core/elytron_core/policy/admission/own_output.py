"""Recognition of this memory's own output in messages, so that memory never feeds on itself.

A projected block is recognised by its policy text and by its fence, whose mark is random. Text between the two belongs
to memory, not to the sender. A rule-drawn day note is recognised by its heading; because a person may also write such a
line, it stays evidence and only loses the authority of the person's own words.

Text recalled for a gateway run is recognised by its heading and the JSON lines below it, and MCP lists by lines that
begin with a day and end with a memory id.
"""

import re
from bisect import bisect_left, bisect_right
from functools import cached_property
from itertools import accumulate, islice
from typing import Any, Final, NamedTuple, cast

from elytron_core.policy.projection import fence
from elytron_core.policy.projection.builder import DATA_POLICY, POLICY
from elytron_core.policy.projection.sections import HEADINGS

REPEATED: Final = "(what memory showed, repeated)"
NOTE_HEADING: Final = "From the transcript of"
"""Heading of a note written from a day of the transcript; followed by the day, a colon and the speaker."""

_NOTE: Final = re.compile(NOTE_HEADING + r" \d{4}-\d{2}-\d{2}: [^\n]*(?:\n> [^\n]*)*")
REFERENCE_HEADING: Final = "Recalled memory:"
"""Heading that the gateway's client puts above hits; one line of JSON per memory follows."""
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
_HEADING: Final = re.compile(
    rf"(?:{'|'.join(re.escape(heading.removesuffix(':')) for heading in HEADINGS.values())})"
    r"(?: \([^()\n]{1,200}\))?:[ \t]*(?=\r?\n|\Z)"
)
"""A line above a section, with an optional note."""
_HEADED: Final = re.compile(rf"[^\S\n]*+\n\s*+{_HEADING.pattern}")


class StrippedText(NamedTuple):
    """A text without this memory's own output, and the number of removed blocks."""

    text: str
    blocks: int


def is_own_output(text: str, /) -> bool:
    """Return whether `text` contains a block of this memory, whole or in part, even if only its tag."""
    # A plain search comes first: few texts have a mark, and a pattern is slower.
    if (fence.TAG in text and fence.OPENING.search(text) is not None) or POLICY in text:
        return True
    if REFERENCE_HEADING in text and _REFERENCE.search(text) is not None:
        return True
    # Only the id is searched for first, because the whole form is tried at each line.
    return _LISTED_ID.search(text) is not None and _LISTED.search(text) is not None


def strip_own_output(text: str, /) -> StrippedText:
    """Return `text` without the memory blocks that it repeats; other text is unchanged.

    A block begins with the policy text, or if that is missing with the fence, and ends with the fence's closing tag;
    without one, with the last line of memory. A tag by itself is no block: one that nothing closes, and no heading of
    memory follows, is its sender's own text.
    """
    if not is_own_output(text):
        return StrippedText(text, 0)
    text, block_count = _without_references(text)
    block_marks = _BlockMarks(text)
    block_end = 0
    pieces: list[str] = []
    while (block_start := block_marks.beginning(block_end)) is not None:
        pieces.append(text[block_end:block_start])
        block_end = block_marks.ending(block_start)
        block_count += 1
    return (
        StrippedText("".join((*pieces, text[block_end:])).strip(), block_count)
        if block_count
        else StrippedText(text, 0)
    )


def own_words(text: str, /) -> str:
    """Return the sender's own part of `text`: without memory blocks and notes written from a transcript."""
    own_text = strip_own_output(text).text
    return _NOTE.sub("", own_text).strip() if NOTE_HEADING in own_text else own_text


def of_others(part: object, /) -> Any:
    """Return a JSON value without this memory's own output in its texts; a note replaces a text of nothing else."""
    return _of_others(part) if is_own_output("\n".join(json_texts(part))) else part


def json_texts(part: object, /) -> list[str]:
    """Return all texts of a JSON value, including names. Joined as lines, they contain every mark that one of them
    has."""
    texts: list[str] = []
    pending_values: list[object] = [part]
    for value in pending_values:  # grows while iterating
        if isinstance(value, str):
            texts.append(value)
        elif isinstance(value, dict):
            members = cast("dict[str, object]", value)
            texts += members
            pending_values += members.values()
        elif isinstance(value, _LISTS):
            pending_values += cast("list[object]", value)
    return texts


def _of_others(part: object) -> Any:
    if isinstance(part, str):
        return (strip_own_output(part).text or REPEATED) if is_own_output(part) else part
    if isinstance(part, list):
        return [_of_others(inner) for inner in cast("list[object]", part)]
    if isinstance(part, dict):
        return {name: _of_others(inner) for name, inner in cast("dict[str, object]", part).items()}
    return part


def is_drawn(note: str, /) -> bool:
    """Return whether a note's text was written by rules from the transcript."""
    return _NOTE.fullmatch(note) is not None


def _without_references(text: str) -> tuple[str, int]:
    """Return `text` without such lines, and the number of runs and of lines removed."""
    remaining_text, reference_count = _REFERENCE.subn("", text)
    remaining_text, listed_count = _LISTED.subn("", remaining_text)
    return remaining_text, reference_count + listed_count


class _FencePlace(NamedTuple):
    """Where an opening is, and where the text after its closing tag begins; None without one."""

    start: int
    end: int
    closed: int | None


class _BlockMarks:
    """Positions at which memory blocks may begin and end in a text; each is searched once, for any number of blocks."""

    def __init__(self, text: str, /) -> None:
        self._text = text
        self._policies = [match.start() for match in _POLICY.finditer(text)]
        closing_ends_by_mark: dict[str, list[int]] = {}
        for tag_match in fence.CLOSING.finditer(text):
            closing_ends_by_mark.setdefault(tag_match[1], []).append(tag_match.end())
        self._fences: list[_FencePlace] = []
        for tag_match in fence.OPENING.finditer(text):
            # Only a tag of the same mark closes the fence, because the text inside may contain others.
            closing_ends = closing_ends_by_mark.get(tag_match[1], [])
            closing_end = next(
                iter(closing_ends[(next_closing := bisect_left(closing_ends, tag_match.end())) : next_closing + 1]),
                None,
            )
            if closing_end is not None or _HEADED.match(text, tag_match.end()) is not None:
                self._fences.append(_FencePlace(tag_match.start(), tag_match.end(), closing_end))

    @cached_property
    def _lines(self) -> list[int]:
        """End of each line."""
        return list(accumulate(len(line) for line in self._text.splitlines(keepends=True)))

    def _fence_at(self, start: int) -> _FencePlace | None:
        """Return the first fence from there on."""
        fence_index = bisect_left(self._fences, (start,))
        return self._fences[fence_index] if fence_index < len(self._fences) else None

    def beginning(self, start: int, /) -> int | None:
        """Return where the next block begins."""
        policy_index = bisect_left(self._policies, start)
        fence_place = self._fence_at(start)
        block_starts = (
            *self._policies[policy_index : policy_index + 1],
            *((fence_place.start,) if fence_place is not None else ()),
        )
        return min(block_starts, default=None)

    def ending(self, start: int, /) -> int:
        """Return where the block that begins there ends."""
        policy_text = next((text for text in (DATA_POLICY, POLICY) if self._text.startswith(text, start)), "")
        end = self._behind_memory(start + len(policy_text)) if policy_text else start
        fence_place = self._fence_at(start)
        # Text between the policy text and a fence is memory's too; otherwise the fence belongs to another block.
        if fence_place is None or fence_place.start > end:
            return end
        return fence_place.closed if fence_place.closed is not None else self._behind_memory(fence_place.end)

    def _behind_memory(self, end: int) -> int:
        """Return where memory's lines end: its headings, items with a dash, and fence openings."""
        is_first = True
        for line_end in islice(self._lines, bisect_right(self._lines, end), None):
            blanks = _BLANKS.match(self._text, end, line_end)
            assert blanks is not None
            # The first line is only the end of the policy text's line.
            if not (is_first and blanks.end() == line_end) and not self._is_memory(blanks.end()):
                break
            is_first, end = False, line_end
        return end

    def _is_memory(self, start: int) -> bool:
        if self._text.startswith("- ", start) or _HEADING.match(self._text, start) is not None:
            return True
        fence_place = self._fence_at(start)
        return fence_place is not None and fence_place.start == start
