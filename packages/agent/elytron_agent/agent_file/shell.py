"""The shell of an agent file: all of it but the words of messages and the texts of blocks, as private records."""

from collections.abc import AsyncIterator
from typing import Final

from elytron.api import MemoryFace
from elytron_agent.agent_file.document import Json
from elytron_agent.runs.journal import AGENTS
from elytron_core import canonical, limits
from elytron_core.contracts.knowledge.records import RecordGetRequest, RecordPutRequest, RecordSearchRequest
from elytron_core.errors import NotFound
from elytron_core.planes.knowledge.long_term import Privacy
from elytron_core.scope import Scope

HEAD: Final = "head"
"""The record of the order of the file's lists; it is stored last, so that a file without it was not imported."""
BEGUN: Final = "begun"
ISSUER: Final = "letta"
MESSAGE: Final = "agent_file.message"
"""Issuer and kind of the items in which a turn holds a message of a file, as pieces of its JSON."""
SOURCE: Final = "agent file"
"""The metadata of these turns name it as source, and the message's place in the file."""
_LABEL: Final = "a part of an agent file"


class Shell:
    """The records of one imported file. None of them is shown to a model."""

    def __init__(self, memory: MemoryFace, scope: Scope, name: str, /) -> None:
        self._memory = memory
        self._scope = scope
        self._namespace = (AGENTS, name, "file")

    async def put(self, key: str, value: Json, /) -> bool:
        """Store a part; tell whether it has room."""
        if len(canonical.canonical_bytes(value)) > limits.RECORD_VALUE_BYTES:
            return False
        request = RecordPutRequest(
            scope=self._scope,
            namespace=self._namespace,
            key=key,
            value=value,
            text=_LABEL,
            privacy=Privacy.PRIVATE,
        )
        await self._memory.put_record(request)
        return True

    async def get(self, key: str, /) -> Json | None:
        """Return a part, None if it is not there."""
        request = RecordGetRequest(scope=self._scope, namespace=self._namespace, key=key, include_private=True)
        try:
            found = (await self._memory.get_record(request)).record.value
        except NotFound:
            return None
        assert isinstance(found, dict)
        return found

    async def parts(self) -> AsyncIterator[tuple[str, Json]]:
        """Yield each part with its key, in the order of keys."""
        offset = 0
        while True:
            request = RecordSearchRequest(
                scope=self._scope, namespace=self._namespace, limit=limits.PAGE_MAX, offset=offset, include_private=True
            )
            page = await self._memory.search_records(request)
            for item in page.items:
                assert isinstance(item.value, dict)
                yield item.key, item.value
            offset += len(page.items)
            if not page.has_more:
                return
