"""Signals of a query's intent."""

from dataclasses import replace

import pytest
from tests.index.corpora import ANALYSER, fresh

from elytron_core.policy.ranking.question import AnswerOwner
from elytron_core.policy.ranking.time_ranges import TimeSpan
from elytron_core.policy.ranking.weights import SignalWeights
from elytron_core.ports.store import DocumentRef
from elytron_core.text.traits import TextTrait
from elytron_index import Bm25Parameters, IndexQuery, SearchUnit, UnitCandidate
from elytron_index.lexicon import terms

DAY = 86_400_000


WISH, ON_OCCASION = TextTrait.STANDING, TextTrait.STANDING | TextTrait.OCCASIONAL


def unit(
    place: int,
    text: str,
    *,
    thread: str = "t",
    role: str = "user",
    speaker: str = "",
    at: int = 0,
    traits: TextTrait = TextTrait.NOTHING,
) -> SearchUnit:
    ref = DocumentRef("turn", f"{place:02x}")
    return SearchUnit(
        ref, 0, "transcript", text, thread=thread, order=place, role=role, speaker=speaker, at=at, traits=traits
    )


def by_text(units: list[SearchUnit], query: IndexQuery) -> dict[str, UnitCandidate]:
    texts = {each.ref: each.text for each in units}
    return {texts[found.unit.ref]: found for found in fresh(units).search(query).candidates}


def test_an_answer_gains_from_the_question_before_it() -> None:
    units = [unit(1, "What tea do you like?"), unit(2, "The smoky one."), unit(3, "And cake?"), unit(4, "I see tea.")]
    found = by_text(units, IndexQuery(text="tea", limit=9))
    assert found["The smoky one."].signals.answer == found["What tea do you like?"].signals.body > 0
    assert found["And cake?"].signals.answer == 0
    assert found["I see tea."].signals.answer == 0


def test_messages_at_or_soon_after_a_time_are_nearer_to_it() -> None:
    days = {
        "tea on the day": 100,
        "tea a week later": 108,
        "tea before": 98,
        "tea long after": 130,
        "tea of no time": 0,
    }
    units = [unit(place, text, thread="", at=day * DAY) for place, (text, day) in enumerate(days.items())]
    query = IndexQuery(text="tea", limit=9, spans=(TimeSpan(100 * DAY, 101 * DAY), TimeSpan(99 * DAY, 102 * DAY, 0.1)))
    worth = {text: found.signals.date for text, found in by_text(units, query).items()}
    assert worth == {
        "tea on the day": 1.0,
        "tea a week later": 0.35,
        "tea before": 0.2,
        "tea long after": 0.0,
        "tea of no time": 0.0,
    }


def test_a_unit_with_a_trait_of_the_answer_fits() -> None:
    units = [unit(1, "tea at 6"), unit(2, "tea at home")]
    found = by_text(units, IndexQuery(text="tea", limit=9, fits=TextTrait.NUMBER))
    assert (found["tea at 6"].signals.fits, found["tea at home"].signals.fits) == (1.0, 0.0)


def test_the_owners_words_count_more_only_in_conversations_with_assistants() -> None:
    alone = by_text([unit(1, "tea one"), unit(2, "tea two")], IndexQuery(text="tea", limit=9))
    assert {found.signals.owner for found in alone.values()} == {0.0}
    for role, speaker in (("assistant", ""), ("user", "Assistant")):
        units = [unit(1, "tea mine"), unit(2, "tea theirs", role=role, speaker=speaker)]
        mine, theirs = (
            by_text(units, IndexQuery(text="tea", limit=9, owner=owner))
            for owner in (AnswerOwner.USER, AnswerOwner.ASSISTANT)
        )
        assert (mine["tea mine"].signals.owner, mine["tea theirs"].signals.owner) == (1.0, 0.0)
        assert (theirs["tea mine"].signals.owner, theirs["tea theirs"].signals.owner) == (0.0, 1.0)


def test_the_later_signal_grows_with_time_among_equal_matches() -> None:
    units = [unit(place, f"tea {place}", thread="", at=place * DAY) for place in range(1, 4)]
    found = by_text(units, IndexQuery(text="tea", limit=9, weights=SignalWeights(later=1.0)))
    assert [found[f"tea {place}"].signals.later for place in range(1, 4)] == [0.0, 0.5, 1.0]


def test_further_units_of_a_thread_are_penalized_at_most_twice() -> None:
    units = [*(unit(place, "tea tea") for place in range(1, 5)), unit(9, "tea", thread="other")]
    plain = {found.unit.ref: found.score for found in fresh(units).search(IndexQuery(text="tea", limit=9)).candidates}
    spread = fresh(units).search(IndexQuery(text="tea", limit=9, weights=SignalWeights(again=0.25))).candidates
    taken = sorted(round(plain[found.unit.ref] - found.score, 6) for found in spread)
    assert taken == [0.0, 0.0, 0.25, 0.5, 0.5]


