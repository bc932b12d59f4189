"""A memory is based on existing sources, and on someone with the authority to state it."""

from pathlib import Path

import pytest
from tests.sdk.told import believe, put, talk
from tests.sdk.transcripts import commit, turn

import elytron
from elytron_core.clock import Instant
from elytron_core.contracts.continuity import (
    ContinuityImportRequest,
    ContinuitySnapshot,
    SnapshotLayers,
    SnapshotManifest,
    SnapshotMode,
)
from elytron_core.contracts.transcript import WriteOutcome
from elytron_core.evidence import EvidenceRole
from elytron_core.planes.facts import FactAuthority
from elytron_core.planes.transcript import DerivedMemoryPlane
from elytron_core.policy import continuity

pytestmark = pytest.mark.anyio

NOWHERE = f"{'0' * 24}.{'0' * 12}"
STEPS = "1. Run the tests.\n2. Tag the release.\n3. Push the tag."


async def written(memory: elytron.MemoryRuntime, **write: object) -> list[tuple[WriteOutcome, str]]:
    request = elytron.MemoryWriteRequest.model_validate({"write": write})
    return [(decision.outcome, decision.reason) for decision in (await memory.write(request)).decisions]


@pytest.mark.parametrize(
    "place",
    [NOWHERE, "{said}#9", f"transcript:ada/default/default#turn={NOWHERE}", "nothing#9", "{said}#x", "transcript:ada"],
)
async def test_citations_of_missing_messages_are_rejected(memory: elytron.MemoryRuntime, place: str) -> None:
    (said,) = (await talk(memory, (EvidenceRole.USER, "The kiln is in the yard"))).ids
    cites = [place.format(said=said)]
    refused = (WriteOutcome.REJECTED, "it cites a message that does not exist")
    good = {"topic": "kiln", "content": "in the yard", "citations": [said, "ticket 7"]}
    facts = [good | {"topic": "a", "citations": cites}, good, good | {"topic": "b", "citations": [said, *cites]}]
    assert await written(memory, kind="long_term", facts=facts) == [refused, (WriteOutcome.STORED, ""), refused]
    skill = {"name": "r", "topic": "release", "title": "Release", "summary": "s", "content": STEPS, "citations": cites}
    assert await written(memory, kind="procedural", writes=[skill]) == [refused]
    note = {"period": "2026-01-01", "text": "A day.", "citations": cites}
    assert await written(memory, kind="notes", notes=[note]) == [refused]
    capsule = {"capsule_kind": "handoff", "topic": "kiln", "summary": "s", "provenance": cites}
    assert await written(memory, kind="capsules", capsules=[capsule]) == [refused]
    proposal = {"target": "long_term", "fact_kind": "profile", "topic": "kiln", "content": "it is old"}
    candidate = {"proposal": proposal, "authority": "user_asserted", "citations": [said, *cites]}
    assert await written(memory, kind="candidates", candidates=[candidate]) == [refused]


@pytest.mark.parametrize("source", ["ticket 7", "https://example.org/page#9", "PR 12", "issue #9", "t1"])
async def test_a_hosts_own_source_may_be_cited(memory: elytron.MemoryRuntime, source: str) -> None:
    assert (await believe(memory, "kiln", "in the yard", citations=(source,))).changed


async def test_a_candidate_with_erased_evidence_is_not_accepted(memory: elytron.MemoryRuntime) -> None:
    (said,) = (await talk(memory, (EvidenceRole.USER, "The kiln is old"))).ids
    proposal = {"target": "long_term", "fact_kind": "profile", "topic": "kiln", "content": "it is old"}
    candidate = {"proposal": proposal, "authority": "world_observation", "citations": [said]}
    assert (await put(memory, "candidates", candidates=[candidate])).decisions[0].outcome == WriteOutcome.DEFERRED
    (waiting,) = (await memory.list_candidates()).items
    await memory.erase([said])
    resolve = {"id": waiting.id, "resolution": "accept"}
    report = await memory.resolve_candidate(elytron.CandidateResolveRequest.model_validate(resolve))
    assert (report.changed, report.reason) == (False, "it cites a message that does not exist")


