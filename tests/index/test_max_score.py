"""In a large space frequent words are looked up instead of scanned, with numerically identical answers."""

import random
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from tests.index.corpora import ANALYSER, HISTORIES, QUERIES

from elytron_core.policy.ranking.excerpts import SoughtWords
from elytron_core.policy.ranking.weights import SignalWeights
from elytron_core.ports.store import DocumentRef
from elytron_index import DocumentChange, IndexQuery, SearchUnit, UnitFilters
from elytron_index.lexicon import terms
from elytron_index.query import FoundCandidates
from elytron_index.search import max_score, nearness, space_search
from elytron_index.space_index import SpaceIndex
from elytron_index.structures import index_state, postings

MANY = 1 << 30


def answers(index: SpaceIndex, query: IndexQuery, *, large: int) -> FoundCandidates:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(max_score, "LARGE", large)
        return index.search(query)


@given(history=HISTORIES, query=QUERIES)
def test_skipping_does_not_change_the_answers_of_small_spaces(
    history: list[list[DocumentChange]], query: IndexQuery
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(postings, "_LEAST", 1)
        patch.setattr(postings, "MOST_TABLES", 2)
        patch.setattr(index_state, "_COMPACT_DEAD", 3)
        index = SpaceIndex(ANALYSER)
        for sequence, batch in enumerate(history, 1):
            index.apply(batch, watermark=sequence)
            assert answers(index, query, large=0) == answers(index, query, large=MANY)


@pytest.fixture(scope="module")
def wide() -> SpaceIndex:
    """A space with Zipf-distributed words, related words, titles, names, vectors, and some removed units."""
    dice, numbers = random.Random(5), np.random.default_rng(5)
    words = vocabulary()
    shares = [1 / rank for rank in range(1, len(words) + 1)]
    index = SpaceIndex(ANALYSER)

    def change(place: int) -> DocumentChange:
        ref = DocumentRef("turns", f"{place:08x}")
        text, title = (" ".join(dice.choices(words, shares, k=dice.randint(0, most))) for most in (14, 2))
        vector = ("m", numbers.standard_normal(24).astype("<f4").tobytes()) if place % 3 else None
        unit = SearchUnit(
            ref, 0, "transcript", text, title=title, speaker=dice.choice(("Ada", "Ben Miller", "user")),
            thread=f"{place // 20:06x}", order=place % 20, at=1_700_000_000_000 + place * 600_000,
            tags=("some",) if place % 9 == 0 else (), closed_at=int(place % 50 == 0), vector=vector,
        )  # fmt: skip
        return DocumentChange(ref, (unit,))

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(postings, "_FULL", 1 << 12)
        for first in range(0, 4_000, 200):
            index.apply([change(place) for place in range(first, first + 200)], watermark=first + 1)
        index.apply(
            [DocumentChange(DocumentRef("turns", f"{place:08x}")) for place in range(0, 4_000, 17)], watermark=4_001
        )
    return index


def never_reached(*_: object) -> float:
    return 1e9


def vocabulary() -> list[str]:
    found: dict[str, None] = {}
    for word in ("dog", "travel", "music", "doctor", "garden", "money", "winter", "school"):
        stem = ANALYSER.terms(word)[0]
        found |= dict.fromkeys((stem, *terms.related_stems(stem)))
    return list(found)


@pytest.mark.parametrize("seed", range(40))
def test_skipping_does_not_change_the_answers_of_a_large_space(
    wide: SpaceIndex, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    dice = random.Random(seed)
    monkeypatch.setattr(space_search, "_POOL", dice.choice((8, 64)))
    monkeypatch.setattr(postings, "_LEAST", dice.choice((200, 4_000)))
    words = dice.choices(vocabulary(), k=dice.randint(1, 6)) + dice.choices(("", "Ada", "Miller", "gardenx"))
    filters = dice.choice((UnitFilters(), UnitFilters(tags_any=("some",)), UnitFilters(speakers=("Ada",))))
    weights = dice.choice((SignalWeights(), replace(SignalWeights(), later=-0.5, kin=0.0)))
    query = IndexQuery(" ".join(words), limit=dice.choice((1, 5, 300)), filters=filters, weights=weights)
    if dice.random() < 0.5:
        query = replace(query, vector=("m", np.random.default_rng(seed).standard_normal(24).astype("<f4").tobytes()))

    found: list[tuple[FoundCandidates, SoughtWords]] = []
    for large in (0, MANY):
        candidates = answers(wide, query, large=large)
        monkeypatch.setattr(max_score, "LARGE", large)
        found.append((candidates, wide.sought(query)))
    assert found[0] == found[1]


@pytest.mark.parametrize("tags", [(), ("some",), ("none",)])
def test_the_nearest_of_many_match_an_exhaustive_search(tags: tuple[str, ...], monkeypatch: pytest.MonkeyPatch) -> None:
    """A sample's estimate of the upper end only saves work."""
    index = SpaceIndex(ANALYSER)
    numbers = np.random.default_rng(3)
    refs = [DocumentRef("turns", f"{place:08x}") for place in range(3_000)]
    index.apply(
        [
            DocumentChange(ref, (SearchUnit(ref, 0, "transcript", "", tags=("some",) if place % 40 == 0 else (),
                              vector=("m", numbers.standard_normal(24).astype("<f4").tobytes())),))
            for place, ref in enumerate(refs)
        ],
        watermark=1,
    )  # fmt: skip
    asked = numbers.standard_normal(24).astype("<f4").tobytes()
    monkeypatch.setattr(space_search, "_POOL", 16)
    query = IndexQuery("", limit=3, vector=("m", asked), filters=UnitFilters(tags_any=tags))
    plain = index.search(query)
    monkeypatch.setattr("elytron_index.search.nearness._MANY", 256)
    monkeypatch.setattr("elytron_index.search.nearness._SAMPLED", 30)
    sampled = index.search(query)
    monkeypatch.setattr(nearness, "likely_edge", never_reached)
    missed = index.search(query)

    assert plain == sampled == missed
