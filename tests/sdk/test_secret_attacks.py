"""Attacks on spaces under secrets: altered and swapped bytes, deaths within a call, copies that would read them."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import elytron
from elytron.runtime import MemoryRuntime
from elytron.secrets.forms import SecretState
from elytron.transfer.migration import copy_store
from elytron_core.clock import Instant
from elytron_core.contracts.archive import MemorySpaceExportRequest
from elytron_core.errors import SealBroken, SecretRefused, SpaceLocked, StoreUnavailable
from elytron_core.ids import RandomIds, SpaceId
from elytron_core.ports.store import (
    Batch,
    Document,
    EntryDraft,
    ErasureReceipt,
    ErasureTarget,
    JournalAction,
    PutChange,
    Store,
)
from elytron_store.engine import PassingStore
from elytron_store.memory import MemoryStore
from elytron_store.secret.records import SECRET_SLOT, SecretSlotState, read_secret_slot

pytestmark = pytest.mark.anyio

WORDS = "legal winner thank year wave sausage worth useful legal winner thank yellow"
ADA, BEA = SpaceId("ada"), SpaceId("bea")


async def sealed(memory: MemoryRuntime, space: str = "ada") -> None:
    await memory.add("the heronsnest key is under the oar", user_id=space)
    await memory.secrets.seal(space, words=WORDS)


async def inner_of(store: Store, space: SpaceId) -> SpaceId:
    (slot,) = await store.get(space, (SECRET_SLOT,))
    assert slot is not None
    return SpaceId(read_secret_slot(slot).inner)


async def plant(store: Store, space: SpaceId, document: Document, body: bytes) -> None:
    """Replace a document's bytes."""
    entry = EntryDraft(JournalAction.MAINTENANCE, document.ref)
    put = PutChange(document.ref, body, document.revision)
    await store.commit(Batch(space=space, at=0, entries=(entry,), puts=(put,), sealed=True))  # type: ignore[arg-type]


async def test_altered_and_swapped_bytes_are_rejected() -> None:
    store = MemoryStore()
    async with elytron.open(store, space="ada") as memory:
        await sealed(memory)
        await sealed(memory, "bea")
        hers = (await store.scan(await inner_of(store, BEA), "turns", limit=10))[0]
        inner = await inner_of(store, ADA)
        own = (await store.scan(inner, "turns", limit=10))[0]
        for forged in (hers.body, own.body[:-1] + bytes([own.body[-1] ^ 1]), own.body, b""):
            current = (await store.scan(inner, "turns", limit=10))[0]
            await plant(store, inner, current, forged)
            memory.context.forget(ADA)
            with pytest.raises(SealBroken):
                await memory.list()


async def test_a_slot_of_another_space_opens_nothing() -> None:
    store = MemoryStore()
    async with elytron.open(store, space="ada") as memory:
        await sealed(memory)
        await sealed(memory, "bea")
        await memory.secrets.lock("ada")
        (own,), (hers,) = await store.get(ADA, (SECRET_SLOT,)), await store.get(BEA, (SECRET_SLOT,))
        assert own is not None
        assert hers is not None
        await plant(store, ADA, own, hers.body)
        with pytest.raises(SecretRefused):
            await memory.secrets.unlock("ada", words=WORDS)
        with pytest.raises(SpaceLocked):
            await memory.list()


async def test_a_forged_slot_naming_a_users_space_destroys_nothing_of_it() -> None:
    store = MemoryStore()
    async with elytron.open(store, space="ada") as memory:
        await memory.add("the heronsnest key is under the oar", user_id="bea")
        await sealed(memory)
        (own,) = await store.get(ADA, (SECRET_SLOT,))
        assert own is not None
        for state in (SecretSlotState.MAKING, SecretSlotState.DESTROYED):
            forged = read_secret_slot(own).model_copy(update={"state": state, "inner": "bea"})
            (current,) = await store.get(ADA, (SECRET_SLOT,))
            assert current is not None
            await plant(store, ADA, current, forged.to_bytes())
            with pytest.raises(SealBroken):
                await memory.list()
            with pytest.raises(SealBroken):
                await memory.context.store.erase(ErasureTarget(space=ADA, at=Instant(0), whole_space=True))
        assert (await memory.search("heronsnest", user_id="bea")).hits


