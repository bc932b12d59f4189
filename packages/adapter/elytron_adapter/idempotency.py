"""Idempotency: a repeated call with the same key acts once and gets the same answer.

A `write` puts its key into the store's own commit, so effect and answer are stored together. The other changes (forget,
correct, erase, import) store a receipt after their effect, under a keyed tag, for `limits.IDEMPOTENCY_KEEP_MS`.
Receipts are not exported. As a result:

- After a crash between effect and receipt, a repeat runs the operation again. That is safe: what is already forgotten,
  erased or imported does not change, and a corrected fact is closed and accepts no further correction.
- A repeat that arrives while the first call runs waits up to `limits.IDEMPOTENCY_WAIT_S`, then fails with
  `still_running`. In two processes both calls may run; both return the first answer once its receipt is stored.
- A call that changed nothing (including a dry run) and the erasure of a whole space store no receipt.
- A key belongs to one principal and one operation. Callers without a principal share a key space.
"""

import asyncio
from dataclasses import replace
from weakref import WeakValueDictionary

from elytron.documents.stored_values import opened_answer, sealed_answer
from elytron.journal.follower import WRITER
from elytron.memories.lookup import READS, demanding_context, version_of
from elytron.registry import AnyOperation, RepeatGuard
from elytron.runtime import MemoryRuntime
from elytron.state.space_records import REF
from elytron_adapter.envelope import AcceptedAnswer, DuplicatedAnswer, Envelope, QueuedAnswer
from elytron_core import limits, strict_json
from elytron_core.contracts.maintenance.maintenance import PUTTING_OFF
from elytron_core.contracts.memories import MemoryEraseRequest
from elytron_core.contracts.transcript import MemoryWriteReport, MemoryWriteRequest
from elytron_core.errors import (
    Conflict,
    IdempotencyConflict,
    InvalidInput,
    KeyDestroyed,
    NotFound,
    SpaceIncomplete,
    SpaceLocked,
    StillRunning,
)
from elytron_core.ids import SpaceId
from elytron_core.model import Value
from elytron_core.ports.store import Batch, BatchKey, CommitReceipt, EntryDraft, JournalAction, RequireRevision
from elytron_core.scope import ChangeReport, ScopedRequest, is_scoped

_NEVER = 1 << 40
"""A revision that no space record has: a batch that requires it is answered from a receipt or rejected."""

Answer = AcceptedAnswer | DuplicatedAnswer | QueuedAnswer


def key_in(header: str | None, /) -> str | None:
    """Return the key in the header `Idempotency-Key`, which the standard's draft quotes and others do not.

    Raises InvalidInput for a key that is empty or too long.
    """
    if header is None:
        return None
    key = header[1:-1] if len(header) >= 2 and header[0] == header[-1] == '"' else header
    if not 1 <= len(key) <= limits.IDEMPOTENCY_KEY_CHARS:
        raise InvalidInput(field="idempotency_key", problem=f"must have 1 to {limits.IDEMPOTENCY_KEY_CHARS} characters")
    return key


