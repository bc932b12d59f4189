"""OpenAI Agents SDK sessions over a memory: items are stored unchanged, and their text is stored as evidence.

Items are runtime records of the conversation, so erasing a message of the conversation also erases them. The head
record stores the next item's number. Numbers are never reused, so a delayed removal cannot remove another item. The
texts of user and assistant form a turn, stored in the same commit as the items.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Final, cast
from uuid import uuid4

from agents import RunContextWrapper, SessionSettings, TResponseInputItem
from agents.memory import SessionABC

from elytron.runtime_records import RecordDraft, records_of
from elytron_core import limits
from elytron_core.contracts.transcript import CanonicalTurnDelta, MemoryTranscriptCommitRequest
from elytron_core.errors import InvalidInput
from elytron_core.evidence import EvidenceRole
from elytron_core.lru_cache import LruCache
from elytron_core.planes.records import Record, copies_of_conversation
from elytron_core.planes.transcript import Message, TurnSource
from elytron_integrations.conversation_items import mended_text, settle_change
from elytron_integrations.opaque_parts import fields_of, joined_data, part_drafts, part_number
from elytron_integrations.user_memory import MemoryLoop, OpenMemory, space_scope

_HEAD: Final = "agents-session"
_ITEM: Final = "agents-item-"
_GROUP_ITEMS: Final = 32
"""Maximum number of items in one commit."""
_CLEARED: Final = 10_000
"""Number of cleared texts remembered, to recognise them when compaction stores them again."""
_ROLES: Final = {"user": EvidenceRole.USER, "assistant": EvidenceRole.ASSISTANT}


class ElytronSession(SessionABC):
    """The items of one conversation in one space, and with `remembers` their text as memory.

    `session_id` is the name of the conversation in memory. Raises ScopeMissing without a space, and Unsupported for a
    memory on a server.
    """

    def __init__(
        self,
        session_id: str,
        memory: OpenMemory,
        /,
        *,
        space: str | None = None,
        session_settings: SessionSettings | None = None,
        remembers: bool = True,
    ) -> None:
        self.session_id = session_id
        self.session_settings = session_settings
        self._loop = MemoryLoop(memory)
        self._scope = space_scope(self._loop.face.scope, space, operation="ElytronSession", conversation=session_id)
        self._records = records_of(self._loop.face, scope=self._scope)
        self._place = copies_of_conversation(session_id)
        self._remembers = remembers
        self._head: Record | None = None
        """The head record after this session's last commit, which contains the next item's number."""
        self._cleared: LruCache[tuple[EvidenceRole, str], None] = LruCache(_CLEARED)
        """Texts of cleared items. If compaction stores such a text again, it is not new evidence."""

    async def get_items(
        self, limit: int | None = None, *, wrapper: RunContextWrapper[Any] | None = None
    ) -> list[TResponseInputItem]:
        """Return the items in order, or only the latest ones if `limit` or the session's settings limit them."""
        del wrapper
        if limit is None and self.session_settings is not None:
            limit = self.session_settings.limit
        items = await self._loop.run(self._read_items())
        # Programs expect SQLite's meaning of LIMIT, where a negative number is no limit.
        return items if limit is None or limit < 0 else items[len(items) - min(limit, len(items)) :]

    async def add_items(
        self, items: list[TResponseInputItem], *, wrapper: RunContextWrapper[Any] | None = None
    ) -> None:
        """Append items, and store what was said in them as a turn."""
        del wrapper
        bodies = [_item_body(item) for item in items]
        for start in range(0, len(items), _GROUP_ITEMS):
            await self._loop.run(self._store_items(bodies[start : start + _GROUP_ITEMS]))

    async def pop_item(self, *, wrapper: RunContextWrapper[Any] | None = None) -> TResponseInputItem | None:
        """Remove and return the latest item. What was said in it stays in memory."""
        del wrapper
        return await self._loop.run(settle_change(self._pop_item))

    async def clear_session(self, *, wrapper: RunContextWrapper[Any] | None = None) -> None:
        """Remove all items. What was said in them stays in memory."""
        del wrapper
        await self._loop.run(self._clear_items())

    async def _read_items(self) -> list[TResponseInputItem]:
        return [_item_of(records) for _, records in sorted((await self._records_of_items()).items())]

    async def _records_of_items(self) -> dict[int, dict[int, Record]]:
        """Return records by item number and part number."""
        parts: dict[int, dict[int, Record]] = {}
        async for record in self._records.within(self._place):
            if record.key.startswith(_ITEM):
                key, part = part_number(record)
                parts.setdefault(int(key.removeprefix(_ITEM)), {})[part] = record
        return {number: records for number, records in parts.items() if not fields_of(records[0]).get("popped")}

    async def _store_items(self, bodies: Sequence[str]) -> None:
        """Store items and their turn in one commit."""
        messages = [message for body in bodies if (message := self._new_message(json.loads(body))) is not None]

        async def store() -> None:
            # Usually this session wrote the head last. Another writer's is read after the commit is refused.
            head = self._head if self._head is not None else await self._records.get(self._place, _HEAD)
            self._head, first = None, _next_number(head)
            drafts = [
                replace(draft, expected_version=0)
                for number, body in enumerate(bodies, first)
                for draft in part_drafts(self._place, f"{_ITEM}{number}", {}, body.encode())
            ]
            drafts.append(self._head_draft(head, first + len(bodies)))
            *_, self._head = await self._commit(messages, drafts)

        await settle_change(store)

    def _new_message(self, item: object) -> Message | None:
        """Return what an item says, or None if it is not evidence or was cleared and is stored again."""
        message = _message_of(item) if self._remembers else None
        was_cleared = message is not None and self._cleared.pop((message.role, message.text), False) is None
        return None if was_cleared else message

    async def _commit(self, messages: Sequence[Message], drafts: Sequence[RecordDraft]) -> Sequence[Record]:
        """Store drafts, and messages as a turn, in one commit; return the drafts' records."""
        if not messages:
            return await self._records.put_all(drafts)
        is_answered = messages[-1].role is EvidenceRole.ASSISTANT
        delta = CanonicalTurnDelta(
            turn_id=uuid4().hex,
            input_messages=tuple(messages[:-1] if is_answered else messages),
            assistant_message=messages[-1] if is_answered else None,
            source=TurnSource(ingress="openai-agents"),
        )
        request = MemoryTranscriptCommitRequest(scope=self._scope, delta=delta)
        names = [draft.name for draft in drafts]
        return await self._records.commit_turn(request, names, lambda _turn_id, _message_ids: drafts)

    async def _pop_item(self) -> TResponseInputItem | None:
        items = await self._records_of_items()
        if not items:
            return None
        records = items[max(items)]
        # Refused if another one popped it.
        mark = RecordDraft(self._place, records[0].key, {"popped": True}, expected_version=records[0].version)
        await self._records.put_all([mark])
        await self._records.erase(records.values())
        return _item_of(records)

    async def _clear_items(self) -> None:
        items = (await self._records_of_items()).values()
        for message in map(_message_of, map(_item_of, items)):
            if message is not None:
                self._cleared[message.role, message.text] = None
        await self._records.erase([record for records in items for record in records.values()])

    def _head_draft(self, head: Record | None, number: int) -> RecordDraft:
        version = head.version if head is not None else 0
        return RecordDraft(self._place, _HEAD, {"next": number}, expected_version=version)


