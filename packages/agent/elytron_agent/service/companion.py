"""The companion: a user's one main agent, its settings and its subagents, as stored."""

import hashlib
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Any, Final

from pydantic import Field

from elytron.context import OperationContext
from elytron.runtime import MemoryRuntime
from elytron.runtime_records import RecordDraft, RuntimeRecords, records_of
from elytron_agent import limits
from elytron_agent.blocks.block_repository import BlockRepository
from elytron_agent.loop.tools import MemoryMode, Subagent, SubagentCreator, SubagentRepository, WebSearch
from elytron_agent.runs.journal import MAIN, PREFERENCES, RunJournal, RunRecord, in_thread
from elytron_agent.runs.settings import RunBudget, UserPreferences
from elytron_agent.runs.source import WELCOME, is_first_time, shown_blocks
from elytron_agent.runs.thread import ThreadQueue, holds_thread
from elytron_agent.runs.thread_notes import AGENTS
from elytron_agent.service.thread_items import ThreadItems
from elytron_agent.service.wire import (
    AgentAnswer,
    AgentConfig,
    ConfigChange,
    InitRequest,
    ModelHealth,
    PreferencesChange,
    SubagentRequest,
)
from elytron_core.clock import Instant
from elytron_core.errors import AgentDisabled, InvalidInput, NotFound, PreconditionFailed
from elytron_core.ids import SpaceId
from elytron_core.model import Value
from elytron_core.scope import Scope
from elytron_turn import limits as turn_limits

if TYPE_CHECKING:
    from elytron_agent.loop.removal import RemovalPlan, ThreadRemoval

KEEP_ALIVE_S: Final = 15.0
"""Idle time after which a comment is sent on a chat stream."""
LOCAL_CONTEXT_TOKENS: Final = 16_384
"""Default context window of a model on this machine."""
HEARTBEAT_S: Final = 30.0
"""Idle time after which a comment is sent on the event stream."""
SCHEDULE_POLL_S: Final = 5.0
PUSH_WAIT_S: Final = 3.0
"""How long a finished turn waits for delivery to a device before previews are sent."""


CONFIG: Final = "companion"
_CALLER: Final = "agent"
"""Name of the caller in the audit log for an agent's own actions."""


class AgentPart(StrEnum):
    """Parts of the service that an operator can switch off."""

    ALL = "all"
    """All routes and all background work."""
    TOOLS = "tools"
    COMPACTION = "compaction"
    PUSH = "push"
    SCHEDULES = "schedules"
    RESPONSES = "responses"
    """The routes of responses and conversations."""
    EMBEDDING = "embedding"
    """The routes of embeddings."""
    PROMPT = "prompt"
    """The operator's own prompt; the default prompt is used instead."""


def shown_model(address: str, /) -> str:
    """Return a model's address without its server's location, which is not shown to users."""
    return address.partition("@")[0]


@dataclass(frozen=True, slots=True)
class ServiceSettings:
    """Settings of the service, made by the operator."""

    models: tuple[str, ...]
    """Addresses of chat models, `dialect:name[@url]`. Agents use the first unless their users choose another."""
    summary_model: str | None = None
    vision_model: str | None = None
    prompt: str | None = None
    page: bytes | None = field(default=None, repr=False)
    """Replacement for the page `/agent`. Only its own scripts and styles run, and it can load nothing else."""
    context_tokens: int | None = None
    web_search: WebSearch | None = field(default=None, repr=False)
    off: frozenset[AgentPart] = frozenset()
    budget: RunBudget = field(default_factory=RunBudget)
    """Limits on the steps, calls, tokens and time of one turn."""
    keep_alive_s: float = KEEP_ALIVE_S
    """Idle time after which a comment is sent on a chat stream."""
    runs_schedules: bool = True
    """If False, schedules and previews are stored, and another process runs and sends them."""
    push_hosts: tuple[str, ...] = ()
    """Hosts to which previews may be sent without TLS and in a private network."""
    push_contact: str | None = None
    """Contact address for push services, `mailto:` or `https:`."""
    push_wait_s: float = PUSH_WAIT_S
    schedule_poll_s: float = SCHEDULE_POLL_S
    """How often this process looks for due schedules."""
    heartbeat_s: float = HEARTBEAT_S
    """Idle time after which a comment is sent on the event stream."""

    def model_named(self, name: str | None, /) -> str:
        """Return the address of a model by its displayed name, or the first model for an unknown name."""
        return next((address for address in self.models if shown_model(address) == name), self.models[0])

    def require_on(self, part: AgentPart = AgentPart.ALL, /) -> None:
        """Raise AgentDisabled if the operator switched off a part."""
        if part in self.off or AgentPart.ALL in self.off:
            raise AgentDisabled(way_out="the operator has disabled it")


