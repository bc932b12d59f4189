"""Stored responses: what makes `previous_response_id` and `conversation` work with every model server."""

import re
from dataclasses import dataclass, field
from typing import Final, cast
from urllib.parse import parse_qs, unquote

from pydantic import JsonValue

from elytron_core.ids import is_name
from elytron_core.planes.records import copies_of_conversation
from elytron_core.policy.admission.own_output import of_others
from elytron_models.dialect import Fields, inner_object, json_text, object_fields, object_list, text_field
from elytron_proxy.caller import ProxyCaller
from elytron_proxy.memory import NAMESPACE, ProxyMemory
from elytron_proxy.prompts import CallRefusal
from elytron_proxy.prompts.prompt import Body, items_of
from elytron_proxy.wire.relay import ProxyCall
from elytron_proxy.wire.upstream import RefusedCall

RESPONSE_TTL_S: Final = 30 * 24 * 3600
"""So long a stored response can be continued."""
RESPONSE_CHAIN: Final = 256
"""Responses that one request may continue, one behind the other."""
RESPONSE_INPUT_BYTES: Final = 16 * 1024 * 1024
INPUT_ITEMS: Final = 100
"""Items on a page of a stored response's input."""


_RESPONSES: Final = (NAMESPACE, "responses")
"""Conversations of responses; their text is stored so that an erasure of a message removes it too."""
_CONVERSATIONS: Final = (NAMESPACE, "response-conversations")
_SEALED: Final = "reasoning.encrypted_content"
_MISSING: Final = CallRefusal(
    400, "previous_response_not_found", "the previous response is not stored here: send its messages as `input`"
)
_BOTH: Final = CallRefusal(400, "invalid_input", "`previous_response_id` and `conversation` are mutually exclusive")
_TOO_LONG: Final = CallRefusal(
    413, "payload_too_large", "this response continues too many others: start a new conversation"
)
_STATELESS: Final = CallRefusal(
    400, "stateful_responses_rejected", "responses are not stored here: send the earlier messages as `input`"
)


@dataclass(frozen=True, slots=True)
class ContinuedRequest:
    """A request with everything it continues, and the part to store. `conversation_name` is set if it is known."""

    body: Body
    conversation_name: str | None = None
    new: list[object] = field(default_factory=list[object])
    previous: str = ""
    conversation: str = ""
    instructions: object = None
    """The client's own request, before memory was added."""
    is_kept: bool = False
    is_changed: bool = False
    """True if the request differs from the received one."""

    @property
    def is_continuing(self) -> bool:
        """Return whether the request refers to more than its own contents."""
        return bool(self.previous or self.conversation)


@dataclass(frozen=True, slots=True)
class StoredResponse:
    """An ended response, and the items that it answered. `owner` is the `conversation` that its request named."""

    name: str
    response: Fields
    items: list[object]
    previous: str = ""
    owner: str = ""
    conversation: str = ""
    """The conversation of its turn."""

    @property
    def replayed_items(self) -> list[object]:
        """Return everything that it adds to a continuing request."""
        return [*self.items, *(item for item in object_list(self.response, "output") if _is_replayed(item))]


