"""A time that the receiving clock disproves is stored as data and orders nothing, whoever claims it."""

import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import elytron
from elytron import MemoryRuntime
from elytron_core.clock import DAY_MS, FrozenClock, Instant
from elytron_core.contracts.archive import ImportMode
from elytron_core.contracts.facts import CandidatesWrite, FactAction, FactChangeRequest, FactDraft
from elytron_core.contracts.transcript import (
    LongTermExtraction,
    MemoryWriteRequest,
    ProcedureSource,
    RuntimeSkillWrite,
    WriteOutcome,
)
from elytron_core.evidence import EvidenceAuthority
from elytron_core.ids import SeededIds, SpaceId
from elytron_core.planes.candidates import CandidateDraft, CandidateTarget, FactProposal
from elytron_core.planes.facts import Fact, FactAuthority, FactKind
from elytron_core.ports.store import Batch, DocumentRef, EntryDraft, JournalAction, PutChange

pytestmark = pytest.mark.anyio

FAR = "2999-01-01"
FIVE_MINUTES = 5 * 60_000


async def texts(memory: MemoryRuntime) -> list[str]:
    return [fact.content for fact in (await memory.list_facts()).items]


async def say(memory: MemoryRuntime, clock: FrozenClock, text: str, **given: Any) -> None:
    clock.advance(1_000)
    await memory.add(text, **given)
    await memory.maintain()


def colour(content: str, **given: Any) -> MemoryWriteRequest:
    draft = FactDraft(fact_kind=FactKind.PREFERENCE, topic="colour", content=content, **given)
    return MemoryWriteRequest(write=LongTermExtraction(facts=(draft,)))


async def test_a_later_statement_replaces_one_dated_a_thousand_years_ahead(
    memory: MemoryRuntime, clock: FrozenClock
) -> None:
    await say(memory, clock, "I live in Lisbon.", at=FAR)
    await say(memory, clock, "I moved. I live in Porto now.")
    assert await texts(memory) == ["The user lives in Porto"]


async def test_a_phone_that_is_five_minutes_ahead_loses_no_correction(
    memory: MemoryRuntime, clock: FrozenClock
) -> None:
    await say(memory, clock, "My favourite colour is green.", at=clock.now() + FIVE_MINUTES)
    await say(memory, clock, "My favourite colour is blue.")
    assert await texts(memory) == ["The user's favourite colour is blue"]


async def test_two_future_claims_are_ordered_by_recording(memory: MemoryRuntime, clock: FrozenClock) -> None:
    await say(memory, clock, "My favourite colour is green.", at=FAR)
    await say(memory, clock, "My favourite colour is blue.", at="2500-01-01")
    assert await texts(memory) == ["The user's favourite colour is blue"]


async def test_a_statement_recorded_first_does_not_win_by_being_processed_later(
    memory: MemoryRuntime, clock: FrozenClock
) -> None:
    clock.advance(1_000)
    await memory.add("I live in Lisbon.", at=FAR)
    clock.advance(1_000)
    await memory.add_fact(
        "residence", "The user lives in Porto", kind=FactKind.PROFILE, authority=FactAuthority.USER_ASSERTED
    )
    clock.advance(1_000)
    await memory.maintain()
    assert await texts(memory) == ["The user lives in Porto"]


@pytest.mark.parametrize("authority", list(FactAuthority)[:-1])
async def test_every_authority_can_replace_its_own_future_fact(
    memory: MemoryRuntime, clock: FrozenClock, authority: FactAuthority
) -> None:
    await memory.write(colour("green", authority=authority, observed_at=Instant(clock.now() + 900 * 365 * DAY_MS)))
    clock.advance(1_000)
    report = await memory.write(colour("blue", authority=authority))
    assert (report.decisions[0].outcome, await texts(memory)) == (WriteOutcome.UPDATED, ["blue"])


