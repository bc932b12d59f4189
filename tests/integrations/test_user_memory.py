"""An adapter is confined to one user, and its calls are refused where they would block the memory."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest

import elytron
from elytron.api import MemoryFace
from elytron_core.errors import InvalidInput, PermissionRefused, ScopeMissing, StoreClosed, Unsupported
from elytron_core.scope import Scope
from elytron_integrations.user_memory import MemoryLoop, UserMemory, memory_of_caller, space_scope, user_memory


@pytest.fixture
async def memory() -> AsyncIterator[MemoryFace]:
    async with elytron.open("memory:", space="ada") as memory:
        yield memory


async def doubled(number: int) -> int:
    """Return twice a number, a step of the loop later."""
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
async def test_a_memory_off_its_loop_serves_no_blocking_function() -> None:
    async with elytron.open("memory:", space="ada") as memory:
        loop = await asyncio.to_thread(MemoryLoop, memory)
        with pytest.raises(Unsupported, match="would stop the loop"):
            loop.wait(doubled(1))


def test_a_memory_that_is_not_open_is_refused() -> None:
    unopened: Any = elytron.open("memory:")
    with pytest.raises(InvalidInput, match="is not open"):
        MemoryLoop(unopened)


@pytest.mark.anyio
async def test_a_users_memory_refuses_requests_about_others(memory: MemoryFace) -> None:
    grace = user_memory(memory, "grace", operation="a test")
    await grace.add("I like tea.")
    assert (await memory.list()).items == ()
    assert [hit.text for hit in await grace.list()] == ["I like tea."]
    with pytest.raises(PermissionRefused, match="not of the user"):
        await grace.list(user_id="ada")
    with pytest.raises(PermissionRefused, match="not about one space"):
        await grace.spaces()


@pytest.mark.anyio
async def test_a_caller_is_the_user_that_the_memory_was_opened_for(memory: MemoryFace) -> None:
    assert memory_of_caller(memory, "ada").scope == memory.scope
    with pytest.raises(InvalidInput, match="not the user that this memory was opened for"):
        memory_of_caller(memory, "grace")
    async with elytron.open("memory:") as everyone:
        assert memory_of_caller(everyone, "grace").scope.space == "grace"
        with pytest.raises(InvalidInput):
            memory_of_caller(everyone, "\n")


@pytest.mark.anyio
async def test_a_memory_without_a_space_needs_one() -> None:
    async with elytron.open("memory:", space=None) as memory:
        with pytest.raises(ScopeMissing, match="a test"):
            user_memory(memory, operation="a test")
        assert isinstance(user_memory(memory, "ada", operation="a test"), UserMemory)


def test_a_scope_has_the_space_and_the_conversation_that_are_named() -> None:
    own_scope = Scope(space="ada", app="web")
    assert space_scope(own_scope, None, operation="a call") == own_scope
    scope = space_scope(own_scope, "noor", operation="a call", conversation="one")
    assert scope == Scope(space="noor", app="web", conversation="one")
    with pytest.raises(ScopeMissing, match="a call"):
        space_scope(None, None, operation="a call", conversation="one")
    with pytest.raises(InvalidInput):
        space_scope(own_scope, None, operation="a call", conversation="")
