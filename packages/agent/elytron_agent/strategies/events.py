"""Audit events of a strategy's calls: hidden from context and search, without keys and without what was said."""

import json
from collections.abc import Awaitable, Callable
from enum import StrEnum
from typing import Literal

from elytron.api import MemoryFace
from elytron_core.contracts.conversation.write import MemoryWriteRequest, TranscriptWrite, TurnDraft
from elytron_core.model import Value
from elytron_core.planes.conversation.transcript import Message, Role
from elytron_core.planes.evidence import EvidenceAuthority
from elytron_core.scope import Scope
from elytron_gateway.client import Failure
from elytron_gateway.wire import Scope as SearchScope


class RunEventKind(StrEnum):
    """Outcome of a call."""

    RECALL_SUCCEEDED = "memory_gateway_recall_succeeded"
    RECALL_FAILED = "memory_gateway_recall_failed"
    ADD_SUCCEEDED = "memory_gateway_add_succeeded"
    ADD_FAILED = "memory_gateway_add_failed"
    FLUSH_SUCCEEDED = "memory_gateway_flush_succeeded"
    FLUSH_FAILED = "memory_gateway_flush_failed"


class RunEvent(Value):
    """One call's outcome, for those who look for faults."""

    kind: RunEventKind
    session_id: str
    context_visible: Literal[False] = False
    scope: tuple[SearchScope, ...] | None = None
    results: int | None = None
    messages: int | None = None
    failure: Failure | None = None
    status: int | None = None
    add_succeeded: bool | None = None

    @property
    def told(self) -> str:
        """Return the event as JSON text, without what it does not say."""
        return json.dumps(self.model_dump(mode="json", exclude_none=True))


Tell = Callable[[str, RunEvent], Awaitable[None]]
"""Takes the conversation and an event. An ElytronError that it raises is logged, and changes nothing in a run."""


def stored_events(memory: MemoryFace, /) -> Tell:
    """Return a function that stores each event in its conversation, on an operator's authority.

    Recall, search, blocks and views of a conversation leave such turns out; the operator's view shows them.
    """

    async def tell(conversation: str, event: RunEvent, /) -> None:
        message = Message(role=Role.SYSTEM, text=event.told, authority=EvidenceAuthority.OPERATOR_DIAGNOSTIC)
        own = memory.scope
        scope = own.model_copy(update={"conversation": conversation}) if isinstance(own, Scope) else None
        write = TranscriptWrite(turns=(TurnDraft(messages=(message,), metadata={"context_visible": False}),))
        await memory.write(MemoryWriteRequest(scope=scope, write=write))

    return tell
