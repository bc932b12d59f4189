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
        surplus_names = [name for name, key in merged.items() if name == key.space][: max(len(merged) - KEYS_KEPT, 0)]
        return RepositoryRegistry(
            keys={name: key for name, key in merged.items() if name not in surplus_names},
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
    remaining_tries = _TRIES
    while True:
        previous_registry, version = await _read_record(records)
        changed_registry = change(previous_registry)
        if changed_registry == previous_registry:
            return previous_registry
        try:
            await records.put(
                *_NAME, changed_registry.model_dump(mode="json", exclude_defaults=True), expected_version=version
            )
        except PreconditionFailed:
            remaining_tries -= 1
            if not remaining_tries:
                raise
        else:
            return changed_registry


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
    parent_space = await _space_of(memory, registry, repository.parent) if repository.parent is not None else None
    return ProjectMemory(
        person=person,
        repository=repository,
        space=space,
        label=registry.labels.get(space, repository.label),
        keys=keys,
        parent=parent_space[0] if parent_space is not None else None,
        other_path=_other_path(registry, repository, keys.get(repository.space)),
    )


def _other_path(registry: RepositoryRegistry, repository: ProjectIdentity, key: ProjectKey | None) -> str:
    """Return the project's last path if it is another place with the same origin but a different history, else ""."""
    stored_key = registry.keys.get(repository.space)
    if key is None or stored_key is None or repository.source is not ProjectSource.ORIGIN:
        return ""
    is_other_project = stored_key.path != key.path and bool(stored_key.root) and stored_key.root != key.root
    return stored_key.path if is_other_project else ""


async def note_project(memory: MemoryRuntime, project_place: ProjectMemory, /) -> None:
    """Register the keys, label and path of a project that is written to, if the registry lacks them."""
    space = project_place.space
    if (
        space is not None
        and not project_place.keys.items() <= (await read_registry(memory, project_place.person)).keys.items()
    ):
        await change_registry(memory, project_place.person, lambda registry: registry.linked(project_place, space))


async def _space_of(
    memory: MemoryRuntime, registry: RepositoryRegistry, repository: ProjectIdentity
) -> tuple[str, dict[str, ProjectKey]]:
    """Return the space of a repository's project and the keys that link the repository to it.

    A former key of the folder counts while the first commit is unchanged. A new key belongs to the project that had the
    same first commit at this path, because then the origin was added or changed.
    """
    if repository.source is ProjectSource.PIN:
        return repository.space, {}
    own_space, path, root = repository.space, repository.path, repository.root
    stored_key = registry.keys.get(own_space)
    for name in repository.former:
        former_key = registry.keys.get(name)
        if former_key is None and await memory.context.spaces.find(SpaceId(name)) is None:
            continue
        if former_key is None or former_key.root in {*_NO_ROOT, root}:
            key = ProjectKey(space=former_key.space if former_key is not None else name, path=path, root=root)
            return key.space, {name: key} | (
                {own_space: key} if stored_key is None or stored_key.space == key.space else {}
            )
    if stored_key is not None and stored_key.path == path:
        return stored_key.space, {own_space: stored_key}
    if repository.source is ProjectSource.ORIGIN:
        root = root_commit(Path(path))
    if stored_key is not None:
        space = stored_key.space
    else:
        # Without an origin and a readable first commit, the path is the only evidence.
        has_only_path = root is None and repository.source is ProjectSource.PATH
        same_path_keys = (key for key in registry.keys.values() if key.path == path)
        moved_key = next((key for key in same_path_keys if has_only_path or (root and key.root == root)), None)
        # A moved project keeps its space, so a new project at its old path needs another one.
        is_space_in_use = any(key.space == own_space for key in registry.keys.values())
        space = (
            moved_key.space
            if moved_key is not None
            else space_name(f"again:{own_space}")
            if is_space_in_use
            else own_space
        )
    return space, {own_space: ProjectKey(space=space, path=path, root=root)}


async def _read_record(records: RuntimeRecords) -> tuple[RepositoryRegistry, int]:
    record = await records.get(*_NAME)
    if record is None:
        return RepositoryRegistry(), 0
    return RepositoryRegistry.model_validate(record.value), record.version
