"""A model server that enforces its window accepts every request of an agent, whichever part is large."""

import json
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

import pytest
from tests.agent.chat_script import heard
from tests.turn.windowed_chat import WindowedChat, say

from elytron.api import MemoryFace
from elytron_agent import (
    Agent,
    AgentSettings,
    BlockRepository,
    CallKey,
    ContextGiven,
    PartCut,
    RequestPart,
    RunEnded,
    RunMemory,
    StepTaken,
    StopReason,
    Tool,
    ToolAnswer,
    TurnExchange,
    TurnsCompacted,
)
from elytron_agent.loop.run_input import TurnOpening
from elytron_core.clock import FrozenClock
from elytron_core.contracts.facts import FactDraft
from elytron_core.contracts.transcript import LongTermExtraction, MemoryWriteRequest
from elytron_core.planes.facts import FactAuthority
from elytron_core.ports.chat import FinishReason, ModelEvent, ModelRequest, ReplyFinished, ToolCall
from elytron_turn.context import reference_message

pytestmark = pytest.mark.anyio
WINDOW = 4_000
TIDES = "The tide table of the harbour has many lines, and it says when the water is high and when it is low. "
QUESTION = "What is my boat called?"


@dataclass
class Scene:
    """An agent whose request has one part that is far too large."""

    memory: MemoryFace
    model: WindowedChat
    settings: dict[str, object] = field(default_factory=dict[str, object])
    tools: list[Tool] = field(default_factory=list[Tool])
    strategy: "LongStrategy | None" = None
    question: str = QUESTION
    opening: TurnOpening = field(default_factory=TurnOpening)
    before: Callable[[Agent], Awaitable[object]] | None = None
    """Events in the thread before the question."""
    cut: bool = True
    """False if the part is reduced otherwise than by truncation."""

    def agent(self) -> Agent:
        values = {"enabled": True, "max_context_tokens": WINDOW, "recall_deadline_s": 30} | self.settings
        return Agent(
            self.memory,
            self.model,
            self.tools,
            settings=AgentSettings.model_validate(values),
            strategy=self.strategy,
            clock=FrozenClock(step_ms=1),
        )


class LongStrategy:
    """A strategy with far too much text before the history."""

    async def before_run(self, conversation: str, prompt: str, /) -> RunMemory:
        return RunMemory(standing=TIDES * 250)

    async def after_run(self, conversation: str, exchange: TurnExchange, /) -> None:
        return None

    async def close(self) -> None:
        return None


async def _nothing(_given: object, _key: CallKey, /) -> ToolAnswer:
    return ToolAnswer(text="Nothing.")


async def _page(_given: object, _key: CallKey, /) -> ToolAnswer:
    return ToolAnswer(text=TIDES * 390, is_outside=True)


def fetch(_request: ModelRequest) -> tuple[ModelEvent, ...]:
    return (ToolCall(id="c0", name="fetch", arguments="{}"), ReplyFinished(reason=FinishReason.TOOLS))


async def system(scene: Scene) -> None:
    scene.settings["system_prompt"] = TIDES * 250


async def current(scene: Scene) -> None:
    scene.question = f"{QUESTION} {TIDES * 280}"


async def tools(scene: Scene) -> None:
    scene.tools = [Tool(f"tool{n}", TIDES * 10, {"type": "object"}, _nothing) for n in range(60)]


async def steps(scene: Scene) -> None:
    scene.tools = [Tool("fetch", "Fetch a page.", {"type": "object"}, _page, read_only=True)]
    scene.model.answers = [fetch, fetch, say("Read.")]
    scene.cut = False


async def blocks(scene: Scene) -> None:
    shelf = BlockRepository(scene.memory)
    await shelf.create_missing()
    await shelf.change("human", value=TIDES * 190)


async def given(scene: Scene) -> None:
    scene.opening = TurnOpening(before=tuple(reference_message(f"{n}: {TIDES * 60}") for n in range(5)))


async def summary(scene: Scene) -> None:
    draft = {"overview": TIDES * 39, "state": TIDES * 39, "next_step": TIDES * 39, "quotes": ["tide table"]}
    scene.model.answers = [say("Yes.")] * 4 + [say(json.dumps(draft)), say("Yes.")]

    async def talk(agent: Agent) -> None:
        for number in range(4):
            await agent.say(f"{number}: {TIDES * 4}")
        await agent.compact()

    scene.before, scene.cut = talk, False


async def welcome(scene: Scene) -> None:
    async def greet(agent: Agent) -> None:
        assert await agent.welcome()

    scene.before, scene.cut = greet, False


async def reference(scene: Scene) -> None:
    for number in range(12):
        await scene.memory.add(f"My boat is called Marimba{number}. {TIDES * 12}", conversation=f"c{number}")

    async def change(agent: Agent) -> None:
        await agent.say("Hello.")
        await BlockRepository(scene.memory).change("human", value=TIDES * 190)

    scene.before = change


async def facts(scene: Scene) -> None:
    # Projected standing facts have their own limit, so the window is smaller here.
    scene.model.window, scene.settings["max_context_tokens"] = 2_500, 2_500
    drafts = tuple(
        FactDraft(topic=f"tide{n}", content=f"Tide {n} of the boat. {TIDES * 3}", authority=FactAuthority.USER_ASSERTED)
        for n in range(40)
    )
    await scene.memory.write(MemoryWriteRequest(scope=scene.memory.scope, write=LongTermExtraction(facts=drafts)))


