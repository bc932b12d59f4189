"""Replay: fixtures run on every store, the same step by step and fingerprint by fingerprint. See docs/fixtures.md.

Names are loaded when they are first used: most of them need a whole runtime.
"""

from elytron_core.lazy import lazy_exports

__getattr__, __dir__ = lazy_exports(__name__)
