"""Memory behind the unchanged base URL of a model API: a relay that reads a copy.

Names are loaded when they are first used.
"""

from elytron_core.lazy import lazy_exports

__getattr__, __dir__ = lazy_exports(
    __name__,
    {
        "elytron_proxy.app": "ProxyApp",
        "elytron_proxy.settings": "BlockPlacement MemoryUse ModelUpstream ProxySettings upstreams_of",
    },
)