class ResponseStore:
    """Stores responses as records of the caller's space."""

    def __init__(self, memory: ProxyMemory, /, *, is_open: bool) -> None:
        self._memory = memory
        self._is_open = is_open

    async def continued(self, caller: ProxyCaller, body: Body, /) -> ContinuedRequest:
        """Return the request in a form that a stateless model server can answer.

        Raises RefusedCall, MemoryDown.
        """
        conversation = text_field(body, "conversation") or text_field(inner_object(body, "conversation"), "id")
        previous_id = text_field(body, "previous_response_id")
        # The upstream stores one in the background: its end comes in no answer here.
        if body.get("background"):
            return ContinuedRequest(body)
        if not self._is_open:
            if conversation or previous_id:
                raise RefusedCall(_STATELESS)
            return ContinuedRequest(body)
        if conversation and previous_id:
            raise RefusedCall(_BOTH)
        if conversation:
            previous_id = await self._last(caller, conversation)
        items_before, owner_name = await self._before(caller, previous_id) if previous_id else ([], None)
        new_items = items_of(body, "input")
        if isinstance(body.get("input"), str):
            new_items.append({"type": "message", "role": "user", "content": body["input"]})
        is_kept = body.get("store") is not False
        changed_body = {
            name: value for name, value in body.items() if name not in {"previous_response_id", "conversation"}
        }
        if items_before:
            changed_body["input"] = [*items_before, *new_items]
        if is_kept:
            # The upstream stores nothing, so its reasoning has to be sent along, sealed.
            included_fields = [name for name in items_of(body, "include") if name != _SEALED]
            changed_body |= {"store": False, "include": [*included_fields, _SEALED]}
        return ContinuedRequest(
            body=changed_body,
            conversation_name=conversation or owner_name,
            new=new_items,
            previous=previous_id,
            conversation=conversation,
            instructions=body.get("instructions"),
            is_kept=is_kept,
            is_changed=changed_body != body,
        )

    async def keep(self, caller: ProxyCaller, of: ContinuedRequest, response: Fields, /, *, conversation: str) -> None:
        """Store an ended response, so that it can be continued. Raises MemoryDown."""
        name = text_field(response, "id")
        if not of.is_kept or not is_name(_name_word(name)):
            return
        stored_response = {
            **response,
            "store": True,
            "instructions": of.instructions,
            "previous_response_id": of.previous or None,
            "conversation": {"id": of.conversation} if of.conversation else None,
        }
        # As JSON, not as its text: what is redacted in a text of it stays within that text.
        stored_copy = cast("dict[str, JsonValue]", of_others({"items": of.new, "response": stored_response}))
        await self._memory.put(
            caller, copies_of_conversation(conversation), _name_word(name), stored_copy, ttl_s=RESPONSE_TTL_S
        )
        link_fields = {"previous": of.previous, "owner": of.conversation, "conversation": conversation}
        await self._memory.put(caller, _RESPONSES, name, link_fields, ttl_s=RESPONSE_TTL_S)
        if of.conversation and is_name(of.conversation):
            await self._lead(caller, of.conversation, name)

    async def find(self, caller: ProxyCaller, name: str, /) -> StoredResponse | None:
        """Return a response of the caller; None if it is not stored. Raises MemoryDown."""
        link_record = await self._memory.get(caller, _RESPONSES, name) if self._is_open and is_name(name) else None
        if link_record is None:
            return None
        link_fields = object_fields(link_record.value)
        conversation = text_field(link_fields, "conversation")
        copy_record = await self._memory.get(caller, copies_of_conversation(conversation), _name_word(name))
        if copy_record is None:
            return None
        response_copy = object_fields(copy_record.value)
        return StoredResponse(
            name=name,
            response=inner_object(response_copy, "response"),
            items=items_of(response_copy, "items"),
            previous=text_field(link_fields, "previous"),
            owner=text_field(link_fields, "owner"),
            conversation=conversation,
        )

    async def delete(self, caller: ProxyCaller, stored: StoredResponse, /) -> None:
        """Erase a response; its conversation continues from the previous one. Raises MemoryDown."""
        # The words first: if interrupted here, the response is no longer found.
        await self._memory.erase(caller, copies_of_conversation(stored.conversation), _name_word(stored.name))
        await self._memory.erase(caller, _RESPONSES, stored.name)
        if stored.owner and await self._last(caller, stored.owner) == stored.name:
            await self._lead(caller, stored.owner, stored.previous)

    async def _last(self, caller: ProxyCaller, conversation: str) -> str:
        """Return the last response of a conversation; empty for a new one."""
        last_record = await self._memory.get(caller, _CONVERSATIONS, conversation) if is_name(conversation) else None
        return text_field(object_fields(last_record.value), "last") if last_record is not None else ""

    async def _lead(self, caller: ProxyCaller, conversation: str, name: str) -> None:
        await self._memory.put(caller, _CONVERSATIONS, conversation, {"last": name}, ttl_s=RESPONSE_TTL_S)

    async def _before(self, caller: ProxyCaller, previous: str) -> tuple[list[object], str]:
        """Return the items of a response and of all before it, and their conversation."""
        conversation, char_count = "", 0
        item_lists: list[list[object]] = []
        while previous:
            stored_response = await self.find(caller, previous)
            if stored_response is None:
                raise RefusedCall(_MISSING)
            response_items = stored_response.replayed_items
            char_count += len(json_text(response_items))
            if len(item_lists) >= RESPONSE_CHAIN or char_count > RESPONSE_INPUT_BYTES:
                raise RefusedCall(_TOO_LONG)
            item_lists.append(response_items)
            conversation = conversation or stored_response.conversation
            previous = stored_response.previous
        return [item for response_items in reversed(item_lists) for item in response_items], conversation


