"""A server that is ended under load has lost nothing that it acknowledged; the long form is a command."""

import random
from pathlib import Path

import pytest
from benchmarks.rigs import serving

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(170)]


async def test_a_server_that_is_ended_under_load_loses_nothing(tmp_path: Path) -> None:
    book = await serving.run(tmp_path / "m.db", ends=1, chance=random.Random(1))
    assert book.failures == []
    assert book.acknowledged
    assert book.told
