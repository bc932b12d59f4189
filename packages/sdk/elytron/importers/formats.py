"""Transcript formats: ChatGPT, Claude and Telegram exports, OpenAI messages, text, Markdown and JSON Lines."""

import math
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import NamedTuple

from elytron.importers import message_shape
from elytron.importers.message_shape import (
    ImportedMessage,
    LeftOut,
    OmissionReason,
    ReaderPlace,
    ReadItem,
    SkippedRecord,
)
from elytron_core.clock import Instant
from elytron_core.contracts.transcript import TurnDraft
from elytron_core.errors import InvalidInput
from elytron_core.evidence import EvidenceRole
from elytron_core.scope import ConversationKey
from elytron_core.strict_json import Json, parse_json
from elytron_core.text import similarity

_TEXT_TYPES = {"text", "multimodal_text"}
_SPEAKERS = {"user": EvidenceRole.USER, "assistant": EvidenceRole.ASSISTANT}


class _OpenedConversation(NamedTuple):
    """One conversation of an export: its messages, and the number of messages on branches that the user left."""

    key: ConversationKey
    title: str | None
    at: Instant | None
    messages: list[Json]
    other_branches: int = 0


MessageReader = Callable[[Json, ConversationKey, Instant | None], list[TurnDraft | LeftOut]]
"""Reads one message of a conversation. The time is that of the preceding message."""


def _conversation_items(
    values: list[Json],
    what: str,
    place: ReaderPlace,
    opener: Callable[[Json], _OpenedConversation],
    reader: MessageReader,
) -> Iterator[ReadItem]:
    """Yield the messages of an export's conversations. A bad conversation or message does not stop the others."""
    for number, value in enumerate(values, start=1):
        where, share = f"{what} {number}", (number - 1) / len(values)
        place.now(where, share)
        opened = place.attempt(opener, value)
        if isinstance(opened, SkippedRecord):
            yield opened
            continue
        if opened.other_branches:
            yield LeftOut(OmissionReason.BRANCH, opened.other_branches)
        at = opened.at
        for position, item in enumerate(opened.messages, start=1):
            place.now(f"{where}, message {position}", share)
            read = place.attempt(reader, item, opened.key, at)
            for each in [read] if isinstance(read, SkippedRecord) else read:
                if isinstance(each, TurnDraft):
                    at = each.messages[0].at
                    yield place.make_message(opened.key, each, title=opened.title)
                else:
                    yield each


def read_chatgpt_export(document: Json, _home: ConversationKey, place: ReaderPlace, /) -> Iterator[ReadItem]:
    """Yield what user and assistant said on each conversation's current path, without hidden, system and tool parts."""
    conversations = message_shape.list_items(_as_list(document), what="conversations")
    return _conversation_items(conversations, "conversation", place, _open_chatgpt, _chatgpt_message)


def _as_list(document: Json) -> Json:
    """Return a document's conversations; a single conversation becomes a list of one."""
    return [document] if isinstance(document, dict) else document


def _open_chatgpt(value: Json) -> _OpenedConversation:
    conversation = message_shape.object_members(value, what="conversation")
    own = conversation.get("conversation_id") or conversation.get("id")
    path = _message_path(conversation)
    nodes = message_shape.object_members(conversation.get("mapping"), what="mapping").values()
    return _OpenedConversation(
        ConversationKey("chatgpt", message_shape.required_name(own, what="conversation id")),
        message_shape.optional_title(conversation.get("title")),
        message_shape.optional_moment(conversation.get("create_time"), what="create_time"),
        path,
        sum(map(_is_said, map(_node_message, nodes))) - sum(map(_is_said, path)),
    )


def _chatgpt_message(value: Json, _key: ConversationKey, before: Instant | None) -> list[TurnDraft | LeftOut]:
    message = message_shape.object_members(value, what="message")
    at = message_shape.optional_moment(message.get("create_time"), what="create_time") or before
    role = _chatgpt_role(message)
    words = _chatgpt_words(message) if role is not None else ""
    if role is None or similarity.is_blank(words):
        return [LeftOut(_message_omission(message))]
    own_id = message_shape.optional_name(message.get("id"), what="message id")
    return [message_shape.message_turn(words, role=role, at=at, own_id=own_id)]


