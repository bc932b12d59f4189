"""Copying every space from one store to another, at the port that all stores share."""

from collections.abc import AsyncIterator, Callable

import pytest

from elytron.migrating import copy_store
from elytron_core.clock import Instant
from elytron_core.errors import Conflict, InvalidInput, LimitExceeded
from elytron_core.ids import SpaceId
from elytron_core.planes import gateway
from elytron_core.ports.store import Action, Batch, Committed, Entry, Put, Ref
from elytron_store.memory import MemoryStore

pytestmark = pytest.mark.anyio

ADA = SpaceId("ada")
FILE, ADDRESS = Ref(gateway.RESOURCES, "01"), Ref(gateway.RESOURCES, "02")


def batch(*refs: Ref, entries: int = 1) -> Batch:
    return Batch(
        space=ADA,
        at=Instant(7),
        entries=tuple(Entry(Action.WRITE, refs[0], "d", Instant(at)) for at in range(1, entries + 1)),
        puts=tuple(Put(ref, ref.key.encode(), 0) for ref in refs),
    )


async def pieces() -> AsyncIterator[bytes]:
    yield b"the bytes "
    yield b"of a file"


async def test_bytes_beside_documents_and_the_times_of_entries_go_along() -> None:
    source, target = MemoryStore(), MemoryStore()
    # A collection that this version does not know, as the server's own space has them.
    await source.commit(batch(FILE, ADDRESS, entries=2))
    await source.commit(batch(Ref("of_another_kind", "aa")))
    await source.write_blob(ADA, FILE.key, pieces())
    (copied,) = await copy_store(source, target)
    assert (copied.documents, copied.entries, copied.blobs) == (3, 3, 1)
    assert b"".join([chunk async for chunk in target.read_blob(ADA, FILE.key)]) == b"the bytes of a file"
    assert await target.journal(ADA, after=0, limit=10) == await source.journal(ADA, after=0, limit=10)
    with pytest.raises(InvalidInput):
        await copy_store(source, target)


async def test_more_than_one_batch_of_documents_and_entries_arrives() -> None:
    source, target = MemoryStore(), MemoryStore()
    for start in range(3):
        await source.commit(batch(*(Ref("turns", f"{start}{number:04x}") for number in range(700)), entries=10))
    (copied,) = await copy_store(source, target)
    assert (copied.documents, copied.entries) == (2_100, 30)


async def test_a_journal_too_short_for_its_documents_is_not_copied() -> None:
    source = MemoryStore()
    await source.commit(batch(*(Ref("turns", f"{number:04x}") for number in range(1_500))))
    with pytest.raises(LimitExceeded):
        await copy_store(source, MemoryStore())


class Watched(MemoryStore):
    """Lets something happen before a commit."""

    def __init__(self, happens: Callable[[], AsyncIterator[None]]) -> None:
        super().__init__()
        self._happens = happens

    async def commit(self, batch: Batch, /) -> Committed:
        async for _ in self._happens():
            pass
        return await super().commit(batch)


async def test_a_space_that_changes_meanwhile_is_said() -> None:
    source = MemoryStore()
    await source.commit(batch(FILE))

    async def somebody_writes() -> AsyncIterator[None]:
        await source.commit(batch(ADDRESS))
        yield

    with pytest.raises(Conflict, match="changed while it was copied"):
        await copy_store(source, Watched(somebody_writes))
