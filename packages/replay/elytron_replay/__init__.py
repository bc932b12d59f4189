"""Replay: fixtures run on every store, the same step by step and fingerprint by fingerprint. See docs/fixtures.md.

Names are loaded when they are first used: most of them need a whole runtime.
"""

from elytron_core.lazy import exports

__getattr__, __dir__ = exports(__name__)
