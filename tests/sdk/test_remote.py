"""A memory on a server is a memory: the same calls, types, and errors; and it reports network problems."""

import asyncio
import json
import sys
from collections.abc import AsyncGenerator, AsyncIterator, Iterator
from contextlib import aclosing, asynccontextmanager
from typing import Any

import pytest
from tests.transports.cutting import line_to
from tests.transports.live import Live

import elytron
from elytron import (
    MemoryInspectionRequest,
    MemoryProjectionRequest,
    MemoryRecallRequest,
    MemoryReplayRequest,
    RemoteMemory,
)
from elytron.remote.memory import REMOTE_ATTEMPTS, RemoteConnecting
from elytron.remote.wire import addresses_of
from elytron_core import errors, limits
from elytron_core.contracts.events import EventGap, GapReason, JournalEvent
from elytron_core.contracts.memories import MemoryForgetRequest
from elytron_core.errors import (
    ElytronError,
    InvalidInput,
    NotFound,
    StoreClosed,
    Unauthorized,
    Unreachable,
    Unsupported,
)

pytestmark = pytest.mark.anyio

KEY = "ely_user_s3cret"


@pytest.fixture(scope="module")
def live() -> Iterator[Live]:
    with Live() as server:
        yield server


@pytest.fixture(params=["http", "ws"])
def url(live: Live, request: pytest.FixtureRequest) -> str:
    return live.url if request.param == "http" else live.ws_url


async def test_the_everyday_calls_match_those_of_a_runtime(url: str, live: Live) -> None:
    space = f"everyday over {url}"
    async with elytron.connect(url, space=space) as memory:
        assert memory.scope == elytron.Scope.model_validate({"space": space})
        written = await memory.add("We moved to Lisbon in May.", speaker="Ada", conversation="talk")
        found = await memory.recall("when did we move?")
        assert found == live.run(live.runtime.recall(MemoryRecallRequest(scope=memory.scope, query=found.query)))
        assert (await memory.get(written.ids[0])).speaker == "Ada"
        assert (await memory.delete(written.ids[0])).changed
        assert (await memory.get_all()).items == ()
        with pytest.raises(NotFound):
            await memory.get(written.ids[0])


def test_the_blocking_calls_match_those_of_a_runtime(url: str) -> None:
    with elytron.connect(url, space=f"blocking over {url}") as memory:
        memory.add(["one", "two"])
        assert len(memory.recall("one two").hits) == 2
    with pytest.raises(StoreClosed):
        memory.recall("one")
    other = elytron.connect(url).sync()
    assert other.scope is None
    other.close()


async def test_many_calls_share_one_client(url: str) -> None:
    async with elytron.connect(url, space=f"many over {url}") as memory:
        await asyncio.gather(*(memory.add(f"number {number}") for number in range(16)))
        reports = await asyncio.gather(*(memory.recall(f"number {number}", limit=1) for number in range(16)))
        assert [report.query for report in reports] == [f"number {number}" for number in range(16)]


async def test_a_key_makes_any_change_repeatable(url: str) -> None:
    async with elytron.connect(url, space=f"keys over {url}") as memory:
        written = [await memory.add("once", idempotency_key="k") for _ in range(2)]
        assert [report.duplicated for report in written] == [False, True]
        forget = MemoryForgetRequest(ids=written[0].ids)
        reports = [await memory.operate(forget, idempotency_key="f") for _ in range(2)]
        assert reports[0] == reports[1]
        with pytest.raises(errors.IdempotencyConflict):
            await memory.add("something else", idempotency_key="k")


async def test_the_servers_refusals_are_raised_as_runtime_errors(url: str) -> None:
    async with elytron.connect(url, space=f"refusals over {url}") as memory:
        with pytest.raises(InvalidInput) as refused:
            await memory.inspect(MemoryInspectionRequest(repair=True))
        assert refused.value.details()["field"] == "repair"
        with pytest.raises(errors.ScopeMissing):
            await memory.delete_all()


