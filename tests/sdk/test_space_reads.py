"""Reads of a space: few per call, and never of an outdated state."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from tests.agent.chat_script import ScriptedChat, text
from tests.sdk.test_tools import HOST, feedback, seen

import elytron
from elytron import MemoryRuntime
from elytron.api import MemoryFace
from elytron_agent import Agent
from elytron_core.contracts.continuity import (
    CapsuleDraft,
    CapsulesWrite,
    ExecutionDraft,
    ExecutionWrite,
    GardenDraft,
    GardenWrite,
    SubjectDraft,
    SubjectsWrite,
    SummaryDraft,
    SummaryWrite,
)
from elytron_core.contracts.memories import MemoryEraseRequest
from elytron_core.contracts.projection import MemoryProjectionRequest, PrivateContext
from elytron_core.contracts.transcript import MemoryWriteRequest
from elytron_core.ids import SpaceId
from elytron_core.planes.continuity import CapsuleKind, GardenRole
from elytron_core.planes.subjects import SubjectKind, SubjectMount
from elytron_core.ports.store import Document, DocumentRef
from elytron_store.engine import PassingStore
from elytron_store.memory import MemoryStore

pytestmark = pytest.mark.anyio
ASKED = MemoryProjectionRequest(query="How is Heron?", subject="ada", private_context=PrivateContext.ALLOWED)
WRITES = {
    "capsule": CapsulesWrite(
        capsules=(CapsuleDraft(capsule_kind=CapsuleKind.HANDOFF, topic="boat", summary="Heron is the boat."),)
    ),
    "work": ExecutionWrite(state=ExecutionDraft(goal="Heron is to be painted")),
    "summary": SummaryWrite(summary=SummaryDraft(text="They spoke of Heron.", messages=2)),
    # Two, of which the journal names one when both are erased.
    "private documents": GardenWrite(
        documents=tuple(
            GardenDraft(role=GardenRole.DIARY, name=name, text="Heron was seen.") for name in ("today", "yesterday")
        )
    ),
    "subject": SubjectsWrite(
        subjects=(
            SubjectDraft(
                name="ada", subject_kind=SubjectKind.HUMAN_USER, mount=SubjectMount(identity="She sails Heron.")
            ),
        )
    ),
}


class CountingStore(PassingStore):
    """Counts the reads that reach the inner store."""

    reads = 0

    async def get(self, space: SpaceId, refs: Sequence[DocumentRef], /) -> Sequence[Document | None]:
        self.reads += 1
        return await super().get(space, refs)

    async def scan(self, space: SpaceId, collection: str, /, **page: Any) -> Sequence[Document]:
        self.reads += 1
        return await super().scan(space, collection, **page)


async def block_of(memory: MemoryFace) -> str:
    return (await memory.project(ASKED)).system_memory_block


async def test_a_block_needs_six_reads_and_an_agents_turn_twelve() -> None:
    store = CountingStore(MemoryStore())
    async with elytron.open(store, space="ada") as memory:
        for number in range(20):
            await memory.add(f"Ada saw ship number {number} in the harbour", conversation="c")
        await memory.add_fact("home", "Ada lives in Lisbon")
        agent = Agent(memory, ScriptedChat(text("In Lisbon.")))
        counts = {"project": 0, "turn": 0}
        for _ in range(3):
            before = store.reads
            await memory.project("where does Ada live?")
            counts["project"] = store.reads - before
            before = store.reads
            await agent.say("Where do I live?")
            counts["turn"] = store.reads - before
    assert counts["project"] <= 6
    assert counts["turn"] <= 12


@pytest.mark.parametrize("kind", WRITES)
async def test_changes_by_another_process_apply_to_the_next_block(tmp_path: Path, kind: str) -> None:
    path = str(tmp_path / "memory.db")
    async with elytron.open(path, space="ada") as memory, elytron.open(path, space="ada") as other:
        await memory.add("Good morning.")
        # Read twice, so that the lists are cached.
        assert "Heron" not in await block_of(memory) + await block_of(memory)
        report = await other.write(MemoryWriteRequest(write=WRITES[kind]))
        assert "Heron" in await block_of(memory)
        ids = tuple(decision.id for decision in report.decisions if decision.id is not None)
        await other.erase(MemoryEraseRequest(ids=ids))
        assert "Heron" not in await block_of(memory)


async def test_tool_changes_by_another_process_apply_to_the_next_recall(tmp_path: Path) -> None:
    path = str(tmp_path / "memory.db")

    async def hints(memory: MemoryRuntime) -> int:
        return len((await memory.recall("the file")).agent_tool_hints)

    async with elytron.open(path, space="ada") as memory, elytron.open(path, space="ada") as other:
        await memory.add("The file is blue.")
        assert await hints(memory) == 0
        await other.upsert_agent_tool_registry(HOST)
        write = elytron.AgentToolUsageFeedbackWrite(feedback=feedback(seen(), seen()))
        await other.write(MemoryWriteRequest(write=write))
        assert await hints(memory) == 1
        await other.delete_agent_tool_registry("host")
        assert await hints(memory) == 0