def test_a_related_word_counts_in_part_and_the_word_itself_fully() -> None:
    (pet,), (dog,) = ANALYSER.terms("pet"), ANALYSER.terms("dog")
    assert 0 < terms.related_stems(pet)[dog] < 1
    assert terms.related_stems("xyzzy") == {}
    assert all(0 < share <= 1 for word in ("pet", "famili") for share in terms.related_stems(word).values())
    units = [unit(1, "my pet sleeps", thread=""), unit(2, "my dog sleeps", thread=""), unit(3, "a stone", thread="")]
    found = by_text(units, IndexQuery(text="pet", limit=9))
    assert found["my pet sleeps"].signals.body > found["my dog sleeps"].signals.body > 0
    assert found["my dog sleeps"].signals.matched == 0
    off = by_text(units, IndexQuery(text="pet", limit=9, weights=SignalWeights(kin=0.0)))
    assert off["my dog sleeps"].signals.body == 0


def test_nobody_is_found_by_words_related_to_their_name() -> None:
    units = [unit(1, "the dog sleeps", thread="", speaker="Dog"), unit(2, "my cat", thread="")]
    found = by_text(units, IndexQuery(text="pet", limit=9))
    assert found["my cat"].signals.body > found["the dog sleeps"].signals.body == 0


def test_typos_are_matched_only_if_nothing_else_matches() -> None:
    known = {"tournament", "harbour", "tea", "letter", "better"}
    assert terms.terms_near("tournamnet", known.intersection) == ("tournament",)
    assert terms.terms_near("harbor", known.intersection) == ("harbour",)
    assert terms.terms_near("hharbour", known.intersection) == ("harbour",)
    assert terms.terms_near("lettor", known.intersection) == ("letter",)
    assert [terms.terms_near(word, known.intersection) for word in ("tee", "4417x", "etter", "tournament" * 3)] == [
        ()
    ] * 4
    units = [unit(1, "The zorblax begins", thread=""), unit(2, "A stone", thread="")]
    found = by_text(units, IndexQuery(text="zorblxa", limit=9))
    assert found["The zorblax begins"].signals.matched == 1


def test_things_of_a_kind_are_found_by_the_word_for_the_kind() -> None:
    units = [
        unit(1, "A trip to Spain", thread=""),
        unit(2, "Boxing on Mondays", thread=""),
        unit(3, "A stone", thread=""),
    ]
    countries, sports = (
        by_text(units, IndexQuery(text=text, limit=9)) for text in ("Which countries?", "What sports?")
    )
    assert [text for text, found in countries.items() if found.signals.body] == ["A trip to Spain"]
    assert [text for text, found in sports.items() if found.signals.body] == ["Boxing on Mondays"]


def test_a_question_word_counts_less_than_another_of_equal_rarity() -> None:
    units = [unit(1, "name", thread=""), unit(2, "ferry", thread=""), unit(3, "A stone", thread="")]
    query = IndexQuery(text="the name of the ferry", limit=9)
    found = by_text(units, query)
    assert found["name"].signals.body == pytest.approx(0.7 * found["ferry"].signals.body)
    alike = by_text(units, replace(query, weights=SignalWeights(asking=1.0)))
    assert alike["name"].signals.body == alike["ferry"].signals.body


def test_a_word_in_a_long_text_counts_less_than_in_a_short_one() -> None:
    long = "ferry " + " ".join(f"word{place}" for place in range(400))
    short = "the ferry " + " ".join(f"thing{place}" for place in range(20))
    units = [unit(1, long, thread=""), unit(2, short, thread="")]

    def ratio(typical: float) -> float:
        found = by_text(units, IndexQuery(text="ferry", limit=9, bm25=Bm25Parameters(typical=typical)))
        return found[long].signals.body / found[short].signals.body

    assert ratio(Bm25Parameters().typical) < 0.3 < ratio(1_000.0)


def test_standing_statements_count_for_any_request() -> None:
    wish = "Always answer in French, please."
    units = [
        unit(1, wish, thread="before", traits=WISH),
        unit(2, "Always mind the step.", role="assistant", traits=WISH),
        unit(3, "The ferry leaves at six."),
        *(unit(place, "A stone", thread=str(place)) for place in range(9, 30)),
    ]
    plain = by_text(units, IndexQuery(text="ferry", limit=30))
    assert {found.signals.standing for found in plain.values()} == {0.0}
    heeding = by_text(units, IndexQuery(text="ferry", limit=3, heeds=TextTrait.STANDING))
    assert heeding[wish].signals.standing == 1.0
    assert {found.signals.standing for text, found in heeding.items() if text != wish} == {0.0}


def test_occasional_wishes_count_only_for_related_queries() -> None:
    wish = "When I ask about the ferry, name the pier too."
    units = [
        unit(1, wish, thread="before", traits=ON_OCCASION),
        unit(2, "A blue boat.", role="assistant"),
        unit(3, "Tickets are sold at six."),
    ]

    def weighed(query: str) -> dict[str, float]:
        found = by_text(units, IndexQuery(text=query, limit=3, heeds=TextTrait.OCCASIONAL))
        return {text: each.signals.standing for text, each in found.items() if each.signals.standing}

    assert weighed("When does the ferry leave?") == {wish: 0.5}
    assert weighed("What is sold when?") == {}


