"""Chats exported from assistants: ChatGPT, Claude, and messages in OpenAI's form."""

from collections.abc import Iterator

from elytron.importers import message_shape
from elytron.importers.message_shape import LeftOut, Omission, Place, Said
from elytron_core.errors import InvalidInput
from elytron_core.evidence import Role
from elytron_core.scope import ConversationKey
from elytron_core.strict_json import Json
from elytron_core.text import similarity

CHATGPT_CHANNEL = "chatgpt"
_SPOKEN = {"text", "multimodal_text"}
_SPEAKERS = {"user": Role.USER, "assistant": Role.ASSISTANT}


def read_chatgpt_export(document: Json, _home: ConversationKey, place: Place, /) -> Iterator[Said | LeftOut]:
    """Yield what user and assistant said on each conversation's current path; hidden, system and tool parts are not."""
    conversations = message_shape.items(document, what="conversations")
    for number, value in enumerate(conversations, start=1):
        place.now(f"conversation {number}", (number - 1) / len(conversations))
        conversation = message_shape.members(value, what="conversation")
        own = conversation.get("conversation_id") or conversation.get("id")
        known_by = message_shape.name(own, what="conversation id")
        if known_by is None:
            raise InvalidInput(field="conversation id", problem="is missing")
        key = ConversationKey(CHATGPT_CHANNEL, known_by)
        title = message_shape.title(conversation.get("title"))
        at = message_shape.moment(conversation.get("create_time"), what="create_time")
        path = _path(conversation)
        left = sum(_is_said(message) for message in _all(conversation)) - sum(map(_is_said, path))
        if left:
            yield LeftOut(Omission.BRANCH, left)
        for position, message in enumerate(path):
            at = message_shape.moment(message.get("create_time"), what="create_time") or at
            role = _speaker(message)
            words = _words(message) if role is not None else ""
            if role is None or similarity.is_blank(words):
                yield LeftOut(_omission(message))
                continue
            own_id = message_shape.name(message.get("id"), what="message id")
            draft = message_shape.turn(key, position=position, role=role, text=words, at=at, own_id=own_id)
            yield Said(conversation=key, turn=draft, title=title, done_bytes=place.done_bytes)


def _path(conversation: dict[str, Json]) -> list[dict[str, Json]]:
    """Return the messages from the root, or what is left of the path to it, to the current node."""
    mapping = message_shape.members(conversation.get("mapping"), what="mapping")
    nodes = {key: message_shape.members(value, what="node") for key, value in mapping.items()}
    found: list[dict[str, Json]] = []
    seen: set[str] = set()
    at = conversation.get("current_node")
    at = at if isinstance(at, str) and at in nodes else _newest_leaf(nodes)
    while isinstance(at, str) and at in nodes:
        if at in seen:
            raise InvalidInput(field="mapping", problem="is not a tree")
        seen.add(at)
        found.append(_message(nodes[at]))
        at = nodes[at].get("parent")
    return [message for message in reversed(found) if message]


def _message(node: dict[str, Json]) -> dict[str, Json]:
    return message_shape.members(node.get("message") or {}, what="message")


def _newest_leaf(nodes: dict[str, dict[str, Json]]) -> str | None:
    """Return the last end of a path, for an export that does not say which one its user last saw."""
    inner = {parent for node in nodes.values() if isinstance(parent := node.get("parent"), str)}
    leaves = [key for key in nodes if key not in inner]
    if nodes and not leaves:
        raise InvalidInput(field="mapping", problem="is not a tree")
    return max(leaves, key=lambda key: _made_at(nodes[key]), default=None)


def _made_at(node: dict[str, Json]) -> int:
    return message_shape.moment(_message(node).get("create_time"), what="create_time") or 0


def _speaker(message: dict[str, Json]) -> Role | None:
    author = message_shape.members(message.get("author") or {}, what="author").get("role")
    hidden = message_shape.members(message.get("metadata") or {}, what="metadata").get(
        "is_visually_hidden_from_conversation"
    )
    to_all = (message.get("recipient") or "all") == "all"
    return _SPEAKERS.get(author) if isinstance(author, str) and to_all and not hidden else None


def _all(conversation: dict[str, Json]) -> Iterator[dict[str, Json]]:
    for node in message_shape.members(conversation.get("mapping"), what="mapping").values():
        yield _message(message_shape.members(node, what="node"))


def _is_said(message: dict[str, Json]) -> bool:
    return _speaker(message) is not None and not similarity.is_blank(_words(message))


def _omission(message: dict[str, Json]) -> Omission:
    """Return why a message of the path is not stored."""
    author = message_shape.members(message.get("author") or {}, what="author").get("role")
    if author == Role.SYSTEM:
        return Omission.SYSTEM
    if author == Role.TOOL or (message.get("recipient") or "all") != "all":
        return Omission.TOOL
    return Omission.NO_WORDS if _speaker(message) is not None else Omission.HIDDEN


def _words(message: dict[str, Json]) -> str:
    content = message_shape.members(message.get("content") or {}, what="content")
    return message_shape.text(content.get("parts")) if content.get("content_type") in _SPOKEN else ""


CLAUDE_CHANNEL = "claude"


def read_claude_export(document: Json, _home: ConversationKey, place: Place, /) -> Iterator[Said | LeftOut]:
    """Yield what was said in each conversation, in order; blocks without words (calls, thoughts) are not."""
    conversations = message_shape.items(document, what="conversations")
    for number, value in enumerate(conversations, start=1):
        place.now(f"conversation {number}", (number - 1) / len(conversations))
        conversation = message_shape.members(value, what="conversation")
        known_by = message_shape.name(conversation.get("uuid"), what="conversation uuid")
        if known_by is None:
            raise InvalidInput(field="conversation uuid", problem="is missing")
        key = ConversationKey(CLAUDE_CHANNEL, known_by)
        title = message_shape.title(conversation.get("name"))
        at = message_shape.moment(conversation.get("created_at"), what="created_at")
        for position, item in enumerate(message_shape.items(conversation.get("chat_messages"), what="chat_messages")):
            message = message_shape.members(item, what="message")
            at = message_shape.moment(message.get("created_at"), what="created_at") or at
            role = message_shape.role(message.get("sender"), what="sender")
            words = _claude_words(message)
            if similarity.is_blank(words):
                yield LeftOut(Omission.NO_WORDS)
                continue
            own_id = message_shape.name(message.get("uuid"), what="message uuid")
            draft = message_shape.turn(key, position=position, role=role, text=words, at=at, own_id=own_id)
            yield Said(conversation=key, turn=draft, title=title, done_bytes=place.done_bytes)


def _claude_words(message: dict[str, Json]) -> str:
    """Return the words; if there are blocks, `text` is ignored, as it replaces blocks without words."""
    blocks = message.get("content")
    return message_shape.text(blocks) if blocks else message_shape.text(message.get("text"), what="text")


def read_openai_messages(document: Json, home: ConversationKey, place: Place, /) -> Iterator[Said | LeftOut]:
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
