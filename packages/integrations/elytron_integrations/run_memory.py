"""Memory around agent runs: a block before the model answers, and the turn stored afterwards."""

import logging
from collections.abc import Sequence
from typing import Final

from elytron_core import limits as core_limits
from elytron_core.contracts.transcript import TurnDraft
from elytron_core.errors import ElytronError
from elytron_core.evidence import EvidenceRole
from elytron_core.planes.transcript import Message, TurnSource
from elytron_core.policy.projection.fence import wrap_block
from elytron_core.scope import Scope
from elytron_core.text import similarity
from elytron_integrations.conversation_items import host_name, mended_text
from elytron_integrations.user_memory import UserMemory, narrowed_scope
from elytron_proxy.limits import MEMORY_WAIT_S
from elytron_turn.memory import TurnBudget, TurnDeadline, TurnMemory, TurnMessages

logger = logging.getLogger(__name__)
BLOCK_CHARS: Final = core_limits.PROJECTION_CHARS_DEFAULT


class AgentRunMemory:
    """One user's memory around the runs of a framework. The framework's name is the channel of its conversations.

    A memory failure or timeout never fails a run: it is logged, and the run continues without memory.
    """

    def __init__(self, memory: UserMemory, /, *, framework: str, max_chars: int = BLOCK_CHARS) -> None:
        self._memory = memory
        self._framework = framework
        self._max_chars = max_chars

    async def block(self, query: str, /, *, conversation: str | None = None) -> str:
        """Return the memories for `query` as fenced reference data.

        Nothing is recalled from `conversation`, because the model sees that one anyway.
        """
        memory = TurnMemory(self._memory.operate, self._conversation_scope(conversation))
        messages = TurnMessages(current=mended_text(query), has_conversation=conversation is not None)
        context = await memory.before(messages, TurnBudget(self._max_chars, wait_s=MEMORY_WAIT_S))
        if context.failure is not None:
            _log_failure(context.failure)
        return wrap_block(context.block) if context.block else ""

    async def store(self, messages: Sequence[Message], /, *, turn_id: str, conversation: str | None) -> None:
        """Store a run's messages as one turn, at most once per id. Blank messages are left out."""
        worded_messages = tuple(message for message in messages if not similarity.is_blank(message.text))
        if not any(message.role is EvidenceRole.USER for message in worded_messages):
            return
        draft = TurnDraft(messages=worded_messages, host_id=host_name(turn_id), source=self._source)
        memory = TurnMemory(self._memory.operate, self._conversation_scope(conversation))
        try:
            await TurnDeadline.after(MEMORY_WAIT_S).run_within(lambda: memory.after((draft,)))
        except (ElytronError, TimeoutError) as error:
            _log_failure(error)

    async def add(self, messages: Sequence[tuple[Message, str | None]], /, *, conversation: str | None) -> None:
        """Store each message as a turn, at most once per id if it has one. Blank messages are left out.

        Errors of a write are raised, so the framework still has what was not stored.
        """
        drafts = [
            TurnDraft(messages=(message,), host_id=host_name(name) if name else None, source=self._source)
            for message, name in messages
            if not similarity.is_blank(message.text)
        ]
        memory = TurnMemory(self._memory.operate, self._conversation_scope(conversation))
        for start in range(0, len(drafts), core_limits.TURNS_PER_COMMIT):
            await memory.after(drafts[start : start + core_limits.TURNS_PER_COMMIT])

    @property
    def _source(self) -> TurnSource:
        return TurnSource(ingress="framework", protocol=self._framework)

    def _conversation_scope(self, conversation: str | None) -> Scope:
        parts = {"conversation": host_name(conversation)} if conversation is not None else {}
        return narrowed_scope(self._memory.scope, channel=self._framework, **parts)


def spoken_message(role: EvidenceRole, text: str, /, *, speaker: str | None = None) -> Message:
    """Return a message of a run in well-formed text, truncated to the size limit of memory."""
    return Message(role=role, text=mended_text(text)[: core_limits.MESSAGE_CHARS], speaker=speaker)


def _log_failure(error: Exception) -> None:
    key = error.key if isinstance(error, ElytronError) else type(error).__name__
    logger.warning("memory failed, the run continues without it: %s", key)
