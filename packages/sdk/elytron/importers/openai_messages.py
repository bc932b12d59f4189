"""The messages of an OpenAI request: a JSON list of {role, content, name?}, content as text or as parts."""

from collections.abc import Iterator

from elytron.importers import message_shape
from elytron.importers.document import Place
from elytron.importers.message_shape import LeftOut, Omission, Said
from elytron_core.scope import ConversationKey
from elytron_core.strict_json import Json
from elytron_core.text import similarity


def read(document: Json, home: ConversationKey, place: Place, /) -> Iterator[Said | LeftOut]:
    """Yield the messages that hold words; calls of tools, pictures and sounds have none."""
    messages = message_shape.items(document, what="messages")
    for position, value in enumerate(messages):
        place.now(f"message {position + 1}", (position + 1) / len(messages))
        message = message_shape.members(value, what="message")
        role = message_shape.role(message.get("role"))
        words = message_shape.text(message.get("content"))
        at = message_shape.moment(message.get("timestamp"))
        speaker = message_shape.name(message.get("name"), what="name")
        if similarity.is_blank(words):
            yield LeftOut(Omission.TOOL if message.get("tool_calls") else Omission.NO_WORDS)
            continue
        draft = message_shape.turn(home, position=position, role=role, text=words, speaker=speaker, at=at)
        yield Said(conversation=home, turn=draft, title=None, done_bytes=place.done_bytes)
