"""Determine which project a folder belongs to. Hooks, imports, MCP servers and commands all use this rule.

Clones, worktrees, subfolders and copies with the same history are one project. The answer depends only on Git's files
and the path, never on a file that the repository contains.
"""

import hashlib
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from enum import StrEnum
from pathlib import Path
from types import MappingProxyType
from typing import Final, NamedTuple

from elytron_assistants.git_files import GitPlace, git_place, origin_of, root_commit
from elytron_core import limits
from elytron_core.model import Value

START_VARIABLES: Final = ("CLAUDE_PROJECT_DIR", "GEMINI_PROJECT_DIR", "CURSOR_PROJECT_DIR")
"""Environment variables in which assistants pass the session's start folder."""
_HOST_FOLDERS: Final = (".claude", ".codex", ".cursor", ".gemini")
"""Assistants' folders in the home folder. Anything in them that is not under Git is no project."""
_SCRATCH: Final = "scratchpad"
_MANIFESTS: Final = (
    *("package.json", "pyproject.toml", "setup.py", "Cargo.toml", "go.mod", "pom.xml", "build.gradle"),
    *("build.gradle.kts", "composer.json", "Gemfile", "mix.exs", "pubspec.yaml", "deno.json", "Package.swift"),
)
"""Files that mark a folder as a package of its repository."""


class ProjectSource(StrEnum):
    """What a project's key is derived from."""

    PIN = "pin"
    """A path that the user pinned."""
    ORIGIN = "origin"
    """The remote `origin`, without credentials."""
    ROOT = "root_commit"
    """The first commit, if there is no network origin."""
    PATH = "git_folder"
    """The path of the git directory, if there are no commits or the history is shallow or unreadable."""
    FOLDER = "folder"
    """The path of a folder without Git."""


class ProjectIdentity(Value):
    """A folder's project. `space` is both its key and the name of its space: a digest that reveals nothing."""

    space: str
    source: ProjectSource
    label: str
    path: str
    """Path of the git directory shared by all worktrees, or of the folder."""
    root: str | None = None
    """First commit: empty if there is none, None if it is unreadable or was not read because there is an origin."""
    former: tuple[str, ...] = ()
    """Keys from before the folder had commits or from earlier versions, newest first."""
    package: str | None = None
    """Repository path of the package that contains the folder."""
    parent: "ProjectIdentity | None" = None
    """The repository that contains this submodule."""

    @property
    def tags(self) -> tuple[str, ...]:
        """Return the tags for memories stored from the folder."""
        return () if self.package is None else (f"package:{self.package}"[: limits.NAME_CHARS].strip(),)


def repository_of(
    folder: Path, /, *, pins: Mapping[str, str] = MappingProxyType({}), cwd: Path | None = None
) -> ProjectIdentity | None:
    """Return the project of `folder`, or None for personal places: home, temporary and scratch folders.

    The longest matching pin wins; `pins` maps paths to spaces. If the folder no longer exists, its nearest existing
    parent is used. The package is that of `cwd` if `cwd` is in the same working copy.
    """
    existing_folder = _existing_folder(folder)
    pinned_path = max((path for path in pins if existing_folder.is_relative_to(path)), key=len, default=None)
    if pinned_path is not None:
        return ProjectIdentity(
            space=pins[pinned_path], source=ProjectSource.PIN, label=_label_of(Path(pinned_path)), path=pinned_path
        )
    git = working_copy(existing_folder)
    if git is not None:
        return _git_repository(git, _existing_folder(cwd or folder), pins)
    hosts = (Path.home().resolve() / name for name in _HOST_FOLDERS)
    if (
        existing_folder in _shared_folders()
        or _SCRATCH in existing_folder.parts
        or any(map(existing_folder.is_relative_to, hosts))
    ):
        return None
    return ProjectIdentity(
        space=space_name(f"path:{existing_folder}"),
        source=ProjectSource.FOLDER,
        label=_label_of(existing_folder),
        path=str(existing_folder),
    )


