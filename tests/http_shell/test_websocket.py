"""Commands, subscriptions, and events over a WebSocket, with the `websockets` library as the client."""

import asyncio
import json
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from starlette.types import ASGIApp
from tests.transports.live import Live
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed, InvalidStatus

from elytron.registry import OPERATIONS
from elytron_adapter.access_keys import Principal
from elytron_adapter.http.open_streams import StreamGuard
from elytron_core.contracts.events import CloseCode, StreamKind
from elytron_core.errors import Unauthorized
from elytron_core.ids import SpaceId
from elytron_core.planes.servers.system_documents import PrincipalKind
from elytron_http_shell.events import ServerStreams, StreamBounds
from elytron_http_shell.websocket import websocket_surfaces

pytestmark = pytest.mark.anyio

Frame = dict[str, Any]
TEA: Frame = {"write": {"kind": "transcript", "turns": [{"messages": [{"text": "Ada likes tea."}]}]}}


class Doormen:
    """Knows the keys "ada" and "bob", each for the space of its name, until they are revoked."""

    def __init__(self) -> None:
        self.revoked: set[str] = set()

    async def authenticate(self, authorization: str | None, /) -> Principal:
        name = (authorization or "").removeprefix("Bearer ")
        if name not in {"ada", "bob"} or name in self.revoked:
            raise Unauthorized
        return Principal(id=name, kind=PrincipalKind.USER, space=SpaceId(name))


@pytest.fixture(scope="module")
def doormen() -> Doormen:
    return Doormen()


@pytest.fixture(scope="module")
def live(doormen: Doormen) -> Iterator[Live]:
    bounds = StreamBounds(frame_bytes=4_000, subscriptions=3, each=3, recheck_s=0.02, send_s=0.3, poll_s=0.02)
    with Live(authenticator=doormen, bounds=bounds) as server:
        yield server


@asynccontextmanager
async def opened(live: Live, *, key: str = "ada", **more: Any) -> AsyncGenerator[ClientConnection]:
    headers = {"Authorization": f"Bearer {key}"}
    async with connect(f"{live.ws_url}/v1/ws", additional_headers=headers, proxy=None, **more) as socket:
        first = await told(socket)
        assert first == {"type": "event.lifecycle", "id": "", "phase": "opened", "principal": key}
        yield socket


async def told(socket: ClientConnection) -> Frame:
    return json.loads(await asyncio.wait_for(socket.recv(), 100))


async def ask(socket: ClientConnection, kind: str, payload: Frame | None = None, **more: Any) -> None:
    await socket.send(json.dumps({"type": kind, "id": "1", "payload": payload or {}, **more}))


async def answer(socket: ClientConnection, kind: str, payload: Frame | None = None, **more: Any) -> Frame:
    await ask(socket, kind, payload, **more)
    return await told(socket)


async def fresh(socket: ClientConnection) -> None:
    """Start with an empty space."""
    await answer(socket, "command.erase", {"whole_space": "ada"})


class TestHandshakes:
    @pytest.mark.parametrize(
        ("headers", "status", "code"),
        [
            ({}, 401, "unauthorized"),
            ({"Authorization": "Bearer nobody"}, 401, "unauthorized"),
            ({"Authorization": "Bearer ada", "Origin": "https://evil.example"}, 403, "permission_refused"),
        ],
    )
    async def test_unauthorized_sockets_are_refused_before_acceptance(
        self, live: Live, headers: dict[str, str], status: int, code: str
    ) -> None:
        with pytest.raises(InvalidStatus) as refused:
            await connect(f"{live.ws_url}/v1/ws", additional_headers=headers, proxy=None)
        assert refused.value.response.status_code == status
        assert json.loads(refused.value.response.body or b"")["code"] == code

    async def test_a_key_in_the_address_opens_nothing(self, live: Live) -> None:
        with pytest.raises(InvalidStatus):
            await connect(f"{live.ws_url}/v1/ws?access_token=ada&authorization=Bearer%20ada", proxy=None)

    async def test_a_caller_has_a_limited_number_of_sockets(self, live: Live) -> None:
        async with opened(live, key="bob"), opened(live, key="bob"), opened(live, key="bob"):
            with pytest.raises(InvalidStatus) as refused:
                await connect(f"{live.ws_url}/v1/ws", additional_headers={"Authorization": "Bearer bob"}, proxy=None)
            assert json.loads(refused.value.response.body or b"")["code"] == "limit_exceeded"
        async with opened(live, key="bob"):
            pass


