"""Subagents: who they are, what for, and whose memory they have."""

from enum import StrEnum
from typing import Annotated

from pydantic import Field

from elytron.api import MemoryFace
from elytron_agent.runs import limits
from elytron_agent.runs.journal import AGENTS
from elytron_core.contracts.knowledge.records import RecordGetRequest, RecordPutRequest, RecordSearchRequest
from elytron_core.errors import LimitExceeded, NotFound, PreconditionFailed
from elytron_core.model import Request
from elytron_core.planes.knowledge.long_term import Privacy
from elytron_core.scope import Name, Scope


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

    def __init__(self, memory: MemoryFace, scope: Scope | None, /, *, agent: str) -> None:
        self._memory = memory
        self._scope = scope
        self._namespace = (AGENTS, agent, "subagents")

    async def create(self, wanted: Subagent, /) -> Subagent:
        """Store a subagent; one that is there already under its name stays as it is, and is returned.

        Raises LimitExceeded.
        """
        found = await self.list()
        if len(found) >= limits.SUBAGENTS and all(each.name != wanted.name for each in found):
            raise LimitExceeded(what="subagents of an agent", limit=limits.SUBAGENTS, found=len(found) + 1)
        request = RecordPutRequest(
            scope=self._scope,
            namespace=self._namespace,
            key=wanted.name,
            value=wanted.model_dump(mode="json"),
            text="a subagent",
            privacy=Privacy.PRIVATE,
            expected_version=0,
        )
        try:
            await self._memory.put_record(request)
        except PreconditionFailed:
            return await self.read(wanted.name)
        return wanted

    async def read(self, name: str, /) -> Subagent:
        """Return a subagent. Raises NotFound."""
        request = RecordGetRequest(scope=self._scope, namespace=self._namespace, key=name, include_private=True)
        try:
            report = await self._memory.get_record(request)
        except NotFound:
            raise NotFound(what="subagent", name=name) from None
        return Subagent.model_validate(report.record.value)

    async def list(self, *, created_by: Creator | None = None) -> tuple[Subagent, ...]:
        """Return the subagents by name; with `created_by`, those that it made."""
        request = RecordSearchRequest(
            scope=self._scope, namespace=self._namespace, limit=limits.SUBAGENTS, include_private=True
        )
        report = await self._memory.search_records(request)
        found = (Subagent.model_validate(item.value) for item in report.items)
        return tuple(each for each in found if created_by is None or each.created_by is created_by)
