"""The project of a folder: the same for clones, worktrees, copies, and subfolders, and different for any other."""

import os
import shutil
import subprocess
from itertools import count
from pathlib import Path

import pytest

from elytron_assistants import git_files
from elytron_assistants.git_files import network_origin, root_commit
from elytron_assistants.project_identity import (
    START_VARIABLES,
    ProjectIdentity,
    ProjectSource,
    repository_of,
    session_folder,
    space_name,
)

GIT = shutil.which("git")
_HISTORIES = count()


def git(folder: Path, *arguments: str) -> str:
    if GIT is None:
        pytest.skip("git is not installed")
    who = ("-c", "user.name=Ada", "-c", "user.email=ada@example.com", "-c", "protocol.file.allow=always")
    settings = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
    made = subprocess.run([GIT, *who, *arguments], cwd=folder, check=True, capture_output=True, text=True, env=settings)
    return made.stdout.strip()


def commit(folder: Path, message: str) -> None:
    git(folder, "commit", "-q", "--allow-empty", "-m", message)


def repository(folder: Path, *, origin: str | None = None, commits: int = 1) -> Path:
    """Create a repository with a unique history."""
    folder.mkdir(parents=True)
    git(folder, "init", "-q", "-b", "main")
    for number in range(commits):
        commit(folder, f"{next(_HISTORIES)} {number}")
    if origin is not None:
        git(folder, "remote", "add", "origin", origin)
    return folder


def project(folder: Path) -> ProjectIdentity:
    found = repository_of(folder)
    assert found is not None
    return found


def space(folder: Path) -> str:
    return project(folder).space


SAME = (
    "git@github.com:Acme/shop.git",
    "https://github.com/acme/shop",
    "https://ada:s3cret@github.com/acme/shop.git/",
    "https://github.com/acme/shop.git?ref=main",
    "ssh://git@github.com:22/acme/shop.git",
    "git://github.com/acme/shop.git",
)


def test_all_forms_of_an_address_are_the_same_origin() -> None:
    assert {network_origin(url) for url in SAME} == {"github.com/acme/shop"}


def test_other_hosts_ports_and_paths_are_other_origins() -> None:
    urls = (
        "git@git.acme.example:Shop.git",
        "git@git.acme.example:shop.git",
        "ssh://git@git.acme.example:2222/shop.git",
    )
    assert len({network_origin(url) for url in urls}) == 3


@pytest.mark.parametrize(
    "url", ["", "/srv/git/shop.git", "../shop", "file:///srv/shop.git", "C:/git/shop", "http://[x/"]
)
def test_a_local_path_is_not_a_remote(url: str) -> None:
    assert network_origin(url) is None


def test_clones_worktrees_and_subfolders_share_a_project(tmp_path: Path) -> None:
    main = repository(tmp_path / "main", origin=SAME[0])
    (main / "packages" / "web").mkdir(parents=True)
    git(main, "worktree", "add", "-q", str(tmp_path / "worktree"))
    git(tmp_path, "clone", "-q", "--depth", "1", f"file://{main}", "shallow")
    git(tmp_path / "shallow", "remote", "set-url", "origin", SAME[3])
    clone = repository(tmp_path / "clone", origin=SAME[2])
    (tmp_path / "link").symlink_to(main)
    git(tmp_path, "clone", "-q", "--bare", str(main), "bare.git")
    git(tmp_path / "bare.git", "remote", "set-url", "origin", SAME[1])
    git(tmp_path / "bare.git", "worktree", "add", "-q", str(tmp_path / "of-bare"))
    places = (main, main / "packages" / "web", tmp_path / "worktree", clone, tmp_path / "link", main / "gone" / "deep")
    assert {space(place) for place in (*places, tmp_path / "shallow", tmp_path / "of-bare")} == {
        space_name("git:github.com/acme/shop")
    }
    assert project(main).label == "acme/shop"


def test_existing_spaces_of_origins_and_folders_keep_their_names(tmp_path: Path) -> None:
    (tmp_path / "notes").mkdir()
    assert space(repository(tmp_path / "shop", origin=SAME[0])) == "project-11d2ab87f09e"
    assert space(tmp_path / "notes") == space_name(f"path:{tmp_path / 'notes'}")


@pytest.mark.parametrize("commits", [1, 3])
@pytest.mark.parametrize("is_packed", [False, True])
def test_without_a_remote_the_first_commit_is_the_project(tmp_path: Path, commits: int, is_packed: bool) -> None:
    one, other = repository(tmp_path / "one" / "shop", commits=commits), repository(tmp_path / "other" / "shop")
    first = git(one, "rev-list", "--max-parents=0", "HEAD")
    if is_packed:
        git(one, "gc", "-q")
    git(one, "worktree", "add", "-q", str(tmp_path / "worktree"))
    git(tmp_path, "clone", "-q", str(one), "clone")
    moved = one.rename(tmp_path / "moved")
    assert {space(place) for place in (moved, tmp_path / "clone")} == {space_name(f"root:{first}")}
    assert space(other) != space(moved)
    assert project(moved).source is ProjectSource.ROOT


