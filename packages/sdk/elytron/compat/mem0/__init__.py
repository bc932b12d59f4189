"""mem0's classes over a memory here: change the import, and a program that was written for mem0 runs.

Names are loaded when they are first used.
"""

from elytron_core.lazy import lazy_exports

__getattr__, __dir__ = lazy_exports(
    __name__,
    {
        "elytron_integrations.mem0.memory": "AsyncMemory Memory MemoryClient",
    },
)
