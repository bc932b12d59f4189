"""Memory access of the proxy: calls under the caller's rights, the block of a prompt, and stored turns."""

import asyncio
import hashlib
import random
import time
from collections.abc import Awaitable, Callable, Generator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from typing import Final, TypeVar

from pydantic import JsonValue

from elytron.registry import by_request
from elytron.runtime_records import RuntimeRecords
from elytron_adapter.call_figures import CallFigures
from elytron_adapter.dispatch import CallerAdmission, acting_as
from elytron_adapter.envelope import (
    AcceptedAnswer,
    CallOrigin,
    CallTransport,
    DuplicatedAnswer,
    QueuedAnswer,
    RejectedAnswer,
)
from elytron_core.contracts.memories import MemoryGetRequest
from elytron_core.contracts.recall import RecallFilters
from elytron_core.contracts.tools import AgentToolRegistryUpsertRequest
from elytron_core.errors import ElytronError, StoreBusy, StoreUnavailable, Unreachable
from elytron_core.ids import is_name
from elytron_core.lru_cache import LruCache
from elytron_core.model import OperationRequest, Value
from elytron_core.planes.records import Record
from elytron_core.planes.space import SpaceRecord
from elytron_core.planes.tools import (
    AgentToolDescriptor,
    AgentToolRegistryRef,
    AgentToolRegistrySnapshot,
    RegistryOwner,
)
from elytron_core.policy.projection import fence
from elytron_core.policy.tools import with_fingerprints
from elytron_proxy import limits
from elytron_proxy.caller import ProxyCaller
from elytron_proxy.prompts import CallPrompt
from elytron_proxy.prompts.request_turn import without_conversation
from elytron_turn.memory import TurnBudget, TurnDeadline, TurnMemory, TurnMessages

MAX_REGISTRIES: Final = 1_024
"""Sets of tools that are remembered as registered."""
MAX_TOOLS: Final = 128
"""Tools of one request that are registered; of more, none are."""
MAX_FAILURES: Final = 3
"""Calls in a row that memory did not answer in time, after which it is asked nothing for a while."""
REST_S: Final = 10.0
"""Length of that while; then one call asks it again."""
COMMIT_ATTEMPTS: Final = 8
COMMIT_PAUSE_S: Final = 0.25
COMMIT_PAUSE_MAX_S: Final = 8.0
"""Number of attempts to commit an answer while memory is only busy, and the pauses between."""
SETTLE_WAIT_S: Final = 1.0
"""Time for which a request waits for a running commit of its space, of the time that memory has."""


ReportT = TypeVar("ReportT", bound=Value)
ResultT = TypeVar("ResultT")
Pause = Callable[[float], Awaitable[None]]
NAMESPACE: Final = "llm-proxy"
"""Namespace for a proxy's knowledge of conversations, as the runtime's own records."""
NamespacePath = tuple[str, ...]
"""The namespace of records of one kind."""
TIMEOUT: Final = "timeout"
_OUT: Final = frozenset({TIMEOUT, Unreachable.key, StoreUnavailable.key, StoreBusy.key})
"""Errors of a store that answers no call at all."""


class MemoryDown(Exception):
    """Memory did not do what was requested. `key` is the error's own; `is_busy` if a retry may succeed soon."""

    def __init__(self, key: str, /, *, is_busy: bool = False) -> None:
        super().__init__(f"memory refused: {key}")
        self.key = key
        self.is_busy = is_busy

    @property
    def is_out(self) -> bool:
        """Return whether the store did not answer."""
        return self.key in _OUT


@dataclass(frozen=True, slots=True)
class PromptBlock:
    """Block of a prompt, in its tag; empty if nothing is known. It has `recalled` memories.

    `cites` are those of them that have an id to read them by; a block that was stored names none.
    """

    text: str = ""
    recalled: int = 0
    cites: tuple[str, ...] = ()


