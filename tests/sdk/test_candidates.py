"""Governance: candidates are judged and decided, near duplicates merge and separate, memory never feeds itself."""

from collections.abc import Mapping

import pytest
from tests.sdk.told import believe, put, talk, texts

import elytron
from elytron_core.contracts.transcript import WriteOutcome
from elytron_core.errors import InvalidInput, NotFound
from elytron_core.evidence import EvidenceRole
from elytron_core.planes.candidates import CandidateState, CandidateTarget
from elytron_core.planes.facts import FactConfidence, FactKind

pytestmark = pytest.mark.anyio

YES = {"verdict": "accept"}


def fact(topic: str = "drink", content: str = "likes green tea", **more: object) -> dict[str, object]:
    return {"target": "long_term", "fact_kind": "preference", "topic": topic, "content": content, **more}


def candidate(proposal: Mapping[str, object] | None = None, **more: object) -> dict[str, object]:
    fields: dict[str, object] = {"authority": "user_asserted", "judgement": YES}
    return {"proposal": proposal or fact(), **fields, **more}


async def propose(memory: elytron.MemoryRuntime, *candidates: dict[str, object]) -> elytron.MemoryWriteReport:
    return await put(memory, "candidates", candidates=list(candidates))


async def waiting(memory: elytron.MemoryRuntime) -> list[str]:
    return [item.id for item in (await memory.list_candidates()).items]


async def resolve(memory: elytron.MemoryRuntime, name: str, how: str = "accept", **more: object):
    request = elytron.CandidateResolveRequest.model_validate({"id": name, "resolution": how, **more})
    return await memory.resolve_candidate(request)


async def test_an_accepted_candidate_becomes_a_fact_and_vouched_content_is_certain(
    memory: elytron.MemoryRuntime,
) -> None:
    report = await propose(memory, candidate(fact(confidence="low")))
    assert [decision.outcome for decision in report.decisions] == [WriteOutcome.STORED]
    assert await texts(memory, "green tea") == ["likes green tea"]
    assert (await memory.get(report.ids[0])).kind is FactKind.PREFERENCE
    again = await propose(memory, candidate(fact(content="likes black tea", confidence="low")))
    assert again.decisions[0].supersedes == report.ids[0]


async def test_merge_guards_apply_to_candidates(memory: elytron.MemoryRuntime) -> None:
    await propose(memory, candidate(fact(observed_at=2_000)))
    (said,) = (await talk(memory, (EvidenceRole.USER, "I think I like oolong"))).ids
    older = candidate(fact(content="likes oolong", observed_at=1_000))
    unsure = candidate(fact(content="likes oolong"), authority="world_observation", citations=[said])
    private = candidate(fact(content="likes oolong"), privacy="private")
    report = await propose(memory, older, unsure, private)
    assert {decision.outcome for decision in report.decisions} == {WriteOutcome.REJECTED}
    assert len({decision.reason for decision in report.decisions}) == 3
    assert "likes oolong" not in await texts(memory, "drink")


async def test_an_assistants_statements_about_itself_or_the_user_are_not_facts(memory: elytron.MemoryRuntime) -> None:
    report = await talk(
        memory, (EvidenceRole.USER, "hello"), (EvidenceRole.ASSISTANT, "You like green tea, and I am wise.")
    )
    cited = f"{report.ids[0]}#1"
    proposed = await propose(
        memory,
        candidate(authority="assistant_self_claim"),
        candidate(citations=[cited]),
        candidate(origins=["assistant"]),
    )
    assert [decision.outcome for decision in proposed.decisions] == [WriteOutcome.REJECTED] * 3
    assert (await memory.inspect()).planes.keys() == {elytron.RecallPlane.TRANSCRIPT}


async def test_an_unjudged_candidate_waits_once_and_becomes_a_fact_on_approval(memory: elytron.MemoryRuntime) -> None:
    unjudged = candidate(judgement=None)
    first = await propose(memory, unjudged)
    assert first.decisions[0].outcome is WriteOutcome.DEFERRED
    assert (await propose(memory, unjudged)).decisions[0].outcome is WriteOutcome.DUPLICATE
    assert await texts(memory, "green tea") == []
    (name,) = await waiting(memory)
    tried = await resolve(memory, name, dry_run=True)
    assert (tried.state, tried.changed, await waiting(memory)) == (CandidateState.ACCEPTED, False, [name])
    resolved = await resolve(memory, name, reason="asked her")
    assert resolved.changed
    assert await texts(memory, "green tea") == ["likes green tea"]
    assert resolved.became == (await memory.recall("green tea")).hits[0].id
    assert await waiting(memory) == []
    assert (await resolve(memory, name)).reason == "it was accepted before"
    assert (await propose(memory, unjudged)).decisions[0].reason == "the same candidate was accepted before"
    history = await memory.history(name)
    assert [(item.event.value, item.reason) for item in history.items][-1] == ("confirmed", "asked her")


