"""Vectors of memories: the embedders that make them. Names are loaded when they are first used."""

from elytron_core.lazy import lazy_exports

__getattr__, __dir__ = lazy_exports(__name__)
