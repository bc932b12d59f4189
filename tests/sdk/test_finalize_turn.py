"""A finished turn: what becomes evidence, what is extracted immediately, and what is deferred."""

from collections.abc import AsyncIterator

import pytest
from tests.sdk import told
from tests.sdk.turns import answering, finish, item, items

import elytron
from elytron_core.clock import FrozenClock
from elytron_core.contracts.maintenance.maintenance import (
    CommitStatus,
    ExtractionMethod,
    MaintenanceRefusal,
    PassStatus,
    SkillReuse,
)
from elytron_core.errors import TurnConflict
from elytron_core.ids import SeededIds
from elytron_core.planes.jobs import JobState, MaintenancePass
from elytron_core.planes.skills import ReuseOutcome
from elytron_core.planes.transcript import TurnDelivery
from elytron_core.profiles import MemoryPressure, ModeInput

pytestmark = pytest.mark.anyio

MODEL = answering(("Porto", items(item("The user lives in Porto.", "home is Porto these days"))))


@pytest.fixture
async def modelled(clock: FrozenClock) -> AsyncIterator[elytron.MemoryRuntime]:
    MODEL.prompts.clear()
    async with elytron.open("memory:", space="ada", clock=clock, ids=SeededIds(), language_model=MODEL) as runtime:
        yield runtime


async def test_a_delivered_turn_is_evidence_and_its_explicit_statements_are_facts(
    memory: elytron.MemoryRuntime,
) -> None:
    report = await finish(memory, "t1", "I live in Lisbon.", "A fine place.")
    assert (report.session_commit, report.transcript_commit) == (CommitStatus.COMMITTED, CommitStatus.COMMITTED)
    assert len(report.message_ids) == 2
    assert [outcome.of for outcome in report.maintenance] == list(MaintenancePass)
    extraction = report.outcome(MaintenancePass.EXTRACTION)
    assert extraction is not None
    assert (extraction.status, extraction.counts) == (PassStatus.DONE, {"read": 1, "stored": 1})
    assert "The user lives in Lisbon" in await told.texts(memory, "where do I live?")
    hit = next(hit for hit in (await memory.recall("where do I live?")).hits if hit.text.startswith("The user"))
    assert hit.citations == (report.turn_id,)


@pytest.mark.parametrize(
    ("delivery", "kept"),
    [
        (TurnDelivery.DELIVERED, ["I live in Lisbon.", "A fine place."]),
        (TurnDelivery.USER_ONLY, ["I live in Lisbon."]),
        (TurnDelivery.UPSTREAM_FAILED, ["I live in Lisbon."]),
        (TurnDelivery.CANCELLED, ["I live in Lisbon."]),
        (TurnDelivery.INCOMPLETE_STREAM, []),
        (TurnDelivery.REJECTED_BY_POLICY, []),
    ],
)
async def test_delivery_determines_what_is_stored(
    memory: elytron.MemoryRuntime, delivery: TurnDelivery, kept: list[str]
) -> None:
    report = await finish(memory, "t1", "I live in Lisbon.", "A fine place.", delivery=delivery)
    assert report.delivery is delivery
    assert [message.text for turn in (await memory.replay()).turns for message in turn.messages] == kept
    facts = (await memory.inspect()).documents.get("facts", 0)
    if kept:
        assert report.transcript_commit is CommitStatus.COMMITTED
        assert facts == 1
    else:
        assert report.transcript_commit is CommitStatus.NOT_EVIDENCE
        assert report.skipped_reason
        assert (report.maintenance, report.job, report.changed, facts) == ((), None, False, 0)


async def test_plain_add_extracts_nothing(memory: elytron.MemoryRuntime) -> None:
    await memory.add("I live in Lisbon.")
    assert "facts" not in (await memory.inspect()).documents


async def test_extraction_can_be_switched_off(memory: elytron.MemoryRuntime) -> None:
    report = await finish(memory, "t1", "I live in Lisbon.", extraction=ExtractionMethod.OFF)
    extraction = report.outcome(MaintenancePass.EXTRACTION)
    assert extraction is not None
    assert (extraction.status, extraction.reason) == (PassStatus.SKIPPED, "off")
    assert "facts" not in (await memory.inspect()).documents


async def test_the_same_turn_again_is_a_duplicate_and_adds_no_evidence(memory: elytron.MemoryRuntime) -> None:
    first = await finish(memory, "t1", "I live in Lisbon.")
    before = await memory.inspect(fingerprints=True)
    again = await finish(memory, "t1", "I live in Lisbon.")
    assert (again.turn_id, again.session_commit, again.changed) == (first.turn_id, CommitStatus.DUPLICATE, False)
    assert (await memory.inspect(fingerprints=True)).state_fingerprint == before.state_fingerprint
    with pytest.raises(TurnConflict):
        await finish(memory, "t1", "I live in Rome.")