def _message_path(conversation: dict[str, Json]) -> list[Json]:
    """Return the messages on the path to the current node, from the root or the first node that still exists."""
    nodes = message_shape.object_members(conversation.get("mapping"), what="mapping")
    messages: list[Json] = []
    node_ids: set[str] = set()
    at = conversation.get("current_node")
    at = at if isinstance(at, str) and at in nodes else _newest_leaf(nodes)
    while isinstance(at, str) and at in nodes:
        if at in node_ids:
            raise InvalidInput(field="mapping", problem="is not a tree")
        node_ids.add(at)
        messages.append(_node_message(nodes[at]))
        at = _node_parent(nodes[at])
    return [message for message in reversed(messages) if message]


def _node_parent(node: Json) -> Json:
    return node.get("parent") if isinstance(node, dict) else None


def _node_message(node: Json) -> Json:
    """Return a node's message. A value that is not a node is returned unchanged, so that it is reported."""
    return node.get("message") if isinstance(node, dict) else node


def _newest_leaf(nodes: dict[str, Json]) -> str | None:
    """Return the most recent leaf, for exports that do not name the node that the user last saw."""
    inner = {parent for node in nodes.values() if isinstance(parent := _node_parent(node), str)}
    leaves = [key for key in nodes if key not in inner]
    if nodes and not leaves:
        raise InvalidInput(field="mapping", problem="is not a tree")
    return max(leaves, key=lambda key: _made_at(nodes[key]), default=None)


def _made_at(node: Json) -> int:
    message = _node_message(node)
    timestamp = message.get("create_time") if isinstance(message, dict) else None
    return round(timestamp * 1000) if isinstance(timestamp, int | float) and math.isfinite(timestamp) else 0


def _chatgpt_role(message: dict[str, Json]) -> EvidenceRole | None:
    author = message_shape.object_members(message.get("author") or {}, what="author").get("role")
    hidden = message_shape.object_members(message.get("metadata") or {}, what="metadata").get(
        "is_visually_hidden_from_conversation"
    )
    to_all = (message.get("recipient") or "all") == "all"
    return _SPEAKERS.get(author) if isinstance(author, str) and to_all and not hidden else None


def _is_said(message: Json) -> bool:
    try:
        return isinstance(message, dict) and bool(_chatgpt_role(message) and _chatgpt_words(message).strip())
    except InvalidInput:
        return False


def _message_omission(message: dict[str, Json]) -> OmissionReason:
    """Return why a message on the path is not stored."""
    author = message_shape.object_members(message.get("author") or {}, what="author").get("role")
    if author == EvidenceRole.SYSTEM:
        return OmissionReason.SYSTEM
    if author == EvidenceRole.TOOL or (message.get("recipient") or "all") != "all":
        return OmissionReason.TOOL
    return OmissionReason.NO_WORDS if _chatgpt_role(message) is not None else OmissionReason.HIDDEN


_CITATION = re.compile(r" ?\ue200([^\ue200\ue201]{0,4000})\ue201|[\ue200-\ue206]")
_LABELLED = "entity\ue202"


def _chatgpt_words(message: dict[str, Json]) -> str:
    content = message.get("content") or {}
    if isinstance(content, str):
        return content
    members = message_shape.object_members(content, what="content")
    words = message_shape.content_text(members.get("parts")) if str(members.get("content_type")) in _TEXT_TYPES else ""
    return _CITATION.sub(_without_citation, words)


def _without_citation(mark: re.Match[str]) -> str:
    """Return the text that ChatGPT shows for its own marks: the name of an entity, or nothing."""
    inner = mark[1] or ""
    if not inner.startswith(_LABELLED):
        return ""
    try:
        match parse_json(inner.removeprefix(_LABELLED).encode("utf-8", "replace")):
            case [_, str() as name, *_]:
                return f" {name}" if mark[0].startswith(" ") else name
            case _:
                return ""
    except InvalidInput:
        return ""


def read_claude_export(document: Json, _home: ConversationKey, place: ReaderPlace, /) -> Iterator[ReadItem]:
    """Yield each conversation's messages in order, including pasted texts; tool calls and thoughts are left out."""
    conversations = message_shape.list_items(_as_list(document), what="conversations")
    return _conversation_items(conversations, "conversation", place, _open_claude, _claude_message)


def _open_claude(value: Json) -> _OpenedConversation:
    conversation = message_shape.object_members(value, what="conversation")
    return _OpenedConversation(
        ConversationKey("claude", message_shape.required_name(conversation.get("uuid"), what="conversation uuid")),
        message_shape.optional_title(conversation.get("name")),
        message_shape.optional_moment(conversation.get("created_at"), what="created_at"),
        message_shape.list_items(conversation.get("chat_messages"), what="chat_messages"),
    )


