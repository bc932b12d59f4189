"""A check of a conversation's links finds each of the thirteen kinds of damage, and closes."""

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
from tests.sdk.told import believe
from tests.sdk.transcripts import SUPPORT, commit
from tests.sdk.transcripts import turn as lifecycle

import elytron
from elytron_core.clock import FrozenClock, Instant
from elytron_core.contracts.maintenance.maintenance import MemoryMaintainRequest
from elytron_core.contracts.transcript import TranscriptRepairIssueKind as Kind
from elytron_core.ids import SeededIds, SpaceId, TurnId
from elytron_core.planes.facts import FACTS, Fact, FactAuthority
from elytron_core.planes.jobs import MaintenancePass
from elytron_core.planes.transcript import (
    DERIVED_REFS,
    TURN_ATTRIBUTES,
    TURNS,
    DerivedMemoryPlane,
    DerivedMemoryRef,
    TranscriptEvidenceRef,
    Turn,
    TurnAttribute,
    derived_key,
)
from elytron_core.ports.store import Batch, DocumentRef, EntryDraft, ErasureTarget, JournalAction, PutChange

pytestmark = pytest.mark.anyio

AT = Instant(1_770_000_000_000)
KEY = "a" * 24


async def repair(memory: elytron.MemoryRuntime) -> elytron.MemoryTranscriptRepairReport:
    return await memory.repair_transcript(elytron.MemoryTranscriptRepairRequest(scope=SUPPORT))


async def put(memory: elytron.MemoryRuntime, collection: str, key: str, body: bytes) -> None:
    """Write a document directly into the store."""
    ref = DocumentRef(collection, key)
    (there,) = await memory.context.store.get(SUPPORT.space, (ref,))
    change = PutChange(ref, body, there.revision if there is not None else 0)
    batch = Batch(space=SUPPORT.space, at=AT, entries=(EntryDraft(JournalAction.OPERATOR, ref),), puts=(change,))
    await memory.context.store.commit(batch)


async def turn_of(memory: elytron.MemoryRuntime, key: str) -> Turn:
    (document,) = await memory.context.store.get(SUPPORT.space, (DocumentRef(TURNS, key),))
    assert document is not None
    return Turn.from_bytes(document.body)


def attribute(turn: str, **more: object) -> TurnAttribute:
    about = {"turn": turn, "channel": "web", "conversation": "support", "written_at": AT}
    return TurnAttribute.model_validate({"key": "host.a", "value": "v"} | about | more)


def derived(turn: str, plane: str = "soul_candidate_handoff", **more: object) -> DerivedMemoryRef:
    about = {"memory_space_id": "ada", "channel_id": "web", "conversation_id": "support", "turn_id": turn}
    source = TranscriptEvidenceRef.model_validate(about | more)
    return DerivedMemoryRef(plane=DerivedMemoryPlane(plane), store_key="k", source=source, created_at=AT)


async def test_links_are_sound_in_a_space_restored_under_another_name(
    memory: elytron.MemoryRuntime, tmp_path: Path
) -> None:
    report = await commit(memory, attributes=({"key": "host.a", "value": 1, "part": 1},))
    await believe(memory, "a", "one", citations=(report.message_ids[1],), authority=FactAuthority.PROGRAM)
    whole = str(tmp_path / "ada.elytron")
    exported = await memory.export(whole, include_private=True)
    zed = SUPPORT.model_copy(update={"space": SpaceId("zed")})
    async with elytron.open("memory:", space="zed", clock=FrozenClock(step_ms=1), ids=SeededIds("zed")) as other:
        assert (await other.import_archive(whole)).state_fingerprint == exported.state_fingerprint
        assert (await other.inspect(check=True)).state_fingerprint == exported.state_fingerprint
        found = await other.repair_transcript(elytron.MemoryTranscriptRepairRequest(scope=zed))
        assert (found.checked_turns, found.checked_derived_refs, found.issues, found.fail_closed) == (1, 1, (), False)
        (fact,) = (await other.list_facts()).items
        await believe(other, "a", "two", citations=(report.message_ids[1],), authority=FactAuthority.PROGRAM)
        removed = await lifecycle(other, "delete_raw", fact.evidence[0].partition("#")[0], scope=zed)
        assert removed.derived_memory_refs
        told = removed.to_bytes().decode()
        assert "transcript:zed/web/support" in told
        assert "ada" not in told


