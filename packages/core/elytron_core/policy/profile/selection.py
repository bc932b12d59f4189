"""Selection of a profile's facts: under which names a person is known, and what a fact has to do with them."""

from collections.abc import Iterable, Sequence
from typing import Final

from elytron_core.contracts.knowledge.facts import ProfileBearing, ProfileGroup, ProfileLine
from elytron_core.planes.knowledge.long_term import Fact, Kind, Reach
from elytron_core.text import similarity

KIND_ORDER: Final = (
    Kind.PROFILE,
    Kind.CONSTRAINT,
    Kind.PREFERENCE,
    Kind.RELATIONSHIP,
    Kind.PROJECT,
    Kind.TASK,
    Kind.FACT,
)
_IS_CALLED: Final = " is called "
_BEARINGS: Final = tuple(ProfileBearing)


def names_of(person: str, facts: Iterable[Fact], /) -> tuple[str, ...]:
    """Return the names under which facts speak of `person`: that name, and those that a profile fact equates with it.

    "Ada is called Ada Lovelace" equates two names; "The user is called Ada" makes the speaker without a name Ada.
    """
    pairs = [pair for fact in facts if fact.kind is Kind.PROFILE and (pair := _equated(fact)) is not None]
    found = {similarity.normalise(person): person}
    for _ in pairs:
        for one, other in pairs:
            known = [name for name in (one, other) if similarity.normalise(name) in found]
            if len(known) == 1:
                new = other if known[0] == one else one
                found[similarity.normalise(new)] = new
    return tuple(found.values())


def bearing(fact: Fact, names: Sequence[str], /) -> ProfileBearing | None:
    """Return what a fact has to do with the person of these names, None for nothing.

    Without names it is whose memory the space is: the facts that count for its user are about that person.
    """
    if not names:
        return ProfileBearing.SUBJECT if fact.reach is not Reach.WORLD else None
    wanted = [similarity.normalise(name) for name in names]
    told = [similarity.normalise(text) for text in (fact.topic, fact.content)]
    entities = {similarity.normalise(entity) for entity in fact.entities}
    if any(name in entities or any(_begins(text, name) for text in told) for name in wanted):
        return ProfileBearing.SUBJECT
    return ProfileBearing.NAMED if any(similarity.mentions(text, name) for text in told for name in wanted) else None


def groups_of(lines: Iterable[tuple[Kind, ProfileLine]], /) -> tuple[ProfileGroup, ...]:
    """Return lines by kind, in an order that changes only when they do."""
    of: dict[Kind, list[ProfileLine]] = {kind: [] for kind in KIND_ORDER}
    for kind, line in lines:
        of[kind].append(line)
    for found in of.values():
        found.sort(key=lambda line: (_BEARINGS.index(line.bearing), line.topic, line.id))
    return tuple(ProfileGroup(kind=kind, lines=tuple(found)) for kind, found in of.items() if found)


def rank(fact: Fact, found: ProfileBearing, /) -> tuple[int, int, int, str]:
    """Return by what facts are chosen if there are more than may be shown: the least first."""
    return _BEARINGS.index(found), KIND_ORDER.index(fact.kind), -fact.confirmed_at, fact.id


def _equated(fact: Fact) -> tuple[str, str] | None:
    one, is_called, other = fact.content.partition(_IS_CALLED)
    if not is_called or not one.strip() or not other.strip():
        return None
    # "The user's cat is called Tom" names the cat, not the user.
    return None if "'" in one or "’" in one else (one.strip(), other.strip(" ."))


def _begins(text: str, name: str) -> bool:
    return text.startswith(name) if _is_unspaced(name) else f"{text} ".startswith(f"{name} ")


def _is_unspaced(name: str) -> bool:
    return not name.isascii() and similarity.signs_of(name) == (name,)
