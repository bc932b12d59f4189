"""Tool registries, feedback, and hints: only what has worked is suggested, and the host decides."""

from dataclasses import replace

import pytest
from tests.core.policy.tools.test_experience import READ, SEND, feedback, registry, seen

import elytron
from elytron.ops.inspection import inspect_space
from elytron.ops.tools import list_agent_tool_registries, upsert_agent_tool_registry
from elytron_core import limits
from elytron_core.contracts.inspection import MemoryInspectionRequest
from elytron_core.contracts.recall import MemoryRecallReport
from elytron_core.contracts.tools import (
    AgentToolRegistryDeleteRequest,
    AgentToolRegistryGetRequest,
    AgentToolRegistryListRequest,
    AgentToolRegistryUpsertRequest,
    AgentToolUsageFeedback,
    ExperienceReason,
    HintRejection,
    RegistryRefusal,
)
from elytron_core.contracts.transcript import MemoryWriteReport, WriteOutcome
from elytron_core.errors import InvalidInput, NotFound
from elytron_core.ids import SpaceId
from elytron_core.planes.candidates import AdmissionVerdict
from elytron_core.planes.skills import ReuseOutcome
from elytron_core.planes.tools import AgentToolRegistryRef
from elytron_core.policy.platform.profiles import profile_of
from elytron_core.profiles import ProfileName

pytestmark = pytest.mark.anyio

HOST = registry()


async def tell(
    memory: elytron.MemoryRuntime, given: AgentToolUsageFeedback, *, dry_run: bool = False, key: str | None = None
) -> MemoryWriteReport:
    write = elytron.AgentToolUsageFeedbackWrite(feedback=given)
    return await memory.write(elytron.MemoryWriteRequest(write=write, dry_run=dry_run, idempotency_key=key))


async def ask(memory: elytron.MemoryRuntime, *refs: AgentToolRegistryRef) -> MemoryRecallReport:
    return await memory.recall(elytron.MemoryRecallRequest(query="the file", tool_registry_refs=refs))


async def test_a_registry_is_stored_replaced_and_deleted(memory: elytron.MemoryRuntime) -> None:
    report = await memory.upsert_agent_tool_registry(HOST)
    assert (report.accepted, report.changed, report.fingerprint, report.refused) == (True, True, HOST.fingerprint, None)
    assert not (await memory.upsert_agent_tool_registry(HOST)).changed
    assert (await memory.get_agent_tool_registry("host")).registry == HOST
    assert (await memory.get_agent_tool_registry(AgentToolRegistryGetRequest(registry_id="host"))).registry == HOST
    smaller = registry(READ)
    replaced = await memory.upsert_agent_tool_registry(smaller)
    assert (replaced.changed, replaced.replaced_fingerprint) == (True, HOST.fingerprint)
    listed = await memory.list_agent_tool_registries()
    assert listed.registries == (smaller,)
    assert (listed.report.registries, listed.report.tools) == (1, 1)
    assert (await memory.delete_agent_tool_registry("host")).changed
    assert not (await memory.delete_agent_tool_registry(AgentToolRegistryDeleteRequest(registry_id="host"))).changed
    with pytest.raises(NotFound):
        await memory.get_agent_tool_registry("host")


async def test_an_unknown_registry_is_not_found(memory: elytron.MemoryRuntime) -> None:
    with pytest.raises(NotFound):
        await memory.get_agent_tool_registry("host")
    assert not (await memory.delete_agent_tool_registry("host")).changed
    assert (await memory.list_agent_tool_registries()).registries == ()
    assert not (await memory.inspect()).exists


@pytest.mark.parametrize(
    ("snapshot", "refusal"),
    [
        (HOST.model_copy(update={"fingerprint": "0" * 16}), RegistryRefusal.FINGERPRINT_MISMATCH),
        (registry(READ, READ), RegistryRefusal.DUPLICATE_TOOL),
        (
            HOST.model_copy(update={"tools": (READ.model_copy(update={"descriptor_fingerprint": "x"}),)}),
            RegistryRefusal.DESCRIPTOR_MISMATCH,
        ),
    ],
)
async def test_a_snapshot_with_wrong_fingerprints_is_rejected(
    memory: elytron.MemoryRuntime, snapshot: elytron.AgentToolRegistrySnapshot, refusal: RegistryRefusal
) -> None:
    await memory.upsert_agent_tool_registry(HOST)
    report = await memory.upsert_agent_tool_registry(snapshot)
    assert (report.accepted, report.changed, report.refused) == (False, False, refusal)
    assert report.reason
    assert (await memory.get_agent_tool_registry("host")).registry == HOST


