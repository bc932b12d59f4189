"""An erasure whose process is killed is completed by the next caller, and its content is never seen again."""

import asyncio
import signal
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

import pytest
from tests.sdk.kill_points import ADA, erasing, exit_code
from tests.sdk.told import believe, learn, texts

import elytron
from elytron.erasure.erasure_mark import end_erasing, erasing_places, erasing_put
from elytron.registry.operations import OPERATIONS, by_name
from elytron.state.space_records import ERASING, REF
from elytron_core import limits
from elytron_core.clock import FrozenClock
from elytron_core.errors import ElytronError, StoreCorrupt, StoreFull, StoreUnavailable
from elytron_core.ids import SpaceId
from elytron_core.planes.space import MemoryPlace
from elytron_core.ports.store import (
    Batch,
    CommitReceipt,
    Document,
    DocumentRef,
    EntryDraft,
    ErasureReceipt,
    ErasureTarget,
    JournalAction,
    PutChange,
)
from elytron_core.scope import ScopedRequest
from elytron_store.memory import MemoryStore

pytestmark = pytest.mark.anyio

WORD = "zanzibar"
FIELDS = {"id": "x", "name": "runtime_skill__x", "namespace": ("x",), "audience": "owner"}
READS = [one for one in OPERATIONS if issubclass(one.request, ScopedRequest) and not one.mutates]
SQLITE, FILE = "sqlite:{}/m.db", "file:{}/files"


