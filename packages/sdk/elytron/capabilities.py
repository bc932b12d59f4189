"""Capabilities of this memory: by profile, by installed extras and by settings."""

from functools import cache
from importlib.util import find_spec
from pkgutil import iter_modules

from elytron.context import OperationContext
from elytron_core.contracts.admin.platform import MemoryCapabilityCatalog
from elytron_core.policy.host.capabilities import Circumstances, Part, catalog

_NEEDS: dict[Part, tuple[str, ...]] = {
    Part.CLI: ("elytron_cli",),
    Part.HTTP: ("elytron_http_shell", "starlette"),
    Part.WSS: ("elytron_http_shell", "starlette", "websockets"),
    Part.MCP: ("elytron_mcp_shell", "mcp"),
    Part.A2A: ("elytron_a2a_shell", "a2a"),
    Part.LLM_GATEWAY: ("elytron_proxy", "starlette", "httpx"),
    Part.REPLAY: ("elytron_replay",),
    Part.EVOLVE: ("elytron_replay.evolve",),
}
"""The packages that each part is made of; a part that is not listed is in no distribution yet."""


def catalog_of(ctx: OperationContext, /) -> MemoryCapabilityCatalog:
    """Return everything that might be done, and whether it can be here and now."""
    return catalog(
        Circumstances(
            profile=ctx.profile,
            compiled={part for part, packages in _NEEDS.items() if all(map(_is_built_in, packages))},
            entries=ctx.entries,
            has_model=ctx.models.language is not None,
            policy=ctx.capability_policy,
            capacity=ctx.capacity,
        )
    )


@cache
def _is_built_in(package: str) -> bool:
    """Return whether a package is installed and not empty; it is not imported."""
    spec = find_spec(package)
    if spec is None:
        return False
    places = spec.submodule_search_locations
    return places is None or any(iter_modules(places))