@dataclass(slots=True)
class _SpaceHealth:
    """Consecutive failures of a space's memory, and the end of its pause."""

    failures: int = 0
    rests_until: float = 0.0


class ProxyMemory:
    """Calls operations with the caller's rights, and tracks which spaces are committing.

    All that a call waits for is done before its deadline or not at all: every read and write here goes by `in_time`.
    """

    def __init__(
        self,
        admission: CallerAdmission,
        /,
        *,
        pause: Pause = asyncio.sleep,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._admission = admission
        self._pause = pause
        self._clock = clock
        self._health: LruCache[str, _SpaceHealth] = LruCache(limits.BLOCKS)
        self._pending: dict[str, set[asyncio.Future[None]]] = {}
        self._registries: LruCache[tuple[str, str], AgentToolRegistryRef] = LruCache(MAX_REGISTRIES)

    @property
    def figures(self) -> CallFigures:
        """Return the server's metrics of model usage by programs."""
        return self._admission.figures

    def timed(self, caller: ProxyCaller, /, *, may_rest: bool = True) -> ProxyCaller:
        """Return the caller of a call that starts now and waits for memory: it has a deadline.

        After failures the memory of a space pauses, and the deadline is already over; then one call tries it again. A
        call that is not judged afterwards does not take part in that (`may_rest`).
        """
        now, health = self._clock(), self._health.get(caller.space) if may_rest else None
        wait_s = limits.MEMORY_WAIT_S
        if health is not None and health.failures >= MAX_FAILURES:
            if now < health.rests_until:
                wait_s = 0.0
            else:
                # Other calls remain paused while this one tries.
                health.rests_until = now + REST_S
        return replace(caller, deadline=TurnDeadline.after(wait_s))

    def judge(self, caller: ProxyCaller, /, *, is_down: bool) -> None:
        """Record whether memory answered the call in time."""
        if not is_down:
            self._health.pop(caller.space, None)
            return
        health = self._health.get(caller.space) or _SpaceHealth()
        # A paused call fails too, and must not extend the pause.
        if health.failures < MAX_FAILURES:
            health.failures += 1
            health.rests_until = self._clock() + REST_S
        self._health[caller.space] = health

    async def in_time(self, caller: ProxyCaller, work: Callable[[], Awaitable[ResultT]], /) -> ResultT:
        """Return the result of `work` before the caller's deadline. Raises MemoryDown."""
        try:
            return await caller.deadline.run_within(work)
        except TimeoutError:
            raise MemoryDown(TIMEOUT) from None

    def new_id(self) -> str:
        """Return a fresh id."""
        return self._admission.dispatcher.runtime.context.ids.new()

    async def call(self, caller: ProxyCaller, request: OperationRequest[ReportT], /) -> ReportT:
        """Return the report of the operation that takes `request`. Raises MemoryDown."""
        operation = by_request(request)
        answer = await self.in_time(
            caller,
            lambda: self._admission.call(
                caller.principal,
                origin=CallOrigin(CallTransport.LLM),
                operation=operation.name,
                request_id=caller.request_id,
                payload=request,
            ),
        )
        match answer:
            case (
                AcceptedAnswer(report=operation_report)
                | DuplicatedAnswer(report=operation_report)
                | QueuedAnswer(report=operation_report)
            ):
                assert isinstance(operation_report, operation.report)
                return operation_report
            case RejectedAnswer():
                raise MemoryDown(answer.error_key, is_busy=answer.retryable)

    async def keep(self, caller: ProxyCaller, request: OperationRequest[ReportT], /) -> ReportT:
        """Like `call`, but retry while memory is only busy, because storing an answer can wait.

        Raises MemoryDown.
        """
        for attempt in range(COMMIT_ATTEMPTS - 1):
            try:
                return await self.call(caller, request)
            except MemoryDown as error:
                if not error.is_busy:
                    raise
            await self._wait(attempt)
        return await self.call(caller, request)

    async def _wait(self, attempt: int) -> None:
        # Randomised, so that calls that failed together do not retry together.
        wait_s = min(COMMIT_PAUSE_S * 2**attempt, COMMIT_PAUSE_MAX_S)
        await self._pause(wait_s * (0.5 + random.random() / 2))  # noqa: S311

    async def block(
        self, caller: ProxyCaller, prompt: CallPrompt, /, *, max_chars: int, conversation: str | None
    ) -> PromptBlock:
        """Return the block for the last message. `conversation` is the conversation that the request contains in full.

        Raises MemoryDown, also if memory takes too long.
        """
        registry = self._registry(caller, prompt)
        memory = TurnMemory(
            partial(self.call, caller),
            caller.scope(),
            filters=without_conversation(conversation) if conversation is not None else RecallFilters(),
            registries=(registry,) if registry is not None else (),
        )
        context = await memory.before(TurnMessages(current=prompt.text), TurnBudget(max_chars))
        if context.failure is not None:
            raise MemoryDown(context.failure.key)
        if not context.block:
            return PromptBlock()
        return PromptBlock(fence.wrap_block(context.block), len(context.selected), context.cites)

    async def has_all(self, caller: ProxyCaller, block: PromptBlock, /) -> bool:
        """Return whether the caller may still read every memory that a block cites: none was erased or made private.

        Raises MemoryDown if memory is busy.
        """
        try:
            for memory_id in block.cites:
                await self.call(caller, MemoryGetRequest(scope=caller.scope(), id=memory_id))
        except MemoryDown as error:
            if error.is_busy:
                raise
            return False
        return True

    async def secret_of(self, caller: ProxyCaller, /) -> SpaceRecord | None:
        """Return the record of the caller's space, which keys stored data; None before the first write.

        Raises MemoryDown.
        """
        spaces = self._admission.dispatcher.runtime.context.spaces
        try:
            return await self.in_time(caller, lambda: spaces.find(caller.space))
        except ElytronError as error:
            raise MemoryDown(error.key) from None

    async def get(self, caller: ProxyCaller, namespace: NamespacePath, key: str, /) -> Record | None:
        """Return a record of ours. Raises MemoryDown."""
        return await self._own(caller, lambda: self._records(caller).get(namespace, key))

    async def has(self, caller: ProxyCaller, namespace: NamespacePath, key: str, /) -> bool:
        """Return whether there is a record of ours, even while memory is busy. Raises MemoryDown."""
        return await self._own(caller, lambda: self._records(caller).get(namespace, key), is_patient=True) is not None

    async def put(
        self,
        caller: ProxyCaller,
        namespace: NamespacePath,
        key: str,
        value: Mapping[str, JsonValue],
        /,
        *,
        ttl_s: int | None,
        expected_version: int | None = None,
    ) -> None:
        """Store a record of ours. Raises MemoryDown, also for a value beyond a record's limits."""
        records = self._records(caller)
        await self._own(
            caller,
            lambda: records.put(namespace, key, dict(value), ttl_s=ttl_s, expected_version=expected_version),
            is_patient=True,
        )

    async def erase(self, caller: ProxyCaller, namespace: NamespacePath, key: str, /) -> bool:
        """Erase a record of ours with its history; return whether there was one. Raises MemoryDown."""
        record = await self.get(caller, namespace, key)
        if record is None:
            return False
        await self._own(caller, lambda: self._records(caller).erase((record,)), is_patient=True)
        return True

    async def trim(self, caller: ProxyCaller, namespace: NamespacePath, /, *, most: int) -> None:
        """Erase the oldest records of a namespace, so that `most` stay. Raises MemoryDown."""
        records = self._records(caller)

        async def surplus() -> list[Record]:
            all_records = [record async for record in records.below(namespace)]
            return sorted(all_records, key=lambda record: (record.created_at, record.key))[
                : max(0, len(all_records) - most)
            ]

        if surplus_records := await self._own(caller, surplus):
            await self._own(caller, lambda: records.erase(surplus_records), is_patient=True)

    def _records(self, caller: ProxyCaller) -> RuntimeRecords:
        """Return the runtime's own records in the caller's space, which no call of a caller writes."""
        return RuntimeRecords(self._admission.dispatcher.runtime.context, caller.scope())

    async def _own(
        self, caller: ProxyCaller, work: Callable[[], Awaitable[ResultT]], /, *, is_patient: bool = False
    ) -> ResultT:
        """Return the result of `work` on our records, run as a call of the caller.

        If `is_patient`, it is retried while memory is only busy. Raises MemoryDown.
        """
        attempts = COMMIT_ATTEMPTS if is_patient else 1
        while True:
            attempts -= 1
            try:
                return await self.in_time(caller, lambda: self._placed(caller, work))
            except ElytronError as error:
                if not attempts or not error.retryable:
                    raise MemoryDown(error.key, is_busy=error.retryable) from None
            await self._wait(COMMIT_ATTEMPTS - 1 - attempts)

    async def _placed(self, caller: ProxyCaller, work: Callable[[], Awaitable[ResultT]]) -> ResultT:
        async with self._admission.shedding.place(caller.principal):
            with acting_as(caller.principal):
                return await work()

    async def register(self, caller: ProxyCaller, prompt: CallPrompt, /) -> None:
        """Register the tools of a request as a host's, once. Raises MemoryDown."""
        if self._registry(caller, prompt) is not None or not 0 < len(prompt.tools) <= MAX_TOOLS:
            return
        tools = {tool.name: tool for tool in prompt.tools if is_name(tool.name)}
        registry = AgentToolRegistrySnapshot(
            registry_id=_registry_id(prompt),
            namespace=NAMESPACE,
            owner=RegistryOwner.REQUEST_SCOPED_GATEWAY,
            tools=tuple(
                AgentToolDescriptor(tool_id=name, schema_fingerprint=_text_digest(tool.schema))
                for name, tool in tools.items()
            ),
        )
        snapshot = with_fingerprints(registry)
        request = AgentToolRegistryUpsertRequest(scope=caller.scope(), snapshot=snapshot)
        if not (await self.keep(caller, request)).accepted:
            return
        self._registries[caller.space, snapshot.registry_id] = snapshot.ref

    @contextmanager
    def committing(self, caller: ProxyCaller, /) -> Generator[None]:
        """Make later calls about this space wait for the commits in the block."""
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        pending = self._pending.setdefault(caller.space, set())
        pending.add(future)
        try:
            yield
        finally:
            future.set_result(None)
            pending.discard(future)
            if not pending:
                self._pending.pop(caller.space, None)

    async def settle(self, caller: ProxyCaller, /) -> None:
        """Wait briefly until the space's running commits are done; not at all during a pause."""
        remaining_s = caller.deadline.remaining_s
        wait_s = SETTLE_WAIT_S if remaining_s is None else min(SETTLE_WAIT_S, remaining_s)
        if wait_s > 0 and (pending := self._pending.get(caller.space)):
            # A copy, since finished commits remove themselves.
            await asyncio.wait(set(pending), timeout=wait_s)

    async def idle(self) -> None:
        """Wait until no commit is running."""
        # Commits may begin while others are waited for.
        while self._pending:
            await asyncio.gather(*(future for pending in self._pending.values() for future in pending))

    def _registry(self, caller: ProxyCaller, prompt: CallPrompt) -> AgentToolRegistryRef | None:
        return self._registries.get((caller.space, _registry_id(prompt))) if prompt.tools else None


def _registry_id(prompt: CallPrompt) -> str:
    # Sorted, because a client may list the same tools in another order.
    signatures = "\0".join(sorted(f"{tool.name}\0{tool.schema}" for tool in prompt.tools))
    return f"{NAMESPACE}-{_text_digest(signatures)[:16]}"


def _text_digest(text: str) -> str:
    return hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16).hexdigest()
