"""Streams cut at every byte: as the border of a chunk, and as the death of the model server.

`python -m benchmarks.rigs.cuts` does the same over sockets, at every byte of every recorded stream.
"""

import asyncio
import random
from functools import cache
from itertools import accumulate
from typing import Any

import pytest
from tests.models.fake_server import EVENTS, LINES, Sent
from tests.models.streams import RECORDED, TEXTS, Recorded, chat, messages, ollama, responses
from tests.proxy.proxy_setup import KEY, PATHS, asked, proxying

from elytron_core.ports.chat import FailureReason, ModelEvent, ReplyFailed, ReplyFinished
from elytron_models import DIALECTS, parse_answer
from elytron_proxy.figures import ProxyFigure
from elytron_proxy.prompts import CHAT, MESSAGES, OLLAMA, RESPONSES, CallRefusal
from elytron_proxy.wire.relay import AnswerCopy, StreamRelay

pytestmark = pytest.mark.anyio
TEXT = "".join(TEXTS)
SHORT = {
    "chat": Recorded("chat", chat(("Hi é",)), b"[DONE]", ()),
    "responses": Recorded("responses", responses(("Hi é",)), b"}", ()),
    "messages": Recorded("messages", messages(("Hi é",)), b"}", ()),
    "ollama": Recorded("ollama", ollama(("Hi é",)), b'"eval_count": 5}', ()),
}
READERS = {"chat": CHAT, "responses": RESPONSES, "messages": MESSAGES, "ollama": OLLAMA}
REFUSAL = CallRefusal(502, "upstream_cut", "cut")
EACH = pytest.mark.parametrize("dialect", PATHS)


def sent(of: Recorded, *chunks: bytes, **how: Any) -> Sent:
    return Sent(tuple(chunks), media_type=LINES if of.dialect == "ollama" else EVENTS, **how)


def told(dialect: str, data: bytes) -> tuple[str, bool]:
    """Return the text of a stream as a client reads it, and whether it is complete."""
    events = parse_answer(DIALECTS[dialect].parser(""), (data,))
    text = "".join(event.text for event in events if event.kind == "text_delta")
    return text, isinstance(events[-1], ReplyFinished)


def relayed(dialect: str, *chunks: bytes, is_broken: bool = False) -> tuple[bytes, AnswerCopy]:
    """Return what a client gets of a stream in `chunks`, and what its copy reported."""
    relay = StreamRelay(READERS[dialect], (KEY,))
    passed = b"".join([relay.feed(chunk) for chunk in chunks])
    last = relay.end(REFUSAL, is_broken=is_broken)
    assert last is not None
    return passed + last, relay.answer


def frames_of(of: Recorded) -> list[bytes]:
    """Return the frames of a stream: its lines, or the text between blank lines."""
    end = b"\n" if of.dialect == "ollama" else b"\n\n"
    return [frame + end for frame in of.data.split(end)[:-1]]


def told_before(of: Recorded) -> list[list[ModelEvent]]:
    """Return, for each cut position, the complete events before it; one may lack its line ending."""
    found: list[list[ModelEvent]] = [[]]
    parser, events = DIALECTS[of.dialect].parser(""), list[ModelEvent]()
    for frame in frames_of(of):
        before, events = events, [*events, *parser.feed(frame)]
        body = len(frame.rstrip(b"\n"))
        found += [before if size < body else events for size in range(1, len(frame) + 1)]
    return found


@cache
def read(dialect: str, data: bytes) -> list[ModelEvent]:
    """Return what a client reads."""
    return parse_answer(DIALECTS[dialect].parser(""), (data,))


@pytest.mark.parametrize("name", RECORDED)
def test_chunk_boundaries_change_nothing(name: str) -> None:
    of = RECORDED[name]
    frames = frames_of(of)
    # Each frame is split after its first byte, then after its fourth, and so on.
    for size in range(1, max(map(len, frames)), 3):
        chunks = [piece for frame in frames for piece in (frame[:size], frame[size:]) if piece]
        got, answer = relayed(of.dialect, *chunks)
        assert (got, answer.text, answer.is_whole) == (of.data, TEXT, True)


@pytest.mark.parametrize("name", RECORDED)
def test_a_stream_byte_by_byte_is_the_same(name: str) -> None:
    of = RECORDED[name]
    got, answer = relayed(of.dialect, *(of.data[at : at + 1] for at in range(len(of.data))))
    assert (got, answer.text, answer.is_whole) == (of.data, TEXT, True)


