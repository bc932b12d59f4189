"""`update` and `correct`: a fact is corrected; an edit replaces a message in views, and history has both."""

from pathlib import Path

import pytest

import elytron
from elytron_core import limits
from elytron_core.contracts.transcript import (
    MemoryTranscriptLifecycleRequest,
    MemoryWriteRequest,
    TranscriptLifecycleTransition,
    TranscriptWrite,
    TurnDraft,
)
from elytron_core.errors import InvalidInput, NotFound
from elytron_core.evidence import EvidenceAuthority, TrustLevel
from elytron_core.planes.transcript import Message
from elytron_core.scope import Scope

pytestmark = pytest.mark.anyio


async def texts(memory: elytron.MemoryRuntime) -> list[str]:
    return [item.text for item in await memory.list()]


async def test_an_edit_takes_the_place_of_its_message(memory: elytron.MemoryRuntime) -> None:
    said = {"role": "assistant", "content": "The key is under the oar.", "name": "Bo"}
    (key,) = (
        await memory.add([said], conversation="boat", at="2026-01-02", tags=["boat"], metadata={"place": "quay"})
    ).ids
    before = await memory.get(key)
    report = await memory.update(key, "The key hangs in the hall.")
    (decision,) = report.decisions
    (edit,) = await memory.list()
    assert (decision.id, decision.new_id, report.changed) == (key, edit.id, True)
    assert edit.metadata == {"place": "quay", "edit_of": key}
    kept = ("speaker", "role", "at", "conversation", "channel", "tags", "trust")
    assert {name: getattr(edit, name) for name in kept} == {name: getattr(before, name) for name in kept}
    assert edit.text == "The key hangs in the hall."
    assert [hit.text for hit in await memory.recall("oar")] != ["The key is under the oar."]
    *_, hidden = (await memory.history(key)).items
    assert edit.id in hidden.reason


async def test_a_message_is_edited_again_by_its_first_id_and_by_its_edits(memory: elytron.MemoryRuntime) -> None:
    (key,) = (await memory.add("tea")).ids
    await memory.update(key, "coffee")
    (second,) = (await memory.update(key, "cocoa")).decisions
    assert second.new_id is not None
    await memory.update(second.new_id, "water")
    assert await texts(memory) == ["water"]


async def test_a_fact_is_corrected(memory: elytron.MemoryRuntime) -> None:
    (fact,) = (await memory.add_fact("drink", "tea")).ids
    report = await memory.update(fact, "coffee")
    assert report.changed
    assert await texts(memory) == ["coffee"]
    assert [item.event.value for item in (await memory.history(fact)).items] == ["added", "corrected", "added"]


async def test_impossible_updates_are_refused_and_change_nothing(memory: elytron.MemoryRuntime) -> None:
    (key,) = (await memory.add("tea")).ids
    with pytest.raises(NotFound):
        await memory.update("nothing", "coffee")
    with pytest.raises(NotFound):
        await memory.update(key, "coffee", user_id="bob")
    for blank in ("", " \u200b"):
        with pytest.raises(InvalidInput):
            await memory.update(key, blank)
    assert await texts(memory) == ["tea"]


async def test_an_edit_passes_admission_like_every_text(memory: elytron.MemoryRuntime) -> None:
    (key,) = (await memory.add("tea")).ids
    await memory.update(key, "the key is AKIAIOSFODNN7EXAMPLE")
    (shown,) = await texts(memory)
    assert "AKIAIOSFODNN7EXAMPLE" not in shown


async def test_correct_edits_a_message_in_one_commit_and_lists_derived_facts(
    memory: elytron.MemoryRuntime,
) -> None:
    (key,) = (await memory.add("I live in Lisbon.")).ids
    await memory.maintain()
    (fact,) = (await memory.list_facts()).items
    before = (await memory.inspect()).sequence
    rehearsal = await memory.correct(elytron.MemoryCorrectRequest(id=key, content="I live in Porto.", dry_run=True))
    assert (rehearsal.changed, rehearsal.derived, rehearsal.decisions[0].new_id) == (False, (fact.id,), None)
    assert (await memory.inspect()).sequence == before
    report = await memory.correct(key, "I live in Porto.", reason="misheard")
    (decision,) = report.decisions
    assert (decision.outcome, decision.plane, report.derived) == ("changed", "transcript", (fact.id,))
    *_, hidden = (await memory.history(key)).items
    assert hidden.reason == f"edited: {decision.new_id} replaces it (misheard)"
    again = await memory.correct(key, "I live in Porto.")
    assert (again.changed, again.decisions[0].reason) == (False, "it already has that content")


async def test_an_edit_of_one_message_leaves_the_others_of_its_turn(memory: elytron.MemoryRuntime) -> None:
    messages = (Message(text="red tea"), Message(text="white tea"), Message(text="green tea"))
    write = TranscriptWrite(turns=(TurnDraft(messages=messages, external_content_used=True),))
    (stored,) = (await memory.write(MemoryWriteRequest(write=write))).decisions
    before = await memory.get(f"{stored.id}#1")
    (decision,) = (await memory.correct(f"{stored.id}#1", "black tea")).decisions
    assert await texts(memory) == ["red tea", "green tea", "black tea"]
    assert decision.new_id is not None
    assert (await memory.get(decision.new_id)).trust == before.trust