class TestCommands:
    async def test_written_memories_are_recalled(self, live: Live) -> None:
        async with opened(live) as socket:
            await fresh(socket)
            written = await answer(socket, "command.write", TEA)
            assert (written["type"], written["operation"], written["outcome"]) == ("event.report", "write", "accepted")
            found = await answer(socket, "command.recall", {"query": "tea"})
            assert [hit["text"] for hit in found["report"]["hits"]] == ["Ada likes tea."]

    async def test_a_repeat_under_one_key_is_marked(self, live: Live) -> None:
        async with opened(live) as socket:
            await fresh(socket)
            outcomes = [(await answer(socket, "command.write", TEA, idempotency_key="k"))["outcome"] for _ in range(2)]
            assert outcomes == ["accepted", "duplicated"]

    @pytest.mark.parametrize("operation", [operation.name for operation in OPERATIONS])
    async def test_every_operation_is_a_command(self, live: Live, operation: str) -> None:
        async with opened(live, key="bob") as socket:
            error = (await answer(socket, f"command.{operation}", {"s3cret": 1}))["error"]
            assert (error["code"], "s3cret" in json.dumps(error)) == ("invalid_input", False)

    async def test_concurrent_commands_are_distinguished(self, live: Live) -> None:
        async with opened(live) as socket:
            await fresh(socket)
            for number in range(200):
                await ask(socket, "command.recall", {"query": f"nothing {number}"}, id=f"c{number}")
            answers = [await told(socket) for _ in range(200)]
            assert {frame["id"]: frame["report"]["query"] for frame in answers} == {
                f"c{number}": f"nothing {number}" for number in range(200)
            }

    async def test_another_space_is_refused(self, live: Live) -> None:
        async with opened(live) as socket:
            error = (await answer(socket, "command.list", {"scope": {"space": "bob"}}))["error"]
            assert error["code"] == "permission_refused"


FRAMES: dict[str, tuple[str, str]] = {
    "no JSON": ("s3cret", "invalid_json"),
    "no object": ("[1]", "invalid_json"),
    "one key twice": ('{"type": "command.list", "type": "s3cret", "id": "1"}', "invalid_json"),
    "no type": ('{"id": "1"}', "invalid_input"),
    "an unknown field": ('{"type": "command.list", "id": "1", "s3cret": 1}', "invalid_input"),
    "an id with spaces": ('{"type": "command.list", "id": "a s3cret"}', "invalid_input"),
    "an unknown type": ('{"type": "s3cret", "id": "1"}', "unsupported"),
    "an unknown operation": ('{"type": "command.s3cret", "id": "1"}', "unsupported"),
}


@pytest.mark.parametrize("case", FRAMES)
async def test_an_invalid_frame_is_reported_without_echo_and_the_socket_stays_open(live: Live, case: str) -> None:
    frame, code = FRAMES[case]
    async with opened(live, key="bob") as socket:
        await socket.send(frame)
        event = await told(socket)
        assert (event["type"], event["error"]["code"]) == ("event.error", code)
        assert event["id"] == ("" if code == "invalid_json" or case == "an id with spaces" else "1")
        assert "s3cret" not in json.dumps(event)
        await socket.send(frame.encode())
        assert (await told(socket))["error"]["code"] == code
        assert (await answer(socket, "command.list"))["type"] == "event.report"


async def test_a_frame_beyond_the_budget_ends_the_socket(live: Live) -> None:
    async with opened(live) as socket:
        await ask(socket, "command.recall", {"query": "x" * 5_000})
        assert (await told(socket))["error"]["code"] == "frame_budget_exceeded"
        assert await ended(socket) == CloseCode.FRAME_TOO_BIG


async def ended(socket: ClientConnection) -> int | None:
    """Return the server's close code, whatever precedes it."""
    await rest(socket)
    return socket.close_code


async def rest(socket: ClientConnection) -> list[Frame]:
    """Return everything until the server closes."""
    frames: list[Frame] = []
    while True:
        try:
            frames.append(await told(socket))
        except ConnectionClosed:
            return frames


