"""Long messages are examined sentence by sentence: the answer is found among scattered words."""

from dataclasses import replace

import pytest

import elytron
from elytron_core.clock import FrozenClock
from elytron_core.ids import SeededIds
from elytron_core.policy.ranking import weights

pytestmark = pytest.mark.anyio

TIRED = "It was late when I got home, so I had some soup and went to bed without looking at anything else."
ANSWER = f"{TIRED} Nineteen riders joined the union by May. The week was grey and rather cold. {TIRED}"
APART = f"My riders like the app. {TIRED} Two pages are slow, so should I join them? The union is large. {TIRED}"
QUERY = "How many riders joined the union?"


def opened(url: str = "memory:") -> elytron.RuntimeOpening:
    return elytron.open(url, space="ada", clock=FrozenClock(step_ms=1), ids=SeededIds("closer"))


async def told(memory: elytron.MemoryRuntime, *texts: str) -> None:
    for text in texts:
        answer = {"role": "assistant", "content": f"Noted. {TIRED} {TIRED} {TIRED}"}
        await memory.add([{"role": "user", "content": text}, answer])


def set_aside(patch: pytest.MonkeyPatch) -> None:
    """Let no sentence be examined."""
    for name in ("STANDARD", "SEVERAL"):
        patch.setattr(weights, name, replace(getattr(weights, name), sentence=0.0))


async def test_the_answering_sentence_is_found_despite_scattered_words(monkeypatch: pytest.MonkeyPatch) -> None:
    async with opened() as memory:
        await told(memory, APART, ANSWER, "Thanks.")
        scores = {hit.text: hit.score for hit in (await memory.recall(QUERY)).hits}
        signals = {hit.text: hit.signals for hit in (await memory.recall(QUERY)).hits}
        set_aside(monkeypatch)
        before = {hit.text: hit.score for hit in (await memory.recall(QUERY)).hits}
        assert scores[APART] / scores[ANSWER] < before[APART] / before[ANSWER] - 0.1
        assert signals[ANSWER].get("sentence", 0.0) > signals[APART]["sentence"]


async def test_pages_continue_where_the_previous_one_ended() -> None:
    async with opened() as memory:
        await told(memory, *(f"{number}. {ANSWER if number % 3 else APART}" for number in range(30)))
        whole = [hit.id for hit in (await memory.recall(QUERY, limit=50)).hits]
        for limit in (3, 20, 40):
            assert [hit.id for hit in (await memory.recall(QUERY, limit=limit)).hits] == whole[:limit]


async def test_short_messages_and_those_of_others_are_unchanged(monkeypatch: pytest.MonkeyPatch) -> None:
    async with opened() as memory:
        await told(memory, "Nineteen riders joined the union.", ANSWER)
        closer = {hit.text: hit.signals for hit in (await memory.recall(QUERY)).hits}
        set_aside(monkeypatch)
        plain = {hit.text: hit.signals for hit in (await memory.recall(QUERY)).hits}
        changed = {text for text, signals in closer.items() if signals != plain[text]}
        assert changed == {ANSWER}
