"""Proposals: tested on a copy, and nothing is written before submission."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

import elytron as sdk
from elytron_core.clock import FrozenClock
from elytron_core.errors import PermissionRefused, ScopeMissing, UnreadableFile
from elytron_core.ids import SeededIds
from elytron_core.profiles import ProfileName
from elytron_replay.evolve import (
    EvolutionProposal,
    ProposalRejection,
    TrialTier,
    load_proposal,
    review_proposal,
    submit_proposal,
    try_out,
)

FULL = ProfileName.SERVER_DEV_FULL
STEPS = "1. Turn the heating off.\n2. Open the valve a quarter turn.\n3. Close it when water comes without air."


@pytest.fixture
async def memory() -> AsyncIterator[sdk.MemoryRuntime]:
    async with sdk.open("memory:", space="ada", clock=FrozenClock(step_ms=1), ids=SeededIds()) as runtime:
        yield runtime


async def evidence(memory: sdk.MemoryRuntime) -> str:
    return (await memory.add("The radiator was cold and bleeding it helped.")).ids[0]


def proposal(ref: str, where: ProfileName = FULL, **changes: object) -> EvolutionProposal:
    skill = {
        "kind": "procedural_memory", "name": "bleed_radiator", "topic": "heating", "title": "Bleed a radiator",
        "summary": "Get the air out of a cold radiator", "content": STEPS,
    }  # fmt: skip
    fields = {
        "id": "p1", "profile": where.value, "candidates": [skill], "evidence_refs": [ref], "rationale": "It worked.",
    }  # fmt: skip
    return EvolutionProposal.model_validate({**fields, **changes})


@pytest.mark.parametrize(
    ("profile", "tier"),
    [
        (ProfileName.ESP_SDK, None),
        (ProfileName.MACOS_SDK, TrialTier.PREVIEW),
        (ProfileName.LINUX_DEVICE, TrialTier.COMPACT),
        (ProfileName.SERVER_DEV_FULL, TrialTier.FULL),
    ],
)
def test_a_profile_determines_how_thoroughly_a_proposal_is_tested(profile: ProfileName, tier: TrialTier | None) -> None:
    found = review_proposal(proposal("aa.1", profile), profile)
    assert found.tier is tier
    assert found.rejections == (() if tier is not None else (ProposalRejection.NOT_ALLOWED_FOR_PROFILE,))


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"profile": "esp-embedded-sdk"}, ProposalRejection.PROFILE_MISMATCH),
        ({"id": " "}, ProposalRejection.EMPTY_ID),
        ({"evidence_refs": []}, ProposalRejection.EMPTY_EVIDENCE),
        ({"rationale": ""}, ProposalRejection.EMPTY_RATIONALE),
        ({"candidates": []}, ProposalRejection.EMPTY_CANDIDATES),
        ({"candidates": [{"kind": "governance_note", "topic": "x"}]}, ProposalRejection.CANDIDATE_INCOMPLETE),
        (
            {"candidates": [{"kind": "procedural_memory", "topic": "x", "content": "y"}]},
            ProposalRejection.CANDIDATE_INCOMPLETE,
        ),
    ],
)
@pytest.mark.anyio
async def test_an_unfit_proposal_is_rejected_with_a_reason_and_never_tested(
    memory: sdk.MemoryRuntime, changes: dict[str, object], reason: ProposalRejection
) -> None:
    report = await try_out(memory, proposal("aa.1", **changes), profile=FULL)  # type: ignore[arg-type]
    assert (report.review.rejections, report.decisions, report.ok) == ((reason,), (), False)


@pytest.mark.parametrize("profile", [ProfileName.MACOS_SDK, ProfileName.LINUX_DEVICE, FULL])
@pytest.mark.anyio
async def test_testing_a_proposal_writes_nothing(memory: sdk.MemoryRuntime, profile: ProfileName) -> None:
    ref = await evidence(memory)
    before = await memory.inspect(fingerprints=True)
    report = await try_out(memory, proposal(ref, profile), profile=profile)
    assert report.ok
    assert report.unchanged
    assert (await memory.inspect(fingerprints=True)).event_fingerprint == before.event_fingerprint
    assert report.found == (0 if profile is ProfileName.MACOS_SDK else 1)


@pytest.mark.anyio
async def test_a_submitted_proposal_is_written_once_through_admission(memory: sdk.MemoryRuntime) -> None:
    ref = await evidence(memory)
    _, written = await submit_proposal(memory, proposal(ref), profile=FULL)
    assert written is not None
    assert written.changed
    assert "runtime_skill__bleed_radiator" in [hit.id for hit in (await memory.recall("bleed a radiator")).hits]
    _, again = await submit_proposal(memory, proposal(ref), profile=FULL)
    assert again is not None
    assert again.duplicated


@pytest.mark.anyio
async def test_a_proposal_without_stored_evidence_is_not_submitted(memory: sdk.MemoryRuntime) -> None:
    await evidence(memory)
    report, written = await submit_proposal(memory, proposal(f"{'a' * 24}.000000000009"), profile=FULL)
    assert (written, report.ok) == (None, False)
    assert "skills" not in (await memory.inspect()).documents


@pytest.mark.anyio
async def test_a_governance_note_is_passed_to_the_operator(memory: sdk.MemoryRuntime) -> None:
    note = {"kind": "governance_note", "topic": "heating", "content": "Half of what is kept of radiators is doubled."}
    report, written = await submit_proposal(memory, proposal(await evidence(memory), candidates=[note]), profile=FULL)
    assert report.decisions[0].verdict == "handoff"
    assert written is not None
    assert "skills" not in (await memory.inspect()).documents


@pytest.mark.anyio
async def test_a_proposal_that_displaces_another_memory_is_reported_and_not_submitted(
    memory: sdk.MemoryRuntime,
) -> None:
    ref = await evidence(memory)
    await submit_proposal(memory, proposal(ref), profile=FULL)
    rival = {
        "kind": "procedural_memory", "name": "radiator_rival", "topic": "Bleed a radiator", "title": "Bleed a radiator",
        "summary": "Bleed a radiator: bleed a radiator with pride",
        "content": "1. Phone a plumber.\n2. Wait at home.\n3. Pay.",
    }  # fmt: skip
    report, written = await submit_proposal(memory, proposal(ref, id="p2", candidates=[rival]), profile=FULL)
    assert report.displaced == ("runtime_skill__bleed_radiator",)
    assert written is None


@pytest.mark.anyio
async def test_a_profile_without_submission_says_so(memory: sdk.MemoryRuntime) -> None:
    device = ProfileName.LINUX_DEVICE
    with pytest.raises(PermissionRefused, match="not submit them"):
        await submit_proposal(memory, proposal(await evidence(memory), device), profile=device)


@pytest.mark.anyio
async def test_a_proposal_needs_a_space() -> None:
    async with sdk.open("memory:", space=None) as memory:
        with pytest.raises(ScopeMissing):
            await try_out(memory, proposal("aa.1"), profile=FULL)


@pytest.mark.parametrize(
    ("content", "problem"), [(None, "does not exist"), (b"{", "cannot be parsed"), (b'{"x":1}', "x: ")]
)
def test_a_damaged_proposal_is_reported(tmp_path: Path, content: bytes | None, problem: str) -> None:
    if content is not None:
        (tmp_path / "p.json").write_bytes(content)
    with pytest.raises(UnreadableFile, match=problem):
        load_proposal(tmp_path / "p.json")
