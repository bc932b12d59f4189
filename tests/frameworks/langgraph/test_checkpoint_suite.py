"""LangGraph's own conformance tests of checkpointers, each of them a test here, with the extended capabilities."""

# Types of the framework are in part unknown, or unions that a test knows better.
# pyright: reportUnknownMemberType=false

from collections.abc import Awaitable, Callable
from importlib import import_module
from typing import Any

import pytest
from langgraph.checkpoint.conformance.capabilities import Capability, DetectedCapabilities

import elytron
from elytron_integrations.langgraph import ElytronSaver

pytestmark = pytest.mark.anyio
SUITE = "langgraph.checkpoint.conformance.spec.test_"
CASES: dict[str, Callable[[Any], Awaitable[None]]] = {
    f"{capability.value}-{case.__name__}": case
    for capability in Capability
    for name, case in vars(import_module(f"{SUITE}{capability.value}")).items()
    if name.startswith("test_")
}


@pytest.mark.parametrize("case", CASES)
async def test_an_asyncio_memory_conforms(case: str) -> None:
    async with elytron.open("memory:", space="ada") as memory:
        await CASES[case](ElytronSaver(memory))


@pytest.mark.parametrize("case", [name for name in CASES if name.startswith(("put-", "list-", "prune-"))])
async def test_a_blocking_memory_conforms(case: str) -> None:
    with elytron.open("memory:", space="ada") as memory:
        await CASES[case](ElytronSaver(memory))


async def test_every_capability_is_detected() -> None:
    async with elytron.open("memory:", space="ada") as memory:
        assert DetectedCapabilities.from_instance(ElytronSaver(memory)).detected == frozenset(Capability)
