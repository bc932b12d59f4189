"""The reach of a fact: only its chat, or the whole space."""

from pathlib import Path

import pytest
from tests.sdk.told import put

import elytron
from elytron_core.contracts.recall import AbsenceReason
from elytron_core.contracts.transcript import MemoryWriteReport, WriteOutcome
from elytron_core.evidence import EvidenceRole
from elytron_core.ids import SpaceId
from elytron_core.planes.facts import Fact, FactReach

pytestmark = pytest.mark.anyio

KITCHEN = elytron.Scope(space=SpaceId("ada"), conversation="kitchen")
OFFICE = elytron.Scope(space=SpaceId("ada"), conversation="office")
TONE = {"topic": "tone", "fact_kind": "preference", "authority": "user_asserted"}


async def believe(
    memory: elytron.MemoryRuntime, scope: elytron.Scope, content: str, **more: object
) -> MemoryWriteReport:
    write = {"kind": "long_term", "facts": [{**TONE, "content": content, **more}]}
    return await memory.write(elytron.MemoryWriteRequest.model_validate({"scope": scope, "write": write}))


async def facts(memory: elytron.MemoryRuntime, scope: elytron.Scope) -> list[str]:
    report = await memory.recall(elytron.MemoryRecallRequest(scope=scope, query="what tone of answers"))
    return sorted(hit.text for hit in report.hits)


async def block(memory: elytron.MemoryRuntime, scope: elytron.Scope) -> str:
    request = elytron.MemoryProjectionRequest(scope=scope, query="what tone of answers")
    return (await memory.project(request)).system_memory_block


@pytest.mark.parametrize("kind", ["memory", "sqlite", "file"])
async def test_a_chats_fact_applies_only_in_its_conversation(kind: str, tmp_path: Path) -> None:
    urls = {"memory": "memory:", "sqlite": str(tmp_path / "m.db"), "file": f"file://{tmp_path}/store"}
    async with elytron.open(urls[kind], space="ada") as memory:
        await believe(memory, KITCHEN, "a playful tone of answers", reach="chat")
        await believe(memory, KITCHEN, "a plain tone of answers")
        assert await facts(memory, KITCHEN) == ["a plain tone of answers", "a playful tone of answers"]
        assert await facts(memory, OFFICE) == ["a plain tone of answers"]
        assert "playful" in await block(memory, KITCHEN)
        assert "playful" not in await block(memory, OFFICE)


async def test_each_conversation_has_its_own_slot_next_to_the_spaces(memory: elytron.MemoryRuntime) -> None:
    everywhere = await believe(memory, KITCHEN, "a plain tone of answers")
    first = await believe(memory, KITCHEN, "a playful tone of answers", reach="chat")
    other = await believe(memory, OFFICE, "a stern tone of answers", reach="chat")
    assert [report.decisions[0].outcome for report in (everywhere, first, other)] == [WriteOutcome.STORED] * 3
    again = await believe(memory, KITCHEN, "a warm tone of answers", reach="chat")
    assert again.decisions[0].supersedes == first.ids[0]
    assert await facts(memory, OFFICE) == ["a plain tone of answers", "a stern tone of answers"]
    history = await memory.history(again.ids[0])
    assert {item.id for item in history.items} == {first.ids[0], again.ids[0]}
    corrected = await memory.correct(elytron.MemoryCorrectRequest(id=again.ids[0], content="a wry tone of answers"))
    assert corrected.changed
    assert await facts(memory, KITCHEN) == ["a plain tone of answers", "a wry tone of answers"]
    await memory.erase(elytron.MemoryEraseRequest(ids=tuple({item.id for item in history.items})))
    assert "a wry tone of answers" in await facts(memory, KITCHEN)