async def test_approval_does_not_bypass_the_merge_guards(memory: elytron.MemoryRuntime) -> None:
    await propose(memory, candidate(fact(observed_at=1_000), judgement=None))
    await believe(memory, "drink", "drinks water", kind=FactKind.PREFERENCE, observed_at=2_000)
    (name,) = await waiting(memory)
    refused = await resolve(memory, name)
    assert (refused.changed, refused.state) == (False, CandidateState.DEFERRED)
    assert "observed before" in refused.reason
    rejected = await resolve(memory, name, "reject", reason="outdated")
    assert (rejected.changed, rejected.state) == (True, CandidateState.REJECTED)


async def test_private_documents_are_deferred_and_souls_handed_off(memory: elytron.MemoryRuntime) -> None:
    diary = {"target": "private_garden", "role": "diary", "name": "monday", "text": "A quiet day."}
    soul = {"target": "soul", "surface": "values", "content": "be patient"}
    trouble = {"target": "operator_diagnostic", "topic": "disk", "content": "nearly full"}
    report = await propose(memory, candidate(diary), candidate(soul), candidate(trouble))
    assert [decision.verdict.value for decision in report.decisions] == ["defer", "handoff", "handoff"]
    listed = await memory.list_candidates(elytron.CandidateListRequest(targets=(CandidateTarget.SOUL,)))
    assert [item.state for item in listed.items] == [CandidateState.HANDED_OFF]
    taken = await resolve(memory, listed.items[0].id)
    assert (taken.changed, taken.became) == (True, None)
    (kept,) = (
        await memory.list_candidates(
            elytron.CandidateListRequest(targets=(CandidateTarget.PRIVATE_GARDEN,), include_private=True)
        )
    ).items
    planted = await resolve(memory, kept.id)
    assert planted.became is not None
    garden = await memory.read_garden(elytron.GardenRequest(audience=elytron.GardenAudience.OWNER))
    assert [document.text for document in garden.documents] == ["A quiet day."]


async def test_candidates_are_read_in_pages(memory: elytron.MemoryRuntime) -> None:
    await propose(memory, *(candidate(fact(topic=f"t{number}"), judgement=None) for number in range(5)))
    seen: list[str] = []
    cursor = None
    while True:
        page = await memory.list_candidates(elytron.CandidateListRequest(limit=2, cursor=cursor))
        seen += [item.id for item in page.items]
        cursor = page.next_cursor
        if not page.has_more:
            break
    assert len(set(seen)) == len(seen) == 5
    with pytest.raises(InvalidInput):
        await memory.list_candidates(elytron.CandidateListRequest(cursor="no such"))
    for name in ("candidate:00", "fact", seen[0].replace("candidate", "capsule")):
        with pytest.raises(NotFound):
            await resolve(memory, name)


