"""The sections of a block: headings, layers, shares of the space, and the escaped lines that fit.

Recalled text becomes one line that can neither leave its fence, nor impersonate another role, nor fetch anything.
"""

import re
import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from types import MappingProxyType
from typing import Final

from elytron_core.clock import Instant, as_datetime
from elytron_core.contracts.projection import ProjectionLayer, ProjectionSection, SectionName
from elytron_core.contracts.recall import RecallPlane
from elytron_core.evidence import EvidenceRole
from elytron_core.model import Value
from elytron_core.planes import facts
from elytron_core.planes.facts import FreshnessHint
from elytron_core.policy.projection import fence
from elytron_core.profiles import MemoryPressure
from elytron_core.text.similarity import LOOKALIKES, bare_places, bare_text

BRACKETED: Final = (
    r"INST|SYSTEM_PROMPT|AVAILABLE_TOOLS|TOOL_CALLS|TOOL_RESULTS|TOOL_CONTENT|TOOLS|ARGS|CALL_ID|MODEL_SETTINGS"
    r"|IMG|IMG_BREAK|IMG_END|IMAGE|(?:BEGIN_|OUTPUT_)?AUDIO|(?:NEXT|REPEAT)_AUDIO_TEXT|PRINT_(?:TIME|LANGUAGE)|TRANSCRIBE"
    r"|THINK|REF|PREFIX|MIDDLE|SUFFIX|CONTROL_\d{1,4}|STREAMING_(?:PAD|WORD)|@BOS@|multimodal"
    r"|gMASK|sMASK|MASK|CLS|SEP|PAD|UNK|BOS|EOS|EOT|SYS|unused\d{1,4}|\|\s*[a-z_]{1,20}\s*\|"
)
"""Marks between square brackets, optionally after a slash: Mistral, Gemma, GLM, EXAONE, BERT and their derivatives."""
TURNED: Final = r"\[(?=e~\[)|\](?=~b\])|(?<=\]~!b)\[|(?<=\]![dp]~)\[|(?<=[a-z])\[(?=>\[)"
"""One bracket of each mark that MiniMax writes with brackets the wrong way round: `[e~[`, `]~b]`, `]~!b[`, `]!d~[`,
`]!p~[`, `]<]image[>[` and others of this last form."""


ELLIPSIS: Final = "…"
JOINERS: Final = "\u200c\u200d"  # not removed: emoji and Persian need them


_SELECTORS = r"\ufe00-\ufe0f\U000e0100-\U000e01ef"
_TAG_WITH_END = (
    r"(?=[^\s<>\u2039]{0,80}?[^\W\d])(?:[^\s<>\u2039]{1,80}|[^\W\d][\w:.-]{0,64}+\s+[\w:.-]+\s*=[^<>]{0,200})[\s/]*>"
)
_NAMES = rf"(?:\||{fence.TAG[1:]}|{_TAG_WITH_END})"
_FENCE = re.compile(rf"<(?=[^\W\d]|[!?]|\s*+/[\s/]*+[^\W\d]|[\s/\\]*+{_NAMES})", re.IGNORECASE)
"""Openings of whatever may be read as a tag in a bare text: a letter behind the bracket, or behind a slash; comments
and instructions; a bar; and anything with a letter in it between two brackets. `a < b` and `<3` stay; `List<String>`
does not, because no list of names tells it from a tag."""
_BRACKETS = re.compile(rf"\[(?=\s*/?\s*(?:{BRACKETED})\s*\])|{TURNED}")
_ESCAPES: Final = ((_FENCE, "\u2039"), (_BRACKETS, "("))
_LINK = re.compile(r"(?<=[A-Za-z0-9]):(?=//)|(?<=\bmailto):|(?<=\bwww)\.|\](?=\()", re.IGNORECASE)
"""The character with which an address or the target of a Markdown link begins."""
_UNLINKED = {"]": "] "}
_UNSEEN_RUN = re.compile(rf"[{_SELECTORS}]{{2,}}|[{JOINERS}]{{2,}}")
"""Invisible characters that can spell anything; a single one after a letter may have a meaning."""
_SUSPECT = re.compile(rf"[<\[\]{''.join(LOOKALIKES[sign] for sign in '<[]')}]")
"""A text with non-ASCII letters but without these needs no closer look; most have none."""
_BARE_OUT = re.compile(f"[{JOINERS}{_SELECTORS}]")
_BARE = str.maketrans({sign: mark for like, mark in (("[", "("), ("<", "\u2039")) for sign in like + LOOKALIKES[like]})
_UNSEEN = frozenset({"Cc", "Cf", "Cs"})