async def test_another_subjects_chat_gets_no_fact_of_the_chat(memory: elytron.MemoryRuntime) -> None:
    tied = KITCHEN.model_copy(update={"agent": "io", "chat": "c1"})
    turn = {"kind": "transcript", "turns": [{"messages": [{"role": EvidenceRole.USER, "text": "Hello."}]}]}
    await memory.write(elytron.MemoryWriteRequest.model_validate({"scope": tied, "write": turn}))
    await believe(memory, tied, "a playful tone of answers", reach="chat")
    by_chat = tied.model_copy(update={"conversation": None})
    assert await facts(memory, by_chat) == ["Hello.", "a playful tone of answers"]
    assert "a playful tone of answers" not in await facts(memory, by_chat.model_copy(update={"agent": "other"}))
    assert "playful" not in await block(memory, by_chat.model_copy(update={"agent": "other"}))


async def test_facts_about_the_world_apply_everywhere_and_keep_their_slot(memory: elytron.MemoryRuntime) -> None:
    (world,) = (await believe(memory, KITCHEN, "a polite tone of answers", reach="world")).ids
    assert await facts(memory, OFFICE) == ["a polite tone of answers"]
    assert (await believe(memory, OFFICE, "a plain tone of answers")).decisions[0].supersedes == world


async def test_why_not_explains_its_absence_elsewhere(memory: elytron.MemoryRuntime) -> None:
    ids = (await believe(memory, KITCHEN, "a playful tone of answers", reach="chat")).ids
    request = elytron.MemoryRecallRequest(scope=OFFICE, query="tone of answers", why_not=ids)
    assert (await memory.recall(request)).why_not[0].absence is AbsenceReason.HIDDEN


async def test_a_chats_fact_moves_only_with_its_conversation(memory: elytron.MemoryRuntime, tmp_path: Path) -> None:
    await believe(memory, KITCHEN, "a playful tone of answers", reach="chat")
    made = await memory.export_continuity(elytron.ContinuityExportRequest(scope=KITCHEN))
    assert [draft.reach for draft in made.snapshot.layers.facts] == [FactReach.CHAT]
    elsewhere = await memory.export_continuity(elytron.ContinuityExportRequest(scope=OFFICE))
    assert (elsewhere.snapshot.layers.facts, elsewhere.facts_left) == ((), 0)
    await memory.import_continuity(elytron.ContinuityImportRequest(scope=OFFICE, snapshot=made.snapshot))
    assert await facts(memory, OFFICE) == ["a playful tone of answers"]

    public = await memory.export(elytron.MemorySpaceExportRequest(path=str(tmp_path / "public.zip")))
    assert public.documents.get("facts", 0) == 0
    whole = await memory.export(tmp_path / "whole.zip", include_private=True)
    assert whole.documents["facts"] == 2
    async with elytron.open("memory:", space="ben") as other:
        mode = elytron.ImportMode.BOOTSTRAP
        await other.import_archive(elytron.MemoryImportRequest(path=str(tmp_path / "whole.zip"), mode=mode))
        ben = SpaceId("ben")
        assert await facts(other, KITCHEN.model_copy(update={"space": ben})) == ["a playful tone of answers"]
        assert await facts(other, elytron.Scope(space=ben, conversation="garden")) == []


async def test_a_candidate_keeps_its_reach_and_does_not_duplicate_another_chats_fact(
    memory: elytron.MemoryRuntime,
) -> None:
    await believe(memory, OFFICE, "a playful tone of answers", reach="chat")
    proposal = {"target": "long_term", "fact_kind": "preference", "topic": "tone", "reach": "chat"}
    draft = {
        "proposal": {**proposal, "content": "a playful tone of answers"},
        "authority": "user_asserted",
        "judgement": {"verdict": "accept"},
    }
    report = await put(memory, "candidates", candidates=[draft])
    assert report.decisions[0].outcome is WriteOutcome.STORED
    assert (await memory.merge_facts()).pairs == ()


def test_a_fact_stored_before_reach_existed_belongs_to_the_space() -> None:
    body = b'{"id":"0","kind":"fact","topic":"t","content":"c","observed_at":1,"recorded_at":1,"confirmed_at":1}'
    old = Fact.from_bytes(body)
    assert (old.reach, old.home, b"reach" in old.to_bytes()) == (FactReach.USER, None, False)