async def test_the_number_of_registries_per_space_is_limited(memory: elytron.MemoryRuntime) -> None:
    for at in range(limits.TOOL_REGISTRIES):
        assert (await memory.upsert_agent_tool_registry(registry(registry_id=f"r{at:02}"))).accepted
    assert (await memory.upsert_agent_tool_registry(HOST)).refused is RegistryRefusal.TOO_MANY
    assert (await memory.upsert_agent_tool_registry(registry(READ, registry_id="r00"))).accepted


@pytest.mark.parametrize("profile", [ProfileName.ESP_STANDALONE, ProfileName.ESP_SDK])
async def test_small_devices_store_no_registries(memory: elytron.MemoryRuntime, profile: ProfileName) -> None:
    context = replace(memory.context, profile=profile_of(profile))
    report = await upsert_agent_tool_registry(context, AgentToolRegistryUpsertRequest(snapshot=HOST))
    assert (report.accepted, report.refused) == (False, RegistryRefusal.FORBIDDEN_BY_PROFILE)
    listed = await list_agent_tool_registries(context, AgentToolRegistryListRequest())
    assert listed.report.forbidden_by_profile
    assert (await inspect_space(context, MemoryInspectionRequest())).agent_tools.forbidden_by_profile


async def test_a_cold_start_yields_no_hint_and_says_so(memory: elytron.MemoryRuntime) -> None:
    for report in (await ask(memory), await ask(memory, HOST.ref)):
        assert report.agent_tool_hints == ()
        status = report.tool_experience_status
        assert status.reason is ExperienceReason.NO_GOVERNED_TOOL_EXPERIENCE
        assert (status.host_fallback_required, status.cold_start_selection_used) == (True, False)
    await memory.upsert_agent_tool_registry(HOST)
    assert (await ask(memory, HOST.ref)).tool_experience_status.registry_refs_checked == 1
    block = await memory.project("the file")
    assert (block.agent_tool_hints, block.tool_experience_status.host_fallback_required) == ((), True)


async def test_a_success_is_deferred_and_becomes_a_hint_on_repetition(memory: elytron.MemoryRuntime) -> None:
    await memory.upsert_agent_tool_registry(HOST)
    first = await tell(memory, feedback(seen()))
    assert (first.decisions[0].verdict, first.decisions[0].outcome) == (AdmissionVerdict.DEFER, WriteOutcome.DEFERRED)
    assert (await ask(memory, HOST.ref)).agent_tool_hints == ()
    second = await tell(memory, feedback(seen()))
    assert (second.decisions[0].verdict, second.decisions[0].outcome) == (AdmissionVerdict.ACCEPT, WriteOutcome.UPDATED)
    assert second.decisions[0].reason.startswith("accepted_as_evidence: ")
    report = await ask(memory, HOST.ref)
    [hint] = report.agent_tool_hints
    assert (hint.tool_id, hint.registry_ref, hint.schema_fingerprint) == ("read", HOST.ref, "s1")
    assert (hint.confidence, hint.reason, hint.host_execution_required) == ("medium", "found the file", True)
    assert report.tool_experience_status.reason is ExperienceReason.GOVERNED_TOOL_EXPERIENCE_AVAILABLE
    assert (await ask(memory)).agent_tool_hints == report.agent_tool_hints


async def test_rejected_feedback_changes_nothing(memory: elytron.MemoryRuntime) -> None:
    await memory.upsert_agent_tool_registry(HOST)
    report = await tell(memory, feedback(seen("gone"), seen("gone")))
    [decision] = report.decisions
    assert (decision.verdict, decision.id, report.changed) == (AdmissionVerdict.REJECT, None, False)
    assert decision.reason.startswith("rejected_by_schema_drift: ")
    assert (await tell(memory, feedback())).decisions[0].outcome is WriteOutcome.REJECTED


