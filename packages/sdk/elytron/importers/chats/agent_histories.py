"""Message histories of agent frameworks: LangChain, Pydantic AI, Responses API items, and the Agents SDK."""

from collections.abc import Callable, Iterator
from typing import Final

from elytron.importers import message_shape
from elytron.importers.memories.foreign_tables import ForeignDatabase, TableRow
from elytron.importers.message_shape import LeftOut, OmissionReason, ReaderPlace, ReadItem, SkippedRecord
from elytron_core.contracts.transcript import TurnDraft
from elytron_core.errors import InvalidInput
from elytron_core.evidence import ROLE_WORDS, EvidenceRole
from elytron_core.scope import ConversationKey
from elytron_core.strict_json import Json, parse_json
from elytron_core.text import similarity

_LOOKED_AT: Final = 50
_LANGCHAIN: Final = frozenset({"human", "ai", "system", "tool", "function", "chat"})
_CLASS_ROLES: Final = {
    "HumanMessage": "human",
    "AIMessage": "ai",
    "SystemMessage": "system",
    "ToolMessage": "tool",
    "FunctionMessage": "function",
}
_ITEMS: Final = frozenset(
    {"message", "reasoning", "function_call", "function_call_output", "custom_tool_call", "custom_tool_call_output"}
    | {"web_search_call", "file_search_call", "computer_call", "computer_call_output", "image_generation_call"}
    | {"code_interpreter_call", "local_shell_call", "local_shell_call_output", "mcp_call", "mcp_list_tools"}
    | {"item_reference", "compaction"}
)
MessageMaker = Callable[[Json, ReaderPlace], list[TurnDraft | LeftOut]]


def _message_list(document: Json) -> list[Json]:
    """Return a document's messages: the document itself, or the list in it."""
    if isinstance(document, dict):
        lists = (document.get(name) for name in ("messages", "output", "items", "data", "history"))
        document = next((each for each in lists if isinstance(each, list)), None)
    return document if isinstance(document, list) else []


def _made_items(
    messages: list[Json], make: MessageMaker, home: ConversationKey, place: ReaderPlace
) -> Iterator[ReadItem]:
    for position, value in enumerate(messages, start=1):
        place.now(f"message {position}", position / len(messages))
        turns = place.attempt(make, value, place)
        for item in [turns] if isinstance(turns, SkippedRecord) else turns:
            yield place.make_message(home, item) if isinstance(item, TurnDraft) else item


def _spoken_turn(
    words: str, role: EvidenceRole, place: ReaderPlace, *, at: Json = None, own_id: Json = None, name: Json = None
) -> TurnDraft | LeftOut:
    if similarity.is_blank(words):
        return LeftOut(OmissionReason.NO_WORDS)
    return message_shape.message_turn(
        words,
        role=role,
        speaker=message_shape.optional_title(name),
        at=place.moment(at, what="timestamp"),
        own_id=message_shape.optional_title(own_id),
    )


def is_langchain(document: Json, /) -> bool:
    """Return whether a JSON document is a list of LangChain messages in any of their three forms."""
    match _message_list(document)[:1]:
        case [{"type": str() as kind, "data": {"content": _}}] | [{"type": str() as kind, "content": _}]:
            return kind in _LANGCHAIN
        case [{"lc": int(), "type": "constructor", "kwargs": dict()}]:
            return True
        case _:
            return False


def read_langchain(document: Json, home: ConversationKey, place: ReaderPlace, /) -> Iterator[ReadItem]:
    """Yield the messages that contain text."""
    return _made_items(_message_list(document), _langchain_message, home, place)


def _langchain_message(value: Json, place: ReaderPlace) -> list[TurnDraft | LeftOut]:
    message = message_shape.object_members(value, what="message")
    kind = message.get("type")
    if kind == "constructor":
        path = message.get("id")
        kind = _CLASS_ROLES.get(str(path[-1]).removesuffix("Chunk")) if isinstance(path, list) and path else None
        message = message_shape.object_members(message.get("kwargs"), what="kwargs")
    elif "data" in message:
        message = message_shape.object_members(message.get("data"), what="data")
    role = message_shape.named_role(message.get("role") if kind == "chat" else kind, what="type")
    words = message_shape.content_text(message.get("content"))
    extra = message.get("additional_kwargs")
    at = extra.get("timestamp") if isinstance(extra, dict) else None
    if message.get("tool_calls") and similarity.is_blank(words):
        return [LeftOut(OmissionReason.TOOL)]
    name = message.get("name") if role is EvidenceRole.USER else None
    return [_spoken_turn(words, role, place, at=at, own_id=message.get("id"), name=name)]


