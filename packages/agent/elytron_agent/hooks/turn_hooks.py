"""Turn hooks: recall before each answer of a host's own loop, and store the turn afterwards."""

import logging
from collections.abc import AsyncGenerator, Callable, Iterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any, Final, Self

from pydantic import SecretStr

from elytron.api import MemoryFace
from elytron.runtime import MemoryRuntime
from elytron_adapter.surface import SurfaceFigure
from elytron_agent.hooks.contract import AfterTurn, AfterTurnReport, BeforeTurn, BeforeTurnReport, HookState
from elytron_agent.hooks.credential_memories import CredentialMemories
from elytron_agent.hooks.facts import FactInsight, fact_entries, insights_of
from elytron_agent.hooks.messages import HostMessage, HostMessages, read_messages, reply_of
from elytron_agent.hooks.session import (
    TurnCode,
    TurnInvalid,
    checked_project,
    checked_session,
    checked_turn,
    session_of,
    space_of,
)
from elytron_agent.hooks.settings import FailurePolicy, HookSession, HookSettings, StorageKind, is_wanted
from elytron_agent.hooks.tree import MemoryTree
from elytron_agent.hooks.turn import HookContext, HookCounts, HookMetrics, TurnRecord, figures_of
from elytron_core.clock import Clock, SystemClock
from elytron_core.contracts.maintenance.maintenance import MemoryMaintenanceReport
from elytron_core.errors import ElytronError, InvalidInput, NotFound, Unsupported
from elytron_core.ids import IdSource, RandomIds
from elytron_core.ports.chat import ChatModel
from elytron_core.scope import Scope
from elytron_models import ModelClient, open_model
from elytron_models.chat_messages import Json
from elytron_turn.memory import TurnDeadline

logger = logging.getLogger("elytron.hooks")
TIMEOUT: Final = "timeout"
Admits = Callable[[str | None], bool]


@dataclass(slots=True)
class HookedTurn:
    """A turn of a host's loop. Send `messages` to the model, then pass the answer to `answered`."""

    messages: Any
    before: BeforeTurnReport
    after: AfterTurnReport | None = None
    """The result of storing the turn, available once the turn is over."""
    _reply: HostMessages | None = field(default=None, repr=False)
    _request: HostMessages | None = field(default=None, repr=False)

    def answered(self, reply: HostMessages, /, *, messages: HostMessages | None = None) -> None:
        """Record the answer: a text, messages or items, or the complete response of either API.

        Pass in `messages` everything that was finally sent if tools were called meanwhile.
        """
        self._reply, self._request = reply, messages

    @property
    def exchange(self) -> tuple[HostMessages, HostMessages] | None:
        """Return what was sent and what was answered, or None while there is no answer."""
        if self._reply is None:
            return None
        return (self._request if self._request is not None else self.messages), self._reply