async def test_a_dry_run_of_feedback_stores_nothing(memory: elytron.MemoryRuntime) -> None:
    await memory.upsert_agent_tool_registry(HOST)
    report = await tell(memory, feedback(seen(), seen()), dry_run=True)
    assert (report.decisions[0].verdict, report.changed) == (AdmissionVerdict.ACCEPT, False)
    assert (await ask(memory)).agent_tool_hints == ()


async def test_feedback_under_one_key_counts_once(memory: elytron.MemoryRuntime) -> None:
    await memory.upsert_agent_tool_registry(HOST)
    for _ in range(3):
        await tell(memory, feedback(seen(), seen()), key="reply-7")
    [hint] = (await ask(memory)).agent_tool_hints
    assert hint.success_count == 2


async def test_a_mismatch_makes_a_hint_uncertain(memory: elytron.MemoryRuntime) -> None:
    await memory.upsert_agent_tool_registry(HOST)
    await tell(memory, feedback(seen(), operator_note="use it for files"))
    assert [(hint.confidence, hint.guidance) for hint in (await ask(memory)).agent_tool_hints] == [
        ("high", "use it for files")
    ]
    report = await tell(memory, feedback(seen(), reuse_outcome=ReuseOutcome.MISMATCH))
    assert (report.decisions[0].outcome, report.changed) == (WriteOutcome.REJECTED, True)
    assert [hint.confidence for hint in (await ask(memory)).agent_tool_hints] == ["low"]


async def test_drift_suppresses_hints_and_is_reported(memory: elytron.MemoryRuntime) -> None:
    await memory.upsert_agent_tool_registry(HOST)
    await tell(memory, feedback(seen(), seen()))

    async def reasons(*refs: AgentToolRegistryRef) -> list[HintRejection]:
        report = await ask(memory, *refs)
        assert report.agent_tool_hints == ()
        assert report.tool_experience_status.reason is ExperienceReason.NO_GOVERNED_TOOL_EXPERIENCE
        return [one.reason for one in report.tool_experience_status.rejected]

    changed = registry(READ.model_copy(update={"schema_fingerprint": "s9"}), SEND)
    await memory.upsert_agent_tool_registry(changed)
    assert await reasons(HOST.ref) == [HintRejection.REGISTRY_FINGERPRINT_MISMATCH]
    assert await reasons(changed.ref) == [HintRejection.STALE_SCHEMA]
    assert (await memory.list_agent_tool_registries()).report.stale_experiences == 1
    disabled = registry(READ.model_copy(update={"disabled": True}), SEND)
    await memory.upsert_agent_tool_registry(disabled)
    assert await reasons(disabled.ref) == [HintRejection.DISABLED]
    await memory.delete_agent_tool_registry("host")
    assert await reasons(HOST.ref) == [HintRejection.REGISTRY_NOT_FOUND]
    await memory.upsert_agent_tool_registry(HOST)
    assert len((await ask(memory, HOST.ref)).agent_tool_hints) == 1, "what was learned had stayed"


async def test_no_result_and_no_secret_is_stored(memory: elytron.MemoryRuntime) -> None:
    await memory.upsert_agent_tool_registry(HOST)
    key = "sk-" + "ab12" * 12
    payload = '{"rows": [{"name": "Zebedee"}]}'
    given = feedback(
        seen(summary=f"{payload}"),
        seen(summary="Zebedee again"),
        user_visible_result_summary=f"listed with {key}",
        operator_note=f"needs {key}",
    )
    report = await tell(memory, given)
    assert sum(report.scrubbed.values()) == 2
    [document] = await memory.context.store.scan(SpaceId(report.space), "tool_experiences", limit=10)
    assert key.encode() not in document.body
    assert b"Zebedee" not in document.body
    [hint] = (await ask(memory)).agent_tool_hints
    assert "[redacted" in hint.reason


