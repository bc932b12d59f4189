"""Scores of what a search found."""

from elytron_core.policy.ranking import answer_score
from elytron_core.policy.ranking.answer_score import Signs
from elytron_index import Candidates


def answer_scores(found: Candidates, /) -> list[float]:
    """Return the score of each candidate, in their order; none is above the one before it."""
    return [round(score, 6) for score in answer_score.scores(signs_of(found), is_encoded=is_encoded(found))]


def answered(found: Candidates, /) -> float:
    """Return the estimate that one of the best candidates answers; 0 if nothing was found."""
    return answer_score.answered(signs_of(found), is_encoded=is_encoded(found)) if found.found else 0.0


def signs_of(found: Candidates, /) -> Signs:
    """Return the evidence of the search for its answer."""
    best = found.found[0].score if found.found else 0.0
    worth, lowest, highs = abs(best) or 1.0, found.lows.vector, found.highs
    closeness = (highs.vector - lowest) / (1.0 - lowest) if lowest < 1.0 else 1.0
    return Signs(
        strength=max(highs.text_vectors, (1.0 - found.alike) * highs.context, closeness, 0.0),
        agreement=best / found.most if found.most else 0.0,
        behind=tuple([(best - item.score) / worth for item in found.found]),
    )


def is_encoded(found: Candidates, /) -> bool:
    """Return whether an encoder had a say in what was found."""
    return found.highs.vector > 0.0
