"""Microsoft Agent Framework: a context provider that recalls and stores, and a history provider."""

from collections.abc import Sequence
from typing import Any, Final
from uuid import uuid4

from typing_extensions import override

from elytron.api import MemoryFace
from elytron_core import limits
from elytron_core.errors import ScopeMissing
from elytron_core.evidence import ROLE_WORDS, EvidenceRole
from elytron_integrations.conversation_items import ConversationItem, ConversationItems, host_name, mended_text
from elytron_integrations.integration_table import require_framework
from elytron_integrations.run_memory import BLOCK_CHARS, AgentRunMemory, spoken_message
from elytron_integrations.user_memory import narrowed_scope, user_memory

require_framework(__name__)

from agent_framework import (  # noqa: E402
    AgentSession,
    ContextProvider,
    HistoryProvider,
    Message,
    SessionContext,
    SupportsAgentRun,
)

_FRAMEWORK: Final = "agent-framework"


class ElytronContextProvider(ContextProvider):
    """Recall before a run, and store the person's words and the answer after it, in one memory space.

    The space is `space`, or the memory's own. Pass `stores=False` if an `ElytronHistoryProvider` stores the messages. A
    memory failure never fails a run.
    """

    def __init__(
        self,
        memory: MemoryFace,
        *,
        space: str | None = None,
        source_id: str = "elytron",
        max_chars: int = BLOCK_CHARS,
        stores: bool = True,
    ) -> None:
        super().__init__(source_id)
        owner = user_memory(memory, space, operation="the context provider")
        self._run = AgentRunMemory(owner, framework=_FRAMEWORK, max_chars=max_chars)
        self._stores = stores

    @override
    async def before_run(
        self, *, agent: SupportsAgentRun, session: AgentSession, context: SessionContext, state: dict[str, Any]
    ) -> None:
        """Insert the recalled block as a reference message before the input."""
        query = _user_text(context.input_messages)
        block = await self._run.block(query, conversation=context.session_id) if query else ""
        if block:
            context.extend_messages(self, [Message("user", [block])])

    @override
    async def after_run(
        self, *, agent: SupportsAgentRun, session: AgentSession, context: SessionContext, state: dict[str, Any]
    ) -> None:
        """Store a run's turn in its session's conversation."""
        if not self._stores or context.response is None:
            return
        messages = (
            spoken_message(EvidenceRole.USER, _user_text(context.input_messages)),
            spoken_message(EvidenceRole.ASSISTANT, context.response.text),
        )
        turn_id = context.response.response_id or uuid4().hex
        await self._run.store(messages, turn_id=turn_id, conversation=context.session_id)


class ElytronHistoryProvider(HistoryProvider):
    """Store the complete messages of sessions in order, in one memory space. Their text can be recalled.

    A message with an id is stored once. Calls without a session are refused.
    """

    def __init__(
        self, memory: MemoryFace, *, space: str | None = None, source_id: str = "elytron-history", **settings: Any
    ) -> None:
        super().__init__(source_id, **settings)
        self._memory = memory
        self._scope = user_memory(memory, space, operation="the history provider").scope

    @override
    async def get_messages(
        self, session_id: str | None, *, state: dict[str, Any] | None = None, **kwargs: Any
    ) -> list[Message]:
        """Return a session's messages in order. Raises ScopeMissing without a session."""
        return [Message.from_dict(item.value) for item in await self._items(session_id, "get_messages").read()]

    @override
    async def save_messages(
        self,
        session_id: str | None,
        messages: Sequence[Message],
        *,
        state: dict[str, Any] | None = None,
        **kwargs: Any,
    ) -> None:
        """Append messages to a session in one commit. Raises ScopeMissing without a session."""
        await self._items(session_id, "save_messages").append([_message_item(message) for message in messages])

    async def clear(self, session_id: str | None) -> None:
        """Erase a session's messages and what memory derived from them. Raises ScopeMissing without a session."""
        await self._items(session_id, "clear").erase()

    def _items(self, session_id: str | None, operation: str) -> ConversationItems:
        if not session_id:
            raise ScopeMissing(operation=operation, way_out="run the agent with session=agent.create_session()")
        scope = narrowed_scope(self._scope, channel=_FRAMEWORK, conversation=host_name(session_id))
        return ConversationItems(self._memory, scope, issuer=_FRAMEWORK)


def _message_item(message: Message) -> ConversationItem:
    return ConversationItem(
        value=message.to_dict(),
        kind="message",
        role=ROLE_WORDS.get(str(message.role), EvidenceRole.SYSTEM),
        text=mended_text(message.text)[: limits.MESSAGE_CHARS],
        host_id=message.message_id,
        speaker=host_name(message.author_name) if message.author_name else None,
    )


def _user_text(messages: Sequence[Message]) -> str:
    return "\n".join(message.text for message in messages if str(message.role) == "user" and message.text.strip())
