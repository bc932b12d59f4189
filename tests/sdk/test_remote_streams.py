"""How a client handles an event stream that breaks, and an unavailable server."""

import json
from typing import Any

import pytest
from tests.sdk.test_remote import http, patient, problem, scripted

from elytron.remote.memory import REMOTE_ATTEMPTS, REMOTE_BACKOFF_MAX_S, REMOTE_STREAM_ATTEMPTS
from elytron_core.errors import Unreachable, Unsupported

pytestmark = pytest.mark.anyio


async def test_a_broken_stream_resumes_after_the_last_entry() -> None:
    entry = {"type": "entry", "space": "ada", "at": 5, "action": "write", "collection": "turns", "key": "0"}
    gap = {"type": "gap", "space": "ada", "reason": "retention", "first": 3, "last": 8}

    def stream(*items: dict[str, Any]) -> bytes:
        lines = b": here\n\n" + b"".join(b"event: x\ndata: %b\n\n" % json.dumps(item).encode() for item in items)
        return b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nConnection: close\r\n\r\n" + lines

    told = [
        stream(entry | {"id": "1-5", "sequence": 1}),
        stream(entry | {"id": "2-5", "sequence": 2}, gap),
        stream(gap | {"reason": "erased"}),
        stream({"type": "of a newer version"}),
    ]
    async with scripted(told) as (port, asked), patient(port) as (memory, slept):
        items = memory.events()
        assert [getattr(await anext(items), "sequence", None) for _ in range(4)] == [1, 2, None, None]
        with pytest.raises(Unsupported):
            await anext(items)
        assert len(slept) == 3
        places = [line for request in asked for line in request.split(b"\r\n") if b"last-event-id" in line.lower()]
        assert [place.partition(b": ")[2] for place in places] == [b"1-5", b"8", b"0"]


async def test_an_established_stream_survives_a_long_server_outage() -> None:
    begun = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nConnection: close\r\n\r\nid: 1-5\n\n"
    entry = {"type": "entry", "space": "ada", "at": 5, "action": "write", "collection": "turns", "key": "0"}
    line = json.dumps(entry | {"id": "2-6", "sequence": 2}).encode()
    away = [http("503 Away", problem("overloaded", "starting"))] * (2 * REMOTE_ATTEMPTS)
    told = [begun, *away, begun + b"event: entry\ndata: %b\n\n" % line]
    async with scripted(told) as (port, _), patient(port) as (memory, slept):
        items = memory.events()
        event = await anext(items)
        assert (event.type, len(slept)) == ("entry", 1 + len(away))
        assert max(slept) <= REMOTE_BACKOFF_MAX_S


async def test_a_stream_that_is_always_cut_at_its_beginning_ends_with_the_error() -> None:
    begun = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nConnection: close\r\n\r\nid: 1-5\n\n"
    async with scripted([begun] * (2 * REMOTE_STREAM_ATTEMPTS)) as (port, asked), patient(port) as (memory, _):
        with pytest.raises(Unreachable):
            await anext(memory.events())
        assert len(asked) == REMOTE_STREAM_ATTEMPTS
