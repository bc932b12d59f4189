"""A model server that enforces its window accepts every context of a host's hooks, whichever part is large."""

import pytest
from tests.turn.windowed_chat import count_tokens

from elytron.api import MemoryFace
from elytron_agent import BeforeTurn, RequestPart, TurnHooks
from elytron_agent.hooks.facts import ExtractedFacts, TurnFact, extraction_request
from elytron_core.planes.facts import FactTier
from elytron_core.policy.extraction.model_facts import schema_of
from elytron_models.chat_messages import ItemPart, TurnItem

pytestmark = pytest.mark.anyio
WINDOW = 4_000
TIDES = "The tide table of the harbour has many lines, and it says when the water is high and when it is low. "


async def context_of(memory: MemoryFace, *messages: tuple[str, str], conversation: str = "now") -> tuple[str, set[str]]:
    """Return the texts of a host's context, and the truncated parts."""
    async with TurnHooks(memory) as hooks:
        before = BeforeTurn(
            turn_id="t",
            conversation=conversation,
            current_input=[{"role": role, "content": text} for role, text in messages],
            max_input_tokens=WINDOW,
        )
        report = await hooks.before_turn(before)
    return "\n".join(str(message["content"]) for message in report.messages), {cut.part for cut in report.cuts}


@pytest.mark.parametrize("part", [RequestPart.SYSTEM, RequestPart.CURRENT])
async def test_a_hosts_long_text_is_cut_to_the_window(memory: MemoryFace, part: RequestPart) -> None:
    long = {RequestPart.SYSTEM: 1, RequestPart.CURRENT: 1} | {part: 280}
    shown, cut = await context_of(
        memory,
        ("system", f"You are kind. {TIDES * long[RequestPart.SYSTEM]}"),
        ("user", f"What is my boat called? {TIDES * long[RequestPart.CURRENT]}"),
    )
    assert count_tokens(shown) <= WINDOW
    assert cut == {part}
    assert "You are kind." in shown
    assert "What is my boat called?" in shown
    assert "left out here" in shown


async def test_recalled_memory_and_a_long_history_fit_next_to_everything_else(memory: MemoryFace) -> None:
    for number in range(12):
        await memory.add(f"My boat is called Marimba{number}. {TIDES * 6}", conversation=f"c{number}")
    history = [("user" if number % 2 == 0 else "assistant", f"{number}: {TIDES * 12}") for number in range(20)]
    shown, _ = await context_of(
        memory, ("system", TIDES * 150), *history, ("user", f"What is my boat called? {TIDES * 150}")
    )
    assert count_tokens(shown) <= WINDOW
    assert "What is my boat called?" in shown


def test_a_fact_extraction_request_fits_the_models_window() -> None:
    known = [
        TurnFact(fact_id=f"f{number}", key="boat", value=TIDES * 8, tier=FactTier.L1, confidence=0.8)
        for number in range(32)
    ]
    item = TurnItem(role="user", content=(ItemPart(type="input_text", text=TIDES * 280),))
    request = extraction_request([item], known, max_tokens=800, context_tokens=WINDOW)
    assert count_tokens(f"{request.messages} {schema_of(ExtractedFacts)}") + 800 <= WINDOW
