"""The dialects: each says how its requests are written and its answers read, and knows no other."""

from elytron_core.lazy import lazy_exports

__getattr__, __dir__ = lazy_exports(
    __name__,
    {
        "elytron_models.dialects.chat": "CHAT",
        "elytron_models.dialects.messages": "MESSAGES",
        "elytron_models.dialects.ollama": "OLLAMA",
        "elytron_models.dialects.responses": "RESPONSES",
    },
)
