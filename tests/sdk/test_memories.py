"""Guarantees of control operations: forget can be undone, correct keeps history, erase leaves nothing."""

from pathlib import Path

import pytest
from tests.sdk.told import believe, learn, talk, texts
from tests.sdk.transcripts import turn as turn_over

import elytron
from elytron_core.clock import FrozenClock
from elytron_core.contracts.memories import ControlOutcome
from elytron_core.contracts.recall import RecallFilters
from elytron_core.errors import InvalidInput, NotFound, ScopeMissing
from elytron_core.evidence import EvidenceRole
from elytron_core.ids import SpaceId

pytestmark = pytest.mark.anyio

STEPS = "1. Run the tests.\n2. Tag the release.\n3. Push the tag."


async def forget(memory: elytron.MemoryRuntime, *ids: str, undo: bool = False) -> elytron.MemoryControlReport:
    return await memory.forget(elytron.MemoryForgetRequest(ids=ids, undo=undo))


async def test_a_forgotten_message_is_hidden_and_can_be_restored(memory: elytron.MemoryRuntime) -> None:
    (turn,) = (await talk(memory, (EvidenceRole.USER, "I like tea"), (EvidenceRole.ASSISTANT, "Noted: tea"))).ids
    report = await forget(memory, turn)
    assert report.decisions[0].outcome is ControlOutcome.CHANGED
    assert await texts(memory, "tea") == ["Noted: tea"]
    assert [item.text for item in (await memory.list()).items] == ["Noted: tea"]
    assert (await memory.project("tea")).system_memory_block.count("I like tea") == 0
    assert [item.event.value for item in (await memory.history(turn)).items] == ["added", "forgotten"]
    assert (await forget(memory, turn)).decisions[0].outcome is ControlOutcome.UNCHANGED
    assert (await forget(memory, turn, undo=True)).changed
    assert sorted(await texts(memory, "tea")) == ["I like tea", "Noted: tea"]
    assert (await forget(memory, turn, undo=True)).decisions[0].outcome is ControlOutcome.UNCHANGED


async def test_both_messages_of_a_turn_can_be_forgotten_in_one_call(memory: elytron.MemoryRuntime) -> None:
    (turn,) = (await talk(memory, (EvidenceRole.USER, "I like tea"), (EvidenceRole.ASSISTANT, "Noted: tea"))).ids
    await forget(memory, turn, f"{turn}#1")
    assert await texts(memory, "tea") == []
    await forget(memory, turn, f"{turn}#1", undo=True)
    assert len(await texts(memory, "tea")) == 2


async def test_facts_and_skills_are_forgotten_and_restored(memory: elytron.MemoryRuntime) -> None:
    (fact,) = (await believe(memory, "drink", "green tea")).ids
    await learn(memory, "release", STEPS)
    skill = "runtime_skill__release"
    await forget(memory, fact, skill)
    assert await texts(memory, "drink tea release deploying") == []
    assert (await memory.list()).items == ()
    assert "forgotten" in [item.event.value for item in (await memory.history(skill)).items]
    assert (await forget(memory, fact, skill)).changed is False
    await forget(memory, fact, skill, undo=True)
    assert len((await memory.list()).items) == 2
    assert (await forget(memory, fact, skill, undo=True)).changed is False


async def test_forgetting_a_missing_memory_says_so(memory: elytron.MemoryRuntime) -> None:
    assert (await forget(memory, "nothing")).decisions[0].outcome is ControlOutcome.NOT_FOUND
    await memory.add("Hello")
    missing = ["nothing", "abc.def#x", "00000000-0000-7000-8000-000000000000", "runtime_skill__none", "ab.1#700"]
    report = await forget(memory, *missing)
    assert {decision.outcome for decision in report.decisions} == {ControlOutcome.NOT_FOUND}
    assert not report.changed


async def test_a_dry_run_changes_nothing(memory: elytron.MemoryRuntime) -> None:
    (turn,) = (await memory.add("I like tea")).ids
    (fact,) = (await believe(memory, "drink", "green tea")).ids
    before = (await memory.inspect(fingerprints=True)).state_fingerprint
    hidden = await memory.forget(elytron.MemoryForgetRequest(ids=(turn,), dry_run=True))
    corrected = await memory.correct(elytron.MemoryCorrectRequest(id=fact, content="black tea", dry_run=True))
    erased = await memory.erase(elytron.MemoryEraseRequest(ids=(turn,), dry_run=True))
    cleared = await memory.erase(elytron.MemoryEraseRequest(whole_space="ada", dry_run=True))
    assert {report.decisions[0].outcome for report in (hidden, corrected, erased, cleared)} == {ControlOutcome.CHANGED}
    assert not any(report.changed for report in (hidden, corrected, erased, cleared))
    assert erased.removed == {"turns": 1}
    assert (await memory.inspect(fingerprints=True)).state_fingerprint == before


