"""Delete an agent: its threads, runs, settings, own blocks and conversations."""

from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from elytron.api import MemoryFace
from elytron.runtime_records import RuntimeRecords
from elytron_agent.agent_file.document import HEAD, ImportedShell
from elytron_agent.blocks.archive import ArchivalMemory
from elytron_agent.blocks.block_repository import namespace_of
from elytron_agent.loop.tools import SubagentRepository
from elytron_agent.runs.journal import RunJournal, journal_of
from elytron_agent.runs.thread_notes import AGENTS
from elytron_core import limits
from elytron_core.contracts.memories import HiddenFilter, MemoryEraseRequest, MemoryListRequest
from elytron_core.contracts.recall import RecallFilters
from elytron_core.contracts.records import RecordSearchRequest
from elytron_core.errors import InvalidInput, NotFound
from elytron_core.model import Value
from elytron_core.planes.records import COPIES_OF_BLOCKS, Record, copies_of_conversation, copies_of_turn
from elytron_core.scope import Scope

_RUNS: Final = copies_of_turn("", "")[0]


class SharedMemory(StrEnum):
    """What happens to the blocks and archival memories that agents of a space share when one of them is deleted."""

    KEPT = "kept"
    ERASED = "erased"


class AgentRemoval(Value):
    """Report of a permanent deletion. `agents` are the agent and its subagents."""

    agents: tuple[str, ...]
    records: int = 0
    """Documents of runs and threads, settings, own blocks, and parts of an agent file."""
    memories: int = 0
    """Turns of its threads and of its own archive, and other memories of its conversations."""
    dry_run: bool = False


@dataclass(frozen=True, slots=True)
class RemovalPlan:
    """Everything that deleting an agent erases: places of documents, and ids of blocks and memories."""

    agents: tuple[str, ...]
    records: Mapping[tuple[tuple[str, ...], str], Record]
    blocks: frozenset[str]
    memories: frozenset[str]

    def report(self, *, earlier: "RemovalPlan | None" = None, dry_run: bool = False) -> AgentRemoval:
        """Return the report of the plan.

        Anything that only an `earlier` plan contains was erased meanwhile and counts too.
        """
        plans = (self,) if earlier is None else (self, earlier)
        documents = {document_place for plan in plans for document_place in (*plan.records, *plan.blocks)}
        memories = {memory_id for plan in plans for memory_id in plan.memories}
        return AgentRemoval(agents=self.agents, records=len(documents), memories=len(memories), dry_run=dry_run)


async def delete_agent(
    memory: MemoryFace,
    name: str,
    /,
    *,
    reason: str = "",
    dry_run: bool = False,
    journal: MemoryFace | None = None,
    shared: SharedMemory = SharedMemory.KEPT,
) -> AgentRemoval:
    """Erase an agent and its subagents: their threads, runs, settings, own blocks and conversations.

    Blocks and archival memories that agents share remain unless `shared` says otherwise. Facts derived from the
    conversations remain, because they are about the user. Repeat the call if it was interrupted. `journal` is the
    agent's journal. Raises NotFound if there is no such agent, and the memory's errors.
    """
    if memory.scope is None:
        raise InvalidInput(field="memory", problem="has no space: open it with one")
    removal = ThreadRemoval(memory, journal_of(memory, journal), memory.scope, reason)
    plan = await removal.plan(name, shared=shared)
    if not dry_run:
        await removal.carry_out(plan)
    return plan.report(dry_run=dry_run)


def _namespaces_of(agent: str) -> tuple[tuple[str, ...], ...]:
    """Return the namespaces that contain an agent's documents, with the one of the thread's head last."""
    return ((*COPIES_OF_BLOCKS, agent), copies_of_conversation(agent), (AGENTS, agent))


