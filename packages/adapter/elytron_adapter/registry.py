"""The operations, declared once. Transports, command line, OpenAPI and their tests are derived from this."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Generic, TypeVar

from elytron.runtime import MemoryRuntime
from elytron_core.contracts import control, inspecting, moving, projecting, recalling, writing
from elytron_core.errors import Unsupported
from elytron_core.model import Request, Value

RequestT = TypeVar("RequestT", bound=Request | inspecting.MemoryCloseRequest)
ReportT = TypeVar("ReportT", bound=Value)


class Role(StrEnum):
    """Whose business an operation is."""

    MEMBER = "member"
    """Whoever may use the space."""
    OPERATOR = "operator"
    """Who runs the machine: it reads or writes its files, or ends the runtime."""


class Repeat(StrEnum):
    """What keeps a repeated call, under one idempotency key, from acting twice."""

    HARMLESS = "harmless"
    """Nothing has to: it changes no memory."""
    STORE = "store"
    """The store: the key travels with the request into its commit."""
    RECEIPT = "receipt"
    """A receipt, written after the effect."""


@dataclass(frozen=True, slots=True)
class Operation(Generic[RequestT, ReportT]):
    """One operation: what it takes, what it gives, the runtime's method that does it, and what may be said of it.

    `operator_fields` are fields of the request that only an operator may set.
    """

    name: str
    request: type[RequestT]
    report: type[ReportT]
    call: Callable[[MemoryRuntime, RequestT], Awaitable[ReportT]]
    summary: str
    mutates: bool = False
    role: Role = Role.MEMBER
    repeat: Repeat = Repeat.HARMLESS
    operator_fields: frozenset[str] = frozenset()


AnyOperation = Operation[Any, Any]

OPERATIONS: tuple[AnyOperation, ...] = (
    Operation("write", writing.MemoryWriteRequest, writing.MemoryWriteReport, MemoryRuntime.write,
              "Store evidence, facts or procedures.", mutates=True, repeat=Repeat.STORE),
    Operation("recall", recalling.MemoryRecallRequest, recalling.MemoryRecallReport, MemoryRuntime.recall,
              "Find what answers a query, best first."),
    Operation("project", projecting.MemoryProjectionRequest, projecting.MemoryProjectionReport, MemoryRuntime.project,
              "Build the bounded block that a model may see."),
    Operation("inspect", inspecting.MemoryInspectionRequest, inspecting.MemoryInspectionReport, MemoryRuntime.inspect,
              "Say what a space holds.", operator_fields=frozenset({"check", "repair"})),
    Operation("replay", inspecting.MemoryReplayRequest, inspecting.MemoryReplayReport, MemoryRuntime.replay,
              "Read a conversation's turns in order."),
    Operation("export", moving.MemoryExportRequest, moving.MemoryExportReport, MemoryRuntime.export,
              "Write the space to an archive file.", role=Role.OPERATOR),
    Operation("import", moving.MemoryImportRequest, moving.MemoryImportReport, MemoryRuntime.import_archive,
              "Read an archive file into the space.", mutates=True, role=Role.OPERATOR, repeat=Repeat.RECEIPT),
    Operation("get", control.MemoryGetRequest, recalling.RecallHit, MemoryRuntime.get,
              "Read one memory by its id."),
    Operation("list", control.MemoryListRequest, control.MemoryListReport, MemoryRuntime.list,
              "Read memories in the order in which they were stored."),
    Operation("history", control.MemoryHistoryRequest, control.MemoryHistoryReport, MemoryRuntime.history,
              "Read what happened to one memory."),
    Operation("forget", control.MemoryForgetRequest, control.MemoryControlReport, MemoryRuntime.forget,
              "Hide memories from recall; can be undone.", mutates=True, repeat=Repeat.RECEIPT),
    Operation("correct", control.MemoryCorrectRequest, control.MemoryControlReport, MemoryRuntime.correct,
              "Replace a fact's content; history stays.", mutates=True, repeat=Repeat.RECEIPT),
    Operation("erase", control.MemoryEraseRequest, control.MemoryControlReport, MemoryRuntime.erase,
              "Remove memories physically.", mutates=True, repeat=Repeat.RECEIPT),
    Operation("recover", inspecting.MemoryRecoverRequest, inspecting.MemoryLifecycleReport, MemoryRuntime.recover,
              "Check a space and rebuild its index.", mutates=True, role=Role.OPERATOR),
    Operation("close", inspecting.MemoryCloseRequest, inspecting.MemoryLifecycleReport, MemoryRuntime.close,
              "End the runtime.", mutates=True, role=Role.OPERATOR),
)  # fmt: skip

_BY_NAME = {operation.name: operation for operation in OPERATIONS}
_BY_REQUEST = {operation.request: operation for operation in OPERATIONS}


def by_name(name: str, /) -> AnyOperation:
    """Return the operation called `name`. Raises Unsupported."""
    operation = _BY_NAME.get(name)
    if operation is None:
        raise Unsupported(f"there is no such operation; there are {', '.join(_BY_NAME)}")
    return operation


def by_request(request: Value, /) -> AnyOperation:
    """Return the operation that takes `request`. Raises Unsupported."""
    operation = _BY_REQUEST.get(type(request))
    if operation is None:
        raise Unsupported(f"no operation takes a {type(request).__name__}")
    return operation
