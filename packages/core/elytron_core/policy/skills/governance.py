"""One pass over all runtime skills: duplicates are merged, states stored, unused skills pruned."""

from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from elytron_core.clock import Instant
from elytron_core.contracts.knowledge.skills import RuntimeSkillCounts
from elytron_core.planes.knowledge.procedural import Skill, SkillState
from elytron_core.policy.skills import quality
from elytron_core.policy.skills.likeness import Looks
from elytron_core.policy.skills.quality import Fate


@dataclass(frozen=True, slots=True)
class Governed:
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


def counted(skills: Iterable[Skill], *, at: Instant) -> RuntimeSkillCounts:
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


def govern(skills: Iterable[Skill], *, at: Instant, digest: Callable[[Skill], str]) -> Governed:
    """Return the changes of `skills` at `at`. `digest` represents a skill's content in the lineage of another.

    Of two equal ones the later stays and takes over the other's evidence.
    """
    found = {skill.name: skill for skill in sorted(skills, key=lambda one: one.name)}
    now = dict(found)
    merged = _merge(now, digest=digest)
    moved: list[Skill] = []
    pruned: list[Skill] = []
    for name, skill in now.items():
        if name in merged:
            continue
        match quality.fate_of(skill, at=at):
            case Fate.PRUNE:
                pruned.append(found[name])
            case Fate.MOVE:
                now[name] = skill.model_copy(update={"state": quality.state_of(skill, at=at)})
                moved.append(now[name])
            case Fate.KEEP:
                pass
    gone = {skill.name for skill in pruned}
    changed = tuple(skill for name, skill in now.items() if name not in gone and skill != found[name])
    return Governed(changed, tuple(moved), merged, tuple(pruned))


def _merge(skills: dict[str, Skill], *, digest: Callable[[Skill], str]) -> tuple[str, ...]:
    """Merge duplicates within `skills`; return the names of those that were given up."""
    standing = [
        skill for skill in skills.values() if skill.forgotten_at is None and skill.state is not SkillState.RETIRED
    ]
    standing.sort(key=lambda one: (-one.observed_at, one.name))
    looks = Looks()
    merged: list[str] = []
    for skill in standing:
        into = next(looks.twins(skill), None)
        if into is None:
            looks.put(skill)
            continue
        skills[into] = quality.merged(skills[into], skill, digest=digest(skill))
        skills[skill.name] = quality.retired(skill, by=into)
        merged.append(skill.name)
    return tuple(sorted(merged))
