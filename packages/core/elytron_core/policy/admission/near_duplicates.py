"""Near duplicates among facts: found by their texts, folded into one, and unfolded again."""

from collections.abc import Sequence
from typing import Final, NamedTuple

from elytron_core import limits
from elytron_core.clock import Instant
from elytron_core.planes import facts
from elytron_core.planes.facts import (
    Fact,
    FactConfidence,
    FactState,
)
from elytron_core.text import similarity

ALIKE: Final = 0.9
"""Contents at least this similar say the same; a changed number or name makes short facts less similar."""


BECAUSE: Final = "merged into a fact that says nearly the same thing"


_SURENESS: Final = {FactConfidence.LOW: 0, FactConfidence.MEDIUM: 1, FactConfidence.HIGH: 2}


class SimilarFacts(NamedTuple):
    """Two facts of which one can be merged into the other."""

    surviving: Fact
    folded: Fact
    likeness: float


def most_similar_fact(content: str, kind: facts.FactKind, facts: Sequence[Fact], /) -> Fact | None:
    """Return the current fact of this kind that nearly equals `content`, None if there is none."""
    text = similarity.normalise_text(content)
    grams, numbers = similarity.text_trigrams(text), _text_numbers(text)
    best_match: tuple[float, Fact] | None = None
    for fact in facts:
        if fact.kind is not kind or not fact.is_current:
            continue
        other_text = similarity.normalise_text(fact.content)
        likeness = similarity.trigram_likeness(grams, similarity.text_trigrams(other_text))
        if (
            likeness >= ALIKE
            and _text_numbers(other_text) == numbers
            and (best_match is None or likeness > best_match[0])
        ):
            best_match = (likeness, fact)
    return best_match[1] if best_match is not None else None


def similar_pairs(facts: Sequence[Fact], /, *, limit: int) -> tuple[SimilarFacts, ...]:
    """Return up to `limit` pairs of current facts that say nearly the same; each fact is merged at most once."""
    facts_by_key: dict[tuple[object, ...], list[tuple[Fact, frozenset[str]]]] = {}
    pairs: list[SimilarFacts] = []
    # Surest first, so that a fact is only merged into a surer one.
    for fact in sorted(facts, key=_fact_worth, reverse=True):
        if not fact.is_current:
            continue
        text = similarity.normalise_text(fact.content)
        # Facts that differ in one of these are never merged, which keeps the groups small.
        group_key = (
            fact.kind,
            fact.privacy,
            fact.reach,
            fact.home,
            fact.valid_from,
            fact.valid_to,
            _text_numbers(text),
        )
        group = facts_by_key.setdefault(group_key, [])
        grams = similarity.text_trigrams(text)
        closest_match = max(
            (
                (similarity.trigram_likeness(grams, earlier_grams), earlier_fact)
                for earlier_fact, earlier_grams in group
            ),
            default=None,
            key=lambda match: match[0],
        )
        if closest_match is not None and closest_match[0] >= ALIKE:
            pairs.append(SimilarFacts(closest_match[1], fact, closest_match[0]))
            if len(pairs) == limit:
                break
        else:
            group.append((fact, grams))
    return tuple(pairs)


def fold_facts(target: Fact, folded_fact: Fact, /, *, at: Instant) -> tuple[Fact, Fact]:
    """Return `target` with the other fact's evidence added, and `folded_fact` closed; nothing of either is lost.

    Citations are added while `target` has room for them.
    """
    # Recorded with the merged fact, so that undoing the merge removes only these.
    lent_citations = tuple(citation for citation in folded_fact.citations if citation not in target.citations)
    citation_room = max(0, limits.FACT_CITATIONS - len(target.citations))
    merged_fact = target.model_copy(
        update={
            "evidence_count": target.evidence_count + folded_fact.evidence_count,
            "citations": (*target.citations, *lent_citations[:citation_room]),
            "confirmed_at": max(target.confirmed_at, folded_fact.confirmed_at),
        }
    )
    closed_fact = facts.close_fact(folded_fact, at=at, because=BECAUSE, state=FactState.MERGED, by=target.id)
    return merged_fact, closed_fact.model_copy(
        update={"lent": lent_citations[:citation_room], "confirmed_before": target.confirmed_at}
    )


def unfold_facts(target: Fact, folded_fact: Fact, /) -> tuple[Fact, Fact]:
    """Return both facts as before the merge of `folded_fact` into `target`, plus what `target` gained since."""
    restored_target = target.model_copy(
        update={
            "evidence_count": max(target.evidence_count - folded_fact.evidence_count, 1),
            "citations": tuple(citation for citation in target.citations if citation not in folded_fact.lent),
            # A confirmation that came after the merge belongs to the remaining fact and stays.
            "confirmed_at": folded_fact.confirmed_before
            if folded_fact.confirmed_before is not None and target.confirmed_at == folded_fact.confirmed_at
            else target.confirmed_at,
        }
    )
    reopened_fields = {
        "state": FactState.ACTIVE,
        "closed_at": None,
        "closed_because": None,
        "superseded_by": None,
        "lent": (),
        "confirmed_before": None,
    }
    return restored_target, folded_fact.model_copy(update=reopened_fields)


def _text_numbers(text: str) -> tuple[str, ...]:
    return tuple(word for word in text.split() if any(char.isdigit() for char in word))


def _fact_worth(fact: Fact) -> tuple[int, int, int, str]:
    return _SURENESS[fact.confidence], fact.evidence_count, fact.ordered_at, fact.id
