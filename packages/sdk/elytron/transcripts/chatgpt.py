"""ChatGPT's `conversations.json`: each conversation is a tree of messages; what its user last saw is one path of it."""

from collections.abc import Iterator

from elytron.transcripts import shape
from elytron.transcripts.document import Place
from elytron.transcripts.shape import Said
from elytron_core.errors import InvalidInput
from elytron_core.planes.transcript import Role
from elytron_core.scope import ConversationKey
from elytron_core.strict_json import Json

CHANNEL = "chatgpt"
_SPOKEN = {"text", "multimodal_text"}
_SPEAKERS = {"user": Role.USER, "assistant": Role.ASSISTANT}


def read(document: Json, _home: ConversationKey, place: Place, /) -> Iterator[Said]:
    """Yield what user and assistant said on each conversation's current path; hidden, system and tool parts are not."""
    conversations = shape.items(document, what="conversations")
    for number, value in enumerate(conversations, start=1):
        place.now(f"conversation {number}", (number - 1) / len(conversations))
        conversation = shape.members(value, what="conversation")
        own = conversation.get("conversation_id") or conversation.get("id")
        known_by = shape.name(own, what="conversation id")
        if known_by is None:
            raise InvalidInput(field="conversation id", problem="is missing")
        key = ConversationKey(CHANNEL, known_by)
        title = shape.title(conversation.get("title"))
        at = shape.moment(conversation.get("create_time"), what="create_time")
        for position, message in enumerate(_path(conversation)):
            at = shape.moment(message.get("create_time"), what="create_time") or at
            role = _speaker(message)
            words = _words(message) if role is not None else ""
            if role is None or not words.strip():
                continue
            own_id = shape.name(message.get("id"), what="message id")
            draft = shape.turn(key, position=position, role=role, text=words, at=at, own_id=own_id)
            yield Said(conversation=key, turn=draft, title=title, done_bytes=place.done_bytes)


def _path(conversation: dict[str, Json]) -> list[dict[str, Json]]:
    """Return the messages from the root to the current node."""
    nodes = shape.members(conversation.get("mapping"), what="mapping")
    found: list[dict[str, Json]] = []
    seen: set[str] = set()
    at = conversation.get("current_node")
    if at is None and nodes:
        raise InvalidInput(field="current_node", problem="is missing")
    while at is not None:
        if not isinstance(at, str) or at not in nodes or at in seen:
            raise InvalidInput(field="mapping", problem="is not a tree with a path to current_node")
        seen.add(at)
        node = shape.members(nodes[at], what="node")
        if node.get("message") is not None:
            found.append(shape.members(node["message"], what="message"))
        at = node.get("parent")
    return found[::-1]


def _speaker(message: dict[str, Json]) -> Role | None:
    author = shape.members(message.get("author"), what="author").get("role")
    hidden = shape.members(message.get("metadata") or {}, what="metadata").get("is_visually_hidden_from_conversation")
    to_all = message.get("recipient", "all") == "all"
    return _SPEAKERS.get(author) if isinstance(author, str) and to_all and not hidden else None


def _words(message: dict[str, Json]) -> str:
    content = shape.members(message.get("content") or {}, what="content")
    return shape.text(content.get("parts")) if content.get("content_type") in _SPOKEN else ""
