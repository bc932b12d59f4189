"""Runtime skills: learned, merged, revised, judged by use, governed, archived."""

import asyncio
from dataclasses import replace

import pytest
from tests.sdk.told import learn

import elytron
from elytron import RuntimeSkillEditRequest, RuntimeSkillGovernRequest, RuntimeSkillListRequest
from elytron.journal.follower import AnnouncingStore
from elytron.ops.recall import recall_memories
from elytron_core import limits
from elytron_core.clock import FrozenClock, instant
from elytron_core.contracts.skills import SkillRefusal
from elytron_core.contracts.transcript import MemoryWriteReport, WriteOutcome
from elytron_core.errors import InvalidInput, NotFound, StoreFull
from elytron_core.ids import SpaceId
from elytron_core.planes.skills import LineageStatus as Lineage
from elytron_core.planes.skills import ReuseOutcome, SkillSource, SkillState, StrategyChange
from elytron_core.ports.store import Batch, CommitReceipt

pytestmark = pytest.mark.anyio

HOUR_MS = 3_600_000
DAY_MS = 24 * HOUR_MS
BREW = "1. Boil the water.\n2. Add two spoons of leaves.\n3. Wait four minutes."
NAME = "runtime_skill__brew"


@pytest.fixture
def clock() -> FrozenClock:
    return FrozenClock(instant("2026-03-01T12:00:00Z"))


class FullStore(AnnouncingStore):
    """A store whose device has no room left."""

    async def commit(self, batch: Batch, /) -> CommitReceipt:
        raise StoreFull(engine="memory")


async def write(memory: elytron.MemoryRuntime, name: str = "brew", **fields: object) -> MemoryWriteReport:
    source = fields.pop("source", SkillSource.TASK_LEARNING)
    texts = {"topic": "tea", "title": "Brew tea", "summary": "How to brew tea", "content": BREW}
    skill = elytron.RuntimeSkillWrite.model_validate({"name": name, **texts, **fields})
    procedural = elytron.ProcedureSource.model_validate({"writes": (skill,), "source": source})
    return await memory.write(elytron.MemoryWriteRequest(write=procedural))


async def recalled(memory: elytron.MemoryRuntime, query: str = "brew tea") -> list[str]:
    return [hit.id for hit in (await memory.recall(query)).hits]


async def used(memory: elytron.MemoryRuntime) -> int:
    return (await memory.get_runtime_skill(NAME)).skill.use_count


async def test_a_written_procedure_is_recalled_and_listed(memory: elytron.MemoryRuntime) -> None:
    await write(memory, citations=("t1",), source_chat_id="kitchen")
    assert await recalled(memory) == [NAME]
    report = await memory.list_runtime_skills()
    assert (report.total, report.active, report.disabled, report.retired) == (1, 1, 0, 0)
    [skill] = report.runtime_skills
    assert (skill.name, skill.origin, skill.state) == (NAME, "learned", "active")
    assert skill.quality == 20 + 18 + 10 + 14 + 6 + 6, "for its summary, citation, lines, chat and one use"


async def test_the_journal_records_a_written_procedure(memory: elytron.MemoryRuntime) -> None:
    report = await write(memory)
    entries = await memory.context.store.journal(SpaceId(report.space), after=report.sequence - 1, limit=1)
    assert [(entry.action, entry.ref.collection) for entry in entries] == [("write", "skills")]


async def test_recall_counts_a_use_once_in_six_hours(memory: elytron.MemoryRuntime, clock: FrozenClock) -> None:
    await write(memory)
    sequence = (await memory.inspect()).sequence
    await recalled(memory)
    await recalled(memory)
    assert (await used(memory), (await memory.inspect()).sequence) == (1, sequence + 1)
    clock.advance(6 * HOUR_MS)
    await memory.project("how do I brew tea?")
    assert await used(memory) == 2
    await memory.recall("boats at sea")
    clock.advance(7 * HOUR_MS)
    await memory.project("boats at sea")
    assert await used(memory) == 2, "what stands in every block has not been used"


async def test_recall_works_on_a_read_only_store(memory: elytron.MemoryRuntime) -> None:
    await write(memory)
    full = replace(memory.context, store=FullStore(memory.context.store))
    report = await recall_memories(full, elytron.MemoryRecallRequest(query="brew tea"))
    assert [hit.id for hit in report.hits] == [NAME]
    assert await used(memory) == 0