def escape_line(text: str, /) -> str:
    """Return `text` as one line that cannot be mistaken for a fence: no breaks, no controls, no fence tag.

    Also removed are tokens that mark the beginning of another part for a model, runs of invisible characters, and
    images: a program that shows a model's answer would fetch one from any address that the text gives.
    """
    # Most names: nothing here needs escaping.
    if text.isalnum() and text.isascii():
        return text
    text = " ".join(text.split())
    if not text.isprintable():
        visible_chars = (char for char in text if char in JOINERS or unicodedata.category(char) not in _UNSEEN)
        text = " ".join("".join(visible_chars).split())
    if text.isascii():
        text = _FENCE.sub("\u2039", text) if "<" in text else text
        text = _BRACKETS.sub("(", text) if "[" in text or "]~" in text else text
    else:
        text = replace_signs(text, _ESCAPES) if _SUSPECT.search(text) is not None else text
        text = _UNSEEN_RUN.sub(lambda run_match: run_match[0][0], text) if _BARE_OUT.search(text) is not None else text
    return text.replace("![", "! [") if "](" in text else text


def replace_signs(text: str, forms: Iterable[tuple[re.Pattern[str], str]], /) -> str:
    """Return `text` with its mark in the place of each sign at which a form begins in the bare text."""
    bare_form = bare_text(text)
    placed_marks = [(match.start(), mark) for sign_pattern, mark in forms for match in sign_pattern.finditer(bare_form)]
    if not placed_marks:
        return text
    char_places, characters = bare_places(text), list(text)
    for match_start, mark in placed_marks:
        characters[char_places[match_start]] = mark
    return "".join(characters)


def escape_links(text: str, /) -> str:
    """Return `text` escaped with all addresses defused: they stay readable, but no viewer turns them into links.

    A page could otherwise have an answer that repeats it carry something out at a click, or by a preview of the link.
    """
    return _LINK.sub(lambda match: _UNLINKED.get(match[0], f"[{match[0]}]"), escape_line(text))


def unescape_line(text: str) -> str:
    """Return an escaped text without the additions of escaping."""
    unescaped_text = _BARE_OUT.sub("", text.translate(_BARE)).replace("! (", "!(")
    return unescaped_text.replace("(:]", ":").replace("(.]", ".").replace("] (", "](")


def clip_text(text: str, size: int) -> str:
    """Return `text`, or its first `size` characters ending in an ellipsis."""
    return text if len(text) <= size else text[: size - len(ELLIPSIS)] + ELLIPSIS


ITEM_CHARS_MAX: Final = 1_200
"""Maximum length of one memory's text; longer ones are clipped however much room there is."""
ITEM_CHARS_MIN: Final = 40
"""Minimum length of a clipped text."""
LABEL_CHARS: Final = 48
"""Maximum length of a speaker's name in a line."""


@dataclass(frozen=True, slots=True)
class SectionLine:
    """A memory as one line: its labels, then its text, both escaped."""

    id: str
    head: str
    text: str
    clipped: bool
    source: str
    """The whole text from which it was made."""
    parts: tuple[tuple[int, int], ...] = ()
    """Start and end of each part of `source` that the text is made of, with a mark between them; without any, the text
    is its beginning."""
    is_outside: bool = False
    """True if it came from outside, so that its text contains no link."""

    @property
    def is_faithful(self) -> bool:
        """True if the line says exactly what its memory says, or the beginning of it if clipped."""
        shown_text = self.text.removesuffix(ELLIPSIS) if self.clipped else self.text
        if not self.parts:
            # More than `line_of` reads, so that its cut changes nothing here.
            escape = escape_links if self.is_outside else escape_line
            return escape(self.source[: 8 * ITEM_CHARS_MAX]).startswith(shown_text)
        source_parts = [unescape_line(escape_line(self.source[start:end])) for start, end in self.parts]
        return all(
            any(unescape_line(part).strip() in source_part for source_part in source_parts)
            for part in shown_text.split(ELLIPSIS)
        )

    def with_label(self, label: str) -> "SectionLine":
        """Return the line with one more label, already escaped, before its own."""
        own_labels = self.head.removeprefix("- ").removeprefix("[")
        return replace(self, head=f"- [{label} {own_labels}" if own_labels else f"- [{label}] ") if label else self

    def fitted(self, room: int) -> "SectionLine | None":
        """Return the line in at most `room` characters: whole, clipped to no less than the minimum, or empty."""
        text_room = room - len(self.head)
        if len(self.text) <= text_room:
            return self
        if text_room < ITEM_CHARS_MIN:
            return None
        return replace(self, text=clip_text(self.text, text_room), clipped=True)