async def edited_twice(memory: elytron.MemoryRuntime) -> list[str]:
    """Store a message and edit it twice; return the ids of its versions."""
    (first,) = (await memory.add("The safe opens with vq4417x.", conversation="vault")).ids
    await memory.add("Good morning.", conversation="vault")
    names = [first]
    for text in ("The safe opens with vq5528x.", "The safe opens with vq6639x."):
        (decision,) = (await memory.correct(first, text)).decisions
        names.append(decision.new_id or "")
    return names


@pytest.mark.parametrize("url", ["memory:", "sqlite:{}/m.db"])
@pytest.mark.parametrize("place", range(3))
async def test_erasing_any_version_of_a_message_erases_all_of_them(url: str, place: int, tmp_path: Path) -> None:
    async with elytron.open(url.format(str(tmp_path).replace("/", "%2F")), space="ada") as memory:
        names = await edited_twice(memory)
        rehearsal = await memory.erase(elytron.MemoryEraseRequest(ids=(names[place],), dry_run=True))
        report = await memory.erase(names[place])
        for each in (rehearsal, report):
            assert {decision.id for decision in each.decisions} == {*names}
            assert each.removed["turns"] == 3
        assert await texts(memory) == ["Good morning."]
        for name in names:
            with pytest.raises(NotFound):
                await memory.get(name)
    stored = b"".join(path.read_bytes() for path in tmp_path.iterdir())
    assert not any(code in stored for code in (b"vq4417x", b"vq5528x", b"vq6639x"))


async def test_a_message_with_more_versions_than_a_batch_is_erased(memory: elytron.MemoryRuntime) -> None:
    (key,) = (await memory.add("tea")).ids
    await memory.update(key, "coffee")
    versions = [TurnDraft(messages=(Message(text="cocoa"),), metadata={"edit_of": key})] * limits.BATCH_CHANGES
    for start in range(0, len(versions), limits.TURNS_PER_COMMIT):
        write = TranscriptWrite(turns=tuple(versions[start : start + limits.TURNS_PER_COMMIT]))
        await memory.write(MemoryWriteRequest(write=write))
    report = await memory.erase(key)
    assert report.removed["turns"] == limits.BATCH_CHANGES + 2
    assert await texts(memory) == []


@pytest.mark.parametrize("place", range(3))
async def test_forgetting_any_version_of_a_message_hides_the_one_that_is_shown(
    memory: elytron.MemoryRuntime, place: int
) -> None:
    names = await edited_twice(memory)
    assert (await memory.forget(names[place])).changed
    assert await texts(memory) == ["Good morning."]
    assert (await memory.forget(names[place], undo=True)).changed
    assert await texts(memory) == ["Good morning.", "The safe opens with vq6639x."]


@pytest.mark.parametrize("place", range(3))
async def test_deleting_the_text_of_any_version_deletes_that_of_all(memory: elytron.MemoryRuntime, place: int) -> None:
    names = await edited_twice(memory)
    request = MemoryTranscriptLifecycleRequest(
        scope=Scope(space="ada", conversation="vault"),
        transition=TranscriptLifecycleTransition.DELETE_RAW,
        turn_ids=(names[place],),
    )
    assert (await memory.request_transcript_lifecycle(request)).affected_turns == 3
    for name in names:
        with pytest.raises(NotFound):
            await memory.get(name)


async def test_a_turn_that_claims_to_replace_a_message_is_not_a_version_of_it(memory: elytron.MemoryRuntime) -> None:
    (shown,) = (await memory.add("tea", conversation="cups")).ids
    (claim,) = (await memory.add("coffee", conversation="cups", metadata={"edit_of": shown})).ids
    await memory.erase(claim)
    assert await texts(memory) == ["tea"]


async def test_an_edit_does_not_inherit_a_programs_authority(memory: elytron.MemoryRuntime) -> None:
    message = Message(text="The boiler is off.", authority=EvidenceAuthority.RUNTIME_OBSERVATION)
    write = MemoryWriteRequest(write=TranscriptWrite(turns=(TurnDraft(messages=(message,)),)))
    (stored,) = (await memory.write(write)).ids
    assert (await memory.get(stored)).trust is not TrustLevel.OUTSIDE
    (decision,) = (await memory.correct(stored, "The boiler is on.")).decisions
    assert decision.new_id is not None
    assert (await memory.get(decision.new_id)).trust is TrustLevel.OUTSIDE


async def test_a_message_that_was_forgotten_is_not_edited(memory: elytron.MemoryRuntime) -> None:
    (key,) = (await memory.add("tea")).ids
    await memory.forget(key)
    for call in (memory.update, memory.correct):
        with pytest.raises(InvalidInput, match="forgotten"):
            await call(key, "coffee")
    assert await texts(memory) == []


async def test_the_text_of_a_fact_has_its_own_limit(memory: elytron.MemoryRuntime) -> None:
    (fact,) = (await memory.add_fact("drink", "tea")).ids
    (message,) = (await memory.add("tea")).ids
    long = "tea " * limits.FACT_CHARS
    with pytest.raises(InvalidInput, match="content"):
        await memory.correct(fact, long)
    assert (await memory.correct(message, long)).changed
