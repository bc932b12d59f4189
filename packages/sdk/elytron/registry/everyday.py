"""The operations that every host uses: write, recall, project, control, look, move, end."""

from elytron import ops
from elytron.flows.inspection import inspect
from elytron.registry.operation import AnyOperation, Grave, Operation, Repeat, Role
from elytron_core.contracts.admin import archive, erasures, inspection
from elytron_core.contracts.conversation import projection, write
from elytron_core.contracts.knowledge import control, recall

EVERYDAY: tuple[AnyOperation, ...] = (
    Operation("write", write.MemoryWriteRequest, write.MemoryWriteReport, ops.write,
              "Store evidence, facts or procedures.", mutates=True, repeat=Repeat.STORE),
    Operation("recall", recall.MemoryRecallRequest, recall.MemoryRecallReport, ops.recall,
              "Find what answers a query, best first."),
    Operation("project", projection.MemoryProjectionRequest, projection.MemoryProjectionReport, ops.project,
              "Build the bounded block that a model may see."),
    Operation("inspect", inspection.MemoryInspectionRequest, inspection.MemoryInspectionReport, inspect,
              "Say what a space holds.", operator_fields=frozenset({"check", "repair"})),
    Operation("replay", inspection.MemoryReplayRequest, inspection.MemoryReplayReport, ops.replay,
              "Read a conversation's turns in order."),
    Operation("export", archive.MemorySpaceExportRequest, archive.MemorySpaceExportReport, ops.export,
              "Write what of the space may leave its owner's hands, or all of it, to an archive file.",
              role=Role.OPERATOR, grave=Grave.TAKES_OUT),
    Operation("import", archive.MemoryImportRequest, archive.MemoryImportReport, ops.import_archive,
              "Read an archive file into the space.", mutates=True, role=Role.OPERATOR, repeat=Repeat.RECEIPT),
    Operation("keep_erasures", erasures.MemoryErasuresKeepRequest, erasures.MemoryErasuresKeepReport,
              ops.keep_erasures, "Write what was erased to a file outside of the store.", role=Role.OPERATOR),
    Operation("apply_erasures", erasures.MemoryErasuresApplyRequest, erasures.MemoryErasuresApplyReport,
              ops.apply_erasures, "Erase again what a copy that was put back brought back.", mutates=True,
              role=Role.OPERATOR, repeat=Repeat.RECEIPT, grave=Grave.REMOVES),
    Operation("get", control.MemoryGetRequest, recall.RecallHit, ops.get,
              "Read one memory by its id."),
    Operation("list", control.MemoryListRequest, control.MemoryListReport, ops.list_memories,
              "Read memories in the order in which they were stored."),
    Operation("history", control.MemoryHistoryRequest, control.MemoryHistoryReport, ops.history,
              "Read what happened to one memory."),
    Operation("forget", control.MemoryForgetRequest, control.MemoryControlReport, ops.forget,
              "Hide memories from recall; can be undone.", mutates=True, repeat=Repeat.RECEIPT),
    Operation("correct", control.MemoryCorrectRequest, control.MemoryControlReport, ops.correct,
              "Replace a fact's content; history stays.", mutates=True, repeat=Repeat.RECEIPT),
    Operation("erase", control.MemoryEraseRequest, control.MemoryControlReport, ops.erase,
              "Remove memories physically.", mutates=True, repeat=Repeat.RECEIPT, grave=Grave.REMOVES),
    Operation("recover", inspection.MemoryRecoverRequest, inspection.MemoryLifecycleReport, ops.recover,
              "Check a space and rebuild its index.", mutates=True, role=Role.OPERATOR),
    Operation("close", inspection.MemoryCloseRequest, inspection.MemoryLifecycleReport, ops.close,
              "End the runtime.", mutates=True, role=Role.OPERATOR, is_local=True),
)  # fmt: skip
