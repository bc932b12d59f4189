"""Chats exported from assistants: ChatGPT, Claude, and messages in OpenAI's form."""

from collections.abc import Iterator

from elytron.importers import message_shape
from elytron.importers.message_shape import LeftOut, OmissionReason, ReaderPlace, SaidMessage
from elytron_core.errors import InvalidInput
from elytron_core.evidence import EvidenceRole
from elytron_core.scope import ConversationKey
from elytron_core.strict_json import Json
from elytron_core.text import similarity

CHATGPT_CHANNEL = "chatgpt"
_SPOKEN = {"text", "multimodal_text"}
_SPEAKERS = {"user": EvidenceRole.USER, "assistant": EvidenceRole.ASSISTANT}


def read_chatgpt_export(
    document: Json, _home: ConversationKey, place: ReaderPlace, /
) -> Iterator[SaidMessage | LeftOut]:
    """Yield what user and assistant said on each conversation's current path; hidden, system and tool parts are not."""
    conversations = message_shape.list_items(document, what="conversations")
    for number, value in enumerate(conversations, start=1):
        place.now(f"conversation {number}", (number - 1) / len(conversations))
        conversation = message_shape.object_members(value, what="conversation")
        own = conversation.get("conversation_id") or conversation.get("id")
        known_by = message_shape.optional_name(own, what="conversation id")
        if known_by is None:
            raise InvalidInput(field="conversation id", problem="is missing")
        key = ConversationKey(CHATGPT_CHANNEL, known_by)
        title = message_shape.optional_title(conversation.get("title"))
        at = message_shape.optional_moment(conversation.get("create_time"), what="create_time")
        path = _message_path(conversation)
        left = sum(_is_said(message) for message in _all_messages(conversation)) - sum(map(_is_said, path))
        if left:
            yield LeftOut(OmissionReason.BRANCH, left)
        for position, message in enumerate(path):
            at = message_shape.optional_moment(message.get("create_time"), what="create_time") or at
            role = _message_speaker(message)
            words = _message_words(message) if role is not None else ""
            if role is None or similarity.is_blank(words):
                yield LeftOut(_message_omission(message))
                continue
            own_id = message_shape.optional_name(message.get("id"), what="message id")
            draft = message_shape.message_turn(key, position=position, role=role, text=words, at=at, own_id=own_id)
            yield SaidMessage(conversation=key, turn=draft, title=title, done_bytes=place.done_bytes)


def _message_path(conversation: dict[str, Json]) -> list[dict[str, Json]]:
    """Return the messages from the root, or what is left of the path to it, to the current node."""
    mapping = message_shape.object_members(conversation.get("mapping"), what="mapping")
    nodes = {key: message_shape.object_members(value, what="node") for key, value in mapping.items()}
    found: list[dict[str, Json]] = []
    seen: set[str] = set()
    at = conversation.get("current_node")
    at = at if isinstance(at, str) and at in nodes else _newest_leaf(nodes)
    while isinstance(at, str) and at in nodes:
        if at in seen:
            raise InvalidInput(field="mapping", problem="is not a tree")
        seen.add(at)
        found.append(_node_message(nodes[at]))
        at = nodes[at].get("parent")
    return [message for message in reversed(found) if message]


def _node_message(node: dict[str, Json]) -> dict[str, Json]:
    return message_shape.object_members(node.get("message") or {}, what="message")


def _newest_leaf(nodes: dict[str, dict[str, Json]]) -> str | None:
    """Return the last end of a path, for an export that does not say which one its user last saw."""
    inner = {parent for node in nodes.values() if isinstance(parent := node.get("parent"), str)}
    leaves = [key for key in nodes if key not in inner]
    if nodes and not leaves:
        raise InvalidInput(field="mapping", problem="is not a tree")
    return max(leaves, key=lambda key: _made_at(nodes[key]), default=None)


def _made_at(node: dict[str, Json]) -> int:
    return message_shape.optional_moment(_node_message(node).get("create_time"), what="create_time") or 0


