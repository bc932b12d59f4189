"""The dialects: each says how its requests are written and its answers read, and knows no other."""

from elytron_core.lazy import exports

__getattr__, __dir__ = exports(__name__)
