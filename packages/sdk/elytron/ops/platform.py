"""What this memory can do."""

from importlib.util import find_spec

from elytron.context import OperationContext
from elytron_core.contracts.platform import MemoryCapabilitiesRequest, MemoryCapabilityCatalog
from elytron_core.policy.capabilities import Circumstances, Part, catalog

_NEEDS: dict[Part, tuple[str, ...]] = {
    Part.CLI: ("elytron_cli",),
    Part.HTTP: ("elytron_http_shell", "starlette"),
    Part.WSS: ("elytron_http_shell", "starlette", "websockets"),
    Part.MCP: ("elytron_mcp_shell", "mcp"),
    Part.A2A: ("elytron_a2a_shell", "a2a"),
    Part.LLM_GATEWAY: ("elytron_llm_gateway", "starlette"),
    Part.REPLAY: ("elytron_replay",),
}
"""The packages that each part is made of; a part that is not listed is in no distribution yet."""


async def capabilities(ctx: OperationContext, request: MemoryCapabilitiesRequest, /) -> MemoryCapabilityCatalog:  # noqa: ARG001 - every operation takes both, and is awaited
    """Return what can be done here, by profile, by what is installed and by what is set up."""
    return catalog(
        Circumstances(
            profile=ctx.profile,
            compiled={part for part, packages in _NEEDS.items() if all(find_spec(name) for name in packages)},
            entries=ctx.entries,
            has_model=ctx.models.language is not None,
            policy=ctx.capability_policy,
        )
    )
