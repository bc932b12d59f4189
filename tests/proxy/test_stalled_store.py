"""An unresponsive store delays no call: all memory work has one deadline, and pauses after failures."""

import asyncio
from typing import Any

import pytest
from tests.proxy.proxy_setup import BOAT, EACH, PATHS, asked, knowing, messages_of, proxying, recorded
from tests.proxy.test_tool_loops import tool_loop

import elytron
from elytron_adapter.access_keys import DEVELOPER, DevelopmentCallers
from elytron_adapter.dispatch import CallerAdmission, OperationDispatcher
from elytron_core.errors import StoreUnavailable
from elytron_core.ids import SpaceId
from elytron_core.ports.store import Batch, CommitReceipt
from elytron_proxy import MemoryUse, limits
from elytron_proxy.caller import ProxyCaller
from elytron_proxy.figures import ProxyFigure
from elytron_proxy.memory import MAX_FAILURES, REST_S, MemoryDown, ProxyMemory
from elytron_store.engine import PassingStore
from elytron_store.memory import MemoryStore

pytestmark = pytest.mark.anyio
ADA = ProxyCaller(principal=DEVELOPER, space=SpaceId("ada"), request_id="r", use=MemoryUse.ON)
GUARD_S = 20
"""A call waiting for the store never ends; with a deadline it ends immediately."""


class Stalling(PassingStore):
    """Answers nothing while stalled."""

    def __init__(self) -> None:
        super().__init__(MemoryStore())
        self.runs = asyncio.Event()
        self.runs.set()

    def __getattribute__(self, name: str) -> Any:
        found = super().__getattribute__(name)
        if name not in {"get", "scan", "journal", "spaces", "commit"}:
            return found

        async def wait(*args: Any, **kwargs: Any) -> Any:
            await self.runs.wait()
            return await found(*args, **kwargs)

        return wait


class Refusing(PassingStore):
    """Accepts no commit while it is full."""

    is_full = False

    async def commit(self, batch: Batch, /) -> CommitReceipt:
        if self.is_full:
            raise StoreUnavailable("the device is away")
        return await super().commit(batch)


def shapes(dialect: str) -> dict[str, dict[str, Any]]:
    """Return requests that need different things from memory."""
    looped = asked(dialect, BOAT)
    messages_of(dialect, looped).extend(tool_loop(dialect))
    found = {
        "a first message": asked(dialect, "One"),
        "with history": asked(dialect, BOAT, "It is the Petrel.", "And hers?"),
        "a loop of tools": looped,
        "an answer begun": asked(dialect, BOAT, "It is"),
    }
    if dialect == "responses":
        found["continued"] = asked(dialect, "Two", previous_response_id="r1")
    return found


@EACH
async def test_each_call_continues_without_an_unresponsive_memory(
    dialect: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = Stalling()
    made = shapes(dialect)
    async with proxying(*[recorded(dialect)] * 20, store=store) as proxied:
        await knowing(proxied)
        assert (await proxied.post(PATHS[dialect], asked(dialect, BOAT))).status_code == 200
        await proxied.app.idle()
        monkeypatch.setattr(limits, "MEMORY_WAIT_S", 0.05)
        store.runs.clear()
        try:
            for name, body in made.items():
                async with asyncio.timeout(GUARD_S):
                    answer = await proxied.post(PATHS[dialect], body)
                if name == "continued":
                    assert answer.status_code == 503
                else:
                    assert answer.status_code == 200, name
                    assert answer.headers["X-Elytron-Memory"] != "on", name
            async with asyncio.timeout(GUARD_S):
                required = await proxied.post(PATHS[dialect], made["with history"], X_Elytron_Memory="required")
            assert required.status_code == 503
        finally:
            store.runs.set()
        await proxied.app.idle()


async def test_reads_of_responses_and_keys_respect_the_deadline(monkeypatch: pytest.MonkeyPatch) -> None:
    store = Stalling()
    async with proxying(store=store, has_keys=True) as proxied:
        monkeypatch.setattr(limits, "MEMORY_WAIT_S", 0.05)
        store.runs.clear()
        try:
            async with asyncio.timeout(GUARD_S):
                key = {"Authorization": "Bearer ely_user_0123456789abcdef_x"}
                answer = await proxied.client.get(f"{proxied.url}/v1/responses/r1", headers=key)
            assert answer.status_code in {401, 503}
        finally:
            store.runs.set()


async def spent(memory: ProxyMemory, caller: ProxyCaller) -> float:
    """Return how much time a call starting now would give memory."""
    remaining_s = memory.timed(caller).deadline.remaining_s
    assert remaining_s is not None
    return remaining_s


async def test_memory_is_suspended_after_failures_and_one_call_probes_it() -> None:
    now = 0.0

    def clock() -> float:
        return now

    bob = ProxyCaller(principal=DEVELOPER, space=SpaceId("bob"), request_id="r", use=MemoryUse.ON)
    async with elytron.open("memory:", space=None) as runtime:
        memory = ProxyMemory(
            CallerAdmission(OperationDispatcher(runtime), authenticator=DevelopmentCallers()), clock=clock
        )
        for _ in range(MAX_FAILURES):
            assert await spent(memory, ADA) > 0
            memory.judge(ADA, is_down=True)
        assert await spent(memory, ADA) <= 0
        assert await spent(memory, bob) > 0
        with pytest.raises(MemoryDown, match="timeout"):
            await memory.secret_of(memory.timed(ADA))
        now += REST_S
        assert await spent(memory, ADA) > 0
        assert await spent(memory, ADA) <= 0, "the others wait for what the first one finds"
        memory.judge(ADA, is_down=False)
        assert await spent(memory, ADA) > 0


async def test_a_lost_turn_is_logged_without_its_content(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("elytron_proxy.memory.COMMIT_ATTEMPTS", 1)
    store = Refusing(MemoryStore())
    async with proxying(recorded("chat"), store=store) as proxied:
        store.is_full = True
        await proxied.post(PATHS["chat"], asked("chat", "My boat is called Petrel."))
        await proxied.app.idle()
        assert proxied.app.figures[ProxyFigure.LOST] == 1
    (record,) = [each for each in caplog.records if each.name == "elytron.proxy"]
    assert record.levelname == "WARNING"
    assert "Petrel" not in str(vars(record))