def line_of(
    memory: str,
    labels: Sequence[str],
    text: str,
    *,
    parts: Sequence[tuple[int, int]] = (),
    most: int = ITEM_CHARS_MAX,
    is_outside: bool = False,
) -> SectionLine:
    """Return a memory as one line: its text or `parts` of it, escaped and clipped to the maximum line length.

    In what came from outside no link is left.
    """
    label = " ".join(part for part in labels if part)
    source = text
    if parts:
        text = excerpt_text(text, parts)
    # White space and invisible characters are removed before measuring, so more than the longest text is read.
    escaped_text = (escape_links if is_outside else escape_line)(text[: 4 * ITEM_CHARS_MAX])
    is_clipped = len(escaped_text) > most or len(text) > 4 * ITEM_CHARS_MAX
    return SectionLine(
        id=memory,
        head=f"- [{label}] " if label else "- ",
        text=clip_text(escaped_text + ELLIPSIS, most) if is_clipped else escaped_text,
        clipped=is_clipped,
        source=source,
        parts=tuple(parts),
        is_outside=is_outside,
    )


def excerpt_text(text: str, parts: Sequence[tuple[int, int]], /) -> str:
    """Return the parts of a text, with a mark wherever something is left out."""
    joined_parts = f" {ELLIPSIS} ".join(text[start:end].strip() for start, end in parts)
    leading_mark = f"{ELLIPSIS} " if parts[0][0] else ""
    return f"{leading_mark}{joined_parts} {ELLIPSIS}" if parts[-1][1] < len(text) else leading_mark + joined_parts


@lru_cache(maxsize=4096)
def format_minute(at: Instant | None) -> str:
    """Return a time as lines show it; empty for None."""
    return as_datetime(at).strftime("%Y-%m-%d %H:%M") if at is not None else ""


def label_of(speaker: str) -> str:
    """Return a name as written in the brackets of a line."""
    return escape_line(speaker[: 4 * LABEL_CHARS]).replace("]", ")")[:LABEL_CHARS]


