"""What runs receive: stable bytes within an epoch, current blocks, recall, summaries."""

import asyncio
import itertools
import re
from collections.abc import Collection

import pytest
from tests.agent.chat_script import ScriptedChat, calls, failure, heard, replies, results, text, words
from tests.agent.places import EVERYWHERE, Place, journal_beside

from elytron.api import MemoryFace
from elytron_agent import (
    Agent,
    AgentSettings,
    BlockRepository,
    ContextGiven,
    RunEnded,
    RuntimeStrategy,
    StopReason,
    TurnsCompacted,
)
from elytron_agent.blocks.archive import search_conversations
from elytron_agent.blocks.view import AgentMemoryView
from elytron_agent.loop.run import LONG_REFUSALS
from elytron_core.clock import FrozenClock, instant
from elytron_core.contracts.continuity import SummaryDraft, SummaryWrite
from elytron_core.contracts.recall import RecallPlane
from elytron_core.contracts.transcript import MemoryWriteRequest
from elytron_core.errors import InvalidInput, ModelUnavailable, NotFound
from elytron_core.ports.chat import ChatRole, FailureReason, ModelRequest, ToolResult
from elytron_turn.memory import TurnBudget, TurnContext, TurnMemory, TurnMessages
from elytron_turn.sizes import bytes_of

pytestmark = pytest.mark.anyio

LONG = "The harbour of Lisbon has seven piers, and the fifth of them is where our boat lies in the winter. " * 12


def agent_of(memory: MemoryFace, model: ScriptedChat, **settings: object) -> Agent:
    made = AgentSettings.model_validate({"enabled": True, "recall_deadline_s": 30.0, **settings})
    return Agent(
        memory,
        model,
        settings=made,
        journal=journal_beside(memory),
        clock=FrozenClock(instant("2026-07-01T12:00:00Z"), step_ms=1),
    )


def head_of(request: ModelRequest) -> str:
    """Return the first two messages as text: the policy, and the stable part."""
    return "\0".join(message.model_dump_json() for message in request.messages[:2])


def summary_of(request: ModelRequest) -> str:
    return words(request, ChatRole.USER).partition("Summary of what was said before")[2]


async def given(agent: Agent, said: str) -> ContextGiven:
    return next(event for event in await heard(agent.run(said)) if isinstance(event, ContextGiven))


@EVERYWHERE
async def test_the_stable_part_keeps_its_bytes_until_a_compaction(memory: MemoryFace) -> None:
    model = ScriptedChat(text("Yes."))
    agent = agent_of(memory, model)
    first = await given(agent, "I moved to Lisbon.")
    await BlockRepository(memory).change("human", value="Called Ada.")
    await memory.add("Something else.", conversation="elsewhere")
    second = await given(agent, "Who am I?")
    assert head_of(model.asked[0]) == head_of(model.asked[1])
    assert first.stable_fingerprint == second.stable_fingerprint
    assert "The block `human` was changed" in words(model.last, ChatRole.USER)
    again = await given(agent_of(memory, model), "And from another process?")
    assert again.stable_fingerprint == first.stable_fingerprint
    await agent.compact()
    third = await given(agent, "And now?")
    assert (third.epoch, third.has_summary) == (1, True)
    assert third.stable_fingerprint != first.stable_fingerprint
    assert "The block `human` was changed" not in words(model.last, ChatRole.USER)
    assert "Called Ada." in words(model.last, ChatRole.USER)


async def test_old_turns_become_a_chained_summary_and_are_still_recalled(memory: MemoryFace) -> None:
    model = ScriptedChat(text("Noted."))
    agent = agent_of(memory, model, max_context_tokens=3_000)
    await agent.say("My cat is called Bento and sleeps in the boat.")
    compactions: list[TurnsCompacted] = []
    for number in range(12):
        events = await heard(agent.run(f"{number}: {LONG}"))
        compactions += [event for event in events if isinstance(event, TurnsCompacted)]
    assert len(compactions) >= 2
    assert all(event.tokens_after < event.tokens_before for event in compactions)
    assert [event.summary for event in compactions] == list(range(1, len(compactions) + 1))
    head = await agent.head()
    assert head.runs == 13
    assert head.window
    found = await search_conversations(memory, "what is the cat called?")
    assert "My cat is called Bento and sleeps in the boat." in [hit.text for hit in found]
    told = await given(agent, "What is the cat called?")
    assert "My cat is called Bento and sleeps in the boat." in [each.text for each in told.recalled]