def _claude_message(value: Json, _key: ConversationKey, before: Instant | None) -> list[TurnDraft | LeftOut]:
    message = message_shape.object_members(value, what="message")
    at = message_shape.optional_moment(message.get("created_at"), what="created_at") or before
    role = message_shape.named_role(message.get("sender"), what="sender")
    pasted, attachments = _claude_attachments(message.get("attachments"))
    words = "\n\n".join(part for part in (_claude_words(message), *pasted) if not similarity.is_blank(part))
    own_id = message_shape.optional_name(message.get("uuid"), what="message uuid")
    left_out = [LeftOut(OmissionReason.ATTACHMENT, attachments)] if attachments else []
    if not words:
        return [*(left_out or [LeftOut(OmissionReason.NO_WORDS)])]
    return [*left_out, message_shape.message_turn(words, role=role, at=at, own_id=own_id)]


_PASTE_NAME = re.compile(r"(past(e|ed)[-_ ]?(text|content)?[-_ ()\d]*(\.txt)?)?", re.IGNORECASE)


def _claude_attachments(attachments: Json) -> tuple[list[str], int]:
    """Return the pasted texts, stored by Claude as attachments without a file, and the number of other attachments."""
    pasted: list[str] = []
    others = 0
    for item in attachments if isinstance(attachments, list) else ():
        text = item.get("extracted_content") if isinstance(item, dict) else None
        if not isinstance(item, dict) or not isinstance(text, str) or not text:
            continue
        name, kind = item.get("file_name") or "", item.get("file_type") or ""
        is_paste = isinstance(name, str) and _PASTE_NAME.fullmatch(name) and kind in {"", "txt", "text/plain"}
        if is_paste:
            pasted.append(text)
        else:
            others += 1
    return pasted, others


def _claude_words(message: dict[str, Json]) -> str:
    """Return a message's text. If there are content blocks, `text` is ignored: it has placeholders for other blocks."""
    blocks = message.get("content")
    return (
        message_shape.content_text(blocks) if blocks else message_shape.content_text(message.get("text"), what="text")
    )


def read_openai_messages(document: Json, home: ConversationKey, place: ReaderPlace, /) -> Iterator[ReadItem]:
    """Yield the messages that contain text; tool calls, images and audio do not."""
    inner = document.get("messages") if isinstance(document, dict) else document
    messages = message_shape.list_items(inner, what="messages")
    for position, value in enumerate(messages):
        place.now(f"message {position + 1}", (position + 1) / len(messages))
        read = place.attempt(_openai_message, value)
        yield place.make_message(home, read) if isinstance(read, TurnDraft) else read


def _openai_message(value: Json) -> TurnDraft | LeftOut:
    message = message_shape.object_members(value, what="message")
    omission = OmissionReason.TOOL if message.get("tool_calls") else OmissionReason.NO_WORDS
    return message_shape.spoken_turn(message) or LeftOut(omission)


_MEDIA = frozenset({"media_type", "photo", "file", "poll", "location_information", "contact_information"})


def read_telegram_export(document: Json, _home: ConversationKey, place: ReaderPlace, /) -> Iterator[ReadItem]:
    """Yield each chat's messages in order; service messages and media without text are left out."""
    return _conversation_items(_document_chats(document), "chat", place, _open_chat, _telegram_message)


def _open_chat(value: Json) -> _OpenedConversation:
    chat = message_shape.object_members(value, what="chat")
    own = chat.get("id")
    if not isinstance(own, int):
        raise InvalidInput(field="chat id", problem="is not a whole number")
    messages = message_shape.list_items(chat.get("messages"), what="messages")
    key = ConversationKey("telegram", str(own))
    return _OpenedConversation(key, message_shape.optional_title(chat.get("name")), None, messages)


def _telegram_message(value: Json, key: ConversationKey, _before: Instant | None) -> list[TurnDraft | LeftOut]:
    message = message_shape.object_members(value, what="message")
    words = _telegram_words(message.get("text"))
    if message.get("type") != "message":
        return [LeftOut(OmissionReason.SERVICE)]
    if similarity.is_blank(words):
        return [LeftOut(OmissionReason.MEDIA if _MEDIA & message.keys() else OmissionReason.NO_WORDS)]
    own = message.get("id")
    own_id = f"{key.conversation}.{own}" if isinstance(own, int) else None
    # For a deleted account, only the id is known.
    speaker = message_shape.optional_title(message.get("from")) or message_shape.optional_title(message.get("from_id"))
    return [message_shape.message_turn(words, speaker=speaker, at=_telegram_time(message), own_id=own_id)]