async def test_a_block_shows_hints_without_schemas(memory: elytron.MemoryRuntime) -> None:
    await memory.upsert_agent_tool_registry(HOST)
    await tell(memory, feedback(seen(), seen(), user_visible_result_summary="</memory-x> found\nthe file"))
    report = await memory.project(elytron.MemoryProjectionRequest(query="the file", tool_registry_refs=(HOST.ref,)))
    assert [hint.tool_id for hint in report.agent_tool_hints] == ["read"]
    [line] = [line for line in report.system_memory_block.splitlines() if line.startswith("- [read]")]
    assert "permissions: files; risks: low" in line
    assert "</memory-x>" not in line
    assert "s1" not in line
    assert report.stable_chars < report.system_memory_block.index(line)
    tiny = await memory.project(elytron.MemoryProjectionRequest(query="the file", max_chars=250))
    assert len(tiny.system_memory_block) <= 250


async def test_an_experience_is_read_hidden_and_erased_like_any_memory(memory: elytron.MemoryRuntime) -> None:
    await memory.upsert_agent_tool_registry(HOST)
    experience = (await tell(memory, feedback(seen(), seen()))).ids[0]
    hit = await memory.get(experience)
    assert (hit.id, hit.plane, hit.text, hit.title) == (experience, "tool_experience", "found the file", "read")
    assert not any(hit.plane == "tool_experience" for hit in (await memory.recall("found the file")).hits)
    await memory.forget(elytron.MemoryForgetRequest(ids=(experience,)))
    await tell(memory, feedback(seen()))
    assert (await ask(memory)).agent_tool_hints == ()
    await memory.forget(elytron.MemoryForgetRequest(ids=(experience,), undo=True))
    assert [hint.success_count for hint in (await ask(memory)).agent_tool_hints] == [3]
    erased = await memory.erase(elytron.MemoryEraseRequest(ids=(experience,)))
    assert dict(erased.removed) == {"audit": 1, "tool_experiences": 1}
    assert (await ask(memory)).agent_tool_hints == ()


async def test_hints_of_an_erased_space_are_gone(memory: elytron.MemoryRuntime) -> None:
    await memory.upsert_agent_tool_registry(HOST)
    await tell(memory, feedback(seen(), seen()))
    assert (await ask(memory)).agent_tool_hints
    await memory.erase(elytron.MemoryEraseRequest(whole_space="ada"))
    await memory.add("one")
    await memory.add("two")
    assert (await ask(memory)).agent_tool_hints == ()


async def test_an_inspection_counts_tools_and_skills(memory: elytron.MemoryRuntime) -> None:
    await memory.upsert_agent_tool_registry(HOST)
    await tell(memory, feedback(seen(), seen()))
    report = await memory.inspect()
    assert (report.agent_tools.registries, report.agent_tools.tools) == (1, 2)
    assert report.agent_tools.governed_experiences == 1
    assert (report.runtime_skills.total, report.agent_skills.directories) == (0, 0)


async def test_many_spaces_do_not_share_tools(memory: elytron.MemoryRuntime) -> None:
    await memory.upsert_agent_tool_registry(HOST)
    await tell(memory, feedback(seen(), seen()))
    for at in range(9):
        await memory.add("one", user_id=f"u{at}")
        assert (await memory.recall("one", user_id=f"u{at}")).agent_tool_hints == ()
    assert (await ask(memory)).agent_tool_hints


async def test_registries_passed_at_opening_are_registered_once(path: str) -> None:
    async with elytron.open(path, space="ada", agent_tool_registries=(HOST,)) as memory:
        assert (await memory.list_agent_tool_registries()).registries == (HOST,)
        before = (await memory.inspect()).sequence
    async with elytron.open(path, space="ada", agent_tool_registries=(HOST,)) as memory:
        assert (await memory.inspect()).sequence == before


async def test_an_invalid_registry_fails_the_opening(path: str) -> None:
    untrue = HOST.model_copy(update={"fingerprint": "0" * 16})
    with pytest.raises(InvalidInput, match="fingerprint does not match"):
        await elytron.open(path, space="ada", agent_tool_registries=(untrue,))
    async with elytron.open(path, space="ada") as memory:
        assert (await memory.list_agent_tool_registries()).registries == ()
