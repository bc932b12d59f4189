"""The lines and sections of a block: escaped, clipped, and filled into the room there is."""

import re
import unicodedata
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Final

from elytron_core.clock import Instant, as_datetime
from elytron_core.contracts.conversation.projection import ProjectionLayer, ProjectionSection, SectionName
from elytron_core.policy.projection.role_marks import ANGLED, BRACKETED, TURNED

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

ITEM_CHARS_MAX: Final = 1_200
"""The longest text of one memory; what is longer is clipped however much room there is."""
RECALLED_CHARS_MIN: Final = 500
RECALLED_CHARS_MAX: Final = 4_800
"""The least and the most characters in which a recalled message is shown, if it has them."""
BEST_SHARE: Final = 4
"""The best of them may take one part in four of the block, the next one in eight, then one in twelve, and so on."""
ITEM_CHARS_MIN: Final = 40
"""A clipped text is never shorter than this."""
LABEL_CHARS: Final = 48
"""The longest speaker's name in a line."""

_ELLIPSIS = "…"
_JOINERS = "\u200c\u200d"  # kept: emoji and Persian need them
_FETCHING = "(?:img|image|picture|svg|iframe|video|audio|source|embed|object|link|script|style|input|body)"
_FENCE = re.compile(
    rf"[<\uff1c\ufe64](?=[\s{_JOINERS}]*+[/\uff0f]?[\s{_JOINERS}]*+"
    rf"(?:memory[{_JOINERS}]*+-|(?<=[/\uff0f\s])memory[\s{_JOINERS}]*+>|[|\uff5c]|[<\uff1c]?[/\uff0f]?sys>>|{ANGLED}|{_FETCHING}[\s/>]))",
    re.IGNORECASE,
)
"""Openings of a fence of ours, of a mark that a tokenizer may read as its own, and of a tag that fetches something."""
_BRACKETS = re.compile(rf"\[(?=/?(?:{BRACKETED})\])|{TURNED}")
_LINK = re.compile(r"(?<=[A-Za-z0-9]):(?=//)|(?<=\bmailto):|(?<=\bwww)\.|\](?=\()|<(?=/?a[\s/>])", re.IGNORECASE)
"""The sign by which an address, the target of a Markdown link, or a link of HTML begins."""
_UNLINKED = {"]": "] ", "<": "\u2039"}
_SELECTORS = r"\ufe00-\ufe0f\U000e0100-\U000e01ef"
_UNSEEN_RUN = re.compile(rf"[{_SELECTORS}]{{2,}}|[{_JOINERS}]{{2,}}")
"""Characters that show nothing and can spell anything; a single one after a letter may have a meaning."""
_SUSPECT = re.compile(rf"[<\uff1c\ufe64{_JOINERS}{_SELECTORS}]")
"""A text of other letters than ASCII's without these needs no closer look; most have none."""
_BARE_OUT = re.compile(f"[{_JOINERS}{_SELECTORS}]")
_BARE = str.maketrans({"[": "(", "<": "\u2039", "\uff1c": "\u2039", "\ufe64": "\u2039"})
_UNSEEN = frozenset({"Cc", "Cf", "Cs"})


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
        told = self.text.removesuffix(_ELLIPSIS) if self.clipped else self.text
        if not self.parts:
            return _shown(self.source[: 8 * ITEM_CHARS_MAX], is_outside=self.is_outside).startswith(told)
        said = [_bare(escape(self.source[start:end])) for start, end in self.parts]
        return all(any(_bare(part).strip() in each for each in said) for part in told.split(_ELLIPSIS))

    def fitted(self, room: int) -> "Line | None":
        """Return the line in at most `room` characters: whole, clipped to no less than a text may have, or none."""
        left = room - len(self.head)
        if len(self.text) <= left:
            return self
        if left < ITEM_CHARS_MIN:
            return None
        return replace(self, text=clip(self.text, left), clipped=True)


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
    shown = _shown(text[: 4 * ITEM_CHARS_MAX], is_outside=is_outside)
    is_clipped = len(shown) > most or len(text) > 4 * ITEM_CHARS_MAX
    return Line(
        id=memory,
        head=f"- [{label}] " if label else "- ",
        text=clip(shown, most) if is_clipped else shown,
        clipped=is_clipped,
        source=source,
        parts=tuple(parts),
        is_outside=is_outside,
    )


def excerpt(text: str, parts: Sequence[tuple[int, int]], /) -> str:
    """Return the parts of a text, with a mark wherever something is left out."""
    told = f" {_ELLIPSIS} ".join(text[start:end].strip() for start, end in parts)
    before = f"{_ELLIPSIS} " if parts[0][0] else ""
    return f"{before}{told} {_ELLIPSIS}" if parts[-1][1] < len(text) else before + told


def recalled_chars(place: int, budget: int, /) -> int:
    """Return the longest that the recalled message at `place`, from 1 on, is shown in a block of `budget` characters.

    An answer takes a few sentences, so parts of many messages are shown rather than one whole; the better a message is,
    the more of it.
    """
    return max(RECALLED_CHARS_MIN, min(RECALLED_CHARS_MAX, budget // (BEST_SHARE * place)))


def minute(at: Instant | None) -> str:
    """Return a time as lines show it, nothing for none."""
    return as_datetime(at).strftime("%Y-%m-%d %H:%M") if at is not None else ""


def label_of(speaker: str) -> str:
    """Return a name as it is written in the brackets of a line."""
    return escape(speaker[: 4 * LABEL_CHARS]).replace("]", ")")[:LABEL_CHARS]


def escape(text: str, /) -> str:
    """Return `text` as one line that cannot be taken for a fence: no breaks, no controls, no opening of a fence tag.

    Also removed are tokens that mark the beginning of another part for a model, runs of invisible characters, and
    images: a program that shows a model's answer would fetch one from any address that the text gives.
    """
    text = " ".join(text.split())
    if not text.isprintable():
        kept = (char for char in text if char in _JOINERS or unicodedata.category(char) not in _UNSEEN)
        text = " ".join("".join(kept).split())
    if text.isascii():
        text = _FENCE.sub("\u2039", text) if "<" in text else text
    elif _SUSPECT.search(text) is not None:
        text = _UNSEEN_RUN.sub(_first, _FENCE.sub("\u2039", text))
    if "[" in text or "]~" in text:
        text = _BRACKETS.sub("(", text)
    return text.replace("![", "! [") if "](" in text else text


def unlinked(text: str, /) -> str:
    """Return `text` escaped, and no address in it a link: it can be read, and what shows it makes nothing to follow.

    A page could otherwise have an answer that repeats it carry something out at a click, or by a preview of the link.
    """
    return _LINK.sub(lambda found: _UNLINKED.get(found[0], f"[{found[0]}]"), escape(text))


def _shown(text: str, *, is_outside: bool) -> str:
    return unlinked(text) if is_outside else escape(text)


def _first(run: re.Match[str]) -> str:
    return run[0][0]


def _bare(text: str) -> str:
    """Return an escaped text without what escaping makes of the text beside."""
    bare = _BARE_OUT.sub("", text.translate(_BARE)).replace("! (", "!(")
    return bare.replace("(:]", ":").replace("(.]", ".").replace("] (", "](")


def clip(text: str, size: int) -> str:
    """Return the first `size` characters, the last of them an ellipsis."""
    return text[: size - len(_ELLIPSIS)] + _ELLIPSIS


def seen(lines: Iterable[Line]) -> list[Line]:
    """Return the lines that show anything."""
    return [line for line in lines if line.text.strip(_JOINERS)]
