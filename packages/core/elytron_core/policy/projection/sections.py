"""The sections of a block: their headings, layers and shares of the room, and what fits into it."""

from collections.abc import Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

from elytron_core.contracts.conversation.projection import Pressure, ProjectionLayer, ProjectionSection, SectionName
from elytron_core.policy.projection.lines import Line

HEADINGS: Final = MappingProxyType(
    {
        SectionName.SUBJECT: "Who speaks here, as kept:",
        SectionName.PRIVATE: "Private context:",
        SectionName.FACTS: "Known facts:",
        SectionName.SKILLS: "Known procedures:",
        SectionName.WISHES: "Lasting wishes and tastes that people told, latest first:",
        SectionName.CONTINUITY: "Where things stand:",
        SectionName.AGENT_SKILLS: "Skills in the host's directories (the host reads and runs them):",
        SectionName.AGENT_TOOLS: (
            "Tools that have served before (no permission to use them; the host decides and executes):"
        ),
        SectionName.RECENT: "Recent messages:",
        SectionName.RECALLED: "Recalled for this turn, best first:",
    }
)
LAYERS: Final = MappingProxyType(
    {
        SectionName.DISCLOSURE: ProjectionLayer.L1,
        SectionName.INTEGRITY: ProjectionLayer.L1,
        SectionName.POLICY: ProjectionLayer.L1,
        SectionName.SUBJECT: ProjectionLayer.L1,
        SectionName.PRIVATE: ProjectionLayer.L3,
        SectionName.FACTS: ProjectionLayer.L2,
        SectionName.SKILLS: ProjectionLayer.L2,
        SectionName.WISHES: ProjectionLayer.L2,
        SectionName.CONTINUITY: ProjectionLayer.L2,
        SectionName.AGENT_SKILLS: ProjectionLayer.L2,
        SectionName.AGENT_TOOLS: ProjectionLayer.L2,
        SectionName.RECENT: ProjectionLayer.L1,
        SectionName.RECALLED: ProjectionLayer.L2,
    }
)
"""The layer of each section: what rules the session, what was governed, what is private."""

SHARES_PERCENT: Final = {
    SectionName.SUBJECT: 10,
    SectionName.PRIVATE: 10,
    SectionName.WISHES: 10,
    SectionName.CONTINUITY: 15,
    SectionName.FACTS: 30,
    SectionName.SKILLS: 10,
    SectionName.AGENT_SKILLS: 10,
    SectionName.AGENT_TOOLS: 10,
    SectionName.RECENT: 20,
    SectionName.RECALLED: 40,
}
RULES_SHARE: Final = 4
"""Each rule beside the policy text may take one part in four of the room; else what needs it is left out."""
PRESSURE_PERCENT: Final = {Pressure.NORMAL: 100, Pressure.CAUTIOUS: 60, Pressure.CRITICAL: 35}
RECALLED_CHARS_MIN: Final = 500
RECALLED_CHARS_MAX: Final = 4_800
"""The least and the most characters in which a recalled message is shown, if it has them."""
BEST_SHARE: Final = 4
"""The best of them may take one part in four of the block, the next one in eight, then one in twelve, and so on."""


@dataclass(frozen=True, slots=True)
class Filled:
    """A section with what fitted into its room, in the order it is shown."""

    name: SectionName
    room: int
    text: str = ""
    included: tuple[str, ...] = ()
    dropped: tuple[str, ...] = ()
    lines: tuple[Line, ...] = ()

    @property
    def clipped(self) -> int:
        return sum(line.clipped for line in self.lines)

    @property
    def left(self) -> int:
        return self.room - len(self.text)

    def report(self) -> ProjectionSection:
        return ProjectionSection(
            name=self.name,
            layer=LAYERS[self.name],
            chars=len(self.text),
            budget=self.room,
            included=self.included,
            dropped=self.dropped,
        )


def fill(name: SectionName, lines: Sequence[Line], *, room: int, note: str = "") -> Filled:
    """Return the section with what fits into `room`, its heading, `note` included, paid by the first line."""
    latest_first = name is SectionName.RECENT
    heading = f"{HEADINGS[name].removesuffix(':')} ({note}):" if note else HEADINGS[name]
    left = room - len(heading) - 1
    kept: list[Line] = []
    dropped: list[str] = []
    for line in reversed(lines) if latest_first else lines:
        fitted = None if latest_first and dropped else line.fitted(left - 1)
        if fitted is None:
            dropped.append(line.id)
        else:
            kept.append(fitted)
            left -= 1 + len(fitted.head) + len(fitted.text)
    if latest_first:
        kept.reverse()
        dropped.reverse()
    return Filled(
        name=name,
        room=room,
        text="".join(f"\n{part}" for part in (heading, *(line.head + line.text for line in kept))) if kept else "",
        included=tuple(line.id for line in kept),
        dropped=tuple(dropped),
        lines=tuple(kept),
    )


def recalled_chars(place: int, budget: int, /) -> int:
    """Return the longest that the recalled message at `place`, from 1 on, is shown in a block of `budget` characters.

    An answer takes a few sentences, so parts of many messages are shown rather than one whole; the better a message is,
    the more of it.
    """
    return max(RECALLED_CHARS_MIN, min(RECALLED_CHARS_MAX, budget // (BEST_SHARE * place)))


def budget_of(max_chars: int, pressure: Pressure, room_percent: int = 100) -> int:
    """Return how many characters a block may have: the request's bound, shrunk by pressure or by the host's room."""
    return max(max_chars, 0) * min(PRESSURE_PERCENT[pressure], room_percent) // 100
