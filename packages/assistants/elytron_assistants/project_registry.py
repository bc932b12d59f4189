"""The project registry: each project's keys, label and last path, and the user's pins.

It is a single runtime record in the person's space, so a prompt costs one read and tools cannot change it.
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
"""Default name of the space for what applies to all projects."""
KEYS_KEPT: Final = 1_000
_NAME: Final = (("elytron:repositories",), "registry")
_TRIES: Final = 20
_NO_ROOT: Final = frozenset({None, ""})
_OTHER_HISTORY: Final = (
    "This folder shares the memory of {label} with {path}, because both name the same origin, but their first commits"
    " differ or cannot be read. If they do not belong together, run `elytron repo isolate` here."
)


class ProjectKey(Value):
    """A project key: the project's space, the path where the key was last seen, and the first commit there."""

    space: str
    path: str = ""
    root: str | None = None


class RepositoryRegistry(Value):
    """All known projects: space by key, label by space, and the user's pins."""

    keys: dict[str, ProjectKey] = {}
    labels: dict[str, str] = {}
    """Label by project space."""
    pins: dict[str, str] = {}
    """Space by pinned path. A pin applies whatever the path contains."""

    def space_named(self, name: str, /) -> str:
        """Return the space of the project with this label or space name.

        Raises NotFound, or InvalidInput if several projects have the label.
        """
        spaces = [name] if name in self.labels else [space for space, label in self.labels.items() if label == name]
        if not spaces:
            raise NotFound(what="project", name=name, way_out="`elytron repo list` shows them")
        if len(spaces) > 1:
            raise InvalidInput(field="PROJECT", problem=f"is the label of several projects: pass {' or '.join(spaces)}")
        return spaces[0]

    def changed(
        self,
        *,
        keys: Mapping[str, ProjectKey | None] = MappingProxyType({}),
        labels: Mapping[str, str | None] = MappingProxyType({}),
        pins: Mapping[str, str | None] = MappingProxyType({}),
    ) -> "RepositoryRegistry":
        """Return a copy with these entries added or replaced; None removes an entry."""
        merged = {name: key for name, key in {**self.keys, **keys}.items() if key is not None}
        # Only drop keys that can be derived from the folder again.
        spare = [name for name, key in merged.items() if name == key.space][: max(len(merged) - KEYS_KEPT, 0)]
        return RepositoryRegistry(
            keys={name: key for name, key in merged.items() if name not in spare},
            labels={name: label for name, label in {**self.labels, **labels}.items() if label is not None},
            pins={path: space for path, space in {**self.pins, **pins}.items() if space is not None},
        )

    def linked(self, place: "ProjectMemory", space: str, /) -> "RepositoryRegistry":
        """Return a copy in which the folder's keys belong to the project in `space`."""
        keys = {name: key.model_copy(update={"space": space}) for name, key in place.keys.items()}
        return self.changed(keys=keys, labels={space: self.labels.get(space, place.label)})

    def without(self, space: str, /) -> "RepositoryRegistry":
        """Return a copy without one project, including its keys and pins."""
        return self.changed(
            keys={name: None for name, key in self.keys.items() if key.space == space},
            labels={space: None},
            pins={path: None for path, other in self.pins.items() if other == space},
        )


class ProjectMemory(Value):
    """A folder's memory: the person's space and, if the folder belongs to a project, the project and its space."""

    person: str
    repository: ProjectIdentity | None = None
    space: str | None = None
    label: str = ""
    keys: dict[str, ProjectKey] = {}
    """Keys that link the folder to the project."""
    parent: str | None = None
    """Space of the repository that contains this submodule."""
    other_path: str = ""
    """Last path of the project, set if only the origin matches this folder's: one of the two origins may be forged."""

    @property
    def spaces(self) -> tuple[str, ...]:
        """Return the spaces to read for the folder. Writes go to the first one."""
        return tuple(space for space in (self.space, self.parent, self.person) if space is not None)

    @property
    def notice(self) -> str:
        """Return a warning for the person about the folder's memory, or an empty string."""
        return _OTHER_HISTORY.format(label=self.label, path=self.other_path) if self.other_path else ""


async def read_registry(memory: MemoryFace, person: str, /) -> RepositoryRegistry:
    """Read the registry from the person's space. Raises Unsupported if the memory is on a server."""
    registry, _ = await _read_record(records_of(memory, scope=Scope(space=person)))
    return registry


async def change_registry(
    memory: MemoryFace, person: str, change: Callable[[RepositoryRegistry], RepositoryRegistry], /
) -> RepositoryRegistry:
    """Apply `change` to the registry, store the result if it differs, and return it.

    Raises PreconditionFailed if concurrent changes win every attempt.
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
    """Return a folder's memory. Reads and writes both use this rule."""
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
    """Return the project's last path if it is another place with the same origin but a different history, else ""."""
    stored = registry.keys.get(repository.space)
    if key is None or stored is None or repository.source is not ProjectSource.ORIGIN:
        return ""
    is_other = stored.path != key.path and bool(stored.root) and stored.root != key.root
    return stored.path if is_other else ""


async def note_project(memory: MemoryRuntime, place: ProjectMemory, /) -> None:
    """Register the keys, label and path of a project that is written to, if the registry lacks them."""
    space = place.space
    if space is not None and not place.keys.items() <= (await read_registry(memory, place.person)).keys.items():
        await change_registry(memory, place.person, lambda registry: registry.linked(place, space))


async def _space_of(
    memory: MemoryRuntime, registry: RepositoryRegistry, repository: ProjectIdentity
) -> tuple[str, dict[str, ProjectKey]]:
    """Return the space of a repository's project and the keys that link the repository to it.

    A former key of the folder counts while the first commit is unchanged. A new key belongs to the project that had the
    same first commit at this path, because then the origin was added or changed.
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
        # Without an origin and a readable first commit, the path is the only evidence.
        is_place_alone = root is None and repository.source is ProjectSource.PATH
        same = (key for key in registry.keys.values() if key.path == path)
        there = next((key for key in same if is_place_alone or (root and key.root == root)), None)
        # A moved project keeps its space, so a new project at its old path needs another one.
        is_taken = any(key.space == own for key in registry.keys.values())
        space = there.space if there is not None else space_name(f"again:{own}") if is_taken else own
    return space, {own: ProjectKey(space=space, path=path, root=root)}


async def _read_record(records: RuntimeRecords) -> tuple[RepositoryRegistry, int]:
    record = await records.get(*_NAME)
    if record is None:
        return RepositoryRegistry(), 0
    return RepositoryRegistry.model_validate(record.value), record.version
