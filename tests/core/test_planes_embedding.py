"""Stored vectors, and the form in which a question is sent to an encoder."""

import math

import pytest

from elytron_core.errors import InvalidInput, StoreCorrupt
from elytron_core.planes.embedding import VectorSet, check_of, check_to_hex, check_to_signed, vector_set
from elytron_core.policy.ranking.question import encoder_query


def test_a_stored_vector_is_returned_with_length_1() -> None:
    check = check_of("a boat")
    kept = VectorSet.from_bytes(vector_set("m", 3, {check: [3.0, 0.0, 4.0]}).to_bytes())
    assert kept.floats()[check_to_signed(check)] == pytest.approx((0.6, 0.0, 0.8), abs=1e-3)


@pytest.mark.parametrize(
    ("numbers", "problem"),
    [([1.0], "dimensions"), ([0.0, 0.0], "length 0"), ([math.nan, 1.0], "finite"), ([math.inf, 1.0], "finite"),
     ([1e200, 1e200], "finite")],
)  # fmt: skip
def test_invalid_vectors_are_rejected(numbers: list[float], problem: str) -> None:
    with pytest.raises(InvalidInput, match=problem):
        vector_set("m", 2, {"0" * 16: numbers})


@pytest.mark.parametrize("numbers", ["!!!!", "AAAA"])
def test_a_damaged_passage_is_not_served(numbers: str) -> None:
    check = check_of("a boat")
    kept = VectorSet(model="m", dimensions=2, vectors={}, passages={check: (numbers,)})
    with pytest.raises(StoreCorrupt):
        kept.halves_of_passages(check)


def test_passages_are_consecutive_and_cost_nothing_if_absent() -> None:
    made = vector_set("m", 2, {check_of("a boat"): [1.0, 0.0], check_of("some tea"): [0.0, 1.0]})
    read = made.model_copy(update={"passages": {"0" * 16: tuple(made.vectors.values())}})
    assert VectorSet.from_bytes(read.to_bytes()).halves_of_passages("0" * 16).hex() == "003c00000000003c"
    assert made.halves_of_passages("0" * 16) == b""
    assert b"passages" not in made.to_bytes()


def test_a_checksum_round_trips_as_a_number() -> None:
    assert {check_to_hex(check_to_signed(check)) for check in ("f" * 16, "0" * 16)} == {"f" * 16, "0" * 16}


@pytest.mark.parametrize("numbers", ["", "!!!!", "AAAA"])
def test_a_damaged_vector_is_not_served(numbers: str) -> None:
    with pytest.raises(StoreCorrupt):
        VectorSet(model="m", dimensions=2, vectors={"0" * 16: numbers}).floats()


def test_different_texts_have_different_checksums() -> None:
    assert len({check_of("a"), check_of("b"), check_of("\ud800")}) == 3


@pytest.mark.parametrize(
    ("query", "asked"),
    [
        ("What did Ada say to Ben?", "What did I say to I?"),
        ("Where is Ada's boat?", "Where is my boat?"),
        ("Adaptors and ada", "Adaptors and ada"),
        ("Ada Lovelace met user", "I met user"),
    ],
)
def test_names_of_speakers_are_read_as_the_first_person(query: str, asked: str) -> None:
    assert encoder_query(query, ("Ada", "Ada Lovelace", "Ben", "user")) == asked
