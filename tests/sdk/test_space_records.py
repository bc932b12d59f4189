"""Space records are cached, within a limit."""

from collections.abc import Sequence

import pytest

import elytron
from elytron.state import space_records
from elytron_core.ids import SpaceId
from elytron_core.ports.store import Document, DocumentRef
from elytron_store.memory import MemoryStore

pytestmark = pytest.mark.anyio


class Counting(MemoryStore):
    """A memory store that counts reads of space records."""

    def __init__(self) -> None:
        super().__init__()
        self.records: list[SpaceId] = []

    async def get(self, space: SpaceId, refs: Sequence[DocumentRef], /) -> Sequence[Document | None]:
        self.records += [space for ref in refs if ref == space_records.REF]
        return await super().get(space, refs)


async def test_the_least_recently_read_record_is_evicted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(space_records, "SPACES_KEPT", 2)
    store = Counting()
    async with elytron.open(store) as memory:
        for name in ("ada", "ben", "cyd"):
            await memory.add("tea", user_id=name)
            await memory.recall("tea", user_id=name)
        store.records.clear()
        for name in ("cyd", "ben", "ada", "ben"):
            assert (await memory.recall("tea", user_id=name)).hits
        assert store.records == ["ada", "ben"]
