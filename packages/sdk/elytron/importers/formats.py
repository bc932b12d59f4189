"""Formats of transcripts: chats exported from assistants and messengers, plain text, Markdown, and lines of JSON.

The assistants are ChatGPT, Claude, and messages in OpenAI's form; the messengers WhatsApp and Telegram.
"""

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import pairwise
from typing import IO, Final

from elytron.importers import message_shape
from elytron.importers.message_shape import LeftOut, OmissionReason, ReaderPlace, SaidMessage
from elytron_core import limits, strict_json
from elytron_core.clock import Instant, instant
from elytron_core.errors import InvalidInput, LimitExceeded, UnreadableFile
from elytron_core.evidence import EvidenceRole
from elytron_core.scope import ConversationKey
from elytron_core.strict_json import Json, parse_json
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
            role = _chatgpt_role(message)
            words = _chatgpt_words(message) if role is not None else ""
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


def _chatgpt_role(message: dict[str, Json]) -> EvidenceRole | None:
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
    return _chatgpt_role(message) is not None and not similarity.is_blank(_chatgpt_words(message))


def _message_omission(message: dict[str, Json]) -> OmissionReason:
    """Return why a message of the path is not stored."""
    author = message_shape.object_members(message.get("author") or {}, what="author").get("role")
    if author == EvidenceRole.SYSTEM:
        return OmissionReason.SYSTEM
    if author == EvidenceRole.TOOL or (message.get("recipient") or "all") != "all":
        return OmissionReason.TOOL
    return OmissionReason.NO_WORDS if _chatgpt_role(message) is not None else OmissionReason.HIDDEN


def _chatgpt_words(message: dict[str, Json]) -> str:
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


_MARK: Final = "\u200e"
"""Stands before what WhatsApp wrote itself: a notice, or the stand-in of a picture."""
_LINE: Final = re.compile(
    r"\u200e?(?P<open>\[)?(?P<a>\d{1,4})(?P<sep>[./-])(?P<b>\d{1,2})(?P=sep)(?P<c>\d{2,4}),?\s(?:[^\W\d]{2,4}\s)?"
    r"(?P<hour>\d{1,2})[:.](?P<minute>\d{2})(?:[:.](?P<second>\d{2}))?(?:\s?(?P<half>[AaPp])\.?\s?[Mm]\.?)?"
    r"(?(open)\]|\s-)\s(?P<rest>.*)"
)
_SPEAKER: Final = re.compile(r"(?P<name>[^:]{1,100}): ?(?P<words>.*)", re.DOTALL)
_STAND_IN: Final = re.compile(r"<[^<>\n]+>|\u200e.*", re.DOTALL)
_EDITED: Final = re.compile(r"\s*\u200e?<[^<>\n]+>\Z")
_DELETED: Final = frozenset({"This message was deleted", "You deleted this message", "null"})
_ORDERS: Final = ("dmy", "mdy", "ymd")


@dataclass(slots=True)
class _ChatEntry:
    """A line with its date, and the lines that continue it."""

    date: tuple[int, int, int]
    separator: str
    time: tuple[int, int, int]
    is_halved: bool
    text: str


def begins_chat(text: str, /) -> bool:
    """Return whether `text` begins as an exported chat does."""
    return _LINE.match(text.lstrip("\ufeff\r\n ")) is not None


def read_whatsapp_export(
    document: Json, home: ConversationKey, place: ReaderPlace, /
) -> Iterator[SaidMessage | LeftOut]:
    """Yield what was written, in order; notices, stand-ins of media and deleted messages are not."""
    entries = _chat_entries(message_shape.whole_text(document))
    order = _date_order(entries)
    for position, entry in enumerate(entries):
        place.now(f"message {position + 1}", (position + 1) / len(entries))
        said = _SPEAKER.match(entry.text)
        if said is None or entry.text.startswith(_MARK):
            yield LeftOut(OmissionReason.SERVICE)
            continue
        words = said["words"].strip(" \n")
        if words.lstrip(_MARK).rstrip(".") in _DELETED:
            yield LeftOut(OmissionReason.DELETED)
        elif _STAND_IN.fullmatch(words):
            yield LeftOut(OmissionReason.MEDIA)
        elif not (words := _EDITED.sub("", words) if _MARK in words else words).strip():
            yield LeftOut(OmissionReason.NO_WORDS)
        else:
            speaker = message_shape.optional_title(said["name"].strip("\u202a\u202c\u200e~ "))
            draft = message_shape.message_turn(
                home,
                position=position,
                role=EvidenceRole.USER,
                text=words,
                speaker=speaker,
                at=_entry_instant(entry, order),
            )
            yield SaidMessage(conversation=home, turn=draft, title=None, done_bytes=place.done_bytes)


