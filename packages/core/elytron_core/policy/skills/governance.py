"""One pass over all runtime skills: duplicates are merged, states stored, unused skills pruned."""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Final

from elytron_core.clock import Instant
from elytron_core.contracts.skills import RuntimeSkillCounts
from elytron_core.model import Value
from elytron_core.planes import facts
from elytron_core.planes.skills import Skill, SkillState
from elytron_core.policy.skills import quality
from elytron_core.policy.skills.quality import SkillFate
from elytron_core.text import similarity as text_similarity

DUPLICATE: Final = 16
"""Points of likeness from which on two skills are one."""
COMPARED: Final = 12
WORDS: Final = 16


class LikenessPoints(Value):
    """The points for what two skills have in common; texts less alike than `floor` have nothing in common."""

    topic: float = 6
    title: float = 8
    summary: float = 6
    procedure: float = 12
    floor: float = 0.4


LIKENESS: Final = LikenessPoints()


class SkillLook:
    """The compared parts of a skill, made once: its topic and the trigrams of its texts."""

    def __init__(self, skill: Skill, /) -> None:
        self._skill = skill
        self.topic = facts.topic_key(skill.topic)

    @cached_property
    def title(self) -> frozenset[str]:
        return _text_grams(self._skill.title)

    @cached_property
    def summary(self) -> frozenset[str]:
        return _text_grams(self._skill.summary)

    @cached_property
    def procedure(self) -> frozenset[str]:
        return _text_grams(self._skill.procedure)

    @cached_property
    def keys(self) -> tuple[tuple[str, str], ...]:
        """Return under what it is looked for."""
        title = text_similarity.normalise_text(self._skill.title)
        words = dict.fromkeys((*title.split()[:WORDS], *text_similarity.words_of(title, limit=WORDS)))
        summary = text_similarity.normalise_text(self._skill.summary)
        return (
            ("topic", self.topic),
            *(("word", word) for word in words),
            *((("summary", summary),) if summary else ()),
        )


class SkillLooks:
    """Looks by name, and which of them may be like another."""

    def __init__(self) -> None:
        self._looks: dict[str, SkillLook] = {}
        self._names: dict[tuple[str, str], set[str]] = {}

    def put(self, skill: Skill, /) -> None:
        """Take `skill` in, in the place of an earlier revision."""
        self.drop(skill.name)
        look = self._looks[skill.name] = SkillLook(skill)
        for key in look.keys:
            self._names.setdefault(key, set()).add(skill.name)

    def drop(self, name: str, /) -> None:
        """Leave the skill of this name out."""
        look = self._looks.pop(name, None)
        for key in look.keys if look is not None else ():
            self._names[key].discard(name)

    def twins(self, skill: Skill, /) -> Iterator[str]:
        """Yield the names of others that say the same as `skill`, those that share most first."""
        look = SkillLook(skill)
        shared = Counter(name for key in look.keys for name in self._names.get(key, ()) if name != skill.name)
        for name in sorted(shared, key=lambda one: (-shared[one], one))[:COMPARED]:
            if is_duplicate(look, self._looks[name]):
                yield name


def skill_similarity(one: SkillLook, other: SkillLook, /) -> float:
    """Return the points of two skills' likeness, 0 to 32; if they cannot reach a duplicate's points, less is counted.

    Long texts are compared last, and only if they can still decide.
    """
    found = LIKENESS.topic * (one.topic == other.topic) + LIKENESS.title * _look_likeness(
        one.title, other.title, LIKENESS.floor
    )
    found += LIKENESS.summary * _look_likeness(one.summary, other.summary, LIKENESS.floor)
    if found + LIKENESS.procedure < DUPLICATE:
        return found
    return found + LIKENESS.procedure * _look_likeness(one.procedure, other.procedure, LIKENESS.floor)


def is_duplicate(one: SkillLook, other: SkillLook, /) -> bool:
    """Return whether two skills are one under two names."""
    return skill_similarity(one, other) >= DUPLICATE


def _text_grams(text: str) -> frozenset[str]:
    return text_similarity.text_trigrams(text_similarity.normalise_text(text))


def _look_likeness(one: frozenset[str], other: frozenset[str], floor: float) -> float:
    likeness = text_similarity.trigram_likeness(one, other)
    return likeness if likeness >= floor else 0.0


@dataclass(frozen=True, slots=True)
class GovernedSkills:
    """Skills to write, in the order of names, and skills to remove."""

    changed: tuple[Skill, ...]
    moved: tuple[Skill, ...]
    """Those whose state alone is another now."""
    merged: tuple[str, ...]
    pruned: tuple[Skill, ...]

    @property
    def is_change(self) -> bool:
        return bool(self.changed or self.pruned)

    def named(self, state: SkillState, /) -> tuple[str, ...]:
        """Return the names of those that moved to `state`."""
        return tuple(skill.name for skill in self.moved if skill.state is state)


def count_skills(skills: Iterable[Skill], *, at: Instant) -> RuntimeSkillCounts:
    """Return how many of `skills` are where in their life at `at`."""
    known = tuple(skills)
    states = Counter(quality.state_of(skill, at=at) for skill in known)
    return RuntimeSkillCounts(
        total=len(known),
        active=states[SkillState.ACTIVE],
        stale=states[SkillState.STALE],
        low_value=states[SkillState.LOW_VALUE],
        retired=states[SkillState.RETIRED],
        disabled=sum(not skill.enabled for skill in known),
        forgotten=sum(skill.forgotten_at is not None for skill in known),
        revision_pending=sum(skill.revision_pending for skill in known),
        recallable=sum(skill.is_recallable for skill in known),
    )


def govern_skills(skills: Iterable[Skill], *, at: Instant, digest: Callable[[Skill], str]) -> GovernedSkills:
    """Return the changes of `skills` at `at`. `digest` represents a skill's content in the lineage of another.

    Of two equal ones the later stays and takes over the other's evidence.
    """
    found = {skill.name: skill for skill in sorted(skills, key=lambda one: one.name)}
    now = dict(found)
    merged = _merge_duplicates(now, digest=digest)
    moved: list[Skill] = []
    pruned: list[Skill] = []
    for name, skill in now.items():
        if name in merged:
            continue
        match quality.fate_of(skill, at=at):
            case SkillFate.PRUNE:
                pruned.append(found[name])
            case SkillFate.MOVE:
                now[name] = skill.model_copy(update={"state": quality.state_of(skill, at=at)})
                moved.append(now[name])
            case SkillFate.KEEP:
                pass
    gone = {skill.name for skill in pruned}
    changed = tuple(skill for name, skill in now.items() if name not in gone and skill != found[name])
    return GovernedSkills(changed, tuple(moved), merged, tuple(pruned))


def _merge_duplicates(skills: dict[str, Skill], *, digest: Callable[[Skill], str]) -> tuple[str, ...]:
    """Merge duplicates within `skills`; return the names of those that were given up."""
    standing = [
        skill for skill in skills.values() if skill.forgotten_at is None and skill.state is not SkillState.RETIRED
    ]
    standing.sort(key=lambda one: (-one.observed_at, one.name))
    looks = SkillLooks()
    merged: list[str] = []
    for skill in standing:
        into = next(looks.twins(skill), None)
        if into is None:
            looks.put(skill)
            continue
        skills[into] = quality.merge_skills(skills[into], skill, digest=digest(skill))
        skills[skill.name] = quality.retire_skill(skill, by=into)
        merged.append(skill.name)
    return tuple(sorted(merged))
