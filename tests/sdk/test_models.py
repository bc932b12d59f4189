"""Language models that record their input: scripted ones, recorded ones."""

import pytest

from elytron.models import ModelCassette, RecordedModel, RecordingModel, ScriptedModel, call_key
from elytron_core.errors import ModelRefused, ModelUnavailable
from elytron_core.ports.models import LanguageModel, PromptMessage, PromptRole, TextCompletion

PROMPT = (PromptMessage(PromptRole.SYSTEM, "Be brief."), PromptMessage(PromptRole.USER, "Where is Lisbon?"))
SCHEMA = '{"type":"object","properties":{"a":{"type":"string"}},"required":["a"],"additionalProperties":false}'


@pytest.mark.anyio
async def test_a_scripted_model_returns_its_lines_and_then_fails() -> None:
    model = ScriptedModel(["one", TextCompletion("two", "x"), ModelUnavailable("off")])
    assert (await model.complete(PROMPT, max_tokens=1)).text == "one"
    assert (await model.complete(PROMPT, max_tokens=1)).model == "x"
    with pytest.raises(ModelUnavailable):
        await model.complete(PROMPT, max_tokens=1)
    with pytest.raises(ModelRefused, match="no answers left"):
        await model.complete(PROMPT, max_tokens=1)
    assert model.prompts[0] == PROMPT


@pytest.mark.anyio
async def test_a_recorded_call_gets_the_same_answer_and_another_none() -> None:
    live = ScriptedModel(lambda prompt: f"heard {len(prompt)}", name="m")
    recording = RecordingModel(live)
    first = await recording.complete(PROMPT, schema=SCHEMA, max_tokens=9)
    assert await recording.complete(PROMPT, schema=SCHEMA, max_tokens=9) == first
    assert len(live.prompts) == 1
    cassette = ModelCassette.from_bytes(recording.cassette.to_bytes())
    recorded: LanguageModel = RecordedModel(cassette)
    assert recorded.name == "m"
    assert await recorded.complete(PROMPT, schema=SCHEMA, max_tokens=9) == first
    with pytest.raises(ModelRefused, match="record it again"):
        await recorded.complete(PROMPT, max_tokens=9)


@pytest.mark.anyio
async def test_recording_again_records_only_new_calls_and_drops_unused_ones() -> None:
    old = RecordingModel(ScriptedModel(["a", "b"], name="m"))
    await old.complete(PROMPT, max_tokens=1)
    await old.complete(PROMPT[:1], max_tokens=1)
    live = ScriptedModel(["c"], name="m")
    new = RecordingModel(live, cassette=old.cassette)
    assert (await new.complete(PROMPT, max_tokens=1)).text == "a"
    assert (await new.complete(PROMPT[1:], max_tokens=1)).text == "c"
    assert {call.key for call in new.cassette.calls} == {call_key("m", PROMPT, None), call_key("m", PROMPT[1:], None)}
