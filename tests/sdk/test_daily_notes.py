"""Daily notes generated from the transcript: of old days, once, cited, and never a source of facts."""

import pytest
from tests.sdk import told
from tests.sdk.transcripts import SUPPORT, commit, turn
from tests.sdk.turns import finish

import elytron
from elytron.models import ScriptedModel
from elytron_core.clock import DAY_MS, FrozenClock
from elytron_core.contracts.continuity import NoteDraft, NotesWrite
from elytron_core.contracts.maintenance.maintenance import MemoryMaintainRequest, PassOutcome
from elytron_core.contracts.transcript import MemoryWriteRequest
from elytron_core.planes.jobs import MaintenancePass

pytestmark = pytest.mark.anyio

START = FrozenClock().now()
NOTED = "2026-01-01: From the transcript of 2026-01-01: Ada, assistant"


async def hygiene(memory: elytron.MemoryRuntime, scope: elytron.Scope | None = SUPPORT) -> PassOutcome:
    report = await memory.maintain(MemoryMaintainRequest(scope=scope, passes=(MaintenancePass.HYGIENE,)))
    return report.passes[0]


async def notes_of(memory: elytron.MemoryRuntime, query: str) -> list[elytron.RecallHit]:
    filters = elytron.RecallFilters(planes=(elytron.RecallPlane.ARCHIVE,))
    return list((await memory.recall(query, filters=filters)).hits)


async def test_an_old_day_is_noted_once_and_added_to_its_month(
    memory: elytron.MemoryRuntime, clock: FrozenClock
) -> None:
    said = await commit(memory, text="I sailed to Lisbon in 2019. Really?")
    assert "notes_drawn" not in (await hygiene(memory)).counts
    clock.advance(9 * DAY_MS)
    counts = (await hygiene(memory)).counts
    assert (counts["notes_drawn"], counts["notes_rolled_up"]) == (1, 1)
    (hit,) = await notes_of(memory, "Lisbon")
    assert hit.text.startswith(NOTED)
    assert "> Ada: I sailed to Lisbon in 2019." in hit.text
    assert "Really?" not in hit.text
    assert said.message_ids[0] in hit.citations
    again = await hygiene(memory)
    assert not {"notes_drawn", "notes_rolled_up"} & set(again.counts)


async def later(memory: elytron.MemoryRuntime, text: str) -> str:
    """Import what was said on the first day of the year; return its id."""
    said = {"text": text, "speaker": "Noor", "at": START + 1}
    return (await commit(memory, text, input_messages=(said,))).message_ids[0]


async def test_later_messages_of_a_day_are_added_to_its_note_and_month(
    memory: elytron.MemoryRuntime, clock: FrozenClock
) -> None:
    first = await commit(memory, text="I sailed to Lisbon in 2019.")
    clock.advance(9 * DAY_MS)
    await hygiene(memory)
    second = await later(memory, "We met seven whales near the coast.")
    counts = (await hygiene(memory)).counts
    assert (counts["notes_drawn"], counts["notes_rolled_up"]) == (1, 1)
    (hit,) = await notes_of(memory, "whales")
    assert hit.text.count("> Ada: I sailed to Lisbon in 2019.") == 1
    assert hit.text.count("> Noor: We met seven whales near the coast.") == 1
    assert {first.message_ids[0], second} <= set(hit.citations)
    assert not {"notes_drawn", "notes_rolled_up"} & set((await hygiene(memory)).counts)


async def test_redundant_messages_leave_a_note_unchanged(memory: elytron.MemoryRuntime, clock: FrozenClock) -> None:
    await commit(memory, text="I sailed to Lisbon in 2019.")
    clock.advance(9 * DAY_MS)
    await hygiene(memory)
    await later(memory, "I sailed to Lisbon in 2019.")
    assert "notes_drawn" not in (await hygiene(memory)).counts


async def test_a_hidden_note_stays_hidden(memory: elytron.MemoryRuntime, clock: FrozenClock) -> None:
    await commit(memory, text="I sailed to Lisbon in 2019.")
    clock.advance(9 * DAY_MS)
    await hygiene(memory)
    linked = tuple(ref.store_key for ref in (await turn(memory, "review")).derived_memory_refs)
    await memory.forget(elytron.MemoryForgetRequest(scope=SUPPORT, ids=linked))
    await later(memory, "We met seven whales near the coast.")
    assert "notes_drawn" not in (await hygiene(memory)).counts
    assert await notes_of(memory, "whales Lisbon") == []


async def test_four_days_are_noted_at_a_time(memory: elytron.MemoryRuntime, clock: FrozenClock) -> None:
    for number in range(6):
        await commit(memory, f"t{number}", text=f"We met {number} whales near the coast.")
        clock.advance(DAY_MS)
    clock.advance(9 * DAY_MS)
    assert [(await hygiene(memory)).counts.get("notes_drawn", 0) for _ in range(3)] == [4, 2, 0]