async def test_the_notes_count_the_turns_that_a_compaction_of_this_turn_left(memory: MemoryFace) -> None:
    model = ScriptedChat(text("Noted."))
    agent = agent_of(memory, model, max_context_tokens=3_000)
    compacted: list[int] = []
    for number in range(9):
        events = await heard(agent.run(f"{number}: {LONG}"))
        said = words(model.last, ChatRole.USER)
        shown = len(re.findall(r"\]\n\d: The harbour", said)) - 1
        if any(isinstance(event, TurnsCompacted) for event in events):
            compacted.append(shown)
        assert (f"Stored: {number} earlier turns, {shown} of them shown." in said) == (number > 0)
        assert ("Earlier turns were summed up" in said) == bool(compacted)
    assert len(compacted) >= 2


async def test_a_models_summary_is_accepted_if_its_quotes_are_genuine(memory: MemoryFace) -> None:
    good = '{"overview":"Ada has a boat.","state":"","next_step":"","quotes":["boat is called Marimba"]}'
    bad = '{"overview":"Ada said \\"I have a car\\".","state":"","next_step":"","quotes":["a car"]}'
    sums = ScriptedChat(text(bad), text(good))
    agent = Agent(memory, ScriptedChat(text("Yes.")), summary_model=sums)
    for said in ("My boat is called Marimba.", "It is blue.", "It is old."):
        await agent.say(said)
    planned = await agent.preview_compaction()
    made = await agent.compact(planned)
    assert made is not None
    assert (made.text, made.is_extract, made.previous) == ("Ada has a boat.", False, 0)
    assert "it quotes something that was not said" in words(sums.last, ChatRole.USER)
    with pytest.raises(InvalidInput):
        await agent.compact(planned)


async def test_a_summary_is_an_extract_if_the_model_fails_and_can_be_undone(memory: MemoryFace) -> None:
    model = ScriptedChat(text("Yes."))
    agent = Agent(memory, model, summary_model=ScriptedChat(failure(FailureReason.REFUSED)))
    assert await agent.compact() is None
    with pytest.raises(NotFound):
        await agent.undo_compaction()
    for said in ("My boat is called Marimba.", "It is blue.", "It is old."):
        await agent.say(said)
    before = (await agent.head()).window
    made = await agent.compact()
    assert made is not None
    assert made.is_extract
    assert "My boat is called Marimba." in made.text
    second = await agent.compact()
    assert second is not None
    assert second.previous == made.number
    await agent.undo_compaction()
    await agent.undo_compaction()
    assert (await agent.head()).window == before
    await agent.say("Still there?")
    assert "My boat is called Marimba." in words(model.last, ChatRole.USER)
    assert not summary_of(model.last)


async def summaries_of(memory: MemoryFace) -> list[str]:
    return [hit.text for hit in await search_conversations(memory, "boat Marimba") if hit.plane is RecallPlane.SUMMARY]


@EVERYWHERE
async def test_undoing_a_summary_hides_it_and_restores_the_previous_one(memory: MemoryFace) -> None:
    sums = ScriptedChat(failure(FailureReason.REFUSED))
    agent = Agent(memory, ScriptedChat(text("Yes.")), summary_model=sums, journal=journal_beside(memory))
    for said in ("My boat is called Marimba.", "It is blue.", "It is old."):
        await agent.say(said)
    first, second = await agent.compact(), await agent.compact()
    assert first is not None
    assert second is not None
    assert await summaries_of(memory) == [second.text]
    await agent.undo_compaction()
    assert await summaries_of(memory) == [first.text]
    await agent.undo_compaction()
    assert await summaries_of(memory) == []
    assert not [hit for hit in (await memory.recall("boat Marimba")).hits if hit.plane is RecallPlane.SUMMARY]
    again = await agent.compact()
    assert again is not None
    assert await summaries_of(memory) == [again.text]