def session_folder(cwd: str, /, *, roots: Sequence[str] = (), environment: Mapping[str, str]) -> Path | None:
    """Return the session's start folder as reported by its host, or `cwd`, which commands may have changed.

    A start folder that no longer exists counts only if `cwd` does not exist either. It is ignored if `cwd` is elsewhere
    and inside a repository, because the variable may come from another assistant whose terminal started this one.
    """
    paths = (*roots[:1], *(environment.get(name, "") for name in START_VARIABLES), cwd)
    folders = [Path(path) for path in paths if path and Path(path).is_absolute()]
    if not folders:
        return None
    start_folder, current_folder = next((folder for folder in folders if folder.is_dir()), folders[0]), folders[-1]
    has_left_start = current_folder.is_dir() and not current_folder.resolve().is_relative_to(start_folder.resolve())
    return current_folder if has_left_start and working_copy(current_folder.resolve()) is not None else start_folder


def working_copy(place: Path, /) -> GitPlace | None:
    """Return the working copy that contains `place`, or None. `place` must be free of symbolic links."""
    shared_folders = _shared_folders()
    top_folders = (each for each in (place, *place.parents) if each not in shared_folders)
    return next((git for top_folder in top_folders if (git := git_place(top_folder)) is not None), None)


def space_name(identity: str, /) -> str:
    """Return the space name of an identity. It is a digest because other users of the store can see space names."""
    return f"project-{hashlib.blake2b(identity.encode('utf-8', 'surrogateescape'), digest_size=6).hexdigest()}"


class _IdentityParts(NamedTuple):
    text: str
    source: ProjectSource
    label: str
    root: str | None = None
    former: tuple[str, ...] = ()


def _git_repository(git: GitPlace, folder: Path, pins: Mapping[str, str]) -> ProjectIdentity:
    parent = repository_of(git.top.parent, pins=pins) if git.is_submodule else None
    identity = _identity_of(git)
    return ProjectIdentity(
        space=space_name(identity.text),
        source=identity.source,
        label=identity.label,
        path=str(git.common),
        root=identity.root,
        former=identity.former,
        package=_package_of(git.top, folder),
        parent=parent,
    )


def _identity_of(git: GitPlace) -> _IdentityParts:
    origin = origin_of(git.common, parent=_parent_origin(git))
    if origin is not None:
        # Two path components distinguish projects of one owner and forks of one project.
        label = "/".join(origin.split("/")[1:][-2:]) or origin
        return _IdentityParts(f"git:{origin}", ProjectSource.ORIGIN, label[: limits.NAME_CHARS].strip())
    root, label = root_commit(git.common), _label_of(git.common)
    own_key, folder = f"path:{git.common}", space_name(f"path:{git.top}")
    if root:
        return _IdentityParts(f"root:{root}", ProjectSource.ROOT, label, root, (space_name(own_key), folder))
    return _IdentityParts(own_key, ProjectSource.PATH, label, root, (folder,))


def _parent_origin(git: GitPlace) -> str | None:
    """Return the origin of the repository that contains a submodule; None for other repositories."""
    if not git.is_submodule:
        return None
    enclosing_copy = working_copy(git.top.parent)
    return (
        origin_of(enclosing_copy.common, parent=_parent_origin(enclosing_copy)) if enclosing_copy is not None else None
    )


def _label_of(path: Path) -> str:
    folder = path.parent if path.name == ".git" else path
    return (folder.name.removesuffix(".git") or str(folder))[: limits.NAME_CHARS].strip()


def _package_of(top: Path, folder: Path) -> str | None:
    """Return the nearest folder with a manifest between `folder` and `top`, excluding `top`; None if there is none."""
    if not folder.is_relative_to(top):
        return None
    inner_folders: Iterable[Path] = (
        each for each in (folder, *folder.parents) if each != top and each.is_relative_to(top)
    )
    package = next((each for each in inner_folders if any((each / name).is_file() for name in _MANIFESTS)), None)
    return package.relative_to(top).as_posix() if package is not None else None


def _shared_folders() -> frozenset[Path]:
    """Return folders that hold many projects. A repository at one of them does not claim these projects."""
    home_folder, temporary_folder = Path.home().resolve(), Path(tempfile.gettempdir()).resolve()
    usual_folders = (Path("/tmp"), Path("/var/tmp"))  # noqa: S108 - only compared
    return frozenset(
        (
            home_folder,
            temporary_folder,
            Path(home_folder.anchor),
            *(home_folder / name for name in _HOST_FOLDERS),
            *usual_folders,
        )
    )


def _existing_folder(folder: Path) -> Path:
    """Return the folder, or its nearest existing parent, with symbolic links resolved."""
    existing_parent = folder.absolute()
    while not existing_parent.is_dir() and existing_parent != existing_parent.parent:
        existing_parent = existing_parent.parent
    return existing_parent.resolve()
