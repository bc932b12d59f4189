"""Agent runs: steps, tools, endings, budgets, and what memory and the next run see."""

import pytest
from tests.agent.chat_script import ScriptedChat, calls, failure, heard, replies, results, text, words
from tests.agent.places import EVERYWHERE, journal_beside

from elytron.api import MemoryFace
from elytron_agent import (
    Agent,
    AgentSettings,
    AnswerDropped,
    CallKey,
    ContextGiven,
    RunBudget,
    RunEnded,
    RunStarted,
    StepTaken,
    StopReason,
    TextSaid,
    Tool,
    ToolAnswer,
    ToolAnswered,
    ToolCalled,
)
from elytron_core.clock import FrozenClock
from elytron_core.errors import InvalidInput, PermissionRefused
from elytron_core.ports.chat import ChatRole, FailureReason, InputMessage, TextPart

pytestmark = pytest.mark.anyio


def agent_of(memory: MemoryFace, model: ScriptedChat, *tools: Tool, **settings: object) -> Agent:
    made = AgentSettings.model_validate({"enabled": True, "recall_deadline_s": 30.0, **settings})
    return Agent(memory, model, tools, settings=made, journal=journal_beside(memory), clock=FrozenClock(step_ms=1))


def tool_of(name: str, answer: object = "sunny", **more: bool) -> tuple[Tool, list[CallKey]]:
    made: list[CallKey] = []

    async def act(given: object, key: CallKey, /) -> str | ToolAnswer:
        made.append(key)
        if isinstance(answer, Exception):
            raise answer
        assert isinstance(answer, str | ToolAnswer)
        return answer

    return Tool(name, f"Do {name}.", {"type": "object", "properties": {}}, act, **more), made


@EVERYWHERE
async def test_a_run_streams_calls_a_tool_and_ends_with_the_answer(memory: MemoryFace) -> None:
    weather, made = tool_of("weather")
    model = ScriptedChat(calls(("weather", {}), said="I look."), text("It is sunny."))
    agent = agent_of(memory, model, weather)
    events = await heard(agent.run("How is the weather in Porto?"))
    kinds = [type(event) for event in events]
    assert kinds == [
        RunStarted, ContextGiven, TextSaid, StepTaken, ToolCalled, ToolAnswered, TextSaid, StepTaken, RunEnded
    ]  # fmt: skip
    end = events[-1]
    assert isinstance(end, RunEnded)
    assert (end.reason, end.text) == (StopReason.ANSWERED, "I look.\n\nIt is sunny.")
    assert (end.usage.steps, end.usage.calls) == (2, 1)
    assert [key.step for key in made] == [1]
    assert made[0].run == end.run
    assert results(model.last) == ["sunny"]
    await agent.close()


async def test_a_run_becomes_memory_for_the_next_run(memory: MemoryFace) -> None:
    model = ScriptedChat(text("Noted."), text("You moved to Lisbon."))
    agent = agent_of(memory, model)
    end = await agent.say("We moved to Lisbon in May.")
    found = await memory.recall("where did we move?")
    assert end.turn in [hit.id for hit in found.hits]
    another = agent_of(memory, model)
    await another.say("Where do I live?")
    assert "We moved to Lisbon in May." in words(model.last, ChatRole.USER)
    assert replies(model.last) == ["Noted."]


async def test_done_ends_a_run_and_is_refused_next_to_other_calls(memory: MemoryFace) -> None:
    look, made = tool_of("look")
    model = ScriptedChat(calls(("look", {}), ("done", {})), calls(("done", {})))
    end = await agent_of(memory, model, look).say("Look around.")
    assert (end.reason, end.usage.steps, len(made)) == (StopReason.DONE, 2, 1)
    assert "Call it on its own" in results(model.asked[1])[1]


async def test_a_run_has_ten_steps_at_most(memory: MemoryFace) -> None:
    look, made = tool_of("look")
    end = await agent_of(memory, ScriptedChat(calls(("look", {}))), look).say("Look for ever.")
    assert (end.reason, end.usage.steps, len(made)) == (StopReason.STEPS, 10, 10)


async def test_tool_errors_are_reported_to_the_model_and_the_run_continues(memory: MemoryFace) -> None:
    broken, _ = tool_of("broken", ValueError("the disk is full"))
    model = ScriptedChat(calls(("broken", {}), ("nothing_like_it", {})), text("It failed."))
    events = await heard(agent_of(memory, model, broken).run("Try."))
    answered = [event for event in events if isinstance(event, ToolAnswered)]
    assert [event.is_error for event in answered] == [True, True]
    first, second = results(model.last)
    assert "ValueError: the disk is full" in first
    assert "There is no tool of this name" in second
    assert isinstance(events[-1], RunEnded)
    assert events[-1].reason is StopReason.ANSWERED


async def test_invalid_json_arguments_are_requested_once_more(memory: MemoryFace) -> None:
    look, made = tool_of("look")
    model = ScriptedChat(calls(("look", "no json at all")), calls(("look", "{'at': 'sea',}")), text("Seen."))
    end = await agent_of(memory, model, look).say("Look.")
    assert (end.reason, len(made)) == (StopReason.ANSWERED, 1)
    assert "not a JSON object" in results(model.asked[1])[0]


async def test_a_second_unreadable_reply_ends_the_run(memory: MemoryFace) -> None:
    look, made = tool_of("look")
    model = ScriptedChat(calls(("look", "no json at all")))
    end = await agent_of(memory, model, look).say("Look.")
    assert (end.reason, end.usage.steps, len(made)) == (StopReason.MALFORMED, 2, 0)