class RepeatedCalls:
    """Calls operations of one runtime so that a repeat under the same key is answered without being done again."""

    def __init__(self, runtime: MemoryRuntime, /, *, wait_s: float = limits.IDEMPOTENCY_WAIT_S) -> None:
        self._runtime = runtime
        self._wait_s = wait_s
        self._running: WeakValueDictionary[tuple[str, ...], asyncio.Lock] = WeakValueDictionary()

    async def answer(self, operation: AnyOperation, request: Value, envelope: Envelope, /) -> Answer:
        """Call `operation`, or return its first answer.

        Raises IdempotencyConflict for a key of another request, StillRunning if the first call takes long.
        """
        if envelope.idempotency_key is not None and operation.mutates and operation.repeat is RepeatGuard.HARMLESS:
            problem = f"is not supported by {operation.name!r}, which is safe to repeat: leave it out"
            raise InvalidInput(field="idempotency_key", problem=problem)
        match operation.repeat:
            case RepeatGuard.STORE:
                assert isinstance(request, MemoryWriteRequest)
                report = await self._perform(operation, _with_key(request, envelope), envelope)
                assert isinstance(report, MemoryWriteReport)
                answer = DuplicatedAnswer if report.duplicated else AcceptedAnswer
                return answer(request_id=envelope.request_id, report=report)
            case RepeatGuard.RECEIPT if envelope.idempotency_key is not None:
                assert is_scoped(request)
                return await self._once(operation, request, envelope, envelope.idempotency_key)
            case _:
                # The version is read first: a change in between makes it too old, never too new.
                version = await version_of(self._runtime.context, request) if isinstance(request, READS) else None
                report = await self._perform(operation, request, envelope)
                return _call_answer(report, envelope, version=version.tag if version is not None else None)

    async def _perform(self, operation: AnyOperation, request: Value, envelope: Envelope) -> Value:
        context = self._runtime.context
        if operation.mutates:
            context = replace(
                context,
                caller=envelope.auth.principal or envelope.transport.value,
                audit_id=envelope.audit_id,
                source=envelope.source.label,
            )
        if envelope.versions:
            context = await demanding_context(context, request, envelope.versions)
        writer = WRITER.set(context.caller)
        try:
            return await operation.perform(context, request)
        finally:
            WRITER.reset(writer)

    async def _once(self, operation: AnyOperation, request: ScopedRequest, envelope: Envelope, key: str) -> Answer:
        space = self._runtime.context.scope_of(request).space
        name = (operation.name, envelope.auth.principal or "", key)
        name_lock = self._turn((space, *name))
        try:
            await asyncio.wait_for(name_lock.acquire(), self._wait_s)
        except TimeoutError:
            raise StillRunning from None
        try:
            stored_answer = await self._look_up(space, name, request)
            if stored_answer is None:
                try:
                    report = await self._perform(operation, request, envelope)
                except (Conflict, InvalidInput, NotFound):
                    # Another process may just have done it, so it cannot be done again.
                    stored_answer = await self._look_up(space, name, request)
                    if stored_answer is None:
                        raise
                else:
                    stored_answer = await self._keep(space, name, request, report)
                    if stored_answer is None:
                        return _call_answer(report, envelope)
        finally:
            name_lock.release()
        return DuplicatedAnswer(request_id=envelope.request_id, report=operation.report.from_bytes(stored_answer))

    def _turn(self, call: tuple[str, ...]) -> asyncio.Lock:
        """Return the lock of `call`, which lives as long as a call holds or awaits it."""
        return self._running.setdefault(call, asyncio.Lock())

    async def _look_up(self, space: SpaceId, name: tuple[str, ...], request: ScopedRequest) -> bytes | None:
        """Return the answer stored under `name`, or None. Raises IdempotencyConflict."""
        receipt = await self._commit(space, name, request, answer=b"", requires=_NEVER)
        return receipt.answer if receipt is not None else None

    async def _keep(self, space: SpaceId, name: tuple[str, ...], request: ScopedRequest, report: Value) -> bytes | None:
        """Store `report` as the answer of `name`; return the first answer if another process stored one before."""
        assert isinstance(report, ChangeReport)
        if not report.changed:
            # Another process may just have done it, so that nothing was left to change.
            return await self._look_up(space, name, request)
        receipt = await self._commit(space, name, request, answer=report.to_bytes(), requires=1)
        return receipt.answer if receipt is not None and receipt.replayed else None

    async def _commit(
        self, space: SpaceId, name: tuple[str, ...], request: ScopedRequest, *, answer: bytes, requires: int
    ) -> CommitReceipt | None:
        """Commit a receipt, or find the existing one. None if the space does not exist, or not at that revision."""
        context = self._runtime.context
        try:
            record = await context.spaces.find(space)
        except (SpaceLocked, SpaceIncomplete, KeyDestroyed):
            if not (isinstance(request, MemoryEraseRequest) and request.whole_space):
                raise
            record = None  # a locked space is erased without its secret, and has no receipts then
        if record is None:
            return None
        key, request_body = record.tag("receipt", *name), request.to_bytes()
        sealed_report = sealed_answer(answer, record, key, request_body) if answer else b""
        try:
            commit_outcome = await context.store.commit(
                Batch(
                    space=space,
                    at=context.clock.now(),
                    entries=(EntryDraft(JournalAction.OPERATOR, REF),),
                    requires=(RequireRevision(REF, requires),),
                    idempotency=BatchKey(key=key, digest=record.digest(request_body), answer=sealed_report),
                )
            )
        except IdempotencyConflict:
            raise
        except Conflict:
            return None
        if not commit_outcome.replayed:
            return commit_outcome
        return replace(commit_outcome, answer=opened_answer(commit_outcome.answer, record, key, request_body))


def _call_answer(report: Value, envelope: Envelope, *, version: str | None = None) -> AcceptedAnswer | QueuedAnswer:
    """Return the answer of a call made now: some leave the rest to a job, and say so."""
    if isinstance(report, PUTTING_OFF) and report.job is not None:
        return QueuedAnswer(request_id=envelope.request_id, report=report, job=report.job)
    return AcceptedAnswer(request_id=envelope.request_id, report=report, version=version)


def _with_key(request: MemoryWriteRequest, envelope: Envelope) -> MemoryWriteRequest:
    """Return `request` under its call's key. A principal's keys are its own and never collide with another's."""
    key, request_key = envelope.idempotency_key, request.idempotency_key
    if key is not None and request_key is not None and key != request_key:
        raise InvalidInput(field="idempotency_key", problem="differs from the key in the request: send only one")
    key = key if key is not None else request_key
    if key is None:
        return request
    principal = envelope.auth.principal
    if principal is not None:
        key = strict_json.keyed_tag(b"", "idempotency key", principal, key, size=64)
    return request if key == request_key else request.model_copy(update={"idempotency_key": key})
