"""Among few statements similarity decides the order, and words break ties unless they are rare in the language."""

import pytest
from tests.index.corpora import fresh
from tests.index.test_query_signals import unit

from elytron_core.policy.ranking.time_ranges import TimeSpan
from elytron_core.text.traits import TextTrait
from elytron_index import FoundCandidates, IndexQuery, SearchUnit
from elytron_index.lexicon.text_vectors import is_rare_word

ANSWER = "Rehearsal is in Kit's garage because the school hall flooded."
DECOY = "Kit's car is parked at the school, where we now practise French under water colours."
OTHERS = ("The cake is on the second shelf.", "Mo owes me five coins.", "Our drummer left for Cork.")
QUERY = "Where do we practise now that the school is under water?"


def found_among(*texts: str, query: IndexQuery, traits: TextTrait = TextTrait.NOTHING) -> FoundCandidates:
    return fresh([unit(place, text, traits=traits) for place, text in enumerate(texts)]).search(query)


def first_of(found: FoundCandidates, texts: tuple[str, ...]) -> str:
    return texts[int(found.candidates[0].unit.ref.key, 16)]


def test_similarity_decides_among_few_statements() -> None:
    texts = (DECOY, ANSWER, *OTHERS)
    found = found_among(*texts, query=IndexQuery(QUERY, limit=5))
    assert found.few > 0.5
    assert max(found.candidates, key=lambda item: item.signals.body).unit.ref.key == "00"
    assert first_of(found, texts) == max(texts, key=lambda text: found_signals(found, texts, text, "text_vectors"))


def found_signals(found: FoundCandidates, texts: tuple[str, ...], text: str, name: str) -> float:
    key = f"{texts.index(text):02x}"
    return next(getattr(item.signals, name) for item in found.candidates if item.unit.ref.key == key)


@pytest.mark.parametrize(
    ("count", "traits", "spans"),
    [
        (5, TextTrait.ASKS, ()),
        (130, TextTrait.NOTHING, ()),
        (5, TextTrait.NOTHING, (TimeSpan(0, 1),)),
    ],
)
def test_talk_many_memories_and_a_named_time_are_ordered_by_all_signals(
    count: int, traits: TextTrait, spans: tuple[TimeSpan, ...]
) -> None:
    texts = tuple(f"{OTHERS[0]} {place}" for place in range(count))
    assert found_among(*texts, query=IndexQuery(QUERY, limit=5, spans=spans), traits=traits).few == 0.0


def test_a_rare_word_decides_where_similarity_does_not() -> None:
    texts = ("The blue lamp was sent back cracked.", "A lamp with the number 8841-B arrived.", *OTHERS)
    found = found_among(*texts, query=IndexQuery("Why did we send back the blue cracked lamp 8841-B?", limit=5))
    assert found.few > 0.0
    assert first_of(found, texts) == texts[1]


def test_the_order_of_few_statements_does_not_depend_on_their_arrival() -> None:
    units: list[SearchUnit] = [unit(place, text) for place, text in enumerate((DECOY, ANSWER, *OTHERS))]
    one, other = (fresh(each).search(IndexQuery(QUERY, limit=5)) for each in (units, units[::-1]))
    assert [(item.unit.ref, item.score) for item in one.candidates] == [
        (item.unit.ref, item.score) for item in other.candidates
    ]
    assert one.most == other.most


@pytest.mark.parametrize("word", ["8841", "ax99217", "okafor", "abiola"])
def test_codes_and_names_of_several_pieces_are_rare(word: str) -> None:
    assert is_rare_word(word)


@pytest.mark.parametrize("word", ["school", "12", "the", "wieder", "어요", "包间"])
def test_common_words_and_parts_of_unspaced_text_are_not_rare(word: str) -> None:
    assert not is_rare_word(word)