async def test_a_summary_by_others_survives_undoing_a_compaction(memory: MemoryFace) -> None:
    sums = ScriptedChat(failure(FailureReason.REFUSED))
    agent = Agent(memory, ScriptedChat(text("Yes.")), summary_model=sums)
    for said in ("My boat is called Marimba.", "It is blue.", "It is old."):
        await agent.say(said)
    await agent.compact()
    draft = SummaryDraft(text="Ada's boat Marimba was painted.", messages=40)
    assert memory.scope is not None
    scope = memory.scope.model_copy(update={"agent": agent.name, "conversation": agent.name})
    await memory.write(MemoryWriteRequest(scope=scope, write=SummaryWrite(summary=draft)))
    await agent.undo_compaction()
    assert await summaries_of(memory) == ["Ada's boat Marimba was painted."]


async def test_an_oversized_request_is_shortened_and_retried(memory: MemoryFace) -> None:
    model = ScriptedChat(*[text("Yes.")] * 9, failure(FailureReason.CONTEXT_TOO_LONG), text("Now it fits."))
    sums = ScriptedChat(failure(FailureReason.REFUSED))
    agent = Agent(memory, model, summary_model=sums)
    for number in range(9):
        await agent.say(f"{number}: {LONG}")
    events = await heard(agent.run("Ten."))
    (compacted,) = [event for event in events if isinstance(event, TurnsCompacted)]
    assert compacted.tokens_after < compacted.tokens_before
    assert isinstance(events[-1], RunEnded)
    assert events[-1].text == "Now it fits."
    refused, shorter = (bytes_of(request.messages, request.tools) for request in model.asked[-2:])
    assert shorter < refused


async def test_retries_of_oversized_requests_are_limited(
    memory: MemoryFace,
) -> None:
    model = ScriptedChat(*[text("Yes.")] * 9, failure(FailureReason.CONTEXT_TOO_LONG))
    settings = AgentSettings(enabled=True, max_context_tokens=20_000)
    sums = ScriptedChat(failure(FailureReason.REFUSED))
    agent = Agent(memory, model, summary_model=sums, settings=settings)
    for number in range(9):
        await agent.say(f"{number}: {LONG}")
    events = await heard(agent.run("Ten."))
    sizes = [bytes_of(request.messages, request.tools) for request in model.asked[9:]]
    assert all(later < earlier for earlier, later in itertools.pairwise(sizes))
    assert len(sizes) == 1 + LONG_REFUSALS
    compacted = [event for event in events if isinstance(event, TurnsCompacted)]
    assert all(event.tokens_after < event.tokens_before for event in compacted)
    assert isinstance(events[-1], RunEnded)
    assert events[-1].reason is StopReason.WINDOW
    assert "though the window is set to 20,000: set max_context_tokens lower" in events[-1].problem


def turn_of(memory: MemoryFace) -> TurnMemory:
    return TurnMemory(memory.operate, memory.scope, filters=AgentMemoryView.of(memory).filters)


async def context_of(turns: TurnMemory, words: str, wait_s: float, *, ids: Collection[str] = ()) -> TurnContext:
    messages = TurnMessages(current=words, ids=frozenset(ids))
    return await turns.before(messages, TurnBudget(0, memories=8, wait_s=wait_s))


