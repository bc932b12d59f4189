"""mem0's classes over an Elytron memory: change the import, and a program written for mem0 runs.

Names are loaded on first use.
"""

from elytron_core.lazy import lazy_exports

__getattr__, __dir__ = lazy_exports(
    __name__,
    {
        "elytron_integrations.mem0.memory": "AsyncMemory AsyncMemoryClient Memory MemoryClient",
    },
)