def is_pydantic_ai(document: Json, /) -> bool:
    """Return whether a JSON document is a list of Pydantic AI messages."""
    match _message_list(document)[:1]:
        case [{"parts": list(), "kind": "request" | "response"}]:
            return True
        case _:
            return False


def read_pydantic_ai(document: Json, home: ConversationKey, place: ReaderPlace, /) -> Iterator[ReadItem]:
    """Yield prompts, answers, instructions and tool results; tool calls and thoughts are left out."""
    return _made_items(_message_list(document), _pydantic_parts, home, place)


def _pydantic_parts(value: Json, place: ReaderPlace) -> list[TurnDraft | LeftOut]:
    message = message_shape.object_members(value, what="message")
    items: list[TurnDraft | LeftOut] = []
    for part in message_shape.list_items(message.get("parts"), what="parts"):
        members = message_shape.object_members(part, what="part")
        at = members.get("timestamp") or message.get("timestamp")
        content = members.get("content")
        match members.get("part_kind"):
            case "user-prompt":
                words = _prompt_words(content)
                items.append(_spoken_turn(words, EvidenceRole.USER, place, at=at))
            case "text":
                items.append(_spoken_turn(message_shape.content_text(content), EvidenceRole.ASSISTANT, place, at=at))
            case "system-prompt":
                items.append(_spoken_turn(message_shape.content_text(content), EvidenceRole.SYSTEM, place, at=at))
            case "tool-return" if isinstance(content, str):
                items.append(_spoken_turn(content, EvidenceRole.TOOL, place, at=at))
            case "tool-return" | "tool-call" | "retry-prompt" | "builtin-tool-call" | "builtin-tool-return":
                items.append(LeftOut(OmissionReason.TOOL))
            case "thinking":
                items.append(LeftOut(OmissionReason.HIDDEN))
            case _:
                items.append(LeftOut(OmissionReason.NO_WORDS))
    return items


def _prompt_words(content: Json) -> str:
    """Return a prompt's text, given as a string or as a list of strings, text parts, images and files."""
    if not isinstance(content, list):
        return message_shape.content_text(content)
    pieces: list[str] = []
    for part in content:
        match part:
            case str() | {"kind": "text" | "text-content", "content": str()}:
                pieces.append(part if isinstance(part, str) else str(part["content"]))
            case _:
                continue
    return "\n".join(pieces)


def is_response_items(document: Json, /) -> bool:
    """Return whether a JSON document contains items of the Responses API or is a response."""
    if isinstance(document, dict) and document.get("object") != "response" and "items" not in document:
        return False
    first = _message_list(document)[:_LOOKED_AT]
    return any(isinstance(item, dict) and str(item.get("type")) in _ITEMS for item in first)


def read_response_items(document: Json, home: ConversationKey, place: ReaderPlace, /) -> Iterator[ReadItem]:
    """Yield messages and tool results in item order."""
    return _made_items(_message_list(document), _item_turns, home, place)


def _item_turns(value: Json, place: ReaderPlace) -> list[TurnDraft | LeftOut]:
    item = message_shape.object_members(value, what="item")
    kind = str(item.get("type", "message"))
    if kind == "message":
        role = ROLE_WORDS.get(str(item.get("role")))
        if role is None:
            raise InvalidInput(field="role", problem=f"must be one of {', '.join(ROLE_WORDS)}")
        words = message_shape.content_text(item.get("content"))
        return [_spoken_turn(words, role, place, at=item.get("created_at"), own_id=item.get("id"))]
    if kind.endswith("_output") and isinstance(output := item.get("output"), str):
        return [_spoken_turn(output, EvidenceRole.TOOL, place, own_id=item.get("id"))]
    return [LeftOut(OmissionReason.HIDDEN if kind in {"reasoning", "compaction"} else OmissionReason.TOOL)]


def read_sessions(database: ForeignDatabase, _home: ConversationKey, place: ReaderPlace, /) -> Iterator[ReadItem]:
    """Yield the items of each session that the Agents SDK stored in SQLite."""
    columns = ("id", "session_id", "message_data", "created_at")
    for row in database.rows("agent_messages", columns, order=("session_id", "id")):
        place.now(f"item {row.number}", 0)
        items = place.attempt(_session_items, row, place)
        yield from [items] if isinstance(items, SkippedRecord) else items


def _session_items(row: TableRow, place: ReaderPlace) -> list[ReadItem]:
    item = message_shape.object_members(parse_json(row.data("message_data")), what="message_data")
    key = ConversationKey("openai-agents", message_shape.optional_title(row.value("session_id")) or "session")
    turns = _item_turns({**item, "created_at": row.value("created_at"), "id": f"item-{row.text('id')}"}, place)
    return [place.make_message(key, turn) if isinstance(turn, TurnDraft) else turn for turn in turns]
