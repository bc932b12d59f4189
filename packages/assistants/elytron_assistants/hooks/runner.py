"""Run a hook at an event, in its own process or in a resident one that serves many events."""

import asyncio
from collections.abc import Callable, Mapping
from contextlib import AbstractAsyncContextManager, suppress
from dataclasses import dataclass
from typing import Final, NamedTuple, Protocol

from elytron.runtime import MemoryRuntime
from elytron_assistants.hooks.activity import PAUSED, ActivityCounts, ActivityFolder, SessionActivity, digest_of
from elytron_assistants.hooks.blocks import CONTEXT_CHARS, HookBlock, is_used, recalled_block, start_block
from elytron_assistants.hooks.events import HookEvent, HookKind, event_answer, read_event
from elytron_assistants.hooks.transcripts import StoredTurns, send_session, store_session
from elytron_assistants.hosts import HostName
from elytron_assistants.project_registry import ProjectMemory
from elytron_core.clock import Instant
from elytron_core.contracts.memories import MemoryGetRequest
from elytron_core.contracts.recall import RecallGate
from elytron_core.errors import ElytronError, InvalidInput, Unreachable
from elytron_core.scope import Scope
from elytron_turn.memory import OperateCall, TurnBudget, TurnMemory, TurnMessages

ANSWER_S: Final = 1.8
"""Seconds a prompt or start may wait for a resident process. Hosts get an answer within two seconds."""
ALONE_S: Final = 10.0
"""The same limit for a separate process, which has to load the search first. Hosts wait up to 15 seconds."""
_LATE: Final = "memory did not answer within {wait_s:g} s: the session continues without it"
_BEFORE_MODEL: Final = frozenset({HookKind.START, HookKind.RECALL})
_PENDING: Final = 20
"""Maximum number of a prompt's memories that are compared with the reply."""


class HookOutput(NamedTuple):
    """What a hook process prints, and its exit code. The code is never the one that blocks a prompt."""

    text: str = ""
    error: str = ""
    code: int = 0


@dataclass(frozen=True, slots=True)
class HookCall:
    """A hook call. `environment` has the caller's variables, and `cpu_s` returns its CPU time."""

    kind: HookKind
    host: HostName
    data: bytes
    environment: Mapping[str, str]
    cpu_s: Callable[[], float]
    max_chars: int = CONTEXT_CHARS
    wait_s: float = ANSWER_S


@dataclass(frozen=True, slots=True)
class HookMemory:
    """The memory of an event's folder. A server's memory has neither a runtime nor tiers."""

    operate: OperateCall
    scope: Scope
    store: str
    """Digest of the address of the store or server."""
    runtime: MemoryRuntime | None = None
    place: ProjectMemory | None = None


class OpenMemory(Protocol):
    """Open the memory of an event's folder. A missing store is created only if `is_stored` is true."""

    def __call__(self, event: HookEvent, /, *, is_stored: bool) -> AbstractAsyncContextManager[HookMemory]: ...


class HookResult(NamedTuple):
    """The outcome of an event: the block for the model, and the change to the session's record."""

    block: HookBlock
    change: Callable[[SessionActivity], SessionActivity]


async def run_hook(call: HookCall, open_memory: OpenMemory, records: ActivityFolder, now: Instant, /) -> HookOutput:
    """Handle a hook call and return its output. Memory errors are reported in the output, never raised."""
    try:
        event = read_event(call.host, call.kind, call.data)
    except InvalidInput as error:
        return HookOutput(error=f"elytron: {error.message}")
    has_task = call.kind is not HookKind.RECALL or bool(event.query)
    if event.is_subagent or not has_task:
        return HookOutput()
    record = _HookRecord(call, event, records, now)
    if records.is_paused(event.folder(call.environment)):
        record.note_once(PAUSED)
        return HookOutput()
    is_stored = call.kind not in _BEFORE_MODEL
    try:
        async with (
            asyncio.timeout(None if is_stored else call.wait_s),
            open_memory(event, is_stored=is_stored) as memory,
        ):
            block = await _HookWork(call, event, memory, record).perform()
            notice = memory.place.notice if memory.place is not None and call.kind is HookKind.START else ""
    except (ElytronError, TimeoutError) as error:
        failure = error if isinstance(error, ElytronError) else Unreachable(_LATE.format(wait_s=call.wait_s))
        return _failure_output(record, failure.message)
    return HookOutput(event_answer(event, call.kind, block.text, message=notice and f"Elytron: {notice}"))


@dataclass(frozen=True, slots=True)
class _HookRecord:
    """Access to the record of an event's session."""

    call: HookCall
    event: HookEvent
    records: ActivityFolder
    now: Instant

    def read(self) -> SessionActivity:
        return self.records.read(self.event.host, self.event.session)

    def note(self, change: Callable[[SessionActivity], SessionActivity]) -> None:
        """Change the record. A failure to write it does not affect the answer."""

        def counted(before: SessionActivity) -> SessionActivity:
            changed_record = change(before)
            counts = changed_record.counts + ActivityCounts(cpu_ms=round(self.call.cpu_s() * 1000))
            return changed_record.model_copy(update={"counts": counts})

        with suppress(ElytronError, OSError):
            self.records.change(self.event.host, self.event.session, counted, at=self.now)

    def note_once(self, notice: str) -> bool:
        """Record a failure or a pause, and return whether it differs from the previous one."""
        if self.read().notice == notice:
            return False
        self.note(lambda before: before.model_copy(update={"notice": notice}))
        return True


