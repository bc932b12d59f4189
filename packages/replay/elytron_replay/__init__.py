"""Replay: stories told to every store, step by step and fingerprint by fingerprint the same. See docs/fixtures.md.

Names are loaded when they are first used: most of them need a whole runtime.
"""

from elytron_core.lazy import exports

__getattr__, __dir__ = exports(__name__)