async def test_a_turn_delivered_after_a_retry_is_not_a_conflict(memory: elytron.MemoryRuntime) -> None:
    first = await finish(memory, "t1", "Where do I live?", "In", delivery=TurnDelivery.CANCELLED)
    again = await finish(memory, "t1", "Where do I live?", "In Lisbon, on the hill.")
    assert (again.turn_id, again.session_commit, again.changed) == (first.turn_id, CommitStatus.COMMITTED, True)
    assert len(again.message_ids) == 2
    (turn,) = (await memory.replay()).turns
    said = ["Where do I live?", "In Lisbon, on the hill."]
    assert (turn.delivery, [message.text for message in turn.messages]) == (TurnDelivery.DELIVERED, said)
    assert (await memory.recall("hill")).hits[0].text == said[1]
    assert [hit.text for hit in (await memory.list()).items] == said
    once_more = await finish(memory, "t1", "Where do I live?", "In Lisbon, on the hill.")
    assert once_more.session_commit is CommitStatus.DUPLICATE
    with pytest.raises(TurnConflict):
        await finish(memory, "t1", "Where do I live?", "In Rome.")
    assert (await finish(memory, "t2", "And you?", "Here.")).turn_id != first.turn_id
    account = (await memory.inspect(check=True)).journal_account
    assert account is not None
    assert account.ok


async def test_with_a_model_the_turn_returns_without_calling_it(modelled: elytron.MemoryRuntime) -> None:
    report = await finish(modelled, "t1", "Well, home is Porto these days.")
    assert MODEL.prompts == []
    assert {outcome.status for outcome in report.maintenance} == {PassStatus.QUEUED, PassStatus.SKIPPED}
    (job,) = (await modelled.list_jobs()).jobs
    assert (job.id, job.state, job.turns) == (report.job, JobState.PENDING, 1)


async def test_a_repeated_turn_returns_the_same_job(modelled: elytron.MemoryRuntime) -> None:
    first = await finish(modelled, "t1", "Well, home is Porto these days.")
    await modelled.run_jobs()
    again = await finish(modelled, "t1", "Well, home is Porto these days.")
    assert again.job == first.job
    assert (await modelled.run_jobs()).jobs == ()


async def test_turns_of_a_busy_conversation_share_a_job(modelled: elytron.MemoryRuntime) -> None:
    reports = [await finish(modelled, f"t{number}", f"Talk number {number}.") for number in range(5)]
    assert len({report.job for report in reports}) == 1
    (job,) = (await modelled.list_jobs()).jobs
    assert job.turns == 5


async def test_a_required_but_missing_model_is_awaited(memory: elytron.MemoryRuntime) -> None:
    report = await finish(memory, "t1", "I live in Lisbon.", extraction=ExtractionMethod.MODEL)
    assert report.job is not None
    assert "facts" not in (await memory.inspect()).documents
    (job,) = (await memory.run_jobs()).jobs
    assert (job.state, job.error, job.attempts) == (JobState.BLOCKED, "no_language_model", 0)


async def test_a_turn_with_one_side_is_left_to_rules(modelled: elytron.MemoryRuntime) -> None:
    report = await finish(modelled, "t1", "I live in Lisbon.", None, delivery=TurnDelivery.USER_ONLY)
    assert report.job is None
    assert "The user lives in Lisbon" in await told.texts(modelled, "where do I live?")


async def test_a_device_in_safe_mode_stores_the_turn_and_maintains_nothing(memory: elytron.MemoryRuntime) -> None:
    report = await finish(memory, "t1", "I live in Lisbon.", mode_input=ModeInput(safe_mode=True))
    assert report.transcript_commit is CommitStatus.COMMITTED
    assert (report.maintenance_refused, report.maintenance) == (MaintenanceRefusal.SAFE_MODE, ())


async def test_under_pressure_only_rules_run(modelled: elytron.MemoryRuntime) -> None:
    report = await finish(modelled, "t1", "I live in Lisbon.", mode_input=ModeInput(pressure=MemoryPressure.CAUTIOUS))
    assert report.job is None
    assert "The user lives in Lisbon" in await told.texts(modelled, "where do I live?")


