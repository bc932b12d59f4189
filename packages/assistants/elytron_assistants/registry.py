"""The registry of projects: which keys belong to a project, its label, its last path, and the user's pins.

It is one record of the runtime's own in the person's space, so that a prompt costs one read and no tool can change it.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Final

from elytron.api import MemoryFace
from elytron.runtime import MemoryRuntime
from elytron.runtime_records import RuntimeRecords, records_of
from elytron_assistants.git_files import root_commit
from elytron_assistants.repository import ProjectIdentity, ProjectSource, RepositoryPin, repository_of, space_name
from elytron_core.errors import InvalidInput, NotFound, PreconditionFailed
from elytron_core.ids import SpaceId
from elytron_core.model import Value
from elytron_core.scope import Scope

PERSON_SPACE: Final = "person"
"""The space of what holds in all projects, unless the user names another one."""
PROJECTS_KEPT: Final = 500
_NAME: Final = (("elytron:repositories",), "registry")
_TRIES: Final = 5


class ProjectKey(Value):
    """A key of a project, where it was last found, and the first commit there."""

    space: str
    path: str = ""
    root: str | None = None


class RegisteredProject(Value):
    """A project: its space, its label, and its keys, the one used last at the end."""

    space: str
    label: str
    keys: tuple[ProjectKey, ...] = ()

    @property
    def path(self) -> str:
        """Return where the project was last found."""
        return self.keys[-1].path if self.keys else ""

    def key(self, space: str, /) -> ProjectKey:
        """Return the project's key of this name."""
        return next(key for key in self.keys if key.space == space)

    def was_at(self, place: ProjectKey, /, *, root_counts: bool) -> bool:
        """Return whether the project was at the place of a key, with its first commit unless that does not count."""
        roots = {key.root for key in self.keys if key.path == place.path}
        return bool(place.root) and place.root in roots if root_counts else bool(roots)

    @property
    def is_plain(self) -> bool:
        """True if nothing is lost without the entry: its only key gives its space."""
        return [key.space for key in self.keys] == [self.space]


class RepositoryRegistry(Value):
    """What is known of projects, the one that changed last at the end, and the user's pins."""

    projects: tuple[RegisteredProject, ...] = ()
    pins: tuple[RepositoryPin, ...] = ()

    def project(self, name: str, /) -> RegisteredProject:
        """Return the project of a space or a label. Raises NotFound, InvalidInput if several have the label."""
        named = [each for each in self.projects if each.space == name] or [
            each for each in self.projects if each.label == name
        ]
        if not named:
            raise NotFound(what="project", name=name, way_out="`elytron repo list` shows them")
        if len(named) > 1:
            spaces = ", ".join(each.space for each in named)
            raise InvalidInput(field="PROJECT", problem=f"is the label of several projects: choose from {spaces}")
        return named[0]

    def owner(self, key: str, /) -> RegisteredProject | None:
        """Return the project that a key belongs to; None if it is new."""
        return next((each for each in self.projects if any(one.space == key for one in each.keys)), None)

    def linked(self, key: ProjectKey, space: str, label: str, /) -> "RepositoryRegistry":
        """Return the registry in which `key` belongs to the project of `space`, and to no other one."""
        owner = next(
            (each for each in self.projects if each.space == space), RegisteredProject(space=space, label=label)
        )
        owner = owner.model_copy(update={"keys": (*(one for one in owner.keys if one.space != key.space), key)})
        return self.without_key(key.space).replaced(owner)

    def without_key(self, key: str, /) -> "RepositoryRegistry":
        """Return the registry in which `key` belongs to no project; a project without keys stays until it is erased."""
        freed = (
            each.model_copy(update={"keys": tuple(one for one in each.keys if one.space != key)})
            for each in self.projects
        )
        return self.model_copy(update={"projects": tuple(freed)})

    def renamed(self, space: str, label: str, /) -> "RepositoryRegistry":
        """Return the registry in which a project has another label."""
        return self.replaced(self.project(space).model_copy(update={"label": label}))

    def without(self, space: str, /) -> "RepositoryRegistry":
        """Return the registry without a project and its pins."""
        return RepositoryRegistry(
            projects=tuple(each for each in self.projects if each.space != space),
            pins=tuple(pin for pin in self.pins if pin.space != space),
        )

    def pinned(self, path: str, space: str, /) -> "RepositoryRegistry":
        """Return the registry with a pin of `path`."""
        return self.model_copy(update={"pins": (*self.unpinned(path).pins, RepositoryPin(path=path, space=space))})

    def unpinned(self, path: str, /) -> "RepositoryRegistry":
        """Return the registry without a pin of `path` itself."""
        return self.model_copy(update={"pins": tuple(pin for pin in self.pins if pin.path != path)})

    def replaced(self, project: RegisteredProject, /) -> "RepositoryRegistry":
        """Return the registry with a project in the place of that of its space, the last one; the oldest may go."""
        projects = (*(each for each in self.projects if each.space != project.space), project)
        spare = len(projects) - PROJECTS_KEPT
        if spare > 0:
            plain = {each.space for each in [one for one in projects if one.is_plain][:spare]}
            projects = tuple(each for each in projects if each.space not in plain)
        return self.model_copy(update={"projects": projects})


