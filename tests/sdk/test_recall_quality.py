"""Recall keeps its level on the made sets; the current figures are in docs/contributors/quality.md."""

import json
import statistics

import pytest
from benchmarks.quality import measure
from benchmarks.quality_long import long_chats
from benchmarks.quality_ordinary import ordinary, small
from benchmarks.quality_projected import measure as measure_blocks
from benchmarks.quality_sets import ELSEWHERE, NOTHING, made
from benchmarks.quality_systems import Shipped
from benchmarks.quality_times import LIFE, met, told
from benchmarks.quality_unseen import unseen

from elytron_core.clock import FrozenClock

pytestmark = pytest.mark.anyio


async def test_answers_are_found_in_every_style_of_conversation() -> None:
    measured = await measure(Shipped(), made())
    recall = [value for score in measured.kinds.values() for value in score.recall]
    ndcg = [value for score in measured.kinds.values() for value in score.ndcg]
    assert statistics.fmean(recall) >= 0.94
    assert statistics.fmean(ndcg) >= 0.83


async def test_a_block_contains_as_many_answers_as_the_first_hits_of_equal_size() -> None:
    kinds = await measure_blocks(long_chats()[:1], tokens=(1_000,))
    block, hits = (
        statistics.fmean(share for shares in kinds.values() for share in shares[name, 1_000])
        for name in ("block", "hits")
    )
    # The gate omits lines that are far behind the best.
    assert block >= max(hits - 0.03, 0.9)


async def test_messages_meant_by_a_time_are_found() -> None:
    life = json.loads(LIFE.read_text("utf-8"))
    memory = await told(life, FrozenClock())
    assert not any((await met(memory, life)).values())
    await memory.close()


async def test_the_persons_messages_are_found_among_long_answers() -> None:
    measured = await measure(Shipped(), long_chats()[:1])
    assert statistics.fmean(value for score in measured.kinds.values() for value in score.recall) >= 0.83
    assert statistics.fmean(measured.kinds["preference"].recall) == 1.0


async def test_standing_statements_are_found_in_unseen_conversations() -> None:
    measured = await measure(Shipped(), [chat for chat in unseen() if chat.name == "orchestra"])
    assert statistics.fmean(measured.kinds["instruction"].recall) == 1.0
    assert statistics.fmean(value for score in measured.kinds.values() for value in score.recall) >= 0.55


async def test_a_fact_in_a_small_space_is_found_by_a_paraphrase() -> None:
    measured = await measure(Shipped(), small("held"))
    assert statistics.fmean(measured.all("first")) >= 0.62
    assert statistics.fmean(measured.all("three")) >= 0.78
    assert statistics.fmean(measured.shown) == 1.0
    assert (measured.auroc(NOTHING) or 0.0) >= 0.2
    assert (measured.auroc(ELSEWHERE) or 0.0) >= 0.5


async def test_answers_are_found_in_ordinary_conversations() -> None:
    measured = await measure(Shipped(), ordinary("held"))
    assert statistics.fmean(measured.all("recall")) >= 0.53
    assert statistics.fmean(measured.kinds["paraphrase"].recall) >= 0.45
    assert statistics.fmean(measured.shown) == 1.0
    assert (measured.auroc(NOTHING) or 0.0) >= 0.14
    assert (measured.auroc(ELSEWHERE) or 0.0) >= 0.25
