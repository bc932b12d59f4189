"""How a client over a WebSocket handles the frames that it receives."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

import pytest
from tests.sdk.test_remote import REPORT, patient
from websockets.asyncio.server import ServerConnection, serve

import elytron
from elytron_core import errors
from elytron_core.errors import ElytronError, NotFound, Unauthorized, Unreachable, Unsupported

pytestmark = pytest.mark.anyio


@asynccontextmanager
async def socketed(*frames: str, code: int = 1000) -> AsyncGenerator[int]:
    """Answer the first frame of each socket with `frames` and close it; yield the port."""

    async def serve_one(socket: ServerConnection) -> None:
        await socket.recv()
        for frame in frames:
            await socket.send(frame)
        await socket.close(code)

    async with serve(serve_one, "127.0.0.1", 0) as server:
        yield next(iter(server.sockets)).getsockname()[1]


QUEUED = '{"type": "event.report", "id": "1", "operation": "x", "outcome": "queued", "report": {}}'


class TestFrames:
    async def test_a_report_is_read_from_any_frame(self) -> None:
        spaced = f'{{"id": "1", "report": {REPORT.decode()}, "operation": "recall", "type": "event.report"}}'
        opened = '{"type": "event.lifecycle", "phase": "opened"}'
        async with socketed(opened, spaced) as port, patient(port, scheme="ws") as (memory, _):
            assert (await memory.recall("x")).reason == "empty_space"

    @pytest.mark.parametrize(
        ("frame", "code", "kind"),
        [
            ('{"type": "event.weather"}', 1000, Unsupported),
            ('{"type": "event.report", "id": "1", "report": {}}', 1000, Unsupported),
            (QUEUED, 1000, Unsupported),
            ('{"type": "event.report", "id": "other", "operation": "x", "report": {}}', 1001, Unreachable),
            ('{"type": "event.lifecycle", "phase": "closing"}', 4401, Unauthorized),
            ('{"type": "event.error", "id": "1", "error": {"code": "not_found", "detail": "x"}}', 1000, NotFound),
        ],
    )
    async def test_unexpected_frames_raise_fitting_errors(
        self, frame: str, code: int, kind: type[ElytronError]
    ) -> None:
        async with socketed(frame, code=code) as port, patient(port, scheme="ws") as (memory, _):
            with pytest.raises(kind):
                await memory.add("once")

    async def test_a_refused_subscription_raises_in_its_stream(self) -> None:
        refused = '{"type": "event.error", "id": "events", "error": {"code": "permission_refused", "detail": "no"}}'
        async with socketed(refused) as port, patient(port, scheme="ws") as (memory, _):
            with pytest.raises(errors.PermissionRefused):
                await anext(memory.events())

    async def test_a_missing_answer_is_unreachable(self) -> None:
        async def silent(socket: ServerConnection) -> None:
            await socket.wait_closed()

        async with serve(silent, "127.0.0.1", 0) as server:
            port = next(iter(server.sockets)).getsockname()[1]
            async with elytron.connect(f"ws://127.0.0.1:{port}", timeout_s=0.05) as memory:
                with pytest.raises(Unreachable, match="no answer in time"):
                    await memory.add("once")
