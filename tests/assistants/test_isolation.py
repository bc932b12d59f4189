"""Whatever becomes of repositories on a disk, related places share one memory and unrelated ones share nothing."""

import shutil
from collections.abc import Callable
from pathlib import Path
from random import Random

import pytest
from tests.assistants.test_project_identity import git, repository

import elytron
from elytron.runtime import MemoryRuntime
from elytron_assistants.project_registry import project_memory
from elytron_assistants.tiers import write_tiers
from elytron_core.contracts.memories import MemoryListRequest
from elytron_core.contracts.transcript import MemoryWriteRequest, TranscriptWrite, TurnDraft
from elytron_core.evidence import EvidenceRole
from elytron_core.planes.transcript import Message
from elytron_core.scope import Scope

pytestmark = pytest.mark.anyio
STEPS = 14


class Disk:
    """Folders on a disk, each with the number of the project that it is of."""

    def __init__(self, folder: Path, random: Random) -> None:
        self._folder = folder
        self._random = random
        self._count = 0
        self.projects: dict[Path, int] = {}
        self._origins: dict[int, str | None] = {}
        self._fixed: set[Path] = set()
        """Places that others point to, so that they are not moved."""
        self.parents: dict[Path, Path] = {}

    def step(self) -> None:
        """Do one thing that people do to repositories."""
        made: tuple[Callable[[], None], ...] = (self._make, self._folder_without_git)
        derived = (self._worktree, self._clone, self._shallow, self._fork, self._copy, self._rename, self._package)
        self._random.choice((*made, *derived, self._submodule) if self._clones() else made[:1])()

    def _clones(self) -> list[Path]:
        return [place for place in self.projects if (place / ".git").is_dir()]

    def _new(self) -> Path:
        self._count += 1
        # Equal names say nothing.
        return self._folder / str(self._count) / self._random.choice(("shop", "app"))

    def _any(self) -> Path:
        return self._random.choice(self._clones())

    def _origin(self) -> str | None:
        return self._random.choice((None, f"git@github.com:acme/{self._count}.git"))

    def _make(self) -> None:
        place, project = self._new(), len(self._origins)
        self._origins[project] = self._origin()
        repository(place, origin=self._origins[project], commits=self._random.randint(1, 3))
        if self._random.random() < 0.4:
            git(place, "gc", "-q")
        self.projects[place] = project

    def _folder_without_git(self) -> None:
        place = self._new()
        place.mkdir(parents=True)
        self._origins[len(self._origins)] = None
        self.projects[place] = len(self._origins) - 1

    def _worktree(self) -> None:
        source, place = self._any(), self._new()
        place.parent.mkdir(parents=True)
        git(source, "worktree", "add", "-q", "-b", f"b{self._count}", str(place))
        self._fixed.add(source)
        self.projects[place] = self.projects[source]

    def _cloned(self, *options: str) -> tuple[Path, Path]:
        source, place = self._any(), self._new()
        git(self._folder, "clone", "-q", *options, f"file://{source}", str(place))
        origin = self._origins[self.projects[source]]
        git(place, "remote", *(("set-url", "origin", origin) if origin is not None else ("remove", "origin")))
        return source, place

    def _clone(self, *options: str) -> None:
        source, place = self._cloned(*options)
        project = self.projects[source]
        if self._origins[project] is None and (place / ".git" / "shallow").exists():
            # Nothing says what its history began with, so it is its own project, and so is each clone of it.
            project = len(self._origins)
            self._origins[project] = None
            self._fixed.add(place)
        self.projects[place] = project

    def _shallow(self) -> None:
        self._clone("--depth", "1")

    def _fork(self) -> None:
        _, place = self._cloned()
        project = len(self._origins)
        self._origins[project] = f"https://gitlab.com/ada/{project}"
        verb = "set-url" if "origin" in git(place, "remote").split() else "add"
        git(place, "remote", verb, "origin", f"https://gitlab.com/ada/{project}")
        self.projects[place] = project

    def _copy(self) -> None:
        source, place = self._any(), self._new()
        if source in self._fixed:
            return
        shutil.copytree(source, place)
        self.projects[place] = self.projects[source]

    def _rename(self) -> None:
        source, place = self._any(), self._new()
        if source in self._fixed:
            return
        place.parent.mkdir(parents=True)
        source.rename(place)
        moved = [each for each in self.projects if each.is_relative_to(source)]
        for each in moved:
            self.projects[place / each.relative_to(source)] = self.projects.pop(each)
            if each in self.parents:
                self.parents[place / each.relative_to(source)] = place
                del self.parents[each]

    def _package(self) -> None:
        source = self._any()
        package = source / "packages" / f"p{self._count}"
        package.mkdir(parents=True, exist_ok=True)
        (package / "package.json").write_text("{}")
        self.projects[package] = self.projects[source]

    def _submodule(self) -> None:
        source, parent = self._any(), self._any()
        place = parent / "vendor" / f"v{self._count}"
        if self.projects[source] == self.projects[parent] or source in self._fixed or place.exists():
            return
        git(parent, "submodule", "add", "-q", str(source), place.relative_to(parent).as_posix())
        self._fixed.add(parent)
        if (origin := self._origins[self.projects[source]]) is not None:
            git(place, "remote", "set-url", "origin", origin)
        self.projects[place] = self.projects[source]
        self.parents[place] = parent


async def keep(memory: MemoryRuntime, place: Path, words: str) -> str:
    """Store a turn as a hook in the folder does, and return the space that it is in."""
    turn = TurnDraft(messages=(Message(role=EvidenceRole.USER, text=words),))
    request = MemoryWriteRequest(scope=Scope(space="any"), write=TranscriptWrite(turns=(turn,)))
    home = await project_memory(memory, place)
    await write_tiers(memory, memory.operate, request, home)
    return home.spaces[0]


async def words_at(memory: MemoryRuntime, place: Path) -> set[str]:
    """Return all that a hook in the folder may show."""
    texts: set[str] = set()
    for space in (await project_memory(memory, place)).spaces:
        texts |= {hit.text for hit in await memory.operate(MemoryListRequest(scope=Scope(space=space)))}
    return texts


@pytest.mark.parametrize("seed", range(6))
async def test_related_places_share_a_memory_and_unrelated_ones_nothing(seed: int, tmp_path: Path) -> None:
    disk = Disk(tmp_path, Random(seed))
    async with elytron.open("memory:") as memory:
        for _ in range(STEPS):
            disk.step()
            place, project = list(disk.projects.items())[-1]
            await keep(memory, place, f"The word of project {project} is {project}.")
        spaces = {place: (await project_memory(memory, place)).spaces[0] for place in disk.projects}
        pairs = {(spaces[place], number) for place, number in disk.projects.items()}
        assert len(pairs) == len(set(spaces.values())) == len(set(disk.projects.values()))
        for place, number in disk.projects.items():
            numbers = {number} | ({disk.projects[disk.parents[place]]} if place in disk.parents else set[int]())
            words = await words_at(memory, place)
            assert f"The word of project {number} is {number}." in words
            assert words <= {f"The word of project {each} is {each}." for each in numbers}
