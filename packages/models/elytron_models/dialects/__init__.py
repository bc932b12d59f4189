"""The dialects: each says how its requests are written and its answers read, and knows no other."""

from typing import TYPE_CHECKING

from elytron_core.lazy import loading as _loading

if TYPE_CHECKING:
    from elytron_models.dialects.chat import CHAT
    from elytron_models.dialects.messages import MESSAGES
    from elytron_models.dialects.ollama import OLLAMA
    from elytron_models.dialects.responses import RESPONSES

_HOMES = {
    "elytron_models.dialects.chat": "CHAT",
    "elytron_models.dialects.messages": "MESSAGES",
    "elytron_models.dialects.ollama": "OLLAMA",
    "elytron_models.dialects.responses": "RESPONSES",
}

__all__ = ["CHAT", "MESSAGES", "OLLAMA", "RESPONSES"]


if not TYPE_CHECKING:  # type checkers read the imports above, and find misspelt names
    __getattr__ = _loading(__name__, _HOMES)