async def test_closing_only_releases_the_connection(url: str, live: Live) -> None:
    memory = await elytron.connect(url)
    await memory.recall("x")
    assert (await memory.close()).phase == "closed"
    await memory.close()
    with pytest.raises(StoreClosed):
        await memory.recall("x")
    with pytest.raises(StoreClosed):
        await anext(memory.events())
    assert live.run(live.runtime.list()).items is not None


class TestStreams:
    async def test_events_resume_from_any_position(self, url: str) -> None:
        async with elytron.connect(url, space=f"events over {url}") as memory:
            await memory.add(["one", "two"])
            seen = [event async for event in first(memory.events(after=0), 3)]
            assert [event.sequence for event in seen if isinstance(event, JournalEvent)] == [1, 2, 3]
            assert isinstance(seen[0], JournalEvent)
            again = [event async for event in first(memory.events(after=seen[0].id), 2)]
            assert again == seen[1:]

    async def test_an_erased_space_is_a_gap(self, url: str) -> None:
        async with elytron.connect(url, space=f"gaps over {url}") as memory:
            await memory.add(["one", "two"])
            (*_, last) = [event async for event in first(memory.events(after=0), 3)]
            await memory.delete_all(user_id=f"gaps over {url}")
            await memory.add("anew")
            assert isinstance(last, JournalEvent)
            gap, event = [item async for item in first(memory.events(after=last.id), 2)]
            assert isinstance(gap, EventGap)
            assert isinstance(event, JournalEvent)
            assert (gap.reason, event.sequence) == (GapReason.ERASED, 1)

    async def test_a_foreign_space_is_refused_immediately(self, url: str) -> None:
        async with elytron.connect(url) as memory:
            with pytest.raises(errors.PermissionRefused):
                await anext(memory.events(scope=elytron.Scope.model_validate({"space": "elytron:system"})))

    async def test_reports_are_updated_over_a_websocket(self, live: Live) -> None:
        async with elytron.connect(live.ws_url, space="watched") as memory:
            projection = MemoryProjectionRequest(query="tea")
            blocks = memory.watch(projection)
            assert "tea" not in (await anext(blocks)).system_memory_block
            await memory.add("Ada likes tea.")
            assert "Ada likes tea." in (await anext(blocks)).system_memory_block
            inspected = await anext(memory.watch(MemoryInspectionRequest()))
            assert inspected.sequence == 2
            replayed = await anext(memory.watch(MemoryReplayRequest()))
            assert len(replayed.turns) == 1

    @pytest.mark.parametrize("scheme", ["http", "ws"])
    async def test_commits_during_a_disconnect_arrive_even_before_the_first_event(
        self, live: Live, scheme: str
    ) -> None:
        space = f"cut over {scheme}"
        async with (
            line_to(live.port) as line,
            elytron.connect(f"{scheme}://127.0.0.1:{line.port}", space=space) as memory,
        ):
            await memory.add("before")
            items = memory.events()
            coming = asyncio.ensure_future(anext(items))
            await line.heard(b'"subscribed"' if scheme == "ws" else b"retry: ")
            line.cut()
            await asyncio.to_thread(live.run, live.runtime.add("while it is cut", user_id=space))
            line.mend()
            event = await asyncio.wait_for(coming, 30)
            assert isinstance(event, JournalEvent)
            assert event.sequence == 3
            await items.aclose()

    async def test_a_watch_resumes_after_a_disconnect(self, live: Live) -> None:
        async with (
            line_to(live.port) as line,
            elytron.connect(f"ws://127.0.0.1:{line.port}", space="watched behind a cut") as memory,
        ):
            await memory.add("Ada likes tea.")
            blocks = memory.watch(MemoryProjectionRequest(query="coffee or tea"))
            turns = memory.watch(MemoryReplayRequest())
            assert "tea." in (await anext(blocks)).system_memory_block
            assert [turn.messages[0].text for turn in (await anext(turns)).turns] == ["Ada likes tea."]
            line.cut()
            await asyncio.to_thread(live.run, live.runtime.add("Bo likes coffee.", user_id="watched behind a cut"))
            line.mend()
            assert "coffee." in (await asyncio.wait_for(anext(blocks), 30)).system_memory_block
            said = (await asyncio.wait_for(anext(turns), 30)).turns
            assert [turn.messages[0].text for turn in said] == ["Bo likes coffee."]
            await memory.close()
            with pytest.raises(StoreClosed):
                await anext(blocks)

    async def test_reports_that_cannot_be_streamed_say_so(self, url: str) -> None:
        async with elytron.connect(url) as memory:
            with pytest.raises(Unsupported):
                await anext(memory.watch(MemoryRecallRequest(query="tea")))


