"""Lines by which a model is shown what a search found: escaped, bounded, each with its memory's id."""

from collections.abc import Iterable

from elytron_agent import limits
from elytron_agent.tool import ToolAnswer
from elytron_core.contracts.knowledge.recall import RecallHit
from elytron_core.planes.evidence import Trust
from elytron_core.policy.projection import lines

_NOTHING = "Nothing was found."


def answer_of(hits: Iterable[RecallHit], /) -> ToolAnswer:
    """Return the lines of `hits` for a model; marked as text from outside if one of them is."""
    found = list(hits)
    return ToolAnswer(
        text="\n".join(map(_line, found)) or _NOTHING, is_outside=any(hit.trust is Trust.OUTSIDE for hit in found)
    )


def _line(hit: RecallHit) -> str:
    # A line that begins with a day and ends with an id is known as memory's own if it comes back.
    labels = (
        lines.minute(hit.at),
        lines.label_of(hit.speaker or hit.role or hit.plane),
        f"in {lines.label_of(hit.conversation)}" if hit.conversation else "",
        *(f"#{lines.label_of(tag)}" for tag in hit.tags),
    )
    line = lines.line_of(hit.id, labels, hit.text, most=limits.SEARCH_LINE_CHARS, is_outside=hit.trust is Trust.OUTSIDE)
    return f"{line.head}{line.text} ({hit.id})"