def _name_word(name: str) -> str:
    return f"response.{name}"


def _is_replayed(item: Fields) -> bool:
    """Return whether a server that does not store an item accepts it again: reasoning only with its content."""
    return text_field(item, "type") != "reasoning" or bool(item.get("encrypted_content") or item.get("content"))


PATHS: Final = ("/v1/responses/{id}", "/v1/responses/{id}/input_items", "/v1/responses/{id}/cancel")
_PATH: Final = re.compile(r"/v1/responses/([^/]+)(/input_items|/cancel)?")
_WAYS: Final = {("GET", ""), ("DELETE", ""), ("GET", "/input_items"), ("POST", "/cancel")}
_ENDED: Final = CallRefusal(
    400, "invalid_input", "this response has ended: only a background response can be cancelled"
)
_NO_STREAM: Final = CallRefusal(400, "invalid_input", "this response has ended: retrieve it without `stream`")
_BAD_PAGE: Final = CallRefusal(
    400, "invalid_input", f"`limit` must be 1 to {INPUT_ITEMS}, `order` asc or desc, `after` the id of an item"
)


@dataclass(frozen=True, slots=True)
class ResponseRetrieval:
    """Request for one response."""

    name: str
    method: str
    below: str


def retrieval_of(call: ProxyCall, /) -> ResponseRetrieval | None:
    """Return what a request asks of a response; None for any other request."""
    path_match = _PATH.fullmatch(call.path)
    if path_match is None or (call.method, path_match[2] or "") not in _WAYS:
        return None
    return ResponseRetrieval(unquote(path_match[1]), call.method, path_match[2] or "")


async def retrieve_response(
    memory: ProxyMemory,
    responses: ResponseStore,
    caller: ProxyCaller,
    call: ProxyCall,
    retrieval: ResponseRetrieval,
    /,
) -> Fields | None:
    """Return the answer from what is stored for the caller; None if the response is not.

    Raises RefusedCall, MemoryDown.
    """
    await memory.settle(caller)
    stored_response = await responses.find(caller, retrieval.name)
    if stored_response is None:
        return None
    query = {name: values[-1] for name, values in parse_qs(call.query).items()}
    match retrieval.method, retrieval.below:
        case "POST", _:
            raise RefusedCall(_ENDED)
        case "DELETE", _:
            await responses.delete(caller, stored_response)
            return {"id": stored_response.name, "object": "response", "deleted": True}
        case _, "/input_items":
            return _items_page(_listed_items(stored_response), query)
        case _:
            if query.get("stream", "").lower() == "true":
                raise RefusedCall(_NO_STREAM)
            return stored_response.response


def _listed_items(stored: StoredResponse) -> list[Fields]:
    """Return the input's items as the API lists them: each with an id, and content as parts."""
    items: list[Fields] = []
    for index, item in enumerate(stored.items):
        fields = dict(object_fields(item))
        fields["id"] = text_field(fields, "id") or f"{stored.name}-input-{index}"
        if isinstance(fields.get("content"), str):
            content_type = "output_text" if text_field(fields, "role") == "assistant" else "input_text"
            fields["content"] = [{"type": content_type, "text": fields["content"]}]
        if text_field(fields, "role"):
            fields = {"type": "message", "status": "completed", **fields}
        items.append(fields)
    return items


def _items_page(items: list[Fields], query: dict[str, str]) -> Fields:
    """Return the requested page of items, the last first by default. Raises RefusedCall."""
    limit, order, after_id = query.get("limit", "20"), query.get("order", "desc"), query.get("after")
    # `int` would accept signs, spaces and other digits.
    if order not in {"asc", "desc"} or not re.fullmatch(r"[0-9]{1,3}", limit):
        raise RefusedCall(_BAD_PAGE)
    items = list(reversed(items)) if order == "desc" else items
    item_ids = [text_field(item, "id") for item in items]
    if not 1 <= int(limit) <= INPUT_ITEMS or (after_id is not None and after_id not in item_ids):
        raise RefusedCall(_BAD_PAGE)
    start_index = item_ids.index(after_id) + 1 if after_id is not None else 0
    end_index = start_index + int(limit)
    page_ids = item_ids[start_index:end_index]
    return {
        "object": "list",
        "data": items[start_index:end_index],
        "first_id": page_ids[0] if page_ids else None,
        "last_id": page_ids[-1] if page_ids else None,
        "has_more": end_index < len(items),
    }