async def test_sound_links_are_reported_as_sound(memory: elytron.MemoryRuntime) -> None:
    assert not (await repair(memory)).fail_closed
    report = await commit(memory, attributes=({"key": "host.a", "value": 1, "part": 1},))
    await believe(memory, "a", "one", citations=(report.message_ids[1],), authority=FactAuthority.PROGRAM)
    found = await repair(memory)
    assert (found.checked_turns, found.checked_derived_refs, found.checked_attributes) == (1, 1, 1)
    assert (found.issues, found.fail_closed) == ((), False)


async def cited_turns(memory: elytron.MemoryRuntime, fact: str) -> set[str]:
    """Return the turns that the links of a fact name."""
    refs = (await lifecycle(memory, "review")).derived_memory_refs
    return {str(ref.source.turn_id) for ref in refs if ref.store_key == fact}


async def test_a_fact_keeps_its_six_newest_citations(memory: elytron.MemoryRuntime) -> None:
    turns = [str((await commit(memory, f"t{number}")).turn_id) for number in range(9)]
    (fact,) = (await believe(memory, "a", "one", citations=tuple(turns[:7]))).ids
    assert await cited_turns(memory, fact) == set(turns[1:7])
    for turn in turns[7:]:
        await believe(memory, "a", "one", citations=(turn,))
    (hit,) = [hit for hit in (await memory.recall("one")).hits if hit.id == fact]
    assert hit.citations == tuple(turns[3:])
    assert await cited_turns(memory, fact) == set(turns[3:])
    await memory.erase(elytron.MemoryEraseRequest(ids=(fact,)))
    assert (await repair(memory)).checked_derived_refs == 0


async def test_hygiene_trims_excess_evidence_of_facts(memory: elytron.MemoryRuntime) -> None:
    turns = [str((await commit(memory, f"t{number}")).turn_id) for number in range(8)]
    (fact,) = (await believe(memory, "a", "one", citations=tuple(turns[2:]))).ids
    (document,) = await memory.context.store.get(SUPPORT.space, (DocumentRef(FACTS, fact),))
    assert document is not None
    more = Fact.from_bytes(document.body).model_copy(update={"citations": tuple(turns)})
    await put(memory, FACTS, fact, more.to_bytes())
    record = await memory.context.spaces.find(SUPPORT.space)
    assert record is not None
    key = derived_key(TurnId(turns[0]), record.derived_tag(DerivedMemoryPlane.SHARED_FACT, fact))
    link = derived(turns[0], "shared_fact").model_copy(update={"store_key": fact})
    await put(memory, DERIVED_REFS, key, link.to_bytes())
    request = MemoryMaintainRequest(scope=SUPPORT, passes=(MaintenancePass.HYGIENE,))
    assert (await memory.maintain(request)).passes[0].counts["facts_trimmed"] == 1
    assert await cited_turns(memory, fact) == set(turns[2:])
    assert "facts_trimmed" not in (await memory.maintain(request)).passes[0].counts
    assert not (await repair(memory)).fail_closed


