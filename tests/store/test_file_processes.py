"""Several processes share one file store, and any of them may be killed at any moment."""

import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from elytron_conformance.examples import ADA, blob, documents, fact, one, put, sequences
from elytron_core.clock import FrozenClock
from elytron_core.errors import NotFound, StoreBusy
from elytron_core.ports.store import CommitReceipt, Document, DocumentRef
from elytron_store.file import FileStore

pytestmark = pytest.mark.anyio
WORKER = Path(__file__).with_name("file_worker.py")

Start = Callable[..., "subprocess.Popen[str]"]


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tmp_path / "store"


@pytest.fixture
def start(root: Path) -> Iterator[Start]:
    """Start workers, and ensure that none outlives the test."""
    workers: list[subprocess.Popen[str]] = []

    def start(task: str, *arguments: str) -> "subprocess.Popen[str]":
        command = [sys.executable, str(WORKER), task, str(root), *arguments]
        workers.append(subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True))
        return workers[-1]

    yield start
    for worker in workers:
        worker.kill()
        worker.communicate()


def heard(worker: "subprocess.Popen[str]", lines: int) -> list[str]:
    """Return the next lines that a worker prints."""
    assert worker.stdout is not None
    return [worker.stdout.readline().strip() for _ in range(lines)]


async def test_processes_incrementing_one_counter_lose_no_step(root: Path, start: Start) -> None:
    workers = [start("count", "25") for _ in range(2)]
    assert [worker.wait(100) for worker in workers] == [0] * 2
    store = await FileStore.open(root, clock=FrozenClock())
    assert await one(store, DocumentRef("counters", "00")) == Document(DocumentRef("counters", "00"), 50, b"50")
    assert await sequences(store) == list(range(1, 51))
    assert (await store.check()).ok
    await store.close()


async def test_data_acknowledged_to_a_killed_process_is_stored(root: Path, start: Start) -> None:
    worker = start("append")
    told = int(heard(worker, 40)[-1])
    worker.kill()
    worker.wait()
    store = await FileStore.open(root, clock=FrozenClock())
    found = await documents(store)
    assert [document.ref for document in found] == [fact(number) for number in range(len(found))]
    assert len(found) > told
    assert await sequences(store) == list(range(1, len(found) + 1))
    assert await put(store, fact(len(found))) == CommitReceipt(len(found) + 1, len(found) + 1)
    assert (await store.check()).ok
    await store.close()


async def test_a_locked_space_is_awaited_and_then_busy_until_its_holder_dies(root: Path, start: Start) -> None:
    store = await FileStore.open(root, clock=FrozenClock(), busy_wait_s=0.05)
    await put(store, fact(1))
    worker = start("hold")
    assert heard(worker, 1) == ["held"]
    with pytest.raises(StoreBusy):
        await put(store, fact(2))
    assert await one(store, fact(1)) is not None
    worker.kill()
    worker.wait()
    assert await put(store, fact(2)) == CommitReceipt(2, 2)
    await store.close()


async def test_a_blob_of_a_killed_writer_is_removed(root: Path, start: Start) -> None:
    worker = start("blob")
    assert heard(worker, 1) == ["going on"]
    other = await FileStore.open(root, clock=FrozenClock())
    assert len(list((root / "incoming").iterdir())) == 1
    worker.kill()
    worker.wait()
    await other.close()
    store = await FileStore.open(root, clock=FrozenClock())
    assert list((root / "incoming").iterdir()) == []
    with pytest.raises(NotFound):
        await blob(store, "aa", space=ADA)
    await store.close()
