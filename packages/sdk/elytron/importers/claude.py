"""Claude's export: conversations with `chat_messages`, each by `human` or `assistant`, text or content blocks."""

from collections.abc import Iterator

from elytron.importers import message_shape
from elytron.importers.document import Place
from elytron.importers.message_shape import LeftOut, Omission, Said
from elytron_core.errors import InvalidInput
from elytron_core.scope import ConversationKey
from elytron_core.strict_json import Json
from elytron_core.text import similarity

CHANNEL = "claude"


def read(document: Json, _home: ConversationKey, place: Place, /) -> Iterator[Said | LeftOut]:
    """Yield what was said in each conversation, in order; blocks without words (calls, thoughts) are not."""
    conversations = message_shape.items(document, what="conversations")
    for number, value in enumerate(conversations, start=1):
        place.now(f"conversation {number}", (number - 1) / len(conversations))
        conversation = message_shape.members(value, what="conversation")
        known_by = message_shape.name(conversation.get("uuid"), what="conversation uuid")
        if known_by is None:
            raise InvalidInput(field="conversation uuid", problem="is missing")
        key = ConversationKey(CHANNEL, known_by)
        title = message_shape.title(conversation.get("name"))
        at = message_shape.moment(conversation.get("created_at"), what="created_at")
        for position, item in enumerate(message_shape.items(conversation.get("chat_messages"), what="chat_messages")):
            message = message_shape.members(item, what="message")
            at = message_shape.moment(message.get("created_at"), what="created_at") or at
            role = message_shape.role(message.get("sender"), what="sender")
            words = _words(message)
            if similarity.is_blank(words):
                yield LeftOut(Omission.NO_WORDS)
                continue
            own_id = message_shape.name(message.get("uuid"), what="message uuid")
            draft = message_shape.turn(key, position=position, role=role, text=words, at=at, own_id=own_id)
            yield Said(conversation=key, turn=draft, title=title, done_bytes=place.done_bytes)


def _words(message: dict[str, Json]) -> str:
    """Return the words; if there are blocks, `text` is ignored, as it replaces blocks without words."""
    blocks = message.get("content")
    return message_shape.text(blocks) if blocks else message_shape.text(message.get("text"), what="text")
