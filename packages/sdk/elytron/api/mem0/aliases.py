"""The everyday calls by the names that mem0's users know."""

from collections.abc import Mapping
from typing import Any

from elytron.api import arguments
from elytron.api.everyday import EverydayFace
from elytron.api.mem0.delete_all import delete_all
from elytron.api.mem0.update import update
from elytron_core.contracts.knowledge import control, recall


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
    ) -> control.MemoryListReport:
        """Read memories a page at a time, by mem0's name.

        >>> _ = memory.add("The kiln fires at nine.", run_id="pottery")
        >>> [item.text for item in memory.get_all(run_id="pottery")]
        ['The kiln fires at nine.']
        """
        user_id, narrowed = arguments.narrowed_by(filters, user_id=user_id, agent_id=agent_id, run_id=run_id)
        most = limit if top_k is None else top_k
        return await self.list(limit=most, cursor=cursor, filters=narrowed, user_id=user_id)

    async def update(self, memory_id: str, text: str, *, user_id: str | None = None) -> control.MemoryControlReport:
        """Give a fact or a message another text, by mem0's name. Raises NotFound.

        A fact is corrected. A message is hidden and the edit takes its place: of its speaker, at its time, with
        the message's id as `edit_of` in its metadata. The report names the new memory as `new_id`; the earlier text
        stays in history.

        >>> memory.update(key, "The boat key hangs in the hall.").changed
        True
        >>> memory.recall("where is the boat key?")[0].text
        'The boat key hangs in the hall.'
        """
        return await update(self, memory_id, text, user_id=user_id)

    async def delete(self, memory_id: str, *, user_id: str | None = None) -> control.MemoryControlReport:
        """Erase one memory, by mem0's name. Raises NotFound.

        >>> memory.delete(key).changed
        True
        """
        await self.get(memory_id, include_private=True, user_id=user_id)
        return await self.erase(memory_id, user_id=user_id)

    async def delete_all(
        self, *, user_id: str | None = None, agent_id: str | None = None, run_id: str | None = None
    ) -> control.MemoryControlReport:
        """Erase a user's space, or an agent's or run's part of it, by mem0's name. Raises ScopeMissing without any.

        >>> _ = memory.add("Table for two at eight.", agent_id="concierge")
        >>> len(memory.delete_all(agent_id="concierge").decisions)
        1
        """
        return await delete_all(self, user_id=user_id, agent_id=agent_id, run_id=run_id)
