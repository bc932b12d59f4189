"""Use cases made of several operations, each loaded when it is first used."""

from elytron_core.lazy import exports

__getattr__, __dir__ = exports(__name__)
