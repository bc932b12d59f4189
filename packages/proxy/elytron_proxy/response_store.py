"""Stored responses: what makes `previous_response_id` and `conversation` work with every model server."""

import json
from dataclasses import dataclass, field
from typing import Final

from elytron_models.fields import Fields, fields, inner, json_text, objects, text
from elytron_proxy import limits
from elytron_proxy.caller import Caller, is_name
from elytron_proxy.dialects import Refusal
from elytron_proxy.dialects.content import Body, items_of
from elytron_proxy.memory import Memory

_RESPONSES: Final = "responses"
_CONVERSATIONS: Final = "response-conversations"
_SEALED: Final = "reasoning.encrypted_content"
_MISSING: Final = Refusal(
    400, "previous_response_not_found", "the previous response is not kept here: send its messages as `input`"
)
_BOTH: Final = Refusal(400, "invalid_input", "`previous_response_id` and `conversation` exclude each other")
_TOO_LONG: Final = Refusal(413, "payload_too_large", "the responses that this one continues are too many: begin anew")
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
    """A request with all that it continues, and what is to be kept of it. `told` names its conversation, if known."""

    body: Body
    told: str | None = None
    new: list[object] = field(default_factory=list[object])
    previous: str = ""
    conversation: str = ""
    is_kept: bool = False
    is_changed: bool = False
    """Whether the request differs from the one that came."""

    @property
    def is_continuing(self) -> bool:
        """Tell whether the request means more than what stands in it."""
        return bool(self.previous or self.conversation)


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
            last = await self._memory.get(caller, _CONVERSATIONS, conversation) if is_name(conversation) else None
            previous = text(fields(last.value), "last") if last is not None else ""
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
            told=conversation or told,
            new=new,
            previous=previous,
            conversation=conversation,
            is_kept=is_kept,
            is_changed=changed != body,
        )

    async def keep(self, caller: Caller, of: Continuation, response: Fields, /, *, conversation: str) -> None:
        """Keep a response that ended, so that it can be continued. Raises MemoryDown."""
        name = text(response, "id")
        if not of.is_kept or not is_name(name):
            return
        output = [item for item in objects(response, "output") if _is_replayed(item)]
        value = {
            "previous": of.previous,
            "conversation": conversation,
            "items": json_text([*of.new, *output]),
        }
        await self._memory.put(caller, _RESPONSES, name, value, ttl_s=limits.RESPONSE_TTL_S)
        if of.conversation and is_name(of.conversation):
            await self._memory.put(caller, _CONVERSATIONS, of.conversation, {"last": name}, ttl_s=limits.RESPONSE_TTL_S)

    async def _before(self, caller: Caller, previous: str) -> tuple[list[object], str]:
        """Return the items of a response and of all before it, and the conversation that they belong to."""
        told, size = "", 0
        found: list[list[object]] = []
        while previous:
            item = await self._memory.get(caller, _RESPONSES, previous) if is_name(previous) else None
            if item is None:
                raise NotContinued(_MISSING)
            value = fields(item.value)
            written = text(value, "items")
            size += len(written)
            if len(found) >= limits.RESPONSE_CHAIN or size > limits.RESPONSE_INPUT_BYTES:
                raise NotContinued(_TOO_LONG)
            found.append(_items(written))
            told = told or text(value, "conversation")
            previous = text(value, "previous")
        return [item for items in reversed(found) for item in items], told


def _items(written: str) -> list[object]:
    told: object = json.loads(written)
    return items_of({"items": told}, "items")


def _is_replayed(item: Fields) -> bool:
    """Tell whether an item is taken back by a server that does not keep it: reasoning is only with its content."""
    return text(item, "type") != "reasoning" or bool(item.get("encrypted_content") or item.get("content"))