async def test_the_same_again_is_confirmed_and_its_citations_grow(memory: elytron.MemoryRuntime) -> None:
    await write(memory, citations=("t1",))
    report = await write(memory, citations=("t2",))
    assert (report.decisions[0].outcome, report.changed) == (WriteOutcome.CONFIRMED, True)
    detail = await memory.get_runtime_skill(NAME)
    assert (detail.citations, detail.skill.revision, detail.strategy_diffs) == (("t1", "t2"), 1, ())
    assert not (await write(memory, citations=("t2",))).changed


async def test_a_revision_keeps_evidence_lineage_and_changes(memory: elytron.MemoryRuntime, clock: FrozenClock) -> None:
    await write(memory, citations=("t1",))
    await recalled(memory)
    clock.advance(DAY_MS)
    report = await write(memory, content=BREW.replace("four", "five"), citations=("t2",))
    assert report.decisions[0].outcome is WriteOutcome.UPDATED
    detail = await memory.get_runtime_skill(NAME)
    assert (detail.skill.revision, detail.skill.use_count, detail.citations) == (2, 1, ("t1", "t2"))
    assert [node.status for node in detail.lineage] == [
        Lineage.SUPERSEDED,
        Lineage.ACTIVE,
    ]
    assert detail.lineage[0].digest != detail.lineage[1].digest
    [diff] = detail.strategy_diffs
    assert (diff.change, diff.before, diff.after) == (
        StrategyChange.PROCEDURE_REFINEMENT,
        "3. Wait four minutes.",
        "3. Wait five minutes.",
    )
    assert "five minutes" in detail.raw_content


async def test_a_duplicate_under_another_name_is_merged_and_can_be_restored(
    memory: elytron.MemoryRuntime, clock: FrozenClock
) -> None:
    await write(memory, citations=("t1",))
    await recalled(memory)
    clock.advance(DAY_MS)
    report = await write(memory, "tea-brewing", title="Brewing tea", citations=("t2",))
    assert report.decisions[0].outcome is WriteOutcome.STORED
    assert NAME in report.decisions[0].reason
    merged = await memory.get_runtime_skill("runtime_skill__tea-brewing")
    assert (merged.skill.supersedes, merged.skill.use_count, merged.citations) == ((NAME,), 1, ("t1", "t2"))
    assert [node.name for node in merged.lineage] == [NAME, "runtime_skill__tea-brewing"]
    assert await recalled(memory) == ["runtime_skill__tea-brewing"]
    old = (await memory.get_runtime_skill(NAME)).skill
    assert (old.state, old.superseded_by) == (SkillState.RETIRED, "runtime_skill__tea-brewing")

    await memory.delete_runtime_skill("runtime_skill__tea-brewing")
    back = await memory.set_runtime_skill_enabled(NAME)
    assert back.changed
    assert back.skill is not None
    assert (back.skill.state, back.skill.superseded_by) == (SkillState.ACTIVE, None)
    assert await recalled(memory) == [NAME]


async def test_an_earlier_observed_duplicate_confirms_the_later_one(
    memory: elytron.MemoryRuntime, clock: FrozenClock
) -> None:
    await write(memory)
    report = await write(memory, "older", observed_at=clock.now() - DAY_MS, citations=("t0",))
    [decision] = report.decisions
    assert (decision.outcome, decision.id) == (WriteOutcome.CONFIRMED, NAME)
    assert (await memory.get_runtime_skill(NAME)).citations == ("t0",)
    assert (await memory.list_runtime_skills()).total == 1


async def test_a_disabled_skill_is_not_relearned(memory: elytron.MemoryRuntime) -> None:
    await write(memory)
    await memory.set_runtime_skill_enabled(NAME, enabled=False)
    report = await write(memory, "again")
    assert "disabled" in report.decisions[0].reason
    assert await recalled(memory) == []


