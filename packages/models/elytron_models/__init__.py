"""Chat models behind one port: dialects of model APIs, their stream parsers, and clients over HTTP.

Names are loaded when they are first used.
"""

from elytron_core.lazy import lazy_exports

__getattr__, __dir__ = lazy_exports(__name__)