async def test_a_claimed_time_is_stored_next_to_the_recording_time(memory: MemoryRuntime, clock: FrozenClock) -> None:
    far = Instant(clock.now() + FIVE_MINUTES)
    await memory.write(colour("green", observed_at=far))
    (fact,) = (await memory.list_facts()).items
    assert (fact.observed_at, fact.recorded_at < far, fact.valid_from) == (far, True, None)


async def test_a_second_value_with_a_future_time_holds_from_its_recording(
    memory: MemoryRuntime, clock: FrozenClock
) -> None:
    await memory.write(colour("green"))
    clock.advance(1_000)
    await memory.write(colour("blue", observed_at=Instant(clock.now() + FIVE_MINUTES)))
    assert await texts(memory) == ["blue"]


async def test_a_planned_value_still_starts_at_its_time(memory: MemoryRuntime, clock: FrozenClock) -> None:
    await memory.write(colour("green"))
    report = await memory.write(colour("blue", valid_from=Instant(clock.now() + DAY_MS)))
    before = await texts(memory)
    clock.advance(2 * DAY_MS)
    assert (before, await texts(memory), report.future_claims) == (["green"], ["blue"], ())


async def test_an_older_statement_imported_later_displaces_nothing(memory: MemoryRuntime, clock: FrozenClock) -> None:
    await say(memory, clock, "I live in Porto.")
    await say(memory, clock, "I live in Lisbon.", at="2020-05-01")
    assert await texts(memory) == ["The user lives in Porto"]


async def test_a_correction_frees_the_slot(memory: MemoryRuntime, clock: FrozenClock) -> None:
    await say(memory, clock, "I live in Lisbon.", at=FAR)
    (frozen,) = (await memory.list_facts()).items
    await memory.change_fact(
        FactChangeRequest(id=frozen.id, action=FactAction.CORRECT, content="The user lives in Faro")
    )
    clock.advance(1_000)
    await memory.add_fact(
        "residence", "The user lives in Porto", kind=FactKind.PROFILE, authority=FactAuthority.USER_ASSERTED
    )
    assert await texts(memory) == ["The user lives in Porto"]


async def test_a_future_deletion_does_not_block_later_statements(memory: MemoryRuntime, clock: FrozenClock) -> None:
    await memory.write(colour("green"))
    await memory.write(colour("", operation="delete", observed_at=Instant(clock.now() + FIVE_MINUTES)))
    clock.advance(1_000)
    await memory.write(colour("blue"))
    assert await texts(memory) == ["blue"]


async def test_a_procedure_with_a_future_time_is_revised(memory: MemoryRuntime, clock: FrozenClock) -> None:
    def procedure(step: str, at: Instant) -> MemoryWriteRequest:
        skill = RuntimeSkillWrite(
            name="boat", topic="boat", title="Boat", summary="Boat.", content=f"1. Open it.\n2. {step}", observed_at=at
        )
        return MemoryWriteRequest(write=ProcedureSource(writes=(skill,)))

    await memory.write(procedure("Bail it.", Instant(clock.now() + FIVE_MINUTES)))
    clock.advance(1_000)
    report = await memory.write(procedure("Paint it.", clock.now()))
    assert report.decisions[0].outcome is WriteOutcome.UPDATED


async def test_a_fact_recorded_by_a_fast_clock_is_replaced(memory: MemoryRuntime, clock: FrozenClock) -> None:
    clock.advance(DAY_MS)
    await memory.write(colour("green"))
    clock.advance(-DAY_MS)
    await memory.write(colour("blue"))
    assert await texts(memory) == ["blue"]


async def test_a_store_with_a_future_fact_accepts_the_next_statement(memory: MemoryRuntime, clock: FrozenClock) -> None:
    await memory.write(colour("green"))
    store, space = memory.context.store, SpaceId("ada")
    (document,) = await store.scan(space, "facts", limit=1)
    # As earlier builds stored it: the claim is also the time of the last confirmation.
    far = {"observed_at": Instant(clock.now() + DAY_MS), "confirmed_at": Instant(clock.now() + DAY_MS)}
    body = Fact.from_bytes(document.body).model_copy(update=far).to_bytes()
    put = PutChange(DocumentRef("facts", document.ref.key), body, document.revision)
    entries = (EntryDraft(JournalAction.WRITE, document.ref),)
    await store.commit(Batch(space=space, at=clock.now(), entries=entries, puts=(put,)))
    clock.advance(1_000)
    await memory.write(colour("blue"))
    assert await texts(memory) == ["blue"]


