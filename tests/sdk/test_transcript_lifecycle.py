"""Raw text is archived, restored, or deleted permanently; its dependants are listed and stay."""

from pathlib import Path

import pytest
from tests.sdk.told import believe, learn
from tests.sdk.transcripts import SUPPORT, bytes_below, commit, turn, view

import elytron
from elytron.state import change_lines
from elytron_core.clock import FrozenClock
from elytron_core.errors import Conflict, NotFound
from elytron_core.ids import SeededIds
from elytron_core.planes.facts import FactAuthority
from elytron_core.ports.store import Batch, CommitReceipt, ErasureReceipt, ErasureTarget
from elytron_store.memory import MemoryStore

pytestmark = pytest.mark.anyio

CANARY = "xylophone"
STEPS = "1. Ask.\n2. Write it down.\n3. Tell the kitchen."


async def recalled(memory: elytron.MemoryRuntime, query: str = "tea") -> list[str]:
    return [hit.text for hit in (await memory.recall(query)).hits if hit.plane == "transcript"]


@pytest.mark.parametrize("transition", ["archive", "mask"])
async def test_archived_text_leaves_recall_and_projection_and_can_be_restored(
    memory: elytron.MemoryRuntime, transition: str
) -> None:
    report = await commit(memory)
    assert await recalled(memory)
    changed = await turn(memory, transition)
    assert (changed.changed, changed.affected_turns, changed.affected_turn_ids) == (True, 1, (report.turn_id,))
    assert changed.affected_message_ids == report.message_ids
    assert await recalled(memory) == []
    block = await memory.project(elytron.MemoryProjectionRequest(scope=SUPPORT, query="tea"))
    assert "tea" not in block.system_memory_block
    again = await turn(memory, transition)
    assert (again.changed, again.affected_turns) == (False, 0)
    assert (await turn(memory, "restore", str(report.turn_id))).changed
    assert await recalled(memory)


async def test_masked_text_cannot_be_read_by_its_id(memory: elytron.MemoryRuntime) -> None:
    report = await commit(memory)
    await turn(memory, "mask")
    with pytest.raises(NotFound):
        await memory.get(str(report.turn_id))
    assert {item.text for item in (await memory.history(str(report.turn_id))).items} == {None}
    (shown,) = (await memory.replay(elytron.MemoryReplayRequest(scope=SUPPORT))).turns
    assert {message.text for message in shown.messages} == {""}
    assert (await view(memory)).slice.audit.redacted_messages == 2


async def test_a_review_changes_nothing(memory: elytron.MemoryRuntime) -> None:
    await commit(memory)
    before = (await memory.inspect(fingerprints=True)).state_fingerprint
    report = await turn(memory, "review")
    assert (report.affected_turns, report.changed) == (1, False)
    assert (await memory.inspect(fingerprints=True)).state_fingerprint == before


async def test_without_a_matching_turn_nothing_changes(memory: elytron.MemoryRuntime) -> None:
    assert (await turn(memory, "mask")).affected_turns == 0
    report = await commit(memory)
    other = await commit(memory, scope=SUPPORT.model_copy(update={"conversation": "other"}))
    missing = str(report.turn_id)[:-1] + "9"
    for named in (str(other.turn_id), missing, "rubbish", str(report.turn_id)[:20]):
        changed = await turn(memory, "mask", named)
        assert (changed.affected_turns, changed.changed) == (0, False)


async def test_deleting_raw_text_keeps_and_lists_accepted_memories(memory: elytron.MemoryRuntime) -> None:
    report = await commit(memory, text="no peanuts for me")
    other = await commit(memory, "t2", "nothing else")
    (fact,) = (await believe(memory, "peanuts", "Ada has no peanuts", citations=(report.message_ids[0],))).ids
    skill = elytron.RuntimeSkillWrite(
        name="allergies", topic="t", title="Allergies", summary="s", content=STEPS, citations=(f"{other.turn_id}",)
    )
    await memory.write(elytron.MemoryWriteRequest(write=elytron.ProcedureSource(writes=(skill,))))
    gone = await turn(memory, "delete_raw", str(report.turn_id))
    (ref,) = gone.derived_memory_refs
    assert ref.model_dump(mode="json")["citation"] == ref.source.citation
    assert ref.citation.startswith("transcript:")
    assert (ref.plane, ref.store_key, ref.source.turn_id) == ("shared_fact", fact, report.turn_id)
    assert ref.source.citation == f"transcript:ada/web/support#turn={report.turn_id}"
    everything = await turn(memory, "delete_raw")
    assert [found.store_key for found in everything.derived_memory_refs] == ["runtime_skill__allergies"]
    assert [hit.id for hit in (await memory.recall("peanuts")).hits] == [fact, "runtime_skill__allergies"]
    assert not (await turn(memory, "restore")).changed
    assert await recalled(memory, "peanuts nothing") == []


