"""The lines of a block: a memory with its labels, escaped, and clipped to the room there is."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Final

from elytron_core.clock import Instant, as_datetime
from elytron_core.policy.projection.escape import ELLIPSIS, JOINERS, bare, clip, escape, shown

ITEM_CHARS_MAX: Final = 1_200
"""The longest text of one memory; what is longer is clipped however much room there is."""
ITEM_CHARS_MIN: Final = 40
"""A clipped text is never shorter than this."""
LABEL_CHARS: Final = 48
"""The longest speaker's name in a line."""


@dataclass(frozen=True, slots=True)
class Line:
    """A memory as one line: its labels before the text, and the text, both escaped."""

    id: str
    head: str
    text: str
    clipped: bool
    source: str
    """The whole text that it was made of."""
    parts: tuple[tuple[int, int], ...] = ()
    """Start and end of each part of `source` that the text is made of, with a mark between them; without any, the text
    is its beginning."""
    is_outside: bool = False
    """True if it came from outside, so that no link is left in its text."""

    @property
    def is_faithful(self) -> bool:
        """True if the line says what its memory says, or its beginning if it was clipped, and nothing else."""
        told = self.text.removesuffix(ELLIPSIS) if self.clipped else self.text
        if not self.parts:
            return shown(self.source[: 8 * ITEM_CHARS_MAX], is_outside=self.is_outside).startswith(told)
        said = [bare(escape(self.source[start:end])) for start, end in self.parts]
        return all(any(bare(part).strip() in each for each in said) for part in told.split(ELLIPSIS))

    def fitted(self, room: int) -> "Line | None":
        """Return the line in at most `room` characters: whole, clipped to no less than a text may have, or none."""
        left = room - len(self.head)
        if len(self.text) <= left:
            return self
        if left < ITEM_CHARS_MIN:
            return None
        return replace(self, text=clip(self.text, left), clipped=True)


def line_of(
    memory: str,
    labels: Sequence[str],
    text: str,
    *,
    parts: Sequence[tuple[int, int]] = (),
    most: int = ITEM_CHARS_MAX,
    is_outside: bool = False,
) -> Line:
    """Return a memory as one line, its text, or `parts` of it, escaped and clipped to the longest a line may have.

    In what came from outside no link is left.
    """
    label = " ".join(part for part in labels if part)
    source = text
    if parts:
        text = excerpt(text, parts)
    # White space and invisible characters go before the length counts, so more than the longest text is looked at.
    escaped = shown(text[: 4 * ITEM_CHARS_MAX], is_outside=is_outside)
    is_clipped = len(escaped) > most or len(text) > 4 * ITEM_CHARS_MAX
    return Line(
        id=memory,
        head=f"- [{label}] " if label else "- ",
        text=clip(escaped, most) if is_clipped else escaped,
        clipped=is_clipped,
        source=source,
        parts=tuple(parts),
        is_outside=is_outside,
    )


def excerpt(text: str, parts: Sequence[tuple[int, int]], /) -> str:
    """Return the parts of a text, with a mark wherever something is left out."""
    told = f" {ELLIPSIS} ".join(text[start:end].strip() for start, end in parts)
    before = f"{ELLIPSIS} " if parts[0][0] else ""
    return f"{before}{told} {ELLIPSIS}" if parts[-1][1] < len(text) else before + told


def minute(at: Instant | None) -> str:
    """Return a time as lines show it, nothing for none."""
    return as_datetime(at).strftime("%Y-%m-%d %H:%M") if at is not None else ""


def label_of(speaker: str) -> str:
    """Return a name as it is written in the brackets of a line."""
    return escape(speaker[: 4 * LABEL_CHARS]).replace("]", ")")[:LABEL_CHARS]


def seen(lines: Iterable[Line]) -> list[Line]:
    """Return the lines that show anything."""
    return [line for line in lines if line.text.strip(JOINERS)]