class TestSubscriptions:
    async def test_entries_arrive_in_order_from_any_position(self, live: Live) -> None:
        async with opened(live) as socket:
            await fresh(socket)
            await answer(socket, "command.write", TEA)
            assert (await answer(socket, "subscribe.events", after=0, id="s"))["phase"] == "subscribed"
            events = [await told(socket) for _ in range(2)]
            await ask(socket, "command.write", TEA)
            frames = [await told(socket) for _ in range(2)]
            events += [frame for frame in frames if frame["id"] == "s"]
            assert [event["sequence"] for event in events] == [1, 2, 3]
            assert [event["report"]["action"] for event in events] == ["lifecycle", "write", "write"]
            assert "tea" not in json.dumps(events)
            again = await answer(socket, "subscribe.events", after=events[1]["event_id"], id="t")
            assert again["phase"] == "subscribed"
            assert (await told(socket))["sequence"] == 3

    async def test_a_report_is_sent_again_when_its_space_has_grown(self, live: Live) -> None:
        async with opened(live) as socket:
            await fresh(socket)
            await answer(socket, "subscribe.projection", {"query": "tea", "max_chars": 900}, id="p")
            first = await told(socket)
            assert (first["operation"], first["sequence"]) == ("project", 0)
            await ask(socket, "command.write", TEA)
            frames = {frame["id"]: frame for frame in [await told(socket), await told(socket)]}
            assert "Ada likes tea." in frames["p"]["report"]["system_memory_block"]
            assert frames["p"]["sequence"] == 2

    async def test_a_replay_sends_each_turn_once(self, live: Live) -> None:
        async with opened(live) as socket:
            await fresh(socket)
            await answer(socket, "command.write", TEA)
            await answer(socket, "subscribe.replay", {"limit": 1}, id="r")
            turns = [(await told(socket))["report"]["turns"]]
            written = (await answer_of(socket, "1", "command.write", TEA, turns))["report"]
            while len(turns) < 2:
                turns.append((await told(socket))["report"]["turns"])
            assert [turn["sequence"] for (turn,) in turns] == [1, 2]
            forget = {"ids": [written["decisions"][0]["id"]]}
            assert (await answer(socket, "command.forget", forget))["id"] == "1", "nothing new to replay"

    @pytest.mark.parametrize("kind", ["inspection", "capability"])
    async def test_the_other_reports_can_be_subscribed_to_as_well(self, live: Live, kind: str) -> None:
        async with opened(live) as socket:
            await answer(socket, f"subscribe.{kind}", id="s")
            assert (await told(socket))["type"] == "event.report"

    async def test_after_skips_state_that_is_already_known(self, live: Live) -> None:
        async with opened(live) as socket:
            await fresh(socket)
            await answer(socket, "command.write", TEA)
            await answer(socket, "subscribe.inspection", after=2, id="s")
            await ask(socket, "command.write", TEA)
            frames = {frame["id"]: frame for frame in [await told(socket), await told(socket)]}
            assert frames["s"]["report"]["sequence"] == 3

    async def test_an_erased_space_is_a_gap(self, live: Live) -> None:
        async with opened(live) as socket:
            await fresh(socket)
            await answer(socket, "command.write", TEA)
            await answer(socket, "subscribe.events", id="s")
            await ask(socket, "command.erase", {"whole_space": "ada"})
            frames = {frame["id"]: frame for frame in [await told(socket), await told(socket)]}
            assert (frames["s"]["phase"], frames["s"]["gap"]["reason"]) == ("gap", "erased")

    async def test_an_ended_subscription_is_silent_and_its_id_free(self, live: Live) -> None:
        async with opened(live) as socket:
            for _ in range(2):
                await answer(socket, "subscribe.events", id="s")
                assert (await answer(socket, "unsubscribe", id="s"))["phase"] == "unsubscribed"
                assert (await answer(socket, "command.write", TEA))["id"] == "1"
            assert (await answer(socket, "unsubscribe", id="never"))["phase"] == "unsubscribed"

    async def test_the_number_of_subscriptions_is_limited(self, live: Live) -> None:
        async with opened(live) as socket:
            for number in range(3):
                await answer(socket, "subscribe.events", id=f"s{number}")
            error = (await answer(socket, "subscribe.events", id="s3"))["error"]
            assert error["code"] == "subscription_budget_exceeded"
            assert (await answer(socket, "subscribe.events", id="s0"))["error"]["code"] == "invalid_input"

    @pytest.mark.parametrize(
        ("kind", "more", "code"),
        [
            ("weather", {}, "unsupported_subscription"),
            ("events", {"after": "soon"}, "invalid_input"),
            ("events", {"scope": {"space": "bob"}}, "permission_refused"),
            ("inspection", {"payload": {"scope": {"space": "bob"}}}, "permission_refused"),
            ("inspection", {"payload": {"scope": {"s3cret": 1}}}, "invalid_input"),
            ("inspection", {"payload": {"s3cret": 1}}, "invalid_input"),
            ("inspection", {"after": "2-1"}, "invalid_input"),
        ],
    )
    async def test_impossible_subscriptions_are_rejected(self, live: Live, kind: str, more: Frame, code: str) -> None:
        async with opened(live) as socket:
            await ask(socket, f"subscribe.{kind}", **more)
            event = await told(socket)
            if event["type"] == "event.lifecycle":
                event = await told(socket)
            assert event["error"]["code"] == code
            assert "s3cret" not in json.dumps(event)

    def test_the_subscription_kinds_match_the_protocol(self) -> None:
        assert {"projection", "inspection", "replay", "capability"} <= set(StreamKind)


