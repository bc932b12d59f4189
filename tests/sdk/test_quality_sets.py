"""The shipped sets are complete, and the simple sums used for comparison match their names."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest
from benchmarks.answer_score import Asked, Group, asked_of, chances, fitted, scores_of
from benchmarks.quality import Measured, measure
from benchmarks.quality_languages import decoys, other_language, own_language, with_others
from benchmarks.quality_ordinary import Half, ordinary, small
from benchmarks.quality_sets import ELSEWHERE, NOTHING, Question, Told, Turn
from benchmarks.quality_sums import Likeness, Meaning, Share, Sum
from benchmarks.quality_systems import Found, Plain

from elytron_core.policy.ranking.weights import AnswerSigns
from elytron_core.ports.models import EmbedderInfo

pytestmark = pytest.mark.anyio

SAID = ("the blue kettle broke", "yes", "we fly to Porto in May")
TOLD = Told(
    "talk",
    tuple(Turn(f"t{place}", "main", "Ada", "user", None, text) for place, text in enumerate(SAID)),
    (Question("fact", "kettle?", frozenset({"t0"})), Question(NOTHING, "zebra?", frozenset())),
)


class Directions:
    """Gives each known text a direction of its own."""

    info = EmbedderInfo(name="directions-1", dimensions=3)
    known = ("the blue kettle broke", "yes", "we fly to Porto in May", "where to?")
    numbers = ((1.0, 0.0, 0.0), (0.0, 2.0, 0.0), (0.0, 0.0, 3.0), (0.6, 0.0, 0.8))

    async def embed_documents(self, texts: Sequence[str], /) -> Sequence[Sequence[float]]:
        return [await self.embed_query(text) for text in texts]

    async def embed_query(self, text: str, /) -> Sequence[float]:
        return self.numbers[self.known.index(text)]


@pytest.mark.parametrize("half", ["fit", "held"])
def test_a_half_of_the_small_spaces_has_sixty_facts_and_sixty_unanswerable_questions(half: Half) -> None:
    kinds = Counter(question.kind for told in small(half) for question in told.questions)
    assert (kinds[NOTHING], kinds[ELSEWHERE]) == (30, 30)
    assert kinds.total() == 120


@pytest.mark.parametrize("half", ["fit", "held"])
def test_a_half_of_each_ordinary_conversation_has_twenty_answered_questions_of_eight_kinds(half: Half) -> None:
    for told in ordinary(half):
        kinds = Counter(question.kind for question in told.questions)
        assert (kinds.pop(NOTHING), kinds.pop(ELSEWHERE)) == (10, 10)
        assert (len(kinds), kinds.total()) == (8, 20)


def test_the_halves_of_a_conversation_share_turns_but_no_question() -> None:
    for one, other in zip(ordinary("fit"), ordinary("held"), strict=True):
        assert one.turns == other.turns
        assert not set(one.questions) & set(other.questions)


@pytest.mark.parametrize("half", ["fit", "held"])
def test_a_half_of_the_languages_has_at_least_six_languages_and_no_space_of_the_other(half: Half) -> None:
    other: Half = "held" if half == "fit" else "fit"
    assert len({question.kind for told in own_language(half) for question in told.questions}) >= 6
    for sets in (own_language, other_language, decoys):
        assert not {told.name for told in sets(half)} & {told.name for told in sets(other)}


async def test_similarity_is_the_plain_cosine() -> None:
    system = Sum((1.0, Likeness(Directions())))
    await system.tell(TOLD)
    assert await system.ask(TOLD, "where to?", 3) == [Found("t2", 0.8), Found("t0", 0.6)]


async def test_a_neighbour_contributes_a_share_of_its_score() -> None:
    system = Sum((1.0, Likeness(Directions())), around=0.5)
    await system.tell(TOLD)
    found = await system.ask(TOLD, "where to?", 3)
    assert [(each.id, round(each.score, 6)) for each in found] == [("t2", 0.8), ("t1", 0.7), ("t0", 0.6)]


async def test_text_vectors_find_texts_without_shared_words() -> None:
    system = Sum((1.0, Meaning()))
    await system.tell(TOLD)
    found = await system.ask(TOLD, "When does the journey to Portugal begin?", 3)
    assert found[0].id == "t2"
    assert 0.0 < found[0].score < 1.0


async def test_bm25_distinguishes_only_by_words() -> None:
    system = Plain()
    await system.tell(TOLD)
    found = await system.ask(TOLD, "the kettle and the journey to Portugal", 3)
    assert [each.id for each in found if each.score > 0.0] == ["t0"]


async def test_a_bm25_share_stays_below_one_and_counts_missing_words() -> None:
    share = Share()
    await share.tell(TOLD)
    known, half_known = [float((await share.numbers(TOLD, text))[0]) for text in ("kettle", "kettle zebra")]
    assert 0.0 < half_known < known < 1.0


async def test_scores_without_a_hit_rank_below_all_others() -> None:
    measured = await measure(Sum((1.0, Share())), [TOLD])
    assert (measured.shown, measured.false, measured.auroc(NOTHING)) == ([1.0], [0.0], 1.0)


async def test_a_wrong_first_hit_ranks_below_every_unanswerable_question() -> None:
    question = Question("fact", "kettle?", frozenset({"t2"}))
    measured = await measure(Plain(), [replace(TOLD, questions=(question, TOLD.questions[1]))])
    assert (measured.shown, measured.auroc(NOTHING)) == ([1.0], 0.0)


async def test_unanswerable_questions_are_borrowed_from_others_in_the_same_language() -> None:
    for told, asked in zip(own_language("fit"), with_others(own_language("fit")), strict=True):
        others = asked.questions[len(told.questions) :]
        assert {each.kind for each in others} <= {ELSEWHERE}
        assert not {each.text for each in others} & {each.text for each in told.questions}
    assert sum(len(told.questions) for told in with_others(other_language("fit"))) > 40


def test_ties_count_half_in_the_chance_of_a_higher_score() -> None:
    measured = Measured({}, answered=[0.5, 0.2], right=[0.5, 0.2], unanswered={NOTHING: [0.5, 0.1]}, took_ms=[])
    assert (measured.auroc(NOTHING), measured.auroc(ELSEWHERE)) == (0.625, None)


async def test_the_score_signals_match_the_hits_of_each_question() -> None:
    kettle, zebra = await asked_of([TOLD], None)
    assert (kettle.is_answered, kettle.evidence.tolist()) == (True, [True, False, False])
    assert (zebra.is_answered, zebra.evidence.any()) == (False, False)
    assert kettle.signs.evidence > zebra.signs.evidence
    assert [len(one.signs.behind) for one in (kettle, zebra)] == [len(SAID)] * 2


def test_score_statistics_separate_answers_from_others() -> None:
    signs = [AnswerSigns(place / 10, 1.0, (0.0, 0.1, 0.3)) for place in range(10)]
    asked = [Asked(one, np.array([one.strength > 0.5, False, False]), one.strength > 0.5) for one in signs]
    group = Group.of(asked)
    assert group.worth.sum() == pytest.approx(1.0)
    estimate = fitted(Group.joined([group]))
    assert (np.diff(chances(group, estimate)) > 0.0).all()
    scores, gold, worth = scores_of(group, estimate)
    assert scores[gold > 0.0].min() > scores[gold == 0.0].max()
    assert len(worth) == len(scores) == 30