async def test_a_correction_replaces_the_fact_and_keeps_the_old_one_in_history(
    memory: elytron.MemoryRuntime,
) -> None:
    (wrong,) = (await believe(memory, "birthday", "14 March")).ids
    report = await memory.correct(elytron.MemoryCorrectRequest(id=wrong, content="4 March", reason="misheard"))
    new = report.decisions[0].new_id
    assert new is not None
    assert await texts(memory, "birthday") == ["4 March"]
    items = (await memory.history(new)).items
    assert [(item.id, item.event.value, item.reason) for item in items] == [
        (wrong, "added", ""),
        (wrong, "corrected", "misheard"),
        (new, "added", ""),
    ]
    again = await memory.correct(elytron.MemoryCorrectRequest(id=new, content="4 March"))
    assert (again.decisions[0].outcome, again.decisions[0].reason) == (
        ControlOutcome.UNCHANGED,
        "it already has that content",
    )
    with pytest.raises(InvalidInput, match="it was corrected"):
        await memory.correct(elytron.MemoryCorrectRequest(id=wrong, content="5 March"))


async def test_only_facts_and_messages_are_corrected(memory: elytron.MemoryRuntime) -> None:
    (skill,) = (await learn(memory, "release", STEPS)).ids
    with pytest.raises(InvalidInput, match="does not name a fact"):
        await memory.correct(elytron.MemoryCorrectRequest(id=skill, content="Push first."))
    with pytest.raises(NotFound):
        await memory.correct(elytron.MemoryCorrectRequest(id="nothing", content="x"))


async def test_an_erased_message_leaves_no_byte_and_its_turn_keeps_the_rest(tmp_path: Path) -> None:
    path = tmp_path / "memory.db"
    async with elytron.open(path) as memory:
        (turn,) = (
            await talk(
                memory, (EvidenceRole.USER, "my canary is XYZZY"), (EvidenceRole.ASSISTANT, "noted"), host_id="h"
            )
        ).ids
        await memory.recall("canary")
        await memory.recover()
        report = await memory.erase(elytron.MemoryEraseRequest(ids=(turn,)))
        assert report.removed == {"messages": 1}
        assert await texts(memory, "canary XYZZY") == ["noted"]
        assert [m.text for t in (await memory.replay()).turns for m in t.messages] == ["noted"]
        with pytest.raises(NotFound):
            await memory.get(turn)
        everything = b"".join(file.read_bytes() for file in tmp_path.iterdir())
        assert b"XYZZY" not in everything
        assert b"xyzzi" not in everything.lower()


async def test_a_turn_is_removed_with_its_last_message_and_its_number_never_reused(
    memory: elytron.MemoryRuntime,
) -> None:
    (turn,) = (await talk(memory, (EvidenceRole.USER, "one"), (EvidenceRole.ASSISTANT, "two"), host_id="h")).ids
    first = await memory.erase(elytron.MemoryEraseRequest(ids=(turn, f"{turn}#1")))
    assert first.removed == {"turn_names": 1, "turns": 1}
    ledger = await memory.replay()
    assert ledger.turns == ()
    assert ledger.total_turns == 0
    (again,) = (await talk(memory, (EvidenceRole.USER, "one"), (EvidenceRole.ASSISTANT, "two"), host_id="h")).ids
    assert again > turn


async def test_an_erasure_lists_the_facts_derived_from_erased_content(memory: elytron.MemoryRuntime) -> None:
    (turn,) = (await memory.add("I like tea")).ids
    (fact,) = (await believe(memory, "drink", "tea", citations=(turn,))).ids
    report = await memory.erase(elytron.MemoryEraseRequest(ids=(turn,)))
    assert report.derived == (fact,)
    gone = await memory.erase(elytron.MemoryEraseRequest(ids=(fact,)))
    assert gone.removed == {"facts": 1, "slots": 1}
    assert gone.derived == ()


