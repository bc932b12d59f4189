"""mem0's classes: `Memory` and `AsyncMemory` over a store, `MemoryClient` and `AsyncMemoryClient` over a server.

Both generations of mem0's arguments are accepted: ids as keywords (1.x) and in `filters` (2.x).
"""

import asyncio
from collections.abc import Awaitable, Coroutine, Mapping
from typing import TYPE_CHECKING, Any, Final, NoReturn, Self, TypeVar, cast

from elytron.api import MemoryFace
from elytron.api.calls import BlockingCalls, Messages, When, blocking_call
from elytron.api.faces.mem0 import delete_all
from elytron.runtime import BlockingMemory
from elytron_core.contracts.maintenance.maintenance import MemoryMaintainRequest
from elytron_core.contracts.memories import ControlOutcome, HistoryEvent, HistoryItem, MemoryEraseRequest
from elytron_core.contracts.recall import RecallHit
from elytron_core.contracts.transcript import MemoryWriteRequest, WriteOutcome
from elytron_core.errors import InvalidInput, NotFound, ScopeMissing
from elytron_core.planes.transcript import EDIT_OF
from elytron_core.scope import Scope
from elytron_integrations.mem0.config import SERVER, server_opening, store_opening
from elytron_integrations.mem0.requests import (
    SHARED_SPACE,
    Mem0Answer,
    absent_name,
    draft_messages,
    drop_unchanging,
    history_answer,
    mem0_arguments,
    memory_answer,
    public_id,
    scope_of_call,
    split_id,
    stored_answer,
)

ResultT = TypeVar("ResultT")
_EVENTS: Final = {WriteOutcome.STORED: "ADD", WriteOutcome.UPDATED: "UPDATE"}


