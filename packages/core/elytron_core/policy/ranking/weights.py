"""The weights of recall, and the one scale for the hits of all planes.

The order inside the transcript plane is made by the index, which weighs every unit of a space at once; facts and skills
are scored by `ranking.facts` and `ranking.skills` in points of match. Here points become a strength between 0 and 1,
beside which a turn counts the share of the query's words that it holds. The weights are set by hand, each for a reason
that `docs/recall.md` gives, and are the same for every kind of conversation.
"""

from dataclasses import dataclass, replace
from typing import Final, assert_never

from elytron_core.contracts.knowledge.recall import Diversity
from elytron_core.policy.query.question import Question, Version

HALF_STRENGTH: Final = 20.0
"""The points at which a fact's or skill's match is worth one half on the common scale."""


@dataclass(frozen=True, slots=True)
class Weights:
    """Weights by which the index's signals are added up to choose the units that leave it.

    Text signals are divided by the best text of the search, vector signals by the span of its cosines. Qualities of a
    text (its statements, its length, its fit) count in proportion to its match with the query; the others in full.
    """

    title: float = 0.6
    name: float = 0.3
    kin: float = 0.5
    """The share of a word's weight that another word of the highest likeness gets."""
    asking: float = 0.7
    """The share of a word's weight that a word common in questions gets, beside others as rare."""
    near: float = 0.7
    window: float = 0.75
    window_assisted: float = 0.2
    """The most that a window counts where people talk with assistants: long answers have something of everything."""
    beside_assisted: float = 0.65
    """The share of `near` and `answer` that counts there, for the same reason."""
    session: float = 0.25
    answer: float = 0.5
    vector: float = 1.0
    """Between people the words, the names and the neighbouring units say more than likeness does."""
    vector_assisted: float = 1.2
    """The factor of `vector` where people talk with assistants: in long messages words say less."""
    passage: float = 0.6
    """The share of the nearest passage in a message's likeness, beside the whole, if it was embedded in both."""
    sentence: float = 0.7
    """The weight of a long message's nearest sentence, beside all of the message, which may match by chance."""
    text_vectors: float = 0.8
    text_vectors_beside: float = 0.1
    """The share of `text_vectors` that counts beside an encoder."""
    likeness: float = 0.4
    """The best likeness counts in full from here on."""
    covered: float = 0.4
    """Words count in full if a unit, with those beside it, holds this share of the query; else in proportion."""
    few: float = 60.0
    """Among very few units words, and the qualities of a text, count a third, and nothing beside an encoder; among this
    many, two thirds."""
    speaker: float = 0.5
    present: float = 0.5
    """A person's matters are in the conversations where that person talks, rather than in those of others."""
    owner: float = 1.0
    standing: float = 1.2
    date: float = 1.0
    fits: float = 0.2
    told: float = 1.0
    informative: float = 0.5
    later: float = 0.0
    """Below 0 if the earliest is asked for."""
    again: float = 0.0
    """Taken off for each better unit of the same thread, twice at most."""
    again_assisted: float = 0.5
    """The share of `again` that counts where people talk with assistants: one long talk goes through much there."""


STANDARD: Final = Weights()
WORDED: Final = Weights(text_vectors=0.0, few=0.0)
"""For lookups by words alone."""
SEVERAL: Final = Weights(speaker=0.75, again=0.2)
"""For questions whose answer is in several conversations: the pieces have in common whose they are."""
WIDE: Final = Weights(again=0.4)
RETOLD: Final = Weights(window=0.4, told=1.4, owner=1.2)
"""For accounts of what was said: each piece counts by itself, its neighbours are not the answer."""
LATER: Final = 0.6
"""The weight of the last word on a matter if the query asks what holds now."""


def weights_for(question: Question, diversity: Diversity, /) -> Weights:
    """Return the weights by which `question` is answered."""
    match diversity:
        case Diversity.AUTO:
            weights = SEVERAL if question.wants_several else STANDARD
        case Diversity.OFF:
            weights = STANDARD
        case Diversity.WIDE:
            weights = WIDE
        case _:
            assert_never(diversity)
    if question.retells:
        weights = replace(weights, window=RETOLD.window, told=RETOLD.told, owner=RETOLD.owner)
    later = {Version.LATEST: LATER, Version.FIRST: -LATER}.get(question.version)
    return replace(weights, later=later) if later is not None else weights


def common_scale(points: float, /) -> float:
    """Return points of match on the scale 0..1: s / (s + 20); more points never give less, none give 0."""
    return points / (points + HALF_STRENGTH) if points > 0 else 0.0