def test_questions_about_a_person_favour_threads_where_they_speak() -> None:
    units = [
        unit(1, "Hello there.", thread="his", speaker="Noor"),
        unit(2, "The ferry was late.", thread="his", speaker="Ada"),
        unit(3, "The ferry was full.", thread="theirs", speaker="Bob"),
        unit(4, "And so was I.", thread="theirs", speaker="Tomas"),
    ]

    def ahead(present: float) -> float:
        found = by_text(units, IndexQuery(text="Noor ferry", limit=4, weights=SignalWeights(present=present)))
        return found["The ferry was late."].score - found["The ferry was full."].score

    assert ahead(0.5) - ahead(0.0) == pytest.approx(0.5)


def test_only_a_few_standing_statements_count_fully() -> None:
    wishes = [f"Always follow rule {place}, the ferry's." for place in range(1, 6)]
    units = [
        *(unit(place, wish, thread=f"w{place}", at=place, traits=WISH) for place, wish in enumerate(wishes, 1)),
        *(
            unit(place, f"Never break rule {place}.", thread=f"o{place}", at=place, traits=WISH)
            for place in range(11, 20)
        ),
        unit(30, "What a day.", role="assistant"),
    ]
    found = by_text(units, IndexQuery(text="ferry", limit=14, heeds=TextTrait.STANDING))
    heeded, further = (
        min(found[wish].score for wish in wishes),
        max(each.score for text, each in found.items() if text not in wishes),
    )
    plain = by_text(
        units, IndexQuery(text="ferry", limit=14, heeds=TextTrait.STANDING, weights=SignalWeights(standing=0.0))
    )
    assert heeded - min(plain[wish].score for wish in wishes) == pytest.approx(SignalWeights().standing)
    assert further <= SignalWeights().standing / 2 + max(plain[text].score for text in plain if text not in wishes)


def test_long_conversations_with_assistants_penalize_repetition_less() -> None:
    def taken(role: str) -> float:
        units = [unit(1, "green tea"), unit(2, "black tea"), unit(3, "cups", role=role)]
        apart, together = (
            by_text(units, IndexQuery(text="tea", limit=3, weights=SignalWeights(again=again))) for again in (0.0, 0.4)
        )
        return min(apart[text].score - together[text].score for text in ("green tea", "black tea")) + max(
            apart[text].score - together[text].score for text in ("green tea", "black tea")
        )

    assert taken("assistant") == pytest.approx(taken("user") * SignalWeights().again_assisted)


def test_neighbours_count_less_in_conversations_with_assistants() -> None:
    def worth(role: str) -> float:
        units = [unit(1, "green tea"), unit(2, "smoky", role=role), unit(3, "cups of tea")]
        only = replace(
            SignalWeights(), owner=0.0, near=0.0, answer=0.0, session=0.0, told=0.0, informative=0.0, few=0.0
        )
        only = replace(only, text_vectors=0.0)
        found = by_text(units, IndexQuery(text="green cups", limit=9, weights=only))
        return found["green tea"].score

    together, assisted = worth("user"), worth("assistant")
    weights = SignalWeights()
    assert together - assisted == pytest.approx(weights.window - weights.window_assisted)


def test_neighbours_share_signals_in_conversations_with_assistants() -> None:
    def lent(role: str, **weights: float) -> float:
        units = [unit(1, "smoky", role=role), unit(2, "cups of tea?"), unit(3, "green, mild")]
        bare = replace(
            SignalWeights(), owner=0.0, window=0.0, session=0.0, told=0.0, informative=0.0, near=0.0, answer=0.0
        )
        query = IndexQuery(text="cups green", limit=9, weights=bare)
        alone = by_text(units, query)["green, mild"].score
        return by_text(units, replace(query, weights=replace(bare, **weights)))["green, mild"].score - alone

    for weights in ({"near": 0.7}, {"answer": 0.5}):
        together = lent("user", **weights)
        assert lent("assistant", **weights) == pytest.approx(SignalWeights().beside_assisted * together)
        assert together > 0.0


def test_words_count_less_if_their_matches_are_unlike_the_query() -> None:
    def gap(*texts: str, query: str, misled: float) -> float:
        units = [unit(place, text) for place, text in enumerate(texts, 1)]
        found = by_text(units, IndexQuery(text=query, limit=9, weights=SignalWeights(misled=misled)))
        return found[texts[0]].score - found[texts[1]].score

    decoys = "people of the limited company sang", "the elevator carries six persons at most"
    asked = "what is the limit of people in the lift"
    assert gap(*decoys, query=asked, misled=0.5) < gap(*decoys, query=asked, misled=0.0)
    alone = "green tea with milk", "the train was late"
    assert gap(*alone, query="green tea", misled=0.5) == pytest.approx(gap(*alone, query="green tea", misled=0.0))