async def test_private_documents_and_handoffs_are_linked_too(memory: elytron.MemoryRuntime) -> None:
    cited = {"citations": ((await commit(memory)).turn_id,), "authority": "user_asserted"}
    proposals = (
        {"target": "private_garden", "role": "diary", "name": "tea", "text": "Ada likes tea"},
        {"target": "soul", "surface": "self_model", "content": "I make tea"},
        {"target": "long_term", "topic": "drink", "content": "Ada likes tea", "fact_kind": "preference"},
    )
    write = {"kind": "candidates", "candidates": [{"proposal": one} | cited for one in proposals]}
    report = await memory.write(elytron.MemoryWriteRequest.model_validate({"scope": SUPPORT, "write": write}))
    for decision in report.decisions:
        if decision.plane != "soul":
            request = {"scope": SUPPORT, "id": decision.id, "resolution": "accept"}
            await memory.resolve_candidate(elytron.CandidateResolveRequest.model_validate(request))
    planes = {ref.plane.value for ref in (await turn(memory, "review")).derived_memory_refs}
    assert planes == {"private_garden", "soul_candidate_handoff", "shared_fact"}
    found = await memory.repair_transcript(elytron.MemoryTranscriptRepairRequest(scope=SUPPORT))
    assert not found.fail_closed


async def test_a_message_is_cited_by_its_id_or_its_citation(memory: elytron.MemoryRuntime) -> None:
    report = await commit(memory)
    part = report.message_ids[1]
    cited = f"transcript:ada/web/support#turn={report.turn_id}#message={part}"
    await believe(
        memory,
        "a",
        "one",
        citations=(part, "elsewhere"),
        authority=FactAuthority.PROGRAM,
    )
    await believe(memory, "b", "two", citations=(cited,), authority=FactAuthority.PROGRAM)
    refs = (await turn(memory, "review")).derived_memory_refs
    assert {ref.source.citation for ref in refs} == {cited}
    assert {ref.source.authority for ref in refs} == {"assistant_utterance"}
    assert len(refs) == 2


@pytest.mark.parametrize("url", ["file", "m.db"])
async def test_deleted_text_is_in_no_byte_of_the_store(tmp_path: Path, url: str) -> None:
    folder = tmp_path / "store"
    folder.mkdir()
    place = f"file://{folder}" if url == "file" else str(folder / url)
    async with elytron.open(place, scope=SUPPORT, clock=FrozenClock(step_ms=1), ids=SeededIds()) as memory:
        ref = {"host_kind": "h", "business_ref_type": "t", "business_ref_id": "1", "label": CANARY}
        await commit(
            memory,
            text=f"the {CANARY} plays",
            host_refs=(ref,),
            metadata={"note": CANARY},
            tool_observations=({"observation_id": "o", "tool_name": "t", "summary": CANARY},),
            attributes=(
                {"key": "host.a", "value": CANARY},
                {"key": "host.b", "value": "kept", "policy": "metadata_survives_mask", "visibility": "host_ui"},
            ),
        )
        assert (await memory.recall(CANARY)).hits
        await memory.recover()
        assert CANARY.encode() in bytes_below(folder)
        assert (await turn(memory, "delete_raw")).changed
        assert not (await memory.recall(CANARY)).hits
        (shown,) = (await view(memory)).slice.turns
        assert [(found.key, found.value) for found in shown.attributes] == [("host.b", "kept")]
        await memory.recover()
        assert CANARY.encode() not in bytes_below(folder)
    assert CANARY.encode() not in bytes_below(folder)


async def test_an_interrupted_deletion_is_completed_by_a_repeat(
    memory: elytron.MemoryRuntime, monkeypatch: pytest.MonkeyPatch
) -> None:
    await commit(memory, attributes=({"key": "host.a", "value": CANARY},))

    async def killed(self: MemoryStore, erasure: ErasureTarget) -> ErasureReceipt:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(MemoryStore, "erase", killed)
        with pytest.raises(KeyboardInterrupt):
            await turn(memory, "delete_raw")
    assert (await memory.inspect()).documents["turn_attributes"] == 1
    again = await turn(memory, "delete_raw")
    assert (again.affected_turns, again.changed) == (0, False)
    assert "turn_attributes" not in (await memory.inspect()).documents