async def test_duplicates_within_one_write_are_merged_too(memory: elytron.MemoryRuntime) -> None:
    texts = {"topic": "tea", "title": "Brew tea", "summary": "How to", "content": BREW}
    writes = tuple(elytron.RuntimeSkillWrite.model_validate({"name": name, **texts}) for name in ("a", "b"))
    await memory.write(elytron.MemoryWriteRequest(write=elytron.ProcedureSource(writes=writes)))
    report = await memory.list_runtime_skills(RuntimeSkillListRequest(include_retired=True))
    assert [(skill.name, skill.supersedes) for skill in report.runtime_skills] == [
        ("runtime_skill__b", ("runtime_skill__a",)),
        ("runtime_skill__a", ()),
    ]


async def test_a_disabled_skill_is_stored_but_not_recalled(memory: elytron.MemoryRuntime) -> None:
    await write(memory)
    before = await memory.get_runtime_skill(NAME)
    assert (await memory.set_runtime_skill_enabled(NAME, enabled=False)).changed
    assert not (await memory.set_runtime_skill_enabled(NAME, enabled=False)).changed
    assert await recalled(memory) == []
    assert "Brew tea" not in (await memory.project("brew tea")).system_memory_block
    assert (await memory.get_runtime_skill(NAME)).raw_content == before.raw_content
    shown = await memory.list_runtime_skills()
    assert (shown.total, shown.disabled, shown.runtime_skills) == (1, 1, ())
    all_of_them = await memory.list_runtime_skills(RuntimeSkillListRequest(include_disabled=True))
    assert [skill.enabled for skill in all_of_them.runtime_skills] == [False]
    await memory.set_runtime_skill_enabled(NAME)
    assert await recalled(memory) == [NAME]


async def test_a_list_is_filtered_by_words_and_bounded(memory: elytron.MemoryRuntime) -> None:
    await write(memory)
    await learn(memory, "deploy", "1. Run the tests.\n2. Tag the release.")
    found = await memory.list_runtime_skills(RuntimeSkillListRequest(query="RELEAS tag"))
    assert [skill.name for skill in found.runtime_skills] == ["runtime_skill__deploy"]
    one = await memory.list_runtime_skills(RuntimeSkillListRequest(limit=1))
    assert (len(one.runtime_skills), one.total, one.clipped) == (1, 2, True)
    async with elytron.open("memory:") as empty:
        assert (await empty.list_runtime_skills()).total == 0


async def test_an_edit_is_a_revision_with_its_reason(memory: elytron.MemoryRuntime) -> None:
    await write(memory)
    edit = RuntimeSkillEditRequest(
        name=NAME, topic="green tea", title="Brew green tea", summary="Not too hot", edit_reason="for green tea"
    )
    report = await memory.edit_runtime_skill(edit)
    assert report.changed
    assert report.skill is not None
    assert (report.skill.topic, report.skill.revision) == ("green tea", 2)
    detail = await memory.get_runtime_skill(NAME)
    assert [(diff.change, diff.reason) for diff in detail.strategy_diffs] == [
        (StrategyChange.DOCTRINE_REVISION, "for green tea"),
        (StrategyChange.SUMMARY_REVISION, "for green tea"),
    ]
    assert detail.procedure == BREW
    assert not (await memory.edit_runtime_skill(edit)).changed


@pytest.mark.parametrize(
    ("fields", "refusal"),
    [
        ({"procedure": " "}, SkillRefusal.EMPTY),
        ({"title": "\u200b"}, SkillRefusal.EMPTY),
        ({"procedure": '{"a": 1}'}, SkillRefusal.RAW_PAYLOAD_OR_LOG),
        ({"procedure": "Lovely tea."}, SkillRefusal.WEAK_PROCEDURE),
    ],
)
async def test_an_edit_that_is_no_procedure_is_rejected(
    memory: elytron.MemoryRuntime, fields: dict[str, str], refusal: SkillRefusal
) -> None:
    await write(memory)
    report = await memory.edit_runtime_skill(RuntimeSkillEditRequest.model_validate({"name": NAME, **fields}))
    assert (report.refused, report.changed, report.sequence) == (refusal, False, 0)
    assert report.reason
    assert (await memory.get_runtime_skill(NAME)).skill.revision == 1


