"""The store's index of spaces with unfinished jobs: what a sweep reads, and that no such space is ever missing."""

import asyncio
import signal
import tarfile
import tempfile
from collections.abc import Sequence
from contextlib import AsyncExitStack
from gzip import decompress
from pathlib import Path

import httpx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.sdk.kill_points import exit_code, queueing
from tests.sdk.meanwhile import Meanwhile
from tests.store.sealing import KEYS

import elytron
from elytron import MemoryRuntime
from elytron.context import Beat
from elytron.flows.worker import JobWorker, run_next
from elytron.jobs.queue import find_job, read_queue, schedule_job, visit_queues
from elytron.ops.inspection import inspect_space
from elytron_adapter.access_keys import DevelopmentCallers
from elytron_core import limits
from elytron_core.clock import FrozenClock, Instant
from elytron_core.contracts.inspection import MemoryInspectionRequest
from elytron_core.ids import SpaceId
from elytron_core.planes.jobs import JobQueue
from elytron_core.ports.store import (
    Batch,
    DeleteChange,
    Document,
    DocumentRef,
    EntryDraft,
    JournalAction,
    Store,
    queued_spaces,
)
from elytron_core.scope import Scope
from elytron_http_shell import create_app
from elytron_store.engine import PassingStore
from elytron_store.memory import MemoryStore
from elytron_store.sealed.providers import LocalKeys

pytestmark = pytest.mark.anyio
SAMPLES = Path(__file__).parents[1] / "store" / "old"
SPACES = [SpaceId(name) for name in ("ada", "bob", "cleo")]
WORDS = "legal winner thank year wave sausage worth useful legal winner thank yellow"


async def queue(memory: MemoryRuntime, space: str, name: str = "one") -> None:
    """Queue a job that is due now."""
    context = memory.context
    assert await schedule_job(context, Scope(space=space), "remind", name, "", due_at=context.clock.now())


async def do(memory: MemoryRuntime, space: str) -> None:
    """Do the next job of a space."""

    async def run(_scope: Scope, _payload: str, _beat: Beat, /) -> None: ...

    memory.context.runners["remind"] = run
    await run_next(memory.context, SpaceId(space))


async def listed(store: Store) -> set[SpaceId]:
    """Return the spaces that the store lists as having unfinished jobs."""
    return {space async for space in queued_spaces(store)}


async def swept(memory: MemoryRuntime) -> set[SpaceId]:
    """Return the spaces in which a sweep finds unfinished jobs."""
    spaces: set[SpaceId] = set()

    async def note(space: SpaceId, _queue: JobQueue) -> None:
        spaces.add(space)

    await visit_queues(memory.context, note)
    return spaces


class ReadSpaces(PassingStore):
    """Records the spaces whose documents are read."""

    def __init__(self, store: Store, /) -> None:
        super().__init__(store)
        self.looked_at: set[SpaceId] = set()

    async def get(self, space: SpaceId, refs: Sequence[DocumentRef], /) -> Sequence[Document | None]:
        self.looked_at.add(space)
        return await super().get(space, refs)


async def test_a_sweep_reads_no_space_without_unfinished_jobs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "SCAN_MAX", 4)
    store = ReadSpaces(MemoryStore())
    async with elytron.open(store, space="ada") as memory:
        for number in range(40):
            await memory.add("hello", user_id=f"user {number}")
            if number % 4 == 0:
                await queue(memory, f"user {number}")
        await do(memory, "user 8")
        store.looked_at.clear()
        busy = {f"user {number}" for number in range(0, 40, 4)} - {"user 8"}
        assert await swept(memory) == busy == store.looked_at


async def test_a_plan_from_before_the_queue_was_recreated_is_redone() -> None:
    """Revisions of the queue start over with it: without another requirement, an old plan would match it."""
    inner = MemoryStore()
    store = Meanwhile(inner)
    async with elytron.open(store, space="ada") as first, elytron.open(inner, space="ada") as second:
        await queue(first, "ada", "one")

        async def done_and_queued() -> None:
            await do(second, "ada")
            await queue(second, "ada", "two")

        store.before_commit("jobs", done_and_queued)
        await queue(first, "ada", "three")
        assert store.is_over
        jobs = [await find_job(first.context, SpaceId("ada"), "remind", name) for name in ("two", "three")]
        unfinished = (await read_queue(first.context, SpaceId("ada"))).active
        assert [each.id for each in unfinished] == [job.id for job in jobs if job is not None]


