"""Subagents: who they are, what for, and whose memory they have."""

from enum import StrEnum
from operator import attrgetter
from typing import Annotated

from pydantic import Field

from elytron.runtime_records import RuntimeRecords
from elytron_agent.runs import limits
from elytron_agent.runs.journal import AGENTS
from elytron_core.errors import LimitExceeded, NotFound, PreconditionFailed
from elytron_core.model import Request
from elytron_core.scope import Name


class MemoryMode(StrEnum):
    """Memory of a subagent."""

    SHARED = "shared"
    """That of the main agent: its blocks, and what was said anywhere."""
    OWN = "own"
    """Blocks of its own, and what was said with it."""


class Creator(StrEnum):
    """Creator of a subagent."""

    USER = "user"
    AGENT = "agent"


class Subagent(Request):
    """An agent with a purpose and a thread of its own."""

    name: Annotated[Name, Field(max_length=limits.SUBAGENT_NAME_CHARS)]
    purpose: Annotated[str, Field(min_length=1, max_length=limits.SUBAGENT_PURPOSE_CHARS)]
    created_by: Creator = Creator.USER
    memory: MemoryMode = MemoryMode.SHARED


class SubagentShelf:
    """The subagents of one agent."""

    def __init__(self, records: RuntimeRecords, /, *, agent: str) -> None:
        self._records = records
        self._namespace = (AGENTS, agent, "subagents")

    async def create(self, wanted: Subagent, /) -> Subagent:
        """Store a subagent; one that is there already under its name stays as it is, and is returned.

        Raises LimitExceeded.
        """
        found = await self.list()
        if len(found) >= limits.SUBAGENTS and all(each.name != wanted.name for each in found):
            raise LimitExceeded(what="subagents of an agent", limit=limits.SUBAGENTS, found=len(found) + 1)
        value = wanted.model_dump(mode="json")
        try:
            await self._records.put(self._namespace, wanted.name, value, text="a subagent", expected_version=0)
        except PreconditionFailed:
            return await self.read(wanted.name)
        return wanted

    async def read(self, name: str, /) -> Subagent:
        """Return a subagent. Raises NotFound."""
        found = await self._records.get(self._namespace, name)
        if found is None:
            raise NotFound(what="subagent", name=name)
        return Subagent.model_validate(found.value)

    async def list(self, *, created_by: Creator | None = None) -> tuple[Subagent, ...]:
        """Return the subagents by name; with `created_by`, those that it made."""
        found = [Subagent.model_validate(each.value) async for each in self._records.below(self._namespace)]
        return tuple(
            each
            for each in sorted(found, key=attrgetter("name"))
            if created_by is None or each.created_by is created_by
        )
