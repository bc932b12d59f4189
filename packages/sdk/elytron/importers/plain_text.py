"""Plain text: notes and prose, one message for each paragraph."""

import re
from collections.abc import Iterator

from elytron.importers import message_shape
from elytron.importers.document import Place
from elytron.importers.message_shape import Said
from elytron_core.planes.conversation.transcript import Role
from elytron_core.scope import ConversationKey
from elytron_core.strict_json import Json

PIECE_CHARS = 4_000
"""A longer paragraph becomes several messages, cut at white space."""
_BLANK = re.compile(r"\n[^\S\n]*\n")


def read(document: Json, home: ConversationKey, place: Place, /) -> Iterator[Said]:
    """Yield the paragraphs, in order."""
    text = message_shape.words(document)
    found = list(pieces(text))
    for position, piece in enumerate(found):
        place.now(f"paragraph {position + 1}", (position + 1) / len(found))
        draft = message_shape.turn(home, position=position, role=Role.USER, text=piece)
        yield Said(conversation=home, turn=draft, title=None, done_bytes=place.done_bytes)


def pieces(text: str, /, *, most: int = PIECE_CHARS) -> Iterator[str]:
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
