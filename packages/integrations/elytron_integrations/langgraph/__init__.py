"""LangGraph: a checkpointer and a store over a memory."""

from elytron_integrations.integration_table import require_framework as _require_framework

_require_framework(__name__)

from elytron_integrations.langgraph.checkpoints import ElytronSaver  # noqa: E402 - the framework is checked first
from elytron_integrations.langgraph.store import ElytronStore  # noqa: E402

__all__ = ["ElytronSaver", "ElytronStore"]
