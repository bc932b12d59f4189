"""The registry of projects: the keys that belong to a project, its label, its last path, and the user's pins.

It is one runtime record in the person's space, so a prompt costs one read and no tool can change it.
"""

from collections.abc import Callable, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Final

from elytron.api import MemoryFace
from elytron.runtime import MemoryRuntime
from elytron.runtime_records import RuntimeRecords, records_of
from elytron_assistants.git_files import root_commit
from elytron_assistants.project_identity import ProjectIdentity, ProjectSource, repository_of, space_name
from elytron_core.errors import InvalidInput, NotFound, PreconditionFailed
from elytron_core.ids import SpaceId
from elytron_core.model import Value
from elytron_core.scope import Scope

PERSON_SPACE: Final = "person"
"""The space of what holds in all projects, unless the user names another one."""
KEYS_KEPT: Final = 1_000
_NAME: Final = (("elytron:repositories",), "registry")
_TRIES: Final = 20
_NO_ROOT: Final = frozenset({None, ""})
_OTHER_HISTORY: Final = (
    "This folder shares the memory of {label} with {path}, because both name the same origin, but their first commits"
    " differ or cannot be read. If they do not belong together, run `elytron repo isolate` here."
)


class ProjectKey(Value):
    """A key of a project: the project's space, where the key was last found, and the first commit there."""

    space: str
    path: str = ""
    root: str | None = None


class RepositoryRegistry(Value):
    """What is known of projects: the project of each key, the label of each project, and the user's pins."""

    keys: dict[str, ProjectKey] = {}
    labels: dict[str, str] = {}
    """Labels by the space of the project."""
    pins: dict[str, str] = {}
    """Spaces by the path that belongs to them, whatever lies there."""

    def space_named(self, name: str, /) -> str:
        """Return the space of the project of this label or space. Raises NotFound, InvalidInput for several."""
        spaces = [name] if name in self.labels else [space for space, label in self.labels.items() if label == name]
        if not spaces:
            raise NotFound(what="project", name=name, way_out="`elytron repo list` shows them")
        if len(spaces) > 1:
            raise InvalidInput(field="PROJECT", problem=f"is the label of several projects: name {' or '.join(spaces)}")
        return spaces[0]

    def changed(
        self,
        *,
        keys: Mapping[str, ProjectKey | None] = MappingProxyType({}),
        labels: Mapping[str, str | None] = MappingProxyType({}),
        pins: Mapping[str, str | None] = MappingProxyType({}),
    ) -> "RepositoryRegistry":
        """Return the registry with these entries; what is None is removed."""
        merged = {name: key for name, key in {**self.keys, **keys}.items() if key is not None}
        # Only of keys that the folder gives again is an entry let go.
        spare = [name for name, key in merged.items() if name == key.space][: max(len(merged) - KEYS_KEPT, 0)]
        return RepositoryRegistry(
            keys={name: key for name, key in merged.items() if name not in spare},
            labels={name: label for name, label in {**self.labels, **labels}.items() if label is not None},
            pins={path: space for path, space in {**self.pins, **pins}.items() if space is not None},
        )

    def linked(self, place: "ProjectMemory", space: str, /) -> "RepositoryRegistry":
        """Return the registry in which the keys of a folder belong to the project of `space`."""
        keys = {name: key.model_copy(update={"space": space}) for name, key in place.keys.items()}
        return self.changed(keys=keys, labels={space: self.labels.get(space, place.label)})

    def without(self, space: str, /) -> "RepositoryRegistry":
        """Return the registry without a project, its keys and its pins."""
        return self.changed(
            keys={name: None for name, key in self.keys.items() if key.space == space},
            labels={space: None},
            pins={path: None for path, other in self.pins.items() if other == space},
        )


