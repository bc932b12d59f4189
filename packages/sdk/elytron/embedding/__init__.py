"""Vectors of memories: the embedders that make them. Names are loaded when they are first used."""

from elytron_core.lazy import exports

__getattr__, __dir__ = exports(__name__)
