"""Maintain: each pass, with a model and without."""

import json

import pytest
from tests.sdk import told
from tests.sdk.turns import answering, finish, item, items

import elytron
from elytron.factory import RuntimeOpening
from elytron.models import ScriptedModel
from elytron_core.clock import DAY_MS, FrozenClock, Instant, format_instant
from elytron_core.contracts.continuity import ExecutionDraft, ExecutionWrite, NoteDraft, NotesWrite
from elytron_core.contracts.maintenance.maintenance import (
    ExtractionMethod,
    MaintenanceRefusal,
    MemoryMaintainRequest,
    PassOutcome,
    PassStatus,
)
from elytron_core.contracts.transcript import MemoryWriteRequest
from elytron_core.errors import ModelRefused, ModelUnavailable, Unsupported
from elytron_core.evidence import EvidenceRole
from elytron_core.ids import SeededIds
from elytron_core.planes.continuity import ExecutionStatus
from elytron_core.planes.facts import FactKind
from elytron_core.planes.jobs import MaintenancePass
from elytron_core.policy.spending_budget import SpendingBudget
from elytron_core.ports.models import LanguageModel, TextCompletion
from elytron_core.profiles import ModeInput

pytestmark = pytest.mark.anyio


def opened(
    clock: FrozenClock, model: LanguageModel | None = None, budget: SpendingBudget | None = None
) -> RuntimeOpening:
    return elytron.open("memory:", space="ada", clock=clock, ids=SeededIds(), language_model=model, budget=budget)


async def run(
    memory: elytron.MemoryRuntime, of: MaintenancePass, extraction: ExtractionMethod = ExtractionMethod.AUTO
) -> PassOutcome:
    report = await memory.maintain(MemoryMaintainRequest(passes=(of,), extraction=extraction))
    (outcome,) = report.passes
    return outcome


async def talk(memory: elytron.MemoryRuntime, turns: int, *, first: int = 1) -> None:
    for number in range(first, first + turns):
        await told.talk(memory, (EvidenceRole.USER, f"Said {number}."), (EvidenceRole.ASSISTANT, "Yes."))


async def work_on(memory: elytron.MemoryRuntime, state: ExecutionDraft) -> None:
    await memory.write(MemoryWriteRequest(write=ExecutionWrite(state=state)))


async def test_every_part_has_one_outcome_in_the_order_of_the_parts(memory: elytron.MemoryRuntime) -> None:
    await memory.add("I live in Lisbon.")
    report = await memory.maintain()
    assert [outcome.of for outcome in report.passes] == list(MaintenancePass)
    assert report.outcome(MaintenancePass.SUMMARY) == PassOutcome(
        of=MaintenancePass.SUMMARY, status=PassStatus.SKIPPED, reason="no_language_model"
    )
    assert (report.turns, report.has_more, report.changed) == (1, False, True)


async def test_an_empty_space_has_nothing_to_maintain(memory: elytron.MemoryRuntime) -> None:
    report = await memory.maintain()
    assert {outcome.reason for outcome in report.passes} == {"nothing_kept"}
    assert not report.changed


async def test_a_required_but_missing_model_refuses_the_call(memory: elytron.MemoryRuntime) -> None:
    await memory.add("I live in Lisbon.")
    with pytest.raises(Unsupported, match="language_model="):
        await memory.maintain(MemoryMaintainRequest(extraction=ExtractionMethod.MODEL))


async def test_safe_mode_blocks_maintenance(memory: elytron.MemoryRuntime) -> None:
    await memory.add("I live in Lisbon.")
    report = await memory.maintain(MemoryMaintainRequest(mode_input=ModeInput(safe_mode=True)))
    assert (report.refused, report.passes, report.changed) == (MaintenanceRefusal.SAFE_MODE, (), False)


async def test_additions_are_read_by_rules_on_request_and_each_turn_once(memory: elytron.MemoryRuntime) -> None:
    for number in range(70):
        await memory.add(f"I'm allergic to thing number {number}.")
    first = await memory.maintain()
    assert (first.turns, first.has_more) == (64, True)
    second = await memory.maintain()
    assert (second.turns, second.has_more) == (6, False)
    assert (await memory.inspect()).documents["facts"] == 70
    before = await memory.inspect(fingerprints=True)
    third = await memory.maintain()
    assert (third.turns, third.changed) == (0, False)
    assert (await memory.inspect(fingerprints=True)).state_fingerprint == before.state_fingerprint


