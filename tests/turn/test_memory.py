"""Memory around a turn: late and failing memories, what is shown already, and turns that are stored once."""

import asyncio
from typing import Any

import pytest

from elytron.api import MemoryFace
from elytron_core.contracts.transcript import CanonicalTurnDelta, TurnDraft
from elytron_core.errors import Unreachable
from elytron_core.evidence import EvidenceRole
from elytron_core.planes.transcript import Message
from elytron_core.text import similarity
from elytron_turn.memory import NO_DEADLINE, TurnBudget, TurnDeadline, TurnMemory, TurnMessages, observed_tools

pytestmark = pytest.mark.anyio
BLOCK = TurnBudget(4_000)
VALUES = TurnBudget(4_000, memories=8)


async def test_a_block_that_is_late_is_an_error_that_says_so(memory: MemoryFace) -> None:
    async def hang(_request: object, /) -> Any:
        await asyncio.Event().wait()

    context = await TurnMemory(hang, memory.scope).before(TurnMessages(current="Hi."), TurnBudget(4_000, wait_s=1e-9))
    assert (context.outcome, context.block) == ("late", "")
    assert isinstance(context.failure, Unreachable)
    assert "did not answer within" in context.failure.message


@pytest.mark.parametrize("budget", [BLOCK, VALUES])
async def test_a_memory_that_fails_adds_nothing_and_says_why(memory: MemoryFace, budget: TurnBudget) -> None:
    turns = TurnMemory(memory.operate, memory.scope)
    await memory.close()
    context = await turns.before(TurnMessages(current="What is my boat called?"), budget)
    assert (context.outcome, context.block, context.recalled, context.facts) == ("failed", "", (), None)
    assert context.failure is not None


async def test_no_work_begins_behind_its_deadline() -> None:
    begun: list[str] = []

    async def work() -> str:
        begun.append("work")
        return "done"

    assert await NO_DEADLINE.bound(work) == "done"
    assert await TurnDeadline.after(60).bound(work) == "done"
    with pytest.raises(TimeoutError):
        await TurnDeadline.after(0).bound(work)
    assert begun == ["work"] * 2


async def test_what_the_model_is_shown_anyway_is_neither_recalled_nor_a_wish(memory: MemoryFace) -> None:
    wish, boat = "I am allergic to walnuts.", "My boat is called Marimba."
    added = await memory.add([wish, boat], conversation="earlier")
    turns = TurnMemory(memory.operate, memory.scope)
    fresh = await turns.before(TurnMessages(current="What is my boat called?"), VALUES)
    assert [each.text for each in fresh.wishes] == [wish]
    assert boat in [each.text for each in fresh.recalled]
    texts = frozenset(map(similarity.plain_text, (wish, boat)))
    for shown in (TurnMessages(current="boat", ids=frozenset(added.ids)), TurnMessages(current="boat", texts=texts)):
        context = await turns.before(shown, VALUES)
        assert (context.wishes, context.recalled) == ((), ())


async def test_a_turn_is_stored_once_whole_or_as_drafts(memory: MemoryFace) -> None:
    turns = TurnMemory(memory.operate, memory.scope)
    said = Message(role=EvidenceRole.USER, text="My boat is called Marimba.")
    delta = CanonicalTurnDelta(turn_id="t1", input_messages=(said,))
    assert [(await turns.after(delta)).changed for _ in range(2)] == [True, False]
    draft = TurnDraft(host_id="t2", messages=(said,))
    assert [(await turns.after((draft,))).changed for _ in range(2)] == [True, False]


def test_calls_of_tools_are_observed_once_each_and_only_by_names() -> None:
    calls = [("c1", "look"), ("c1", "look"), ("", "look"), ("c2", "a\nb"), ("c3", "read")]
    observed = observed_tools(calls, is_outside=True)
    assert [(each.observation_id, each.tool_name) for each in observed] == [("c1", "look"), ("c3", "read")]
    assert all(each.external_content for each in observed)
