"""Copying every space from one store to another, at the port that all stores share."""

import errno
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest
from tests.sdk.meanwhile import Meanwhile

import elytron
from elytron.transfer import restore
from elytron.transfer.migration import copy_store
from elytron_core.clock import FrozenClock, Instant
from elytron_core.errors import Conflict, InvalidInput, LimitExceeded, SpaceIncomplete, SpaceInUse
from elytron_core.ids import SeededIds, SpaceId
from elytron_core.planes.servers import gateway
from elytron_core.ports import store as ports_store
from elytron_core.ports.store import (
    Batch,
    CommitReceipt,
    Document,
    DocumentRef,
    EntryDraft,
    JournalAction,
    PutChange,
    Store,
)
from elytron_store import open_store
from elytron_store.memory import MemoryStore
from elytron_store.sealed.providers import LocalKeys

pytestmark = pytest.mark.anyio

ADA = SpaceId("ada")
FILE, ADDRESS = DocumentRef(gateway.RESOURCES, "01"), DocumentRef(gateway.RESOURCES, "02")


def batch(*refs: DocumentRef, entries: int = 1) -> Batch:
    return Batch(
        space=ADA,
        at=Instant(7),
        entries=tuple(EntryDraft(JournalAction.WRITE, refs[0], "d", Instant(at)) for at in range(1, entries + 1)),
        puts=tuple(PutChange(ref, ref.key.encode(), 0) for ref in refs),
    )


async def pieces() -> AsyncIterator[bytes]:
    yield b"the bytes "
    yield b"of a file"


async def test_blobs_and_entry_times_are_copied_too() -> None:
    source, target = MemoryStore(), MemoryStore()
    # A collection unknown to this version, as the server's own space has them.
    await source.commit(batch(FILE, ADDRESS, entries=2))
    await source.commit(batch(DocumentRef("of_another_kind", "aa")))
    await source.write_blob(ADA, FILE.key, pieces())
    (copied,) = await copy_store(source, target, ids=SeededIds())
    assert (copied.documents, copied.entries, copied.blobs) == (3, 3, 1)
    assert b"".join([chunk async for chunk in target.read_blob(ADA, FILE.key)]) == b"the bytes of a file"
    assert await target.journal(ADA, after=0, limit=10) == await source.journal(ADA, after=0, limit=10)
    assert await copy_store(source, target, ids=SeededIds()) == (copied,)
    await target.commit(replace(batch(DocumentRef("facts", "01")), space=SpaceId("bob")))
    with pytest.raises(InvalidInput, match="is not empty"):
        await copy_store(source, target, ids=SeededIds())


async def test_multiple_batches_of_documents_and_entries_arrive() -> None:
    source, target = MemoryStore(), MemoryStore()
    for start in range(3):
        await source.commit(batch(*(DocumentRef("turns", f"{start}{number:04x}") for number in range(700)), entries=10))
    (copied,) = await copy_store(source, target, ids=SeededIds())
    assert (copied.documents, copied.entries) == (2_100, 30)


class Counting(MemoryStore):
    """A source that counts the documents that it returns."""

    def __init__(self) -> None:
        super().__init__()
        self.given = 0

    async def scan(
        self,
        space: SpaceId,
        collection: str,
        /,
        *,
        prefix: str = "",
        after: str = "",
        limit: int,
        descending: bool = False,
    ) -> Sequence[Document]:
        page = await super().scan(space, collection, prefix=prefix, after=after, limit=limit, descending=descending)
        self.given += len(page)
        return page


class Looking(MemoryStore):
    """A target that records at each batch how much the source had returned."""

    def __init__(self, source: Counting) -> None:
        super().__init__()
        self._source = source
        self.given: list[int] = []

    async def commit(self, batch: Batch, /) -> CommitReceipt:
        self.given.append(self._source.given)
        return await super().commit(batch)


async def test_a_space_is_copied_in_batches(small_batches: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ports_store, "scan_documents", partial(ports_store.scan_documents, page=2))
    source = Counting()
    for number in range(40):
        await source.commit(batch(DocumentRef("turns", f"{number:04x}")))
    target = Looking(source)
    await copy_store(source, target, ids=SeededIds())
    # All of it is checked first.
    assert target.given == [40 + 4 * batches for batches in range(1, 11)]


async def test_a_journal_too_short_for_its_documents_is_not_copied() -> None:
    source = MemoryStore()
    await source.commit(batch(*(DocumentRef("turns", f"{number:04x}") for number in range(1_500))))
    with pytest.raises(LimitExceeded):
        await copy_store(source, MemoryStore(), ids=SeededIds())


