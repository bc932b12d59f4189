import pytest
from tests.replay.stories import read, say, story

from elytron_core.errors import InvalidInput
from elytron_replay.runner import named_engine, run_fixture
from elytron_store.sealed.providers import LocalKeys

pytestmark = pytest.mark.anyio


async def test_an_engine_has_the_requested_name_and_declares_durability() -> None:
    assert [(named_engine(name).name, named_engine(name).durable) for name in ("memory", "file", "sqlite")] == [
        ("memory", False),
        ("file", True),
        ("sqlite", True),
    ]


async def test_an_unknown_store_error_lists_the_known_ones() -> None:
    with pytest.raises(
        InvalidInput,
        match="'paper' is not a replay store; choose from memory, file, sqlite, embedded, memory\\+sealed",
    ):
        named_engine("paper")


async def test_a_sealed_store_replays_identically_with_any_key() -> None:
    fixture = read(story({"op": "write", "request": say("I like tea.")}, {"op": "recall", "request": {"query": "tea"}}))
    plain = await run_fixture(fixture, named_engine("sqlite"))
    keys = LocalKeys({"ours": b"k" * 32}, current="ours")
    for sealed in (
        named_engine("sqlite+sealed"),
        named_engine("sqlite+sealed", keys=keys),
        named_engine("memory+sealed"),
    ):
        outcome = await run_fixture(fixture, sealed)
        assert (outcome.steps, outcome.fingerprints) == (plain.steps, plain.fingerprints)
