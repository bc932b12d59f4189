"""Shorthands for writing to a runtime in tests."""

import elytron
from elytron_core.contracts.transcript import MemoryWriteReport
from elytron_core.evidence import EvidenceRole
from elytron_core.planes.facts import FactAuthority, FactConfidence, FactKind, FactOperation
from elytron_core.planes.transcript import Message, TurnDelivery


async def believe(
    memory: elytron.MemoryRuntime,
    topic: str,
    content: str,
    /,
    *,
    kind: FactKind = FactKind.PROFILE,
    authority: FactAuthority = FactAuthority.USER_ASSERTED,
    operation: FactOperation = FactOperation.UPSERT,
    confidence: FactConfidence = FactConfidence.MEDIUM,
    observed_at: int | None = None,
    citations: tuple[str, ...] = (),
    idempotency_key: str | None = None,
) -> MemoryWriteReport:
    """Propose one fact."""
    draft = elytron.FactDraft.model_validate(
        {
            "topic": topic,
            "content": content,
            "fact_kind": kind,
            "authority": authority,
            "operation": operation,
            "confidence": confidence,
            "observed_at": observed_at,
            "citations": citations,
        }
    )
    write = elytron.LongTermExtraction(facts=(draft,))
    return await memory.write(elytron.MemoryWriteRequest(write=write, idempotency_key=idempotency_key))


async def learn(
    memory: elytron.MemoryRuntime,
    name: str,
    procedure: str,
    /,
    *,
    topic: str = "deploying",
    observed_at: int | None = None,
) -> MemoryWriteReport:
    """Write one procedure."""
    skill = elytron.RuntimeSkillWrite.model_validate(
        {
            "name": name,
            "topic": topic,
            "title": f"How to do {name}",
            "summary": f"Steps for {topic}",
            "content": procedure,
            "observed_at": observed_at,
        }
    )
    return await memory.write(elytron.MemoryWriteRequest(write=elytron.ProcedureSource(writes=(skill,))))


async def talk(
    memory: elytron.MemoryRuntime,
    *said: tuple[EvidenceRole, str],
    host_id: str | None = None,
    delivery: TurnDelivery = TurnDelivery.DELIVERED,
    idempotency_key: str | None = None,
    scope: elytron.Scope | None = None,
) -> MemoryWriteReport:
    """Commit one turn of several messages."""
    messages = tuple(Message(role=role, text=text) for role, text in said)
    turn = elytron.TurnDraft(messages=messages, host_id=host_id, delivery=delivery)
    return await memory.write(
        elytron.MemoryWriteRequest(
            scope=scope, write=elytron.TranscriptWrite(turns=(turn,)), idempotency_key=idempotency_key
        )
    )


async def put(memory: elytron.MemoryRuntime, kind: str, /, **write: object) -> MemoryWriteReport:
    """Write to any plane, by the kind of the write and its fields."""
    return await memory.write(elytron.MemoryWriteRequest.model_validate({"write": {"kind": kind, **write}}))


async def texts(memory: elytron.MemoryRuntime, query: str, /) -> list[str]:
    """Return the texts of a recall."""
    return [hit.text for hit in (await memory.recall(query)).hits]
