"""Use cases made of several operations, each loaded when it is first used."""

from elytron_core.lazy import lazy_exports

__getattr__, __dir__ = lazy_exports(__name__)
