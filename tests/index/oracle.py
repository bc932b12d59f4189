"""The reference implementation of search: plain Python over all units, slow and simple."""

import math
from collections import Counter
from collections.abc import Mapping, Sequence

import numpy as np
from tests.index.corpora import ANALYSER

from elytron_index import IndexQuery, SearchUnit, UnitFilters
from elytron_index.lexicon import terms

TALK_MS = 8 * 3_600_000


def may_be_seen(unit: SearchUnit, filters: UnitFilters) -> bool:
    scope = dict(unit.scope)
    moment, known = filters.as_of, filters.known_at
    return all((
        not filters.planes or unit.plane in filters.planes,
        all(scope.get(part, "") in values for part, values in filters.scope),
        moment is None or (unit.valid_from <= moment and (not unit.valid_to or moment < unit.valid_to)),
        not unit.closed_at or (known is not None and known < unit.closed_at),
        known is None or unit.recorded_at <= known,
        filters.min_trust is None or unit.trust >= filters.min_trust,
    ))  # fmt: skip


def is_asked_for(unit: SearchUnit, filters: UnitFilters) -> bool:
    return may_be_seen(unit, filters) and all((
        not filters.speakers or unit.speaker in filters.speakers,
        not filters.roles or unit.role in filters.roles,
        not filters.threads or unit.thread in filters.threads,
        filters.since is None or unit.at >= filters.since,
        filters.until is None or unit.at < filters.until,
        not filters.tags_any or bool(set(filters.tags_any) & set(unit.tags)),
        set(filters.tags_all) <= set(unit.tags),
        unit.ref not in filters.exclude,
    ))  # fmt: skip


def bm25(
    texts: Sequence[list[str]],
    terms: Sequence[str],
    *,
    k1: float,
    b: float,
    related: Mapping[str, Mapping[str, float]] | None = None,
) -> list[float]:
    """Return each text's score. The average length is that of nonempty texts; related words count in part."""
    lengths = [len(text) for text in texts if text]
    average = sum(lengths) / len(lengths) if lengths else 1.0
    counts = [Counter(text) for text in texts]
    total = [0.0] * len(texts)
    for term in terms:
        others = (related or {}).get(term, {})
        df = sum(term in count for count in counts)
        df = df or min(sum(other in count for other in others for count in counts), len(texts))
        idf = math.log(1 + (len(texts) - df + 0.5) / (df + 0.5))
        for place, count in enumerate(counts):
            tf = min(count[term], 255) + sum(share * min(count[other], 255) for other, share in others.items())
            total[place] += idf * tf * (k1 + 1) / (tf + k1 * (1 - b + b * len(texts[place]) / average))
    return total


def cosines(units: Sequence[SearchUnit], query: IndexQuery) -> list[float | None]:
    if query.vector is None:
        return [None] * len(units)
    model, data = query.vector
    asked = np.frombuffer(data, "<f4").astype(float)
    found: list[float | None] = []
    for unit in units:
        if unit.vector is None or unit.vector[0] != model:
            found.append(None)
        else:
            kept = np.frombuffer(unit.vector[1], "<f4").astype(float)
            found.append(float(asked @ kept / np.linalg.norm(asked) / np.linalg.norm(kept)))
    return found


def names(units: Sequence[SearchUnit], query: IndexQuery) -> list[str]:
    """Return the query's terms that are part of a speaker's name."""
    spoken = {term for unit in units for term in ANALYSER.terms(unit.speaker)}
    return [term for term in ANALYSER.query_terms(query.text) if term in spoken]


def kindred(units: Sequence[SearchUnit], words: Sequence[str], query: IndexQuery) -> dict[str, dict[str, float]]:
    """Return the alternatives of each word: related words that are nobody's name, or what it is a typo of."""
    said = {term for unit in units for term in ANALYSER.terms(unit.text)}
    spoken = {term for unit in units for term in ANALYSER.terms(unit.speaker)}
    found: dict[str, dict[str, float]] = {}
    for word in words:
        alike = terms.related_stems(word).items()
        found[word] = {
            other: query.weights.kin * share for other, share in alike if other in said and other not in spoken
        }
        if word not in said and not found[word] and not terms.is_known_stem(word):
            found[word] = dict.fromkeys(terms.terms_near(word, said.intersection), 1.0)
    return found


def signals(units: Sequence[SearchUnit], query: IndexQuery) -> list[dict[str, float]]:
    """Return the text signals of every unit."""
    bodies = [ANALYSER.terms(unit.text) for unit in units]
    every, named = ANALYSER.query_terms(query.text), names(units, query)
    words = [term for term in every if term not in named]
    body = bm25(bodies, words, k1=query.bm25.k1, b=query.bm25.b, related=kindred(units, words, query))
    title = bm25([ANALYSER.terms(unit.title) for unit in units], every, k1=query.bm25.k1, b=query.bm25.b)
    name = bm25(bodies, named, k1=query.bm25.k1, b=query.bm25.b)
    found: list[dict[str, float]] = []
    for place, unit in enumerate(units):
        spoken = ANALYSER.terms(unit.speaker)
        found.append({
            "body": body[place] if may_be_seen(unit, query.filters) else 0.0,
            "title": title[place],
            "name": name[place],
            "matched": float(sum(term in bodies[place] for term in every)),
            "speaker": sum(term in named for term in set(spoken)) / len(set(spoken)) if unit.speaker else 0.0,
        })  # fmt: skip
    for place, beside in enumerate(neighbourhood(units)):
        near = [other if other is not None and is_one_talk(units[place], units[other]) else None for other in beside]
        steps = zip((0.3, 0.2, 0.1, 0.1), near, strict=True)
        take = 1 / (1 + (len(units[place].text) / 300) ** 2)
        found[place]["near"] = take * sum(step * found[other]["body"] for step, other in steps if other is not None)
    return found


def time_of(unit: SearchUnit) -> int:
    """Return when a unit was said: never later than it was recorded."""
    return min(unit.at, unit.recorded_at) if unit.recorded_at else unit.at


def is_one_talk(unit: SearchUnit, other: SearchUnit) -> bool:
    return not (unit.at and other.at) or abs(time_of(unit) - time_of(other)) <= TALK_MS


def neighbourhood(units: Sequence[SearchUnit]) -> list[tuple[int | None, int | None, int | None, int | None]]:
    """Return, for each unit, the positions of its neighbours in the thread: one and two before and after."""
    places = sorted(
        range(len(units)),
        key=lambda at: (units[at].thread, units[at].order, units[at].at, units[at].ref, units[at].part),
    )
    rank = {place: at for at, place in enumerate(places)}

    def beside(place: int, step: int) -> int | None:
        at = rank[place] + step
        if not (units[place].thread and 0 <= at < len(places) and units[places[at]].thread == units[place].thread):
            return None
        return places[at]

    return [(beside(at, -1), beside(at, 1), beside(at, -2), beside(at, 2)) for at in range(len(units))]
