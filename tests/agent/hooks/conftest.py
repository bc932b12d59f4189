"""Hooks on a memory at each location, with a clock controlled by the test."""

import pytest
from tests.agent.places import AT

from elytron.api import MemoryFace
from elytron_agent import TurnHooks
from elytron_core.clock import FrozenClock


@pytest.fixture
def clock() -> FrozenClock:
    return FrozenClock(AT)


@pytest.fixture
def hooks(memory: MemoryFace, clock: FrozenClock) -> TurnHooks:
    return TurnHooks(memory, clock=clock)
