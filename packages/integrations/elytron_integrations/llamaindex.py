"""A memory block for LlamaIndex that shows recalled memories and stores messages that leave the chat history."""

from collections.abc import Sequence
from typing import Any, Final

from pydantic import PrivateAttr
from typing_extensions import override

from elytron.api import MemoryFace
from elytron_core.evidence import ROLE_WORDS, EvidenceRole
from elytron_core.policy.projection.fence import FenceTag
from elytron_integrations.integration_table import require_framework
from elytron_integrations.run_memory import BLOCK_CHARS, AgentRunMemory, spoken_message
from elytron_integrations.user_memory import user_memory

require_framework(__name__)

from llama_index.core.base.llms.types import ChatMessage  # noqa: E402
from llama_index.core.memory import BaseMemoryBlock  # noqa: E402

_SESSION: Final = "session_id"
_ROLES: Final = {**ROLE_WORDS, "chatbot": EvidenceRole.ASSISTANT}


class ElytronMemoryBlock(BaseMemoryBlock[str]):
    """Memory block that recalls for the user's latest message from one memory space: `space`, or the memory's own.

    Messages that no longer fit into the chat history are stored as evidence. If memory fails or times out, the block is
    empty; a failed write is raised. When tokens are short, the whole block is dropped.
    """

    name: str = "elytron"
    _run: AgentRunMemory = PrivateAttr()

    def __init__(
        self, memory: MemoryFace, *, space: str | None = None, max_chars: int = BLOCK_CHARS, **fields: Any
    ) -> None:
        super().__init__(**fields)
        owner = user_memory(memory, space, operation="the memory block")
        self._run = AgentRunMemory(owner, framework="llamaindex", max_chars=max_chars)

    @override
    async def _aget(self, messages: list[ChatMessage] | None = None, **block_kwargs: Any) -> str:
        prompts = [message.content or "" for message in messages or () if _role_of(message) is EvidenceRole.USER]
        return await self._run.block(prompts[-1]) if prompts and prompts[-1].strip() else ""

    @override
    async def _aput(self, messages: list[ChatMessage]) -> None:
        for session, members in _by_session(messages).items():
            messages_with_ids = [(spoken_message(_role_of(each), each.content or ""), None) for each in members]
            await self._run.add(messages_with_ids, conversation=session)


def _role_of(message: ChatMessage) -> EvidenceRole:
    return _ROLES.get(message.role.value, EvidenceRole.SYSTEM)


def _by_session(messages: Sequence[ChatMessage]) -> dict[str | None, list[ChatMessage]]:
    """Group messages by session, without system messages and those that contain the block itself."""
    sessions: dict[str | None, list[ChatMessage]] = {}
    for message in messages:
        is_block = FenceTag.PROXY in (message.content or "")
        if _role_of(message) is not EvidenceRole.SYSTEM and not is_block:
            session: Any = message.additional_kwargs.get(_SESSION)
            sessions.setdefault(session, []).append(message)
    return sessions