async def test_a_model_reads_what_rules_cannot_and_its_answer_is_judged(clock: FrozenClock) -> None:
    model = answering(
        (
            "Porto",
            items(
                item("The user lives in Porto.", "home is Porto these days"),
                item("The user is a genius.", "you are a genius", topic="talent"),
                item("The user has a yacht.", "the yacht", topic="yacht"),
            ),
        )
    )
    async with opened(clock, model) as memory:
        await told.talk(
            memory,
            (EvidenceRole.USER, "Well, home is Porto these days."),
            (EvidenceRole.ASSISTANT, "And you are a genius."),
        )
        outcome = await run(memory, MaintenancePass.EXTRACTION)
        assert outcome.counts == {"read": 1, "stored": 1, "rests_on_no_words": 2}
        assert outcome.spent.calls == 1
        assert outcome.spent.prompt_tokens > 0
        assert [fact.text for fact in (await memory.recall("Porto")).hits if fact.kind is FactKind.PROFILE] == [
            "The user lives in Porto."
        ]


async def test_a_nearly_valid_json_answer_is_repaired(clock: FrozenClock) -> None:
    answer = items(item("The user lives in Porto.", "home is Porto these days"))
    model = ScriptedModel([f"Sure!\n```json\n{answer[:-1]},}}\n```"])
    async with opened(clock, model) as memory:
        await told.talk(
            memory, (EvidenceRole.USER, "Well, home is Porto these days."), (EvidenceRole.ASSISTANT, "Nice.")
        )
        outcome = await run(memory, MaintenancePass.EXTRACTION)
    assert (outcome.counts, len(model.prompts)) == ({"read": 1, "stored": 1}, 1)


@pytest.mark.parametrize(
    "first",
    [
        "I would rather not say.",
        '{"items":[{"plane":"factual"}]}',
        '{"items":[{"plane":"factual","content":"The user lives in Por',
        TextCompletion('{"items":[]}', "m", is_cut=True),
    ],
)
async def test_an_unreadable_answer_is_requested_once_more(clock: FrozenClock, first: str | TextCompletion) -> None:
    model = ScriptedModel([first, items(item("The user lives in Porto.", "home is Porto these days"))])
    async with opened(clock, model) as memory:
        await told.talk(
            memory, (EvidenceRole.USER, "Well, home is Porto these days."), (EvidenceRole.ASSISTANT, "Nice.")
        )
        outcome = await run(memory, MaintenancePass.EXTRACTION)
    assert outcome.counts == {"read": 1, "stored": 1}
    assert outcome.spent.calls == 2
    assert "Add nothing" in model.prompts[1][-1].text


async def test_two_unreadable_answers_are_a_typed_failure_and_rules_read_the_turn(clock: FrozenClock) -> None:
    model = ScriptedModel(["no", "no"])
    async with opened(clock, model) as memory:
        await told.talk(memory, (EvidenceRole.USER, "I live in Porto."), (EvidenceRole.ASSISTANT, "Nice."))
        outcome = await run(memory, MaintenancePass.EXTRACTION)
        assert (outcome.status, outcome.reason) == (PassStatus.FAILED, ModelRefused.key)
        assert outcome.counts == {"read": 1, "refused": 1, "stored": 1}
        assert "The user lives in Porto" in await told.texts(memory, "where do I live?")


async def test_an_unreachable_model_leaves_the_turns_to_a_job(clock: FrozenClock) -> None:
    model = ScriptedModel(
        [ModelUnavailable("off"), items(item("The user lives in Porto.", "home is Porto these days"))]
    )
    async with opened(clock, model) as memory:
        await told.talk(
            memory, (EvidenceRole.USER, "Well, home is Porto these days."), (EvidenceRole.ASSISTANT, "Nice.")
        )
        report = await memory.maintain()
        outcome = report.outcome(MaintenancePass.EXTRACTION)
        assert outcome is not None
        assert (outcome.status, outcome.reason) == (PassStatus.QUEUED, ModelUnavailable.key)
        assert report.job is not None
        (job,) = (await memory.run_jobs()).jobs
        assert (job.id, job.state) == (report.job, "succeeded")
        assert "The user lives in Porto." in await told.texts(memory, "where do I live?")


