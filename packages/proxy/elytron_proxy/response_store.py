"""Stored responses: what makes `previous_response_id` and `conversation` work with every model server."""

from dataclasses import dataclass, field
from typing import Final, cast

from pydantic import JsonValue

from elytron_core.planes.knowledge.records import copies_of_conversation
from elytron_core.policy.admission.own_output import of_others
from elytron_models.fields import Fields, fields, inner, json_text, objects, text
from elytron_proxy import limits
from elytron_proxy.caller import Caller, is_name
from elytron_proxy.dialects import Refusal
from elytron_proxy.dialects.content import Body, items_of
from elytron_proxy.memory import NAMESPACE, Memory

_RESPONSES: Final = (NAMESPACE, "responses")
"""Conversations of responses; their text is stored so that an erasure of a message takes it along."""
_CONVERSATIONS: Final = (NAMESPACE, "response-conversations")
_SEALED: Final = "reasoning.encrypted_content"
_MISSING: Final = Refusal(
    400, "previous_response_not_found", "the previous response is not kept here: send its messages as `input`"
)
_BOTH: Final = Refusal(400, "invalid_input", "`previous_response_id` and `conversation` exclude each other")
_TOO_LONG: Final = Refusal(
    413, "payload_too_large", "the responses that this one continues are too many: start a new conversation"
)
_STATELESS: Final = Refusal(
    400, "stateful_responses_rejected", "responses are not kept here: send the messages of before as `input`"
)


class NotContinued(Exception):
    """A request cannot continue what it names."""

    def __init__(self, refusal: Refusal, /) -> None:
        super().__init__(refusal.message)
        self.refusal = refusal


@dataclass(frozen=True, slots=True)
class Continuation:
    """A request with all that it continues, and its part to store. `named` is their conversation, if it is known."""

    body: Body
    named: str | None = None
    new: list[object] = field(default_factory=list[object])
    previous: str = ""
    conversation: str = ""
    instructions: object = None
    """The client's own, before memory was added."""
    is_kept: bool = False
    is_changed: bool = False
    """True if the request differs from the one that came."""

    @property
    def is_continuing(self) -> bool:
        """Return whether the request refers to more than its own contents."""
        return bool(self.previous or self.conversation)


@dataclass(frozen=True, slots=True)
class StoredResponse:
    """A response that ended, and the items that it answered. `owner` is the `conversation` that its request named."""

    name: str
    response: Fields
    items: list[object]
    previous: str = ""
    owner: str = ""
    conversation: str = ""
    """The conversation of its turn."""

    @property
    def said(self) -> list[object]:
        """Return all that it adds to what a later one continues."""
        return [*self.items, *(item for item in objects(self.response, "output") if _is_replayed(item))]