async def test_forgetting_evidence_lists_derived_memories_that_are_still_recalled(
    memory: elytron.MemoryRuntime,
) -> None:
    (turn,) = (await talk(memory, (EvidenceRole.USER, "I like tea"), (EvidenceRole.USER, "and a kiln"))).ids
    (fact,) = (await believe(memory, "drink", "tea", citations=(turn,))).ids
    (hidden,) = (await believe(memory, "kiln", "she has one", citations=(turn,))).ids
    (other,) = (await believe(memory, "place", "a cellar", citations=(f"{turn}#1",))).ids
    await memory.forget(hidden)
    dry = await memory.forget(elytron.MemoryForgetRequest(ids=(turn,), dry_run=True))
    report = await memory.forget(turn)
    assert dry.derived == report.derived == (fact,)
    assert (await memory.forget(f"{turn}#1")).derived == (other,)
    assert (await memory.forget(turn, undo=True)).derived == ()
    assert (await memory.forget(elytron.MemoryForgetRequest(ids=(turn, fact)))).derived == ()


async def test_memories_that_cannot_be_hidden_say_so(memory: elytron.MemoryRuntime) -> None:
    draft = elytron.SubjectDraft.model_validate({"name": "user:ada", "subject_kind": "human_user"})
    write = elytron.SubjectsWrite(subjects=(draft,))
    (subject,) = (await memory.write(elytron.MemoryWriteRequest(write=write))).ids
    (decision,) = (await memory.forget(subject)).decisions
    assert (decision.outcome, decision.reason) == (
        ControlOutcome.UNCHANGED,
        "memories of its plane cannot be hidden: erase it",
    )


async def test_erasing_one_version_of_a_fact_keeps_the_others(memory: elytron.MemoryRuntime) -> None:
    (old,) = (await believe(memory, "home", "Lisbon")).ids
    (new,) = (await believe(memory, "home", "Porto")).ids
    report = await memory.erase(elytron.MemoryEraseRequest(ids=(old,)))
    assert report.removed == {"facts": 1}
    assert [item.text for item in (await memory.history(new)).items] == ["Porto"]


async def test_an_erased_skill_is_gone(memory: elytron.MemoryRuntime) -> None:
    await learn(memory, "release", STEPS)
    report = await memory.erase(elytron.MemoryEraseRequest(ids=("runtime_skill__release", "nothing")))
    assert report.removed == {"skills": 1}
    assert [decision.outcome for decision in report.decisions] == [ControlOutcome.CHANGED, ControlOutcome.NOT_FOUND]
    again = await memory.erase(elytron.MemoryEraseRequest(ids=("runtime_skill__release",)))
    assert not again.changed


async def test_an_erased_space_is_empty_and_reusable(memory: elytron.MemoryRuntime) -> None:
    await memory.add("I like tea")
    await memory.recall("tea")
    report = await memory.erase(elytron.MemoryEraseRequest(whole_space="ada"))
    assert report.changed
    assert (await memory.inspect()).exists is False
    assert (await memory.recall("tea")).reason is elytron.NothingReason.EMPTY_SPACE
    await memory.add("I like coffee")
    assert await texts(memory, "tea coffee") == ["I like coffee"]
    again = await memory.delete_all(user_id="nobody")
    assert again.decisions[0].outcome is ControlOutcome.NOT_FOUND


async def test_another_runtime_notices_a_recreated_space(path: str) -> None:
    clock = FrozenClock(step_ms=1)
    async with elytron.open(path, clock=clock) as one, elytron.open(path, clock=clock) as other:
        await one.add("I like tea")
        await other.recall("tea")
        await other.add("and cake")
        await one.delete_all(user_id="default")
        await one.add("I like coffee")
        assert await texts(other, "tea cake coffee") == ["I like coffee"]
        await other.add("with milk")
        assert sorted(item.text for item in (await one.list()).items) == ["I like coffee", "with milk"]


async def test_a_destructive_call_without_a_scope_is_refused(memory: elytron.MemoryRuntime) -> None:
    await memory.add("I like tea")
    with pytest.raises(ScopeMissing):
        await memory.delete_all()
    with pytest.raises(ScopeMissing):
        await memory.erase(elytron.MemoryEraseRequest())
    with pytest.raises(InvalidInput, match="repeat its name"):
        await memory.erase(elytron.MemoryEraseRequest(whole_space="bob"))
    with pytest.raises(InvalidInput, match="pass only one"):
        await memory.erase(elytron.MemoryEraseRequest(ids=("a",), whole_space="ada"))
    assert await texts(memory, "tea") == ["I like tea"]