def _chat_entries(text: str) -> list[_ChatEntry]:
    found: list[_ChatEntry] = []
    # Some exports have a narrow no-break space before AM and PM.
    for line in text.replace("\u202f", " ").replace("\r\n", "\n").split("\n"):
        match = _LINE.fullmatch(line)
        if match is None:
            if found:
                found[-1].text += f"\n{line}"
            continue
        hour = int(match["hour"])
        if match["half"] is not None:
            # 12 AM is midnight and 12 PM is noon.
            hour = hour % 12 + (12 if match["half"] in "pP" else 0)
        found.append(
            _ChatEntry(
                date=(int(match["a"]), int(match["b"]), int(match["c"])),
                separator=match["sep"],
                time=(hour, int(match["minute"]), int(match["second"] or 0)),
                is_halved=match["half"] is not None,
                text=match["rest"],
            )
        )
    return found


def _date_order(entries: Sequence[_ChatEntry]) -> str:
    """Return the order of day, month and year that fits every date, and in which time goes backwards least."""
    fitting = [order for order in _ORDERS if all(_entry_moment(entry, order) is not None for entry in entries)]
    if not fitting:
        raise InvalidInput(field="dates", problem="are in no order of day, month and year")
    usual = "mdy" if entries and entries[0].is_halved and entries[0].separator == "/" else "dmy"
    return min(fitting, key=lambda order: (_backward_steps(entries, order), order != usual))


def _backward_steps(entries: Sequence[_ChatEntry], order: str) -> int:
    moments = [moment for entry in entries if (moment := _entry_moment(entry, order)) is not None]
    return sum(later < earlier for earlier, later in pairwise(moments))


def _entry_moment(entry: _ChatEntry, order: str) -> datetime | None:
    parts = dict(zip(order, entry.date, strict=True))
    # Only a year is above 31.
    if (order == "ymd") != (entry.date[0] > 31):
        return None
    year = parts["y"] if parts["y"] > 99 else 2000 + parts["y"]
    try:
        return datetime(year, parts["m"], parts["d"], *entry.time, tzinfo=UTC)
    except ValueError:
        return None


def _entry_instant(entry: _ChatEntry, order: str) -> Instant:
    moment = _entry_moment(entry, order)
    assert moment is not None
    return instant(moment.isoformat())


TELEGRAM_CHANNEL = "telegram"
_MEDIA = frozenset({"media_type", "photo", "file", "poll", "location_information", "contact_information"})
_DIGITS = 12


def read_telegram_export(
    document: Json, _home: ConversationKey, place: ReaderPlace, /
) -> Iterator[SaidMessage | LeftOut]:
    """Yield what was written in each chat, in order; service messages and media without words are not."""
    chats = _document_chats(document)
    for number, value in enumerate(chats, start=1):
        place.now(f"chat {number}", (number - 1) / len(chats))
        chat = message_shape.object_members(value, what="chat")
        known_by = chat.get("id")
        if not isinstance(known_by, int):
            raise InvalidInput(field="chat id", problem="is not a whole number")
        key = ConversationKey(TELEGRAM_CHANNEL, str(known_by))
        title = message_shape.optional_title(chat.get("name"))
        for position, item in enumerate(message_shape.list_items(chat.get("messages"), what="messages")):
            message = message_shape.object_members(item, what="message")
            words = _telegram_words(message.get("text"))
            if message.get("type") != "message":
                yield LeftOut(OmissionReason.SERVICE)
            elif similarity.is_blank(words):
                yield LeftOut(OmissionReason.MEDIA if _MEDIA & message.keys() else OmissionReason.NO_WORDS)
            else:
                draft = message_shape.message_turn(
                    key, position=position, role=EvidenceRole.USER, text=words, speaker=_telegram_speaker(message),
                    at=_telegram_time(message), own_id=_message_id(key, message, words),
                )  # fmt: skip
                yield SaidMessage(conversation=key, turn=draft, title=title, done_bytes=place.done_bytes)


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
    """Return a message's text, which is one text or a list of texts and of objects with a text."""
    if not isinstance(text, list):
        return message_shape.content_text(text, what="text")
    parts = [part.get("text") if isinstance(part, dict) else part for part in text]
    return "".join(part for part in parts if isinstance(part, str))


def _telegram_speaker(message: dict[str, Json]) -> str | None:
    """Return who wrote a message; of an account that was deleted only its id is known."""
    return message_shape.optional_title(message.get("from")) or message_shape.optional_title(message.get("from_id"))


def _telegram_time(message: dict[str, Json]) -> Instant | None:
    seconds = message.get("date_unixtime")
    if isinstance(seconds, str) and seconds.isdigit():
        return message_shape.optional_moment(int(seconds), what="date_unixtime")
    return message_shape.optional_moment(message.get("date"), what="date")


def _message_id(key: ConversationKey, message: dict[str, Json], words: str) -> str | None:
    """Return an id that a message keeps until it is edited; its edited form is another message."""
    own = message.get("id")
    if not isinstance(own, int):
        return None
    return f"{key.conversation}.{own}.{strict_json.sha256_digest(words.encode())[:_DIGITS]}"


