"""Hooks over a store that fails at any commit: the host's messages pass unchanged."""

import pytest
from tests.agent.hooks.turns import said
from tests.agent.places import AT

import elytron
from elytron_agent import TurnHooks
from elytron_core.clock import FrozenClock
from elytron_core.errors import StoreFailed
from elytron_core.ports.store import Batch, CommitReceipt
from elytron_store.memory import MemoryStore

pytestmark = pytest.mark.anyio


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


async def test_a_store_failure_at_any_commit_leaves_the_hosts_turn_unchanged() -> None:
    left = 0
    while True:
        store = FailingStore(left)
        async with elytron.open(store, space="ada", clock=FrozenClock(AT)) as memory:
            hooks = TurnHooks(memory, clock=FrozenClock(AT))
            for text in ("My name is Ada.", "Who am I?"):
                async with hooks.turn([said("user", text)]) as turn:
                    assert turn.before.messages[-1] == said("user", text), left
                    turn.answered("I see.")
                assert turn.after is not None
        if store.failures == 0:
            break
        left += 1
    assert left > 1
