"""Telegram Desktop's `result.json`: one chat with its messages, or all chats of an account."""

from collections.abc import Iterator

from elytron.importers import message_shape
from elytron.importers.document import Place
from elytron.importers.message_shape import LeftOut, Omission, Said
from elytron_core import canonical
from elytron_core.clock import Instant
from elytron_core.errors import InvalidInput
from elytron_core.planes.conversation.transcript import Role
from elytron_core.scope import ConversationKey
from elytron_core.strict_json import Json
from elytron_core.text import similarity

CHANNEL = "telegram"
_MEDIA = frozenset({"media_type", "photo", "file", "poll", "location_information", "contact_information"})
_DIGITS = 12


def read(document: Json, _home: ConversationKey, place: Place, /) -> Iterator[Said | LeftOut]:
    """Yield what was written in each chat, in order; service messages and media without words are not."""
    chats = _chats(document)
    for number, value in enumerate(chats, start=1):
        place.now(f"chat {number}", (number - 1) / len(chats))
        chat = message_shape.members(value, what="chat")
        known_by = chat.get("id")
        if not isinstance(known_by, int):
            raise InvalidInput(field="chat id", problem="is not a whole number")
        key = ConversationKey(CHANNEL, str(known_by))
        title = message_shape.title(chat.get("name"))
        for position, item in enumerate(message_shape.items(chat.get("messages"), what="messages")):
            message = message_shape.members(item, what="message")
            words = _words(message.get("text"))
            if message.get("type") != "message":
                yield LeftOut(Omission.SERVICE)
            elif similarity.is_blank(words):
                yield LeftOut(Omission.MEDIA if _MEDIA & message.keys() else Omission.NO_WORDS)
            else:
                draft = message_shape.turn(
                    key, position=position, role=Role.USER, text=words, speaker=_speaker(message),
                    at=_at(message), own_id=_id(key, message, words),
                )  # fmt: skip
                yield Said(conversation=key, turn=draft, title=title, done_bytes=place.done_bytes)


def _chats(document: Json) -> list[Json]:
    root = message_shape.members(document, what="export")
    if "messages" in root:
        return [root]
    places = (root.get(name) for name in ("chats", "left_chats"))
    return [
        chat
        for place in places
        if isinstance(place, dict)
        for chat in message_shape.items(place.get("list"), what="chats")
    ]


def _words(text: Json) -> str:
    """Return a message's text, which is one text or a list of texts and of objects with a text."""
    if not isinstance(text, list):
        return message_shape.text(text, what="text")
    parts = [part.get("text") if isinstance(part, dict) else part for part in text]
    return "".join(part for part in parts if isinstance(part, str))


def _speaker(message: dict[str, Json]) -> str | None:
    """Return who wrote a message; of an account that was deleted only its id is known."""
    return message_shape.title(message.get("from")) or message_shape.title(message.get("from_id"))


def _at(message: dict[str, Json]) -> Instant | None:
    seconds = message.get("date_unixtime")
    if isinstance(seconds, str) and seconds.isdigit():
        return message_shape.moment(int(seconds), what="date_unixtime")
    return message_shape.moment(message.get("date"), what="date")


def _id(key: ConversationKey, message: dict[str, Json], words: str) -> str | None:
    """Return an id that a message keeps until it is edited; its edited form is another message."""
    own = message.get("id")
    if not isinstance(own, int):
        return None
    return f"{key.conversation}.{own}.{canonical.digest(words.encode())[:_DIGITS]}"
