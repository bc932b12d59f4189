"""The everyday calls under mem0's names."""

from collections.abc import Mapping
from typing import Any

from elytron.api import calls
from elytron.api.calls import CallFace, blocking_call
from elytron.api.faces.everyday import BlockingEveryday, EverydayFace
from elytron_core import limits
from elytron_core.contracts import memories, recall
from elytron_core.contracts.memories import (
    ControlDecision,
    HiddenFilter,
    MemoryControlReport,
    MemoryEraseRequest,
    MemoryListRequest,
)
from elytron_core.errors import ScopeMissing


async def delete_all(
    memory: CallFace, /, *, user_id: str | None, agent_id: str | None, run_id: str | None
) -> MemoryControlReport:
    """Erase the memories of the ids; a call without ids is rejected, so that an omission does not erase everything."""
    scope = calls.scope_of(memory.scope, user_id=user_id)
    if user_id is None and agent_id is None and run_id is None:
        raise ScopeMissing(operation="delete_all", way_out="pass a user_id, agent_id or run_id, or erase a whole space")
    if scope is None:
        raise ScopeMissing(operation="delete_all", way_out=calls.NO_USER)
    if agent_id is None and run_id is None:
        return await memory.operate(MemoryEraseRequest(scope=scope, whole_space=scope.space))
    _, filters = calls.narrowed_by(None, agent_id=agent_id, run_id=run_id)
    decisions: list[ControlDecision] = []
    removed_counts: dict[str, int] = {}
    derived_ids: list[str] = []
    sequence = 0
    while True:
        list_request = MemoryListRequest(
            scope=scope,
            limit=limits.WRITES_PER_REQUEST,
            filters=filters,
            hidden=HiddenFilter.LISTED,
            include_private=True,
        )
        page = await memory.operate(list_request)
        if not page.items:
            break
        erase_request = MemoryEraseRequest(scope=scope, ids=tuple(item.id for item in page.items))
        erase_report = await memory.operate(erase_request)
        decisions += erase_report.decisions
        derived_ids += erase_report.derived
        sequence = erase_report.sequence
        for name, count in erase_report.removed.items():
            removed_counts[name] = removed_counts.get(name, 0) + count
    return MemoryControlReport(
        space=scope.space,
        decisions=tuple(decisions),
        changed=bool(decisions),
        sequence=sequence,
        removed=removed_counts,
        derived=tuple(derived_ids),
    )


class Mem0Face(EverydayFace):
    """List, update and delete as mem0 calls them; `search` is another name of `recall`."""

    async def get_all(
        self,
        *,
        limit: int = 100,
        top_k: int | None = None,
        cursor: str | None = None,
        filters: recall.RecallFilters | Mapping[str, Any] | None = None,
        user_id: str | None = None,
        agent_id: str | None = None,
        run_id: str | None = None,
    ) -> memories.MemoryListReport:
        """Read memories a page at a time, by mem0's name.

        >>> _ = memory.add("The kiln fires at nine.", run_id="pottery")
        >>> [item.text for item in memory.get_all(run_id="pottery")]
        ['The kiln fires at nine.']
        """
        user_id, recall_filters = calls.narrowed_by(filters, user_id=user_id, agent_id=agent_id, run_id=run_id)
        page_limit = limit if top_k is None else top_k
        return await self.list(limit=page_limit, cursor=cursor, filters=recall_filters, user_id=user_id)

    async def update(self, memory_id: str, text: str, *, user_id: str | None = None) -> memories.MemoryControlReport:
        """Give a fact or a message another text, by mem0's name. Raises NotFound.

        A fact is corrected. A message is hidden and replaced by the edit, with its speaker and time, and the message's
        id as `edit_of` in its metadata. The report names the new memory as `new_id`; the earlier text stays in history.

        >>> memory.update(key, "The boat key hangs in the hall.").changed
        True
        >>> memory.recall("where is the boat key?")[0].text
        'The boat key hangs in the hall.'
        """
        return await self.correct(memory_id, text, user_id=user_id)

    async def delete(self, memory_id: str, *, user_id: str | None = None) -> memories.MemoryControlReport:
        """Erase one memory, by mem0's name. Raises NotFound.

        >>> memory.delete(key).changed
        True
        """
        await self.get(memory_id, include_private=True, user_id=user_id)
        return await self.erase(memory_id, user_id=user_id)

    async def delete_all(
        self, *, user_id: str | None = None, agent_id: str | None = None, run_id: str | None = None
    ) -> memories.MemoryControlReport:
        """Erase a user's space, or an agent's or run's part of it, by mem0's name. Raises ScopeMissing without any.

        >>> _ = memory.add("Table for two at eight.", agent_id="concierge")
        >>> len(memory.delete_all(agent_id="concierge").decisions)
        1
        """
        return await delete_all(self, user_id=user_id, agent_id=agent_id, run_id=run_id)


class BlockingMem0(BlockingEveryday):
    """The calls by mem0's names, blocking until their answer."""

    get_all = blocking_call(Mem0Face.get_all)
    update = blocking_call(Mem0Face.update)
    delete = blocking_call(Mem0Face.delete)
    delete_all = blocking_call(Mem0Face.delete_all)