async def answer_of(socket: ClientConnection, frame_id: str, kind: str, payload: Frame, others: list[Any]) -> Frame:
    """Return a command's answer from among a replay's reports, which are stored in `others`."""
    await ask(socket, kind, payload, id=frame_id)
    while (frame := await told(socket))["id"] != frame_id:
        others.append(frame["report"]["turns"])
    return frame


class TestEnds:
    async def test_a_revoked_key_ends_its_socket(self, live: Live, doormen: Doormen) -> None:
        async with opened(live, key="bob") as socket:
            doormen.revoked.add("bob")
            try:
                assert await ended(socket) == CloseCode.UNAUTHORIZED
            finally:
                doormen.revoked.clear()

    async def test_a_client_that_reads_nothing_is_disconnected(self, live: Live) -> None:
        assert await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(cut_off(live), live.loop)) == {
            "type": "websocket.close",
            "code": CloseCode.SLOW_READER,
            "reason": "slow_reader",
        }

    async def test_an_internal_error_ends_one_socket_with_its_code(self, live: Live) -> None:
        async def broken() -> Frame:
            raise ValueError("s3cret")

        ended = await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(driven(live, broken), live.loop))
        assert ended == {"type": "websocket.close", "code": CloseCode.INTERNAL, "reason": "internal"}


async def driven(live: Live, behind: Callable[[], Awaitable[Frame]]) -> Frame:
    """Return the end of a socket whose server reads `behind` after the handshake."""
    sent: list[Frame] = []
    coming = [{"type": "websocket.connect"}]

    async def receive() -> Frame:
        return coming.pop() if coming else await behind()

    async def send(message: Any) -> None:
        sent.append(message)

    await socket_of(live)(scope_of_ada(live), receive, send)
    return sent[-1]


def socket_of(live: Live) -> ASGIApp:
    (surface,) = websocket_surfaces(ServerStreams(live.admission, bounds=StreamBounds(send_s=0.01)))
    return surface.app


def scope_of_ada(live: Live) -> dict[str, Any]:
    async def credential() -> str:
        return "Bearer ada"

    principal = Principal(id="ada", kind=PrincipalKind.USER, space=SpaceId("ada"))
    headers = [(b"authorization", b"Bearer ada")]
    guard = StreamGuard(live.admission, principal, credential)
    state = {"principal": principal, "request_id": "r", "guard": guard}
    return {"type": "websocket", "headers": headers, "state": state}


async def cut_off(live: Live) -> Frame:
    """Return the end of a socket whose reader reads nothing after the first frame."""
    coming: asyncio.Queue[Frame] = asyncio.Queue()
    coming.put_nowait({"type": "websocket.connect"})
    coming.put_nowait({"type": "websocket.receive", "text": '{"type": "command.list", "id": "1"}'})
    sent: list[Frame] = []

    async def send(message: Any) -> None:
        if message["type"] == "websocket.send" and len(sent) >= 2:
            await asyncio.Event().wait()
        sent.append(message)

    await socket_of(live)(scope_of_ada(live), coming.get, send)
    return sent[-1]


async def test_a_stopping_server_says_so_and_loses_nothing_accepted() -> None:
    with Live() as live:
        async with connect(f"{live.ws_url}/v1/ws", proxy=None) as socket:
            await told(socket)
            await ask(socket, "command.write", TEA)
            await asyncio.to_thread(live.end)
            frames = await rest(socket)
            assert socket.close_code == CloseCode.GOING_AWAY
            assert frames[-1] == {"type": "event.lifecycle", "id": "", "phase": "closing"}
            assert [frame["outcome"] for frame in frames[:-1]] in (["accepted"], [])