class AsyncMemory:
    """mem0's `AsyncMemory`, stored in the file memory.db or wherever its config says.

    With `user_id`, the object belongs to one user and never reads or changes another user's memories, whatever id is
    passed.
    """

    def __init__(
        self, config: object = None, *, user_id: str | None = None, opening: Awaitable[MemoryFace] | None = None
    ) -> None:
        self._opening = opening if opening is not None else store_opening(config)
        self._owner = user_id
        self._face: MemoryFace | None = None
        self._lock = asyncio.Lock()

    @classmethod
    def from_config(cls, config_dict: Mapping[str, Any], *, user_id: str | None = None) -> Self:
        """Return a memory on the store in `vector_store`, if its provider is "elytron".

        Its config takes `path` and the options of `elytron.open`.
        """
        return cls(config_dict, user_id=user_id)

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> NoReturn:
            raise absent_name(self, name)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def open_face(self) -> MemoryFace:
        """Return the underlying memory, which the first call opens."""
        async with self._lock:
            if self._face is None:
                self._face = await self._opening
        return self._face

    @mem0_arguments
    async def add(
        self,
        messages: Messages,
        *,
        metadata: Mapping[str, Any] | None = None,
        timestamp: When | None = None,
        infer: bool = True,
        filters: Mapping[str, Any] | None = None,
        **ids: Any,
    ) -> Mem0Answer:
        """Store each message once, and with `infer` what the language model or the rules extract from it.

        `ids` are user_id, agent_id and run_id; at least one is required. The event of an already stored message is
        NONE.
        """
        scope = scope_of_call("add", self._owner, filters, **ids).scope
        write = draft_messages(messages, scope, metadata=metadata, timestamp=timestamp)
        face = await self.open_face()
        report = await face.write(MemoryWriteRequest(scope=scope, write=write))
        results = [
            stored_answer(turn, decision, scope.space, _EVENTS.get(decision.outcome, "NONE"))
            for turn, decision in zip(write.turns, report.decisions, strict=True)
        ]
        if infer and report.changed:
            for decision in (await face.maintain(MemoryMaintainRequest(scope=scope))).decisions:
                if decision.id is not None and decision.outcome in _EVENTS:
                    hit = await face.get(decision.id, user_id=scope.space)
                    answer = {"id": public_id(scope.space, hit.id), "memory": hit.text}
                    results.append({**answer, "event": _EVENTS[decision.outcome]})
        return {"results": results}

    @mem0_arguments
    async def search(
        self,
        query: str,
        *,
        limit: int | None = None,
        top_k: int | None = None,
        threshold: float | None = None,
        filters: Mapping[str, Any] | None = None,
        **ids: Any,
    ) -> Mem0Answer:
        """Find memories that answer the query within these ids, best first."""
        part = scope_of_call("search", self._owner, filters, **ids)
        report = await (await self.open_face()).recall(
            query,
            limit=_bounded_count(limit, top_k, default=20),
            filters=part.filters,
            min_score=threshold or 0.0,
            user_id=part.space,
        )
        return {"results": [await self._answer(hit, part.space, score=hit.score) for hit in report.hits]}

    @mem0_arguments
    async def get_all(
        self,
        *,
        limit: int | None = None,
        top_k: int | None = None,
        page: int | None = None,
        page_size: int | None = None,
        filters: Mapping[str, Any] | None = None,
        **ids: Any,
    ) -> Mem0Answer:
        """Return the memories of these ids, or one page of them with the numbers of the next and previous pages."""
        part = scope_of_call("get_all", self._owner, filters, **ids)
        count = _bounded_count(limit, top_k, page_size, default=100)
        number = page if page is not None else 1
        if not isinstance(cast("object", number), int) or number < 1:
            raise InvalidInput(field="page of get_all()", problem="must be a whole number from 1")
        face = await self.open_face()
        report = await face.list(limit=count, filters=part.filters, user_id=part.space)
        for _ in range(1, number):
            if not report.has_more:
                return {"results": [], "next": None, "previous": number - 1}
            cursor = report.next_cursor
            report = await face.list(limit=count, cursor=cursor, filters=part.filters, user_id=part.space)
        pages = {"next": number + 1 if report.has_more else None, "previous": number - 1 or None}
        results = [await self._answer(hit, part.space) for hit in report.items]
        return {"results": results} | (pages if page is not None or page_size is not None else {})

    @mem0_arguments
    async def get(self, memory_id: str) -> Mem0Answer | None:
        """Return one memory by its id, or None if this object's memory does not contain it."""
        space, versions = await self._versions(memory_id)
        if not versions:
            return None
        hit = await (await self.open_face()).get(versions[-1].id, user_id=space)
        return await self._answer(hit, space, score=None)

    @mem0_arguments
    async def update(
        self,
        memory_id: str,
        text: str | None = None,
        metadata: Mapping[str, Any] | None = None,
        *,
        data: str | None = None,
    ) -> Mem0Answer:
        """Replace a memory's text. The earlier text stays in its history. Raises NotFound."""
        content = text if text is not None else data
        if metadata is not None or content is None:
            raise InvalidInput(
                field="update()", problem="takes a text; to change metadata, delete the memory and add it again"
            )
        space, versions = await self._versions(memory_id, must_exist=True)
        await (await self.open_face()).correct(versions[-1].id, content, user_id=space)
        return {"message": "Memory updated successfully!"}

    @mem0_arguments
    async def delete(self, memory_id: str) -> Mem0Answer:
        """Erase a memory and all its versions. Raises NotFound."""
        space, versions = await self._versions(memory_id, must_exist=True)
        await (await self.open_face()).erase([version.id for version in versions], user_id=space)
        return {"message": "Memory deleted successfully!"}

    @mem0_arguments
    async def delete_all(
        self,
        user_id: str | None = None,
        agent_id: str | None = None,
        run_id: str | None = None,
        *,
        filters: Mapping[str, Any] | None = None,
    ) -> Mem0Answer:
        """Erase a user's memory, or an agent's or run's part of it, including what was derived from that part."""
        scope = scope_of_call(
            "delete_all", self._owner, filters, user_id=user_id, agent_id=agent_id, run_id=run_id
        ).scope
        face = await self.open_face()
        report = await delete_all(face, user_id=scope.space, agent_id=scope.agent, run_id=scope.conversation)
        if report.derived:
            await face.erase(report.derived, user_id=scope.space)
        return {"message": "Memories deleted successfully!"}

    delete_users = delete_all

    @mem0_arguments
    async def users(self) -> Mem0Answer:
        """Return the users who have a memory. On a server, only an operator's key may list them."""
        names = [self._owner] if self._owner is not None else []
        cursor = None
        while self._owner is None:
            report = await (await self.open_face()).spaces(cursor=cursor)
            names += [space.space for space in report.spaces if space.space != SHARED_SPACE]
            cursor = report.next_cursor
            if cursor is None:
                break
        return {"results": [{"name": name, "type": "user"} for name in names]}

    @mem0_arguments
    async def history(self, memory_id: str) -> list[Mem0Answer]:
        """Return a memory's versions, oldest first; a deleted memory has none."""
        space, versions = await self._versions(memory_id)
        if not versions:
            return []
        hit = await (await self.open_face()).get(versions[-1].id, user_id=space)
        return history_answer(versions, memory_id, hit)

    @mem0_arguments
    async def reset(self, *, user_id: str | None = None) -> Mem0Answer:
        """Erase everything of one user: `user_id`, or the user that this object was opened for."""
        if user_id is None and self._owner is None:
            raise ScopeMissing(operation="reset", way_out="pass the user_id whose memory is to be erased")
        return await self.delete_all(user_id=user_id)

    async def close(self) -> None:
        """Close the underlying memory."""
        if self._face is not None:
            await self._face.close()

    async def _answer(self, hit: RecallHit, space: str, /, **more: Any) -> Mem0Answer:
        """Return a memory in mem0's form. An edited one is returned under its first id."""
        is_edited = EDIT_OF in hit.metadata
        versions = (await self._versions(public_id(space, hit.id)))[1] if is_edited else []
        return memory_answer(hit, space, versions[0].id if versions else hit.id, **more)

    async def _versions(self, memory_id: str, *, must_exist: bool = False) -> tuple[str, list[HistoryItem]]:
        """Return a memory's space and versions, oldest first, or no versions if it does not belong to this object.

        With `must_exist`, raises NotFound instead of returning no versions.
        """
        space, memory = split_id(memory_id, self._owner)
        versions: dict[str, HistoryItem] = {}
        if memory:
            face = await self.open_face()
            # The versions are exactly what an erasure would remove.
            report = await face.operate(MemoryEraseRequest(scope=Scope(space=space), ids=(memory,), dry_run=True))
            for decision in report.decisions:
                if decision.outcome is not ControlOutcome.NOT_FOUND:
                    history = await face.history(decision.id, user_id=space)
                    versions |= {item.id: item for item in history.items if item.event is HistoryEvent.ADDED}
        if must_exist and not versions:
            way_out = None if space else "ids come from add, search and get_all, also those of imported memories"
            raise NotFound(what="memory", name=memory_id, way_out=way_out)
        return space, sorted(versions.values(), key=lambda version: version.id)