async def test_a_lost_race_is_retried(memory: elytron.MemoryRuntime, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(change_lines, "RACES", 4)
    await commit(memory)
    store_commit, lost = MemoryStore.commit, [True, True]

    async def racing(self: MemoryStore, batch: Batch) -> CommitReceipt:
        if lost and lost.pop():
            raise Conflict(what="turn", expected=1, found=2)
        return await store_commit(self, batch)

    monkeypatch.setattr(MemoryStore, "commit", racing)
    assert (await turn(memory, "mask")).changed
    lost.extend([True] * change_lines.RACES)
    with pytest.raises(Conflict):
        await turn(memory, "restore")


async def test_references_are_shown_as_their_view_permits(memory: elytron.MemoryRuntime) -> None:
    refs = [
        {"host_kind": "h", "business_ref_type": "t", "business_ref_id": shown, "visibility": shown, "label": "words"}
        for shown in ("host_ui", "internal")
    ]
    await commit(memory, host_refs=refs)
    report = await turn(memory, "review")
    assert [(ref.business_ref_id, ref.label) for ref in report.affected_host_refs] == [("host_ui", "words")]
    assert report.redacted_host_refs == 1
    assert [item.reason for item in report.host_ref_redactions] == ["host_ref_visibility"]


async def test_a_profiles_budget_truncates_the_lists_and_says_so(clock: FrozenClock) -> None:
    opening = elytron.open("memory:", scope=SUPPORT, clock=clock, ids=SeededIds(), profile="esp-embedded-sdk")
    async with opening as memory:
        report = await commit(memory)
        for number in range(17):
            await believe(memory, f"topic {number}", "tea", citations=(str(report.turn_id),))
        found = await turn(memory, "review")
        assert (len(found.derived_memory_refs), found.profile_budget_applied) == (16, True)
        assert [(clip.what, clip.dropped) for clip in found.clipped] == [("derived_refs", 1)]


async def test_links_are_removed_with_their_targets(memory: elytron.MemoryRuntime) -> None:
    report = await commit(memory, attributes=({"key": "host.a", "value": 1, "part": 1}, {"key": "host.b", "value": 1}))
    (fact,) = (
        await believe(memory, "a", "one", citations=(report.message_ids[1],), authority=FactAuthority.PROGRAM)
    ).ids
    (kept,) = (await believe(memory, "b", "two", citations=(str(report.turn_id),))).ids
    await learn(memory, "nothing-cited", STEPS)
    await memory.erase(elytron.MemoryEraseRequest(ids=(report.message_ids[1],)))
    assert [ref.store_key for ref in (await turn(memory, "review")).derived_memory_refs] == [kept]
    assert (await memory.inspect()).documents["turn_attributes"] == 1
    await memory.erase(elytron.MemoryEraseRequest(ids=(kept, fact, "runtime_skill__nothing-cited")))
    assert (await turn(memory, "review")).derived_memory_refs == ()
    await memory.erase(elytron.MemoryEraseRequest(ids=(report.message_ids[0],)))
    assert {"turns", "turn_attributes", "derived_refs"}.isdisjoint((await memory.inspect()).documents)


async def test_history_shows_who_changed_a_turns_lifecycle_and_why(memory: elytron.MemoryRuntime) -> None:
    said = str((await commit(memory)).turn_id)
    for transition, reason in (("archive", "an old matter"), ("restore", ""), ("mask", "a name in it")):
        request = elytron.MemoryTranscriptLifecycleRequest.model_validate(
            {"scope": SUPPORT, "transition": transition, "reason": reason, "requested_by": "Grace"}
        )
        await memory.request_transcript_lifecycle(request)
    items = (await memory.history(said)).items
    assert [(item.event.value, item.reason, item.by) for item in items] == [
        ("added", "", ""),
        ("archived", "an old matter", "host for Grace"),
        ("restored", "", "host for Grace"),
        ("masked", "a name in it", "host for Grace"),
    ]
    assert {item.text for item in items} == {None}
    await memory.erase([said, f"{said}#1"])
    assert "audit" not in (await memory.inspect()).documents


async def test_a_turn_is_named_by_the_hosts_own_id(memory: elytron.MemoryRuntime) -> None:
    turns = [(await commit(memory, f"t{number}")).turn_id for number in range(2)]
    assert (await turn(memory, "mask", "t1")).affected_turn_ids == (turns[1],)