def test_a_merged_history_is_not_the_first_commit(tmp_path: Path) -> None:
    library, shop = repository(tmp_path / "library"), repository(tmp_path / "shop", commits=2)
    before = space(shop)
    git(shop, "fetch", "-q", str(library), "main")
    git(shop, "merge", "-q", "--allow-unrelated-histories", "-m", "merge", "FETCH_HEAD")
    commit(shop, "later")
    assert space(shop) == before != space(library)


@pytest.mark.parametrize("kind", ["no commits", "shallow"])
def test_without_a_whole_history_the_git_directory_is_the_project(tmp_path: Path, kind: str) -> None:
    main = repository(tmp_path / "main", commits=2)
    if kind == "shallow":
        git(tmp_path, "clone", "-q", "--depth", "1", f"file://{main}", "part")
    else:
        (tmp_path / "part").mkdir()
        git(tmp_path / "part", "init", "-q")
    part = project(tmp_path / "part")
    assert (part.source, part.root) == (ProjectSource.PATH, "")
    assert part.space == space_name(f"path:{tmp_path / 'part' / '.git'}")


def test_a_packed_history_needs_the_git_program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    loose, packed = repository(tmp_path / "loose"), repository(tmp_path / "packed")
    git(packed, "gc", "-q")
    monkeypatch.setenv("PATH", "")
    assert project(loose).source is ProjectSource.ROOT
    assert (project(packed).source, project(packed).root) == (ProjectSource.PATH, None)


