"""The operations that every host uses: write, recall, project, control, look, move, end."""

from elytron import flows, ops
from elytron.registry.operation import AnyOperation, Grave, Operation, Repeat, Role
from elytron_core.contracts.admin import archive, erasures, inspection
from elytron_core.contracts.conversation import projection, write
from elytron_core.contracts.knowledge import control, recall

EVERYDAY: tuple[AnyOperation, ...] = (
    Operation("write", write.MemoryWriteRequest, write.MemoryWriteReport, lambda: ops.write,
              "Store evidence, facts or procedures.", mutates=True, repeat=Repeat.STORE),
    Operation("recall", recall.MemoryRecallRequest, recall.MemoryRecallReport, lambda: ops.recall,
              "Find what answers a query, best first."),
    Operation("project", projection.MemoryProjectionRequest, projection.MemoryProjectionReport, lambda: ops.project,
              "Build the bounded block that a model may see."),
    Operation("inspect", inspection.MemoryInspectionRequest, inspection.MemoryInspectionReport, lambda: flows.inspect,
              "Say what a space holds.", operator_fields=frozenset({"check", "repair"})),
    Operation("replay", inspection.MemoryReplayRequest, inspection.MemoryReplayReport, lambda: ops.replay,
              "Read a conversation's turns in order."),
    Operation("export", archive.MemorySpaceExportRequest, archive.MemorySpaceExportReport, lambda: ops.export,
              "Write what of the space may leave its owner's hands, or all of it, to an archive file.",
              role=Role.OPERATOR, grave=Grave.TAKES_OUT),
    Operation("import", archive.MemoryImportRequest, archive.MemoryImportReport, lambda: ops.import_archive,
              "Read an archive file into the space.", mutates=True, role=Role.OPERATOR, repeat=Repeat.RECEIPT),
    Operation("keep_erasures", erasures.MemoryErasuresKeepRequest, erasures.MemoryErasuresKeepReport,
              lambda: ops.keep_erasures, "Write what was erased to a file outside of the store.", role=Role.OPERATOR),
    Operation("apply_erasures", erasures.MemoryErasuresApplyRequest, erasures.MemoryErasuresApplyReport,
              lambda: ops.apply_erasures, "Erase again what a copy that was put back brought back.", mutates=True,
              role=Role.OPERATOR, repeat=Repeat.RECEIPT, grave=Grave.REMOVES),
    Operation("get", control.MemoryGetRequest, recall.RecallHit, lambda: ops.get,
              "Read one memory by its id."),
    Operation("list", control.MemoryListRequest, control.MemoryListReport, lambda: ops.list_memories,
              "Read memories in the order in which they were stored."),
    Operation("history", control.MemoryHistoryRequest, control.MemoryHistoryReport, lambda: ops.history,
              "Read what happened to one memory."),
    Operation("forget", control.MemoryForgetRequest, control.MemoryControlReport, lambda: ops.forget,
              "Hide memories from recall; can be undone.", mutates=True, repeat=Repeat.RECEIPT),
    Operation("correct", control.MemoryCorrectRequest, control.MemoryControlReport, lambda: ops.correct,
              "Replace a fact's content; history stays.", mutates=True, repeat=Repeat.RECEIPT),
    Operation("erase", control.MemoryEraseRequest, control.MemoryControlReport, lambda: ops.erase,
              "Remove memories physically.", mutates=True, repeat=Repeat.RECEIPT, grave=Grave.REMOVES),
    Operation("recover", inspection.MemoryRecoverRequest, inspection.MemoryLifecycleReport, lambda: ops.recover,
              "Check a space and rebuild its index.", mutates=True, role=Role.OPERATOR),
    Operation("close", inspection.MemoryCloseRequest, inspection.MemoryLifecycleReport, lambda: ops.close,
              "End the runtime.", mutates=True, role=Role.OPERATOR, is_local=True),
)  # fmt: skip
