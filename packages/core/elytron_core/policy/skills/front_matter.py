"""Skills as Markdown files: front matter of plain fields, then the text.

Read are the front matter of SKILL.md files and the Markdown form of runtime skills, of YAML only what such files use: a
field a line, plain or quoted, a text over indented lines, and `>` and `|` blocks. Fields of other shapes are passed
over.
"""

import re
from dataclasses import dataclass
from typing import Final

from elytron_core.planes.skills import Skill

MARK: Final = "elytron: runtime-skill"
"""The first field of a runtime skill's Markdown form."""

_FENCE = "---"
_FIELD = re.compile(r"([A-Za-z_][\w-]{0,63}):(?:[ \t]+(.*))?$")
_BLOCK = re.compile(r"([>|])[-+]?[ \t]*(?:#.*)?$")
_PLAIN_STOP = re.compile(r"\s#.*$")
_ESCAPES = {"n": "\n", "t": "\t", '"': '"', "\\": "\\", "/": "/"}


@dataclass(frozen=True, slots=True)
class SkillFile:
    """A Markdown file: the text fields of its front matter, and what comes after."""

    fields: dict[str, str]
    body: str


def read_skill_file(text: str, /) -> SkillFile | None:
    """Return a file's fields; None if it has no front matter."""
    lines = text.removeprefix("\ufeff").splitlines()
    if not lines or lines[0].rstrip() != _FENCE:
        return None
    end = next((place for place, line in enumerate(lines[1:], 1) if line.rstrip() == _FENCE), None)
    if end is None:
        return None
    return SkillFile(_front_fields(lines[1:end]), "\n".join(lines[end + 1 :]).strip("\n"))


def write_skill_file(skill: Skill, /) -> str:
    """Return the Markdown form of `skill`, from which it can be written again."""
    fields = {
        "name": skill.name,
        "topic": skill.topic,
        "title": skill.title,
        "summary": skill.summary,
        "source": skill.source.value,
        "revision": str(skill.revision_count),
        "citations": " ".join(skill.citations),
    }
    head = "\n".join(f"{name}: {_quote_field(value)}" for name, value in fields.items())
    return f"{_FENCE}\n{MARK}\n{head}\n{_FENCE}\n\n{skill.procedure}\n"


def _quote_field(value: str) -> str:
    if re.fullmatch(r"[A-Za-z0-9_][\w .,()/-]*", value) and value == value.strip():
        return value
    escaped = value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n").replace("\t", "\\t")
    return f'"{escaped}"'


def _front_fields(lines: list[str]) -> dict[str, str]:
    fields: dict[str, str] = {}
    place = 0
    while place < len(lines):
        found = _FIELD.match(lines[place])
        place += 1
        if found is None:
            continue
        start = place
        while place < len(lines) and (not lines[place].strip() or lines[place][0] in " \t"):
            place += 1
        value = _field_value((found[2] or "").strip(), lines[start:place])
        if value is not None:
            fields.setdefault(found[1], value)
    return fields


def _field_value(first: str, more: list[str]) -> str | None:
    """Return the text of a field: its line and the indented lines below it; None if it is a list or a mapping."""
    block = _BLOCK.match(first)
    if block is not None:
        return _block_text(more, folded=block[1] == ">")
    below = [line.strip() for line in more if line.strip() and not line.lstrip().startswith("#")]
    if not first and below and (below[0].startswith("- ") or _FIELD.match(below[0])):
        return None
    if first[:1] in {"[", "{", "&", "*"}:
        return None
    if first[:1] in {'"', "'"}:
        return _unquote_field(" ".join((first, *below)))
    return " ".join(_PLAIN_STOP.sub("", part) for part in (first, *below) if part).strip()


def _block_text(lines: list[str], *, folded: bool) -> str:
    indent = min((len(line) - len(line.lstrip()) for line in lines if line.strip()), default=0)
    texts = [line[indent:].rstrip() for line in lines]
    if not folded:
        return "\n".join(texts).strip("\n")
    return "\n".join(" ".join(part.split("\n")) for part in "\n".join(texts).strip("\n").split("\n\n"))


def _unquote_field(text: str) -> str | None:
    if text[0] == "'":
        found = re.match(r"'((?:[^']|'')*)'", text)
        return found[1].replace("''", "'") if found is not None else None
    found = re.match(r'"((?:[^"\\]|\\.)*)"', text)
    if found is None:
        return None
    return re.sub(r"\\(.)", lambda escape: _ESCAPES.get(escape[1], escape[0]), found[1])