@dataclass(frozen=True, slots=True)
class _HookWork:
    """The work at an event, on the memory of its folder."""

    call: HookCall
    event: HookEvent
    memory: HookMemory
    record: _HookRecord

    async def perform(self) -> HookBlock:
        """Handle the event, update the session's record, and return the block for the model."""
        previous_record = self.record.read()
        match self.call.kind:
            case HookKind.START:
                result = await self._answer_start(previous_record)
            case HookKind.RECALL:
                result = await self._answer_prompt(previous_record)
            case HookKind.COMPACT | HookKind.KEEP | HookKind.END:
                result = await self._store_turns(previous_record)
        self.record.note(lambda record: self._placed(result.change(record)))
        return result.block

    async def _answer_prompt(self, previous_record: SessionActivity) -> HookResult:
        messages = TurnMessages(
            current=self.event.query,
            ids=frozenset(previous_record.shown_ids),
            has_conversation=not previous_record.is_compacted,
        )
        # If a host has no start event, the first prompt shows the repository's state as well.
        has_shown_block = previous_record.has_start or bool(previous_record.shown_lines)
        max_chars = min(self.call.max_chars, self.event.contract.max_chars)
        budget = TurnBudget(max_chars, answers_only=has_shown_block, gate=RecallGate.STRICT)
        memory = TurnMemory(self.memory.operate, self.memory.scope)
        key, now = self.record.records.line_key(), self.record.now
        block = await recalled_block(
            memory, messages, budget, shown_lines=previous_record.shown_lines, key=key, now=now
        )

        def change(record: SessionActivity) -> SessionActivity:
            counts = ActivityCounts(
                prompts=1,
                recalled=int(bool(block.text)),
                added_chars=len(block.text),
                shown_hits=len(block.ids),
                prompt_cpu_ms=round(self.call.cpu_s() * 1000),
            )
            update = {"counts": record.counts + counts, "pending": block.ids[:_PENDING]}
            return record.with_shown(block.ids, block.lines).model_copy(update=update)

        return HookResult(block, change)

    async def _answer_start(self, previous_record: SessionActivity) -> HookResult:
        key, event = self.record.records.line_key(), self.event
        block = await start_block(self.memory.operate, self.memory.scope, key=key)
        digest = digest_of("\n".join(block.lines)) if block.lines else ""
        if not event.begins_context and digest == previous_record.digest:
            return HookResult(HookBlock(), _with_start)

        def change(record: SessionActivity) -> SessionActivity:
            if event.begins_context:
                record = record.with_new_context(is_compacted=event.source == "compact")
            counts = record.counts + ActivityCounts(added_chars=len(block.text))
            update = {"digest": digest, "has_start": True, "counts": counts}
            return record.with_shown(block.ids, block.lines).model_copy(update=update)

        return HookResult(block, change)

    async def _store_turns(self, previous_record: SessionActivity) -> HookResult:
        memory, environment = self.memory, self.call.environment
        if memory.runtime is not None and memory.place is not None:
            stored_turns = await store_session(memory.runtime, memory.place, self.event, environment=environment)
        else:
            turn_memory = TurnMemory(memory.operate, memory.scope)
            stored_turns = await send_session(turn_memory, self.event, environment=environment)
        used_hits = await _count_used(memory, previous_record.pending, stored_turns) if stored_turns.reply else 0

        def change(record: SessionActivity) -> SessionActivity:
            counts = record.counts + ActivityCounts(stored_turns=stored_turns.count, used_hits=used_hits)
            if self.call.kind is HookKind.COMPACT:
                record = record.with_new_context(is_compacted=True)
            return record.model_copy(update={"counts": counts, "pending": () if stored_turns.reply else record.pending})

        return HookResult(HookBlock(), change)

    def _placed(self, record: SessionActivity) -> SessionActivity:
        """Return the record with the memory's place, and without the notice of a failure that is over."""
        place, store = self.memory.place, self.memory.store
        repository, label = (place.spaces[0], place.label) if place is not None else (self.memory.scope.space, "")
        return record.model_copy(update={"store": store, "repository": repository, "label": label, "notice": ""})


def _with_start(record: SessionActivity) -> SessionActivity:
    return record.model_copy(update={"has_start": True})


async def _count_used(memory: HookMemory, pending: tuple[str, ...], stored_turns: StoredTurns) -> int:
    """Return how many of the shown memories have words in the reply."""
    spaces = memory.place.spaces if memory.place is not None else (memory.scope.space,)
    operate_memory = memory.runtime.operate if memory.runtime is not None else memory.operate
    count = 0
    for name in pending:
        for space in spaces:
            with suppress(ElytronError):  # it is in another tier, or was erased
                scope = memory.scope.model_copy(update={"space": space})
                hit = await operate_memory(MemoryGetRequest(scope=scope, id=name))
                count += is_used(hit.text, stored_turns.reply, stored_turns.prompt)
                break
    return count


def _failure_output(record: _HookRecord, message: str) -> HookOutput:
    """Return the output of a hook whose memory failed. The failure is reported once, where the person can see it."""
    event = record.event
    if not record.note_once(digest_of(message)):
        return HookOutput()
    text = event_answer(event, record.call.kind, None, message=f"Elytron: {message}")
    return HookOutput(text, f"elytron: {message}", 0 if event.contract.has_messages else 1)
