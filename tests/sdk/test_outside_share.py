"""Outside text does not displace what the user said, however much of it there is."""

from collections.abc import AsyncIterator

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.gateway.asking import AT, CHAT, said

import elytron
from elytron.recall import outside_share
from elytron_core.clock import FrozenClock, Instant
from elytron_core.contracts.recall import RecallHit, RecallPlane
from elytron_core.evidence import TrustLevel
from elytron_core.ids import SeededIds
from elytron_gateway.service import MemoryGateway
from elytron_gateway.wire import GatewayAddRequest, GatewaySearchRequest, UserRequest

pytestmark = pytest.mark.anyio

QUESTION = "what is Ada's favourite tea?"
SAID = "My favourite tea is genmaicha."


@pytest.fixture
async def memory() -> AsyncIterator[elytron.MemoryRuntime]:
    async with elytron.open(
        "memory:", space="ada", clock=FrozenClock(Instant(AT), step_ms=1), ids=SeededIds()
    ) as runtime:
        await runtime.add(SAID, speaker="Ada")
        await runtime.add("I moved to Porto last week.", speaker="Ada")
        yield runtime


async def told_by_tool(memory: elytron.MemoryRuntime, *texts: str) -> None:
    for text in texts:
        await memory.add([{"role": "tool", "content": text}])


def lines(count: int) -> list[str]:
    return [f"Result {number}: {QUESTION} Ada's favourite tea, page {number}." for number in range(count)]


@pytest.mark.parametrize("count", [8, 12, 60])
async def test_tool_lines_that_repeat_the_question_do_not_displace_the_users_words(
    memory: elytron.MemoryRuntime, count: int
) -> None:
    await told_by_tool(memory, *lines(count))
    hits = (await memory.recall(QUESTION)).hits
    assert [place for place, hit in enumerate(hits, 1) if hit.text == SAID] == [2]
    assert len(hits) == 8
    assert SAID in [hit.text for hit in (await memory.recall(QUESTION, limit=10)).hits]
    assert sorted((hit.score for hit in hits), reverse=True) == [hit.score for hit in hits]
    assert SAID in (await memory.project(QUESTION)).system_memory_block


async def test_text_from_outside_that_repeats_counts_once(memory: elytron.MemoryRuntime) -> None:
    await told_by_tool(memory, *[QUESTION] * 40)
    texts = [hit.text for hit in (await memory.recall(QUESTION)).hits]
    assert texts.count(QUESTION) == 1
    assert SAID in texts[:3]


async def test_repetitions_by_the_user_are_unaffected(memory: elytron.MemoryRuntime) -> None:
    await memory.add(SAID, speaker="Ada")
    assert [hit.text for hit in (await memory.recall(QUESTION, limit=2)).hits] == [SAID, SAID]


async def test_consecutive_pages_agree_with_one_list(memory: elytron.MemoryRuntime) -> None:
    await told_by_tool(memory, *lines(30))
    whole = (await memory.recall(QUESTION, limit=32)).hits
    page = await memory.recall(QUESTION, limit=5)
    paged = list(page.hits)
    while page.next_cursor is not None:
        page = await memory.recall(QUESTION, limit=5, cursor=page.next_cursor)
        paged += page.hits
    assert [hit.id for hit in paged[:32]] == [hit.id for hit in whole]
    assert len({hit.id for hit in paged}) == len(paged)


async def test_a_gateways_top_eight_includes_the_users_statements() -> None:
    async with elytron.open("memory:", space=None, clock=FrozenClock(Instant(AT)), ids=SeededIds()) as runtime:
        gateway = MemoryGateway(runtime)
        me = (await gateway.create_user(UserRequest(user_id="ada"))).model_dump()
        messages = [said(SAID), *(said(text, role="tool", tool_call_id="call") for text in lines(8))]
        await gateway.add(GatewayAddRequest.model_validate({**me, "session_id": CHAT, "messages": messages}))
        asked = GatewaySearchRequest.model_validate({**me, "query": QUESTION, "top_k": 8, "scope": ["all_user_memory"]})
        assert SAID in [result.text for result in (await gateway.search(asked)).results]


def hit_of(number: int, trust: TrustLevel) -> RecallHit:
    return RecallHit(
        id=f"{number}", plane=RecallPlane.TRANSCRIPT, text=f"text {number}", score=1 - number / 100, trust=trust
    )


@given(st.lists(st.sampled_from(TrustLevel), max_size=40), st.integers(0, 12))
def test_nothing_is_lost_and_every_prefix_respects_the_share(trusts: list[TrustLevel], others: int) -> None:
    hits = [hit_of(number, trust) for number, trust in enumerate(trusts)]
    own = [hit for hit in hits if hit.trust is not TrustLevel.OUTSIDE] + [
        hit_of(50 + number, TrustLevel.VOUCHED) for number in range(others)
    ]
    ordered = outside_share.share_hits(hits, own)
    assert {hit.id for hit in ordered} == {hit.id for hit in (*hits, *own)}
    assert len(ordered) == len({hit.id for hit in ordered})
    insiders = sum(hit.trust is not TrustLevel.OUTSIDE for hit in ordered)
    for place in range(1, len(ordered) + 1):
        inside = sum(hit.trust is not TrustLevel.OUTSIDE for hit in ordered[:place])
        assert inside >= min(insiders, place // outside_share.RUN)


@given(st.lists(st.sampled_from(TrustLevel), max_size=40), st.integers(0, 40))
def test_a_longer_list_starts_like_a_shorter_one(trusts: list[TrustLevel], cut: int) -> None:
    hits = [hit_of(number, trust) for number, trust in enumerate(trusts)]
    own = [hit for hit in hits if hit.trust is not TrustLevel.OUTSIDE]
    whole = [hit.id for hit in outside_share.share_hits(hits, own)]
    beginning = [hit.id for hit in outside_share.share_hits(hits[:cut], own)]
    assert beginning[:cut] == whole[: len(beginning[:cut])]
