"""Calls on the registries of a host's tools."""

from elytron.api.calls import BlockingCalls, CallFace, blocking_call
from elytron_core.contracts import tools
from elytron_core.planes.tools import AgentToolRegistrySnapshot


class ToolsFace(CallFace):
    """Register the host's tools; experience with them is stored by `write`.

    The examples start from here:

    >>> read = elytron.AgentToolDescriptor(tool_id="read_file", schema_fingerprint="schema-1")
    >>> snapshot = elytron.AgentToolRegistrySnapshot(registry_id="host-tools", namespace="desk", tools=(read,))
    >>> _ = memory.upsert_agent_tool_registry(elytron.with_fingerprints(snapshot))
    """

    async def upsert_agent_tool_registry(
        self, snapshot: AgentToolRegistrySnapshot | tools.AgentToolRegistryUpsertRequest, /
    ) -> tools.AgentToolRegistryUpsertReport:
        """Register a snapshot, replacing one of the same id.

        >>> write = elytron.AgentToolDescriptor(tool_id="write_file", schema_fingerprint="schema-2")
        >>> grown = snapshot.model_copy(update={"tools": (read, write)})
        >>> memory.upsert_agent_tool_registry(elytron.with_fingerprints(grown)).accepted
        True
        """
        if isinstance(snapshot, AgentToolRegistrySnapshot):
            snapshot = tools.AgentToolRegistryUpsertRequest(snapshot=snapshot)
        return await self.operate(snapshot)

    async def list_agent_tool_registries(
        self, request: tools.AgentToolRegistryListRequest | None = None, /
    ) -> tools.AgentToolRegistryListReport:
        """Read every registry of the space.

        >>> [registry.registry_id for registry in memory.list_agent_tool_registries().registries]
        ['host-tools']
        """
        return await self.operate(request or tools.AgentToolRegistryListRequest())

    async def get_agent_tool_registry(
        self, registry: str | tools.AgentToolRegistryGetRequest, /
    ) -> tools.AgentToolRegistryGetReport:
        """Read one registry. Raises NotFound.

        >>> [tool.tool_id for tool in memory.get_agent_tool_registry("host-tools").registry.tools]
        ['read_file']
        """
        if isinstance(registry, str):
            registry = tools.AgentToolRegistryGetRequest(registry_id=registry)
        return await self.operate(registry)

    async def delete_agent_tool_registry(
        self, registry: str | tools.AgentToolRegistryDeleteRequest, /
    ) -> tools.AgentToolRegistryDeleteReport:
        """Remove a registry; experience with its tools stays.

        >>> memory.delete_agent_tool_registry("host-tools").changed
        True
        """
        if isinstance(registry, str):
            registry = tools.AgentToolRegistryDeleteRequest(registry_id=registry)
        return await self.operate(registry)


class BlockingTools(BlockingCalls):
    """The calls of tools, blocking until their answer."""

    upsert_agent_tool_registry = blocking_call(ToolsFace.upsert_agent_tool_registry)
    list_agent_tool_registries = blocking_call(ToolsFace.list_agent_tool_registries)
    get_agent_tool_registry = blocking_call(ToolsFace.get_agent_tool_registry)
    delete_agent_tool_registry = blocking_call(ToolsFace.delete_agent_tool_registry)