PIECE_CHARS = 4_000
"""A longer paragraph becomes several messages, cut at white space."""
_BLANK = re.compile(r"\n[^\S\n]*\n")


def read_plain_text(document: Json, home: ConversationKey, place: ReaderPlace, /) -> Iterator[SaidMessage]:
    """Yield the paragraphs, in order."""
    text = message_shape.whole_text(document)
    found = list(text_pieces(text))
    for position, piece in enumerate(found):
        place.now(f"paragraph {position + 1}", (position + 1) / len(found))
        draft = message_shape.message_turn(home, position=position, role=EvidenceRole.USER, text=piece)
        yield SaidMessage(conversation=home, turn=draft, title=None, done_bytes=place.done_bytes)


def text_pieces(text: str, /, *, most: int = PIECE_CHARS) -> Iterator[str]:
    """Yield the paragraphs of `text`, none longer than `most` characters."""
    for paragraph in _BLANK.split(text.replace("\r\n", "\n")):
        rest = paragraph.strip()
        while len(rest) > most:
            # Not before the middle, so that no piece becomes very short.
            cut = rest.rfind(" ", most // 2, most)
            cut = cut if cut > 0 else most
            yield rest[:cut].rstrip()
            rest = rest[cut:].lstrip()
        if rest:
            yield rest


SECTION_CHARS = 2_000
"""A longer section becomes one message for each paragraph."""
_FENCE = "---"
_HEADING = re.compile(r"#{1,6}[^\S\n]+\S")
_CODE = ("```", "~~~")


@dataclass(frozen=True, slots=True)
class _TextSection:
    heading: str
    body: str


def read_markdown(document: Json, home: ConversationKey, place: ReaderPlace, /) -> Iterator[SaidMessage | LeftOut]:
    """Yield the sections in order; front matter is left out, and the first heading is the title."""
    text = message_shape.whole_text(document).replace("\r\n", "\n")
    body = _without_front_matter(text)
    if body != text:
        yield LeftOut(OmissionReason.METADATA)
    sections = list(_text_sections(body))
    title = next(
        (message_shape.optional_title(section.heading.lstrip("#")) for section in sections if section.heading), None
    )
    position = 0
    for number, section in enumerate(sections, start=1):
        place.now(f"section {number}", number / len(sections))
        for piece in _section_pieces(section):
            draft = message_shape.message_turn(home, position=position, role=EvidenceRole.USER, text=piece)
            yield SaidMessage(conversation=home, turn=draft, title=title, done_bytes=place.done_bytes)
            position += 1


def _without_front_matter(text: str) -> str:
    if not text.startswith(f"{_FENCE}\n"):
        return text
    end = text.find(f"\n{_FENCE}\n", len(_FENCE))
    return text[end + len(_FENCE) + 2 :] if end >= 0 else text


def _text_sections(text: str) -> Iterator[_TextSection]:
    heading, body, in_code = "", list[str](), False
    for line in text.split("\n"):
        # A `#` inside a block of code is no heading.
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


def file_messages(
    file: IO[bytes], home: ConversationKey, /, *, name: str, size: int
) -> Iterator[SaidMessage | LeftOut]:
    """Yield the messages in the first `size` bytes of `file`; a line that others are appending is not waited for."""
    places: Counter[ConversationKey] = Counter()
    for number, line, done in _file_lines(file, name=name, size=size):
        try:
            yield _line_message(line, home, places, done)
        except (InvalidInput, LimitExceeded) as error:
            raise UnreadableFile(name=name, problem=error.message, line=number) from None


def _file_lines(file: IO[bytes], *, name: str, size: int) -> Iterator[tuple[int, bytes, int]]:
    file.seek(0)
    done = number = 0
    while done < size:
        line = file.readline(min(limits.IMPORT_LINE_BYTES + 1, size - done))
        if not line:
            return
        number += 1
        done += len(line)
        if len(line) > limits.IMPORT_LINE_BYTES:
            problem = f"is longer than {limits.IMPORT_LINE_BYTES} bytes"
            raise UnreadableFile(name=name, problem=problem, line=number)
        text = message_shape.strip_mark(line) if number == 1 else line
        if text.strip():
            yield number, text, done


def _line_message(
    line: bytes, home: ConversationKey, places: Counter[ConversationKey], done: int
) -> SaidMessage | LeftOut:
    message = message_shape.object_members(parse_json(line), what="line")
    named = message_shape.optional_name(message.get("conversation"), what="conversation")
    key = ConversationKey(home.channel, named or home.conversation)
    position = places[key]
    places[key] += 1
    if "content" not in message:
        raise InvalidInput(field="content", problem="is missing")
    draft = message_shape.spoken_turn(message, key, position=position)
    if draft is None:
        return LeftOut(OmissionReason.NO_WORDS)
    return SaidMessage(conversation=key, turn=draft, title=None, done_bytes=done)