@pytest.fixture(params=["queues-unlisted.db.gz", "file-queues.tar.xz"])
def old_store(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """Return the URL of a store without the index: of two spaces that had a job, one has another."""
    if request.param.endswith(".db.gz"):
        (tmp_path / "m.db").write_bytes(decompress((SAMPLES / request.param).read_bytes()))
        return f"sqlite:{tmp_path}/m.db"
    with tarfile.open(SAMPLES / request.param) as sample:
        sample.extractall(tmp_path, filter="data")
    return f"file:{tmp_path}/store"


async def test_a_store_of_an_earlier_build_is_scanned_once(old_store: str) -> None:
    for expected in ({"ada", "bob"}, {"ada"}):
        async with elytron.open(old_store, space="ada", clock=FrozenClock()) as memory:
            assert await listed(memory.context.store) == expected
            assert await swept(memory) == {"ada"}
            assert await listed(memory.context.store) == {"ada"}
            assert sum((await memory.inspect(user_id="bob")).jobs.values()) == 1, "a finished job is still known"


@pytest.fixture
async def granted(tmp_path: Path) -> str:
    """Return the URL of a store with a job in a space under a secret, which a grant opens."""
    url = f"sqlite:{tmp_path}/m.db"
    async with elytron.open(url, space="ada", keys=SERVER_KEYS) as memory:
        await memory.add("hello")
        await memory.add("hello", user_id="bob")
        await memory.secrets.seal("ada", words=WORDS, minutes=60)
        await queue(memory, "ada")
        await memory.secrets.grant("ada", minutes=60)
    return url


SERVER_KEYS = LocalKeys({"old": bytes(range(32))}, current="old")


async def test_another_processs_sweep_finds_a_job_permitted_by_a_grant(granted: str) -> None:
    async with elytron.open(granted, space="bob", keys=SERVER_KEYS) as memory:
        assert await swept(memory) == {"ada"}


SCRIPTS = st.lists(
    st.tuples(st.sampled_from(["queue", "queue", "do", "do", "erase", "sweep", "reopen"]), st.sampled_from(SPACES)),
    max_size=24,
)


@pytest.mark.parametrize("engine", ["memory", "file", "sqlite", "sealed"])
@given(script=SCRIPTS)
@settings(max_examples=12)
def test_every_space_with_unfinished_jobs_is_always_listed(engine: str, script: list[tuple[str, SpaceId]]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        asyncio.run(play(engine, folder, script))


class StayingStore(MemoryStore):
    """A store that a runtime does not close."""

    async def close(self) -> None: ...


async def play(engine: str, folder: str, script: list[tuple[str, SpaceId]]) -> None:
    place = {"file": f"file:{folder}/files", "memory": StayingStore()}.get(engine, f"sqlite:{folder}/m.db")
    waiting = dict.fromkeys(SPACES, 0)
    async with AsyncExitStack() as stack:

        async def opened() -> MemoryRuntime:
            keys = KEYS if engine == "sealed" else None
            return await stack.enter_async_context(elytron.open(place, space="ada", keys=keys, clock=FrozenClock()))

        memory = await opened()
        for number, (step, space) in enumerate(script):
            match step:
                case "queue":
                    await queue(memory, space, f"{number}")
                    waiting[space] += 1
                case "do":
                    await do(memory, space)
                    waiting[space] = max(0, waiting[space] - 1)
                case "erase":
                    scope = Scope(space=space)
                    await memory.erase(elytron.MemoryEraseRequest(scope=scope, whole_space=space))
                    waiting[space] = 0
                case "sweep":
                    assert await swept(memory) == {space for space, count in waiting.items() if count}
                case _:
                    await stack.aclose()
                    memory = await opened()
            assert await listed(memory.context.store) == {space for space, count in waiting.items() if count}


DEATHS = [
    *(("file", point, number) for point in ("mark", "append", "acknowledge", "settle") for number in (1, 3, 7)),
    *(("sqlite", "journal", number) for number in (1, 4, 11)),
]


@pytest.mark.parametrize(("engine", "point", "number"), DEATHS)
async def test_a_dying_process_leaves_every_space_with_unfinished_jobs_listed(
    engine: str, point: str, number: int, tmp_path: Path
) -> None:
    url = f"{engine}:{tmp_path}/store"
    assert exit_code(queueing, url, point, number) == -signal.SIGKILL
    async with elytron.open(url, space="ada") as memory:
        queues = {space: await read_queue(memory.context, space) for space in SPACES}
        busy = {space for space, queue in queues.items() if queue.active}
        assert await listed(memory.context.store) >= busy
        assert await swept(memory) == busy
        assert await listed(memory.context.store) == busy, "a mark that was left over is gone"


async def test_a_worker_skips_a_queue_until_its_next_job_is_due(clock: FrozenClock) -> None:
    async with elytron.open(MemoryStore(), space="ada", clock=clock) as memory:
        context = memory.context
        for minute, space in ((0, "ada"), (60, "bob")):
            due_at = Instant(clock.now() + minute * 60_000)
            await schedule_job(context, Scope(space=space), "remind", "one", "", due_at=due_at)
        done: list[str] = []
        is_done = asyncio.Event()

        async def run(scope: Scope, _payload: str, _beat: Beat, /) -> None:
            done.append(scope.space)
            is_done.set()

        context.runners["remind"] = run
        worker = JobWorker(context, pause_s=0.001)
        worker.start()
        await is_done.wait()
        while context.put_off.keys() != {"bob"} or context.waiting_spaces():
            await asyncio.sleep(0)
        clock.advance(59 * 60_000)
        assert context.waiting_spaces() == []
        is_done.clear()
        clock.advance(2 * 60_000)
        await is_done.wait()
        await worker.stop()
        assert done == ["ada", "bob"]


async def test_figures_count_jobs_of_listed_spaces_and_skip_locked_ones(clock: FrozenClock) -> None:
    async with elytron.open(MemoryStore(), space="ada", clock=clock) as memory:
        for number in range(300):
            await memory.add("hello", user_id=f"a{number}")
        for space in ("yves", "zoe"):
            await queue(memory, space)
        await memory.secrets.seal("yves", words=WORDS, minutes=60)
        await memory.secrets.lock("yves")
        app = create_app(memory, authenticator=DevelopmentCallers())
        transport = httpx.ASGITransport(app)
        async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as client:
            figures = (await client.get("/metrics")).text
        assert 'elytron_jobs{state="pending"} 1.0' in figures
        assert "elytron_store_ready 1.0" in figures


async def damaged(memory: MemoryRuntime, *lost: str) -> None:
    """Remove documents of a space as damage and a repair may do."""
    store = memory.context.store
    for name in lost:
        collection, _, key = name.partition("/")
        (document,) = await store.get(SPACES[0], [DocumentRef(collection, key)])
        assert document is not None
        changes = (DeleteChange(document.ref, document.revision),)
        entries = (EntryDraft(JournalAction.DELETE, document.ref),)
        await store.commit(Batch(SPACES[0], memory.context.clock.now(), entries, deletes=changes))


async def test_a_job_after_a_damaged_one_runs() -> None:
    async with elytron.open("memory:", space="ada") as memory:
        await memory.add("hello")
        await queue(memory, "ada", "one")
        await queue(memory, "ada", "two")
        first = (await read_queue(memory.context, SPACES[0])).active[0].id
        await damaged(memory, f"jobs/{first}")
        await do(memory, "ada")
        await do(memory, "ada")
        assert not (await read_queue(memory.context, SPACES[0])).active


async def test_a_repair_relists_jobs_whose_queue_was_lost() -> None:
    async with elytron.open("memory:", space="ada") as memory:
        await memory.add("hello")
        await queue(memory, "ada", "one")
        await queue(memory, "ada", "two")
        await damaged(memory, "queue/0")
        assert await listed(memory.context.store) == set()
        await queue(memory, "ada", "one")
        assert len((await read_queue(memory.context, SPACES[0])).active) == 1
        request = MemoryInspectionRequest(scope=Scope(space=SPACES[0]), check=True, repair=True)
        await inspect_space(memory.context, request)
        assert len((await read_queue(memory.context, SPACES[0])).active) == 2
        assert await swept(memory) == {SPACES[0]}
