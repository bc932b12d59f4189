"""The operations on registries of a host's tools."""

from elytron import ops
from elytron.registry.operation import AnyOperation, Grave, Operation, Repeat
from elytron_core.contracts import tools

TOOLS: tuple[AnyOperation, ...] = (
    Operation("upsert_agent_tool_registry", tools.AgentToolRegistryUpsertRequest, tools.AgentToolRegistryUpsertReport,
              lambda: ops.upsert_agent_tool_registry, "Register a snapshot of a host's tools, or replace it.",
              mutates=True,
              repeat=Repeat.RECEIPT),
    Operation("list_agent_tool_registries", tools.AgentToolRegistryListRequest, tools.AgentToolRegistryListReport,
              lambda: ops.list_agent_tool_registries, "Read every registry of a host's tools."),
    Operation("get_agent_tool_registry", tools.AgentToolRegistryGetRequest, tools.AgentToolRegistryGetReport,
              lambda: ops.get_agent_tool_registry, "Read one registry of a host's tools."),
    Operation("delete_agent_tool_registry", tools.AgentToolRegistryDeleteRequest, tools.AgentToolRegistryDeleteReport,
              lambda: ops.delete_agent_tool_registry, "Remove a registry of a host's tools.", mutates=True,
              repeat=Repeat.RECEIPT, grave=Grave.REMOVES),
)  # fmt: skip