async def test_mem0s_delete_and_delete_all_erase_the_named_memories(memory: elytron.MemoryRuntime) -> None:
    (kept,) = (await memory.add("kept", agent_id="a", run_id="r1")).ids
    (gone,) = (await memory.add("gone", agent_id="a", run_id="r2")).ids
    await memory.add("elsewhere", user_id="bob")
    assert (await memory.delete_all(run_id="r2")).decisions[0].id == gone
    assert [item.id for item in (await memory.get_all(agent_id="a")).items] == [kept]
    assert [item.text for item in (await memory.get_all(user_id="bob")).items] == ["elsewhere"]
    assert (await memory.delete(kept)).changed
    with pytest.raises(NotFound):
        await memory.delete(kept)
    assert (await memory.delete_all(agent_id="a")).changed is False


async def test_delete_all_also_erases_hidden_content(memory: elytron.MemoryRuntime) -> None:
    (hidden,) = (await memory.add("hidden", run_id="r")).ids
    (masked,) = (await memory.add("masked", run_id="r")).ids
    kept = await memory.add("kept", run_id="other")
    await forget(memory, hidden)
    scope = elytron.Scope(space=SpaceId("ada"), conversation="r")
    await turn_over(memory, "mask", masked, scope=scope)
    assert (await memory.get_all(run_id="r")).items == ()
    listed = await memory.list(elytron.MemoryListRequest(hidden=elytron.HiddenFilter.LISTED))
    assert {item.id: item.text for item in listed.items} == {hidden: "hidden", masked: "", kept.ids[0]: "kept"}
    report = await memory.delete_all(run_id="r")
    assert {decision.id for decision in report.decisions} == {hidden, masked}
    assert (await memory.inspect()).documents["turns"] == 1


async def test_a_fact_forgotten_and_rewritten_is_current_again(memory: elytron.MemoryRuntime) -> None:
    (fact,) = (await believe(memory, "home", "Lisbon")).ids
    await forget(memory, fact)
    await believe(memory, "home", "Porto")
    assert await texts(memory, "home") == ["Porto"]
    as_of = RecallFilters(as_of=memory.context.clock.now())
    assert [hit.text for hit in (await memory.recall("home", filters=as_of)).hits] == ["Porto"]


async def test_history_shows_who_forgot_and_restored_and_why(memory: elytron.MemoryRuntime) -> None:
    (turn,) = (await memory.add("I like tea")).ids
    (fact,) = (await believe(memory, "drink", "green tea")).ids
    await memory.forget(elytron.MemoryForgetRequest(ids=(turn, fact), reason="asked to"))
    await memory.forget(elytron.MemoryForgetRequest(ids=(turn, fact), reason="changed my mind", undo=True))
    for kept in (turn, fact):
        items = (await memory.history(kept)).items
        told = [(item.event.value, item.by, item.reason) for item in items]
        assert told == [
            ("added", "", ""),
            ("forgotten", "host", "asked to"),
            ("restored", "host", "changed my mind"),
        ]
    await memory.correct(elytron.MemoryCorrectRequest(id=fact, content="black tea", reason="misheard"))
    corrected = [item for item in (await memory.history(fact)).items if item.event.value == "corrected"]
    assert [(item.by, item.reason) for item in corrected] == [("host", "misheard")]


async def test_an_erased_memory_leaves_no_audit_trail(memory: elytron.MemoryRuntime) -> None:
    (turn,) = (await talk(memory, (EvidenceRole.USER, "I like tea"), (EvidenceRole.ASSISTANT, "Noted"))).ids
    await memory.forget(elytron.MemoryForgetRequest(ids=(turn, f"{turn}#1"), reason="asked to"))
    await memory.erase([turn])
    assert (await memory.history(f"{turn}#1")).items[-1].reason == "asked to"
    await memory.erase([f"{turn}#1"])
    assert "audit" not in (await memory.inspect()).documents


async def test_an_agent_without_its_user_gets_a_helpful_error() -> None:
    async with elytron.open("memory:", space=None) as memory:
        for call in (memory.delete_all(agent_id="a1"), memory.add("tea", agent_id="a1")):
            with pytest.raises(ScopeMissing, match="pass user_id= too"):
                await call