class TurnHooks:
    """Memory before and after each turn of a host's loop. A memory failure fails a turn only if the settings say so.

    The caller opens and closes `memory`. With `memory_storage` "mcp" it must be omitted, because the hooks open a
    memory for each credential. `model` extracts facts; by default the hooks open and close the model of
    `settings.memory_model`. `session_secret` derives session ids from credentials. `admits` decides by user id who has
    access to memory. Raises InvalidInput for invalid settings, and for a missing or superfluous memory.
    """

    def __init__(
        self,
        memory: MemoryFace | None = None,
        /,
        *,
        settings: HookSettings | Mapping[str, Any] | None = None,
        model: ChatModel | None = None,
        session_secret: bytes = b"",
        admits: Admits | None = None,
        clock: Clock | None = None,
        ids: IdSource | None = None,
    ) -> None:
        runtime_context = memory.context if isinstance(memory, MemoryRuntime) else None
        self._settings = settings if isinstance(settings, HookSettings) else HookSettings.read(settings or {})
        self._secret = session_secret
        self._admits = admits
        self._clock = clock or (runtime_context.clock if runtime_context is not None else SystemClock())
        self._ids = ids or (runtime_context.ids if runtime_context is not None else RandomIds(self._clock))
        self._memory = memory
        self._memories = self._of_credentials(memory)
        self._counting = HookCounts()
        self._opened = _open_model(self._settings) if model is None else None
        self._model = model if model is not None else self._opened

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """Close the model and the memories that the hooks opened."""
        if self._memories is not None:
            await self._memories.close()
        if self._opened is not None:
            await self._opened.close()

    @property
    def settings(self) -> HookSettings:
        return self._settings

    def metrics(self) -> HookMetrics:
        """Return the counts of all calls since the hooks were created."""
        return self._counting.metrics

    def figures(self) -> Iterator[SurfaceFigure]:
        """Yield the same counts for a server: `create_app(memory, figures=(hooks.figures,))`."""
        return figures_of(self.metrics())

    def session_of(self, credential: str, /) -> str:
        """Return the session id for a credential. Raises InvalidInput."""
        return session_of(credential, secret=self._secret, by=self._settings.session_hash)

    @asynccontextmanager
    async def turn(
        self,
        messages: HostMessages,
        /,
        *,
        turn_id: str | None = None,
        session_id: str | None = None,
        credential: str | None = None,
        user_id: str | None = None,
        conversation: str | None = None,
        instructions: str = "",
        max_input_tokens: int | None = None,
        body: Mapping[str, Any] | None = None,
    ) -> AsyncGenerator[HookedTurn]:
        """Recall for the messages, and store the turn when the block ends after `answered`.

        If it raises, nothing is stored.

        The session is `session_id`, else that of the `credential`, else the memory's own space. Raises TurnInvalid.
        """
        secret = None if credential is None or self._memories is None else SecretStr(credential)
        session = session_id if session_id is not None or credential is None else self.session_of(credential)
        fields: dict[str, Any] = {"turn_id": turn_id or self._ids.new(), "session_id": session, "user_id": user_id}
        fields |= {"conversation": conversation, "body": body, "credential": secret}
        report = await self.before_turn(
            BeforeTurn(current_input=messages, instructions=instructions, max_input_tokens=max_input_tokens, **fields)
        )
        turn = HookedTurn(report.messages, report)
        yield turn
        if turn.exchange is not None:
            request_messages, reply = turn.exchange
            turn.after = await self.after_turn(AfterTurn(input_items=request_messages, output_items=reply, **fields))

    async def before_turn(self, request: BeforeTurn, /) -> BeforeTurnReport:
        """Return the messages to send, with recalled memory added. Raises TurnInvalid, InvalidInput."""
        scope = self._scope(request)
        host_messages = read_messages(request.current_input)
        if not host_messages:
            raise TurnInvalid(code=TurnCode.CURRENT_INPUT_REQUIRED, field="current_input", problem="is required")
        unchanged_messages: list[Json] = [message.raw for message in host_messages]
        gate_state = self._gate(request)
        if gate_state is not None:
            return BeforeTurnReport(state=gate_state, messages=unchanged_messages)
        start_ms = self._clock.now()
        self._counting.add("memory_before_turn_total")
        try:
            deadline = TurnDeadline.after(self._settings.recall_timeout_seconds)
            report = await deadline.run_within(lambda: self._applied(scope, host_messages, request))
        except NotFound:  # the session is still empty
            report = BeforeTurnReport(state=HookState.EMPTY, messages=unchanged_messages)
        except (ElytronError, TimeoutError) as error:
            failure = self._failed("memory_before_turn_fail_total", error)
            report = BeforeTurnReport(state=HookState.FAILED, messages=unchanged_messages, failure=failure)
        finally:
            self._counting.took("memory_before_latency_ms", self._clock.now() - start_ms)
        self._counting.add("memory_recall_fact_count", len(report.recalled_fact_ids))
        return report

    async def _applied(self, scope: Scope, host: Sequence[HostMessage], request: BeforeTurn) -> BeforeTurnReport:
        async with self._memory_for(request) as memory:
            return await HookContext(self._session(memory, scope)).applied(host, request)

    async def after_turn(self, request: AfterTurn, /) -> AfterTurnReport:
        """Store the turn as evidence with its facts, once even if called repeatedly.

        Raises TurnInvalid, InvalidInput.
        """
        scope = self._scope(request)
        gate_state = self._gate(request)
        if gate_state is not None:
            return AfterTurnReport(state=gate_state)
        messages, reply = read_messages(request.input_items), reply_of(request.output_items)
        start_ms = self._clock.now()
        self._counting.add("memory_after_turn_total")
        try:
            async with self._memory_for(request) as memory:
                record = TurnRecord(self._session(memory, scope), self._model, self._counting)
                return await record.store_turn(messages, reply, request)
        except (ElytronError, TimeoutError) as error:
            failure = self._failed("memory_after_turn_fail_total", error)
            return AfterTurnReport(state=HookState.FAILED, failure=failure)
        finally:
            self._counting.took("memory_after_latency_ms", self._clock.now() - start_ms)

    async def maintain(
        self, *, session_id: str | None = None, conversation: str | None = None, credential: str | None = None
    ) -> MemoryMaintenanceReport:
        """Summarise turns beyond twice the recent items, and run the parts of maintenance that need no model."""
        async with self._record(session_id, conversation, credential) as record:
            return await record.maintained()

    async def insights(
        self, *, session_id: str | None = None, credential: str | None = None
    ) -> tuple[FactInsight, ...]:
        """Return the insights from the history of the session's facts."""
        scope = self._scope_of(self._settings.memory_project, session_id, None)
        async with self.memory_of(credential) as memory:
            return insights_of(await fact_entries(memory, scope), at=self._clock.now())

    def tree(self, *, session_id: str | None = None, conversation: str | None = None) -> MemoryTree:
        """Return the session as readable folders and files. Raises Unsupported if memory is opened per credential."""
        if self._memory is None:
            raise Unsupported("memory is opened for each credential: create TurnHooks from `memory_of(...)`")
        return MemoryTree(
            self._memory, self._scope_of(self._settings.memory_project, session_id, conversation), self._clock
        )

    async def delete_fact(
        self, fact_id: str, /, *, session_id: str | None = None, credential: str | None = None
    ) -> int:
        """Delete every current fact with an id such as `user_name`, and return their number."""
        async with self._record(session_id, None, credential) as record:
            return await record.deleted(fact_id)

    @asynccontextmanager
    async def memory_of(self, credential: str | None = None, /) -> AsyncGenerator[MemoryFace]:
        """Yield the memory that stores the turns of a credential. Raises TurnInvalid if it needs one and has none."""
        if self._memories is not None:
            async with self._memories.of(credential) as memory:
                yield memory
        elif self._memory is not None:
            yield self._memory
        else:
            raise Unsupported("memory is off: set enable_memory")

    def _memory_for(self, request: BeforeTurn | AfterTurn) -> AbstractAsyncContextManager[MemoryFace]:
        return self.memory_of(None if request.credential is None else request.credential.get_secret_value())

    def _of_credentials(self, memory: MemoryFace | None) -> CredentialMemories | None:
        """Return what opens memories by credential, or None if `memory` serves all."""
        settings = self._settings
        if not settings.enable_memory:
            return None
        is_mcp_storage = settings.memory_storage is StorageKind.MCP
        if is_mcp_storage and memory is not None:
            raise InvalidInput(field="memory", problem="must be omitted: memory_storage mcp opens its own")
        if not is_mcp_storage and memory is None:
            raise InvalidInput(field="memory", problem="is required: open one, or set memory_storage to mcp")
        return CredentialMemories(settings.storage_url, clock=self._clock, ids=self._ids) if is_mcp_storage else None

    @asynccontextmanager
    async def _record(
        self, session_id: str | None, conversation: str | None, credential: str | None
    ) -> AsyncGenerator["TurnRecord"]:
        scope = self._scope_of(self._settings.memory_project, session_id, conversation)
        async with self.memory_of(credential) as memory:
            yield TurnRecord(self._session(memory, scope), self._model, self._counting)

    def _session(self, memory: MemoryFace, scope: Scope) -> HookSession:
        return HookSession(memory, scope, self._settings, self._clock)

    def _gate(self, request: BeforeTurn | AfterTurn) -> HookState | None:
        """Return why a turn has no memory, or None if it has."""
        if not self._settings.enable_memory or not is_wanted(request.body):
            return HookState.OFF
        return HookState.BLOCKED if self._admits is not None and not self._admits(request.user_id) else None

    def _scope(self, request: BeforeTurn | AfterTurn) -> Scope:
        checked_turn(request.turn_id)
        if self._memories is not None and request.credential is None:
            raise TurnInvalid(code=TurnCode.CREDENTIAL_REQUIRED, field="credential", problem="is required")
        project = request.project if request.project is not None else self._settings.memory_project
        return self._scope_of(project, request.session_id, request.conversation)

    def _scope_of(self, project: str, session_id: str | None, conversation: str | None) -> Scope:
        checked_project(project)
        if session_id is not None:
            space = space_of(project, checked_session(session_id))
            return Scope(space=space, project=project, conversation=conversation)
        memory_scope = None if self._memory is None else self._memory.scope
        if memory_scope is None:
            raise TurnInvalid(code=TurnCode.SESSION_ID_REQUIRED, field="session_id", problem="is required")
        return memory_scope if conversation is None else memory_scope.model_copy(update={"conversation": conversation})

    def _failed(self, counter: str, error: ElytronError | TimeoutError) -> str:
        """Count and log a failure, and return its key. Re-raises the error if the settings say so."""
        key = error.key if isinstance(error, ElytronError) else TIMEOUT
        self._counting.add(counter)
        logger.warning("memory failed before or after a turn", extra={"counter": counter, "error_key": key})
        if self._settings.on_failure is FailurePolicy.RAISE:
            raise error
        return key


def _open_model(settings: HookSettings) -> ModelClient | None:
    return open_model(settings.memory_model) if settings.memory_model else None