async def test_the_daily_budget_is_a_hard_stop_until_the_next_day(clock: FrozenClock) -> None:
    model = answering()
    async with opened(clock, model, SpendingBudget(calls_per_day=2)) as memory:
        for number in range(4):
            await told.talk(
                memory, (EvidenceRole.USER, f"Home is town {number} these days."), (EvidenceRole.ASSISTANT, "Nice.")
            )
        report = await memory.maintain(MemoryMaintainRequest(passes=(MaintenancePass.EXTRACTION,)))
        (outcome,) = report.passes
        assert (outcome.status, outcome.reason, len(model.prompts)) == (PassStatus.QUEUED, "budget_reached", 2)
        (job,) = (await memory.run_jobs()).jobs
        assert (job.state, job.error) == ("blocked", "budget_reached")
        jobs = await memory.list_jobs()
        assert (jobs.health, jobs.calls_left, jobs.spent_today.calls) == ("degraded", 0, 2)
        assert (await memory.run_jobs()).jobs == ()
        clock.advance(DAY_MS)
        (job,) = (await memory.run_jobs()).jobs
        assert (job.state, len(model.prompts)) == ("succeeded", 4)


async def test_a_call_that_could_exceed_the_daily_tokens_is_not_made(clock: FrozenClock) -> None:
    model = answering()
    async with opened(clock, model, SpendingBudget(tokens_per_day=500)) as memory:
        await told.talk(memory, (EvidenceRole.USER, "Home is Porto these days."), (EvidenceRole.ASSISTANT, "Nice."))
        await memory.maintain()
    assert model.prompts == []


async def test_a_summary_is_written_at_forty_messages_and_renewed_after_twenty(clock: FrozenClock) -> None:
    model = answering(otherwise='{"summary":"They count."}')
    async with opened(clock, model) as memory:
        await talk(memory, 19)
        assert (await run(memory, MaintenancePass.SUMMARY)).reason == "not_due"
        await talk(memory, 1, first=20)
        assert (await run(memory, MaintenancePass.SUMMARY)).counts == {"messages": 40}
        assert (await run(memory, MaintenancePass.SUMMARY)).reason == "not_due"
        await talk(memory, 10, first=21)
        assert (await run(memory, MaintenancePass.SUMMARY, ExtractionMethod.RULES)).counts == {"messages": 60}
        assert "They count." in await told.texts(memory, "they count")
    later = model.prompts[1][1].text
    assert "## The summary so far\nThey count." in later
    assert "Said 21." in later
    assert "Said 20." not in later


async def test_an_empty_summary_changes_nothing(clock: FrozenClock) -> None:
    async with opened(clock, answering(otherwise='{"summary":"  "}')) as memory:
        await talk(memory, 20)
        outcome = await run(memory, MaintenancePass.SUMMARY)
    assert (outcome.status, outcome.counts) == (PassStatus.UNCHANGED, {"empty": 1})


STATE = {
    "is_work": "yes", "goal": "Ship the release", "progress": "tested", "blocker": "", "next_action": "tag it",
    "last_output": "", "done": ["a", "b", "c", "d", "e", " "], "pending": [], "decisions": [], "artifacts": [],
    "status": "active",
}  # fmt: skip


async def test_the_state_of_work_is_renewed_and_its_last_items_kept(clock: FrozenClock) -> None:
    model = answering(otherwise=json.dumps(STATE))
    async with opened(clock, model) as memory:
        await work_on(memory, ExecutionDraft(goal="Ship the release", progress="begun"))
        await told.talk(memory, (EvidenceRole.USER, "Go on."), (EvidenceRole.ASSISTANT, "Tested."))
        outcome = await run(memory, MaintenancePass.EXECUTION_STATE)
        assert outcome.status is PassStatus.DONE
        (state,) = [text for text in await told.texts(memory, "release tag") if text.startswith("Goal: Ship")]
    assert "Next: tag it" in state
    assert [line for line in state.splitlines() if line.startswith("Done")] == [
        "Done: b",
        "Done: c",
        "Done: d",
        "Done: e",
    ]
    assert "Progress: begun" in model.prompts[0][1].text


