"""The router reads what a query is after from its words, and favours the planes that answer that."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from elytron_core.contracts.recall import Plane
from elytron_core.policy.ranking import weights
from elytron_core.policy.ranking.weights import Intent

QUERIES = {
    "what is my favourite tea?": Intent.FACTUAL,
    "where does Mina live": Intent.FACTUAL,
    "how do I descale the kettle?": Intent.PROCEDURAL,
    "steps to deploy": Intent.PROCEDURAL,
    "where were we?": Intent.CONTINUITY,
    "what's next on the lease": Intent.CONTINUITY,
    "where did we leave off": Intent.CONTINUITY,
    "what were we working on?": Intent.CONTINUITY,
    "resume where we stopped": Intent.CONTINUITY,
    "what did Mina say about the glove?": Intent.EVIDENCE,
    "her exact words please": Intent.EVIDENCE,
    "tea harbour": Intent.MIXED,
    "how do I quote my exact words": Intent.MIXED,
    "preference: Tea": Intent.FACTUAL,
}


@pytest.mark.parametrize("query", QUERIES)
def test_the_words_of_a_query_say_what_it_is_after(query: str) -> None:
    assert weights.route(query).intent is QUERIES[query]


def test_each_intent_has_its_own_order_of_planes_and_favours_its_own() -> None:
    routes = [weights.route(query) for query in ("who is Mina", "how to brew", "where were we", "who said so", "tea")]
    assert [route.planes[0] for route in routes] == [
        Plane.LONG_TERM,
        Plane.PROCEDURAL,
        Plane.CONTINUITY,
        Plane.TRANSCRIPT,
        Plane.LONG_TERM,
    ]
    assert len({route.planes for route in routes}) == 5
    favours = [{plane: points for plane in Plane if (points := route.favour(plane))} for route in routes]
    assert favours == [
        {Plane.LONG_TERM: 18},
        {Plane.PROCEDURAL: 18, Plane.EXECUTION: 14},
        {Plane.CONTINUITY: 20, Plane.EXECUTION: 16, Plane.SUMMARY: 12},
        {Plane.TRANSCRIPT: 32, Plane.ARCHIVE: 32},
        {},
    ]


def test_a_kind_and_a_topic_name_a_slot() -> None:
    assert weights.route("Preference:  Green   Tea").slot == "preference:green tea"
    for query in ("tea: green", "preference:", "note this: tea"):
        assert weights.route(query).slot is None


@given(st.floats(0, 1), st.floats(0, 1), st.floats(0, 64))
def test_favour_keeps_the_order_of_a_plane_and_the_scale(one: float, other: float, favour: float) -> None:
    low, high = sorted((weights.lifted(one, favour), weights.lifted(other, favour)))
    assert 0 <= low <= high <= 1
    assert weights.lifted(min(one, other), favour) == low
    assert weights.lifted(one, favour) >= one