class UnsweptStore(PassingStore):
    """Fails before the plain bytes of a sealed space are erased."""

    is_cut = True

    async def erase(self, erasure: ErasureTarget, /) -> ErasureReceipt:
        if self.is_cut:
            raise StoreUnavailable("the store is away")
        return await self._inner.erase(erasure)


@pytest.mark.parametrize("call", ["list", "status"])
async def test_a_call_removes_plain_remains_of_an_interrupted_sealing(call: str) -> None:
    """A caller without a secret reaches the space first: it is refused, and nothing plain remains."""
    store = MemoryStore()
    cut = UnsweptStore(store)
    async with elytron.open(cut, space="ada") as memory:
        with pytest.raises(StoreUnavailable):
            await sealed(memory)
        assert await store.scan(ADA, "turns", limit=10)
        cut.is_cut = False
        if call == "list":
            with pytest.raises(SpaceLocked):
                await memory.list()
        else:
            assert (await memory.secrets.status("ada")).state is SecretState.LOCKED
        assert not await store.scan(ADA, "turns", limit=10)
        await memory.secrets.unlock("ada", words=WORDS)
        assert (await memory.search("heronsnest")).hits


async def test_operations_that_would_read_a_locked_space_are_refused(tmp_path: Path) -> None:
    store = MemoryStore()
    async with elytron.open(store, space="ada") as memory:
        await sealed(memory)
        await memory.secrets.lock("ada")
        with pytest.raises(SpaceLocked):
            await memory.export(MemorySpaceExportRequest(path=str(tmp_path / "ada.elytron"), include_private=True))
        assert list(tmp_path.iterdir()) == []
        with pytest.raises(SpaceLocked):
            await copy_store(store, MemoryStore(), ids=RandomIds(memory.context.clock))
        assert (await memory.context.store.check()).ok


def erased_whole(erased: dict[str, Any]) -> bool:
    """Return whether nothing remains, and the endpoints answered only as for a space under a secret."""
    said: set[str] = set(erased.pop("said"))
    assert said <= {"space_incomplete", "space_locked", "not_found", "key_destroyed"}
    return erased == {"state": "plain", "hits": 0, "spaces": 0, "words_left": False}


def deaths_in(act: str, folder: Path) -> list[dict[str, Any]]:
    run = subprocess.run(
        [sys.executable, "-m", "tests.sdk.secret_deaths", str(folder), act], capture_output=True, text=True, check=True
    )
    return [json.loads(line) for line in run.stdout.splitlines()]


def test_an_interrupted_erasure_of_a_space_is_completed_by_a_repeat(tmp_path: Path) -> None:
    ends = deaths_in("erase", tmp_path)
    assert len(ends) > 3
    assert all(erased_whole(end["erased"]) for end in ends)


@pytest.mark.parametrize("act", ["seal", "change", "rotate"])
def test_a_dying_process_loses_nothing_and_leaves_no_plain_text(act: str, tmp_path: Path) -> None:
    """Killed before each change of the store in turn, the space is plain or sealed, complete, and opens."""
    ends = deaths_in(act, tmp_path)
    assert len(ends) > 3
    assert [end["died"] for end in ends] == [True] * (len(ends) - 1) + [False]
    assert {end["hits"] for end in ends} == {3}
    assert all(end["words_left"] is (end["state"] == "plain") for end in ends)
    assert all(erased_whole(end["erased"]) for end in ends)
    kinds = {(end["state"], end["opened"]) for end in ends}
    assert {end["spaces"] - (end["state"] == "locked") for end in ends} == {1}
    first = {"seal": {("plain", "")}, "change": {("locked", "passphrase")}, "rotate": set[tuple[str, str]]()}[act]
    assert kinds == {*first, ("locked", "words")}