class ThreadRemoval:
    """Find and erase everything that belongs to agents of one space."""

    def __init__(self, memory: MemoryFace, records: RuntimeRecords, scope: Scope, reason: str) -> None:
        self.records = records
        self._memory = memory
        self._scope = scope
        self._reason = reason
        self._journal = RunJournal(memory, records, scope, agent="", by="")

    async def plan(self, name: str, /, *, shared: SharedMemory = SharedMemory.KEPT) -> RemovalPlan:
        """Return what deleting the agent would erase now. Raises NotFound if there is no such agent."""
        agents = await self.with_subagents(name)
        runs = await self.runs_of(frozenset(agents))
        namespaces = [namespace for agent in agents for namespace in _namespaces_of(agent)]
        records = [record for namespace in (*runs, *namespaces) async for record in self.records.below(namespace)]
        owners = [*agents, *([None] if shared is SharedMemory.ERASED else [])]
        blocks = [block for agent in owners async for block in self.blocks_of(agent)]
        memories = [memory for agent in owners async for memory in self.memories_of(agent)]
        if not records and not blocks and not memories:
            raise NotFound(what="agent", name=name)
        records_by_place = {(record.namespace, record.key): record for record in records}
        return RemovalPlan(tuple(agents), records_by_place, frozenset(blocks), frozenset(memories))

    async def carry_out(self, plan: RemovalPlan, /) -> None:
        """Erase everything that a plan contains."""
        # Documents with the head of the thread go last, so that a repeated call can find the rest.
        await self.erase(sorted({*plan.memories, *plan.blocks}))
        await self.records.erase(list(plan.records.values()))

    async def with_subagents(self, name: str) -> list[str]:
        """Return the agent and all agents below it."""
        import_head = await ImportedShell(self.records, name).get(HEAD)
        file_agents: list[str] = import_head["agents"] if import_head is not None else []
        agents = list(dict.fromkeys((name, *file_agents)))
        # The list grows during the loop, because subagents may have subagents.
        for agent in agents:
            subagents = await SubagentRepository(self.records, agent=agent).list()
            agents += [
                subagent_name for subagent in subagents if (subagent_name := f"{agent}/{subagent.name}") not in agents
            ]
        return agents

    async def runs_of(self, agents: frozenset[str]) -> list[tuple[str, ...]]:
        """Return the namespaces of the runs of these agents."""
        run_namespaces = {
            record.namespace async for record in self.records.below() if record.namespace[0].startswith(_RUNS)
        }
        return [run_namespace for run_namespace in sorted(run_namespaces) if run_namespace[-1] in agents]

    async def blocks_of(self, agent: str | None) -> AsyncIterator[str]:
        """Yield the ids of an agent's own blocks, or of the shared blocks for None."""
        namespace = namespace_of(agent)
        offset = 0
        while True:
            request = RecordSearchRequest(
                scope=self._scope,
                namespace=namespace,
                limit=limits.PAGE_MAX,
                offset=offset,
                include_private=True,
            )
            page = await self._memory.search_records(request)
            for item in page.items:
                yield item.id
            offset += len(page.items)
            if not page.has_more:
                return

    async def memories_of(self, agent: str | None) -> AsyncIterator[str]:
        """Yield the ids of the turns in an agent's thread and own archive, and of these conversations' other memories.

        For None, yield those of the archive that agents share.
        """
        archive_conversation = ArchivalMemory(self._memory, agent=agent).conversation
        async for memory_id in self.memories_in(
            *((archive_conversation,) if agent is None else (agent, archive_conversation))
        ):
            yield memory_id

    async def memories_in(self, *conversations: str) -> AsyncIterator[str]:
        """Yield the ids of the turns and other memories of conversations."""
        filters = RecallFilters(channels=(self._scope.channel,), conversations=conversations)
        cursor: str | None = None
        while True:
            request = MemoryListRequest(
                scope=self._scope,
                filters=filters,
                hidden=HiddenFilter.LISTED,
                limit=limits.PAGE_MAX,
                cursor=cursor,
                include_private=True,
            )
            page = await self._memory.list(request)
            for item in page.items:
                yield item.id
            cursor = page.next_cursor
            if cursor is None:
                return

    async def erase(self, ids: list[str]) -> None:
        """Erase memories by id."""
        for start in range(0, len(ids), limits.WRITES_PER_REQUEST):
            id_batch = tuple(ids[start : start + limits.WRITES_PER_REQUEST])
            await self._memory.erase(MemoryEraseRequest(scope=self._scope, ids=id_batch, reason=self._reason))