class StoredCompanion(Value):
    """The stored form of a user's main agent: its id and the user's choices. None selects the server's default."""

    id: str
    created_at: Instant
    enabled: bool = True
    model: str | None = None
    system_prompt: str | None = None
    max_context_tokens: Annotated[int, Field(ge=1_000)] | None = None
    compaction_threshold: float | None = None
    tools: bool = True
    compaction: bool = True
    optimised_prompt: bool = True


@dataclass(frozen=True, slots=True)
class KnownAgent:
    """A user's main agent or one of its subagents. `name` is the name of its thread."""

    id: str
    name: str
    stored: StoredCompanion
    version: int
    subagent: Subagent | None = None


class UserAgents:
    """The agents of one user, whose memory is one space."""

    def __init__(self, context: OperationContext, space: SpaceId, settings: ServiceSettings, /, *, caller: str) -> None:
        self.scope = Scope(space=space)
        self.settings = settings
        self.memory = MemoryRuntime(context.bound_to(self.scope, caller=caller))
        self.records: RuntimeRecords = records_of(self.memory)
        self.subagents = SubagentRepository(self.records, agent=MAIN)
        self._journal = RunJournal(self.memory, self.records, self.scope, agent=MAIN, by="")

    @property
    def space(self) -> SpaceId:
        return self.scope.space

    def itself(self, context: OperationContext, /) -> "UserAgents":
        """Return the same agents, with the agent itself as the caller."""
        return UserAgents(context, self.space, self.settings, caller=_CALLER)

    async def init(self, request: InitRequest, /) -> KnownAgent:
        """Return the user's main agent, and create it if it does not exist. Concurrent calls create only one."""
        now, ids = self.memory.context.clock.now(), self.memory.context.ids
        companion = StoredCompanion(id=ids.new(), created_at=now)
        preferences = UserPreferences(timezone=request.timezone, locale=request.locale)
        drafts = (
            RecordDraft(_config_place(), CONFIG, _stored_form(companion), text="an agent", expected_version=0),
            RecordDraft((AGENTS, MAIN, "settings"), PREFERENCES, _stored_form(preferences), text="preferences"),
        )
        with suppress(PreconditionFailed):
            await self.records.put_all(drafts)
        agent = await self.main()
        repository = BlockRepository(self.memory)
        await repository.create_missing()
        head, _ = await self._journal.head(MAIN)
        if not head.runs and is_first_time(0, shown_blocks(await repository.list())):
            await self._journal.put_welcome(MAIN, WELCOME, at=now)
        return agent

    async def main(self) -> KnownAgent:
        """Return the main agent. Raises NotFound before `init`."""
        record = await self.records.get(_config_place(), CONFIG)
        if record is None:
            raise NotFound(what="agent", name=MAIN, way_out="create it with POST /v1/agent/init")
        stored_companion = StoredCompanion.model_validate(record.value)
        return KnownAgent(stored_companion.id, MAIN, stored_companion, record.version)

    async def enabled(self) -> KnownAgent:
        """Return the main agent. Raises NotFound, AgentDisabled if its user disabled it."""
        main = await self.main()
        if not main.stored.enabled:
            raise AgentDisabled(way_out='the user has disabled it: PUT /v1/agent/config with {"enabled": true}')
        return main

    async def answering(self) -> KnownAgent:
        """Return the main agent, or before `init` one with the server's settings. Raises AgentDisabled."""
        try:
            return await self.enabled()
        except AgentDisabled:
            raise
        except NotFound:
            return KnownAgent("", MAIN, StoredCompanion(id="", created_at=self.memory.context.clock.now()), 0)

    def queue(self, thread: str, /) -> ThreadQueue:
        """Return the queue of a thread, which all processes on the store share."""
        return ThreadQueue(self.records, self.memory.context.clock, thread)

    async def is_taken(self, thread: str, /) -> bool:
        """Return whether a process is running the thread."""
        head, _ = await self.journal(thread).head(thread)
        return holds_thread(head.lease, self.memory.context.clock.now())

    def journal(self, thread: str, /) -> RunJournal:
        """Return the journal of a thread."""
        return RunJournal(self.memory, self.records, in_thread(self.scope, thread), agent=thread, by="")

    async def agent(self, agent_id: str | None, /) -> KnownAgent:
        """Return an agent by id, or the main one for None. Raises AgentDisabled, NotFound."""
        main = await self.enabled()
        if agent_id is None or agent_id == main.id:
            return main
        return await self.subagent(agent_id, main=main)

    async def subagent(self, agent_id: str, /, *, main: KnownAgent | None = None) -> KnownAgent:
        """Return a subagent by id. Raises AgentDisabled, NotFound."""
        for known_agent in await self.known_subagents(main=main):
            if known_agent.id == agent_id:
                return known_agent
        raise NotFound(what="agent", name=agent_id)

    async def known_subagents(
        self, *, created_by: SubagentCreator | None = None, main: KnownAgent | None = None
    ) -> Sequence[KnownAgent]:
        """Return the subagents by name. Raises AgentDisabled, NotFound."""
        main = main or await self.enabled()
        return [_known_subagent(main, subagent) for subagent in await self.subagents.list(created_by=created_by)]

    async def make_subagent(self, request: SubagentRequest, /) -> KnownAgent:
        """Return the subagent with this name, and create it if it does not exist.

        Raises AgentDisabled, NotFound, LimitExceeded.
        """
        main = await self.enabled()
        subagent = Subagent(name=request.name, purpose=request.purpose, memory=request.memory)
        return _known_subagent(main, await self.subagents.create(subagent))

    async def removal(self, agent: KnownAgent, /) -> "RemovalPlan":
        """Return what deleting an agent would erase. For the main agent, that includes what its agents share."""
        from elytron_agent.loop.removal import RemovalPlan, SharedMemory

        shared_memory = SharedMemory.KEPT if agent.subagent is not None else SharedMemory.ERASED
        try:
            return await self._removal("").plan(agent.name, shared=shared_memory)
        except NotFound:
            # A subagent that has never been used has only its name.
            return RemovalPlan((agent.name,), {}, frozenset(), frozenset())

    async def delete(self, agent: KnownAgent, /) -> "RemovalPlan":
        """Erase an agent and return what was erased. Other conversations remain."""
        plan = await self.removal(agent)
        await self._removal("").carry_out(plan)
        if agent.subagent is not None:
            await self.subagents.delete(agent.subagent.name)
        return plan

    def _removal(self, reason: str) -> "ThreadRemoval":
        from elytron_agent.loop.removal import ThreadRemoval

        return ThreadRemoval(self.memory, self.records, self.scope, reason)

    async def clear(self, agent: KnownAgent, /) -> int:
        """Erase the conversation of an agent's thread and return the number of erased memories. The agent remains."""
        removal = self._removal("its conversation was deleted")
        memory_ids = [memory_id async for memory_id in removal.memories_in(agent.name)]
        await removal.erase(memory_ids)
        await self.journal(agent.name).drop_welcome(agent.name)
        return len(memory_ids)

    async def config(self, agent: KnownAgent, /) -> AgentConfig:
        """Return the effective settings of the main agent."""
        return config_of(agent, self.settings)

    async def change_config(self, change: ConfigChange, /) -> AgentConfig:
        """Change the given settings and return all. Raises InvalidInput for an unknown model, NotFound."""
        models = tuple(map(shown_model, self.settings.models))
        if change.model and change.model not in models:
            model_names = ", ".join(models)
            raise InvalidInput(field="model", problem=f"is not one of this server's models: use {model_names}")
        changes = {name: value for name, value in change if value is not None}
        # An empty text resets a setting to the server's default.
        field_updates = {name: value if value != "" else None for name, value in changes.items()}
        while True:
            main = await self.main()
            companion = main.stored.model_copy(update=field_updates)
            try:
                await self.records.put(
                    _config_place(), CONFIG, _stored_form(companion), text="an agent", expected_version=main.version
                )
            except PreconditionFailed:
                continue
            return config_of(await self.main(), self.settings)

    async def preferences(self) -> UserPreferences:
        """Return the user's preferences."""
        return await self._journal.preferences() or UserPreferences()

    async def change_preferences(self, change: PreferencesChange, /) -> UserPreferences:
        """Change the given preferences and return all."""
        changes = {name: value for name, value in change if value is not None}
        preferences = (await self.preferences()).model_copy(update=changes)
        await self._journal.put_preferences(preferences)
        return preferences

    async def answer_of(self, agent: KnownAgent, /, *, health: ModelHealth = ModelHealth.UNKNOWN) -> AgentAnswer:
        """Return an agent in its public form."""
        subagent = agent.subagent
        blocks = await BlockRepository(self.memory).list() if subagent is None else ()
        runs = (await self._journal.head(agent.name))[0].runs if subagent is None else 0
        is_first = subagent is None and is_first_time(runs, shown_blocks(blocks))
        welcome = await self._journal.welcome(agent.name) if is_first and not runs else None
        return AgentAnswer(
            id=agent.id,
            kind="main" if subagent is None else "subagent",
            conversation_id=agent.id,
            name=subagent.name if subagent is not None else None,
            purpose=subagent.purpose if subagent is not None else None,
            created_by=subagent.created_by if subagent is not None else SubagentCreator.USER,
            memory=subagent.memory if subagent is not None else MemoryMode.SHARED,
            created_at=agent.stored.created_at,
            preferences=await self.preferences(),
            is_first_time=is_first,
            welcome=welcome.texts if welcome is not None else (),
            model_health=health,
        )

    async def has_broken_run(self, agent: KnownAgent, /) -> bool:
        """Return whether the thread has an unfinished run that no process is running."""
        head, _ = await self.journal(agent.name).head(agent.name)
        return head.open is not None and not holds_thread(head.lease, self.memory.context.clock.now())

    async def window(self, agent: KnownAgent, /) -> tuple[str, ...]:
        """Return the runs in an agent's window, oldest first."""
        return (await self.journal(agent.name).head(agent.name))[0].window

    async def run_record(self, agent: KnownAgent, run: str, /) -> RunRecord | None:
        """Return the stored record of an agent's run, or None if there is none."""
        return await RunJournal(self.memory, self.records, self.scope, agent=agent.name, by="").load(run)

    def items(self, agent: KnownAgent, /) -> ThreadItems:
        """Return the items of an agent's thread."""
        return ThreadItems(self.memory, self.records, self.scope, agent=agent.name)