def _document_chats(document: Json) -> list[Json]:
    root = message_shape.object_members(document, what="export")
    if "messages" in root:
        return [root]
    places = (root.get(name) for name in ("chats", "left_chats"))
    return [
        chat
        for place in places
        if isinstance(place, dict)
        for chat in message_shape.list_items(place.get("list"), what="chats")
    ]


def _telegram_words(text: Json) -> str:
    """Return a message's text, given as a string or as a list of strings and objects with text."""
    if not isinstance(text, list):
        return message_shape.content_text(text, what="text")
    parts = [part.get("text") if isinstance(part, dict) else part for part in text]
    return "".join(part for part in parts if isinstance(part, str))


_TIME_DIGITS = 20


def _telegram_time(message: dict[str, Json]) -> Instant | None:
    seconds = message.get("date_unixtime")
    # Python refuses to convert very long digit strings.
    if isinstance(seconds, str) and seconds.isdecimal() and len(seconds) <= _TIME_DIGITS:
        return message_shape.optional_moment(int(seconds), what="date_unixtime")
    return message_shape.optional_moment(message.get("date"), what="date")


PIECE_CHARS = 4_000
"""A longer paragraph is split into several messages at whitespace."""
_BLANK = re.compile(r"\n[^\S\n]*\n")


def read_plain_text(document: Json, home: ConversationKey, place: ReaderPlace, /) -> Iterator[ImportedMessage]:
    """Yield the paragraphs in order."""
    assert isinstance(document, str)
    pieces = list(text_pieces(document))
    for number, piece in enumerate(pieces, start=1):
        place.now(f"paragraph {number}", number / len(pieces))
        yield place.make_message(home, message_shape.message_turn(piece))


def text_pieces(text: str, /, *, most: int = PIECE_CHARS) -> Iterator[str]:
    """Yield the paragraphs of `text`, split into pieces of at most `most` characters."""
    for paragraph in _BLANK.split(text.replace("\r\n", "\n")):
        rest = paragraph.strip()
        while len(rest) > most:
            # Only the second half is searched, so that no piece becomes very short.
            cut = rest.rfind(" ", most // 2, most)
            cut = cut if cut > 0 else most
            yield rest[:cut].rstrip()
            rest = rest[cut:].lstrip()
        if rest:
            yield rest


SECTION_CHARS = 2_000
"""A longer section is stored as one message per paragraph."""
_FENCE = "---"
_HEADING = re.compile(r"#{1,6}[^\S\n]+\S")
_CODE = ("```", "~~~")


@dataclass(frozen=True, slots=True)
class _TextSection:
    heading: str
    body: str


def read_markdown(document: Json, home: ConversationKey, place: ReaderPlace, /) -> Iterator[ImportedMessage | LeftOut]:
    """Yield the sections in order. Front matter is left out, and the first heading is the title."""
    assert isinstance(document, str)
    text = document.replace("\r\n", "\n")
    body = _without_front_matter(text)
    if body != text:
        yield LeftOut(OmissionReason.METADATA)
    sections = list(_text_sections(body))
    title = next(
        (message_shape.optional_title(section.heading.lstrip("#")) for section in sections if section.heading), None
    )
    for number, section in enumerate(sections, start=1):
        place.now(f"section {number}", number / len(sections))
        for piece in _section_pieces(section):
            yield place.make_message(home, message_shape.message_turn(piece), title=title)


def markdown_pieces(body: str, /) -> Iterator[str]:
    """Yield the sections of Markdown without front matter, each under its heading; long ones are split."""
    for section in _text_sections(body):
        yield from _section_pieces(section)


def _without_front_matter(text: str) -> str:
    if not text.startswith(f"{_FENCE}\n"):
        return text
    end = text.find(f"\n{_FENCE}\n", len(_FENCE))
    return text[end + len(_FENCE) + 2 :] if end >= 0 else text


def _text_sections(text: str) -> Iterator[_TextSection]:
    heading, body, in_code = "", list[str](), False
    for line in text.split("\n"):
        # A `#` inside a code block is not a heading.
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


def read_message_line(message: dict[str, Json], home: ConversationKey, place: ReaderPlace, /) -> Iterator[ReadItem]:
    """Yield the message on a line."""
    conversation_name = message_shape.optional_name(message.get("conversation"), what="conversation")
    if "content" not in message:
        raise InvalidInput(field="content", problem="is missing")
    draft = message_shape.spoken_turn(message)
    if draft is None:
        yield LeftOut(OmissionReason.NO_WORDS)
    else:
        yield place.make_message(ConversationKey(home.channel, conversation_name or home.conversation), draft)
