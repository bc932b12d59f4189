"""The messages of an OpenAI request: a JSON list of {role, content, name?}, content as text or as parts."""

from collections.abc import Iterator

from elytron.transcripts import shape
from elytron.transcripts.document import Place
from elytron.transcripts.shape import LeftOut, Omission, Said
from elytron_core.policy import wording
from elytron_core.scope import ConversationKey
from elytron_core.strict_json import Json


def read(document: Json, home: ConversationKey, place: Place, /) -> Iterator[Said | LeftOut]:
    """Yield the messages that hold words; calls of tools, pictures and sounds have none."""
    messages = shape.items(document, what="messages")
    for position, value in enumerate(messages):
        place.now(f"message {position + 1}", (position + 1) / len(messages))
        message = shape.members(value, what="message")
        role = shape.role(message.get("role"))
        words = shape.text(message.get("content"))
        at = shape.moment(message.get("timestamp"))
        speaker = shape.name(message.get("name"), what="name")
        if wording.is_blank(words):
            yield LeftOut(Omission.TOOL if message.get("tool_calls") else Omission.NO_WORDS)
            continue
        draft = shape.turn(home, position=position, role=role, text=words, speaker=speaker, at=at)
        yield Said(conversation=home, turn=draft, title=None, done_bytes=place.done_bytes)
