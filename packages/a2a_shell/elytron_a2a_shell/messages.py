"""The seven messages that agents send each other about memory, and what each of them carries."""

from enum import StrEnum
from typing import Annotated, Literal

from pydantic import Field, JsonValue

from elytron_adapter.envelope import Response
from elytron_core import limits
from elytron_core.contracts.archive import ImportMode
from elytron_core.contracts.inspection import MemoryCapabilityCatalog
from elytron_core.contracts.transcript import RuntimeSkillWrite
from elytron_core.model import Request, Value
from elytron_core.planes import facts
from elytron_core.scope import IdempotencyKey, Name, Reason, ScopedRequest

JSON = "application/json"
TEXT = "text/plain"


class MessageName(StrEnum):
    """Subject of a message."""

    PEER_CAPABILITY = "peer_capability"
    WRITE_CANDIDATE = "memory_write_candidate"
    RECALL_REQUEST = "memory_recall_request"
    PROJECTION_REQUEST = "memory_projection_request"
    REPORT = "memory_report"
    MIGRATION_CHUNK = "memory_migration_chunk"
    LIFECYCLE_EVENT = "runtime_lifecycle_event"


SUMMARIES: dict[MessageName, str] = {
    MessageName.PEER_CAPABILITY: "Say what this memory can do for a peer, and hear what the peer shows of its own.",
    MessageName.WRITE_CANDIDATE: "Propose a fact or a procedure; admission judges it and says why.",
    MessageName.RECALL_REQUEST: "Find what answers a query, best first.",
    MessageName.PROJECTION_REQUEST: "Build the bounded block of memory that a model may see.",
    MessageName.REPORT: "Keep a peer's report of its work as evidence; it becomes no belief by itself.",
    MessageName.MIGRATION_CHUNK: "Take in a piece of an archive; the last piece imports it.",
    MessageName.LIFECYCLE_EVENT: "Hear that a peer's runtime began, recovered or ends; nothing is changed by it.",
}
"""One line for each message: the agent card's skills are made of them."""


class PeerMessage(Request):
    """A message: what it is about, what it carries, and how many runtimes have handed it on."""

    name: MessageName
    payload: dict[str, JsonValue] = {}
    hops: Annotated[int, Field(ge=0)] = 0
    idempotency_key: IdempotencyKey | None = None


class PeerAnswer(Value):
    """The answer to a message. It grants a report about memory and nothing else."""

    kind: Literal[MessageName.REPORT, MessageName.PEER_CAPABILITY] = MessageName.REPORT
    payload: Response
    permissions: tuple[Literal["MemoryReport"], ...] = ("MemoryReport",)
    hops: int


class PeerCapability(Request):
    """Features that a peer offers."""

    memory_report_visible: bool = True


class PeerCapabilityReport(Value):
    """Features that are offered here. Reports are visible if both sides show theirs."""

    memory_report_visible: bool
    messages: tuple[MessageName, ...]
    hops: int
    catalog: MemoryCapabilityCatalog


class FactCandidate(ScopedRequest):
    """A proposed fact. It counts as coming from outside, also if the peer vouches for it."""

    topic: facts.Topic
    content: Annotated[str, Field(min_length=1, max_length=limits.FACT_CHARS)]
    fact_kind: facts.FactKind = facts.FactKind.FACT
    confidence: facts.FactConfidence = facts.FactConfidence.MEDIUM
    citations: Annotated[tuple[Name, ...], Field(max_length=limits.CITATIONS)] = ()
    reason: Reason = ""


class ProcedureCandidate(ScopedRequest):
    """A proposed procedure."""

    procedure: RuntimeSkillWrite


class PeerNote(ScopedRequest):
    """A peer's report of its work."""

    text: Annotated[str, Field(min_length=1, max_length=limits.MESSAGE_CHARS)]
    peer: Name | None = None


class PeerLifecycleEvent(Request):
    """An event of a peer's runtime."""

    event: Literal["started", "recovered", "degraded", "closing", "closed"]
    peer: Name | None = None
    reason: Reason = ""


class HeardAnswer(Value):
    """It was heard; nothing was changed."""

    changed: bool = False


class MigrationChunk(ScopedRequest):
    """A piece of an archive in base64. Pieces come in order; `sha256` is the whole archive's."""

    upload: Annotated[str, Field(pattern=r"^[A-Za-z0-9_-]{1,64}$")]
    index: Annotated[int, Field(ge=0)]
    count: Annotated[int, Field(ge=1, le=limits.A2A_CHUNKS)]
    sha256: Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]
    data: Annotated[str, Field(min_length=1, max_length=limits.A2A_CHUNK_BYTES * 4 // 3 + 4)]
    mode: ImportMode = ImportMode.BOOTSTRAP
    dry_run: bool = False


class MigrationProgress(Value):
    """Number of an archive's pieces that arrived; nothing is changed before the last."""

    received: int
    count: int
    changed: bool = False
