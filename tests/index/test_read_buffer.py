"""A checkpoint received in pieces is assembled once, and its memory is released with the last index that reads it."""

import gc
import weakref
from mmap import mmap

import pytest
from tests.index.corpora import ANALYSER, built, told

from elytron_index import IndexQuery, space_index
from elytron_index.space_index import ArrivingCheckpoint, SpaceIndex

MOST = 1 << 20


def taken(data: bytes, step: int, /, *, most: int = MOST) -> ArrivingCheckpoint:
    came = ArrivingCheckpoint(most)
    for start in range(0, len(data), step):
        came.take(data[start : start + step])
    return came


@pytest.mark.parametrize("step", [1, 7, 48, 64, 100, 1 << 20])
@pytest.mark.parametrize("mapped", [0, 1 << 20])
def test_pieces_of_any_size_form_the_checkpoint(step: int, mapped: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(space_index, "MAPPED", mapped)
    monkeypatch.setattr(space_index, "FETCHED", mapped)
    index = built([told("green tea", "black tea", thread="t")])
    came = taken(index.to_bytes(), step)
    assert isinstance(came.data, bytearray if mapped else mmap)
    reloaded = SpaceIndex.from_bytes(came.data, ANALYSER)
    assert reloaded is not None
    assert reloaded.search(IndexQuery("tea", limit=9)) == index.search(IndexQuery("tea", limit=9))


def test_truncated_and_overlong_checkpoints_are_ignored() -> None:
    data = built([told("green tea", thread="t")]).to_bytes()
    for other in (b"", data[:10], data[:-1], data + b"\0", b"\0" * len(data)):
        assert taken(other, 100).data == b""


def test_an_outdated_or_oversized_checkpoint_uses_no_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    data = built([told("green tea", thread="t")]).to_bytes()
    assert taken(data, 100, most=len(data)).data == data
    assert taken(data, 100, most=len(data) - 1).data == b""
    monkeypatch.setattr(space_index, "FORMAT", 77)
    assert taken(data, 100).data == b""


def test_memory_is_released_with_the_last_index_that_uses_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(space_index, "MAPPED", 0)
    came = taken(built([told("green tea", "black tea", thread="t")]).to_bytes(), 100)
    assert isinstance(came.data, mmap)
    there = weakref.ref(came.data)
    index = SpaceIndex.from_bytes(came.data, ANALYSER)
    assert index is not None
    del came
    gc.disable()
    try:
        assert index.search(IndexQuery("tea", limit=9)).candidates
        assert there() is not None
        del index
        assert there() is None, "whoever let the index go need not wait for a collection of garbage"
    finally:
        gc.enable()