async def test_the_latest_message_is_the_last_recorded_one(memory: MemoryRuntime, clock: FrozenClock) -> None:
    for at, text in ((FAR, "The boat is red."), (None, "I changed my mind: the boat is blue.")):
        clock.advance(1_000)
        await memory.add(text, at=at)
    report = await memory.recall("What colour is the boat?", limit=2)
    assert [hit.text for hit in report.hits] == ["I changed my mind: the boat is blue.", "The boat is red."]


def state(at: Instant) -> MemoryWriteRequest:
    return colour("green", observed_at=at)


def propose(at: Instant) -> MemoryWriteRequest:
    proposal = FactProposal(
        target=CandidateTarget.LONG_TERM, fact_kind=FactKind.PREFERENCE, topic="colour", content="green", observed_at=at
    )
    draft = CandidateDraft(proposal=proposal, authority=EvidenceAuthority.USER_ASSERTED)
    return MemoryWriteRequest(write=CandidatesWrite(candidates=(draft,)))


@pytest.mark.parametrize(
    ("request_of", "field"),
    [
        (state, "write.facts.0.observed_at"),
        (propose, "write.candidates.0.proposal.observed_at"),
    ],
    ids=["fact", "candidate"],
)
async def test_a_report_lists_the_future_claim(
    memory: MemoryRuntime, clock: FrozenClock, request_of: Callable[[Instant], MemoryWriteRequest], field: str
) -> None:
    far = Instant(clock.now() + FIVE_MINUTES)
    report = await memory.write(request_of(far))
    assert [(claim.field, claim.claimed) for claim in report.future_claims] == [(field, far)]


async def test_the_log_shows_the_furthest_future_claim_without_content(
    memory: MemoryRuntime, clock: FrozenClock, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "elytron.intake")
    await memory.write(state(Instant(clock.now() + FIVE_MINUTES)))
    (record,) = (vars(each) for each in caplog.records)
    names = ("count", "field", "principal")
    assert [record[name] for name in names] == [1, "write.facts.0.observed_at", "host"]
    assert 0 < record["ahead_ms"] <= FIVE_MINUTES
    assert "green" not in str(record)


async def test_the_difference_of_two_clocks_is_not_reported(memory: MemoryRuntime, clock: FrozenClock) -> None:
    report = await memory.write(colour("green", observed_at=Instant(clock.now() + 30_000)))
    assert report.future_claims == ()


async def test_an_import_reports_future_claims(memory: MemoryRuntime, clock: FrozenClock, tmp_path: Path) -> None:
    file = tmp_path / "chat.jsonl"
    file.write_text('{"role": "user", "content": "I live in Lisbon.", "timestamp": "2999-01-01T00:00:00Z"}\n')
    report = await elytron.import_transcript(memory, file)
    assert [claim.field.partition(": ")[2] for claim in report.future_claims] == ["write.turns.0.messages.0.at"]


async def test_an_archive_imports_no_future_observation(clock: FrozenClock, tmp_path: Path) -> None:
    path = tmp_path / "a.elytron"
    async with elytron.open("memory:", space="bob", clock=FrozenClock(Instant(clock.now() + DAY_MS))) as other:
        await other.write(colour("green"))
        await other.export(path, include_private=True)
    async with elytron.open("memory:", space="ada", clock=clock, ids=SeededIds()) as memory:
        report = await memory.import_archive(elytron.MemoryImportRequest(path=str(path), mode=ImportMode.BOOTSTRAP))
        clock.advance(1_000)
        await memory.write(colour("blue"))
        assert (await texts(memory), len(report.future_claims)) == (["blue"], 1)