def _next_number(head: Record | None) -> int:
    """Return the number of the next item."""
    return fields_of(head)["next"] if head is not None else 0


def _item_of(records: Mapping[int, Record]) -> TResponseInputItem:
    """Return an item as it was stored."""
    return json.loads(joined_data({part: fields_of(record) for part, record in records.items()}))


def _item_body(item: TResponseInputItem) -> str:
    """Return an item as JSON. Raises InvalidInput for values that JSON cannot represent."""
    try:
        return json.dumps(item, allow_nan=False, default=lambda part: part.model_dump(mode="json"))
    except (AttributeError, TypeError, ValueError, RecursionError):
        raise InvalidInput(field="items", problem="contain a value that JSON cannot represent") from None


def _message_of(item: object) -> Message | None:
    """Return what the user or assistant says in an item, or None for other items and texts over the limit."""
    fields: Mapping[str, Any] = cast("Mapping[str, Any]", item) if isinstance(item, Mapping) else {}
    role, content = _ROLES.get(fields.get("role", "")), fields.get("content")
    parts: list[Any] = cast("list[Any]", content) if isinstance(content, list) else [{"text": content}]
    texts = [cast("Mapping[str, Any]", part).get("text") for part in parts if isinstance(part, Mapping)]
    text = mended_text("\n".join(text for text in texts if isinstance(text, str)))
    if role is None or not text.strip() or len(text) > limits.MESSAGE_CHARS:
        return None
    return Message(role=role, text=text)
