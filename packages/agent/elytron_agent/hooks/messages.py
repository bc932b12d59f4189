"""Read and write messages of hosts, in the form of chat completions or of the Responses API."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from enum import StrEnum
from typing import Any, Final, TypeVar, cast

from pydantic import BaseModel

from elytron_core.errors import InvalidInput, LimitExceeded
from elytron_core.model import Value
from elytron_models.chat_messages import (
    CALL,
    RESULT,
    ItemPart,
    Json,
    TurnItem,
    chat_of,
    list_mappings,
    message_items,
    responses_of,
)
from elytron_turn.sizes import cut_middle, share_room, text_bytes

HOST_MESSAGES: Final = 10_000


HostMessages = str | Mapping[str, Any] | BaseModel | Sequence[Mapping[str, Any] | BaseModel]
"""A text of the user, or the messages of a request as mappings or as objects of a vendor's library."""


class MessageForm(StrEnum):
    """Form of a host's messages."""

    RESPONSES = "responses"
    CHAT = "chat"


class HostMessage(Value):
    """A message as its host wrote it, and the items it was parsed into."""

    raw: Any
    items: tuple[TurnItem, ...]

    @property
    def role(self) -> str:
        return self.items[0].role if self.items else ""

    @property
    def tokens(self) -> int:
        return sum(item.tokens for item in self.items)


def read_messages(messages: HostMessages, /) -> tuple[HostMessage, ...]:
    """Parse messages into items. Raises InvalidInput for anything that is not a message, LimitExceeded."""
    if isinstance(messages, str):
        messages = {"role": "user", "content": messages}
    raw_messages = [messages] if isinstance(messages, Mapping | BaseModel) else list(messages)
    if len(raw_messages) > HOST_MESSAGES:
        raise LimitExceeded(what="messages per turn", limit=HOST_MESSAGES, found=len(raw_messages))
    return tuple(
        HostMessage(raw=raw, items=tuple(message_items(_message_mapping(raw, number))))
        for number, raw in enumerate(raw_messages)
    )


def cut_host_messages(messages: Sequence[HostMessage], max_bytes: int, /) -> tuple[HostMessage, ...]:
    """Return the messages with their texts cut in the middle to `max_bytes` in total. Short texts stay whole."""
    texts: list[str] = []

    def note(text: str) -> str:
        texts.append(text)
        return text

    raw_messages = [_message_mapping(message.raw, 0) for message in messages]
    for raw in raw_messages:
        _map_texts(raw, note)
    shares = iter(share_room([text_bytes(text) for text in texts], max_bytes))
    return read_messages([_map_texts(raw, lambda text: cut_middle(text, next(shares))) for raw in raw_messages])


_TEXT_FIELDS: Final = frozenset({"content", "text", "output"})
ValueT = TypeVar("ValueT")


def _map_texts(value: ValueT, change: Callable[[str], str], *, field: str = "content") -> ValueT:
    """Return a message with `change` applied to each of its texts, but not to names, arguments or addresses."""
    changed_value: object = value
    if isinstance(value, str):
        changed_value = change(value) if field in _TEXT_FIELDS else value
    elif isinstance(value, Mapping):
        fields = cast("Mapping[str, object]", value)
        changed_value = {name: _map_texts(inner_value, change, field=name) for name, inner_value in fields.items()}
    elif isinstance(value, list):
        changed_value = [_map_texts(inner_value, change, field=field) for inner_value in cast("list[object]", value)]
    return cast("ValueT", changed_value)


def items_of(messages: HostMessages, /) -> tuple[TurnItem, ...]:
    """Return the items of messages in either form, in order."""
    return tuple(item for message in read_messages(messages) for item in message.items)


def form_of(messages: Iterable[HostMessage], /) -> MessageForm:
    """Return the form of the messages: the Responses API if any message shows it, otherwise chat completions."""
    for message in messages:
        raw = _message_mapping(message.raw, 0)
        part_types = {part.get("type") for part in list_mappings(raw.get("content"))}
        if raw.get("type") is not None or part_types & {"input_text", "output_text", "input_image", "input_file"}:
            return MessageForm.RESPONSES
    return MessageForm.CHAT


def write_items(items: Iterable[TurnItem], form: MessageForm, /) -> list[Json]:
    """Return the items in the form that the host sends."""
    return responses_of(items) if form is MessageForm.RESPONSES else chat_of(items)


def paired_items(items: Iterable[TurnItem], /) -> tuple[TurnItem, ...]:
    """Return the items without unanswered calls and results without a call, which model APIs reject."""
    item_list = tuple(items)
    call_ids = {item.call_id for item in item_list if item.type == CALL}
    result_ids = {item.call_id for item in item_list if item.type == RESULT}
    paired_ids = call_ids & result_ids
    return tuple(item for item in item_list if item.type not in {CALL, RESULT} or item.call_id in paired_ids)


def latest_user(messages: Sequence[HostMessage], /) -> int | None:
    """Return the index of the user's latest message, or None if there is none."""
    return next((index for index in reversed(range(len(messages))) if messages[index].role == "user"), None)


def reply_of(reply: HostMessages, /) -> tuple[TurnItem, ...]:
    """Return the items of an answer: a text, messages or items, or the complete response of either API."""
    if isinstance(reply, str):
        part = ItemPart(type="output_text", text=reply)
        return (TurnItem(role="assistant", content=(part,)),)
    if isinstance(reply, Mapping | BaseModel):
        reply_fields = _message_mapping(reply, 0)
        for choice in list_mappings(reply_fields.get("choices")):
            return items_of(list_mappings([choice.get("message")]))
        if isinstance(reply_fields.get("output"), list) and "type" not in reply_fields:
            return items_of(list_mappings(reply_fields["output"]))
        return items_of(reply_fields)
    return items_of(reply)


def _message_mapping(raw: object, number: int) -> Json:
    if isinstance(raw, BaseModel):
        return raw.model_dump(exclude_none=True)
    if not isinstance(raw, Mapping):
        raise InvalidInput(field=f"messages.{number}", problem="must be a mapping or a message of a known library")
    return dict(cast("Mapping[str, Any]", raw))
