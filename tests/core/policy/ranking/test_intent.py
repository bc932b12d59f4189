"""The router infers a query's intent from its words, and favours the planes that answer it."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from elytron_core.contracts.recall import RecallPlane
from elytron_core.policy.ranking import weights
from elytron_core.policy.ranking.weights import QueryIntent

QUERIES = {
    "what is my favourite tea?": QueryIntent.FACTUAL,
    "where does Mina live": QueryIntent.FACTUAL,
    "how do I descale the kettle?": QueryIntent.PROCEDURAL,
    "steps to deploy": QueryIntent.PROCEDURAL,
    "where were we?": QueryIntent.CONTINUITY,
    "what's next on the lease": QueryIntent.CONTINUITY,
    "where did we leave off": QueryIntent.CONTINUITY,
    "what were we working on?": QueryIntent.CONTINUITY,
    "resume where we stopped": QueryIntent.CONTINUITY,
    "what did Mina say about the glove?": QueryIntent.EVIDENCE,
    "her exact words please": QueryIntent.EVIDENCE,
    "tea harbour": QueryIntent.MIXED,
    "how do I quote my exact words": QueryIntent.MIXED,
    "preference: Tea": QueryIntent.FACTUAL,
}


@pytest.mark.parametrize("query", QUERIES)
def test_the_words_of_a_query_determine_its_intent(query: str) -> None:
    assert weights.query_route(query).intent is QUERIES[query]


@pytest.mark.parametrize(
    "query",
    [
        *("wer sagte kiln repair?", "Wer hat den Brennofen erwähnt?", "qui a dit que le four est cassé ?"),
        *("¿quién dijo lo del horno?", "quem disse que o forno quebrou?", "chi ha detto che il forno è rotto?"),
        *("wie zei dat de oven stuk is?", "vem sa att ugnen är trasig?", "kto powiedział o piecu?"),
        *(
            "кто сказал про печь?",
            "谁说窑坏了",
            "誰說的",
            "誰が窯のことを言ったの",
            "누가 가마를 말했어?",
            "من قال ذلك؟",
            "किसने कहा?",
        ),
    ],
)
def test_questions_about_the_speaker_are_recognised_in_every_language(query: str) -> None:
    assert weights.query_route(query).intent is QueryIntent.EVIDENCE


@pytest.mark.parametrize("query", ["wie schmeckt Tee", "qui est Mina", "kim Basalt", "ai likes tea", "who is Mina"])
def test_a_question_word_without_a_verb_of_speaking_requests_no_message(query: str) -> None:
    assert weights.query_route(query).intent is not QueryIntent.EVIDENCE


def test_each_intent_has_its_own_order_of_planes_and_favours_its_own() -> None:
    routes = [
        weights.query_route(query) for query in ("who is Mina", "how to brew", "where were we", "who said so", "tea")
    ]
    assert [route.planes[0] for route in routes] == [
        RecallPlane.LONG_TERM,
        RecallPlane.PROCEDURAL,
        RecallPlane.CONTINUITY,
        RecallPlane.TRANSCRIPT,
        RecallPlane.LONG_TERM,
    ]
    assert len({route.planes for route in routes}) == 5
    favours = [{plane: points for plane in RecallPlane if (points := route.bonus.get(plane))} for route in routes]
    assert favours == [
        {RecallPlane.LONG_TERM: 18},
        {RecallPlane.PROCEDURAL: 18, RecallPlane.EXECUTION: 14},
        {RecallPlane.CONTINUITY: 20, RecallPlane.EXECUTION: 16, RecallPlane.SUMMARY: 12},
        {RecallPlane.TRANSCRIPT: 32, RecallPlane.ARCHIVE: 32},
        {},
    ]


def test_a_kind_and_a_topic_name_a_slot() -> None:
    assert weights.query_route("Preference:  Green   Tea").slot == "preference:green tea"
    for query in ("tea: green", "preference:", "note this: tea"):
        assert weights.query_route(query).slot is None


@given(st.floats(0, 1), st.floats(0, 1), st.floats(0, 64))
def test_favouring_a_plane_preserves_its_order_and_the_scale(one: float, other: float, favour: float) -> None:
    low, high = sorted((weights.lift_strength(one, favour), weights.lift_strength(other, favour)))
    assert 0 <= low <= high <= 1
    assert weights.lift_strength(min(one, other), favour) == low
    assert weights.lift_strength(one, favour) >= one
