"""Search inside one memory space: a fold over its journal. `elytron_index.space_index` holds the index itself.

Names are loaded when they are first used.
"""

from elytron_core.lazy import exports

__getattr__, __dir__ = exports(__name__)
