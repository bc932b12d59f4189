"""`update(id, text)`: a fact is corrected; a message's edit stands in its place, and history keeps both."""

import pytest

import elytron
from elytron_core.errors import InvalidInput, NotFound

pytestmark = pytest.mark.anyio


async def texts(memory: elytron.MemoryRuntime) -> list[str]:
    return [item.text for item in await memory.list()]


async def test_an_edit_stands_in_the_place_of_its_message(memory: elytron.MemoryRuntime) -> None:
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


async def test_what_cannot_be_updated_is_refused_and_nothing_changes(memory: elytron.MemoryRuntime) -> None:
    (key,) = (await memory.add("tea")).ids
    with pytest.raises(NotFound):
        await memory.update("nothing", "coffee")
    with pytest.raises(NotFound):
        await memory.update(key, "coffee", user_id="bob")
    for blank in ("", " \u200b"):
        with pytest.raises(InvalidInput):
            await memory.update(key, blank)
    assert await texts(memory) == ["tea"]


async def test_an_edit_is_admitted_as_every_text_is(memory: elytron.MemoryRuntime) -> None:
    (key,) = (await memory.add("tea")).ids
    await memory.update(key, "the key is AKIAIOSFODNN7EXAMPLE")
    (shown,) = await texts(memory)
    assert "AKIAIOSFODNN7EXAMPLE" not in shown
