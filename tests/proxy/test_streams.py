"""Streams cut at every byte: as the border of a chunk, and as the death of the model server."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from tests.models.fake_server import EVENTS, LINES, Sent
from tests.models.streams import RECORDED, TEXTS, Recorded, chat, messages, ollama, responses
from tests.proxy.proxy_setup import KEY, PATHS, Proxied, asked, proxying

from elytron_core.ports.chat import Failed, FailureReason, Finished
from elytron_models import DIALECTS, parse
from elytron_proxy.dialects import CHAT, MESSAGES, OLLAMA, RESPONSES, Refusal
from elytron_proxy.figures import Figure
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
REFUSAL = Refusal(502, "upstream_cut", "cut")
EACH = pytest.mark.parametrize("dialect", PATHS)


def sent(of: Recorded, *chunks: bytes, **how: Any) -> Sent:
    return Sent(tuple(chunks), media_type=LINES if of.dialect == "ollama" else EVENTS, **how)


def told(dialect: str, data: bytes) -> tuple[str, bool]:
    """Return the text of a stream as a client reads it, and whether it is whole."""
    events = parse(DIALECTS[dialect].parser(""), (data,))
    text = "".join(event.text for event in events if event.kind == "text_delta")
    return text, isinstance(events[-1], Finished)


@asynccontextmanager
async def asking(*answers: Sent) -> AsyncGenerator[Proxied]:
    async with proxying(*answers) as proxied:
        yield proxied


def relayed(dialect: str, *chunks: bytes, is_broken: bool = False) -> tuple[bytes, AnswerCopy]:
    """Return what a client gets of a stream in `chunks`, and what its copy told."""
    relay = StreamRelay(READERS[dialect], (KEY,))
    passed = b"".join([relay.feed(chunk) for chunk in chunks])
    last = relay.end(REFUSAL, is_broken=is_broken)
    assert last is not None
    return passed + last, relay.answer


@pytest.mark.parametrize("name", RECORDED)
def test_a_chunks_border_anywhere_changes_nothing(name: str) -> None:
    of = RECORDED[name]
    for cut in range(1, len(of.data)):
        got, answer = relayed(of.dialect, of.data[:cut], of.data[cut:])
        assert (got, answer.text, answer.is_whole) == (of.data, TEXT, True)


@pytest.mark.parametrize("name", RECORDED)
def test_a_stream_byte_by_byte_is_the_same(name: str) -> None:
    of = RECORDED[name]
    got, answer = relayed(of.dialect, *(of.data[at : at + 1] for at in range(len(of.data))))
    assert (got, answer.text, answer.is_whole) == (of.data, TEXT, True)


@pytest.mark.parametrize("name", RECORDED)
@pytest.mark.parametrize("is_broken", [True, False], ids=["dies", "ends"])
def test_what_breaks_off_anywhere_is_whole_only_if_its_end_was_seen(name: str, is_broken: bool) -> None:
    of = RECORDED[name]
    for cut in range(len(of.data) + 1):
        got, answer = relayed(of.dialect, of.data[:cut], is_broken=is_broken)
        assert answer.is_whole == (cut >= of.whole_at)
        if answer.is_whole:
            assert got == of.data[:cut]
            continue
        # An error of the dialect, and before it exactly the events that came whole.
        events = parse(DIALECTS[of.dialect].parser(""), (got,))
        direct = parse(DIALECTS[of.dialect].parser(""), (of.data[:cut],))
        assert direct[-1] == Failed(reason=FailureReason.CUT)
        assert isinstance(events[-1], Failed)
        assert events[-1].reason is not FailureReason.CUT
        assert events[:-1] == direct[:-1]


@EACH
@pytest.mark.parametrize("dies", [True, False], ids=["dies", "ends"])
async def test_over_a_socket_too_what_breaks_off_leaves_nothing(dialect: str, dies: bool) -> None:
    of = SHORT[dialect]
    cuts = [*range(1, len(of.data), len(of.data) // 7), of.whole_at - 1, of.whole_at]
    async with asking(*(sent(of, of.data[:cut], dies=dies) for cut in cuts)) as proxied:
        for number, cut in enumerate(cuts):
            before = proxied.app.figures[Figure.COMMITTED]
            answer = await proxied.post(PATHS[dialect], asked(dialect, f"Question {number}"))
            await proxied.app.idle()
            assert proxied.app.figures[Figure.COMMITTED] - before == (cut >= of.whole_at)
            assert told(dialect, answer.content)[1] == (cut >= of.whole_at)
        assert proxied.app.figures[Figure.CUT] == sum(cut < of.whole_at for cut in cuts)


@EACH
async def test_a_client_that_leaves_lets_the_server_go_and_leaves_nothing(dialect: str) -> None:
    of = SHORT[dialect]
    async with asking(sent(of, of.data[: of.whole_at // 2], hangs=True)) as proxied:
        url = f"{proxied.url}{PATHS[dialect]}"
        async with proxied.client.stream("POST", url, json=asked(dialect, "Hello")) as answer:
            async for _ in answer.aiter_bytes():
                break
        while not proxied.app.figures[Figure.GONE]:
            await asyncio.sleep(0)
        assert await proxied.kept() == []


@EACH
async def test_a_client_that_leaves_at_the_end_marker_is_remembered(dialect: str) -> None:
    of = SHORT[dialect]
    async with asking(sent(of, of.data, hangs=True)) as proxied:
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
async def test_an_answer_is_finished_for_a_client_that_left_if_that_is_wanted(dialect: str) -> None:
    of = SHORT[dialect]
    middle = of.whole_at // 2
    async with proxying(sent(of, of.data[:middle], of.data[middle:], waits=True), finish=True) as proxied:
        url = f"{proxied.url}{PATHS[dialect]}"
        async with proxied.client.stream("POST", url, json=asked(dialect, "Hello")) as answer:
            async for _ in answer.aiter_bytes():
                break
        while not proxied.app.figures[Figure.GONE]:
            await asyncio.sleep(0)
        proxied.upstream.go_on.set()
        while not proxied.app.figures[Figure.COMMITTED]:
            await asyncio.sleep(0)
        assert await proxied.kept() == ["Hello", "Hi é"]
