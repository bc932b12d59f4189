"""The shell of an agent file: all but the words of messages and the texts of blocks, as the runtime's own records."""

from collections.abc import AsyncIterator
from operator import attrgetter
from typing import Final

from elytron.runtime_records import RuntimeRecords
from elytron_agent.agent_file.document import Json
from elytron_agent.runs.journal import AGENTS
from elytron_core import canonical, limits

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

    def __init__(self, records: RuntimeRecords, name: str, /) -> None:
        self._records = records
        self._namespace = (AGENTS, name, "file")

    async def put(self, key: str, value: Json, /) -> bool:
        """Store a part; tell whether it has room."""
        if len(canonical.canonical_bytes(value)) > limits.RECORD_VALUE_BYTES:
            return False
        await self._records.put(self._namespace, key, value, text=_LABEL)
        return True

    async def get(self, key: str, /) -> Json | None:
        """Return a part, None if it is not there."""
        found = await self._records.get(self._namespace, key)
        if found is None:
            return None
        assert isinstance(found.value, dict)
        return found.value

    async def parts(self) -> AsyncIterator[tuple[str, Json]]:
        """Yield each part with its key, in the order of keys."""
        found = [each async for each in self._records.below(self._namespace)]
        for each in sorted(found, key=attrgetter("key")):
            assert isinstance(each.value, dict)
            yield each.key, each.value