async def test_an_empty_reply_is_retried_once(memory: MemoryFace) -> None:
    model = ScriptedChat(text(""), text("Here I am."))
    end = await agent_of(memory, model).say("Are you there?")
    assert (end.reason, end.text) == (StopReason.ANSWERED, "Here I am.")
    assert "Your reply was empty" in words(model.last, ChatRole.USER)


async def test_a_truncated_answer_is_dropped_and_requested_again(memory: MemoryFace) -> None:
    model = ScriptedChat(failure(FailureReason.CUT, said="It is su"), text("It is sunny."))
    events = await heard(agent_of(memory, model).run("Weather?"))
    assert AnswerDropped(step=1, reason="cut") in events
    assert isinstance(events[-1], RunEnded)
    assert events[-1].text == "It is sunny."


async def test_an_unreachable_model_ends_the_run_and_the_question_is_stored(memory: MemoryFace) -> None:
    model = ScriptedChat(failure(FailureReason.UNAUTHORIZED), text("Yes."))
    agent = agent_of(memory, model)
    end = await agent.say("Do you know the harbour?")
    assert (end.reason, end.text) == (StopReason.FAILED, "")
    assert "did not accept the key" in end.problem
    await agent.say("And now?")
    assert "Do you know the harbour?" in words(model.last, ChatRole.USER)


async def test_a_rejected_request_is_retried_once_without_temperature_and_limit(memory: MemoryFace) -> None:
    model = ScriptedChat(failure(FailureReason.REFUSED), text("Yes."))
    agent = agent_of(memory, model)
    assert (await agent.say("There?")).text == "Yes."
    assert (model.asked[0].temperature, model.asked[0].max_tokens) == (0.7, 32_768)
    assert (model.asked[1].temperature, model.asked[1].max_tokens) == (None, None)
    await agent.say("Still?")
    assert model.last.temperature is None


@pytest.mark.parametrize(
    ("budget", "reason", "made"),
    [
        (RunBudget(calls=2), StopReason.CALLS, 2),
        (RunBudget(tokens=25), StopReason.TOKENS, 3),
        (RunBudget(steps=4), StopReason.STEPS, 4),
    ],
)
async def test_a_run_ends_at_its_budget(memory: MemoryFace, budget: RunBudget, reason: StopReason, made: int) -> None:
    look, keys = tool_of("look")
    spent = (*calls(("look", {}))[:-1], *text("", tokens=9)[1:2], calls(("look", {}))[-1])
    end = await agent_of(memory, ScriptedChat(spent), look, budget=budget).say("Look.")
    assert (end.reason, len(keys)) == (reason, made)


async def test_a_run_ends_at_its_time_limit(memory: MemoryFace) -> None:
    clock = FrozenClock(step_ms=1)

    async def act(given: object, key: CallKey, /) -> str:
        clock.advance(2_000)
        return "seen"

    look = Tool("look", "Look.", {"type": "object"}, act)
    settings = AgentSettings(enabled=True, budget=RunBudget(seconds=5), recall_deadline_s=30)
    agent = Agent(memory, ScriptedChat(calls(("look", {}))), (look,), settings=settings, clock=clock)
    end = await agent.say("Look.")
    assert (end.reason, end.usage.calls) == (StopReason.SECONDS, 3)


@EVERYWHERE
async def test_the_same_run_id_runs_once(memory: MemoryFace) -> None:
    model = ScriptedChat(text("One."), text("Two."))
    agent = agent_of(memory, model)
    first = await agent.say("Count.", run_id="run-1")
    assert await agent.say("Count.", run_id="run-1") == first
    assert len(model.asked) == 1


async def test_an_unstored_turn_becomes_no_memory(memory: MemoryFace) -> None:
    agent = agent_of(memory, ScriptedChat(text("I see.")))
    events = await heard(agent.run("My safe is behind the clock.", store=False))
    assert isinstance(events[-1], RunEnded)
    assert events[-1].turn is None
    assert not (await memory.recall("where is the safe?")).hits


async def test_the_users_message_comes_last_directly_after_recalled_text(memory: MemoryFace) -> None:
    await memory.add("Ada's boat is called Marimba.", speaker="Ada", conversation="elsewhere")
    model = ScriptedChat(text("Marimba."))
    events = await heard(agent_of(memory, model).run("What is Ada's boat called?"))
    *_, tail, current = model.last.messages
    assert isinstance(tail, InputMessage)
    assert isinstance(current, InputMessage)
    assert [part.text.split("\n")[-1] for part in current.parts if isinstance(part, TextPart)] == [
        "What is Ada's boat called?"
    ]
    told = "".join(part.text for part in tail.parts if isinstance(part, TextPart))
    assert "Marimba" in told
    given = next(event for event in events if isinstance(event, ContextGiven))
    assert given.recall == "found"
    assert [memory.text for memory in given.recalled] == ["Ada's boat is called Marimba."]


async def test_a_disabled_agent_and_an_empty_text_are_refused(memory: MemoryFace) -> None:
    with pytest.raises(PermissionRefused):
        await Agent(memory, ScriptedChat(text("No.")), settings=AgentSettings()).say("Hello")
    with pytest.raises(InvalidInput):
        await agent_of(memory, ScriptedChat(text("No."))).say("  ")


async def test_a_run_id_that_looks_like_a_credential_is_rejected(memory: MemoryFace) -> None:
    agent = Agent(memory, ScriptedChat(text("Hello.")))
    with pytest.raises(InvalidInput, match="run_id looks like a credential"):
        await agent.say("Hello", run_id="key-0123456789abcdef0123456789abcdef")