class ProjectMemory(Value):
    """The memory of a folder: the person's space, and the project with its space, if the folder is of one."""

    person: str
    repository: ProjectIdentity | None = None
    space: str | None = None
    label: str = ""
    keys: tuple[ProjectKey, ...] = ()
    """The keys by which the folder belongs to the project."""
    parent: str | None = None
    """The space of the repository around a submodule."""

    @property
    def spaces(self) -> tuple[str, ...]:
        """Return the spaces that are read for the folder; the first one is written to."""
        return tuple(space for space in (self.space, self.parent, self.person) if space is not None)


async def read_registry(memory: MemoryFace, person: str, /) -> RepositoryRegistry:
    """Return the registry in the person's space. Raises Unsupported for a memory on a server."""
    registry, _ = await _read_record(records_of(memory, scope=Scope(space=person)))
    return registry


async def change_registry(
    memory: MemoryFace, person: str, change: Callable[[RepositoryRegistry], RepositoryRegistry], /
) -> RepositoryRegistry:
    """Store what `change` makes of the registry, and return it; an equal one is not stored.

    Raises PreconditionFailed if others change it again and again.
    """
    records = records_of(memory, scope=Scope(space=person))
    tries = _TRIES
    while True:
        before, version = await _read_record(records)
        after = change(before)
        if after == before:
            return before
        try:
            await records.put(*_NAME, after.model_dump(mode="json", exclude_defaults=True), expected_version=version)
        except PreconditionFailed:
            tries -= 1
            if not tries:
                raise
        else:
            return after


async def project_memory(
    memory: MemoryRuntime,
    folder: Path | None,
    /,
    *,
    person: str = PERSON_SPACE,
    cwd: Path | None = None,
    pins_count: bool = True,
) -> ProjectMemory:
    """Return the memory of a folder: this is the one rule for what reads and what writes."""
    registry = await read_registry(memory, person)
    pins = registry.pins if pins_count else ()
    repository = repository_of(folder, pins=pins, cwd=cwd) if folder is not None else None
    if repository is None:
        return ProjectMemory(person=person)
    space, keys = await _space_of(memory, registry, repository)
    around = await _space_of(memory, registry, repository.parent) if repository.parent is not None else None
    return ProjectMemory(
        person=person,
        repository=repository,
        space=space,
        label=next((each.label for each in registry.projects if each.space == space), repository.label),
        keys=keys,
        parent=around[0] if around is not None else None,
    )


async def note_project(memory: MemoryRuntime, place: ProjectMemory, /) -> None:
    """Store the keys, label and path of a project that is written to, where the registry does not have them yet."""
    registry = await read_registry(memory, place.person)
    noted = [key for project in registry.projects if project.space == place.space for key in project.keys]
    if place.space is not None and not all(key in noted for key in place.keys):
        await change_registry(memory, place.person, lambda current: link_keys(current, place, str(place.space)))


def link_keys(registry: RepositoryRegistry, place: ProjectMemory, space: str, /) -> RepositoryRegistry:
    """Return the registry in which the keys of a folder belong to the project of `space`."""
    for key in place.keys:
        registry = registry.linked(key, space, place.label)
    return registry


async def _space_of(
    memory: MemoryRuntime, registry: RepositoryRegistry, repository: ProjectIdentity
) -> tuple[str, tuple[ProjectKey, ...]]:
    """Return the space of a repository's project, and the keys by which it belongs to that.

    A key that the folder had before counts as long as the first commit is the same. A new key belongs to the project
    that had this first commit at this place: its origin was added or has changed.
    """
    if repository.source is ProjectSource.PIN:
        return repository.space, ()
    key = ProjectKey(space=repository.space, path=repository.path, root=repository.root)
    owner = registry.owner(key.space)
    for name in repository.former:
        former = registry.owner(name)
        if former is None and await memory.context.spaces.find(SpaceId(name)) is None:
            continue
        if former is None or former.key(name).root in {None, "", key.root}:
            space = former.space if former is not None else name
            is_free = owner is None or owner.space == space
            return space, (key.model_copy(update={"space": name}), *((key,) if is_free else ()))
    if owner is not None and owner.key(key.space).path == key.path:
        return owner.space, (owner.key(key.space),)
    if repository.source is ProjectSource.ORIGIN:
        key = key.model_copy(update={"root": root_commit(Path(repository.path))})
    if owner is None:
        # Without an origin and a first commit that can be read, the place is all there is.
        root_counts = key.root is not None or repository.source is not ProjectSource.PATH
        owner = next((each for each in registry.projects if each.was_at(key, root_counts=root_counts)), None)
    if owner is not None:
        return owner.space, (key,)
    # A project that moved keeps its space, so its former place needs another one.
    is_taken = any(each.space == key.space and each.keys for each in registry.projects)
    return space_name(f"again:{key.space}") if is_taken else key.space, (key,)


async def _read_record(records: RuntimeRecords) -> tuple[RepositoryRegistry, int]:
    record = await records.get(*_NAME)
    if record is None:
        return RepositoryRegistry(), 0
    return RepositoryRegistry.model_validate(record.value), record.version
