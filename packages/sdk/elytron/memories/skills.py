"""The runtime skills of a space, read for one operation."""

from collections.abc import Iterable, Iterator

from elytron.context import OperationContext
from elytron.documents.change_set import Changes
from elytron.documents.stored_values import documents_at
from elytron_core import limits
from elytron_core.errors import NotFound
from elytron_core.ids import SpaceId
from elytron_core.planes.knowledge.procedural import SKILLS, Skill, SkillState
from elytron_core.planes.space import SpaceRecord
from elytron_core.policy.skills.likeness import Looks
from elytron_core.ports.store import Action, Document, Ref


class SkillShelf:
    """Skills with their revisions, and what is changed of them; a skill reads back as it was last put."""

    def __init__(self, record: SpaceRecord, documents: Iterable[Document], /) -> None:
        self._record = record
        self.changes = Changes(record)
        self._skills: dict[str, tuple[Skill, int]] = {}
        self._looks: Looks | None = None
        for document in documents:
            skill = Skill.from_bytes(document.body)
            self._skills[skill.name] = (skill, document.revision)

    def get(self, name: str, /) -> Skill | None:
        """Return the skill of this name."""
        found = self._skills.get(name)
        return found[0] if found is not None else None

    def must_get(self, name: str, /) -> Skill:
        """Return the skill of this name. Raises NotFound."""
        skill = self.get(name)
        if skill is None:
            raise NotFound(what="runtime skill", name=name)
        return skill

    def __iter__(self) -> Iterator[Skill]:
        """Yield the skills by name, so that what is decided never depends on their keys."""
        return (self._skills[name][0] for name in sorted(self._skills))

    def ref(self, skill: Skill, /) -> Ref:
        """Return the reference of `skill`."""
        return Ref(SKILLS, skill.id)

    def revision(self, skill: Skill, /) -> int:
        """Return the revision at which `skill` was found; 0 if it is new."""
        return self._skills[skill.name][1] if skill.name in self._skills else 0

    def put(self, skill: Skill, action: Action, /) -> None:
        """Write `skill`, new or changed."""
        revision = self.revision(skill)
        self._skills[skill.name] = (skill, revision)
        if self._looks is not None:
            _look_at(self._looks, skill)
        self.changes.put(self.ref(skill), skill, expects=revision, action=action)

    def twins(self, skill: Skill, /) -> list[Skill]:
        """Return the other current skills that equal `skill`, by name.

        A disabled one counts, so that it is not learned again; a forgotten or retired one does not.
        """
        if self._looks is None:
            self._looks = Looks()
            for known in self:
                _look_at(self._looks, known)
        return [self.must_get(name) for name in sorted(self._looks.twins(skill))]

    def digest(self, skill: Skill, /) -> str:
        """Return the digest of `skill`'s content in its lineage."""
        return self._record.digest(skill.content.encode("utf-8"))


def _look_at(looks: Looks, skill: Skill) -> None:
    """Add `skill` to those that others are compared with, or remove it if it is no longer current."""
    if skill.forgotten_at is None and skill.state is not SkillState.RETIRED:
        looks.put(skill)
    else:
        looks.drop(skill.name)


async def shelf_of(ctx: OperationContext, space: SpaceId, record: SpaceRecord, names: Iterable[str], /) -> SkillShelf:
    """Return a shelf with the skills of these names."""
    refs = [Ref(SKILLS, record.skill_tag(name)) for name in names]
    return SkillShelf(record, (await documents_at(ctx.store, space, refs)).values())


async def whole_shelf(
    ctx: OperationContext, space: SpaceId, record: SpaceRecord, /, *, names: Iterable[str] = ()
) -> SkillShelf:
    """Return a shelf with the skills of the space, `limits.SKILLS_COMPARED` at most, and those of `names` for sure."""
    documents = {
        document.ref: document for document in await ctx.store.scan(space, SKILLS, limit=limits.SKILLS_COMPARED)
    }
    if len(documents) == limits.SKILLS_COMPARED:
        refs = [ref for name in names if (ref := Ref(SKILLS, record.skill_tag(name))) not in documents]
        documents |= await documents_at(ctx.store, space, refs)
    return SkillShelf(record, documents.values())
