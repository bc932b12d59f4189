"""Search matches the reference implementation, in any insertion order."""

import math
from itertools import product
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.index import oracle
from tests.index.corpora import ANALYSER, ASKED, DAY_MS, HISTORIES, QUERIES, built, fresh, living, reloaded, told

from elytron_core import limits
from elytron_core.errors import InvalidInput, LimitExceeded
from elytron_core.policy.ranking.time_ranges import TimeSpan
from elytron_core.ports.store import DocumentRef
from elytron_index import DocumentChange, IndexQuery, SearchUnit, UnitFilters
from elytron_index.space_index import SpaceIndex
from elytron_index.structures import index_state, postings


@given(history=HISTORIES, query=QUERIES)
def test_text_signals_equal_the_reference_implementation(
    history: list[list[DocumentChange]], query: IndexQuery
) -> None:
    units = living(history)
    found = fresh(units).search(query).candidates
    expected = {(unit.ref, unit.part): each for unit, each in zip(units, oracle.signals(units, query), strict=True)}

    for candidate in found:
        book = expected[candidate.unit.ref, candidate.unit.part]
        assert {name: getattr(candidate.signals, name) for name in book} == pytest.approx(book, abs=1e-9)


@given(history=HISTORIES, query=QUERIES)
def test_everything_that_passes_the_filters_is_found(history: list[list[DocumentChange]], query: IndexQuery) -> None:
    units = living(history)
    expected = {(unit.ref, unit.part) for unit in units if oracle.is_asked_for(unit, query.filters)}
    found = fresh(units).search(query)

    assert found.pool == len(expected)
    assert found.searched == len(expected)
    assert len(found.candidates) == min(query.limit, len(expected))
    assert {(each.unit.ref, each.unit.part) for each in found.candidates} <= expected


MOMENTS = (0, 10, 20, 30)
REF = DocumentRef("fact", "00")
OTHER = DocumentRef("turn", "ff")
UNITS = [
    *(
        SearchUnit(REF, part, "facts", "tea", valid_from=begins, valid_to=ends, recorded_at=known, closed_at=closed)
        for part, (begins, ends, known, closed) in enumerate(product(MOMENTS, MOMENTS, MOMENTS, (0, 20)))
    ),
    *(
        SearchUnit(
            OTHER, part, plane, "tea", speaker=who, role=role, thread=thread, scope=scope, at=at, tags=tags, trust=trust
        )
        for part, (plane, (who, role, thread, scope), at, tags, trust) in enumerate(
            product(
                ("facts", "transcript"),
                (
                    ("", "", "", ()),
                    ("Ada", "user", "aa", (("agent", "x"),)),
                    ("Ben Miller", "assistant", "bb", (("agent", "y"), ("project", "p"))),
                    ("", "", "", (("project", "q"),)),
                ),
                (0, DAY_MS * 19_851 - 1, DAY_MS * 19_851, DAY_MS * 19_851 + 1),
                ((), ("red",), ("red", "green"), ("green",)),
                (0, 1, 2),
            )
        )
    ),
]
"""Units on both sides of every filter's boundary, and on the boundary."""


@pytest.fixture(scope="module")
def lines() -> SpaceIndex:
    return fresh(UNITS)


@pytest.mark.parametrize(("name", "value"), [(name, value) for name, values in ASKED.items() for value in values])
def test_each_filter_matches_the_reference_implementation(lines: SpaceIndex, name: str, value: Any) -> None:
    filters = UnitFilters(**{name: value})
    expected = {(unit.ref, unit.part) for unit in UNITS if oracle.is_asked_for(unit, filters)}
    found = lines.search(IndexQuery("tea", limit=limits.RECALL_MAX, filters=filters)).candidates

    assert {(each.unit.ref, each.unit.part) for each in found} == expected


@given(history=HISTORIES, query=QUERIES)
def test_cosines_are_exact_and_only_within_one_model(history: list[list[DocumentChange]], query: IndexQuery) -> None:
    units = living(history)
    exact = {(unit.ref, unit.part): cosine for unit, cosine in zip(units, oracle.cosines(units, query), strict=True)}
    seen = [cosine for unit, cosine in zip(units, exact.values(), strict=True)
            if cosine is not None and oracle.may_be_seen(unit, query.filters)]  # fmt: skip
    lowest = min(seen, default=0.0)

    for candidate in fresh(units).search(query).candidates:
        cosine = exact[candidate.unit.ref, candidate.unit.part]
        assert candidate.signals.vector == pytest.approx(lowest if cosine is None else cosine, abs=1e-4)


