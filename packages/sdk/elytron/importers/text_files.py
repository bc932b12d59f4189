"""Text files: plain text, Markdown, and lines of JSON."""

import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import IO

from elytron.importers import message_shape
from elytron.importers.message_shape import LeftOut, OmissionReason, ReaderPlace, SaidMessage
from elytron_core import limits
from elytron_core.errors import InvalidInput, LimitExceeded, UnreadableFile
from elytron_core.evidence import EvidenceRole
from elytron_core.scope import ConversationKey
from elytron_core.strict_json import Json, parse_json

PIECE_CHARS = 4_000
"""A longer paragraph becomes several messages, cut at white space."""
_BLANK = re.compile(r"\n[^\S\n]*\n")


def read_plain_text(document: Json, home: ConversationKey, place: ReaderPlace, /) -> Iterator[SaidMessage]:
    """Yield the paragraphs, in order."""
    text = message_shape.whole_text(document)
    found = list(text_pieces(text))
    for position, piece in enumerate(found):
        place.now(f"paragraph {position + 1}", (position + 1) / len(found))
        draft = message_shape.message_turn(home, position=position, role=EvidenceRole.USER, text=piece)
        yield SaidMessage(conversation=home, turn=draft, title=None, done_bytes=place.done_bytes)


def text_pieces(text: str, /, *, most: int = PIECE_CHARS) -> Iterator[str]:
    """Yield the paragraphs of `text`, none longer than `most` characters."""
    for paragraph in _BLANK.split(text.replace("\r\n", "\n")):
        rest = paragraph.strip()
        while len(rest) > most:
            cut = rest.rfind(" ", most // 2, most)
            cut = cut if cut > 0 else most
            yield rest[:cut].rstrip()
            rest = rest[cut:].lstrip()
        if rest:
            yield rest


SECTION_CHARS = 2_000
"""A longer section becomes one message for each paragraph."""
_FENCE = "---"
_HEADING = re.compile(r"#{1,6}[^\S\n]+\S")
_CODE = ("```", "~~~")


@dataclass(frozen=True, slots=True)
class _TextSection:
    heading: str
    body: str


def read_markdown(document: Json, home: ConversationKey, place: ReaderPlace, /) -> Iterator[SaidMessage | LeftOut]:
    """Yield the sections in order; front matter is left out, and the first heading is the title."""
    text = message_shape.whole_text(document).replace("\r\n", "\n")
    body = _without_front_matter(text)
    if body != text:
        yield LeftOut(OmissionReason.METADATA)
    sections = list(_text_sections(body))
    title = next(
        (message_shape.optional_title(section.heading.lstrip("#")) for section in sections if section.heading), None
    )
    position = 0
    for number, section in enumerate(sections, start=1):
        place.now(f"section {number}", number / len(sections))
        for piece in _section_pieces(section):
            draft = message_shape.message_turn(home, position=position, role=EvidenceRole.USER, text=piece)
            yield SaidMessage(conversation=home, turn=draft, title=title, done_bytes=place.done_bytes)
            position += 1


def _without_front_matter(text: str) -> str:
    if not text.startswith(f"{_FENCE}\n"):
        return text
    end = text.find(f"\n{_FENCE}\n", len(_FENCE))
    return text[end + len(_FENCE) + 2 :] if end >= 0 else text


def _text_sections(text: str) -> Iterator[_TextSection]:
    heading, body, in_code = "", list[str](), False
    for line in text.split("\n"):
        in_code ^= line.lstrip().startswith(_CODE)
        if not in_code and _HEADING.match(line):
            yield _TextSection(heading, "\n".join(body))
            heading, body = line.strip(), []
        else:
            body.append(line)
    yield _TextSection(heading, "\n".join(body))


def _section_pieces(section: _TextSection) -> Iterator[str]:
    body = section.body.strip()
    if not body:
        return
    head = f"{section.heading}\n\n" if section.heading else ""
    if len(body) <= SECTION_CHARS:
        yield f"{head}{body}"
        return
    for piece in text_pieces(body):
        yield f"{head}{piece}"


def file_messages(
    file: IO[bytes], home: ConversationKey, /, *, name: str, size: int
) -> Iterator[SaidMessage | LeftOut]:
    """Yield the messages in the first `size` bytes of `file`; a line that others are appending is not waited for."""
    places: Counter[ConversationKey] = Counter()
    for number, line, done in _file_lines(file, name=name, size=size):
        try:
            yield _line_message(line, home, places, done)
        except (InvalidInput, LimitExceeded) as error:
            raise UnreadableFile(name=name, problem=error.message, line=number) from None


def _file_lines(file: IO[bytes], *, name: str, size: int) -> Iterator[tuple[int, bytes, int]]:
    file.seek(0)
    done = number = 0
    while done < size:
        line = file.readline(min(limits.IMPORT_LINE_BYTES + 1, size - done))
        if not line:
            return
        number += 1
        done += len(line)
        if len(line) > limits.IMPORT_LINE_BYTES:
            problem = f"is longer than {limits.IMPORT_LINE_BYTES} bytes"
            raise UnreadableFile(name=name, problem=problem, line=number)
        text = message_shape.strip_mark(line) if number == 1 else line
        if text.strip():
            yield number, text, done


def _line_message(
    line: bytes, home: ConversationKey, places: Counter[ConversationKey], done: int
) -> SaidMessage | LeftOut:
    message = message_shape.object_members(parse_json(line), what="line")
    named = message_shape.optional_name(message.get("conversation"), what="conversation")
    key = ConversationKey(home.channel, named or home.conversation)
    position = places[key]
    places[key] += 1
    if "content" not in message:
        raise InvalidInput(field="content", problem="is missing")
    draft = message_shape.spoken_turn(message, key, position=position)
    if draft is None:
        return LeftOut(OmissionReason.NO_WORDS)
    return SaidMessage(conversation=key, turn=draft, title=None, done_bytes=done)
