"""Markdown notes: one message for each section, or for each paragraph of a long one, under its heading."""

import re
from collections.abc import Iterator
from dataclasses import dataclass

from elytron.importers import message_shape, plain_text
from elytron.importers.document import Place
from elytron.importers.message_shape import LeftOut, Omission, Said
from elytron_core.planes.conversation.transcript import Role
from elytron_core.scope import ConversationKey
from elytron_core.strict_json import Json

SECTION_CHARS = 2_000
"""A longer section becomes one message for each paragraph."""
_FENCE = "---"
_HEADING = re.compile(r"#{1,6}[^\S\n]+\S")
_CODE = ("```", "~~~")


@dataclass(frozen=True, slots=True)
class _Section:
    heading: str
    body: str


def read(document: Json, home: ConversationKey, place: Place, /) -> Iterator[Said | LeftOut]:
    """Yield the sections in order; front matter is left out, and the first heading is the title."""
    text = message_shape.words(document).replace("\r\n", "\n")
    body = _without_front_matter(text)
    if body != text:
        yield LeftOut(Omission.METADATA)
    sections = list(_sections(body))
    title = next((message_shape.title(section.heading.lstrip("#")) for section in sections if section.heading), None)
    position = 0
    for number, section in enumerate(sections, start=1):
        place.now(f"section {number}", number / len(sections))
        for piece in _pieces(section):
            draft = message_shape.turn(home, position=position, role=Role.USER, text=piece)
            yield Said(conversation=home, turn=draft, title=title, done_bytes=place.done_bytes)
            position += 1


def _without_front_matter(text: str) -> str:
    if not text.startswith(f"{_FENCE}\n"):
        return text
    end = text.find(f"\n{_FENCE}\n", len(_FENCE))
    return text[end + len(_FENCE) + 2 :] if end >= 0 else text


def _sections(text: str) -> Iterator[_Section]:
    heading, body, in_code = "", list[str](), False
    for line in text.split("\n"):
        in_code ^= line.lstrip().startswith(_CODE)
        if not in_code and _HEADING.match(line):
            yield _Section(heading, "\n".join(body))
            heading, body = line.strip(), []
        else:
            body.append(line)
    yield _Section(heading, "\n".join(body))


def _pieces(section: _Section) -> Iterator[str]:
    body = section.body.strip()
    if not body:
        return
    head = f"{section.heading}\n\n" if section.heading else ""
    if len(body) <= SECTION_CHARS:
        yield f"{head}{body}"
        return
    for piece in plain_text.pieces(body):
        yield f"{head}{piece}"
