"""LangGraph's checkpointer over a memory: the state of threads at each step, and pending writes.

Checkpoints are stored in runtime records in the form LangGraph's serializer wrote them: recall does not find them, and
they are not accessible over the network. A thread's newest checkpoints are located by its heads, one per namespace.
"""

from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from typing import Any

from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import (
    WRITES_IDX_MAP,
    BaseCheckpointSaver,
    ChannelVersions,
    Checkpoint,
    CheckpointMetadata,
    CheckpointTuple,
    get_checkpoint_id,
    get_checkpoint_metadata,
    writes_sort_key,
)
from langgraph.checkpoint.serde.base import SerializerProtocol

from elytron.runtime_records import records_of
from elytron_core.errors import InvalidInput, ScopeMissing
from elytron_integrations.langgraph.checkpoint_records import (
    CheckpointEntry,
    StoredWrite,
    ThreadRecords,
    TypedBytes,
)
from elytron_integrations.user_memory import MemoryLoop, OpenMemory, space_scope


class ElytronSaver(BaseCheckpointSaver[int]):
    """Store checkpoints of LangGraph threads in one space of a memory.

    Accepts the memory of `async with elytron.open(...)` or `with elytron.open(...)`. Both serve `invoke` and `ainvoke`,
    but on its own event loop, an asyncio memory serves only `ainvoke`. Raises ScopeMissing without a space, and
    Unsupported for a memory on a server.
    """

    def __init__(
        self,
        memory: OpenMemory,
        /,
        *,
        space: str | None = None,
        serde: SerializerProtocol | None = None,
    ) -> None:
        super().__init__(serde=serde)
        self._loop = MemoryLoop(memory)
        records = records_of(self._loop.face, scope=space_scope(self._loop.face.scope, space, operation="ElytronSaver"))
        self._threads = ThreadRecords(records)

    async def aget_tuple(self, config: RunnableConfig) -> CheckpointTuple | None:
        """Return the checkpoint that `config` names, or the newest of its thread and namespace."""
        return await self._loop.run(self._find_tuple(config))

    async def alist(
        self,
        config: RunnableConfig | None,
        *,
        filter: dict[str, Any] | None = None,  # noqa: A002 - LangGraph's word
        before: RunnableConfig | None = None,
        limit: int | None = None,
    ) -> AsyncIterator[CheckpointTuple]:
        """Yield checkpoints, newest first; without `config`, those of every thread in the space."""
        for entry in await self._loop.run(self._list_entries(config, filter, before, limit)):
            checkpoint = await self._loop.run(self._load_tuple(entry))
            if checkpoint is not None:
                yield checkpoint

    async def aput(
        self,
        config: RunnableConfig,
        checkpoint: Checkpoint,
        metadata: CheckpointMetadata,
        new_versions: ChannelVersions,  # noqa: ARG002 - states are stored as a whole
    ) -> RunnableConfig:
        """Store a checkpoint and return the config that names it."""
        thread, namespace = _place_of(config)
        entry = CheckpointEntry(
            thread=thread,
            namespace=namespace,
            id=checkpoint["id"],
            parent=get_checkpoint_id(config),
            metadata=self._dump(get_checkpoint_metadata(config, metadata)),
        )
        await self._loop.run(self._threads.put_checkpoint(entry, self._dump(checkpoint)))
        return _config_of(entry, entry.id)

    async def aput_writes(
        self, config: RunnableConfig, writes: Sequence[tuple[str, Any]], task_id: str, task_path: str = ""
    ) -> None:
        """Store what a task wrote during a checkpoint's step. Writes that are already stored are not changed."""
        thread, namespace = _place_of(config)
        checkpoint_id = get_checkpoint_id(config)
        if checkpoint_id is None:
            raise InvalidInput(field="config", problem="has no checkpoint_id for the writes")
        stored_writes = [
            StoredWrite(
                task=task_id,
                path=task_path,
                index=WRITES_IDX_MAP.get(channel, index),
                channel=channel,
                value=self._dump(value),
            )
            for index, (channel, value) in enumerate(writes)
        ]
        await self._loop.run(self._threads.put_writes(thread, namespace, checkpoint_id, stored_writes))

    async def adelete_thread(self, thread_id: str) -> None:
        """Erase a thread's checkpoints and writes."""
        await self._loop.run(self._threads.erase_thread(str(thread_id)))

    async def adelete_for_runs(self, run_ids: Sequence[str]) -> None:
        """Erase all checkpoints and writes that these runs stored in any thread of the space."""
        await self._loop.run(self._erase_runs(frozenset(run_ids)))

    async def acopy_thread(self, source_thread_id: str, target_thread_id: str) -> None:
        """Copy all checkpoints and writes of a thread to another thread."""
        await self._loop.run(self._threads.copy_thread(str(source_thread_id), str(target_thread_id)))

    async def aprune(self, thread_ids: Sequence[str], *, strategy: str = "keep_latest") -> None:
        """Erase all checkpoints of threads ("delete"), or all but the newest of each namespace ("keep_latest").

        Earlier checkpoints that are required to rebuild a newest checkpoint's channels are preserved too.
        """
        if strategy not in {"keep_latest", "delete"}:
            raise InvalidInput(field="strategy", problem='must be "keep_latest" or "delete"')
        for thread_id in map(str, thread_ids):
            if strategy == "delete":
                await self._loop.run(self._threads.erase_thread(thread_id))
            else:
                await self._loop.run(self._prune_thread(thread_id))

    def get_tuple(self, config: RunnableConfig) -> CheckpointTuple | None:
        """Blocking form of `aget_tuple`."""
        return self._loop.wait(self.aget_tuple(config))

    def list(
        self,
        config: RunnableConfig | None,
        *,
        filter: dict[str, Any] | None = None,  # noqa: A002 - LangGraph's word
        before: RunnableConfig | None = None,
        limit: int | None = None,
    ) -> Iterator[CheckpointTuple]:
        """Blocking form of `alist`."""
        for entry in self._loop.wait(self._list_entries(config, filter, before, limit)):
            checkpoint = self._loop.wait(self._load_tuple(entry))
            if checkpoint is not None:
                yield checkpoint

    def put(
        self,
        config: RunnableConfig,
        checkpoint: Checkpoint,
        metadata: CheckpointMetadata,
        new_versions: ChannelVersions,
    ) -> RunnableConfig:
        """Blocking form of `aput`."""
        return self._loop.wait(self.aput(config, checkpoint, metadata, new_versions))

    def put_writes(
        self, config: RunnableConfig, writes: Sequence[tuple[str, Any]], task_id: str, task_path: str = ""
    ) -> None:
        """Blocking form of `aput_writes`."""
        self._loop.wait(self.aput_writes(config, writes, task_id, task_path))

    def delete_thread(self, thread_id: str) -> None:
        """Blocking form of `adelete_thread`."""
        self._loop.wait(self.adelete_thread(thread_id))

    def delete_for_runs(self, run_ids: Sequence[str]) -> None:
        """Blocking form of `adelete_for_runs`."""
        self._loop.wait(self.adelete_for_runs(run_ids))

    def copy_thread(self, source_thread_id: str, target_thread_id: str) -> None:
        """Blocking form of `acopy_thread`."""
        self._loop.wait(self.acopy_thread(source_thread_id, target_thread_id))

    def prune(self, thread_ids: Sequence[str], *, strategy: str = "keep_latest") -> None:
        """Blocking form of `aprune`."""
        self._loop.wait(self.aprune(thread_ids, strategy=strategy))

    async def _find_tuple(self, config: RunnableConfig) -> CheckpointTuple | None:
        entry = await self._threads.find_entry(*_place_of(config), get_checkpoint_id(config))
        return await self._load_tuple(entry) if entry is not None else None

    async def _list_entries(
        self,
        config: RunnableConfig | None,
        metadata: Mapping[str, Any] | None,
        before: RunnableConfig | None,
        limit: int | None,
    ) -> Sequence[CheckpointEntry]:
        """Return the entries that match the filters of `list`, newest first."""
        place = config.get("configurable", {}) if config is not None else {}
        thread_id, namespace = place.get("thread_id"), place.get("checkpoint_ns")
        entries = await self._threads.list_entries(None if thread_id is None else str(thread_id), namespace)
        first_id = get_checkpoint_id(config) if config is not None else None
        limit_id = get_checkpoint_id(before) if before is not None else None
        passing = (
            entry
            for entry in entries
            if first_id in {None, entry.id}
            and (limit_id is None or entry.id < limit_id)
            and (not metadata or metadata.items() <= self._load(entry.metadata).items())
        )
        return sorted(passing, key=lambda entry: entry.id, reverse=True)[:limit]

    async def _load_tuple(self, entry: CheckpointEntry) -> CheckpointTuple | None:
        """Return a checkpoint with its writes, or None if it was erased in the meantime."""
        state, writes = await self._threads.read_state(entry)
        if state is None:
            return None
        pending = sorted(writes, key=lambda write: writes_sort_key(write.path, write.task, write.index))
        return CheckpointTuple(
            config=_config_of(entry, entry.id),
            checkpoint=self._load(state),
            metadata=self._load(entry.metadata),
            parent_config=_config_of(entry, entry.parent) if entry.parent else None,
            pending_writes=[(write.task, write.channel, self._load(write.value)) for write in pending],
        )

    async def _erase_runs(self, runs: frozenset[str]) -> None:
        entries = await self._threads.list_entries(None, None) if runs else []
        await self._threads.erase_entries(
            [entry for entry in entries if self._load(entry.metadata).get("run_id") in runs]
        )

    async def _prune_thread(self, thread: str) -> None:
        entries = await self._threads.list_entries(thread, None)
        by_place = {(entry.namespace, entry.id): entry for entry in entries}
        newest = {entry.namespace: entry for entry in sorted(entries, key=lambda entry: entry.id)}
        remaining: set[tuple[str, str]] = set()
        for entry in newest.values():
            remaining.add((entry.namespace, entry.id))
            # Channels not stored as a whole since then are rebuilt from the writes of earlier steps.
            channels = set(self._load(entry.metadata).get("counters_since_delta_snapshot") or ())
            parent = by_place.get((entry.namespace, entry.parent or ""))
            while channels and parent is not None:
                remaining.add((parent.namespace, parent.id))
                state, _ = await self._threads.read_state(parent)
                channels -= self._load(state)["channel_values"].keys() if state is not None else set()
                parent = by_place.get((parent.namespace, parent.parent or ""))
        await self._threads.erase_entries([by_place[place] for place in by_place.keys() - remaining])

    def _dump(self, value: object) -> TypedBytes:
        return TypedBytes(*self.serde.dumps_typed(value))

    def _load(self, stored: TypedBytes) -> Any:
        return self.serde.loads_typed(stored)


def _place_of(config: RunnableConfig) -> tuple[str, str]:
    """Return the thread and the namespace in it. Raises ScopeMissing without a thread."""
    place = config.get("configurable", {})
    if place.get("thread_id") is None:
        raise ScopeMissing(operation="checkpoints", way_out='pass config={"configurable": {"thread_id": "..."}}')
    return str(place["thread_id"]), place.get("checkpoint_ns", "")


def _config_of(entry: CheckpointEntry, checkpoint_id: str) -> RunnableConfig:
    place = {"thread_id": entry.thread, "checkpoint_ns": entry.namespace, "checkpoint_id": checkpoint_id}
    return {"configurable": place}
