"""Every operation that accepts text applies the same admission."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from tests.sdk.requests_in_full import variants
from tests.sdk.told import believe

import elytron
from elytron.registry import OPERATIONS, AnyOperation
from elytron_core.clock import FrozenClock
from elytron_core.errors import ElytronError, InvalidInput, LimitExceeded
from elytron_core.ids import SeededIds
from elytron_core.policy import continuity, tools
from elytron_core.policy.projection.builder import POLICY

pytestmark = pytest.mark.anyio

CANARY = "AKIAIOSFODNN7EXAMPLE"
SKILL = "runtime_skill__release"
OTHER_SKILL = "runtime_skill__cargo"
STEPS = "1. Run the tests.\n2. Tag the release.\n3. Push the tag."
FILES = ("import", "apply_erasures")
"""Operations whose only text is a path; another test covers the file's content."""
MUTATING = [operation for operation in OPERATIONS if operation.mutates and operation.name not in FILES]
MUTATING_NAMES = {operation.name for operation in MUTATING}
GIVEN: dict[str, object] = {
    "scope": None, "mode_input": None, "idempotency_key": None, "whole_space": None, "cursor": None, "undo": (),
    "min_sequence": 0,
    "dry_run": False, "period": "2026-08-01", "key": "host.note", "name": SKILL, "names": (SKILL,), "turn_id": "t1",
    "host_id": "h1", "descriptor_fingerprint": None, "schema_fingerprint": "0" * 16, "judgement": None,
    "observed_at": None, "at": None, "valid_from": None, "valid_to": None, "completed_at": None,
    "max_value_bytes": 400, "soul": None, "sequence": None,
    "origin": None, "token": None, "supersedes": None, "authority": "user_asserted",
    "subject_kind": "human_counterpart", "delivery": "delivered", "scope_id": None, "passes": ("skill_reuse",),
    "extraction": "off", "citations": (), "part": None, "role": "user", "assistant_message": None,
    "operation": "upsert", "edges": (), "ended_edges": (), "tool_registry_refs": (), "turn_ids": (), "state_at": 1,
    "summary_at": 1, "capsules_at": (1,), "procedure": None,
}  # fmt: skip


@pytest.fixture
async def memory(tmp_path: Path) -> AsyncIterator[elytron.MemoryRuntime]:
    path = str(tmp_path / "memory.db")
    async with elytron.open(path, space="ada", clock=FrozenClock(step_ms=1), ids=SeededIds()) as runtime:
        yield runtime


async def ids_of(memory: elytron.MemoryRuntime) -> dict[str, dict[str, object]]:
    """Return, by operation, existing content for it to change."""
    await memory.set_learning(elytron.LearningAction.RESUME, "harbour")
    await memory.set_learning(elytron.LearningAction.ALLOW, "boat")
    (fact,) = (await memory.add_fact("kiln", "It stands by the harbour")).ids
    (changed,) = (await memory.add_fact("oar", "It leans by the harbour")).ids
    (other,) = (await memory.add_fact("boat", "It lies in the harbour")).ids
    (message,) = (await memory.add("We spoke of the harbour")).ids
    skills = tuple(
        elytron.RuntimeSkillWrite(
            name=name, topic=name, title="Release", summary="harbour", content=f"{STEPS}\n4. {name}."
        )
        for name in (SKILL, OTHER_SKILL)
    )
    await memory.write(elytron.MemoryWriteRequest(write=elytron.ProcedureSource(writes=skills)))
    proposal = {"target": "long_term", "topic": "boat", "content": "blue"}
    draft = elytron.CandidateDraft.model_validate({"proposal": proposal, "authority": "user_asserted"})
    write = elytron.CandidatesWrite(candidates=(draft,))
    waiting = (await memory.write(elytron.MemoryWriteRequest(write=write))).ids
    return {
        "correct": {"id": fact},
        "change_fact": {"id": changed, "privacy": None, "reach": None, "at": None, "expected_version": None},
        "forget_facts": {"token": None, "dry_run": True},
        "forget": {"ids": (message, other)},
        "erase": {"ids": (message,), "origin": None},
        "resolve_candidate": {"id": waiting[0]},
        "put_record": {"expected_version": None, "ttl_s": None},
        "delete_record": {"expected_version": None},
        "delete_runtime_skill": {"name": OTHER_SKILL},
    }


async def sent(memory: elytron.MemoryRuntime, text: str) -> dict[str, int]:
    """Send `text` in every field of every request; return the number of accepted requests per operation."""
    there = await ids_of(memory)
    taken: dict[str, int] = {}
    for operation in MUTATING:
        for request in requests_of(operation, text, GIVEN | {"id": "ab"} | there.get(operation.name, {})):
            if operation.name == "close":
                continue
            try:
                await memory.operate(request)
            except ElytronError:
                continue
            taken[operation.name] = taken.get(operation.name, 0) + 1
    return taken