async def test_secrets_are_redacted_in_edits_and_notes(memory: elytron.MemoryRuntime) -> None:
    await write(memory)
    key = "sk-" + "ab12" * 12
    edit = RuntimeSkillEditRequest(name=NAME, procedure=f"1. Use {key}.\n2. Go.", edit_reason=f"with {key}")
    report = await memory.edit_runtime_skill(edit)
    assert sum(report.scrubbed.values()) == 2
    await memory.record_skill_reuse(NAME, note=f"used {key}")
    assert key not in (await memory.get_runtime_skill(NAME)).model_dump_json()


@pytest.mark.parametrize("space", ["ada", "nobody"])
async def test_only_existing_skills_can_be_changed(memory: elytron.MemoryRuntime, space: str) -> None:
    scope = elytron.Scope.model_validate({"space": space})
    await learn(memory, "other", "1. Do it.\n2. Do it again.")
    for request in (
        elytron.RuntimeSkillDetailRequest(scope=scope, name=NAME),
        elytron.RuntimeSkillEditRequest(scope=scope, name=NAME, title="x"),
        elytron.RuntimeSkillSetEnabledRequest(scope=scope, name=NAME, enabled=True),
        elytron.RuntimeSkillDeleteRequest(scope=scope, name=NAME),
    ):
        with pytest.raises(NotFound):
            await memory.operate(request)
    with pytest.raises(InvalidInput, match="name"):
        await memory.get_runtime_skill("brew")


async def test_a_deleted_skill_leaves_nothing_and_can_be_learned_again(memory: elytron.MemoryRuntime) -> None:
    await write(memory)
    report = await memory.delete_runtime_skill(NAME)
    assert (report.changed, report.skill) == (True, None)
    assert await recalled(memory) == []
    assert "skills" not in (await memory.inspect()).documents
    with pytest.raises(NotFound):
        await memory.get_runtime_skill(NAME)
    again = await write(memory)
    assert again.decisions[0].outcome is WriteOutcome.STORED
    assert (await memory.get_runtime_skill(NAME)).skill.revision == 1


async def test_a_mismatch_leaves_a_revision_pending_until_success(memory: elytron.MemoryRuntime) -> None:
    await write(memory)
    report = await memory.record_skill_reuse(NAME, outcome=ReuseOutcome.MISMATCH, note="no kettle")
    assert (report.changed, report.recorded, report.unknown) == (True, (NAME,), ())
    detail = await memory.get_runtime_skill(NAME)
    assert (detail.skill.revision_pending, detail.skill.mismatch_count) == (True, 1)
    assert detail.last_outcome_note == "no kettle"
    await memory.record_skill_reuse(NAME, outcome=ReuseOutcome.NEUTRAL)
    assert (await memory.get_runtime_skill(NAME)).skill.revision_pending
    await memory.record_skill_reuse(NAME, outcome=ReuseOutcome.SUCCEEDED)
    skill = (await memory.get_runtime_skill(NAME)).skill
    assert (skill.revision_pending, skill.validated_count, skill.mismatch_count) == (False, 1, 1)


async def test_an_outcome_for_an_unknown_skill_changes_nothing(memory: elytron.MemoryRuntime) -> None:
    report = await memory.record_skill_reuse(NAME)
    assert (report.changed, report.unknown, report.sequence) == (False, (NAME,), 0)
    assert not (await memory.inspect()).exists


async def test_governance_retires_prunes_and_records_states(memory: elytron.MemoryRuntime, clock: FrozenClock) -> None:
    await write(memory, citations=("a", "b"))
    await learn(memory, "kept", "1. Open the box.\n2. Look inside.", topic="boxes")
    await write(memory, "lonely", topic="sea", title="Sail", summary="", content="1. Hoist the sail.\n2. Cast off.")
    await write(memory, "grown", topic="war", title="Drums", summary="", content="1. Beat the drum.\n2. Rest.")
    await write(memory, "grown", topic="war", title="Drums", summary="", content="1. Beat it twice.\n2. Rest.")
    clock.advance(91 * DAY_MS)
    rehearsed = await memory.govern_runtime_skills(RuntimeSkillGovernRequest(dry_run=True))
    assert not rehearsed.changed
    report = await memory.govern_runtime_skills()
    assert report.changed
    assert (report.stale, report.retired, report.pruned, report.low_value) == (
        (NAME, "runtime_skill__kept"),
        ("runtime_skill__grown",),
        ("runtime_skill__lonely",),
        (),
    )
    assert (rehearsed.stale, rehearsed.retired, rehearsed.pruned) == (report.stale, report.retired, report.pruned)
    assert "runtime_skill__grown" not in await recalled(memory, "beat the drum")
    assert (await recalled(memory))[0] == NAME
    counts = (await memory.inspect()).runtime_skills
    assert (counts.total, counts.retired, counts.recallable) == (3, 1, 2)
    assert (await memory.govern_runtime_skills()).active == (NAME,), "it was used in between"
    assert not (await memory.govern_runtime_skills()).changed