@EVERYWHERE
async def test_late_or_failing_recall_does_not_delay_a_run(memory: MemoryFace, place: Place) -> None:
    await memory.add("Ada's boat is called Marimba.", conversation="elsewhere")
    turns = turn_of(memory)
    hurried = await context_of(turns, "What is the boat called?", 1e-9)
    # An in-process memory answers immediately.
    assert hurried.outcome == ("found" if place == "memory" else "late")
    await turns.close()
    off = await context_of(turns, "boat", 0)
    assert (off.recalled, off.outcome) == ((), "off")
    patient = await context_of(turns, "What is the boat called?", 30)
    assert patient.outcome == "found"
    again = await context_of(turns, "boat called", 30, ids=[patient.recalled[0].id])
    assert (again.recalled, again.outcome) == ((), "nothing")
    await memory.close()
    assert (await context_of(turns, "boat", 30)).outcome == "failed"


async def test_content_hidden_from_agents_is_not_recalled_for_a_turn(memory: MemoryFace) -> None:
    await memory.add("Ada's safe is behind the clock.", conversation="a", metadata={"private": True})
    await memory.add("Ada's safe has the code 1234.", conversation="b", metadata={"store": False})
    context = await context_of(turn_of(memory), "Where is Ada's safe?", 30)
    assert (context.recalled, context.outcome) == ((), "nothing")


async def test_the_welcome_is_shown_until_an_answer_and_guidance_until_the_person_is_known(
    memory: MemoryFace,
) -> None:
    model = ScriptedChat(failure(FailureReason.UNAUTHORIZED), text("Hello."))
    agent = agent_of(memory, model)
    assert len(await agent.welcome()) == 3
    assert (await agent.say("Hi?")).reason is StopReason.FAILED
    assert len(await agent_of(memory, model).welcome()) == 3
    await agent.say("Hi.")
    latest = await agent_of(memory, model).latest_turn()
    assert latest is not None
    assert latest.input == "Hi."
    assert "Hello." in latest.items[-1].model_dump_json()
    assert await agent.welcome() == ()
    assert "You do not know this person yet" in words(model.last, ChatRole.USER)
    await BlockRepository(memory).change("human", value="Called Ada.")
    await agent.say("I am Ada.")
    assert "You do not know this person yet" not in words(model.last, ChatRole.USER)
    assert await agent_of(memory, model).welcome() == ()


async def test_times_are_shown_in_the_persons_time_zone(memory: MemoryFace) -> None:
    wanted = calls(("set_preference", {"timezone": "Asia/Kathmandu", "locale": "ne-NP"}))
    model = ScriptedChat(wanted, text("Done."), text("Good evening."))
    agent = agent_of(memory, model)
    await agent.say("I live in Kathmandu.")
    assert "[Wed 2026-07-01 12:00]" in words(model.asked[0], ChatRole.USER)
    assert results(model.asked[1]) == ["Time zone Asia/Kathmandu, language ne-NP."]
    await agent.say("What time is it?")
    assert "Now: Wed 2026-07-01 17:45 (Asia/Kathmandu). Language of the user: ne-NP." in words(
        model.last, ChatRole.USER
    )
    with pytest.raises(InvalidInput):
        await agent.set_preferences(timezone="Mars/Olympus")
    assert (await agent.preferences()).timezone == "Asia/Kathmandu"


async def test_results_of_earlier_runs_are_clipped_but_stay_with_their_calls(memory: MemoryFace) -> None:
    model = ScriptedChat(calls(("conversation_search", {"query": "piers"})), text("Found."), text("Yes."))
    await memory.add(LONG * 3, conversation="elsewhere")
    agent = agent_of(memory, model)
    await agent.say("Look for the piers.")
    (whole,) = results(model.asked[1])
    await agent.say("And now?")
    (clipped,) = results(model.last)
    assert len(clipped) <= len(whole)
    assert len(clipped) <= 2_000
    assert [type(message).__name__ for message in model.last.messages].count(ToolResult.__name__) == 1
    assert replies(model.last)[-1] == "Found."


@EVERYWHERE
async def test_two_runs_of_one_agent_wait_for_each_other(memory: MemoryFace) -> None:
    agent = agent_of(memory, ScriptedChat(text("Yes.")))
    ends = await asyncio.gather(agent.say("One."), agent.say("Two."))
    assert [end.reason for end in ends] == [StopReason.ANSWERED] * 2
    assert len((await agent.head()).window) == 2


