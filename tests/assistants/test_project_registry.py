"""The registry of projects: changed by several sessions at once, bounded, and out of the reach of tools."""

import asyncio
from pathlib import Path

import pytest
from tests.assistants.test_project_identity import git, repository

import elytron
from elytron_assistants import project_registry as registries
from elytron_assistants.project_registry import (
    PERSON_SPACE,
    ProjectKey,
    RepositoryRegistry,
    change_registry,
    note_project,
    project_memory,
    read_registry,
)
from elytron_assistants.tiers import TieredMemory
from elytron_core.contracts.memories import MemoryListRequest
from elytron_core.contracts.records import RecordNamespaceListRequest
from elytron_core.scope import Scope

pytestmark = pytest.mark.anyio


async def test_changes_at_once_are_all_stored(tmp_path: Path) -> None:
    store = str(tmp_path / "m.db")
    async with elytron.open(store) as one, elytron.open(store) as other:

        async def change(number: int) -> None:
            labels = {f"project-{number}": str(number)}
            memory = one if number % 2 else other
            await change_registry(memory, PERSON_SPACE, lambda registry: registry.changed(labels=labels))

        await asyncio.gather(*map(change, range(8)))
        assert len((await read_registry(one, PERSON_SPACE)).labels) == 8


async def test_no_tool_lists_the_registry(tmp_path: Path) -> None:
    async with elytron.open("memory:") as memory:
        await change_registry(memory, PERSON_SPACE, lambda registry: registry.changed(pins={str(tmp_path): "a"}))
        scope = Scope(space=PERSON_SPACE)
        assert (await memory.operate(RecordNamespaceListRequest(scope=scope))).namespaces == ()
        assert (await memory.operate(MemoryListRequest(scope=scope))).items == ()
        assert (await memory.recall("project", user_id=PERSON_SPACE)).hits == ()


async def test_other_operations_are_about_the_project(tmp_path: Path) -> None:
    async with elytron.open("memory:") as memory:
        place = await project_memory(memory, tmp_path)
        await memory.add("Tea is at four.", user_id=place.space)
        tiered = TieredMemory(memory, memory.operate, place)
        listed = await tiered.operate(MemoryListRequest(scope=Scope(space="any")))
        assert [hit.text for hit in listed] == ["Tea is at four."]


async def test_a_copy_that_shares_only_its_origin_says_with_whom(tmp_path: Path) -> None:
    origin = "https://example.com/acme/shop"
    shop, forged = (repository(tmp_path / name, origin=origin) for name in ("shop", "forged"))
    git(tmp_path, "clone", "-q", str(shop), "clone")
    git(tmp_path / "clone", "remote", "set-url", "origin", origin)
    async with elytron.open("memory:") as memory:
        await note_project(memory, await project_memory(memory, shop))
        copies = [await project_memory(memory, folder) for folder in (shop, tmp_path / "clone", forged)]
    assert len({place.space for place in copies}) == 1
    assert [place.other_path for place in copies] == ["", "", str(shop / ".git")]
    assert "elytron repo isolate" in copies[2].notice


def test_of_too_many_keys_only_those_that_say_nothing_new_are_let_go() -> None:
    linked = {f"link-{number}": ProjectKey(space="a") for number in range(10)}
    plain = {f"project-{number}": ProjectKey(space=f"project-{number}") for number in range(registries.KEYS_KEPT)}
    registry = RepositoryRegistry().changed(keys={**linked, **plain})
    assert len(registry.keys) == registries.KEYS_KEPT
    assert linked.items() <= registry.keys.items()
    assert f"project-{registries.KEYS_KEPT - 1}" in registry.keys
