"""Ids: the UUIDv7 layout, ascending whatever the clock does, reproducible where seeded."""

import uuid

import pytest
from hypothesis import given
from hypothesis import strategies as st

from elytron_core import ids
from elytron_core.clock import FrozenClock, Instant
from elytron_core.ids import RandomIds, SeededIds, is_id, make_uuid7


@given(st.integers(0, 2**48 - 1), st.integers(0, 0xFFF), st.binary(min_size=8, max_size=8))
def test_an_id_is_a_uuid_of_version_seven(at_ms: int, counter: int, tail: bytes) -> None:
    made = make_uuid7(at_ms, counter, tail)
    parsed = uuid.UUID(made)
    assert str(parsed) == made
    assert (parsed.version, parsed.variant) == (7, uuid.RFC_4122)
    assert parsed.int >> 80 == at_ms
    assert (parsed.int >> 64) & 0xFFF == counter
    assert parsed.int & (2**62 - 1) == int.from_bytes(tail, "big") & (2**62 - 1)
    assert is_id(made)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "3f2504e0-4f89-41d3-9a0c-0305e82c3301",
        "01890A5D-AC96-774B-BCCE-B302099A8057",
        "01890a5dac96774bbcceb302099a8057",
        "01890a5d-ac96-774b-7cce-b302099a8057",
        "01890a5d-ac96-774b-bcce-b302099a8057\n",
    ],
)
def test_nothing_else_is_an_id(text: str) -> None:
    assert not is_id(text)


def test_ids_ascend_while_the_clock_moves_stops_and_steps_back() -> None:
    clock = FrozenClock()
    source = RandomIds(clock)
    made: list[str] = []
    for step in (1, 0, 0, -5_000, 0, 4_999, 3, 10_000):
        clock.advance(step)
        made += [source.new(), source.new()]
    assert made == sorted(made)
    assert len(set(made)) == len(made)
    assert all(map(is_id, made))


def test_a_stopped_clock_borrows_from_the_next_millisecond() -> None:
    source = RandomIds(FrozenClock(Instant(1_000)))
    made = [source.new() for _ in range(0x1000 + 1)]
    assert made == sorted(set(made))
    assert [uuid.UUID(name).int >> 80 for name in (made[0], made[0xFFF], made[0x1000])] == [1_000, 1_000, 1_001]


def test_random_ids_and_secrets_differ_from_source_to_source() -> None:
    one, other = (RandomIds(FrozenClock()) for _ in range(2))
    assert one.new() != other.new()
    assert one.secret(32) != other.secret(32)
    assert [len(one.secret(size)) for size in (0, 1, 100)] == [0, 1, 100]


def test_seeded_ids_are_reproducible_and_differ_between_seeds() -> None:
    def run(seed: str) -> list[object]:
        source = SeededIds(seed)
        return [source.new(), source.secret(40), source.new()]

    assert run("a") == run("a")
    assert not set(run("a")) & set(run("b"))


def test_seeded_ids_ascend_and_their_secrets_have_the_requested_length() -> None:
    source = SeededIds()
    made = [source.new() for _ in range(300)]
    assert made == sorted(set(made))
    assert all(map(is_id, made))
    assert [len(source.secret(size)) for size in (0, 16, 32, 33, 100)] == [0, 16, 32, 33, 100]


def test_both_sources_implement_the_port() -> None:
    assert isinstance(RandomIds(FrozenClock()), ids.IdSource)
    assert isinstance(SeededIds(), ids.IdSource)