@pytest.mark.parametrize("name", RECORDED)
def test_an_answer_is_complete_only_if_its_end_was_seen(name: str) -> None:
    of = RECORDED[name]
    before = told_before(of)
    borders = {border + near for border in accumulate(map(len, frames_of(of))) for near in (-2, -1, 0, 1)}
    ends = range(of.whole_at - 20, len(of.data) + 1)
    for cut in sorted({*range(0, len(of.data), 7), *borders, *ends} & {*range(len(of.data) + 1)}):
        # A server that dies and one that ends too early differ only after the end marker.
        for is_broken in (True, False) if of.is_whole(cut, is_clean=True) else (cut % 2 == 0,):
            got, answer = relayed(of.dialect, of.data[:cut], is_broken=is_broken)
            assert answer.is_whole == of.is_whole(cut, is_clean=not is_broken)
            if answer.is_whole:
                assert got == of.data[:cut]
                continue
            # An error of the dialect, preceded by exactly the complete events.
            events = read(of.dialect, got)
            assert isinstance(events[-1], ReplyFailed)
            assert events[-1].reason is not FailureReason.CUT
            assert events[:-1] == before[cut]


@EACH
async def test_a_truncated_answer_over_a_socket_leaves_nothing(dialect: str) -> None:
    of = SHORT[dialect]
    borders = list(accumulate(map(len, frames_of(of))))
    drawn = random.Random(dialect).sample(range(1, len(of.data)), 4)
    cuts = sorted({*borders[:-1], *drawn, of.whole_at - 1, of.whole_at})
    each = [(cut, dies) for cut in cuts for dies in (True, False)]
    async with proxying(*(sent(of, of.data[:cut], dies=dies) for cut, dies in each)) as proxied:
        for number, (cut, dies) in enumerate(each):
            before = proxied.app.figures[ProxyFigure.COMMITTED]
            answer = await proxied.post(PATHS[dialect], asked(dialect, f"Question {number}"))
            await proxied.app.idle()
            is_whole = of.is_whole(cut, is_clean=not dies)
            assert proxied.app.figures[ProxyFigure.COMMITTED] - before == is_whole
            assert told(dialect, answer.content)[1] == is_whole
        assert proxied.app.figures[ProxyFigure.CUT] == sum(
            not of.is_whole(cut, is_clean=not dies) for cut, dies in each
        )


@EACH
async def test_a_disconnecting_client_releases_the_server_and_leaves_nothing(dialect: str) -> None:
    of = SHORT[dialect]
    async with proxying(sent(of, of.data[: of.whole_at // 2], hangs=True)) as proxied:
        url = f"{proxied.url}{PATHS[dialect]}"
        async with proxied.client.stream("POST", url, json=asked(dialect, "Hello")) as answer:
            async for _ in answer.aiter_bytes():
                break
        while not proxied.app.figures[ProxyFigure.GONE]:
            await asyncio.sleep(0)
        assert await proxied.kept() == []


@EACH
async def test_a_client_disconnecting_at_the_end_marker_is_stored(dialect: str) -> None:
    of = SHORT[dialect]
    async with proxying(sent(of, of.data, hangs=True)) as proxied:
        url = f"{proxied.url}{PATHS[dialect]}"
        got = b""
        async with proxied.client.stream("POST", url, json=asked(dialect, "Hello")) as answer:
            async for chunk in answer.aiter_bytes():
                got += chunk
                if len(got) >= of.whole_at:
                    break
        assert told(dialect, got) == ("Hi é", True)
        assert await proxied.kept() == ["Hello", "Hi é"]


@EACH
async def test_an_answer_is_completed_for_a_disconnected_client_on_request(dialect: str) -> None:
    of = SHORT[dialect]
    middle = of.whole_at // 2
    async with proxying(sent(of, of.data[:middle], of.data[middle:], waits=True), finish=True) as proxied:
        url = f"{proxied.url}{PATHS[dialect]}"
        async with proxied.client.stream("POST", url, json=asked(dialect, "Hello")) as answer:
            async for _ in answer.aiter_bytes():
                break
        while not proxied.app.figures[ProxyFigure.GONE]:
            await asyncio.sleep(0)
        proxied.upstream.go_on.set()
        while not proxied.app.figures[ProxyFigure.COMMITTED]:
            await asyncio.sleep(0)
        assert await proxied.kept() == ["Hello", "Hi é"]
