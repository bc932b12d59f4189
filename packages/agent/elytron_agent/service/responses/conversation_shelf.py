"""The shelf of conversations: threads of responses that have a name of their own, and their items."""

from collections.abc import Sequence
from typing import Final

from pydantic import JsonValue

from elytron_agent.context.request import ThreadHead
from elytron_agent.loop.removal import SharedMemory, delete_agent
from elytron_agent.runs.journal import AGENTS
from elytron_agent.service import limits
from elytron_agent.service.companion import UserAgents
from elytron_agent.service.responses.response_items import listed_items, output_items, response_of_item
from elytron_agent.service.responses.response_shelf import KnownResponse, ResponseShelf
from elytron_agent.service.responses.response_wire import ConversationBody, ItemPage, Metadata
from elytron_agent.service.thread_items import ItemOrder
from elytron_core.errors import NotFound

_PLACE: Final = (AGENTS, "responses", "conversations")
_CHUNK: Final = 20
"""Turns that are read at once."""


class ConversationShelf:
    """The conversations of one user. The thread of an agent is none of them."""

    def __init__(self, user: UserAgents, /) -> None:
        self._user = user
        self._responses = ResponseShelf(user)

    async def create(self, metadata: Metadata, /) -> ConversationBody:
        """Return a new conversation."""
        made = ConversationBody(
            id=self._responses.new_thread(),
            created_at=self._user.memory.context.clock.now() // 1000,
            metadata=metadata,
        )
        await self._put(made)
        return made

    async def read(self, conversation: str, /) -> ConversationBody:
        """Return a conversation. Raises NotFound."""
        found = await self._user.records.get(_PLACE, conversation) if _is_name(conversation) else None
        if found is None:
            raise NotFound(what="conversation", name=conversation)
        return ConversationBody.model_validate(found.value)

    async def change(self, conversation: str, metadata: Metadata, /) -> ConversationBody:
        """Set the metadata of a conversation, and return it. Raises NotFound."""
        changed = (await self.read(conversation)).model_copy(update={"metadata": metadata})
        await self._put(changed)
        return changed

    async def list(self) -> list[ConversationBody]:
        """Return the conversations, the latest first."""
        found = [ConversationBody.model_validate(each.value) async for each in self._user.records.below(_PLACE)]
        return sorted(found, key=lambda each: (each.created_at, each.id), reverse=True)

    async def delete(self, conversation: str, /) -> None:
        """Erase a conversation with all that was said in it. Raises NotFound."""
        found = await self._user.records.get(_PLACE, (await self.read(conversation)).id)
        try:
            reason = "its conversation was deleted"
            await delete_agent(self._user.memory, conversation, reason=reason, shared=SharedMemory.KEPT)
        except NotFound:
            pass  # nothing was said in it
        await self._user.records.erase([found] if found is not None else [])

    async def page(
        self, conversation: str, /, *, limit: int, after: str | None = None, order: ItemOrder = ItemOrder.DESCENDING
    ) -> ItemPage:
        """Return a page of a conversation's items. Raises NotFound, also for an `after` that is no item of it."""
        thread = (await self.read(conversation)).id
        runs = await self._responses.runs(thread)
        is_down = order is ItemOrder.DESCENDING
        runs = runs[::-1] if is_down else runs
        if after is not None:
            start = response_of_item(after)
            if start not in runs:
                raise NotFound(what="item", name=after)
            runs = runs[runs.index(start) :]
        found: list[dict[str, JsonValue]] = []
        is_behind = after is None
        for at in range(0, len(runs), _CHUNK):
            for known in await self._responses.turns(thread, runs[at : at + _CHUNK]):
                items = turn_items(known)
                for item in reversed(items) if is_down else items:
                    found += [item] if is_behind else []
                    is_behind = is_behind or item["id"] == after
            if len(found) > limit:
                break
        if not is_behind:
            raise NotFound(what="item", name=after or "")
        return item_page(found, limit)

    async def item(self, conversation: str, item_id: str, /) -> dict[str, JsonValue]:
        """Return an item of a conversation. Raises NotFound."""
        for item in turn_items(await self.turn_of_item(conversation, item_id)):
            if item["id"] == item_id:
                return item
        raise NotFound(what="item", name=item_id)

    async def turn_of_item(self, conversation: str, item_id: str, /) -> KnownResponse:
        """Return the turn of an item. Raises NotFound."""
        thread, run = (await self.read(conversation)).id, response_of_item(item_id)
        known = await self._responses.turns(thread, (run,)) if run is not None else []
        if not known or known[0].document.thread != thread:
            raise NotFound(what="item", name=item_id)
        return known[0]

    async def head(self, conversation: str, /) -> ThreadHead:
        """Return the state of a conversation's thread. Raises NotFound."""
        return await self._responses.head((await self.read(conversation)).id)

    async def _put(self, body: ConversationBody) -> None:
        value = body.model_dump(mode="json")
        await self._user.records.put(_PLACE, body.id, value, text="a conversation")


def turn_items(known: KnownResponse, /) -> list[dict[str, JsonValue]]:
    """Return the items of a turn: its input, and what the agent said."""
    document, record = known.document, known.record
    said = output_items(document.id, record) if record is not None else ()
    return [*listed_items(document.id, document.items), *(item.model_dump(mode="json") for item in said)]


def item_page(items: Sequence[dict[str, JsonValue]], limit: int, /) -> ItemPage:
    """Return the first items as a page."""
    shown = items[:limit]
    return ItemPage(
        data=tuple(shown),
        first_id=str(shown[0]["id"]) if shown else "",
        last_id=str(shown[-1]["id"]) if shown else "",
        has_more=len(items) > limit,
    )


def _is_name(name: str) -> bool:
    return name.isascii() and name.replace("_", "").isalnum() and len(name) <= limits.RESPONSE_ID_CHARS
