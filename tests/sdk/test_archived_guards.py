"""Mode `bootstrap` imports a space's guards, and reports everything that it omits."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from tests.sdk.told import believe, learn

import elytron
from elytron import FactAction, FactChangeRequest, ImportMode, LearningAction, MemoryForgetRequest, Scope
from elytron.documents.planes import BOOTSTRAP_HOMES
from elytron.transfer.archive import GUARDS
from elytron.transfer.bootstrap import REBUILT, UNBROUGHT
from elytron_core.clock import FrozenClock
from elytron_core.ids import SeededIds, SpaceId
from elytron_core.planes import facts, skills, transcript
from elytron_core.planes.facts import FactKind
from elytron_core.planes.space import COLLECTIONS
from elytron_core.policy.admission.learning_rules import FORGOTTEN_BEFORE, SUPPRESSED

pytestmark = pytest.mark.anyio


@pytest.fixture
async def other(clock: FrozenClock) -> AsyncIterator[elytron.MemoryRuntime]:
    async with elytron.open("memory:", space="elsewhere", clock=clock, ids=SeededIds("elsewhere")) as runtime:
        yield runtime


async def exported(memory: elytron.MemoryRuntime, tmp_path: Path) -> str:
    path = str(tmp_path / "a.elytron")
    await memory.export(path, include_private=True, overwrite=True)
    return path


async def reasons(memory: elytron.MemoryRuntime, topic: str, content: str, *citations: str) -> str:
    report = await memory.add_fact(topic, content, kind=FactKind.PREFERENCE, citations=citations)
    return report.decisions[0].reason


async def test_forgotten_deleted_or_suppressed_content_is_not_learned_after_a_bootstrap(
    memory: elytron.MemoryRuntime, other: elytron.MemoryRuntime, tmp_path: Path
) -> None:
    (said,) = (await memory.add("My locker has the code seven", speaker="Ada")).ids
    drafts = {"drink": "Ada likes green tea", "home": "Ada lives in Porto", "locker": "its code is seven"}
    ids = {
        topic: (await memory.add_fact(topic, content, kind=FactKind.PREFERENCE, citations=(said,))).ids[0]
        for topic, content in drafts.items()
    }
    await memory.add_fact("pet", "Ada has a cat")
    await memory.forget(MemoryForgetRequest(ids=(ids["drink"], ids["locker"])))
    await memory.change_fact(FactChangeRequest(id=ids["home"], action=FactAction.DELETE))
    await memory.set_learning(LearningAction.SUPPRESS, "health", reason="asked to")
    archive = await exported(memory, tmp_path)
    rehearsed = await other.import_archive(
        elytron.MemoryImportRequest(path=archive, mode=ImportMode.BOOTSTRAP, dry_run=True)
    )
    report = await other.import_archive(archive, mode=ImportMode.BOOTSTRAP)
    assert rehearsed.imported == report.imported == {"facts": 1, "learning": 1, "tombstones": 4, "turns": 1}
    for topic, content in drafts.items():
        assert await reasons(other, f"other {topic}", content) == FORGOTTEN_BEFORE
    (here,) = [item.id for item in (await other.list()).items if item.plane is elytron.RecallPlane.TRANSCRIPT]
    assert await reasons(other, "cupboard", "the number is seven", here) == FORGOTTEN_BEFORE
    assert await reasons(other, "health", "Ada is well") == SUPPRESSED
    (rule,) = (await other.list_facts()).learning.rules
    assert (rule.topic, rule.reason) == ("health", "asked to")
    again = await other.import_archive(archive, mode=ImportMode.BOOTSTRAP)
    assert (again.changed, again.imported, again.skipped["tombstones"]) == (False, {}, 4)
    assert (await other.set_learning(LearningAction.ALLOW, "drink")).changed
    assert await reasons(other, "other drink", drafts["drink"]) == ""
    await other.set_learning(LearningAction.ALLOW, "health")
    late = await other.import_archive(archive, mode=ImportMode.BOOTSTRAP)
    assert (late.imported, late.skipped["tombstones"]) == ({}, 3)
    assert (await other.list_facts()).learning.rules == ()
    assert "drink" in [event.topic for event in (await other.list_facts()).learning.log]


async def test_a_bootstrap_does_not_restore_guards_removed_since(
    memory: elytron.MemoryRuntime, tmp_path: Path, clock: FrozenClock
) -> None:
    (tea,) = (await memory.add_fact("drink", "Ada likes green tea")).ids
    await memory.forget(tea)
    await memory.set_learning(LearningAction.SUPPRESS, "health")
    await memory.set_learning(LearningAction.PAUSE)
    archive = await exported(memory, tmp_path)
    for action, topic in (
        (LearningAction.ALLOW, "drink"),
        (LearningAction.ALLOW, "health"),
        (LearningAction.RESUME, None),
    ):
        await memory.set_learning(elytron.LearningRequest(action=action, topic=topic))
    report = await memory.import_archive(archive, mode=ImportMode.BOOTSTRAP)
    assert (report.imported, report.skipped["learning"]) == ({}, 2)
    assert (await memory.list_facts()).learning.rules == ()
    assert await reasons(memory, "other", "Ada likes green tea") == ""


async def test_a_fact_that_was_erased_here_leaves_no_tombstone(memory: elytron.MemoryRuntime, tmp_path: Path) -> None:
    (tea,) = (await memory.add_fact("drink", "Ada likes green tea")).ids
    await memory.forget(tea)
    archive = await exported(memory, tmp_path)
    await memory.erase(tea)
    report = await memory.import_archive(archive, mode=ImportMode.BOOTSTRAP)
    assert (report.imported, "tombstones" in (await memory.inspect()).documents) == ({}, False)


async def test_a_chats_forgotten_fact_is_guarded_in_the_importing_chat(
    memory: elytron.MemoryRuntime, other: elytron.MemoryRuntime, tmp_path: Path
) -> None:
    async def told(runtime: elytron.MemoryRuntime, conversation: str) -> elytron.MemoryWriteReport:
        draft = elytron.FactDraft(topic="tone", content="Ada wants jokes", reach=elytron.FactReach.CHAT)
        scope = Scope(space=SpaceId("ada" if runtime is memory else "elsewhere"), conversation=conversation)
        write = elytron.LongTermExtraction(facts=(draft,))
        return await runtime.write(elytron.MemoryWriteRequest(scope=scope, write=write))

    await memory.forget((await told(memory, "kitchen")).ids[0])
    archive = await exported(memory, tmp_path)
    scope = Scope(space=SpaceId("elsewhere"), conversation="hall")
    await other.import_archive(elytron.MemoryImportRequest(scope=scope, path=archive, mode=ImportMode.BOOTSTRAP))
    assert (await told(other, "hall")).decisions[0].reason == FORGOTTEN_BEFORE
    assert (await told(other, "kitchen")).changed


async def test_a_members_archive_cannot_attribute_rules_to_others(
    memory: elytron.MemoryRuntime, other: elytron.MemoryRuntime, tmp_path: Path
) -> None:
    await memory.set_learning(LearningAction.SUPPRESS, "health")
    archive = await exported(memory, tmp_path)
    request = elytron.MemoryImportRequest(path=archive, mode=ImportMode.BOOTSTRAP, word="claimed")  # type: ignore[arg-type]
    await other.import_archive(request)
    (rule,) = (await other.list_facts()).learning.rules
    assert rule.by == "host"


async def test_the_report_lists_omissions(
    memory: elytron.MemoryRuntime, other: elytron.MemoryRuntime, tmp_path: Path
) -> None:
    turn = elytron.TurnDraft(messages=(elytron.Message(text="one"), elytron.Message(text="two")))
    write = elytron.TranscriptWrite(turns=(turn,))
    (kept,) = (await memory.write(elytron.MemoryWriteRequest(write=write))).ids
    (hidden,) = (await memory.add("three")).ids
    await memory.forget(MemoryForgetRequest(ids=(f"{kept}#1", hidden)))
    await believe(memory, "home", "Lisbon")
    await believe(memory, "home", "Porto")
    await learn(memory, "brew", "1. Boil water.\n2. Pour it.\n3. Wait.")
    await memory.set_runtime_skill_enabled("runtime_skill__brew", enabled=False)
    await memory.put_record(("settings",), "theme", "dark")
    archive = await exported(memory, tmp_path)
    report = await other.import_archive(archive, mode=ImportMode.BOOTSTRAP)
    assert report.imported == {"facts": 1, "records": 1, "turns": 1}
    counts = (await memory.inspect()).documents
    assert dict(report.left_out) == {
        **{name: count for name, count in counts.items() if name in UNBROUGHT and count},
        "facts": 1,
        "messages": 1,
        "skills": 1,
        "turns": 1,
    }
    assert "audit" in report.left_out


def test_every_collection_is_imported_rebuilt_or_reported() -> None:
    brought = {transcript.TURNS, facts.FACTS, skills.SKILLS, *BOOTSTRAP_HOMES, *GUARDS}
    assert brought | REBUILT | UNBROUGHT == set(COLLECTIONS)
    assert len(brought) + len(REBUILT) + len(UNBROUGHT) == len(COLLECTIONS)
