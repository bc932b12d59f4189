"""Memory behind the unchanged base URL of a model API: a relay that reads a copy.

Names are loaded when they are first used.
"""

from typing import TYPE_CHECKING

from elytron_core.lazy import loading as _loading

if TYPE_CHECKING:
    from elytron_proxy.app import ProxyApp
    from elytron_proxy.settings import MemoryUse, Placement, ProxySettings, Upstream, upstreams_of

_HOMES = {
    "elytron_proxy.app": "ProxyApp",
    "elytron_proxy.settings": "MemoryUse Placement ProxySettings Upstream upstreams_of",
}

__all__ = [
    "MemoryUse",
    "Placement",
    "ProxyApp",
    "ProxySettings",
    "Upstream",
    "upstreams_of",
]


if not TYPE_CHECKING:  # type checkers read the imports above, and find misspelt names
    __getattr__ = _loading(__name__, _HOMES)