async def test_link_damage_names_the_evidence_readably(memory: elytron.MemoryRuntime) -> None:
    place = str((await commit(memory)).turn_id)
    gone = TurnId(place[:-1] + "8")
    await put(memory, DERIVED_REFS, f"{gone}.{KEY}", derived(gone).to_bytes())
    await put(memory, DERIVED_REFS, f"{place}.{KEY}", derived(place, message_id=f"{place}#7").to_bytes())
    found = {issue.kind: issue.derived_ref for issue in (await repair(memory)).issues}
    assert {kind: ref.citation for kind, ref in found.items() if ref is not None} == {
        Kind.MISSING_SOURCE_TURN: f"transcript:ada/web/support#turn={gone}",
        Kind.MISSING_SOURCE_MESSAGE: f"transcript:ada/web/support#turn={place}#message={place}#7",
    }


async def test_each_kind_of_damage_is_found(memory: elytron.MemoryRuntime) -> None:
    place = str((await commit(memory)).turn_id)
    gone = TurnId(place[:-1] + "8")
    good = attribute(place).to_bytes()
    broken: dict[Kind, tuple[str, str, bytes]] = {
        Kind.MISSING_SOURCE_TURN: (DERIVED_REFS, f"{gone}.{KEY}", derived(gone).to_bytes()),
        Kind.MISSING_SOURCE_MESSAGE: (
            DERIVED_REFS, f"{place}.{KEY}", derived(place, message_id=f"{place}#7").to_bytes(),
        ),
        Kind.ORPHAN_DERIVED_REF: (DERIVED_REFS, f"{place}.{KEY}", derived(place, "shared_fact").to_bytes()
                                  .replace(b'"k"', b'"00000000-0000-7000-8000-000000000000"')),
        Kind.MISMATCHED_SOURCE_KEY: (
            DERIVED_REFS, f"{place}.{KEY}", derived(place, conversation_id="other").to_bytes(),
        ),
        Kind.MISSING_ATTR_TARGET_TURN: (TURN_ATTRIBUTES, f"{gone}.{KEY}", attribute(gone).to_bytes()),
        Kind.MISSING_ATTR_TARGET_MESSAGE: (TURN_ATTRIBUTES, f"{place}.{KEY}", attribute(place, part=9).to_bytes()),
        Kind.MISMATCHED_ATTR_SOURCE_KEY: (
            TURN_ATTRIBUTES, f"{place}.{KEY}", attribute(place, conversation="other").to_bytes(),
        ),
        Kind.OVERSIZED_ATTR_VALUE: (
            TURN_ATTRIBUTES, f"{place}.{KEY}", attribute(place, value="long", max_value_bytes=2).to_bytes(),
        ),
        Kind.INVALID_ATTR_KEY: (TURN_ATTRIBUTES, f"{place}.{KEY}", good.replace(b"host.a", b"other")),
        Kind.INVALID_ATTR_VISIBILITY: (
            TURN_ATTRIBUTES, f"{place}.{KEY}", attribute(place, visibility="export").to_bytes()
            .replace(b'"export"', b'["all"]'),
        ),
        Kind.CORRUPT_TRANSCRIPT_ATTR_RECORD: (TURN_ATTRIBUTES, f"{place}.{KEY}", b"[]"),
        Kind.CORRUPT_RECORD: (DERIVED_REFS, f"{place}.{KEY}", b"rubbish"),
    }  # fmt: skip
    for kind, (collection, key, body) in broken.items():
        await put(memory, collection, key, body)
        found = await repair(memory)
        assert [issue.kind for issue in found.issues] == [kind]
        assert found.fail_closed
        assert (found.issues[0].collection, found.issues[0].key) == (collection, key)
        fine = derived(place).to_bytes() if collection == DERIVED_REFS else good
        await put(memory, collection, f"{place}.{KEY}", fine)
        if key != f"{place}.{KEY}":
            # Content of no turn is erased as an operator would.
            await memory.context.store.erase(erasure(DocumentRef(collection, key)))
    assert not (await repair(memory)).fail_closed


