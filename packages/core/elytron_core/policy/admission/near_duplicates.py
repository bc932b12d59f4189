"""Facts that say nearly the same: found by character trigrams, folded into the surest, and brought back whole."""

from collections.abc import Sequence
from typing import Final, NamedTuple

from elytron_core import limits
from elytron_core.clock import Instant
from elytron_core.planes.knowledge import long_term
from elytron_core.planes.knowledge.long_term import Confidence, Fact, State
from elytron_core.text import similarity

ALIKE: Final = 0.9
"""Contents at least so like each other say the same; a changed number or name makes short facts less alike."""
BECAUSE: Final = "folded into a fact that says nearly the same"
_SURENESS: Final = {Confidence.LOW: 0, Confidence.MEDIUM: 1, Confidence.HIGH: 2}


class Alike(NamedTuple):
    """Two facts of which one can go into the other."""

    kept: Fact
    folded: Fact
    likeness: float


def likest(content: str, kind: long_term.Kind, facts: Sequence[Fact], /) -> Fact | None:
    """Return the current fact of this kind that nearly equals `content`, None if there is none."""
    text = similarity.normalise(content)
    grams, numbers = similarity.trigrams(text), _numbers(text)
    best: tuple[float, Fact] | None = None
    for fact in facts:
        if fact.kind is not kind or not fact.is_current:
            continue
        other = similarity.normalise(fact.content)
        likeness = similarity.likeness(grams, similarity.trigrams(other))
        if likeness >= ALIKE and _numbers(other) == numbers and (best is None or likeness > best[0]):
            best = (likeness, fact)
    return best[1] if best is not None else None


def pairs(facts: Sequence[Fact], /, *, limit: int) -> tuple[Alike, ...]:
    """Return up to `limit` pairs of current facts that say nearly the same; each is folded once at most.

    Both are of one kind, privacy, reach and validity, and name the same numbers. The surer is kept, then the one
    with more evidence, then the later observed.
    """
    held: dict[tuple[object, ...], list[tuple[Fact, frozenset[str]]]] = {}
    found: list[Alike] = []
    for fact in sorted(facts, key=_worth, reverse=True):
        if not fact.is_current:
            continue
        text = similarity.normalise(fact.content)
        alike = (fact.kind, fact.privacy, fact.reach, fact.home, fact.valid_from, fact.valid_to, _numbers(text))
        group = held.setdefault(alike, [])
        grams = similarity.trigrams(text)
        like = max(
            ((similarity.likeness(grams, other), kept) for kept, other in group), default=None, key=lambda p: p[0]
        )
        if like is not None and like[0] >= ALIKE:
            found.append(Alike(like[1], fact, like[0]))
            if len(found) == limit:
                break
        else:
            group.append((fact, grams))
    return tuple(found)


def fold(kept: Fact, folded: Fact, /, *, at: Instant) -> tuple[Fact, Fact]:
    """Return `kept` with the other's evidence counted in, and `folded` closed; nothing of either is lost.

    Citations are added while `kept` has room for them.
    """
    lent = tuple(citation for citation in folded.citations if citation not in kept.citations)
    room = max(0, limits.FACT_CITATIONS - len(kept.citations))
    surer = kept.model_copy(
        update={
            "evidence_count": kept.evidence_count + folded.evidence_count,
            "citations": (*kept.citations, *lent[:room]),
            "confirmed_at": max(kept.confirmed_at, folded.confirmed_at),
        }
    )
    closed = long_term.close(folded, at=at, because=BECAUSE, state=State.MERGED, by=kept.id)
    return surer, closed.model_copy(update={"lent": lent[:room], "confirmed_before": kept.confirmed_at})


def unfold(kept: Fact, folded: Fact, /) -> tuple[Fact, Fact]:
    """Return both facts as they were before `folded` went into `kept`, with what `kept` gained since."""
    alone = kept.model_copy(
        update={
            "evidence_count": max(kept.evidence_count - folded.evidence_count, 1),
            "citations": tuple(citation for citation in kept.citations if citation not in folded.lent),
            "confirmed_at": folded.confirmed_before
            if folded.confirmed_before is not None and kept.confirmed_at == folded.confirmed_at
            else kept.confirmed_at,
        }
    )
    back = {
        "state": State.ACTIVE,
        "closed_at": None,
        "closed_because": None,
        "superseded_by": None,
        "lent": (),
        "confirmed_before": None,
    }
    return alone, folded.model_copy(update=back)


def _numbers(text: str) -> tuple[str, ...]:
    return tuple(word for word in text.split() if any(sign.isdigit() for sign in word))


def _worth(fact: Fact) -> tuple[int, int, int, str]:
    return _SURENESS[fact.confidence], fact.evidence_count, fact.observed_at, fact.id
