"""Google's Agent Development Kit: a session service, and a memory service over what was said in sessions."""

from elytron_integrations.integration_table import require_framework as _require_framework

_require_framework(__name__)

from elytron_integrations.google_adk.memories import ElytronMemoryService  # noqa: E402
from elytron_integrations.google_adk.stored_sessions import ElytronSessionService  # noqa: E402

__all__ = ["ElytronMemoryService", "ElytronSessionService"]
