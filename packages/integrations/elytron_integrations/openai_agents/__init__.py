"""OpenAI Agents SDK: sessions, and tools that recall, store and forget."""

from elytron_integrations.integration_table import require_framework as _require_framework

_require_framework(__name__)

from elytron_integrations.openai_agents.sessions import ElytronSession  # noqa: E402 - the framework is checked first
from elytron_integrations.openai_agents.tool_set import memory_tools  # noqa: E402

__all__ = ["ElytronSession", "memory_tools"]
