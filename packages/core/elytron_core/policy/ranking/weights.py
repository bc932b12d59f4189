"""What speaks for a memory counts so much: the weights of recall, and the one scale for the hits of all planes.

The order inside the transcript plane is made by the index, which weighs every unit of a space at once; facts and skills
are scored by `fact_scoring` and `skill_scoring` in points of match. Here points become a strength between 0 and 1,
beside which a turn counts the share of the query's words that it holds. The weights are set by hand, each for a reason
that `docs/recall.md` tells, and are the same for every kind of conversation.
"""

from dataclasses import dataclass, replace
from typing import Final, assert_never

from elytron_core.contracts.knowledge.recall import Diversity
from elytron_core.policy.query.question import Question, Version

HALF_STRENGTH: Final = 20.0
"""The points at which a fact's or skill's match is worth one half on the common scale."""


@dataclass(frozen=True, slots=True)
class Weights:
    """How the index's signals are added up to choose which units leave it.

    Text signals are divided by the best text of the search, vector signals by the span of its cosines. What a text is
    like (told, informative, fits) counts as far as it has to do with the query; the others stand as they are.
    """

    title: float = 0.6
    name: float = 0.3
    kin: float = 0.5
    """What a word as like as can be counts beside the word itself."""
    asking: float = 0.7
    """What a word that questions are made with counts beside others as rare."""
    near: float = 0.7
    window: float = 0.75
    window_assisted: float = 0.2
    """The most that a window counts where people talk with assistants: long answers have something of everything."""
    beside_assisted: float = 0.65
    """The share of `near` and `answer` that counts there, for the same reason."""
    session: float = 0.25
    answer: float = 0.5
    vector: float = 1.0
    """Between people the words, the names and what stands beside tell more than likeness does."""
    vector_assisted: float = 1.2
    """So many times counts `vector` where people talk with assistants: in long messages words tell less."""
    passage: float = 0.6
    """How far likeness is that of the nearest passage instead of the whole, where a message was embedded in both."""
    sentence: float = 0.7
    """What it counts in a long message that its nearest sentence speaks for it, and not all of it by chance."""
    text_vectors: float = 0.8
    text_vectors_beside: float = 0.1
    """The share of `text_vectors` that counts beside an encoder."""
    likeness: float = 0.4
    """The best likeness counts in full from here on."""
    covered: float = 0.4
    """Words count in full if a unit, with those beside it, holds such a share of the query; else in proportion."""
    few: float = 60.0
    """Among a few units words, and what a text is like, count a third, and nothing beside an encoder; among so many,
    two thirds."""
    speaker: float = 0.5
    present: float = 0.5
    """Of somebody it is told where he talks himself, rather than in talks of others."""
    owner: float = 1.0
    standing: float = 1.2
    date: float = 1.0
    fits: float = 0.2
    told: float = 1.0
    informative: float = 0.5
    later: float = 0.0
    """Below 0 where the earliest is asked for."""
    again: float = 0.0
    """Taken off for each better unit of the same thread, twice at most."""
    again_assisted: float = 0.5
    """The share of `again` that counts where people talk with assistants: one long talk goes through much there."""


STANDARD: Final = Weights()
WORDED: Final = Weights(text_vectors=0.0, few=0.0)
"""For what is looked up by its words alone."""
SEVERAL: Final = Weights(speaker=0.75, again=0.2)
"""For questions whose answer stands in several conversations: what each piece has in common is whose it is."""
WIDE: Final = Weights(again=0.4)
RETOLD: Final = Weights(window=0.4, told=1.4, owner=1.2)
"""For what is to be told again: each piece stands for itself, what was said beside it is not the answer."""
LATER: Final = 0.6
"""What the last word on a matter is worth where the query asks what holds now."""


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