async def test_an_archive_includes_citations_of_its_content(memory: elytron.MemoryRuntime, tmp_path: Path) -> None:
    (said,) = (await talk(memory, (EvidenceRole.USER, "The kiln is in the yard"))).ids
    (hidden,) = (await talk(memory, (EvidenceRole.USER, "It is not in the barn"))).ids
    await believe(memory, "kiln", "in the yard", citations=(said, hidden, "ticket 7"))
    await memory.forget(hidden)
    path = str(tmp_path / "whole")
    await memory.export(elytron.MemorySpaceExportRequest(path=path, include_private=True))
    async with elytron.open("memory:", space="cem") as other:
        await other.import_archive(elytron.MemoryImportRequest(path=path, mode=elytron.ImportMode.BOOTSTRAP))
        (entry,) = (await other.list_facts()).items
        (hit,) = (await other.recall("yard", filters={"planes": ["transcript"]})).hits
        assert entry.evidence == (hit.id, "ticket 7")


async def test_a_snapshot_imports_no_citations_of_missing_turns(memory: elytron.MemoryRuntime) -> None:
    draft = elytron.FactDraft(topic="kiln", content="in the yard", citations=("nothing#9", "ticket 7"))
    layers = SnapshotLayers(facts=(draft,))
    manifest = SnapshotManifest(
        mode=SnapshotMode.BOOTSTRAP,
        space="ada",
        channel="default",
        conversation="default",
        made_at=Instant(1),
        includes=continuity.included_layers(layers),
        fingerprint=continuity.layers_fingerprint(layers),
    )
    snapshot = ContinuitySnapshot(manifest=manifest, layers=layers)
    await memory.import_continuity(ContinuityImportRequest(snapshot=snapshot, mode=SnapshotMode.BOOTSTRAP))
    (entry,) = (await memory.list_facts()).items
    assert entry.evidence == ("ticket 7",)


async def test_a_fact_cannot_be_based_only_on_an_assistants_words(memory: elytron.MemoryRuntime) -> None:
    (said,) = (await talk(memory, (EvidenceRole.USER, "Where is it?"), (EvidenceRole.ASSISTANT, "In the yard."))).ids
    for authority in (FactAuthority.EXTRACTED, FactAuthority.USER_ASSERTED):
        report = await believe(memory, "kiln", "in the yard", authority=authority, citations=(f"{said}#1",))
        (decision,) = report.decisions
        assert (decision.outcome, decision.reason) == (
            WriteOutcome.REJECTED,
            "assistant self-claims are evidence, not facts",
        )
        assert not report.changed
    assert (await believe(memory, "kiln", "in the yard", citations=(said, f"{said}#1"))).changed
    by_program = await believe(memory, "oven", "hot", authority=FactAuthority.PROGRAM, citations=(f"{said}#1",))
    assert by_program.changed


async def test_a_capsule_is_linked_to_its_sources(memory: elytron.MemoryRuntime) -> None:
    said = str((await commit(memory)).turn_id)
    draft = {"capsule_kind": "handoff", "topic": "kiln", "summary": "It is built.", "provenance": [said]}
    request = elytron.MemoryWriteRequest.model_validate({"write": {"kind": "capsules", "capsules": [draft]}})
    (capsule,) = (await memory.write(request)).ids
    (link,) = (await turn(memory, "review")).derived_memory_refs
    assert (link.plane, link.store_key) == (DerivedMemoryPlane.CONTINUITY, capsule)
    await memory.erase(capsule)
    assert (await turn(memory, "review")).derived_memory_refs == ()


async def test_reports_describe_locations_and_choices_in_json(memory: elytron.MemoryRuntime) -> None:
    (said,) = (
        await talk(memory, (EvidenceRole.USER, "The kiln is in the yard"), (EvidenceRole.ASSISTANT, "The kiln? Noted."))
    ).ids
    place = f"transcript:ada/default/default#turn={said}"
    recalled = (await memory.recall("kiln")).model_dump(mode="json")
    assert {hit["citation"] for hit in recalled["hits"]} == {place, f"{place}#message={said}#1"}
    assert {item.citation for item in (await memory.list()).items} == {place, f"{place}#message={said}#1"}
    assert (await memory.get(said)).citation == place
    projected = (await memory.project("kiln")).model_dump(mode="json")
    assert set(projected["selected_ids"]) == set(projected["candidate_ids"]) == {said, f"{said}#1"}


async def test_an_end_stated_later_for_a_current_fact_is_stored(memory: elytron.MemoryRuntime) -> None:
    draft = {"topic": "kiln", "content": "it is rented", "authority": "user_asserted"}
    facts = [draft, draft | {"valid_to": 1_767_225_600_000}]
    assert [outcome for outcome, _ in await written(memory, kind="long_term", facts=facts)] == [
        WriteOutcome.STORED,
        WriteOutcome.CONFIRMED,
    ]
    assert (await memory.recall("kiln")).hits == ()