@pytest.fixture(autouse=True)
def folder_of_exports(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let an operation write to a relative path in the test's folder."""
    monkeypatch.chdir(tmp_path)


async def told(memory: elytron.MemoryRuntime) -> list[str]:
    """Store messages about tea, and content to erase: a message of a turn, a turn, a fact, and a procedure."""
    await memory.add("tea at four", conversation="kitchen")
    messages = (elytron.Message(text=f"{WORD} one"), elytron.Message(text="tea with milk"))
    write = elytron.TranscriptWrite(turns=(elytron.TurnDraft(messages=messages),))
    (turn,) = (await memory.write(elytron.MemoryWriteRequest(write=write))).ids
    whole = await memory.add(f"{WORD} two", conversation="kitchen")
    fact = await believe(memory, "home", f"{WORD} three")
    skill = await learn(memory, WORD, f"1. Fetch {WORD}.\n2. Wait.\n3. Serve tea.")
    return [f"{turn}#0", *whole.ids, *fact.ids, *skill.ids]


def remains(folder: Path) -> list[str]:
    """Return the files that contain the word."""
    return [str(path) for path in folder.rglob("*") if path.is_file() and WORD.encode() in path.read_bytes()]


class DyingStore(MemoryStore):
    """A store that fails at the `left`th commit or erasure from now on, and stays open for others."""

    def __init__(self) -> None:
        super().__init__()
        self.left = -1
        self.error: Exception = StoreUnavailable("the process dies here")

    async def commit(self, batch: Batch, /) -> CommitReceipt:
        self._step()
        return await super().commit(batch)

    async def erase(self, erasure: ErasureTarget, /) -> ErasureReceipt:
        self._step()
        return await super().erase(erasure)

    async def close(self) -> None:
        """Stay open."""

    def _step(self) -> None:
        self.left -= 1
        if self.left == 0:
            raise self.error


class YieldingStore(DyingStore):
    """A store whose reads let other calls run in between, like those of a file or a server."""

    async def get(self, space: SpaceId, refs: Sequence[DocumentRef], /) -> Sequence[Document | None]:
        documents = await super().get(space, refs)
        await asyncio.sleep(0)
        return documents


async def cut_short() -> DyingStore:
    """Return a store in which an erasure was interrupted after its second commit."""
    store = DyingStore()
    memory = await elytron.open(store, space=ADA)
    ids = await told(memory)
    store.left = 2
    with pytest.raises(StoreUnavailable):
        await memory.erase(elytron.MemoryEraseRequest(ids=tuple(ids)))
    return store


@pytest.mark.parametrize(
    ("url", "point", "number"),
    [
        (SQLITE, "begun", 1),
        (SQLITE, "journal", 2),
        (SQLITE, "purge", 1),
        (SQLITE, "finished", 1),
        (SQLITE, "ended", 1),
        (SQLITE, "journal", 3),
        (FILE, "begun", 1),
        (FILE, "replace", 1),
        (FILE, "finished", 1),
        (FILE, "ended", 1),
    ],
)
async def test_a_killed_erasure_is_completed_by_the_next_caller(
    url: str, point: str, number: int, tmp_path: Path
) -> None:
    place = url.format(str(tmp_path).replace("/", "%2F"))
    async with elytron.open(place, space=ADA) as memory:
        ids = await told(memory)
    assert remains(tmp_path)
    assert exit_code(erasing, place, point, number, *ids) == -signal.SIGKILL
    async with elytron.open(place, space=ADA) as memory:
        assert sorted(await texts(memory, f"{WORD} tea")) == ["tea at four", "tea with milk"]
        assert not remains(tmp_path)
        assert await erasing_places(memory.context.store, ADA) == ()
        report = await memory.inspect(elytron.MemoryInspectionRequest(check=True))
        assert report.store_check is not None
        assert report.journal_account is not None
        assert (report.store_check.ok, report.journal_account.ok) == (True, True)
        assert (await memory.replay("kitchen")).total_turns == 1
    assert not remains(tmp_path)


async def test_an_erasure_killed_before_its_first_commit_changes_nothing(tmp_path: Path) -> None:
    place = SQLITE.format(str(tmp_path).replace("/", "%2F"))
    async with elytron.open(place, space=ADA) as memory:
        ids = await told(memory)
    assert exit_code(erasing, place, "journal", 1, *ids) == -signal.SIGKILL
    async with elytron.open(place, space=ADA) as memory:
        assert WORD in str(await texts(memory, WORD))
        await memory.erase(elytron.MemoryEraseRequest(ids=tuple(ids)))
        assert WORD not in str(await texts(memory, WORD))
    assert not remains(tmp_path)


@pytest.mark.parametrize("name", [one.name for one in READS])
async def test_any_first_operation_completes_an_interrupted_erasure(name: str) -> None:
    store = await cut_short()
    again = await elytron.open(store, space=ADA)
    request = by_name(name).request
    fields = {name: FIELDS.get(name, "x") for name, each in request.model_fields.items() if each.is_required()}
    asked = request.model_validate(fields)
    with suppress(ElytronError):  # not every one of them concerns existing content
        assert WORD not in str(await again.operate(asked))
    assert await erasing_places(store, ADA) == ()


@pytest.mark.parametrize("body", [b"{", b'{"memories":[{"collection":"facts","key":"../../x"}]}'])
async def test_a_damaged_mark_is_reported_and_a_repair_continues_without_it(body: bytes) -> None:
    store, now = DyingStore(), FrozenClock().now()
    async with elytron.open(store, space=ADA) as memory:
        await memory.add("tea at four")
    entry = EntryDraft(JournalAction.MAINTENANCE, REF)
    await store.commit(Batch(ADA, now, (entry,), (PutChange(ERASING, body, 0),)))
    async with elytron.open(store, space=ADA) as memory:
        for call in (memory.recall("tea"), memory.list(), memory.add("milk")):
            with pytest.raises(StoreCorrupt, match=r"erasure.*inspect --check"):
                await call
        for repair, is_ok in ((False, False), (True, False), (False, True)):
            report = await memory.inspect(elytron.MemoryInspectionRequest(check=True, repair=repair))
            assert report.store_check is not None
            assert report.store_check.ok is is_ok
        assert await texts(memory, "tea") == ["tea at four"]


@pytest.mark.parametrize("kind", [DyingStore, YieldingStore])
@pytest.mark.parametrize("step", [2, 3])
async def test_concurrent_calls_wait_until_an_erasure_is_complete(step: int, kind: type[DyingStore]) -> None:
    store = kind()
    memory = await elytron.open(store, space=ADA)
    ids = await told(memory)
    store.left = step
    with pytest.raises(StoreUnavailable):
        await memory.erase(elytron.MemoryEraseRequest(ids=tuple(ids)))
    again = await elytron.open(store, space=ADA)
    found = await asyncio.gather(*(texts(again, f"{WORD} {word}") for word in ("tea", "home", "milk", "four")))
    assert WORD not in str(found)
    assert await erasing_places(store, ADA) == ()


async def test_a_full_store_is_readable_although_an_erasure_cannot_complete() -> None:
    store = await cut_short()
    store.left, store.error = 1, StoreFull(engine="memory")
    full = await elytron.open(store, space=ADA)
    assert "tea at four" in await texts(full, "tea")
    assert await erasing_places(store, ADA)
    store.left = -1
    assert WORD not in str(await texts(await elytron.open(store, space=ADA), WORD))


@pytest.mark.parametrize("name", [one.name for one in READS])
async def test_an_open_runtime_completes_the_erasure_of_a_dead_one(name: str) -> None:
    store, clock = DyingStore(), FrozenClock(step_ms=1)
    opened = await elytron.open(store, space=ADA, clock=clock)
    memory = await elytron.open(store, space=ADA, clock=clock)
    ids = await told(memory)
    await opened.recall("tea")
    store.left = 2
    with pytest.raises(StoreUnavailable):
        await memory.erase(elytron.MemoryEraseRequest(ids=tuple(ids)))
    await opened.recall("tea")
    assert await erasing_places(store, ADA)
    clock.advance(limits.ERASING_MS)
    request = by_name(name).request
    fields = {name: FIELDS.get(name, "x") for name, each in request.model_fields.items() if each.is_required()}
    with suppress(ElytronError):
        assert WORD not in str(await opened.operate(request.model_validate(fields)))
    assert await erasing_places(store, ADA) == ()


async def test_a_runtime_gives_a_living_runtimes_erasure_time() -> None:
    store, clock = DyingStore(), FrozenClock(step_ms=1)
    opened = await elytron.open(store, space=ADA, clock=clock)
    memory = await elytron.open(store, space=ADA, clock=clock)
    await opened.recall("tea")
    for word in ("milk", "lemon"):
        await memory.erase(list((await memory.add(word)).ids))
        await opened.recall("tea")
        clock.advance(limits.ERASING_MS)
        entries = await store.journal(ADA, after=0, limit=100)
        await opened.recall("tea")
        assert await store.journal(ADA, after=0, limit=100) == entries


async def test_concurrent_erasures_of_two_processes_both_complete() -> None:
    store, now = MemoryStore(), FrozenClock().now()
    await (await elytron.open(store, space=ADA)).add("tea")
    ours, theirs = MemoryPlace("facts", "ab"), MemoryPlace("turns", "cd", 1)
    entry = EntryDraft(JournalAction.MAINTENANCE, REF)
    for place in (ours, theirs):
        await store.commit(Batch(ADA, now, (entry,), (await erasing_put(store, ADA, [place]),)))
    await end_erasing(store, ADA, [ours], at=now)
    assert await erasing_places(store, ADA) == (theirs,)
    await end_erasing(store, ADA, [theirs], at=now)
    assert await store.get(ADA, (ERASING,)) == [None]