async def test_masked_and_archived_turns_leave_no_note(memory: elytron.MemoryRuntime, clock: FrozenClock) -> None:
    for transition in ("mask", "archive"):
        kept = await commit(memory, transition, text="I sailed to Lisbon in 2019.")
        await turn(memory, transition, str(kept.turn_id))
    clock.advance(9 * DAY_MS)
    assert "notes_drawn" not in (await hygiene(memory)).counts


async def test_a_restored_turn_is_noted_if_its_day_has_no_note(
    memory: elytron.MemoryRuntime, clock: FrozenClock
) -> None:
    kept = await commit(memory, text="I sailed to Lisbon in 2019.")
    await turn(memory, "archive", str(kept.turn_id))
    clock.advance(9 * DAY_MS)
    assert "notes_drawn" not in (await hygiene(memory)).counts
    await turn(memory, "restore", str(kept.turn_id))
    assert (await hygiene(memory)).counts["notes_drawn"] == 1
    assert "notes_drawn" not in (await hygiene(memory)).counts
    assert len(await notes_of(memory, "Lisbon")) == 1


async def test_a_day_that_has_a_note_keeps_it(memory: elytron.MemoryRuntime, clock: FrozenClock) -> None:
    await commit(memory, text="I sailed to Lisbon in 2019.")
    write = NotesWrite(notes=(NoteDraft(period="2026-01-01", text="A day at sea"),))
    await memory.write(MemoryWriteRequest(scope=SUPPORT, write=write))
    clock.advance(9 * DAY_MS)
    counts = (await hygiene(memory)).counts
    assert ("notes_drawn" in counts, counts["notes_rolled_up"]) == (False, 1)
    assert [hit.text for hit in await notes_of(memory, "sea")] == ["2026-01-01: A day at sea"]


async def test_erasing_a_turn_lists_notes_that_quote_it_and_erasing_those_leaves_no_link(
    memory: elytron.MemoryRuntime, clock: FrozenClock
) -> None:
    said = await commit(memory, text="I sailed to Lisbon in 2019.")
    clock.advance(9 * DAY_MS)
    await hygiene(memory)
    linked = {ref.store_key for ref in (await turn(memory, "review")).derived_memory_refs}
    rehearsed = await memory.erase(elytron.MemoryEraseRequest(scope=SUPPORT, ids=(said.message_ids[0],), dry_run=True))
    assert linked == set(rehearsed.derived)
    assert len(linked) == 2
    await memory.erase(elytron.MemoryEraseRequest(scope=SUPPORT, ids=tuple(linked)))
    found = await memory.repair_transcript(elytron.MemoryTranscriptRepairRequest(scope=SUPPORT))
    assert (found.checked_derived_refs, found.fail_closed) == (0, False)
    assert "notes_drawn" not in (await hygiene(memory)).counts


async def test_a_rewritten_note_is_based_only_on_its_current_citations(memory: elytron.MemoryRuntime) -> None:
    turns = [str((await commit(memory, f"t{number}")).turn_id) for number in range(2)]
    for cited in turns:
        write = NotesWrite(notes=(NoteDraft(period="2026-01-01", text=f"on {cited}", citations=(cited,)),))
        await memory.write(MemoryWriteRequest(scope=SUPPORT, write=write))
    (ref,) = (await turn(memory, "review")).derived_memory_refs
    assert (ref.plane, ref.source.turn_id) == ("archive_evidence", turns[1])


async def test_notes_add_no_facts(memory: elytron.MemoryRuntime, clock: FrozenClock) -> None:
    await finish(memory, "t1", "Remember that I live in Lisbon.")
    clock.advance(9 * DAY_MS)
    assert (await hygiene(memory, None)).counts["notes_drawn"] == 1
    filters = elytron.RecallFilters(planes=(elytron.RecallPlane.ARCHIVE,))
    (hit,) = (await memory.recall("Lisbon", filters=filters)).hits
    async with elytron.open("memory:", space="ben", clock=clock) as other:
        await finish(other, "t1", hit.text)
        await finish(other, "t2", hit.text.partition(": ")[2].replace(" > ", "\n> "))
        only = elytron.RecallFilters(planes=(elytron.RecallPlane.LONG_TERM,))
        assert not (await other.recall("Lisbon", filters=only)).hits
    assert "I live in Lisbon" in " ".join(await told.texts(memory, "Lisbon"))


async def test_a_model_does_not_see_a_note_as_the_users_statement(
    memory: elytron.MemoryRuntime, clock: FrozenClock
) -> None:
    await finish(memory, "t1", "Remember that I live in Lisbon.")
    clock.advance(9 * DAY_MS)
    await hygiene(memory, None)
    (hit,) = (await memory.recall("Lisbon", filters=elytron.RecallFilters(planes=(elytron.RecallPlane.ARCHIVE,)))).hits
    model = ScriptedModel(['{"items": []}'])
    async with elytron.open("memory:", space="ben", clock=clock, language_model=model) as other:
        await finish(other, "t1", f"Look at this:\n{hit.text}\nShe keeps bees.")
        await other.run_jobs()
    (asked,) = model.prompts
    assert "She keeps bees." in asked[-1].text
    assert "Lisbon" not in asked[-1].text
