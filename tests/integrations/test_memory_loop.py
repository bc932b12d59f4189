"""Adapters' calls reach a memory from blocking and asyncio functions, and are refused where they would block it."""

import asyncio

import pytest

import elytron
from elytron_core.errors import InvalidInput, ScopeMissing, StoreClosed, Unsupported
from elytron_integrations.memory_loop import MemoryLoop


async def doubled(number: int) -> int:
    """Return twice a number, one loop iteration later."""
    await asyncio.sleep(0)
    return 2 * number


def test_a_blocking_memory_serves_blocking_and_asyncio_functions() -> None:
    with elytron.open("memory:", space="ada") as memory:
        loop = MemoryLoop(memory)
        assert loop.wait(doubled(1)) == asyncio.run(loop.run(doubled(1))) == 2
    with pytest.raises(StoreClosed):
        loop.wait(doubled(1))


@pytest.mark.anyio
async def test_an_asyncio_memory_serves_its_loop_and_other_threads() -> None:
    async with elytron.open("memory:", space="ada") as memory:
        loop = MemoryLoop(memory)
        assert await loop.run(doubled(1)) == await asyncio.to_thread(lambda: loop.wait(doubled(1))) == 2
        with pytest.raises(Unsupported, match="would stop the loop"):
            loop.wait(doubled(1))


@pytest.mark.anyio
async def test_a_memory_outside_its_loop_serves_no_blocking_function() -> None:
    async with elytron.open("memory:", space="ada") as memory:
        loop = await asyncio.to_thread(MemoryLoop, memory)
        with pytest.raises(Unsupported, match="would stop the loop"):
            loop.wait(doubled(1))


def test_a_memory_that_is_not_open_is_refused() -> None:
    with pytest.raises(InvalidInput, match="is not open"):
        MemoryLoop(elytron.open("memory:"))


def test_a_scope_has_the_named_space_and_conversation() -> None:
    with elytron.open("memory:", space="ada") as ada, elytron.open("memory:", space=None) as shared:
        assert MemoryLoop(ada).scope_of("a call", None).space == "ada"
        scope = MemoryLoop(shared).scope_of("a call", "noor", conversation="one")
        assert (scope.space, scope.conversation) == ("noor", "one")
        with pytest.raises(ScopeMissing, match="a call"):
            MemoryLoop(shared).scope_of("a call", None, conversation="one")
        with pytest.raises(InvalidInput):
            MemoryLoop(ada).scope_of("a call", None, conversation="")