def test_a_slow_git_program_does_not_block(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    packed = repository(tmp_path / "packed")
    git(packed, "gc", "-q")
    assert root_commit(packed / ".git")
    monkeypatch.setattr(git_files, "PROGRAM_S", 0.0)
    assert root_commit(packed / ".git") is None


def test_a_repository_cannot_start_a_program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    packed = repository(tmp_path / "packed")
    git(packed, "gc", "-q")
    (packed / "git").write_text(f"#!/bin/sh\ntouch {tmp_path / 'started'}\n")
    (packed / "git").chmod(0o755)
    monkeypatch.setenv("PATH", str(packed), prepend=os.pathsep)
    monkeypatch.chdir(packed)
    assert root_commit(packed / ".git") is None
    assert not (tmp_path / "started").exists()


def test_a_submodule_is_a_project_that_also_reads_its_parent(tmp_path: Path) -> None:
    library, main = repository(tmp_path / "library"), repository(tmp_path / "main", origin=SAME[0])
    git(main, "submodule", "add", "-q", str(library), "vendor/library")
    inner = project(main / "vendor" / "library")
    assert inner.parent is not None
    assert inner.parent.space == space(main)
    assert inner.space == space(library) != space(main)
    git(main / "vendor" / "library", "remote", "set-url", "origin", "../library.git")
    assert space(main / "vendor" / "library") == space_name("git:github.com/acme/library")


def test_a_package_of_a_monorepo_is_a_tag(tmp_path: Path) -> None:
    main = repository(tmp_path / "main")
    web = main / "packages" / "web"
    (web / "src").mkdir(parents=True)
    (web / "package.json").write_text("{}")
    (main / "package.json").write_text("{}")
    assert [repository_of(place).tags for place in (main, web, web / "src")] == [  # pyright: ignore[reportOptionalMemberAccess]
        (),
        ("package:packages/web",),
        ("package:packages/web",),
    ]
    started_above = repository_of(main, cwd=web / "src")
    assert started_above is not None
    assert started_above.package == "packages/web"
    assert space(web) == space(main)


def test_an_upstream_does_not_merge_forks(tmp_path: Path) -> None:
    fork = repository(tmp_path / "fork", origin="git@github.com:ada/shop.git")
    git(fork, "remote", "add", "upstream", SAME[0])
    assert space(fork) == space_name("git:github.com/ada/shop")


def test_variables_of_a_git_hook_do_not_mislead(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    one, other = repository(tmp_path / "one"), repository(tmp_path / "other")
    git(one, "gc", "-q")
    before = space(one)
    monkeypatch.setenv("GIT_DIR", str(other / ".git"))
    monkeypatch.setenv("GIT_WORK_TREE", str(other))
    assert space(one) == before


def test_a_folder_without_git_is_its_own_project_unless_it_is_shared(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home, temporary = tmp_path / "home", tmp_path / "temporary"
    inner = (home / ".claude" / "plans", temporary / "session" / "scratchpad" / "x")
    for folder in (home / "notes", temporary / "scratch", *inner):
        folder.mkdir(parents=True)
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.setattr("tempfile.tempdir", str(temporary))
    assert [repository_of(place) for place in (home, temporary, Path(home.anchor), *inner)] == [None] * 5
    assert space(home / "notes") != space(temporary / "scratch")
    git(home, "init", "-q")
    assert repository_of(home) is None
    assert project(home / "notes").source is ProjectSource.FOLDER
    assert repository_of(home / "gone" / "deep") is None


@pytest.mark.parametrize("content", ["", "gitdir: /nowhere/at/all", "not a pointer", "gitdir:"])
def test_a_broken_pointer_to_a_git_directory_raises_nothing(tmp_path: Path, content: str) -> None:
    (tmp_path / ".git").write_text(content, "utf-8")
    assert space(tmp_path).startswith("project-")


@pytest.mark.parametrize("kind", ["file", "link", "own pointers", "settings"])
def test_a_pointer_to_another_repository_gives_no_access_to_its_memory(tmp_path: Path, kind: str) -> None:
    other, forged = repository(tmp_path / "other", origin=SAME[0]), tmp_path / "forged"
    git(other, "worktree", "add", "-q", str(tmp_path / "worktree"))
    own = forged / "own"
    own.mkdir(parents=True)
    target = own if kind in {"own pointers", "settings"} else other / ".git"
    (own / "gitdir").write_text(str(forged / ".git"), "utf-8")
    (own / "config").write_text(f"[core]\n\tworktree = {forged}\n", "utf-8")
    if kind == "own pointers":
        (own / "commondir").write_text(str(other / ".git"), "utf-8")
    if kind == "link":
        (forged / ".git").symlink_to(target)
    else:
        (forged / ".git").write_text(f"gitdir: {target}\n", "utf-8")
    worktree_pointer = (tmp_path / "worktree" / ".git").read_text("utf-8")
    assert space(forged) not in {space(other), space_name(f"path:{other / '.git'}")}
    (forged / ".git").unlink()
    (forged / ".git").write_text(worktree_pointer, "utf-8")
    assert project(forged).source is ProjectSource.FOLDER
    assert space(tmp_path / "worktree") == space(other)


def test_a_pipe_instead_of_a_file_does_not_block(tmp_path: Path) -> None:
    if not hasattr(os, "mkfifo"):
        return  # this system has no named pipes
    os.mkfifo(tmp_path / ".git")
    assert project(tmp_path).source is ProjectSource.FOLDER


@pytest.mark.parametrize("head", ["", "ref: refs/heads/../../../etc/passwd", "ref:", "0" * 40, "\x00"])
def test_a_broken_head_raises_nothing(tmp_path: Path, head: str) -> None:
    main = repository(tmp_path / "main")
    (main / ".git" / "HEAD").write_text(head, "utf-8")
    assert project(main).source is ProjectSource.PATH


def test_the_longest_pin_takes_precedence(tmp_path: Path) -> None:
    main = repository(tmp_path / "main", origin=SAME[0])
    (main / "inner").mkdir()
    pins = {str(main): "a", str(main / "inner"): "b"}
    found = [repository_of(place, pins=pins) for place in (main, main / "inner", tmp_path / "main2")]
    assert [each.space for each in found[:2] if each is not None] == ["a", "b"]
    assert found[2] is None or found[2].source is not ProjectSource.PIN


def test_files_in_the_repository_decide_nothing(tmp_path: Path) -> None:
    main = repository(tmp_path / "main")
    before = space(main)
    for name in ("elytron.toml", ".elytron", ".gitconfig", ".gitmodules"):
        (main / name).write_text('space = "other"\n[remote "origin"]\n\turl = git@github.com:acme/secret.git\n')
    assert space(main) == before


@pytest.mark.parametrize("variable", START_VARIABLES)
def test_a_session_belongs_to_the_folder_that_it_started_in(tmp_path: Path, variable: str) -> None:
    start, other = tmp_path / "start", tmp_path / "other"
    (start / "inner").mkdir(parents=True)
    other.mkdir()
    environment = {variable: str(start)}
    for cwd in (start / "inner", other, start / "gone", tmp_path / "gone"):
        assert session_folder(str(cwd), environment=environment) == start
    assert session_folder(str(other), roots=(str(start),), environment={}) == start
    assert session_folder(str(other), environment={variable: str(tmp_path / "gone")}) == other
    assert session_folder("", environment={}) is None
    # Another assistant's session in whose terminal this one runs.
    assert session_folder(str(repository(tmp_path / "repository")), environment=environment) == tmp_path / "repository"


def test_a_deleted_worktree_is_the_nearest_folder_above_or_the_start(tmp_path: Path) -> None:
    main = repository(tmp_path / "main")
    worktree = main / ".worktrees" / "one"
    git(main, "worktree", "add", "-q", str(worktree))
    assert space(worktree) == space(main)
    git(main, "worktree", "remove", str(worktree))
    assert space(worktree) == space(main)
    start = session_folder(str(tmp_path / "elsewhere" / "gone"), environment={START_VARIABLES[0]: str(main)})
    assert start is not None
    assert space(start) == space(main)