class ResponseStore:
    """Keeps responses as records of the caller's space."""

    def __init__(self, memory: Memory, /, *, is_open: bool) -> None:
        self._memory = memory
        self._is_open = is_open

    async def continued(self, caller: Caller, body: Body, /) -> Continuation:
        """Return the request as one that a model server without a memory can answer.

        Raises NotContinued, MemoryDown.
        """
        conversation = text(body, "conversation") or text(inner(body, "conversation"), "id")
        previous = text(body, "previous_response_id")
        if body.get("background"):
            return Continuation(body)
        if not self._is_open:
            if conversation or previous:
                raise NotContinued(_STATELESS)
            return Continuation(body)
        if conversation and previous:
            raise NotContinued(_BOTH)
        if conversation:
            previous = await self._last(caller, conversation)
        before, told = await self._before(caller, previous) if previous else ([], None)
        new = items_of(body, "input")
        if isinstance(body.get("input"), str):
            new.append({"type": "message", "role": "user", "content": body["input"]})
        is_kept = body.get("store") is not False
        changed = {name: value for name, value in body.items() if name not in {"previous_response_id", "conversation"}}
        if before:
            changed["input"] = [*before, *new]
        if is_kept:
            included = [name for name in items_of(body, "include") if name != _SEALED]
            changed |= {"store": False, "include": [*included, _SEALED]}
        return Continuation(
            body=changed,
            named=conversation or told,
            new=new,
            previous=previous,
            conversation=conversation,
            instructions=body.get("instructions"),
            is_kept=is_kept,
            is_changed=changed != body,
        )

    async def keep(self, caller: Caller, of: Continuation, response: Fields, /, *, conversation: str) -> None:
        """Keep a response that ended, so that it can be continued. Raises MemoryDown."""
        name = text(response, "id")
        if not of.is_kept or not is_name(_word(name)):
            return
        told = {
            **response,
            "store": True,
            "instructions": of.instructions,
            "previous_response_id": of.previous or None,
            "conversation": {"id": of.conversation} if of.conversation else None,
        }
        # As JSON, not as its text: what is blacked out in a text of it stays within that text.
        said = cast("dict[str, JsonValue]", of_others({"items": of.new, "response": told}))
        await self._memory.put(
            caller, copies_of_conversation(conversation), _word(name), said, ttl_s=limits.RESPONSE_TTL_S
        )
        place = {"previous": of.previous, "owner": of.conversation, "conversation": conversation}
        await self._memory.put(caller, _RESPONSES, name, place, ttl_s=limits.RESPONSE_TTL_S)
        if of.conversation and is_name(of.conversation):
            await self._lead(caller, of.conversation, name)

    async def find(self, caller: Caller, name: str, /) -> StoredResponse | None:
        """Return a response of the caller; None if none of that name is kept. Raises MemoryDown."""
        item = await self._memory.get(caller, _RESPONSES, name) if self._is_open and is_name(name) else None
        if item is None:
            return None
        place = fields(item.value)
        conversation = text(place, "conversation")
        words = await self._memory.get(caller, copies_of_conversation(conversation), _word(name))
        if words is None:
            return None
        said = fields(words.value)
        return StoredResponse(
            name=name,
            response=inner(said, "response"),
            items=items_of(said, "items"),
            previous=text(place, "previous"),
            owner=text(place, "owner"),
            conversation=conversation,
        )

    async def delete(self, caller: Caller, stored: StoredResponse, /) -> None:
        """Erase a response; its conversation goes on from the one before. Raises MemoryDown."""
        await self._memory.erase(caller, copies_of_conversation(stored.conversation), _word(stored.name))
        await self._memory.erase(caller, _RESPONSES, stored.name)
        if stored.owner and await self._last(caller, stored.owner) == stored.name:
            await self._lead(caller, stored.owner, stored.previous)

    async def _last(self, caller: Caller, conversation: str) -> str:
        """Return the response with which a conversation ends; empty for a new one."""
        last = await self._memory.get(caller, _CONVERSATIONS, conversation) if is_name(conversation) else None
        return text(fields(last.value), "last") if last is not None else ""

    async def _lead(self, caller: Caller, conversation: str, name: str) -> None:
        await self._memory.put(caller, _CONVERSATIONS, conversation, {"last": name}, ttl_s=limits.RESPONSE_TTL_S)

    async def _before(self, caller: Caller, previous: str) -> tuple[list[object], str]:
        """Return the items of a response and of all before it, and the conversation that they belong to."""
        told, size = "", 0
        found: list[list[object]] = []
        while previous:
            stored = await self.find(caller, previous)
            if stored is None:
                raise NotContinued(_MISSING)
            items = stored.said
            size += len(json_text(items))
            if len(found) >= limits.RESPONSE_CHAIN or size > limits.RESPONSE_INPUT_BYTES:
                raise NotContinued(_TOO_LONG)
            found.append(items)
            told = told or stored.conversation
            previous = stored.previous
        return [item for items in reversed(found) for item in items], told


def _word(name: str) -> str:
    return f"response.{name}"


def _is_replayed(item: Fields) -> bool:
    """Return whether a server that does not keep an item accepts it again: reasoning only with its content."""
    return text(item, "type") != "reasoning" or bool(item.get("encrypted_content") or item.get("content"))
