"""Search of what was said: in every conversation of the user, or in one."""

from collections.abc import Sequence
from typing import Final

from elytron.api import MemoryFace
from elytron_agent import limits
from elytron_agent.blocks.archive import NOT_ARCHIVAL, answering
from elytron_core.contracts.conditions import AnyOf, Condition
from elytron_core.contracts.knowledge.recall import Plane, RecallFilters, RecallHit
from elytron_core.planes.conversation.transcript import PRIVATE, STORE

_WITHHELD: Final = (
    AnyOf(conditions=(Condition(field=PRIVATE, values=(True,)), Condition(field=STORE, values=(False,)))),
)


async def search_conversations(
    memory: MemoryFace,
    query: str,
    /,
    *,
    limit: int = limits.CONVERSATION_HITS,
    conversation: str | None = None,
) -> Sequence[RecallHit]:
    """Return the messages and summaries that answer `query`, best first, of all conversations or of one.

    Private messages, which no recall finds unasked, and archival memories are left out. So is a summary of a
    conversation that has a private message.
    """
    filters = RecallFilters(
        planes=(Plane.TRANSCRIPT, Plane.SUMMARY),
        conversations=() if conversation is None else (conversation,),
        where=(NOT_ARCHIVAL,),
    )
    hits = answering(await memory.recall(query, limit=limit, filters=filters))
    summed_up = {hit.conversation for hit in hits if hit.plane is Plane.SUMMARY and hit.conversation is not None}
    withheld = {name for name in summed_up if await _has_withheld(memory, name)}
    return [hit for hit in hits if hit.plane is not Plane.SUMMARY or hit.conversation not in withheld]


async def _has_withheld(memory: MemoryFace, conversation: str) -> bool:
    filters = RecallFilters(planes=(Plane.TRANSCRIPT,), conversations=(conversation,), where=_WITHHELD)
    return bool((await memory.list(filters=filters, limit=1, include_private=True)).items)
