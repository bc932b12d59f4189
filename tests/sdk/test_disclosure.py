"""Private memories are shown only on explicit request."""

import pytest

import elytron
from elytron_core.contracts.recall import AbsenceReason
from elytron_core.errors import InvalidInput, NotFound
from elytron_core.evidence import EvidenceRole
from elytron_core.planes.facts import FactPrivacy

pytestmark = pytest.mark.anyio

SECRET = "a kiln accident"


async def keep(
    memory: elytron.MemoryRuntime, topic: str, content: str, /, *, privacy: FactPrivacy = FactPrivacy.PRIVATE
) -> str:
    draft = elytron.FactDraft.model_validate(
        {"topic": topic, "content": content, "privacy": privacy, "authority": "user_asserted"}
    )
    write = elytron.LongTermExtraction(facts=(draft,))
    (fact,) = (await memory.write(elytron.MemoryWriteRequest(write=write))).ids
    return fact


async def test_a_private_fact_is_recalled_on_request(memory: elytron.MemoryRuntime) -> None:
    fact = await keep(memory, "scar", SECRET)
    shared = await keep(memory, "kiln", "the kiln is in the yard", privacy=FactPrivacy.SHARED)
    unasked = await memory.recall("kiln accident", why_not=[fact])
    assert [(hit.id, hit.privacy) for hit in unasked.hits] == [(shared, FactPrivacy.SHARED)]
    assert [why.absence for why in unasked.why_not] == [AbsenceReason.UNKNOWN]
    asked = await memory.recall("kiln accident", include_private=True)
    assert {(hit.id, hit.privacy) for hit in asked.hits} == {(fact, FactPrivacy.PRIVATE), (shared, FactPrivacy.SHARED)}
    assert SECRET not in (await memory.project("kiln accident")).system_memory_block


async def test_a_private_fact_is_listed_and_read_on_request(memory: elytron.MemoryRuntime) -> None:
    fact = await keep(memory, "scar", SECRET)
    for hidden in elytron.HiddenFilter:
        assert (await memory.list(hidden=hidden)).items == ()
    latest = elytron.MemoryListRequest(order=elytron.ListOrder.LATEST)
    assert (await memory.list(latest)).items == ()
    with pytest.raises(InvalidInput, match="include_private"):
        await memory.get(fact)
    with pytest.raises(InvalidInput, match="include_private"):
        await memory.history(fact)
    assert [item.id for item in (await memory.list(include_private=True)).items] == [fact]
    assert (await memory.get(fact, include_private=True)).text == SECRET
    assert [item.text for item in (await memory.history(fact, include_private=True)).items] == [SECRET]


async def test_a_private_fact_is_deleted_by_its_id_and_with_all_others(memory: elytron.MemoryRuntime) -> None:
    fact = await keep(memory, "scar", SECRET)
    await memory.delete(fact)
    with pytest.raises(NotFound):
        await memory.get(fact, include_private=True)


async def test_private_candidates_are_listed_on_request(memory: elytron.MemoryRuntime) -> None:
    proposals = (
        {"target": "long_term", "topic": "scar", "content": SECRET},
        {"target": "private_garden", "role": "diary", "name": "scar", "text": SECRET},
        {"target": "long_term", "topic": "kiln", "content": "in the yard"},
    )
    drafts = [
        elytron.CandidateDraft.model_validate(
            {"proposal": proposal, "authority": "user_asserted", "privacy": "shared" if place else "private"}
        )
        for place, proposal in enumerate(proposals)
    ]
    write = elytron.CandidatesWrite(candidates=tuple(drafts))
    ids = (await memory.write(elytron.MemoryWriteRequest(write=write))).ids
    unasked = await memory.list_candidates()
    assert ([item.draft.proposal.target.value for item in unasked.items], unasked.withheld) == (["long_term"], 2)
    asked = await memory.list_candidates(elytron.CandidateListRequest(include_private=True))
    assert (len(asked.items), asked.withheld) == (3, 0)
    with pytest.raises(InvalidInput, match="include_private"):
        await memory.get(ids[1])


async def test_system_messages_are_neither_recalled_nor_projected(memory: elytron.MemoryRuntime) -> None:
    await memory.add(
        [elytron.Message(role=EvidenceRole.SYSTEM, text="Answer about the kiln in rhymes."), "The kiln is hot."]
    )
    assert [hit.text for hit in (await memory.recall("kiln rhymes")).hits] == ["The kiln is hot."]
    block = (await memory.project("kiln rhymes")).system_memory_block
    assert "The kiln is hot." in block
    assert "rhymes" not in block
    listed = await memory.list(hidden=elytron.HiddenFilter.LISTED)
    assert "Answer about the kiln in rhymes." in [item.text for item in listed.items]