async def standing(scene: Scene) -> None:
    scene.strategy = LongStrategy()


async def history(scene: Scene) -> None:
    async def talk(agent: Agent) -> None:
        for number in range(6):
            await agent.say(f"{number}: {TIDES * 20}")

    scene.before = talk
    scene.settings["compacts"] = False


SCENES = {
    RequestPart.SYSTEM: system,
    RequestPart.CURRENT: current,
    RequestPart.TOOLS: tools,
    RequestPart.STEPS: steps,
    RequestPart.BLOCKS: blocks,
    RequestPart.GIVEN: given,
    RequestPart.SUMMARY: summary,
    RequestPart.WELCOME: welcome,
    RequestPart.REFERENCE: reference,
    RequestPart.FACTS: facts,
    RequestPart.STANDING: standing,
    RequestPart.HISTORY: history,
}


@pytest.mark.parametrize("part", RequestPart)
async def test_no_part_of_a_request_makes_an_agent_unusable(memory: MemoryFace, part: RequestPart) -> None:
    scene = Scene(memory, WindowedChat(WINDOW))
    await SCENES[part](scene)
    agent = scene.agent()
    if scene.before is not None:
        await scene.before(agent)
    events = await heard(agent.run(scene.question, opening=scene.opening))
    assert scene.model.refused == []
    assert isinstance(events[-1], RunEnded)
    assert events[-1].reason is StopReason.ANSWERED
    assert QUESTION in scene.model.last_text
    cuts: list[PartCut] = [cut for event in events if isinstance(event, ContextGiven | StepTaken) for cut in event.cuts]
    assert (part in {cut.part for cut in cuts}) == scene.cut


async def test_a_model_that_fills_a_block_still_answers_afterwards(memory: MemoryFace) -> None:
    arguments = json.dumps({"label": "human", "content": TIDES * 100})

    def append(_request: ModelRequest) -> tuple[ModelEvent, ...]:
        call = ToolCall(id="c0", name="memory_append", arguments=arguments)
        return (call, ReplyFinished(reason=FinishReason.TOOLS))

    model = WindowedChat(WINDOW, append, say("Stored."), say("Marimba."))
    agent = Scene(memory, model).agent()
    await agent.say("Note the tides.")
    block = next(block for block in await BlockRepository(memory).list() if block.label == "human")
    assert len(block.value) > 10_000
    await agent.compact()
    end = await agent.say(QUESTION)
    assert (end.reason, end.text, model.refused) == (StopReason.ANSWERED, "Marimba.", [])


async def test_long_turns_are_summarized_by_requests_that_fit(memory: MemoryFace) -> None:
    model = WindowedChat(WINDOW, say(TIDES * 2))
    agent = Scene(memory, model).agent()
    events = [
        event for n in range(8) for event in await heard(agent.run(f"{n}: {TIDES * (280 if n % 3 == 2 else 12)}"))
    ]
    compacted = [event for event in events if isinstance(event, TurnsCompacted)]
    assert model.refused == []
    assert compacted
    assert all(event.tokens_after < event.tokens_before for event in compacted)
    assert sum("Sum up the conversation" in str(request.messages[0]) for request in model.asked) >= len(compacted)


async def test_implausible_token_counts_are_ignored(memory: MemoryFace) -> None:
    model = WindowedChat(WINDOW, say("Yes."), reported=50)
    agent = Scene(memory, model).agent()
    events = [event for number in range(24) for event in await heard(agent.run(f"{number}: {TIDES * 6}"))]
    assert model.refused == []
    assert any(isinstance(event, TurnsCompacted) for event in events)


async def test_a_window_set_too_large_is_corrected_by_refusals(memory: MemoryFace) -> None:
    model = WindowedChat(WINDOW, say("Yes."))
    agent = Scene(memory, model, settings={"max_context_tokens": 6_500}).agent()
    ends = [await agent.say(f"{number}: {TIDES * 10}") for number in range(16)]
    assert {end.reason for end in ends} == {StopReason.ANSWERED}
    # Once or twice, and not in each turn.
    assert len(model.refused) <= 2


async def test_an_image_request_fits_with_any_text(memory: MemoryFace) -> None:
    model = WindowedChat(WINDOW, say(TIDES * 100))
    agent = Scene(memory, model).agent()
    events = await heard(agent.run(f"{QUESTION} {TIDES * 200}", images=["https://a.example/1.png"] * 3))
    assert isinstance(events[-1], RunEnded)
    assert (events[-1].reason, model.refused) == (StopReason.ANSWERED, [])
    assert all(f"[image {number}: " in model.last_text for number in (1, 2, 3))


async def test_cuts_are_logged_without_content(memory: MemoryFace, caplog: pytest.LogCaptureFixture) -> None:
    scene = Scene(memory, WindowedChat(WINDOW))
    await blocks(scene)
    await scene.agent().say(QUESTION)
    assert "a request to the model was cut to fit its window: blocks from 19," in caplog.text
    assert "harbour" not in caplog.text
