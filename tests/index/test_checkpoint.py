"""Checkpoints restore the same index, or nothing."""

import pytest
from tests.index.corpora import ANALYSER, reloaded

from elytron_core.ports.store import DocumentRef
from elytron_core.text import analyser as analysis
from elytron_index import DocumentChange, IndexQuery, SearchUnit, space_index
from elytron_index.space_index import SpaceIndex


def told(*texts: str) -> SpaceIndex:
    index = SpaceIndex(ANALYSER)
    index.apply(
        [
            DocumentChange(
                ref := DocumentRef("turn", f"{place:02x}"),
                (SearchUnit(ref, 0, "transcript", text, speaker=f"Speaker{place}\ud800"),),
            )
            for place, text in enumerate(texts)
        ],
        watermark=len(texts),
    )
    return index


def test_a_checkpoint_restores_the_same_index() -> None:
    index = told("green tea", "black tea", "")
    again = reloaded(index)
    again.apply(
        [DocumentChange(ref := DocumentRef("turn", "ff"), (SearchUnit(ref, 0, "transcript", "tea"),))], watermark=9
    )
    index.apply([DocumentChange(ref, (SearchUnit(ref, 0, "transcript", "tea"),))], watermark=9)

    assert again.search(IndexQuery("tea", limit=9)) == index.search(IndexQuery("tea", limit=9))
    assert again.watermark == index.watermark == 9


def test_a_checkpoint_of_nothing_is_an_empty_index() -> None:
    reloaded = SpaceIndex.from_bytes(SpaceIndex(ANALYSER).to_bytes(), ANALYSER)

    assert reloaded is not None
    assert (reloaded.units, reloaded.watermark) == (0, 0)


def test_a_damaged_or_truncated_checkpoint_is_refused() -> None:
    data = told("green tea", "black tea").to_bytes()

    for place in range(len(data)):
        damaged = bytearray(data)
        damaged[place] ^= 0x40
        assert SpaceIndex.from_bytes(bytes(damaged), ANALYSER) is None
    for size in range(0, len(data), 7):
        assert SpaceIndex.from_bytes(data[:size], ANALYSER) is None
    assert SpaceIndex.from_bytes(data + b"\0", ANALYSER) is None


@pytest.mark.parametrize("version", [(space_index, "FORMAT"), (analysis, "VERSION")])
def test_a_checkpoint_of_another_version_is_refused(version: tuple[object, str]) -> None:
    data = told("tea").to_bytes()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(*version, 77)
        assert SpaceIndex.from_bytes(data, ANALYSER) is None


def test_a_checkpoint_labelled_by_another_classifier_is_refused() -> None:
    data = SpaceIndex(ANALYSER, labels="phrases-1").to_bytes()

    assert SpaceIndex.from_bytes(data, ANALYSER, labels="phrases-1") is not None
    assert SpaceIndex.from_bytes(data, ANALYSER, labels="phrases-2") is None


def test_removed_units_leave_no_trace_in_a_checkpoint() -> None:
    index = told("green tea", "canary secretword")
    index.apply([DocumentChange(DocumentRef("turn", "01"))], watermark=3)
    data = index.to_bytes()

    assert b"secretword" not in data
    assert b"canari" not in data
    assert b"S1" not in data
    assert b"green" in data


def test_many_small_checkpoints_do_not_accumulate_segments() -> None:
    index = told("tea")
    for place in range(30):
        ref = DocumentRef("fact", f"{place:02x}")
        index.apply([DocumentChange(ref, (SearchUnit(ref, 0, "facts", f"tea number {place}"),))], watermark=place)
        index = reloaded(index)

    assert len(index._state.postings.segments) <= 4  # pyright: ignore[reportPrivateUsage] - nothing public shows it
    assert index.units == 31
