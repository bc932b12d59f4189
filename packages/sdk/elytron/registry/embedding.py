"""The operations that make vectors."""

from elytron import ops
from elytron.registry.operation import AnyOperation, Operation, Role
from elytron_core.contracts.admin import embedding

EMBEDDING: tuple[AnyOperation, ...] = (
    Operation("embed", embedding.MemoryEmbedRequest, embedding.MemoryEmbedReport, lambda: ops.embed,
              "Make vectors of what has none.", mutates=True, role=Role.OPERATOR),
    Operation("switch_model", embedding.ModelSwitchRequest, embedding.MemoryEmbedReport, lambda: ops.switch_model,
              "Make vectors by another model, then compare these alone.", mutates=True, role=Role.OPERATOR),
)  # fmt: skip