async def test_the_outcome_of_a_skill_is_recorded_once(memory: elytron.MemoryRuntime) -> None:
    await told.learn(memory, "release", "1. Run the tests\n2. Tag the commit\n3. Push the tag")
    reuse = SkillReuse(names=("runtime_skill__release", "runtime_skill__unknown"), outcome=ReuseOutcome.SUCCEEDED)
    report = await finish(memory, "t1", "Please release.", "Done.", reuse=reuse)
    served = report.outcome(MaintenancePass.SKILL_REUSE)
    assert served is not None
    assert (served.status, served.counts) == (PassStatus.DONE, {"succeeded": 1, "unknown": 1})
    again = (await finish(memory, "t1", "Please release.", "Done.", reuse=reuse)).outcome(MaintenancePass.SKILL_REUSE)
    assert again is not None
    assert again.reason == "duplicate"


async def test_a_secret_reaches_neither_the_store_nor_a_prompt(modelled: elytron.MemoryRuntime) -> None:
    secret = "sk-proj-" + "a1B2c3D4" * 5
    report = await finish(modelled, "t1", f"My key is {secret} and home is Porto these days.")
    assert report.scrubbed
    await modelled.run_jobs()
    assert MODEL.prompts
    assert secret not in str(MODEL.prompts)


async def test_repeatedly_echoing_recalled_text_adds_no_fact(memory: elytron.MemoryRuntime) -> None:
    await finish(memory, "t0", "I live in Lisbon. I'm allergic to peanuts.")
    before = (await memory.inspect()).documents["facts"]
    for number in range(12):
        block = (await memory.project("where do I live, what am I allergic to?")).system_memory_block
        await finish(memory, f"echo {number}", f"{block}\nWhat else do you know?", f"I know this:\n{block}")
    assert (await memory.inspect()).documents["facts"] == before


async def test_a_secret_in_the_same_text_does_not_hide_a_fact(memory: elytron.MemoryRuntime) -> None:
    key = "sk-proj-" + "abcdefghijklmnopqrstuvwxyz0123456789"
    report = await finish(memory, "t1", f"I live in Lisbon. My key is {key}")
    assert [decision.outcome.value for decision in report.decisions] == ["stored"]
    assert "The user lives in Lisbon" in [hit.text for hit in (await memory.recall("Lisbon")).hits]


async def test_turns_a_model_should_read_wait_for_a_later_model(path: str) -> None:
    async with elytron.open(path, space="ada") as memory:
        await finish(memory, "t1", "My sister Mei bakes bread on Sundays.")
        await finish(memory, "t2", "My name is Ada.")
        assert (await memory.maintain()).turns == 0
    model = answering(("Mei", items(item("Mei bakes bread", "My sister Mei bakes bread", topic="sister"))))
    async with elytron.open(path, space="ada", language_model=model) as memory:
        report = await memory.maintain()
        assert (report.turns, [decision.outcome.value for decision in report.decisions]) == (2, ["stored"])
        assert (await memory.maintain()).turns == 0
        assert {fact.content for fact in (await memory.list_facts()).items} >= {"Mei bakes bread"}


async def test_finishing_a_turn_includes_pending_turns_of_its_conversation(path: str) -> None:
    async with elytron.open(path, space="ada") as memory:
        await finish(memory, "t1", "My sister Mei bakes bread on Sundays.")
    model = answering(("Mei", items(item("Mei bakes bread", "My sister Mei bakes bread", topic="sister"))))
    async with elytron.open(path, space="ada", language_model=model) as memory:
        await finish(memory, "t2", "It rains.")
        await memory.run_jobs()
        assert [fact.content for fact in (await memory.list_facts()).items] == ["Mei bakes bread"]


async def test_turns_extracted_only_by_rules_wait_for_no_model(path: str) -> None:
    async with elytron.open(path, space="ada") as memory:
        await finish(memory, "t1", "My sister Mei bakes bread.", extraction=ExtractionMethod.RULES)
    async with elytron.open(path, space="ada", language_model=answering()) as memory:
        assert (await memory.maintain()).turns == 0


async def test_calls_without_a_conversation_use_the_last_committed_one(
    memory: elytron.MemoryRuntime,
) -> None:
    async def shown(**where: str) -> str:
        scope = elytron.Scope(space="ada", **where) if where else None
        return (await memory.replay(elytron.MemoryReplayRequest(scope=scope))).conversation

    await memory.add("Hello from the default talk.")
    assert await shown() == "default"
    await finish(memory, "t1", "The glaze is celadon.", scope=elytron.Scope(space="ada", conversation="kiln"))
    assert await shown() == "kiln"
    assert "celadon" in (await memory.project("what now?")).system_memory_block
    assert (await memory.maintain()).conversation == "kiln"
    assert [await shown(conversation="default"), await shown(agent="painter"), await shown(channel="web")] == [
        "default"
    ] * 3
    await memory.erase([turn.id for turn in (await memory.replay()).turns])
    (turn,) = (await memory.replay()).turns
    await memory.erase([f"{turn.id}#1"])
    assert await shown() == "default"
