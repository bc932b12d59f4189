"""With `durable`, whoever sees the end of an answer can rely on its turn being stored."""

import asyncio
from collections.abc import Callable
from typing import Any

import httpx
import pytest
from tests.models.fake_server import Sent
from tests.proxy.proxy_setup import EACH, PATHS, asked, proxying
from tests.proxy.test_stalled_store import Refusing
from tests.proxy.test_streams import SHORT, sent, told

from elytron_core.ports.store import Batch, CommitReceipt
from elytron_proxy.figures import ProxyFigure
from elytron_store.engine import PassingStore
from elytron_store.memory import MemoryStore

pytestmark = pytest.mark.anyio


class Waiting(PassingStore):
    """Holds a turn back until storing is allowed."""

    def __init__(self) -> None:
        super().__init__(MemoryStore())
        self.has_turn = asyncio.Event()
        self.may_store = asyncio.Event()

    async def commit(self, batch: Batch, /) -> CommitReceipt:
        if any(put.ref.collection == "turns" for put in batch.puts):
            self.has_turn.set()
            await self.may_store.wait()
        return await super().commit(batch)


async def read_stream(client: httpx.AsyncClient, url: str, body: dict[str, Any], see: Callable[[bytes], None]) -> None:
    async with client.stream("POST", url, json=body) as answer:
        async for chunk in answer.aiter_bytes():
            see(chunk)


@EACH
async def test_the_end_of_a_stream_waits_until_its_turn_is_stored(dialect: str) -> None:
    of, store, got = SHORT[dialect], Waiting(), bytearray()
    async with proxying(sent(of, of.data), store=store, durable=True) as proxied:
        url = f"{proxied.url}{PATHS[dialect]}"
        reading = asyncio.create_task(read_stream(proxied.client, url, asked(dialect, "Hello"), got.extend))
        await store.has_turn.wait()
        for _ in range(200):
            await asyncio.sleep(0)
        assert not told(dialect, bytes(got))[1]
        store.may_store.set()
        await reading
        assert told(dialect, bytes(got)) == ("Hi é", True)
        assert await proxied.kept() == ["Hello", "Hi é"]


@EACH
async def test_a_stream_whose_turn_cannot_be_stored_ends_with_an_error(
    dialect: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("elytron_proxy.memory.COMMIT_ATTEMPTS", 1)
    of, store = SHORT[dialect], Refusing(MemoryStore())
    async with proxying(sent(of, of.data), store=store, durable=True) as proxied:
        store.is_full = True
        answer = await proxied.post(PATHS[dialect], asked(dialect, "Hello"))
        assert "turn_not_stored" in answer.text or "the turn was not stored" in answer.text
        assert not told(dialect, answer.content)[1]
        assert proxied.app.figures[ProxyFigure.LOST] == 1


@pytest.mark.parametrize("durable", [True, False])
async def test_an_unstored_answer_is_cut_off_only_with_durable_ends(
    durable: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("elytron_proxy.memory.COMMIT_ATTEMPTS", 1)
    whole = b'{"message": {"role": "assistant", "content": "Hi"}, "done": true, "done_reason": "stop"}'
    store = Refusing(MemoryStore())
    async with proxying(Sent((whole,), media_type="application/json"), store=store, durable=durable) as proxied:
        store.is_full = True
        body = asked("ollama", "Hello", stream=False)
        if durable:
            with pytest.raises(httpx.RemoteProtocolError):
                await proxied.post(PATHS["ollama"], body)
        else:
            assert (await proxied.post(PATHS["ollama"], body)).content == whole
        assert await proxied.kept() == []
