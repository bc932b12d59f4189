"""Messages of other agents about memory: what each carries, archives in pieces, and the answers. Knows no wire."""

import asyncio
import hashlib
import json
import logging
from base64 import b64decode
from binascii import Error as NotBase64
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from enum import StrEnum
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated, Final, Literal, assert_never

from pydantic import Field, JsonValue

from elytron_adapter import envelope
from elytron_adapter.access_keys import Principal
from elytron_adapter.dispatch import CallerAdmission, word_of
from elytron_adapter.envelope import (
    AcceptedAnswer,
    CallHeaders,
    CallOrigin,
    CallSource,
    CallTransport,
    DuplicatedAnswer,
    Json,
    Response,
    SourceKind,
    asked_of,
    is_seed_write,
    reject_error,
)
from elytron_core import limits
from elytron_core.clock import Clock
from elytron_core.contracts.archive import ImportMode, MemoryImportRequest
from elytron_core.contracts.facts import FactDraft
from elytron_core.contracts.inspection import MemoryCapabilitiesRequest, MemoryCapabilityCatalog
from elytron_core.contracts.transcript import (
    LongTermExtraction,
    MemoryWriteRequest,
    ProcedureSource,
    RuntimeSkillWrite,
    TranscriptWrite,
    TurnDraft,
)
from elytron_core.errors import ElytronError, InvalidInput, LimitExceeded
from elytron_core.evidence import EvidenceRole
from elytron_core.ids import IdSource
from elytron_core.model import Request, Value
from elytron_core.planes import facts
from elytron_core.planes.facts import FactAuthority, FactOperation
from elytron_core.planes.servers.system_documents import PrincipalKind
from elytron_core.planes.skills import SkillSource
from elytron_core.planes.transcript import Message
from elytron_core.scope import IdempotencyKey, Name, Reason, ScopedRequest
from elytron_store.private_files import private_opener

A2A_CHUNK_BYTES: Final = 512 * 1024
A2A_CHUNKS: Final = 4_096
"""Chunks of one archive."""
A2A_UPLOADS: Final = 64
"""Archives that may be under way at once."""
A2A_UPLOADS_EACH: Final = 4
A2A_UPLOAD_KEEP_MS: Final = 3_600_000
"""Time for which an archive waits for its next chunk."""


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
    MessageName.PEER_CAPABILITY: "Exchange capabilities with a peer.",
    MessageName.WRITE_CANDIDATE: "Propose a fact or a procedure; admission decides and gives its reason.",
    MessageName.RECALL_REQUEST: "Find memories that answer a query, best first.",
    MessageName.PROJECTION_REQUEST: "Build the bounded memory block that a model may see.",
    MessageName.REPORT: "Store a peer's work report as evidence; it never becomes a belief by itself.",
    MessageName.MIGRATION_CHUNK: "Receive one chunk of an archive; the last chunk imports it.",
    MessageName.LIFECYCLE_EVENT: "Acknowledge that a peer's runtime started, recovered or stopped; nothing changes.",
}
"""One line for each message: the agent card's skills are made of them."""


class PeerMessage(Request):
    """A message: its subject, its payload, and how many runtimes have forwarded it."""

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
    """A proposed fact. It counts as coming from outside, even if the peer vouches for it."""

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
    """Acknowledged; nothing changed."""

    changed: bool = False