class AsyncMemoryClient(AsyncMemory):
    """mem0's `AsyncMemoryClient`, for an Elytron server at `host` and one of its access keys.

    Without `api_key`, the key is read from ELYTRON_API_KEY.
    """

    def __init__(
        self, api_key: str | None = None, host: str | None = SERVER, *, user_id: str | None = None, **others: Any
    ) -> None:
        drop_unchanging("MemoryClient", others, ("api_key", "host", "user_id"))
        super().__init__(user_id=user_id, opening=server_opening(api_key, host))


class BlockingMem0Calls(BlockingCalls):
    """mem0's calls in blocking form."""

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> NoReturn:
            raise absent_name(self, name)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __init__(self, memory: AsyncMemory, /) -> None:
        self.runtime = memory
        self._blocking: BlockingMemory[MemoryFace] = BlockingMemory(memory.open_face())

    def run(self, call: Coroutine[Any, Any, ResultT], /) -> ResultT:
        """Run `call` on the memory's event loop and return its result."""
        return self._blocking.run(call)

    add = blocking_call(AsyncMemory.add)
    search = blocking_call(AsyncMemory.search)
    get_all = blocking_call(AsyncMemory.get_all)
    get = blocking_call(AsyncMemory.get)
    update = blocking_call(AsyncMemory.update)
    delete = blocking_call(AsyncMemory.delete)
    delete_all = delete_users = blocking_call(AsyncMemory.delete_all)
    users = blocking_call(AsyncMemory.users)
    history = blocking_call(AsyncMemory.history)
    reset = blocking_call(AsyncMemory.reset)

    def close(self) -> None:
        """Close the underlying memory. If this is not called, the memory is closed when the interpreter exits."""
        self._blocking.close()


class SyncMemory(BlockingMem0Calls):
    """mem0's `Memory`: `AsyncMemory` with blocking calls."""

    def __init__(self, config: object = None, *, user_id: str | None = None) -> None:
        super().__init__(AsyncMemory(config, user_id=user_id))

    @classmethod
    def from_config(cls, config_dict: Mapping[str, Any], *, user_id: str | None = None) -> Self:
        """Return a memory on the store named in the config, like `AsyncMemory.from_config`."""
        return cls(config_dict, user_id=user_id)


Memory = SyncMemory


class MemoryClient(BlockingMem0Calls):
    """mem0's `MemoryClient`: `AsyncMemoryClient` with blocking calls."""

    def __init__(
        self, api_key: str | None = None, host: str | None = SERVER, *, user_id: str | None = None, **others: Any
    ) -> None:
        super().__init__(AsyncMemoryClient(api_key, host, user_id=user_id, **others))


def _bounded_count(*counts: int | None, default: int) -> int:
    """Return the requested number of memories, given under any of its names."""
    numbers = {count for count in counts if count is not None}
    if len(numbers) > 1:
        raise InvalidInput(field="limit, top_k and page_size", problem="are different numbers: pass only one of them")
    return numbers.pop() if numbers else default
