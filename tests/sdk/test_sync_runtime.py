"""Guarantees of the blocking face: the same operations under the same names, anywhere."""

import asyncio
import inspect
import pickle
import subprocess
import sys
from operator import attrgetter
from pathlib import Path

import pytest

import elytron
from elytron_core.errors import StoreClosed, StoreUrlInvalid, Unsupported


def test_two_calls_are_enough() -> None:
    with elytron.open("memory:") as memory:
        memory.add("We moved to Lisbon in May.", speaker="Ada")
        assert memory.recall("when did we move?").hits[0].text == "We moved to Lisbon in May."
        assert memory.scope == elytron.Scope(space="default")


def test_every_operation_has_a_blocking_counterpart() -> None:
    def calls(kind: type) -> set[str]:
        return {name for name, _ in inspect.getmembers(kind, inspect.isfunction) if not name.startswith("_")}

    asynchronous = calls(elytron.MemoryRuntime)
    assert calls(elytron.SyncMemoryRuntime) - {"run"} == asynchronous
    for name in asynchronous - {"close", "operate"}:
        blocking = getattr(elytron.SyncMemoryRuntime, name)
        if name != "tools":  # whose calls block or are awaited, like those of their memory
            assert inspect.signature(blocking) == inspect.signature(getattr(elytron.MemoryRuntime, name))
        assert blocking.__doc__


def test_a_blocking_memory_works_inside_a_running_loop() -> None:
    async def inside() -> str:
        with elytron.open("memory:") as memory:
            memory.add("I like tea")
            return memory.recall("tea").hits[0].text

    assert asyncio.run(inside()) == "I like tea"


def test_a_blocking_call_on_the_memorys_own_loop_is_refused() -> None:
    with elytron.open("memory:") as memory:

        async def inside() -> None:
            memory.add("tea")

        with pytest.raises(Unsupported, match="await the same call of its `runtime`"):
            memory.run(inside())
        assert memory.add("tea").changed


def test_its_repr_shows_what_it_is_and_whether_it_is_open() -> None:
    with elytron.open("memory:", space="ada") as memory:
        assert repr(memory) == "<SyncMemoryRuntime over <MemoryRuntime on memory, space 'ada'>>"
    assert repr(memory).endswith("space 'ada', closed>>")
    with elytron.open("memory:", space=None) as memory:
        assert repr(memory.runtime) == "<MemoryRuntime on memory, no space of its own>"


def test_a_memory_cannot_be_pickled_to_another_process() -> None:
    with elytron.open("memory:") as memory:
        for one in (memory, memory.runtime):
            with pytest.raises(TypeError, match="open it in the process that uses it"):
                pickle.dumps(one)


def test_awaiting_a_memory_outside_asyncio_gives_a_hint() -> None:
    with pytest.raises(Unsupported, match="asyncio event loop"):
        elytron.open("memory:").__aenter__().send(None)


def test_a_closed_memory_refuses_calls_and_can_be_closed_again() -> None:
    memory = elytron.open("memory:").sync()
    memory.close()
    memory.close()
    with pytest.raises(StoreClosed):
        memory.add("Hello")


def test_a_program_that_forgets_to_close_ends_quietly_and_is_closed(tmp_path: Path) -> None:
    program = """
import elytron

for store in ("memory:", "m.db", "folder/"):
    memory = elytron.open(store).sync()
    memory.add("kept")
    memory.recall("kept")
"""
    run = [sys.executable, "-W", "error", "-c", program]
    done = subprocess.run(run, cwd=tmp_path, timeout=100, check=True, capture_output=True, text=True)
    assert (done.stdout, done.stderr) == ("", "")
    with elytron.open(tmp_path / "m.db") as memory:
        assert [item.text for item in memory.get_all().items] == ["kept"]


def test_in_a_forked_process_a_memory_is_closed_and_can_be_reopened(tmp_path: Path) -> None:
    program = """
import os, elytron
from elytron_core.errors import StoreClosed
memory = elytron.open("m.db").sync()
memory.add("before")
if os.fork() == 0:
    try:
        memory.add("lost")
    except StoreClosed:
        with elytron.open("m.db") as anew:
            anew.add("in the child")
    raise SystemExit
assert os.wait()[1] == 0
memory.add("after")
"""
    subprocess.run([sys.executable, "-c", program], cwd=tmp_path, timeout=100, check=True)
    with elytron.open(tmp_path / "m.db") as memory:
        assert [item.text for item in memory.get_all().items] == ["before", "in the child", "after"]


@pytest.mark.parametrize("url", ["m.db", "folder/"])
def test_an_asyncio_runtime_writes_only_in_its_own_event_loop(tmp_path: Path, url: str) -> None:
    async def opened() -> elytron.MemoryRuntime:
        memory = await elytron.open(f"{tmp_path}/{url}")
        await memory.add("kept")
        return memory

    async def used(memory: elytron.MemoryRuntime) -> list[str]:
        with pytest.raises(Unsupported, match="event loop that opened it"):
            await memory.add("elsewhere")
        await memory.close()
        async with elytron.open(f"{tmp_path}/{url}") as anew:
            return [item.text for item in (await anew.get_all()).items]

    assert asyncio.run(used(asyncio.run(opened()))) == ["kept"]


def test_a_failed_opening_raises_and_leaves_no_thread() -> None:
    with pytest.raises(StoreUrlInvalid):
        elytron.open("redis://somewhere").sync()


def test_names_are_loaded_when_used_and_unknown_ones_are_errors() -> None:
    assert elytron.RecallHit.__name__ == "RecallHit"
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        elytron.nothing  # noqa: B018  # pyright: ignore[reportAttributeAccessIssue, reportUnknownMemberType]
    names: list[str] = attrgetter("__all__")(elytron)
    for name in names:
        assert getattr(elytron, name) is not None


def test_a_typed_close_is_reported_and_any_request_is_performed() -> None:
    memory = elytron.open("memory:", space="ada").sync()
    memory.add("I like tea")
    report = memory.operate(elytron.MemoryRecallRequest(query="tea"))
    assert [hit.text for hit in report.hits] == ["I like tea"]
    closed = memory.close(elytron.MemoryCloseRequest(reason="done"))
    assert (closed.phase.value, closed.reason) == ("closed", "done")
    assert memory.close().phase.value == "closed"
