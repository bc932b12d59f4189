"""Pydantic AI: a conversation store, and memory around agent runs."""

from elytron_integrations.integration_table import require_framework as _require_framework

_require_framework(__name__)

from elytron_integrations.pydantic_ai.capability import ElytronMemory  # noqa: E402
from elytron_integrations.pydantic_ai.conversations import ElytronConversationStore  # noqa: E402

__all__ = ["ElytronConversationStore", "ElytronMemory"]
