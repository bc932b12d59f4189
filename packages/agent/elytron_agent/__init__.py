"""Agents that remember: turn hooks, memory strategies, core blocks, and a durable loop.

Names are loaded when they are first used.
"""

from elytron_core.lazy import lazy_exports

__getattr__, __dir__ = lazy_exports(__name__)
