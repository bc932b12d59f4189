"""From a peer's message to an operation, and from its report to the answer. Knows no wire."""

import json
import logging
from dataclasses import replace
from typing import assert_never

from pydantic import JsonValue

from elytron_a2a_shell.messages import (
    FactCandidate,
    HeardAnswer,
    MessageName,
    MigrationChunk,
    MigrationProgress,
    PeerAnswer,
    PeerCapability,
    PeerCapabilityReport,
    PeerLifecycleEvent,
    PeerMessage,
    PeerNote,
    ProcedureCandidate,
)
from elytron_a2a_shell.uploads import PeerUploads
from elytron_adapter import envelope
from elytron_adapter.dispatch import CallerEntrance, word_of
from elytron_adapter.envelope import (
    AcceptedAnswer,
    CallSource,
    CallTransport,
    DuplicatedAnswer,
    Json,
    Response,
    SourceKind,
    asked_of,
    is_seed_write,
)
from elytron_adapter.failures import reject_error
from elytron_adapter.identity.access_keys import Principal
from elytron_core.contracts.archive import MemoryImportRequest
from elytron_core.contracts.facts import FactDraft
from elytron_core.contracts.inspection import MemoryCapabilitiesRequest, MemoryCapabilityCatalog
from elytron_core.contracts.transcript import (
    LongTermExtraction,
    MemoryWriteRequest,
    ProcedureSource,
    TranscriptWrite,
    TurnDraft,
)
from elytron_core.errors import ElytronError, InvalidInput, LimitExceeded
from elytron_core.evidence import EvidenceRole
from elytron_core.model import Value
from elytron_core.planes.facts import FactAuthority, FactOperation
from elytron_core.planes.skills import SkillSource
from elytron_core.planes.space import PrincipalKind
from elytron_core.planes.transcript import Message

logger = logging.getLogger(__name__)

_PEER = CallSource(kind=SourceKind.PEER)


class PeerBridge:
    """Answers the messages of peers, each as the principal that its credential proved."""

    def __init__(self, entrance: CallerEntrance, /, *, uploads: PeerUploads) -> None:
        self._entrance = entrance
        self._uploads = uploads

    @property
    def hops(self) -> int:
        """Return how many runtimes may have handed a message on before this one refuses it."""
        return self._entrance.dispatcher.runtime.context.profile.budget.hops

    async def answer(
        self, principal: Principal, message: PeerMessage, /, *, request_id: str, idempotency_key: str | None = None
    ) -> PeerAnswer:
        """Do what `message` asks for and say what became of it; what went wrong comes back as Rejected."""
        try:
            if message.hops > self.hops:
                raise LimitExceeded(what="hops of a message", limit=self.hops, found=message.hops)
            payload = await self._done(
                principal, message, request_id=request_id, key=message.idempotency_key or idempotency_key
            )
        except ElytronError as error:
            payload = reject_error(error, request_id=request_id)
        is_catalog = message.name is MessageName.PEER_CAPABILITY and isinstance(payload, AcceptedAnswer)
        kind = MessageName.PEER_CAPABILITY if is_catalog else MessageName.REPORT
        return PeerAnswer(kind=kind, payload=payload, hops=message.hops + 1)

    async def _done(self, principal: Principal, message: PeerMessage, *, request_id: str, key: str | None) -> Response:
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
        return await self._entrance.call(
            principal,
            transport=CallTransport.A2A,
            operation=operation,
            request_id=request_id,
            payload=payload,
            idempotency_key=key,
            source=_PEER,
            may_disclose=False,
        )

    async def _capable(self, principal: Principal, payload: dict[str, JsonValue], request_id: str) -> Response:
        peer = envelope.decode_as(PeerCapability, _encode_payload(payload))
        answer = await self._call(principal, "capabilities", MemoryCapabilitiesRequest(), request_id)
        if not isinstance(answer, AcceptedAnswer | DuplicatedAnswer):
            return answer
        assert isinstance(answer.report, MemoryCapabilityCatalog)
        report = PeerCapabilityReport(
            memory_report_visible=peer.memory_report_visible,
            messages=tuple(MessageName),
            hops=self.hops,
            catalog=answer.report,
        )
        return AcceptedAnswer(request_id=request_id, report=report)

    async def _migrated(self, principal: Principal, payload: dict[str, JsonValue], request_id: str) -> Response:
        chunk = envelope.decode_as(MigrationChunk, _encode_payload(payload))
        word = word_of(principal.kind, chunk.mode)
        archive = await self._uploads.take(principal.id, chunk)
        if archive is None:
            received = self._uploads.received(principal.id, chunk.upload)
            return AcceptedAnswer(request_id=request_id, report=MigrationProgress(received=received, count=chunk.count))
        request = MemoryImportRequest(
            path=str(archive), mode=chunk.mode, word=word, dry_run=chunk.dry_run, scope=chunk.scope
        )
        try:
            # In the caller's space alone, and with an operator's right to the server's own file.
            return await self._call(replace(principal, kind=PrincipalKind.OPERATOR), "import", request, request_id)
        finally:
            self._uploads.drop(principal.id, chunk.upload)


def _encode_payload(payload: dict[str, JsonValue]) -> bytes:
    return json.dumps(payload).encode()


def _peer_candidate(payload: dict[str, JsonValue]) -> MemoryWriteRequest:
    """Return the write that proposes what a peer does; nothing of it says that a user did.

    A fact comes from outside, so that it is marked and can be set aside.
    """
    if is_seed_write(payload):
        return _first_hosts_candidate(payload)
    if "procedure" in payload:
        asked = envelope.decode_as(ProcedureCandidate, _encode_payload(payload))
        learned = ProcedureSource(writes=(asked.procedure,), source=SkillSource.EXTRACTION)
        return MemoryWriteRequest(scope=asked.scope, write=learned)
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
    """Return the same of a payload in the form of the protocol's first hosts."""
    asked = envelope.decode_as(MemoryWriteRequest, _encode_payload(asked_of("write", payload, space=None).request))
    match asked.write:
        case LongTermExtraction() as write:
            if any(fact.operation is FactOperation.DELETE for fact in write.facts):
                raise InvalidInput(field="extraction.facts", problem="take something away: a peer proposes alone")
            facts = tuple(fact.model_copy(update={"authority": FactAuthority.IMPORTED}) for fact in write.facts)
            return asked.model_copy(update={"write": LongTermExtraction(facts=facts)})
        case ProcedureSource() as write:
            return asked.model_copy(
                update={"write": ProcedureSource(writes=write.writes, source=SkillSource.EXTRACTION)}
            )
        case _:
            return asked


def _peer_evidence(payload: dict[str, JsonValue]) -> MemoryWriteRequest:
    note = envelope.decode_as(PeerNote, _encode_payload(payload))
    turn = TurnDraft(messages=(Message(role=EvidenceRole.TOOL, text=note.text, speaker=note.peer),))
    return MemoryWriteRequest(scope=note.scope, write=TranscriptWrite(turns=(turn,)))