class CountingChat(ScriptedChat):
    """A scripted model that returns these token counts in turn, then None."""

    def __init__(self, *counts: int | Exception | None) -> None:
        super().__init__(text("Yes."))
        self.counts = list(counts)

    async def count(self, request: ModelRequest, /) -> int | None:
        found = self.counts.pop(0) if self.counts else None
        if isinstance(found, Exception):
            raise found
        return found


async def compactions(memory: MemoryFace, model: ScriptedChat) -> int:
    agent = agent_of(memory, model, max_context_tokens=4_000)
    happened = [event for _ in range(7) for event in await heard(agent.run(LONG))]
    return sum(isinstance(event, TurnsCompacted) for event in happened)


async def test_estimates_trigger_no_compaction_if_the_model_counts(memory: MemoryFace) -> None:
    model = CountingChat(1_900)
    assert await compactions(memory, model) == 0
    assert model.counts == []


@pytest.mark.parametrize("count", [None, ModelUnavailable("away"), TimeoutError()])
async def test_tokens_are_estimated_for_a_model_without_counts(memory: MemoryFace, count: Exception | None) -> None:
    assert await compactions(memory, CountingChat(count)) > 0


async def test_a_count_beyond_the_window_compacts(memory: MemoryFace) -> None:
    assert await compactions(memory, CountingChat(9_000)) > 0


async def test_evidence_of_any_turn_is_still_recalled_after_compactions(memory: MemoryFace) -> None:
    """`python -m benchmarks.agent_window` does the same with 500 turns and a window of 32,000 tokens."""
    agent = agent_of(memory, ScriptedChat(text(LONG)), max_context_tokens=4_000)
    boats = [f"Marimba{number * 7919}x" for number in range(48)]
    happened = [event for boat in boats for event in await heard(agent.run(f"The boat {boat} lies at a pier."))]
    assert sum(isinstance(event, TurnsCompacted) for event in happened) > 3
    for boat in boats:
        hits = (await memory.recall(f"Where lies {boat}?")).hits
        assert boat in next(hit.text for hit in hits if hit.plane is RecallPlane.TRANSCRIPT)


@pytest.mark.parametrize("case", ["whole", "no tools", "a strategy", "not stored", "no block"])
async def test_the_instruction_names_only_existing_tools_and_blocks(memory: MemoryFace, case: str) -> None:
    model = ScriptedChat(text("Hello."))
    settings = AgentSettings(enabled=True, uses_tools=case != "no tools")
    strategy = RuntimeStrategy(memory) if case == "a strategy" else None
    agent = Agent(memory, model, settings=settings, strategy=strategy, journal=journal_beside(memory))
    if case == "no block":
        await agent.say("Hi.")
        await BlockRepository(memory).delete("human")
    await heard(agent.run("Hi.", store=case != "not stored"))
    told = words(model.last, ChatRole.SYSTEM) + words(model.last, ChatRole.USER)
    offered = {tool.name for tool in model.last.tools}
    assert ("block `human`" in told) == (case == "whole")
    assert ("archival memory" in told) == ("archival_insert" in offered)
    assert ("Search memory" in told) == bool(offered & {"archival_search", "conversation_search"})
    assert ("tools" in told) == bool(offered)


async def test_a_wish_is_added_to_every_turn_that_does_not_show_its_message(memory: MemoryFace) -> None:
    await memory.add("I am allergic to walnuts.", conversation="elsewhere")
    model = ScriptedChat(*[text("No.")] * 3)
    agent = agent_of(memory, model)
    await agent.say("Walnut pesto tonight?")
    await agent.say("I want short answers from now on, always.")
    await agent.say("And for dessert?")
    first, _, last = (words(request, ChatRole.USER) for request in model.asked)
    assert "Lasting wishes and preferences, latest first:\n- [" in first
    assert "user] I am allergic to walnuts." in first
    assert "user] I am allergic to walnuts." in last
    assert last.count("I want short answers") == 1