HEADINGS: Final = MappingProxyType(
    {
        SectionName.SUBJECT: "Who speaks here, as recorded:",
        SectionName.PRIVATE: "Private context:",
        SectionName.FACTS: "Known facts:",
        SectionName.SKILLS: "Known procedures:",
        SectionName.WISHES: "Lasting wishes and preferences, latest first:",
        SectionName.CONTINUITY: "Where things stand:",
        SectionName.AGENT_SKILLS: "Skills in the host's directories (the host reads and runs them):",
        SectionName.AGENT_TOOLS: (
            "Tools that were useful before (this grants no permission; the host decides and executes):"
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
"""Layer of each section: session rules, governed content, or private content."""

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
"""Each rule besides the policy text may take a quarter of the room; otherwise what needs it is left out."""
PRESSURE_PERCENT: Final = {MemoryPressure.NORMAL: 100, MemoryPressure.CAUTIOUS: 60, MemoryPressure.CRITICAL: 35}
RECALLED_CHARS_MIN: Final = 500
RECALLED_CHARS_MAX: Final = 4_800
"""Minimum and maximum characters of a recalled message, if it is that long."""
RECALLED_SPARE: Final = 640
"""Characters of recalled memories beyond the room, because those already in the block are left out."""
BEST_SHARE: Final = 4
"""The best one may take a quarter of the block, the next an eighth, then a twelfth, and so on."""


@dataclass(frozen=True, slots=True)
class FilledSection:
    """A section with the items that fitted, in display order."""

    name: SectionName
    room: int
    text: str = ""
    included: tuple[str, ...] = ()
    dropped: tuple[str, ...] = ()
    lines: tuple[SectionLine, ...] = ()

    @property
    def clipped(self) -> int:
        return sum(line.clipped for line in self.lines)

    @property
    def remaining_chars(self) -> int:
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


def heading_of(name: SectionName, note: str = "", /) -> str:
    """Return the heading of a section, with a note on its contents."""
    return f"{HEADINGS[name].removesuffix(':')} ({note}):" if note else HEADINGS[name]


def fill_section(
    name: SectionName,
    lines: Sequence[SectionLine],
    *,
    room: int,
    note: str = "",
    places: Mapping[str, int] = MappingProxyType({}),
) -> FilledSection:
    """Return the section with what fits into `room`; the heading, including `note`, is charged to the first line.

    With `places` of the memories, the lines that fit are in that order.
    """
    if not lines:
        return FilledSection(name=name, room=room)
    is_latest_first = name is SectionName.RECENT
    heading = heading_of(name, note)
    remaining_chars = room - len(heading) - 1
    fitted_lines: list[SectionLine] = []
    dropped_ids: list[str] = []
    for line in reversed(lines) if is_latest_first else lines:
        fitted_line = None if is_latest_first and dropped_ids else line.fitted(remaining_chars - 1)
        if fitted_line is None:
            dropped_ids.append(line.id)
        else:
            fitted_lines.append(fitted_line)
            remaining_chars -= 1 + len(fitted_line.head) + len(fitted_line.text)
    if is_latest_first:
        fitted_lines.reverse()
        dropped_ids.reverse()
    # The sort is stable: without places the order stays as it was.
    fitted_lines.sort(key=lambda line: places.get(line.id, 0))
    return FilledSection(
        name=name,
        room=room,
        text="".join(f"\n{shown_line}" for shown_line in (heading, *(line.head + line.text for line in fitted_lines)))
        if fitted_lines
        else "",
        included=tuple(line.id for line in fitted_lines),
        dropped=tuple(dropped_ids),
        lines=tuple(fitted_lines),
    )


def recalled_chars(position: int, budget: int, /) -> int:
    """Return the maximum length of the recalled message at `position`, from 1 on, in a block of `budget` characters.

    An answer takes a few sentences, so parts of many messages are shown rather than one whole; the better a message is,
    the more of it.
    """
    return max(RECALLED_CHARS_MIN, min(RECALLED_CHARS_MAX, budget // (BEST_SHARE * position)))


def budget_of(max_chars: int, pressure: MemoryPressure, room_percent: int = 100) -> int:
    """Return the character limit of a block: the request's, reduced by pressure or the host's room."""
    return max(max_chars, 0) * min(PRESSURE_PERCENT[pressure], room_percent) // 100


class StandingFact(Value):
    """A fact in every block; `at` is when it was last observed."""

    id: str
    kind: facts.FactKind
    topic: str
    content: str
    at: Instant | None = None
    is_outside: bool = False
    """True if no source here vouches for it."""
    hint: FreshnessHint | None = None


class StandingSkill(Value):
    """A procedure in every block."""

    id: str
    title: str
    summary: str


class LabelledItem(Value):
    """A text with a label: of the subject, a private document, the state of work, or a host's hint."""

    id: str
    label: str
    text: str


class WishItem(Value):
    """A standing wish: the sentences of one message that state it, verbatim."""

    id: str
    text: str
    is_whole: bool = True
    """True if the message says nothing else, so it is not recalled again."""
    speaker: str | None = None
    at: Instant | None = None

    @cached_property
    def line(self) -> SectionLine:
        """The wish as a block shows it."""
        speaker_label = label_of(self.speaker or EvidenceRole.USER.value)
        return line_of(self.id, (format_minute(self.at), speaker_label), self.text)


class RecentMessage(Value):
    """One of the conversation's latest messages."""

    id: str
    role: EvidenceRole
    text: str
    speaker: str | None = None
    at: Instant | None = None
    is_outside: bool = False
    """True if it came from outside: a tool, a page, a document."""


class RecalledItem(Value):
    """A memory recalled for this turn."""

    id: str
    plane: RecallPlane
    text: str
    speaker: str | None = None
    at: Instant | None = None
    place: int = 0
    """Its chronological position among the recalled memories."""
    score: float = 0.0
    is_overtaken: bool = False
    """True if a later statement on the same matter is shown above it."""
    is_outside: bool = False
    """True if it came from outside: a tool, a page, a document."""
    hint: FreshnessHint | None = None
    """The check it needs before use."""
    parts: tuple[tuple[int, int], ...] = ()
    """Start and end of each part shown of a text too long to be shown whole; without any, all of it."""