def config_of(agent: KnownAgent, settings: ServiceSettings, /) -> AgentConfig:
    """Return the effective settings of an agent with the server's defaults."""
    stored_companion = agent.stored
    model = settings.model_named(stored_companion.model)
    max_tokens = _usual_tokens(model, settings)
    uses_optimised_prompt = stored_companion.optimised_prompt and AgentPart.PROMPT not in settings.off
    return AgentConfig(
        enabled=stored_companion.enabled,
        model=shown_model(model),
        models=tuple(map(shown_model, settings.models)),
        system_prompt=stored_companion.system_prompt or (settings.prompt if uses_optimised_prompt else None),
        max_context_tokens=min(stored_companion.max_context_tokens or max_tokens, max_tokens),
        compaction_threshold=stored_companion.compaction_threshold or turn_limits.COMPACTION_THRESHOLD,
        tools=stored_companion.tools and AgentPart.TOOLS not in settings.off,
        compaction=stored_companion.compaction and AgentPart.COMPACTION not in settings.off,
        optimised_prompt=uses_optimised_prompt,
        version=agent.version,
    )


def _usual_tokens(model: str, settings: ServiceSettings) -> int:
    if settings.context_tokens is not None:
        return settings.context_tokens
    is_local = model.startswith("ollama:")
    return LOCAL_CONTEXT_TOKENS if is_local else limits.MAX_CONTEXT_TOKENS


def _known_subagent(main: KnownAgent, subagent: Subagent) -> KnownAgent:
    digest = hashlib.sha256(f"{main.id}/{subagent.name}".encode()).hexdigest()
    return KnownAgent(digest[:32], f"{MAIN}/{subagent.name}", main.stored, main.version, subagent)


def _config_place() -> tuple[str, ...]:
    return (AGENTS, MAIN, "companion")


def _stored_form(value: Value) -> Any:
    return value.model_dump(mode="json", exclude_none=True)
