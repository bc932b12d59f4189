"""A finished turn is committed once, in the same transcript that `write` uses."""

import pytest
from tests.sdk.told import talk
from tests.sdk.transcripts import SUPPORT, commit, delta, view

import elytron
from elytron_core.errors import Conflict, IdempotencyConflict, InvalidInput, TurnConflict
from elytron_core.evidence import EvidenceRole
from elytron_core.ids import SpaceId

pytestmark = pytest.mark.anyio


async def test_a_turn_is_committed_once(memory: elytron.MemoryRuntime) -> None:
    first = await commit(memory)
    assert (first.committed, first.changed, first.duplicated, first.sequence) == (True, True, False, 1)
    assert first.message_ids == (first.turn_id, f"{first.turn_id}#1")
    again = await commit(memory)
    assert (again.committed, again.changed, again.duplicated, again.turn_id) == (True, False, True, first.turn_id)
    with pytest.raises(TurnConflict):
        await commit(memory, text="I like coffee")


async def test_a_commit_and_a_write_store_the_same_turn(memory: elytron.MemoryRuntime) -> None:
    await commit(memory)
    scope = elytron.Scope(space=SpaceId("ada"), conversation="other")
    await talk(memory, (EvidenceRole.USER, "I like tea"), (EvidenceRole.ASSISTANT, "Noted."), host_id="t1", scope=scope)
    (one,), (other,) = (await view(memory)).slice.turns, (await view(memory, scope=scope)).slice.turns
    assert [message.text for message in one.messages] == [message.text for message in other.messages]
    assert (await memory.recall("tea")).outcome == "found"


async def test_delivery_determines_what_is_evidence(memory: elytron.MemoryRuntime) -> None:
    cancelled = await commit(memory, "t1", delivery="cancelled")
    assert (cancelled.committed, len(cancelled.message_ids)) == (True, 1)
    broken = await commit(memory, "t2", delivery="incomplete_stream")
    assert (broken.committed, broken.changed, broken.turn_id) == (False, False, None)
    assert broken.skipped_reason == "delivery incomplete_stream creates no evidence"


async def test_a_turn_gets_exactly_its_expected_sequence_or_conflicts(memory: elytron.MemoryRuntime) -> None:
    assert (await commit(memory, "t1", sequence=1)).sequence == 1
    with pytest.raises(Conflict):
        await commit(memory, "t2", sequence=5)
    assert (await commit(memory, "t2", sequence=2)).sequence == 2


async def test_a_repeat_under_an_idempotency_key_gets_the_first_answer(memory: elytron.MemoryRuntime) -> None:
    request = elytron.MemoryTranscriptCommitRequest(scope=SUPPORT, delta=delta(), idempotency_key="k")
    first = await memory.commit_transcript(request)
    again = await memory.commit_transcript(request)
    assert (again.turn_id, again.duplicated) == (first.turn_id, True)
    with pytest.raises(IdempotencyConflict):
        await memory.commit_transcript(request.model_copy(update={"delta": delta("t2")}))


async def test_a_dry_run_commits_nothing(memory: elytron.MemoryRuntime) -> None:
    request = elytron.MemoryTranscriptCommitRequest(scope=SUPPORT, delta=delta(), dry_run=True)
    report = await memory.commit_transcript(request)
    assert (report.dry_run, report.changed) == (True, False)
    assert not (await memory.inspect()).exists


async def test_secrets_are_redacted_in_everything_next_to_the_text(memory: elytron.MemoryRuntime) -> None:
    card = "4111 1111 1111 1111"
    ref = {"host_kind": "h", "business_ref_type": "t", "business_ref_id": "1", "label": card}
    report = await commit(
        memory,
        text=f"my card is {card}",
        tool_observations=({"observation_id": "o", "tool_name": "pay", "summary": card},),
        host_refs=(ref | {"visibility": "host_ui"}, {**ref, "label": None}),
        attributes=({"key": "host.a", "value": card}, {"key": "host.b", "value": 4}),
    )
    assert sum(report.scrubbed.values()) == 4
    assert card not in (await view(memory, "raw_owner_only")).model_dump_json()


async def test_attributes_belong_to_the_turn(memory: elytron.MemoryRuntime) -> None:
    for attributes in (
        ({"key": "host.a", "value": 1, "part": 7},),
        ({"key": "host.a", "value": "long", "max_value_bytes": 2},),
        ({"key": "host.a", "value": 1}, {"key": "host.a", "value": 2}),
    ):
        with pytest.raises(InvalidInput):
            await commit(memory, attributes=attributes)
    with pytest.raises(ValueError, match="attributes"):
        delta(attributes=({"key": "other.a", "value": 1},))


def test_empty_turns_and_answers_in_another_role_are_rejected() -> None:
    with pytest.raises(ValueError, match="neither input messages"):
        delta(input_messages=(), assistant_message=None)
    with pytest.raises(ValueError, match="another role"):
        delta(assistant_message={"text": "x", "role": "user"})


async def test_messages_with_private_authority_are_never_recalled_or_read(memory: elytron.MemoryRuntime) -> None:
    words = (
        {"text": "the garden dreams of tea", "authority": "private_garden_internal"},
        {"text": "the index of tea is slow", "authority": "operator_diagnostic"},
        {"text": "Ada asked for tea"},
    )
    report = await commit(memory, input_messages=words)
    assert [hit.text for hit in (await memory.recall("tea")).hits][:1] == ["Ada asked for tea"]
    block = (await memory.project(elytron.MemoryProjectionRequest(scope=SUPPORT, query="tea"))).system_memory_block
    assert "dreams" not in block
    assert "index" not in block
    with pytest.raises(elytron.ElytronError, match="no memory"):
        await memory.get(str(report.turn_id))
    (turn,) = (await memory.replay(elytron.MemoryReplayRequest(scope=SUPPORT))).turns
    assert [message.text for message in turn.messages] == ["", "", "Ada asked for tea", "Noted."]


async def test_each_participants_part_is_stored_separately(memory: elytron.MemoryRuntime) -> None:
    parts = {
        "speaker_id": "ada", "speaker_kind": "human", "subject_id": "s", "actor_subject_id": "a",
        "mounted_subject_id": "m", "agent_id": "g", "triggered_by": "cron",
    }  # fmt: skip
    await commit(memory, actor=parts, source={"provider": "p", "request_id": "r"})
    (audited,) = (await view(memory, "operator_audit")).slice.turns
    assert audited.actor.model_dump() == parts
    assert audited.messages[0].actor.speaker_id == "Ada"
    assert audited.source is not None
    (shown,) = (await view(memory)).slice.turns
    assert shown.actor.model_dump(exclude_none=True) == {"speaker_id": "ada", "speaker_kind": "human"}
    assert shown.source is None
