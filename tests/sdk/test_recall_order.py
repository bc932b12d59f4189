"""Recall returns the same hits in the same order on every store, for any writes and queries."""

import asyncio
import math
import tempfile
from pathlib import Path

from hypothesis import example, given, settings
from hypothesis import strategies as st

import elytron
from elytron.recall.order import four_each
from elytron_core.clock import FrozenClock
from elytron_core.ids import SeededIds

WORDS = (
    "tea",
    "coffee",
    "harbour",
    "harbor",
    "dog",
    "pet",
    "ferry",
    "six",
    "6",
    "when",
    "now",
    "Mina",
    "茶",
    "2026-03-01",
    "?",
)
TEXTS = st.lists(st.sampled_from(WORDS), min_size=1, max_size=6).map(" ".join)
SAID = st.tuples(TEXTS, st.sampled_from(("Mina", "Tomas", "assistant")), st.sampled_from("ab"), st.integers(1, 28))

Answer = tuple[str, tuple[tuple[str, float], ...], str | None]


async def told(url: str, said: list[tuple[str, str, str, int]], asked: list[str]) -> list[Answer]:
    """Return the result of each question, page by page, on the store at `url`."""
    answers: list[Answer] = []
    async with elytron.open(url, space="s", clock=FrozenClock(step_ms=1), ids=SeededIds()) as memory:
        for text, speaker, conversation, day in said:
            await memory.add(text, speaker=speaker, conversation=conversation, at=f"2026-03-{day:02d}")
        for query in asked:
            cursor = None
            for _ in range(3):
                report = await memory.recall(query, limit=3, cursor=cursor)
                answers.append((report.outcome, tuple((hit.id, hit.score) for hit in report.hits), report.next_cursor))
                cursor = report.next_cursor
                if cursor is None:
                    break
    return answers


@settings(max_examples=5, deadline=None)
@given(said=st.lists(SAID, min_size=1, max_size=12), asked=st.lists(TEXTS, min_size=1, max_size=3))
def test_the_order_is_the_same_on_every_store(said: list[tuple[str, str, str, int]], asked: list[str]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        urls = ("memory:", f"file:{Path(folder) / 'f'}", str(Path(folder) / "m.db"))
        found = [asyncio.run(told(url, said, asked)) for url in urls]
    assert found[0] == found[1] == found[2]
    hits = [hit for answer in found[0] for hit in answer[1]]
    assert all(score >= 0 for _, score in hits)


@given(st.floats() | st.integers(-(10**6), 10**6).map(lambda units: units / 20_000))
@example(0.00005)
@example(0.12345)
@example(99_999.99995)
@example(-0.00001)
@example(math.inf)
def test_four_decimal_places_match_round(number: float) -> None:
    assert repr(four_each("ab", (number, 0.0))) == repr({"a": round(number, 4)} if number else {})