class MigrationChunk(ScopedRequest):
    """A piece of an archive in base64. Pieces come in order; `sha256` is the whole archive's."""

    upload: Annotated[str, Field(pattern=r"^[A-Za-z0-9_-]{1,64}$")]
    index: Annotated[int, Field(ge=0)]
    count: Annotated[int, Field(ge=1, le=A2A_CHUNKS)]
    sha256: Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]
    data: Annotated[str, Field(min_length=1, max_length=A2A_CHUNK_BYTES * 4 // 3 + 4)]
    mode: ImportMode = ImportMode.BOOTSTRAP
    dry_run: bool = False


class MigrationProgress(Value):
    """Number of an archive's pieces that arrived; nothing is changed before the last."""

    received: int
    count: int
    changed: bool = False


Whose = tuple[str, str]
"""A principal's id and its name for the archive."""


@dataclass(slots=True)
class _PeerUpload:
    path: Path
    count: int
    sha256: str
    touched_ms: int
    received: int = 0
    size: int = 0
    last: bytes = b""
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)


class PeerUploads:
    """Assembles archive pieces, separately for each principal, inside `temporary_folder`."""

    def __init__(self, *, clock: Clock, ids: IdSource, archive_bytes: int = limits.HTTP_ARCHIVE_BYTES) -> None:
        self._folder: Path | None = None
        self._clock = clock
        self._ids = ids
        self._archive_bytes = archive_bytes
        self._waiting: dict[Whose, _PeerUpload] = {}

    @contextmanager
    def temporary_folder(self) -> Generator[None]:
        """Provide a folder during the block; it is removed afterwards with all its contents."""
        with TemporaryDirectory(prefix="elytron-a2a-") as folder:
            self._folder = Path(folder)
            try:
                yield
            finally:
                self._folder = None
                self._waiting.clear()

    async def take(self, principal: str, chunk: MigrationChunk, /) -> Path | None:
        """Store a piece and return the file of the whole archive after its last one, else None.

        A piece that came already is no error. Raises InvalidInput for a piece out of order or a broken archive,
        LimitExceeded.
        """
        upload_key = principal, chunk.upload
        upload = self._waiting.get(upload_key) or self._begin(upload_key, chunk)
        # Pieces of one archive may arrive concurrently, so their order is checked under a lock.
        async with upload.lock:
            data = _chunk_bytes(chunk)
            if (chunk.count, chunk.sha256) != (upload.count, upload.sha256):
                raise InvalidInput(field="count and sha256", problem="do not match those of the earlier chunks")
            if chunk.index == upload.received - 1 and hashlib.sha256(data).digest() == upload.last:
                return None
            if chunk.index != upload.received:
                raise InvalidInput(field="index", problem=f"is not the next one, {upload.received}")
            if upload.size + len(data) > self._archive_bytes:
                self.drop(principal, chunk.upload)
                raise LimitExceeded(
                    what="bytes in an archive", limit=self._archive_bytes, found=upload.size + len(data)
                )
            await asyncio.to_thread(_append_chunk, upload.path, data)
            upload.received += 1
            upload.size += len(data)
            upload.last = hashlib.sha256(data).digest()
            upload.touched_ms = self._clock.now()
            if upload.received < upload.count:
                return None
            if await asyncio.to_thread(_file_digest, upload.path) != upload.sha256:
                self.drop(principal, chunk.upload)
                raise InvalidInput(field="sha256", problem="does not match the chunks: send the archive again")
            return upload.path

    def received(self, principal: str, name: str, /) -> int:
        """Return how many pieces of an archive have arrived."""
        upload = self._waiting.get((principal, name))
        return upload.received if upload is not None else 0

    def drop(self, principal: str, name: str, /) -> None:
        """Forget an archive and remove its file."""
        upload = self._waiting.pop((principal, name), None)
        if upload is not None:
            upload.path.unlink(missing_ok=True)

    def _begin(self, whose: Whose, chunk: MigrationChunk) -> _PeerUpload:
        if chunk.index != 0:
            raise InvalidInput(field="index", problem="is not the next one, 0")
        # Stale archives are removed when another begins, which needs no timer.
        oldest_ms = self._clock.now() - A2A_UPLOAD_KEEP_MS
        for stale_key in [key for key, count in self._waiting.items() if count.touched_ms < oldest_ms]:
            self.drop(*stale_key)
        principal_uploads = sum(1 for principal, _ in self._waiting if principal == whose[0])
        for count, limit in ((len(self._waiting), A2A_UPLOADS), (principal_uploads, A2A_UPLOADS_EACH)):
            if count >= limit:
                raise LimitExceeded(what="archives in progress", limit=limit, found=count + 1)
        assert self._folder is not None
        # The file gets our own name, because that of the upload comes from outside.
        path = self._folder / self._ids.new()
        upload = _PeerUpload(path, chunk.count, chunk.sha256, self._clock.now())
        self._waiting[whose] = upload
        return upload


def _chunk_bytes(chunk: MigrationChunk) -> bytes:
    try:
        return b64decode(chunk.data, validate=True)
    except NotBase64:
        raise InvalidInput(field="data", problem="is not base64") from None


def _append_chunk(path: Path, data: bytes) -> None:
    with open(path, "ab", opener=private_opener) as file:
        file.write(data)


def _file_digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


logger = logging.getLogger(__name__)

_PEER = CallSource(kind=SourceKind.PEER)


class PeerBridge:
    """Answers the messages of peers, each as the authenticated principal."""

    def __init__(self, admission: CallerAdmission, /, *, uploads: PeerUploads) -> None:
        self._admission = admission
        self._uploads = uploads

    @property
    def hops(self) -> int:
        """Return how many runtimes may have forwarded a message before this one rejects it."""
        return self._admission.dispatcher.runtime.context.profile.budget.hops

    async def answer(
        self, principal: Principal, message: PeerMessage, /, *, request_id: str, idempotency_key: str | None = None
    ) -> PeerAnswer:
        """Perform `message` and return the outcome; errors are returned as Rejected."""
        try:
            # Otherwise runtimes that forward messages to each other could do so forever.
            if message.hops > self.hops:
                raise LimitExceeded(what="hops per message", limit=self.hops, found=message.hops)
            payload = await self._perform(
                principal, message, request_id=request_id, key=message.idempotency_key or idempotency_key
            )
        except ElytronError as error:
            payload = reject_error(error, request_id=request_id)
        is_capability_answer = message.name is MessageName.PEER_CAPABILITY and isinstance(payload, AcceptedAnswer)
        kind = MessageName.PEER_CAPABILITY if is_capability_answer else MessageName.REPORT
        return PeerAnswer(kind=kind, payload=payload, hops=message.hops + 1)

    async def _perform(
        self, principal: Principal, message: PeerMessage, *, request_id: str, key: str | None
    ) -> Response:
        match message.name:
            case MessageName.RECALL_REQUEST:
                return await self._call(principal, "recall", _encode_payload(message.payload), request_id)
            case MessageName.PROJECTION_REQUEST:
                return await self._call(principal, "project", _encode_payload(message.payload), request_id)
            case MessageName.WRITE_CANDIDATE:
                return await self._call(principal, "write", _peer_candidate(message.payload), request_id, key=key)
            case MessageName.REPORT:
                return await self._call(principal, "write", _peer_evidence(message.payload), request_id, key=key)
            case MessageName.PEER_CAPABILITY:
                return await self._capable(principal, message.payload, request_id)
            case MessageName.MIGRATION_CHUNK:
                return await self._migrated(principal, message.payload, request_id)
            case MessageName.LIFECYCLE_EVENT:
                event = envelope.decode_as(PeerLifecycleEvent, _encode_payload(message.payload))
                logger.info("request %s: a peer's runtime %s", request_id, event.event)
                return AcceptedAnswer(request_id=request_id, report=HeardAnswer())
            case _:
                assert_never(message.name)

    async def _call(
        self, principal: Principal, operation: str, payload: bytes | Value, request_id: str, *, key: str | None = None
    ) -> Response:
        return await self._admission.call(
            principal,
            origin=CallOrigin(CallTransport.A2A, source=_PEER, may_disclose=False),
            operation=operation,
            request_id=request_id,
            payload=payload,
            headers=CallHeaders(idempotency_key=key),
        )

    async def _capable(self, principal: Principal, payload: dict[str, JsonValue], request_id: str) -> Response:
        peer_capability = envelope.decode_as(PeerCapability, _encode_payload(payload))
        answer = await self._call(principal, "capabilities", MemoryCapabilitiesRequest(), request_id)
        if not isinstance(answer, AcceptedAnswer | DuplicatedAnswer):
            return answer
        assert isinstance(answer.report, MemoryCapabilityCatalog)
        report = PeerCapabilityReport(
            memory_report_visible=peer_capability.memory_report_visible,
            messages=tuple(MessageName),
            hops=self.hops,
            catalog=answer.report,
        )
        return AcceptedAnswer(request_id=request_id, report=report)

    async def _migrated(self, principal: Principal, payload: dict[str, JsonValue], request_id: str) -> Response:
        chunk = envelope.decode_as(MigrationChunk, _encode_payload(payload))
        # Checked before a piece is stored.
        archive_word = word_of(principal.kind, chunk.mode)
        archive = await self._uploads.take(principal.id, chunk)
        if archive is None:
            received_bytes = self._uploads.received(principal.id, chunk.upload)
            return AcceptedAnswer(
                request_id=request_id, report=MigrationProgress(received=received_bytes, count=chunk.count)
            )
        request = MemoryImportRequest(
            path=str(archive), mode=chunk.mode, word=archive_word, dry_run=chunk.dry_run, scope=chunk.scope
        )
        try:
            # Only in the caller's space, but with an operator's right to the server's own file.
            return await self._call(replace(principal, kind=PrincipalKind.OPERATOR), "import", request, request_id)
        finally:
            self._uploads.drop(principal.id, chunk.upload)


def _encode_payload(payload: dict[str, JsonValue]) -> bytes:
    return json.dumps(payload).encode()


def _peer_candidate(payload: dict[str, JsonValue]) -> MemoryWriteRequest:
    """Return the write that proposes a peer's content; nothing in it claims that a user said it.

    A fact comes from outside, so that it is marked and can be set aside.
    """
    if is_seed_write(payload):
        return _first_hosts_candidate(payload)
    if "procedure" in payload:
        candidate = envelope.decode_as(ProcedureCandidate, _encode_payload(payload))
        procedure_source = ProcedureSource(writes=(candidate.procedure,), source=SkillSource.EXTRACTION)
        return MemoryWriteRequest(scope=candidate.scope, write=procedure_source)
    fact = envelope.decode_as(FactCandidate, _encode_payload(payload))
    draft = FactDraft(
        topic=fact.topic,
        content=fact.content,
        fact_kind=fact.fact_kind,
        authority=FactAuthority.IMPORTED,
        confidence=fact.confidence,
        citations=fact.citations,
        reason=fact.reason,
    )
    return MemoryWriteRequest(scope=fact.scope, write=LongTermExtraction(facts=(draft,)))


def _first_hosts_candidate(payload: Json) -> MemoryWriteRequest:
    """Return the same from a payload in the form of the protocol's first hosts."""
    request = envelope.decode_as(MemoryWriteRequest, _encode_payload(asked_of("write", payload, space=None).request))
    match request.write:
        case LongTermExtraction() as extraction:
            if any(fact.operation is FactOperation.DELETE for fact in extraction.facts):
                raise InvalidInput(field="extraction.facts", problem="include a deletion: peers may only propose")
            facts = tuple(fact.model_copy(update={"authority": FactAuthority.IMPORTED}) for fact in extraction.facts)
            return request.model_copy(update={"write": LongTermExtraction(facts=facts)})
        case ProcedureSource() as extraction:
            return request.model_copy(
                update={"write": ProcedureSource(writes=extraction.writes, source=SkillSource.EXTRACTION)}
            )
        case _:
            return request


def _peer_evidence(payload: dict[str, JsonValue]) -> MemoryWriteRequest:
    peer_note = envelope.decode_as(PeerNote, _encode_payload(payload))
    # A tool's words count as coming from outside.
    turn = TurnDraft(messages=(Message(role=EvidenceRole.TOOL, text=peer_note.text, speaker=peer_note.peer),))
    return MemoryWriteRequest(scope=peer_note.scope, write=TranscriptWrite(turns=(turn,)))