class ProjectMemory(Value):
    """The memory of a folder: the person's space, and the project with its space, if the folder is of one."""

    person: str
    repository: ProjectIdentity | None = None
    space: str | None = None
    label: str = ""
    keys: dict[str, ProjectKey] = {}
    """The keys by which the folder belongs to the project."""
    parent: str | None = None
    """The space of the repository around a submodule."""
    other_path: str = ""
    """Where the project was used before, if it shares only its origin with the folder: one of them may be forged."""

    @property
    def spaces(self) -> tuple[str, ...]:
        """Return the spaces that are read for the folder; the first one is written to."""
        return tuple(space for space in (self.space, self.parent, self.person) if space is not None)

    @property
    def notice(self) -> str:
        """Return what the person should know about the folder's memory; empty if there is nothing."""
        return _OTHER_HISTORY.format(label=self.label, path=self.other_path) if self.other_path else ""


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
    pins = registry.pins if pins_count else {}
    repository = repository_of(folder, pins=pins, cwd=cwd) if folder is not None else None
    if repository is None:
        return ProjectMemory(person=person)
    space, keys = await _space_of(memory, registry, repository)
    around = await _space_of(memory, registry, repository.parent) if repository.parent is not None else None
    return ProjectMemory(
        person=person,
        repository=repository,
        space=space,
        label=registry.labels.get(space, repository.label),
        keys=keys,
        parent=around[0] if around is not None else None,
        other_path=_other_path(registry, repository, keys.get(repository.space)),
    )


def _other_path(registry: RepositoryRegistry, repository: ProjectIdentity, key: ProjectKey | None) -> str:
    """Return where a project was used last, if that is another place with the same origin and another history."""
    stored = registry.keys.get(repository.space)
    if key is None or stored is None or repository.source is not ProjectSource.ORIGIN:
        return ""
    is_other = stored.path != key.path and bool(stored.root) and stored.root != key.root
    return stored.path if is_other else ""


async def note_project(memory: MemoryRuntime, place: ProjectMemory, /) -> None:
    """Store the keys, label and path of a project that is written to, where the registry does not have them yet."""
    space = place.space
    if space is not None and not place.keys.items() <= (await read_registry(memory, place.person)).keys.items():
        await change_registry(memory, place.person, lambda registry: registry.linked(place, space))


async def _space_of(
    memory: MemoryRuntime, registry: RepositoryRegistry, repository: ProjectIdentity
) -> tuple[str, dict[str, ProjectKey]]:
    """Return the space of a repository's project, and the keys by which it belongs to that.

    A key that the folder had before counts as long as the first commit is the same. A new key belongs to the project
    that had this first commit at this place: its origin was added or has changed.
    """
    if repository.source is ProjectSource.PIN:
        return repository.space, {}
    own, path, root = repository.space, repository.path, repository.root
    stored = registry.keys.get(own)
    for name in repository.former:
        former = registry.keys.get(name)
        if former is None and await memory.context.spaces.find(SpaceId(name)) is None:
            continue
        if former is None or former.root in {*_NO_ROOT, root}:
            key = ProjectKey(space=former.space if former is not None else name, path=path, root=root)
            return key.space, {name: key} | ({own: key} if stored is None or stored.space == key.space else {})
    if stored is not None and stored.path == path:
        return stored.space, {own: stored}
    if repository.source is ProjectSource.ORIGIN:
        root = root_commit(Path(path))
    if stored is not None:
        space = stored.space
    else:
        # Without an origin and a first commit that can be read, the place is all there is.
        is_place_alone = root is None and repository.source is ProjectSource.PATH
        same = (key for key in registry.keys.values() if key.path == path)
        there = next((key for key in same if is_place_alone or (root and key.root == root)), None)
        # A project that moved keeps its space, so its former place needs another one.
        is_taken = any(key.space == own for key in registry.keys.values())
        space = there.space if there is not None else space_name(f"again:{own}") if is_taken else own
    return space, {own: ProjectKey(space=space, path=path, root=root)}


async def _read_record(records: RuntimeRecords) -> tuple[RepositoryRegistry, int]:
    record = await records.get(*_NAME)
    if record is None:
        return RepositoryRegistry(), 0
    return RepositoryRegistry.model_validate(record.value), record.version
