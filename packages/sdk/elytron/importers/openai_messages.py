"""The messages of an OpenAI request: a JSON list of {role, content, name?}, content as text or as parts."""

from collections.abc import Iterator

from elytron.importers import message_shape
from elytron.importers.document import Place
from elytron.importers.message_shape import LeftOut, Omission, Said
from elytron_core.scope import ConversationKey
from elytron_core.strict_json import Json


def read(document: Json, home: ConversationKey, place: Place, /) -> Iterator[Said | LeftOut]:
    """Yield the messages that hold words; calls of tools, pictures and sounds have none."""
    messages = message_shape.items(document, what="messages")
    for position, value in enumerate(messages):
        place.now(f"message {position + 1}", (position + 1) / len(messages))
        message = message_shape.members(value, what="message")
        draft = message_shape.spoken(message, home, position=position)
        if draft is None:
            yield LeftOut(Omission.TOOL if message.get("tool_calls") else Omission.NO_WORDS)
        else:
            yield Said(conversation=home, turn=draft, title=None, done_bytes=place.done_bytes)
