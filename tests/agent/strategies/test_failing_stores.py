"""Strategies over a store whose calls fail, each in turn: a run answers as it does without a memory."""

from collections.abc import Callable
from pathlib import Path

import pytest
from tests.agent.chat_script import ScriptedChat, text
from tests.agent.strategies.host import Road

import elytron
from elytron.api import MemoryFace
from elytron_agent import (
    Agent,
    AgentSettings,
    CuratedStrategy,
    GatewayStrategy,
    MemoryStrategy,
    RuntimeStrategy,
    StopReason,
    stored_events,
)
from elytron_core.clock import FrozenClock
from elytron_core.errors import StoreFailed
from elytron_core.ports.store import Batch, CommitReceipt
from elytron_store.memory import MemoryStore

pytestmark = pytest.mark.anyio
STRATEGIES: dict[str, Callable[[MemoryFace, Road, Path], MemoryStrategy]] = {
    "curated": lambda memory, _road, _folder: CuratedStrategy(memory),
    "curated files": lambda memory, _road, folder: CuratedStrategy(memory, folder=folder / "file"),
    "gateway": lambda memory, road, _folder: GatewayStrategy(road.place, tell=stored_events(memory)),
    "runtime": lambda memory, _road, _folder: RuntimeStrategy(memory),
}


class FailingStore(MemoryStore):
    """A store that accepts `left` commits and fails at all others."""

    def __init__(self, left: int) -> None:
        super().__init__()
        self.left = left
        self.failures = 0

    async def commit(self, batch: Batch, /) -> CommitReceipt:
        if self.left == 0:
            self.failures += 1
            raise StoreFailed(engine="memory", doing="a commit")
        self.left -= 1
        return await super().commit(batch)


@pytest.mark.parametrize("name", STRATEGIES)
async def test_a_strategy_whose_store_fails_at_any_commit_changes_nothing_in_a_run(
    name: str, road: Road, tmp_path: Path
) -> None:
    (tmp_path / "file").write_text("a file where the folder should be")
    left = 0
    while True:
        store = FailingStore(left)
        async with elytron.open("memory:", space="ada") as own, elytron.open(store, space="ada") as failing:
            settings = AgentSettings(enabled=True, recall_deadline_s=0)
            strategy = STRATEGIES[name](failing, road, tmp_path)
            agent = Agent(own, ScriptedChat(text("Yes.")), settings=settings, strategy=strategy, clock=FrozenClock())
            for said in ("One?", "Two?"):
                end = await agent.say(said)
                assert (end.reason, end.text) == (StopReason.ANSWERED, "Yes."), left
            assert (await agent.head()).open is None
            await strategy.close()
        if store.failures == 0 or left > 20:
            break
        left += 1


@pytest.mark.parametrize("name", STRATEGIES)
async def test_a_strategy_whose_store_is_closed_changes_nothing_in_a_run(name: str, road: Road, tmp_path: Path) -> None:
    async with elytron.open("memory:", space="ada") as own:
        async with elytron.open("memory:", space="ada") as closed:
            strategy = STRATEGIES[name](closed, road, tmp_path)
        agent = Agent(own, ScriptedChat(text("Yes.")), strategy=strategy)
        end = await agent.say("One?")
        assert (end.reason, end.text) == (StopReason.ANSWERED, "Yes.")
        await strategy.close()
