"""Keyring damage: the entries that name a space's keys are recreated or given up, and other spaces continue."""

import pytest
from tests.store.sealing import seal

from elytron_core.clock import SystemClock
from elytron_core.errors import SealBroken
from elytron_core.ids import SpaceId
from elytron_core.ports.store import (
    Batch,
    DeleteChange,
    Document,
    DocumentRef,
    EntryDraft,
    ErasureTarget,
    JournalAction,
    PutChange,
    Store,
)
from elytron_store.memory import MemoryStore
from elytron_store.sealed.records import KEYRING, NAMES, RECORDS, SPACE_SLOTS, tag_of
from elytron_store.sealed.store import SealedStore

pytestmark = pytest.mark.anyio
CLOCK = SystemClock()
ADA, BOB = SpaceId("ada"), SpaceId("bob")
TURN = DocumentRef("turns", "1")


async def put(store: Store, space: SpaceId, body: bytes, *, expects: int = 0) -> None:
    entry = EntryDraft(JournalAction.WRITE, TURN)
    await store.commit(Batch(space=space, at=CLOCK.now(), entries=(entry,), puts=(PutChange(TURN, body, expects),)))


async def body_in(store: Store, space: SpaceId) -> bytes | None:
    (found,) = await store.get(space, [TURN])
    return None if found is None else found.body


@pytest.fixture
async def store() -> SealedStore:
    opened = await seal(MemoryStore())
    await put(opened, ADA, b"of Ada")
    await put(opened, BOB, b"of Bob")
    return opened


async def kept(store: SealedStore, collection: str) -> list[Document]:
    return [each for each in await store.inner.scan(KEYRING, collection, limit=9) if each.ref != NAMES]


async def inner_of(store: SealedStore, space: SpaceId) -> str:
    """Return the inner space whose body is that of `space`."""
    for record in await kept(store, RECORDS):
        if tag_of(record.ref.key) == store._keyring.tag(space):  # pyright: ignore[reportPrivateUsage]
            return record.ref.key
    raise AssertionError(space)


async def damage(store: SealedStore, collection: str, *, lost: bool) -> SealedStore:
    """Remove or corrupt Ada's keyring entries in `collection`; return the reopened store."""
    inner = await inner_of(store, ADA)
    (found,) = await store.inner.get(
        KEYRING, [DocumentRef(collection, inner if collection == RECORDS else tag_of(inner))]
    )
    assert found is not None
    entry = EntryDraft(JournalAction.MAINTENANCE, found.ref)
    if lost:
        batch = Batch(
            space=KEYRING, at=CLOCK.now(), entries=(entry,), deletes=(DeleteChange(found.ref, found.revision),)
        )
    else:
        spoilt = PutChange(found.ref, found.body[:-9] + b"?" * 9, found.revision)
        batch = Batch(space=KEYRING, at=CLOCK.now(), entries=(entry,), puts=(spoilt,))
    await store.inner.commit(batch)
    return await seal(store.inner)


@pytest.mark.parametrize("lost", [True, False])
@pytest.mark.parametrize("collection", [SPACE_SLOTS, RECORDS])
async def test_a_repair_recreates_a_name_entry_or_frees_the_name(
    store: SealedStore, collection: str, *, lost: bool
) -> None:
    store = await damage(store, collection, lost=lost)
    with pytest.raises(SealBroken):
        await body_in(store, ADA)
    found = await store.check()
    assert found.problems
    assert not any(problem.quarantined for problem in found.problems)
    repaired = await store.repair()
    assert all(problem.quarantined for problem in repaired.problems)
    assert (await store.check()).ok
    assert await body_in(store, ADA) == (b"of Ada" if collection == SPACE_SLOTS else None)
    assert await body_in(store, BOB) == b"of Bob"
    if collection == RECORDS:
        await put(store, ADA, b"anew")
        assert await body_in(store, ADA) == b"anew"
        assert set(await store.spaces(limit=9)) == {ADA, BOB}


async def test_a_space_without_keyring_entries_is_quarantined(store: SealedStore) -> None:
    store = await damage(store, SPACE_SLOTS, lost=True)
    store = await damage(store, RECORDS, lost=True)
    assert [problem.what for problem in (await store.check()).problems] == ["a sealed space has no keys in the keyring"]
    assert all(problem.quarantined for problem in (await store.repair()).problems)
    assert (await store.check()).ok


@pytest.mark.parametrize("is_repaired", [True, False])
@pytest.mark.parametrize("lost", [True, False])
@pytest.mark.parametrize("collection", [SPACE_SLOTS, RECORDS])
async def test_a_space_with_damaged_keys_is_erased_completely(
    store: SealedStore, collection: str, *, lost: bool, is_repaired: bool
) -> None:
    inner = SpaceId(await inner_of(store, ADA))
    store = await damage(store, collection, lost=lost)
    if is_repaired:
        await store.repair()
    await store.erase(ErasureTarget(space=ADA, at=CLOCK.now(), whole_space=True))
    assert inner not in await store.inner.spaces(limit=9)
    assert [tag_of(each.ref.key) for each in await kept(store, RECORDS)] == [tag_of(await inner_of(store, BOB))]
    assert len(await kept(store, SPACE_SLOTS)) == 1
    await put(store, ADA, b"anew")
    assert await body_in(store, ADA) == b"anew"
    assert await body_in(store, BOB) == b"of Bob"