@pytest.mark.parametrize("answer", [{"is_work": "no"}, {"goal": " "}])
async def test_small_talk_is_not_work(clock: FrozenClock, answer: dict[str, str]) -> None:
    async with opened(clock, answering(otherwise=json.dumps({**STATE, **answer}))) as memory:
        await work_on(memory, ExecutionDraft(goal="Ship the release"))
        await told.talk(memory, (EvidenceRole.USER, "Nice weather."), (EvidenceRole.ASSISTANT, "It is."))
        assert (await run(memory, MaintenancePass.EXECUTION_STATE)).counts == {"no_work": 1}


async def test_without_work_no_state_is_requested(clock: FrozenClock) -> None:
    async with opened(clock, answering()) as memory:
        await told.talk(memory, (EvidenceRole.USER, "Nice weather."), (EvidenceRole.ASSISTANT, "It is."))
        assert (await run(memory, MaintenancePass.EXECUTION_STATE)).reason == "not_due"


async def test_expired_tasks_are_hidden_and_can_be_restored(memory: elytron.MemoryRuntime, clock: FrozenClock) -> None:
    report = await told.believe(memory, "dentist", "call the dentist", kind=FactKind.TASK)
    await told.believe(memory, "home", "lives in Lisbon")
    clock.advance(46 * DAY_MS)
    assert (await run(memory, MaintenancePass.GOVERNANCE)).counts == {"outlived": 1}
    assert "call the dentist" not in await told.texts(memory, "dentist")
    assert "lives in Lisbon" in await told.texts(memory, "home Lisbon")
    await memory.forget(elytron.MemoryForgetRequest(ids=report.ids, undo=True))
    assert "call the dentist" in await told.texts(memory, "dentist")


async def test_daily_notes_older_than_a_week_are_rolled_into_their_month(
    memory: elytron.MemoryRuntime, clock: FrozenClock
) -> None:
    def day(days_ago: int) -> str:
        return format_instant(Instant(clock.now() - days_ago * DAY_MS))[:10]

    clock.advance(20 * DAY_MS)
    drafts = tuple(NoteDraft(period=day(ago), text=f"fished {ago} trout") for ago in (1, 9, 10))
    await memory.write(MemoryWriteRequest(write=NotesWrite(notes=drafts)))
    outcome = await run(memory, MaintenancePass.HYGIENE)
    assert outcome.counts["notes_rolled_up"] == 2
    texts = await told.texts(memory, "fished trout")
    assert sorted(texts) == [f"{day(10)}: fished 10 trout\n{day(9)}: fished 9 trout", "fished 1 trout"]
    assert "notes_rolled_up" not in (await run(memory, MaintenancePass.HYGIENE)).counts


async def test_finished_work_leaves_a_procedure_and_a_capsule(memory: elytron.MemoryRuntime) -> None:
    await told.talk(memory, (EvidenceRole.USER, "Ship it."), (EvidenceRole.ASSISTANT, "Shipped."))
    steps = ("Run the whole test suite", "Tag the commit with the version", "Push the tag and watch the build")
    await work_on(
        memory,
        ExecutionDraft(goal="Ship the release", done=steps, last_output="v1 is out", status=ExecutionStatus.DONE),
    )
    report = await memory.maintain()
    learned = report.outcome(MaintenancePass.TASK_LEARNING)
    capsules = report.outcome(MaintenancePass.CAPSULES)
    assert learned is not None
    assert capsules is not None
    assert (learned.status, learned.counts) == (PassStatus.DONE, {"stored": 1})
    assert (capsules.status, capsules.counts) == (PassStatus.DONE, {"written": 1})
    kinds = {hit.plane for hit in (await memory.recall("ship the release")).hits}
    assert {"procedural", "continuity"} <= kinds


async def test_without_work_there_is_nothing_to_learn_or_resume(memory: elytron.MemoryRuntime) -> None:
    await memory.add("Hello.")
    assert (await run(memory, MaintenancePass.TASK_LEARNING)).reason == "no_execution_state"
    assert (await run(memory, MaintenancePass.CAPSULES)).reason == "no_execution_state"
    await work_on(memory, ExecutionDraft(goal="Ship the release"))
    assert (await run(memory, MaintenancePass.TASK_LEARNING)).reason == "not_due"
    assert (await run(memory, MaintenancePass.CAPSULES)).reason == "too_little_to_tell"