@pytest.fixture
def small_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(restore, "BATCH", 4)


@pytest.fixture
async def lived(small_batches: None) -> MemoryStore:
    """Return a store of two spaces, each copied in several batches."""
    source = MemoryStore()
    for space in ("ada", "bob"):
        memory = await elytron.open(source, space=space)
        await memory.add([f"{space} {number}" for number in range(9)])
    return source


async def broken_off() -> None:
    raise OSError(errno.EIO, "broken off")


async def states(store: Store) -> list[tuple[str, str]]:
    """Return the fingerprints of both spaces."""
    found = [await (await elytron.open(store, space=space)).inspect(fingerprints=True) for space in ("ada", "bob")]
    return [(report.state_fingerprint, report.event_fingerprint) for report in found]


@pytest.mark.parametrize("engine", ["memory", "sqlite", "file", "sealed"])
async def test_an_interrupted_copy_shows_no_partial_data_and_resumes(
    lived: MemoryStore, engine: str, tmp_path: Path
) -> None:
    keys = LocalKeys({"k": bytes(32)}, current="k") if engine == "sealed" else None
    url = {"sqlite": f"sqlite://{tmp_path}/m.db", "file": f"file://{tmp_path}/m"}.get(engine, "memory:")
    target = Meanwhile(await open_store(url, clock=FrozenClock(), keys=keys))
    target.behind_commit("turns", broken_off)
    with pytest.raises(OSError, match="broken off"):
        await copy_store(lived, target, ids=SeededIds())
    half = await elytron.open(target, space="ada")
    assert not (await half.inspect()).exists
    with pytest.raises(SpaceIncomplete):
        await half.add("a tern")
    assert [item.documents for item in await copy_store(lived, target, ids=SeededIds("again"))] == [11, 11]
    assert await states(target) == await states(lived)
    await target.close()


async def test_one_of_two_concurrent_copies_completes(lived: MemoryStore) -> None:
    inner = MemoryStore()
    target = Meanwhile(inner)
    target.behind_commit("turns", lambda: copy_store(lived, inner, ids=SeededIds("theirs")))
    with pytest.raises(SpaceInUse, match="'ada' was changed in the target during the copy"):
        await copy_store(lived, target, ids=SeededIds("ours"))
    assert await states(inner) == await states(lived)


async def test_a_source_that_grows_during_a_copy_is_copied_again(lived: MemoryStore) -> None:
    inner = MemoryStore()
    target = Meanwhile(inner)
    ada = await elytron.open(lived, space="ada")
    target.behind_commit("turns", lambda: ada.add("one more"))
    with pytest.raises(SpaceInUse, match="'ada' was changed during the copy"):
        await copy_store(lived, target, ids=SeededIds())
    assert not (await (await elytron.open(inner, space="ada")).inspect()).exists
    await copy_store(lived, target, ids=SeededIds("again"))
    assert await states(inner) == await states(lived)


async def test_foreign_data_in_the_target_is_reported(lived: MemoryStore) -> None:
    target = Meanwhile(MemoryStore())
    stranger = await elytron.open(target, space="eve")
    target.behind_commit("turns", lambda: stranger.add("I was here first"))
    with pytest.raises(SpaceInUse, match="'eve' appeared in the target"):
        await copy_store(lived, target, ids=SeededIds())


async def test_a_partially_existing_space_is_not_copied(lived: MemoryStore) -> None:
    half = Meanwhile(MemoryStore())
    half.behind_commit("turns", broken_off)
    with pytest.raises(OSError, match="broken off"):
        await copy_store(lived, half, ids=SeededIds())
    with pytest.raises(SpaceIncomplete):
        await copy_store(half, MemoryStore(), ids=SeededIds())


class Watched(MemoryStore):
    """Lets something happen before a commit."""

    def __init__(self, happens: Callable[[], AsyncIterator[None]]) -> None:
        super().__init__()
        self._happens = happens

    async def commit(self, batch: Batch, /) -> CommitReceipt:
        async for _ in self._happens():
            pass
        return await super().commit(batch)


async def test_a_space_that_changes_during_the_copy_is_reported() -> None:
    source = MemoryStore()
    await source.commit(batch(FILE))

    async def somebody_writes() -> AsyncIterator[None]:
        await source.commit(batch(ADDRESS))
        yield

    with pytest.raises(Conflict, match="was changed during the copy"):
        await copy_store(source, Watched(somebody_writes), ids=SeededIds())