def _message_speaker(message: dict[str, Json]) -> EvidenceRole | None:
    author = message_shape.object_members(message.get("author") or {}, what="author").get("role")
    hidden = message_shape.object_members(message.get("metadata") or {}, what="metadata").get(
        "is_visually_hidden_from_conversation"
    )
    to_all = (message.get("recipient") or "all") == "all"
    return _SPEAKERS.get(author) if isinstance(author, str) and to_all and not hidden else None


def _all_messages(conversation: dict[str, Json]) -> Iterator[dict[str, Json]]:
    for node in message_shape.object_members(conversation.get("mapping"), what="mapping").values():
        yield _node_message(message_shape.object_members(node, what="node"))


def _is_said(message: dict[str, Json]) -> bool:
    return _message_speaker(message) is not None and not similarity.is_blank(_message_words(message))


def _message_omission(message: dict[str, Json]) -> OmissionReason:
    """Return why a message of the path is not stored."""
    author = message_shape.object_members(message.get("author") or {}, what="author").get("role")
    if author == EvidenceRole.SYSTEM:
        return OmissionReason.SYSTEM
    if author == EvidenceRole.TOOL or (message.get("recipient") or "all") != "all":
        return OmissionReason.TOOL
    return OmissionReason.NO_WORDS if _message_speaker(message) is not None else OmissionReason.HIDDEN


def _message_words(message: dict[str, Json]) -> str:
    content = message_shape.object_members(message.get("content") or {}, what="content")
    return message_shape.content_text(content.get("parts")) if content.get("content_type") in _SPOKEN else ""


CLAUDE_CHANNEL = "claude"


def read_claude_export(
    document: Json, _home: ConversationKey, place: ReaderPlace, /
) -> Iterator[SaidMessage | LeftOut]:
    """Yield what was said in each conversation, in order; blocks without words (calls, thoughts) are not."""
    conversations = message_shape.list_items(document, what="conversations")
    for number, value in enumerate(conversations, start=1):
        place.now(f"conversation {number}", (number - 1) / len(conversations))
        conversation = message_shape.object_members(value, what="conversation")
        known_by = message_shape.optional_name(conversation.get("uuid"), what="conversation uuid")
        if known_by is None:
            raise InvalidInput(field="conversation uuid", problem="is missing")
        key = ConversationKey(CLAUDE_CHANNEL, known_by)
        title = message_shape.optional_title(conversation.get("name"))
        at = message_shape.optional_moment(conversation.get("created_at"), what="created_at")
        for position, item in enumerate(
            message_shape.list_items(conversation.get("chat_messages"), what="chat_messages")
        ):
            message = message_shape.object_members(item, what="message")
            at = message_shape.optional_moment(message.get("created_at"), what="created_at") or at
            role = message_shape.named_role(message.get("sender"), what="sender")
            words = _claude_words(message)
            if similarity.is_blank(words):
                yield LeftOut(OmissionReason.NO_WORDS)
                continue
            own_id = message_shape.optional_name(message.get("uuid"), what="message uuid")
            draft = message_shape.message_turn(key, position=position, role=role, text=words, at=at, own_id=own_id)
            yield SaidMessage(conversation=key, turn=draft, title=title, done_bytes=place.done_bytes)


def _claude_words(message: dict[str, Json]) -> str:
    """Return the words; if there are blocks, `text` is ignored, as it replaces blocks without words."""
    blocks = message.get("content")
    return (
        message_shape.content_text(blocks) if blocks else message_shape.content_text(message.get("text"), what="text")
    )


def read_openai_messages(
    document: Json, home: ConversationKey, place: ReaderPlace, /
) -> Iterator[SaidMessage | LeftOut]:
    """Yield the messages that hold words; calls of tools, pictures and sounds have none."""
    messages = message_shape.list_items(document, what="messages")
    for position, value in enumerate(messages):
        place.now(f"message {position + 1}", (position + 1) / len(messages))
        message = message_shape.object_members(value, what="message")
        draft = message_shape.spoken_turn(message, home, position=position)
        if draft is None:
            yield LeftOut(OmissionReason.TOOL if message.get("tool_calls") else OmissionReason.NO_WORDS)
        else:
            yield SaidMessage(conversation=home, turn=draft, title=None, done_bytes=place.done_bytes)