async def test_output_of_scheduled_runs_is_never_extracted(memory: elytron.MemoryRuntime) -> None:
    from elytron_core.planes.transcript import ActorAttribution

    actor = ActorAttribution(triggered_by="scheduler")
    report = await finish(memory, "t1", "I live in Lisbon.", actor=actor)
    outcome = report.outcome(MaintenancePass.EXTRACTION)
    assert outcome is not None
    assert outcome.counts == {"scheduled_run": 1}


async def test_nearly_equal_facts_are_merged_six_at_a_time(memory: elytron.MemoryRuntime) -> None:
    for number in range(8):
        thing = f"the {'abcdefgh'[number] * 7} instrument of the orchestra"
        await told.believe(memory, f"likes {number}", f"Ada likes to play {thing} on Sundays", kind=FactKind.PREFERENCE)
        await told.believe(memory, f"also {number}", f"Ada likes to play {thing} on Sunday", kind=FactKind.PREFERENCE)
    assert (await run(memory, MaintenancePass.HYGIENE)).counts["facts_reconciled"] == 6


async def test_inspection_reports_whether_deferred_work_is_being_done(memory: elytron.MemoryRuntime) -> None:
    assert (await memory.inspect()).work == "idle"
    await finish(memory, "t1", "I live in Lisbon.", extraction=ExtractionMethod.MODEL)
    report = await memory.inspect(fingerprints=True)
    assert (report.work, report.jobs) == ("working", {"pending": 1})
    await memory.run_jobs()
    report = await memory.inspect(fingerprints=True)
    assert (report.work, report.jobs) == ("degraded", {"blocked": 1})


async def test_single_message_turns_are_read_with_the_following_answer(clock: FrozenClock) -> None:
    model = answering(("Porto", items(item("The user lives in Porto.", "home is Porto these days"))))
    async with opened(clock, model) as memory:
        await memory.add([{"role": "user", "content": "Well, home is Porto these days."}])
        await memory.add([{"role": "assistant", "content": "Nice."}])
        await memory.add([{"role": "user", "content": "I'm allergic to hazelnuts."}])
        outcome = await run(memory, MaintenancePass.EXTRACTION)
    assert len(model.prompts) == 1
    assert outcome.counts == {"read": 2, "stored": 2, "not_user_ingress": 1}


async def test_nothing_is_extracted_when_extraction_is_off(memory: elytron.MemoryRuntime) -> None:
    await memory.add("I live in Lisbon.")
    assert (await run(memory, MaintenancePass.EXTRACTION, ExtractionMethod.OFF)).reason == "off"
    assert (await run(memory, MaintenancePass.EXTRACTION)).counts == {"read": 1, "stored": 1}


async def test_erased_turns_do_not_block_later_ones(memory: elytron.MemoryRuntime) -> None:
    for number in range(5):
        gone = await memory.add(f"I'm allergic to thing {number}.")
        await memory.erase(elytron.MemoryEraseRequest(ids=gone.ids))
    await memory.add("I live in Lisbon.")
    first = await memory.maintain(MemoryMaintainRequest(turns_max=5))
    assert (first.turns, first.has_more) == (0, True)
    second = await memory.maintain(MemoryMaintainRequest(turns_max=5))
    assert (second.turns, second.has_more) == (1, False)


async def test_a_refused_turn_is_not_retried_on_every_call(clock: FrozenClock) -> None:
    model = ScriptedModel([ModelRefused("no")])
    async with opened(clock, model) as memory:
        await told.talk(memory, (EvidenceRole.USER, "I live in Porto."), (EvidenceRole.ASSISTANT, "Nice."))
        assert (await run(memory, MaintenancePass.EXTRACTION)).status is PassStatus.FAILED
        assert (await run(memory, MaintenancePass.EXTRACTION)).status is PassStatus.UNCHANGED
    assert len(model.prompts) == 1


async def test_turns_of_an_abandoned_job_are_deferred_to_it_again(clock: FrozenClock) -> None:
    away = ModelUnavailable("off")
    async with opened(clock, ScriptedModel([away, away])) as memory:
        await told.talk(
            memory, (EvidenceRole.USER, "Well, home is Porto these days."), (EvidenceRole.ASSISTANT, "Nice.")
        )
        first = await memory.maintain()
        assert first.job is not None
        await memory.cancel_job(first.job)
        second = await memory.maintain()
        assert second.job == first.job
        assert (await memory.list_jobs()).counts == {"pending": 1}