async def test_a_space_without_skills_needs_no_governing(memory: elytron.MemoryRuntime) -> None:
    report = await memory.govern_runtime_skills()
    assert (report.changed, report.looked_at, report.sequence) == (False, 0, 0)


async def test_concurrent_outcomes_all_count(path: str) -> None:
    async with elytron.open(path) as one, elytron.open(path) as other:
        await write(one)
        await asyncio.gather(*(memory.record_skill_reuse(NAME) for memory in (one, other) * 4))
        assert (await one.get_runtime_skill(NAME)).skill.validated_count == 8


async def test_a_name_is_found_among_any_number(memory: elytron.MemoryRuntime, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "SKILLS_COMPARED", 1)
    await learn(memory, "one", "1. Open the box.\n2. Look inside.", topic="boxes")
    await learn(memory, "two", "1. Hoist the sail.\n2. Cast off.", topic="boats")
    for name in ("one", "two"):
        report = await learn(memory, name, f"1. Do {name} otherwise.\n2. Rest.", topic=name)
        assert report.decisions[0].outcome is WriteOutcome.UPDATED
    assert (await memory.list_runtime_skills()).clipped


async def test_an_erasure_lists_the_skills_derived_from_its_content(memory: elytron.MemoryRuntime) -> None:
    turn = (await memory.add("The kettle wants four minutes.")).ids[0]
    await write(memory, citations=(turn,))
    erased = await memory.erase(elytron.MemoryEraseRequest(ids=(turn,)))
    assert erased.derived == (NAME,)
    both = await memory.erase(elytron.MemoryEraseRequest(ids=(NAME,)))
    assert dict(both.removed) == {"skills": 1}


async def test_a_deleted_or_pruned_skill_leaves_no_link(memory: elytron.MemoryRuntime, clock: FrozenClock) -> None:
    said = await memory.add("Boil the water, then add the leaves.", conversation="kitchen")
    await write(memory, citations=said.ids)
    other = "1. Heat a pot.\n2. Steep the herbs in it."
    await write(memory, "steep", topic="infusion", content=other, citations=said.ids)
    here = elytron.Scope(space=SpaceId("ada"), conversation="kitchen")
    check = elytron.MemoryTranscriptRepairRequest(scope=here)
    assert (await memory.repair_transcript(check)).checked_derived_refs == 2
    await memory.delete_runtime_skill(elytron.RuntimeSkillDeleteRequest(name=NAME))
    clock.advance(91 * DAY_MS)
    assert len((await memory.govern_runtime_skills()).pruned) == 1
    found = await memory.repair_transcript(check)
    assert (found.checked_derived_refs, found.issues, found.fail_closed) == (0, (), False)


async def test_switching_and_deleting_a_skill_is_in_its_history(memory: elytron.MemoryRuntime) -> None:
    await learn(memory, "release", "1. Run the tests.\n2. Tag the release.\n3. Push the tag.")
    name = "runtime_skill__release"
    off = elytron.RuntimeSkillSetEnabledRequest(name=name, enabled=False, reason="too old")
    await memory.set_runtime_skill_enabled(off)
    await memory.set_runtime_skill_enabled(elytron.RuntimeSkillSetEnabledRequest(name=name, enabled=True))
    await memory.delete_runtime_skill(elytron.RuntimeSkillDeleteRequest(name=name, reason="nobody needs it"))
    items = (await memory.history(name)).items
    assert [(item.event.value, item.by, item.reason) for item in items] == [
        ("disabled", "host", "too old"),
        ("enabled", "host", ""),
        ("deleted", "host", "nobody needs it"),
    ]
    with pytest.raises(NotFound):
        await memory.history("runtime_skill__other")