async def test_the_number_of_pending_candidates_is_limited(
    memory: elytron.MemoryRuntime, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("elytron.writes.candidates.CANDIDATES_WAITING", 2)
    many = [candidate(fact(topic=f"t{number}"), judgement=None) for number in range(3)]
    report = await propose(memory, *many)
    assert [decision.outcome for decision in report.decisions] == [
        WriteOutcome.DEFERRED,
        WriteOutcome.DEFERRED,
        WriteOutcome.REJECTED,
    ]
    await resolve(memory, (await waiting(memory))[0], "reject")
    assert (await propose(memory, many[2])).decisions[0].outcome is WriteOutcome.DEFERRED
    assert (await memory.inspect()).documents["candidates"] == 2


async def test_erased_evidence_supports_no_candidate(memory: elytron.MemoryRuntime) -> None:
    (said,) = (await talk(memory, (EvidenceRole.USER, "I like green tea"))).ids
    await propose(memory, candidate(judgement=None, citations=[said]))
    erased = await memory.erase(elytron.MemoryEraseRequest(ids=(said,)))
    assert erased.derived == tuple(await waiting(memory))
    assert erased.planes == (elytron.RecallPlane.TRANSCRIPT,)
    report = await propose(memory, candidate(fact(topic="tea"), citations=[said]))
    assert report.decisions[0].reason == "it cites a message that does not exist"


async def test_a_candidate_with_a_secret_is_stored_without_it(memory: elytron.MemoryRuntime) -> None:
    secret = "sk-abcdefghijklmnopqrstuvwxyz012345"
    report = await propose(memory, candidate(fact(content=f"the key is {secret}"), judgement=None))
    assert report.scrubbed == {"api_key": 1}
    (item,) = (await memory.list_candidates()).items
    assert secret not in item.model_dump_json()


async def test_echoed_recall_output_adds_no_fact_or_evidence(
    memory: elytron.MemoryRuntime,
) -> None:
    (said,) = (await talk(memory, (EvidenceRole.USER, "I like green tea"))).ids
    await propose(memory, candidate(citations=[said]))
    before = (await memory.inspect()).planes
    for number in range(12):
        report = await memory.project("green tea")
        host = f"turn-{number}"
        written = await talk(memory, (EvidenceRole.USER, report.system_memory_block), host_id=host)
        assert written.scrubbed == {"recalled_memory": 1}
        recalled = next(hit for hit in (await memory.recall("green tea")).hits if hit.kind is not None)
        proposals = (
            candidate(fact(content=report.system_memory_block[:200])),
            candidate(fact(topic=f"topic {number}", content=recalled.text)),
            candidate(fact(content=recalled.text), citations=[said]),
            candidate(fact(content=recalled.text), origins=["recalled"]),
        )
        fed = await propose(memory, *proposals)
        assert not fed.changed
    after = (await memory.inspect()).planes
    assert {**after, elytron.RecallPlane.TRANSCRIPT: 1} == before
    assert sorted(await texts(memory, "green tea")) == ["I like green tea", "likes green tea"]
    kept = next(hit for hit in (await memory.recall("green tea")).hits if hit.kind is not None)
    assert [item.event.value for item in (await memory.history(kept.id)).items] == ["added"]


async def test_a_users_repetition_on_new_evidence_counts(memory: elytron.MemoryRuntime) -> None:
    (one,) = (await talk(memory, (EvidenceRole.USER, "I like green tea"))).ids
    (two,) = (await talk(memory, (EvidenceRole.USER, "yes, green tea"))).ids
    await propose(memory, candidate(citations=[one]))
    assert (await propose(memory, candidate(citations=[two]))).decisions[0].outcome is WriteOutcome.CONFIRMED


async def test_near_duplicates_merge_into_the_more_certain_and_can_be_restored(memory: elytron.MemoryRuntime) -> None:
    await believe(memory, "tea", "Ada likes green tea in the morning", kind=FactKind.PREFERENCE)
    weak = {"topic": "drink", "content": "Ada likes green tea in the mornings", "fact_kind": "preference"}
    other = {"topic": "cake", "content": "Ada likes plum cake", "fact_kind": "preference"}
    written = await put(memory, "long_term", facts=[{**weak, "confidence": FactConfidence.LOW}, other])
    tried = await memory.merge_facts(elytron.MemoryMergeRequest(dry_run=True))
    assert (len(tried.pairs), tried.changed) == (1, False)
    merged = await memory.merge_facts()
    (pair,) = merged.pairs
    assert (pair.folded, merged.changed) == (written.ids[0], True)
    assert await texts(memory, "green tea morning") == ["Ada likes green tea in the morning", "Ada likes plum cake"]
    assert not (await memory.merge_facts()).changed
    undone = await memory.merge_facts(elytron.MemoryMergeRequest(undo=(pair.folded,)))
    assert undone.changed
    assert len(await texts(memory, "green tea morning")) == 3
    again = await memory.merge_facts(elytron.MemoryMergeRequest(undo=(pair.folded, "nothing")))
    assert [item.reason for item in again.pairs] == ["it was not merged into another fact"] * 2


async def test_a_merged_fact_stays_merged_if_its_slot_has_a_new_value(memory: elytron.MemoryRuntime) -> None:
    await believe(memory, "tea", "Ada likes green tea in the morning", kind=FactKind.PREFERENCE)
    await put(
        memory,
        "long_term",
        facts=[
            {
                "topic": "drink",
                "content": "Ada likes green tea in the mornings",
                "fact_kind": "preference",
                "confidence": "low",
            }
        ],
    )
    (pair,) = (await memory.merge_facts()).pairs
    await believe(memory, "drink", "Ada drinks water at noon", kind=FactKind.PREFERENCE)
    undone = await memory.merge_facts(elytron.MemoryMergeRequest(undo=(pair.folded,)))
    assert [(item.changed, item.reason) for item in undone.pairs] == [(False, "its topic now has another value")]
    await memory.erase(elytron.MemoryEraseRequest(ids=(pair.kept,)))
    gone = await memory.merge_facts(elytron.MemoryMergeRequest(undo=(pair.folded,)))
    assert gone.pairs[0].reason == "one of the two facts no longer exists"


async def test_a_merged_fact_depends_on_a_turn_while_it_borrows_its_citation(memory: elytron.MemoryRuntime) -> None:
    turns = [(await memory.add(text, speaker="Ada")).ids[0] for text in ("Green tea, please.", "Green tea again.")]
    drafts = [
        {"topic": f"tea {place}", "content": f"Ada likes green tea in the morning{'s' * place}", "citations": [turn]}
        for place, turn in enumerate(turns)
    ]
    facts = (await put(memory, "long_term", facts=drafts)).ids

    async def resting() -> list[set[str]]:
        reports = [
            await memory.request_transcript_lifecycle(
                elytron.MemoryTranscriptLifecycleRequest.model_validate({"transition": "review", "turn_ids": [turn]})
            )
            for turn in turns
        ]
        return [{ref.store_key for ref in report.derived_memory_refs} for report in reports]

    alone = await resting()
    assert alone == [{fact} for fact in facts]
    (pair,) = (await memory.merge_facts()).pairs
    lent = facts.index(pair.folded)
    assert (await resting())[lent] == {pair.kept, pair.folded}
    await memory.merge_facts(elytron.MemoryMergeRequest(undo=(pair.folded,)))
    assert await resting() == alone


async def test_merging_an_empty_memory_changes_nothing(memory: elytron.MemoryRuntime) -> None:
    report = await memory.merge_facts()
    assert (report.pairs, report.changed, (await memory.inspect()).exists) == ((), False, False)