async def test_damaged_turns_are_found(memory: elytron.MemoryRuntime) -> None:
    one = str((await commit(memory, "t1")).turn_id)
    two = str((await commit(memory, "t2")).turn_id)
    await believe(memory, "a", "one", citations=(two,))
    turn = await turn_of(memory, two)
    for body, kind in (
        (turn.model_copy(update={"sequence": 1}).to_bytes(), Kind.DUPLICATE_TURN_CURSOR),
        (turn.model_copy(update={"conversation": "other"}).to_bytes(), Kind.CORRUPT_RECORD),
        (b"rubbish", Kind.CORRUPT_RECORD),
    ):
        await put(memory, TURNS, two, body)
        found = await repair(memory)
        assert [(issue.kind, issue.key) for issue in found.issues] == [(kind, two)]
    assert one != two


@pytest.mark.parametrize(
    "body",
    [
        b"rubbish",
        b'{"key":"host.a","value":"v","visibility":"nowhere"}',
        b'{"key":7}',
        b'{"key":"host.a"}',
    ],
)
async def test_an_unreadable_attribute_is_reported_with_its_problem(memory: elytron.MemoryRuntime, body: bytes) -> None:
    place = str((await commit(memory)).turn_id)
    await put(memory, TURN_ATTRIBUTES, f"{place}.{KEY}", body)
    kinds = {
        b"rubbish": Kind.CORRUPT_TRANSCRIPT_ATTR_RECORD,
        b'{"key":"host.a","value":"v","visibility":"nowhere"}': Kind.INVALID_ATTR_VISIBILITY,
        b'{"key":7}': Kind.INVALID_ATTR_KEY,
        b'{"key":"host.a"}': Kind.CORRUPT_TRANSCRIPT_ATTR_RECORD,
    }
    assert [issue.kind for issue in (await repair(memory)).issues] == [kinds[body]]


async def test_issues_are_truncated_by_the_profile_and_still_close(clock: FrozenClock) -> None:
    opening = elytron.open("memory:", scope=SUPPORT, clock=clock, ids=SeededIds(), profile="esp-embedded-sdk")
    async with opening as memory:
        place = str((await commit(memory)).turn_id)
        for number in range(17):
            await put(memory, TURN_ATTRIBUTES, f"{place}.{number:024x}", b"[]")
        found = await repair(memory)
        assert (len(found.issues), found.profile_budget_applied, found.fail_closed) == (16, True, True)


def erasure(ref: DocumentRef) -> ErasureTarget:
    return ErasureTarget(space=SUPPORT.space, at=AT, refs=(ref,))


async def test_records_the_store_cannot_serve_are_reported(path: str) -> None:
    async with elytron.open(path, space="ada", clock=FrozenClock(step_ms=1), ids=SeededIds()) as memory:
        turns = [
            str((await commit(memory, f"t{number}", attributes=({"key": "host.a", "value": 1},))).turn_id)
            for number in range(5)
        ]
        await believe(memory, "a", "one", citations=(turns[1],))
    with closing(sqlite3.connect(path)) as raw, raw:
        for collection, place in (
            (TURNS, turns[1]),
            (TURNS, turns[4]),
            (TURN_ATTRIBUTES, turns[2]),
            (DERIVED_REFS, ""),
        ):
            raw.execute(
                "UPDATE documents SET body = x'7878' WHERE collection = ? AND key LIKE ?", (collection, f"{place}%")
            )
    async with elytron.open(path, space="ada", clock=FrozenClock(step_ms=1), ids=SeededIds()) as memory:
        found = await repair(memory)
    assert [(issue.kind, issue.collection, issue.turn_id) for issue in found.issues] == [
        (Kind.CORRUPT_RECORD, TURNS, turns[1]),
        (Kind.CORRUPT_RECORD, TURNS, turns[4]),
        (Kind.CORRUPT_RECORD, DERIVED_REFS, turns[1]),
        (Kind.CORRUPT_TRANSCRIPT_ATTR_RECORD, TURN_ATTRIBUTES, turns[2]),
    ]
    assert (found.checked_turns, found.checked_derived_refs, found.checked_attributes) == (5, 1, 5)
    assert found.fail_closed