@given(history=HISTORIES, query=QUERIES, data=st.data())
def test_the_answer_does_not_depend_on_insertion_order(
    history: list[list[DocumentChange]], query: IndexQuery, data: st.DataObject
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(postings, "_LIVE_MAX", data.draw(st.sampled_from([1, 12, 10_000]), label="live"))
        patch.setattr(postings, "_RATIO", data.draw(st.sampled_from([1, 2, 4]), label="ratio"))
        patch.setattr(index_state, "_COMPACT_DEAD", data.draw(st.sampled_from([0, 5, 1_000]), label="dead"))
        grown = SpaceIndex(ANALYSER)
        for sequence, batch in enumerate(history, 1):
            grown.apply(batch, watermark=sequence)
            if data.draw(st.booleans(), label="reload"):
                grown = reloaded(grown)
    at_once = fresh(data.draw(st.permutations(living(history)), label="order"))

    assert grown.search(query) == at_once.search(query)
    assert (grown.units, grown.documents, grown.speakers(), grown.planes()) == (
        at_once.units, at_once.documents, at_once.speakers(), at_once.planes()
    )  # fmt: skip


@given(history=HISTORIES, query=QUERIES)
def test_the_best_come_first_and_ties_newest_first(history: list[list[DocumentChange]], query: IndexQuery) -> None:
    found = built(history).search(query).candidates
    keys = [(-each.score, -each.unit.at, -each.unit.order, each.unit.ref, each.unit.part) for each in found]

    assert keys == sorted(keys)


def test_a_session_counts_by_its_three_best() -> None:
    index = built([told("tea", "tea tea", "tea", "nothing", "tea here again", thread="aa"), told()])
    found = index.search(IndexQuery("tea", limit=10)).candidates
    best = sorted((each.signals.body for each in found), reverse=True)[:3]

    assert [each.signals.session for each in found] == pytest.approx([sum(best) / 3] * 5, rel=1e-6)


@pytest.mark.parametrize("texts", [("tea",), ("tea", "tea tea and more")], ids=["one", "two"])
def test_a_session_of_one_or_two_units_counts_by_those(texts: tuple[str, ...]) -> None:
    found = built([told(*texts, thread="aa")]).search(IndexQuery("tea", limit=10)).candidates
    mean = sum(each.signals.body for each in found) / len(texts)

    assert [each.signals.session for each in found] == pytest.approx([mean] * len(texts), rel=1e-6)


def test_a_unit_without_a_thread_is_its_own_session() -> None:
    index = built([told("tea", "tea and more words")])

    assert all(
        each.signals.session == each.signals.body for each in index.search(IndexQuery("tea", limit=10)).candidates
    )


def test_a_turn_next_to_a_match_is_found_through_it() -> None:
    index = built([told("Where did you go?", "Lisbon", thread="aa")])
    found = index.search(IndexQuery("where did you go", limit=10)).candidates

    assert {each.unit.ref.key for each in found} == {"00", "01"}


def test_words_spread_over_neighbours_combine_in_the_window() -> None:
    index = built([told("green tea", "yes", "in the harbour", "lorem", "ipsum", "dolor", thread="aa")])
    found = index.search(IndexQuery("tea harbour", limit=10)).candidates
    windows = {each.unit.ref.key: each.signals.window for each in found}

    assert max(windows, key=windows.__getitem__) in {"00", "01", "02"}
    assert windows["01"] > windows["04"] > 0


def test_invisible_units_contribute_nothing_to_their_neighbours() -> None:
    ref, hidden = DocumentRef("turn", "00"), DocumentRef("turn", "01")
    index = built([[
        DocumentChange(ref, (SearchUnit(ref, 0, "transcript", "yes", thread="aa", order=1),)),
        DocumentChange(hidden, (SearchUnit(hidden, 0, "transcript", "secret harbour", thread="aa", order=0,
                                           closed_at=5),)),
    ]])  # fmt: skip

    (found,) = index.search(IndexQuery("harbour", limit=5)).candidates
    assert (found.unit.ref, found.signals.near, found.signals.window) == (ref, 0.0, 0.0)


def test_a_speaker_is_named_by_the_query() -> None:
    changes = [
        DocumentChange(ref := DocumentRef("turn", key), (SearchUnit(ref, 0, "transcript", "tea", speaker=speaker),))
        for key, speaker in (("00", "Ada"), ("01", "Ben Miller"), ("02", "user"))
    ]
    index = built([changes])
    found = index.search(IndexQuery("What tea does Ada like? And Miller, the user?", limit=5))

    assert found.speakers == ("Ada",)
    assert found.terms == ("tea", "ada", "like", "miller", "user")
    assert {each.unit.ref.key: each.signals.speaker for each in found.candidates} == {"00": 1.0, "01": 0.5, "02": 0.0}
    assert index.speakers() == ("Ada", "Ben Miller", "user")
    assert index.speakers("Was Ben Miller told by Ada?") == ("Ada", "Ben Miller")


def test_a_day_finds_its_units_in_a_large_space_without_shared_words() -> None:
    days = (19_850, *range(19_900, 20_300))
    changes = [
        DocumentChange(
            ref := DocumentRef("turn", f"{day:x}"), (SearchUnit(ref, 0, "transcript", "hm", at=day * DAY_MS),)
        )
        for day in days
    ]
    asked = TimeSpan(days[0] * DAY_MS, (days[0] + 1) * DAY_MS, 1.0)

    (found,) = built([changes]).search(IndexQuery("7 May", limit=1, spans=(asked,))).candidates
    assert found.unit.at == days[0] * DAY_MS


def test_the_latest_of_too_many_units_of_a_day_are_ranked() -> None:
    asked = TimeSpan(0, DAY_MS, 1.0)
    units = [
        SearchUnit(DocumentRef("turn", f"{place:x}"), 0, "transcript", "Always be brief.", at=place)
        for place in range(600)
    ]
    query = IndexQuery("7 May", limit=3, spans=(asked,))
    orders = (units, units[::-1], units[300:] + units[:300])
    answers = [built([[DocumentChange(unit.ref, (unit,)) for unit in order]]).search(query) for order in orders]

    assert [each.unit.at for each in answers[0].candidates] == [599, 598, 597]
    assert answers[0] == answers[1] == answers[2]


def test_an_empty_space_returns_nothing() -> None:
    nothing = SpaceIndex(ANALYSER).search(IndexQuery("tea", limit=5, vector=("small", np.ones(3, "<f4").tobytes())))

    assert (nothing.candidates, nothing.pool, nothing.searched) == ((), 0, 0)
    assert set(nothing.highs) == set(nothing.lows) == {0.0}


def test_a_text_without_words_lists_everything_latest_first() -> None:
    index = built([told("tea", "coffee")])

    for text in ("!!", ""):
        assert [each.unit.ref.key for each in index.search(IndexQuery(text, limit=5)).candidates] == ["01", "00"]


def test_a_text_without_shared_words_is_found_by_meaning_among_many() -> None:
    texts = ["My passport expires in March.", *(f"Stone {place} is grey." for place in range(400))]
    found = built([told(*texts)]).search(IndexQuery("When does the travel document run out?", limit=3)).candidates

    assert (found[0].unit.ref.key, found[0].signals.matched) == ("00", 0)


def test_the_requested_number_is_returned_even_if_nothing_is_similar() -> None:
    index = built([told(*(f"Stone {place} is grey." for place in range(400)))])

    assert len(index.search(IndexQuery("狮子", limit=20)).candidates) == 20


def test_a_large_space_ranks_its_best_units_and_misses_none() -> None:
    index = built([told(*(f"tea {'filler ' * (place % 40)}{place}" for place in range(3_000)))])
    found = index.search(IndexQuery("tea 1234", limit=10)).candidates

    assert found[0].unit.ref.key == f"{1234:02x}"
    assert len({each.unit.ref for each in found}) == 10


def test_coverage_is_the_share_of_the_query_by_rarity() -> None:
    index = built([told("tea harbour", "tea", "tea")])
    coverage = {
        each.unit.ref.key: each.signals.coverage
        for each in index.search(IndexQuery("tea harbour moon", limit=3)).candidates
    }
    idf = [math.log(1 + (3 - df + 0.5) / (df + 0.5)) for df in (3, 1, 0)]

    assert coverage == pytest.approx({"00": sum(idf[:2]) / sum(idf), "01": idf[0] / sum(idf), "02": idf[0] / sum(idf)})


@pytest.mark.parametrize("limit", [0, limits.RECALL_MAX + 1])
def test_a_limit_out_of_range_is_rejected(limit: int) -> None:
    with pytest.raises(InvalidInput, match="limit"):
        SpaceIndex(ANALYSER).search(IndexQuery("tea", limit=limit))


def test_a_query_that_is_too_long_is_refused() -> None:
    with pytest.raises(LimitExceeded):
        SpaceIndex(ANALYSER).search(IndexQuery("x" * (limits.QUERY_CHARS + 1), limit=1))