async def first(items: AsyncGenerator[Any], count: int) -> AsyncIterator[Any]:
    """Yield the first `count` items and end the stream."""
    async with asyncio.timeout(100), aclosing(items):
        for _ in range(count):
            yield await anext(items)


class TestAddresses:
    @pytest.mark.parametrize(
        "wrong",
        [
            "localhost:8010",
            "ftp://localhost",
            "http://",
            "http://ada:s3cret@localhost",
            "http://localhost?key=s3cret",
            "http://localhost#s3cret",
            "http://localhost:s3cret",
            "http://[s3cret",
        ],
    )
    def test_invalid_server_addresses_are_rejected_without_echo(self, wrong: str) -> None:
        with pytest.raises(InvalidInput) as refused:
            elytron.connect(wrong)
        assert "s3cret" not in str(refused.value)

    @pytest.mark.parametrize("key", ["", "s3cret key", "s3cret\r\nX-Evil: 1", "s3cret\u00e9"])
    def test_invalid_keys_are_rejected_without_echo(self, key: str) -> None:
        with pytest.raises(InvalidInput) as refused:
            elytron.connect("http://localhost", api_key=key)
        assert "s3cret" not in str(refused.value)

    def test_the_key_is_not_shown(self) -> None:
        assert "s3cret" not in repr(addresses_of("https://memory.example/base/", api_key=KEY))
        (address,) = addresses_of("https://memory.example/base/", api_key=KEY)
        assert address.url == "https://memory.example/base"

    @pytest.mark.parametrize(("url", "module"), [("http://x", "httpx"), ("ws://x", "websockets.asyncio.client")])
    async def test_without_the_extra_one_line_of_output_names_it(
        self, url: str, module: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setitem(sys.modules, module, None)
        with pytest.raises(errors.MissingExtra, match=r"pip install '\.\[client\]'"):
            await elytron.connect(url)


@asynccontextmanager
async def scripted(answers: list[bytes]) -> AsyncGenerator[tuple[int, list[bytes]]]:
    """Serve each connection the next answer and close it; yield the port and the requests."""
    asked: list[bytes] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        asked.append(await reader.readuntil(b"\r\n\r\n"))
        writer.write(answers.pop(0) if answers else b"")
        writer.close()
        await writer.wait_closed()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    async with server:
        yield server.sockets[0].getsockname()[1], asked


def http(status: str, body: bytes, *headers: str) -> bytes:
    head = [f"HTTP/1.1 {status}", f"Content-Length: {len(body)}", "Connection: close", *headers, "", ""]
    return "\r\n".join(head).encode() + body


def problem(code: str, detail: str) -> bytes:
    return json.dumps({"code": code, "detail": detail, "details": {"retry_after_s": 1}, "more": [1]}).encode()


REPORT = b'{"space": "ada", "query": "x", "outcome": "nothing", "reason": "empty_space"}'


@asynccontextmanager
async def patient(port: int, *, scheme: str = "http") -> AsyncGenerator[tuple[RemoteMemory, list[float]]]:
    """Yield a client of `port` that records its pauses without waiting."""
    slept: list[float] = []

    class Impatient(RemoteConnecting):
        async def _open(self) -> RemoteMemory:
            async def sleep(seconds: float) -> None:
                slept.append(seconds)

            return RemoteMemory(self._transport(), scope=None, sleep=sleep)

    address = addresses_of(f"{scheme}://127.0.0.1:{port}", api_key=KEY)
    async with Impatient(address, scope=None, timeout_s=100.0) as memory:
        yield memory, slept


class TestNetworks:
    async def test_reads_are_retried_and_writes_without_a_key_are_not(self) -> None:
        async with scripted([b"", http("503 Busy", b"<html>"), http("200 OK", REPORT), b"", b""]) as (port, asked):
            async with patient(port) as (memory, slept):
                assert (await memory.recall("x")).reason == "empty_space"
                assert (len(asked), len(slept)) == (3, 2)
                with pytest.raises(Unreachable):
                    await memory.add("once")
                assert len(asked) == 4
            assert b"POST /v1/recall" in asked[0]
            assert f"Bearer {KEY}".encode() in asked[0]

    async def test_a_servers_retry_delay_is_respected(self) -> None:
        limited = http("429 Slow", problem("rate_limited", "slow down"), "Retry-After: 3")
        async with scripted([limited, http("200 OK", REPORT)]) as (port, _), patient(port) as (memory, slept):
            await memory.recall("x")
            assert slept == [3.0]

    @pytest.mark.parametrize("scheme", ["http", "ws"])
    async def test_a_missing_server_is_unreachable_after_several_attempts(self, scheme: str) -> None:
        async with scripted([]) as (port, _):
            pass
        async with patient(port, scheme=scheme) as (memory, slept):
            with pytest.raises(Unreachable) as gone:
                await memory.recall("x")
            assert gone.value.retryable
            assert KEY not in str(gone.value)
            assert len(slept) == REMOTE_ATTEMPTS - 1
            with pytest.raises(Unreachable):
                await anext(memory.events())

    @pytest.mark.parametrize(
        ("answer", "kind", "words"),
        [
            (http("200 OK", b'{"space": "ada"}'), Unsupported, "same version"),
            (http("200 OK", REPORT[:-1] + b', "more": 1}'), Unsupported, "same version"),
            (http("200 OK", b"<html>"), Unsupported, "same version"),
            (http("404 Not Found", b"<html>"), Unsupported, "check the address"),
            (http("302 Found", b"", "Location: http://127.0.0.1:1/"), Unsupported, "check the address"),
            (http("401 No", problem("unauthorized", "no")), Unauthorized, "no"),
            (http("500 No", problem("of_a_newer_version", "new")), ElytronError, "new"),
        ],
    )
    async def test_an_invalid_answer_is_reported_as_such(
        self, answer: bytes, kind: type[ElytronError], words: str
    ) -> None:
        async with scripted([answer]) as (port, _), patient(port) as (memory, _):
            with pytest.raises(kind, match=words):
                await memory.recall("x")

    async def test_an_oversized_answer_is_not_read(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(limits, "REMOTE_REPORT_BYTES", 10)
        async with scripted([http("200 OK", REPORT)]) as (port, _), patient(port) as (memory, _):
            with pytest.raises(errors.LimitExceeded, match="at most 10"):
                await memory.recall("x")

    async def test_a_broken_socket_is_reconnected(self) -> None:
        live = Live()
        with live:
            async with elytron.connect(live.ws_url) as memory:
                await memory.recall("x")
                client: Any = memory
                await client._transport._line._socket.close()
                assert (await memory.recall("x")).query == "x"
                await asyncio.to_thread(live.end)
                with pytest.raises(Unreachable):
                    await memory.add("once")

    async def test_a_server_without_sockets_is_reported(self) -> None:
        answers = [http("404 Not Found", b"<html>"), http("401 No", problem("unauthorized", "no key"))]
        async with scripted(answers) as (port, _), patient(port, scheme="ws") as (memory, _):
            with pytest.raises(Unreachable, match="status 404"):
                await memory.add("once")
            with pytest.raises(Unauthorized, match="no key"):
                await memory.add("once")