def requests_of(operation: AnyOperation, text: str, given: dict[str, object]) -> list[Any]:
    """Return requests with `text` in them, and correct fingerprints."""
    made: list[Any] = []
    for request in variants(operation.request, text, given):
        match request:
            case elytron.AgentToolRegistryUpsertRequest(snapshot=snapshot):
                true = snapshot.model_copy(update={"fingerprint": tools.registry_fingerprint(snapshot)})
                made.append(request.model_copy(update={"snapshot": true}))
            case elytron.ContinuityImportRequest(snapshot=snapshot):
                manifest = snapshot.manifest.model_copy(
                    update={"fingerprint": continuity.layers_fingerprint(snapshot.layers)}
                )
                true = snapshot.model_copy(update={"manifest": manifest})
                update = {"snapshot": true, "mode": elytron.SnapshotMode.FULL_RESTORE}
                made.append(request.model_copy(update=update))
            case _:
                made.append(request)
    return made


def stored(folder: Path) -> bytes:
    return b"".join(file.read_bytes() for file in sorted(folder.rglob("*")) if file.is_file())


async def test_no_operation_stores_a_credential_from_any_field(memory: elytron.MemoryRuntime, tmp_path: Path) -> None:
    taken = await sent(memory, f"the harbour key {CANARY}")
    assert MUTATING_NAMES - taken.keys() <= {"close", "retry_job", "cancel_job"}
    recalled = await memory.recall("harbour key", limit=50)
    assert recalled.hits
    assert CANARY not in recalled.model_dump_json() + (await memory.list()).model_dump_json()
    assert CANARY not in (await memory.project("harbour key")).system_memory_block
    await memory.close()
    assert b"harbour" in stored(tmp_path)
    assert CANARY.encode() not in stored(tmp_path)


async def test_no_operation_stores_text_shown_by_this_memory(memory: elytron.MemoryRuntime, tmp_path: Path) -> None:
    await memory.add("The red boat lies in the harbour")
    block = (await memory.project("red boat")).system_memory_block
    taken = await sent(memory, f"new words\n\n{block}")
    assert taken["write"] > len(("facts", "skills", "turns"))
    await sent(memory, block)
    await memory.close()
    assert b"new words" in stored(tmp_path)
    assert POLICY.encode() not in stored(tmp_path)


async def kiln(memory: elytron.MemoryRuntime) -> str:
    (fact,) = (await memory.add_fact("kiln", "It is in the yard")).ids
    return fact


async def test_a_correction_reports_redactions(memory: elytron.MemoryRuntime) -> None:
    report = await memory.correct(await kiln(memory), f"Its key is {CANARY}", reason=f"{CANARY} was asked for")
    assert report.scrubbed == {"aws_key": 2}
    assert [hit.text for hit in (await memory.recall("kiln")).hits] == ["Its key is [redacted:aws_key]"]
    assert CANARY not in (await memory.history(report.decisions[0].new_id or "")).model_dump_json()


async def test_a_correction_must_have_text(memory: elytron.MemoryRuntime) -> None:
    fact = await kiln(memory)
    block = (await memory.project("kiln")).system_memory_block
    for content in (" ", "\t\n", block):
        with pytest.raises(InvalidInput, match="content"):
            await memory.correct(fact, content)
    assert [hit.text for hit in (await memory.recall("kiln")).hits] == ["It is in the yard"]


async def test_a_correction_respects_the_profiles_length_limit() -> None:
    async with elytron.open("embedded:", space="ada", profile="esp-embedded-sdk") as memory:
        fact = await kiln(memory)
        with pytest.raises(LimitExceeded, match="characters per text"):
            await memory.correct(fact, "x" * 3_000)


async def test_a_correction_is_listed_when_its_evidence_is_erased(memory: elytron.MemoryRuntime) -> None:
    (said,) = (await memory.add("The kiln is in the yard")).ids
    (wrong,) = (await believe(memory, "kiln", "in the barn", citations=(said,))).ids
    corrected = (await memory.correct(wrong, "in the yard")).decisions[0].new_id
    request = elytron.MemoryTranscriptLifecycleRequest(transition=elytron.TranscriptLifecycleTransition.DELETE_RAW)
    report = await memory.request_transcript_lifecycle(request)
    assert [ref.store_key for ref in report.derived_memory_refs] == [corrected]


async def test_labels_cannot_consist_of_credentials_or_blocks(memory: elytron.MemoryRuntime) -> None:
    fence = "<memory-0123456789abcdef> hot </memory-0123456789abcdef>"
    report = await memory.add("The kiln is hot", speaker=CANARY, tags=[fence], metadata={CANARY: f"warm {fence}"})
    assert report.scrubbed == {"aws_key": 2, "recalled_memory": 2}
    (hit,) = (await memory.recall("kiln")).hits
    assert (hit.speaker, hit.tags, hit.metadata) == (
        "[redacted:aws_key]",
        ("[recalled memory]",),
        {"[redacted:aws_key]": "warm"},
    )
