"""A checkpoint that comes in pieces is laid once, and its memory goes with the last index that reads it."""

import gc
import weakref
from mmap import mmap

import pytest

from elytron_core.ports.store import Ref
from elytron_core.text.analyser import Analyser
from elytron_index import Change, IndexQuery, Unit
from elytron_index.checkpoint import codec, read_buffer
from elytron_index.checkpoint.read_buffer import Arriving
from elytron_index.space_index import SpaceIndex

ANALYSER = Analyser()
MOST = 1 << 20


def told(*texts: str) -> SpaceIndex:
    index = SpaceIndex(ANALYSER)
    refs = [Ref("turns", f"{place:02x}") for place in range(len(texts))]
    changes = [
        Change(ref, (Unit(ref, 0, "transcript", text, thread="t", order=place),))
        for place, (ref, text) in enumerate(zip(refs, texts, strict=True))
    ]
    index.apply(changes, watermark=len(texts))
    return index


def taken(data: bytes, step: int, /, *, most: int = MOST) -> Arriving:
    came = Arriving(most)
    for start in range(0, len(data), step):
        came.take(data[start : start + step])
    return came


@pytest.mark.parametrize("step", [1, 7, 48, 64, 100, 1 << 20])
@pytest.mark.parametrize("mapped", [0, 1 << 20])
def test_pieces_of_any_size_make_the_checkpoint(step: int, mapped: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(read_buffer, "MAPPED", mapped)
    monkeypatch.setattr(read_buffer, "FETCHED", mapped)
    index = told("green tea", "black tea")
    came = taken(index.to_bytes(), step)
    assert isinstance(came.data, bytearray if mapped else mmap)
    reloaded = SpaceIndex.from_bytes(came.data, ANALYSER)
    assert reloaded is not None
    assert reloaded.search(IndexQuery("tea", limit=9)) == index.search(IndexQuery("tea", limit=9))


def test_what_is_cut_or_goes_on_is_nothing() -> None:
    data = told("green tea").to_bytes()
    for other in (b"", data[:10], data[:-1], data + b"\0", b"\0" * len(data)):
        assert taken(other, 100).data == b""


def test_a_checkpoint_of_another_version_or_beyond_the_bound_takes_no_room(monkeypatch: pytest.MonkeyPatch) -> None:
    data = told("green tea").to_bytes()
    assert taken(data, 100, most=len(data)).data == data
    assert taken(data, 100, most=len(data) - 1).data == b""
    monkeypatch.setattr(codec, "FORMAT", 77)
    assert taken(data, 100).data == b""


def test_memory_goes_with_the_last_index_that_reads_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(read_buffer, "MAPPED", 0)
    came = taken(told("green tea", "black tea").to_bytes(), 100)
    assert isinstance(came.data, mmap)
    there = weakref.ref(came.data)
    index = SpaceIndex.from_bytes(came.data, ANALYSER)
    assert index is not None
    del came
    gc.disable()
    try:
        assert index.search(IndexQuery("tea", limit=9)).found
        assert there() is not None
        del index
        assert there() is None, "whoever let the index go need not wait for a collection of garbage"
    finally:
        gc.enable()
